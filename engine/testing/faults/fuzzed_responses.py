"""Changes the streams of models, and checks that a provider turns each into a response or a `ProviderError`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from ...decision import (
    AnyChunk,
    Assembler,
    FinishReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
    WrongUse,
)
from ...decision.wrong_calls import explained
from ...providers import ProviderError
from ...providers.event_stream import EventStream, is_json
from ...providers.http_provider import HTTPProvider
from ..wires import WIRES, WireFormat
from .fuzzed_inputs import check_fuzzed_inputs
from .violations import FaultReport, Points


@explained
def check_fuzzed_responses(
    provider: HTTPProvider,
    examples: Sequence[bytes] = (),
    *,
    points: Points = 2_000,
    seed: int = 0,
    seconds: float | None = None,
    slowest: float = 5.0,
    memory: int = 500_000_000,
) -> FaultReport:
    """Pass changed responses to a provider's parser, and check that each gives a response or a `ProviderError`.

    No socket is opened. Each input is parsed as a whole and in small blocks, which must give the same result.

    provider: `OpenAICompatible`, `OpenAIResponses`, `Anthropic`, `Gemini`, or a subclass of your own of one of them.
    examples: bodies of recorded responses, in addition to those made for the wire format.
    points, seed, seconds, slowest, memory: as for `check_fuzzed_inputs`, with the same errors for invalid values.

    Raises WrongUse for a provider of another kind: use `check_fuzzed_inputs` with its parser.
    """
    if not isinstance(provider, HTTPProvider):
        raise WrongUse(f"{provider!r} is not an HTTP provider of endstop: pass its parser to check_fuzzed_inputs")
    path = provider.url.partition("?")[0]
    bodies = [body for wire in WIRES if path.endswith(wire.path) for body in example_responses(wire)] + list(examples)

    def read(data: bytes) -> None:
        whole = read_response(provider.open_parser, [data])
        size = 1 + crc32(data) % 97
        pieces = read_response(provider.open_parser, [data[at : at + size] for at in range(0, len(data), size)])
        assert _same(whole, pieces), f"in one block it is {whole!r}, and in blocks of {size} bytes {pieces!r}"
        if isinstance(whole, ProviderError):
            raise whole

    report = check_fuzzed_inputs(
        read, bodies, ProviderError, points=points, seed=seed, seconds=seconds, slowest=slowest, memory=memory
    )
    report.name = "check_fuzzed_responses"
    return report


def read_response(open_parser: Callable[[], EventStream], blocks: Sequence[bytes]) -> Any:
    """Return the message, finish and usage that the engine reads from a body in these blocks, or a ProviderError."""
    parser, assembler = open_parser(), Assembler(1, "1.1", set())
    try:
        if blocks and is_json(blocks[0]):
            chunks = parser.read_whole(b"".join(blocks))
        else:
            chunks = []
            for block in blocks:
                chunks += parser.feed(block)
                if parser.done:
                    break
            chunks += parser.end()
    except ProviderError as error:
        return error
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler.message, assembler.finish, assembler.usage


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, ProviderError) or isinstance(other, ProviderError):
        return type(one) is type(other)
    return bool(one == other)


def example_responses(wire: WireFormat) -> list[bytes]:
    """Return whole responses in a wire format: text, reasoning, parallel calls and usage."""
    done = "completed" if wire.name == "responses" else "stop"
    used = Usage(input_tokens=120, output_tokens=34, cached_tokens=100)
    end: list[AnyChunk] = [FinishReport("stop", done), UsageReport(used)]
    text: list[AnyChunk] = [TextDelta("The port"), TextDelta(" is größer \N{PILE OF POO}"), TextDelta(" 8080.")]
    thought: list[AnyChunk] = [ReasoningDelta("Ports are"), ReasoningDelta(" numbers.")]
    parts = ('{"place": ', '"the cellar"}')
    calls: list[AnyChunk] = [ToolCallDelta(n, f"call_{n}", "look", part) for n in range(2) for part in parts]
    return [b"".join(wire.stream(says)) for says in (text + end, thought + text + calls + end, calls + end)]
