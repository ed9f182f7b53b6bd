"""`check_fuzzed_inputs` and `check_fuzzed_responses`: what we read stands changed inputs; planted defects are found.

`make faults` and `make fuzz` try a million inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from endstop import WrongUse
from endstop.decision import AnyChunk, TextDelta
from endstop.decision.finish_words import NO_WORDS
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses, Scripted
from endstop.providers.chat_stream import ChatStream
from endstop.providers.http_provider import HTTPProvider
from endstop.testing.faults import FaultReport, check_fuzzed_inputs, check_fuzzed_responses

from .fuzz_targets import targets

PROVIDERS = (
    OpenAICompatible("m", "http://127.0.0.1/v1"),
    OpenAIResponses("m", api_key="none"),
    Anthropic("m", api_key="none"),
    Gemini("m", api_key="none"),
)
SLOWEST = 1.0
"""Seconds of processor time that one input may take. The largest have about 100 kB."""
OF_RESPONSES = 110_000
"""Of a million inputs, for each provider."""
READERS = (
    "record", "session", "policy", "tools", "error reply", "request body", "AG-UI request", "spans", "proxied request",
    "proxied response", "events", "arguments", "texts", "redaction",
)  # fmt: skip


def assert_held(report: FaultReport, points: int) -> None:
    """All inputs were tried; some were read, and some not."""
    print(report)
    assert report.ok, report
    assert report.tried == points


@pytest.mark.parametrize("points", [400, pytest.param(OF_RESPONSES, marks=pytest.mark.long)])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: type(provider).__name__)
def test_a_changed_response_is_an_answer_or_a_providers_error(provider: HTTPProvider, points: int) -> None:
    report = check_fuzzed_responses(provider, points=points, slowest=SLOWEST)
    assert_held(report, points)
    assert 0 < report.ends["read"] < points


@pytest.mark.parametrize("thousandth", [1000, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", READERS)
def test_a_changed_input_is_read_or_refused(name: str, thousandth: int, tmp_path: Path) -> None:
    (target,) = [target for target in targets(tmp_path) if target.name == name]
    points = target.share // thousandth * (1 if thousandth == 1 else 2)
    assert_held(
        check_fuzzed_inputs(target.read, target.examples, target.raises, points=points, slowest=SLOWEST), points
    )


def test_they_are_all_here_and_a_million(tmp_path: Path) -> None:
    shares = {target.name: target.share for target in targets(tmp_path)}
    assert tuple(shares) == READERS
    assert sum(shares.values()) + OF_RESPONSES * len(PROVIDERS) == 1_000_000


# ---- planted defects


def read_number(data: bytes) -> int:
    """What has each defect where its input asks for it."""
    if b"\x00" in data:
        raise KeyError("a defect")
    return int(data)


def broken(report: FaultReport) -> set[str]:
    assert not report.ok
    return {violation.invariant for violation in report.violations}


def test_an_error_that_is_not_documented_is_found_and_can_be_repeated() -> None:
    report = check_fuzzed_inputs(read_number, [b"123"], ValueError, points=500)
    assert broken(report) == {"typed_error"}
    first = report.violations[0]
    assert "KeyError" in first.seen
    assert first.repeat == f"seed=0, points=[{first.point}]"
    again = check_fuzzed_inputs(read_number, [b"123"], ValueError, seed=0, points=[first.point])
    assert [str(violation) for violation in again.violations] == [str(first)]


def test_a_reader_that_never_ends_is_interrupted_and_found() -> None:
    read_before = []

    def read(data: bytes) -> None:
        while read_before:
            pass
        read_before.append(data)

    report = check_fuzzed_inputs(read, [b"123"], ValueError, points=2, slowest=0.05)
    assert broken(report) == {"bounded"}
    assert report.ends["too slow"] == report.tried == 2, report


def test_a_reader_that_needs_much_memory_is_found() -> None:
    def read(data: bytes) -> None:
        if data != b"123":
            bytearray(300_000_000)[::4096] = bytes(len(range(0, 300_000_000, 4096)))

    report = check_fuzzed_inputs(read, [b"123"], ValueError, points=2, memory=100_000_000)
    assert broken(report) == {"bounded"}


class Forgetful(ChatStream):
    """Forgets what came before the last read."""

    def __init__(self, words: Mapping[str, Any] = NO_WORDS) -> None:
        super().__init__(words)
        self._blocks = 0

    def feed(self, block: bytes) -> list[AnyChunk]:
        """Leave out the text of all blocks but the first."""
        self._blocks += 1
        chunks = super().feed(block)
        return chunks if self._blocks == 1 else [chunk for chunk in chunks if not isinstance(chunk, TextDelta)]


class Forgetting(OpenAICompatible):
    def open_parser(self) -> ChatStream:
        return Forgetful()


def test_a_parser_that_depends_on_where_the_network_cuts_is_found() -> None:
    report = check_fuzzed_responses(Forgetting("m", "http://127.0.0.1/v1"), points=50)
    assert broken(report) == {"typed_error"}
    assert report.tried == 0, "the examples show it"
    assert "and in blocks of" in report.violations[0].seen


SCRIPTED: Any = Scripted("x")


def wrong_uses() -> Iterator[Any]:
    yield pytest.param(lambda: check_fuzzed_inputs(int, b"1", ValueError), "give a list of bytes", id="no list")
    yield pytest.param(lambda: check_fuzzed_inputs(int, [], ValueError), "give a list of bytes", id="empty")
    yield pytest.param(lambda: check_fuzzed_inputs(int, [b"x"], ValueError), "give examples that can", id="bad example")
    yield pytest.param(lambda: check_fuzzed_inputs(int, [b"1"], ValueError, points=0), "1 or more", id="points")
    yield pytest.param(lambda: check_fuzzed_inputs(int, [b"1"], ValueError, points=None), "give one", id="endless")
    yield pytest.param(lambda: check_fuzzed_responses(SCRIPTED), "is not an HTTP provider", id="provider")


@pytest.mark.parametrize(("use", "said"), list(wrong_uses()))
def test_what_cannot_work_is_refused(use: Any, said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        use()


def test_without_a_number_of_inputs_the_time_ends_it() -> None:
    report = check_fuzzed_inputs(int, [b"1"], ValueError, points=None, seconds=0.05)
    assert report.ok, report
    assert 0 < report.tried < report.of
