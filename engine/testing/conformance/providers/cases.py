"""Table of the cases that every provider must pass, and `check`, which runs one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio

from ....decision import AnyChunk, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageReport, WrongUse
from ....decision.errors import did_you_mean
from ....decision.wrong_calls import checked, explained
from ....providers.errors import ProviderError
from ....providers.provider import Provider
from ....providers.record import RecordedError
from ..nonconformance import Cannot
from .checks import (
    Check,
    cancelled_before_an_answer,
    closes,
    ends,
    fails,
    gives,
    keeps_apart,
    left_early,
    opens_again,
    scope_cancelled,
    shows_no_key,
    task_cancelled,
)
from .endpoint import Endpoint
from .harness import Behaviour, Ending, ProviderTrial

NEEDS = {
    "calls": "calls of tools",
    "connections": "a real connection, whose close the server sees",
    "fragments": "arguments of a call in fragments, so that it can break off inside them",
    "keys": "a key that is sent with the request",
    "reasoning": "reasoning in addition to text",
    "refusals": "a refusal in a separate field",
    "signatures": "signed reasoning",
    "statuses": "HTTP statuses",
    "timeouts": "a limit on the time without content",
    "unreported": "a response without usage",
    "usage": "token counts of all kinds",
}
"""Abilities that a case may need and that an adapter or a wire format may be declared to lack."""


@checked
@dataclass(frozen=True)
class ProviderCase:
    """One requirement of a provider."""

    name: str
    script: tuple[Behaviour, ...]
    """The n-th behaviour answers the n-th request, the last one all further requests."""
    check: Check
    needs: frozenset[str] = frozenset()
    """Keys of NEEDS. The case is skipped for an adapter that is declared to lack one of them."""
    bare: bool = False
    """Whether the case itself enters the provider as a context manager; otherwise `check` does it."""

    def __str__(self) -> str:
        return self.name


STOP = FinishReport("stop", "stop")
CALLED = FinishReport("tool_calls", "tool_calls")
USED = UsageReport(Usage(input_tokens=1200, output_tokens=345))
TEXT = (TextDelta("The port"), TextDelta(" is"), TextDelta(" 8080."))


def _call(index: int, place: str, id: str | None = None) -> list[AnyChunk]:
    """Return a tool call whose arguments arrive in fragments, one of which ends inside a string."""
    arguments = f'{{"place": "{place}"}}'
    cuts = [arguments[at : at + 5] for at in range(0, len(arguments), 5)]
    head = ToolCallDelta(index, f"call_{index}" if id is None else id, "look")
    return [head, *(ToolCallDelta(index, arguments=cut) for cut in cuts)]


CALL = tuple(_call(0, "the cellar"))
BROKEN_CALL = CALL[:-1]


def _said(name: str, *says: AnyChunk, needs: str = "", refusing: bool = False) -> ProviderCase:
    """Return a case whose whole response must be returned as it was sent."""
    return ProviderCase(name, (Behaviour(says=says, refusing=refusing),), gives, frozenset(needs.split()))


def _whole_responses() -> Iterator[ProviderCase]:
    yield _said("text", *TEXT, STOP, USED)
    blank = (TextDelta(""), TextDelta(" "), TextDelta("\n\n"), TextDelta(""))
    yield _said("text: blank deltas", *blank, *TEXT, *blank, STOP, USED)
    yield _said("text: beyond ASCII", TextDelta("größte \N{PILE OF POO}"), TextDelta("\u2028\u00a0한"), STOP, USED)
    yield _said("text: the same delta many times", *[TextDelta("na ")] * 150, STOP, USED)
    yield _said("text: none at all", STOP, USED)
    yield _said("call", *CALL, CALLED, USED, needs="calls")
    yield _said("call: after text", *TEXT, *CALL, CALLED, USED, needs="calls")
    yield _said("call: without arguments", ToolCallDelta(0, "call_0", "look"), CALLED, USED, needs="calls")
    yield _said("call: without an id", *_call(0, "the cellar", ""), CALLED, USED, needs="calls")
    three = (*_call(0, "here"), *_call(1, "there"), *_call(2, "here"))
    yield _said("calls: parallel", *three, CALLED, USED, needs="calls")
    mixed = [chunk for pair in zip(_call(0, "left"), _call(1, "also"), strict=True) for chunk in pair]
    yield _said("calls: fragments in turn", *mixed, CALLED, USED, needs="calls")
    yield _said("calls: without ids", *_call(0, "here", ""), *_call(1, "there", ""), CALLED, USED, needs="calls")
    thought = (ReasoningDelta("Ports are"), ReasoningDelta(" numbers."))
    yield _said("reasoning", *thought, *TEXT, STOP, USED, needs="reasoning")
    signed = (*thought, ReasoningDelta(signature="c2lnbmVk"))
    yield _said("reasoning: signed", *signed, *TEXT, STOP, USED, needs="reasoning signatures")
    yield _said("refusal", TextDelta("I"), FinishReport("content_filter", "content_filter"), USED)
    words = (TextDelta("I cannot"), TextDelta(" help with that."), FinishReport("content_filter", "stop"))
    yield _said("refusal: in a place of its own", *words, USED, needs="refusals", refusing=True)
    yield _said("length", *TEXT[:2], FinishReport("length", "length"), USED)
    yield _said("length: inside a call", *BROKEN_CALL, FinishReport("length", "length"), USED, needs="calls fragments")
    yield _said("finish: in the provider's own word", *TEXT, FinishReport("other", "own_word"), USED)
    details = Usage(input_tokens=1200, output_tokens=345, cached_tokens=1000, reasoning_tokens=45)
    yield _said("usage", *TEXT, STOP, UsageReport(details), needs="usage")
    yield _said("usage: not reported", *TEXT, STOP, needs="usage unreported")


OVERFLOW = "This model's maximum context length is 8192 tokens, and the request has 9000."
REFUSALS = {
    "401": RecordedError(kind="auth", status=401, message="Incorrect API key provided."),
    "403": RecordedError(kind="auth", status=403, message="This key may not use the model."),
    "404": RecordedError(kind="not_found", status=404, message="There is no such model."),
    "400": RecordedError(kind="bad_request", status=400, message="The field tools is wrong."),
    "400, context overflow": RecordedError(kind="context_overflow", status=400, message=OVERFLOW),
    "400, a key that is not valid": RecordedError(
        kind="auth", status=400, message="API key not valid. Please pass another."
    ),
    "413": RecordedError(kind="context_overflow", status=413, message="Request too large."),
    "422": RecordedError(kind="bad_request", status=422, message="The field seed is wrong."),
    "429": RecordedError(kind="rate_limit", status=429, message="Slow down."),
    "429 with retry-after": RecordedError(kind="rate_limit", status=429, message="Slow down.", retry_after=7.0),
    "429 without money": RecordedError(
        kind="quota", status=429, message="You exceeded your current quota, check your plan."
    ),
    "429 for one request": RecordedError(
        kind="context_overflow", status=429, message="Request too large: 9 of 8 tokens."
    ),
    "500": RecordedError(kind="server", status=500, message="Something broke."),
    "503": RecordedError(kind="server", status=503, message="Overloaded."),
}
SPEAKING = Behaviour(says=(TextDelta("One moment"),), ends="stalled")


def _failing(
    name: str, ends: Ending, failure: RecordedError, says: tuple[AnyChunk, ...] = (), needs: str = ""
) -> ProviderCase:
    return ProviderCase(name, (Behaviour(says=says, ends=ends, failure=failure),), fails(), frozenset(needs.split()))


def _failures() -> Iterator[ProviderCase]:
    for name, failure in REFUSALS.items():
        yield _failing(f"refused: {name}", "refused", failure, needs="statuses")
    yield _failing("refused: no connection", "unreachable", RecordedError(kind="connection", message="cannot connect"))
    overloaded = RecordedError(kind="server", status=503, message="Overloaded.")
    yield _failing("error in the stream", "error", overloaded, TEXT)
    yield _failing("error in the stream: as its first chunk", "error", REFUSALS["429"])
    yield _failing("error in the stream: context overflow", "error", REFUSALS["400, context overflow"], TEXT)
    lost = RecordedError(kind="interrupted", message="the connection was lost")
    yield _failing("cut: in the text", "cut", lost, TEXT)
    yield _failing("cut: inside a call", "cut", lost, BROKEN_CALL, needs="calls fragments")
    yield _failing("end without a finish: in the text", "unfinished", lost, TEXT)
    yield _failing("end without a finish: inside a call", "unfinished", lost, BROKEN_CALL, "calls fragments")
    garbled = Behaviour(says=TEXT, ends="garbled", failure=RecordedError(kind="protocol", message="cannot be read"))
    yield ProviderCase("a chunk that cannot be read", (garbled,), fails("protocol", "interrupted"))
    late = RecordedError(kind="timeout", message="nothing came in time")
    yield _failing("stall: in the text", "stalled", late, TEXT, needs="timeouts")
    yield _failing("stall: behind pings", "pinging", late, TEXT, needs="timeouts")
    yield _failing("stall: before an answer", "silent", late, needs="timeouts")


def _streams() -> Iterator[ProviderCase]:
    for way in (left_early, task_cancelled, scope_cancelled):
        name = way.__name__.replace("_", " ")
        yield ProviderCase(name, (SPEAKING,), ends(way))
        yield ProviderCase(f"{name}: the connection closes", (SPEAKING,), closes(way), frozenset({"connections"}))
    name = "task cancelled before an answer: the connection closes"
    needs = frozenset({"connections"})
    yield ProviderCase(name, (Behaviour(ends="silent"),), closes(cancelled_before_an_answer), needs)
    good = Behaviour(says=(*TEXT, STOP, USED))
    other = Behaviour(says=(*[TextDelta("Another ")] * 5, *_call(0, "elsewhere"), CALLED, USED))
    yield ProviderCase("two streams at once", (good, other), keeps_apart, frozenset({"calls"}))
    yield ProviderCase("entered and left several times", (good,), opens_again, bare=True)
    yield ProviderCase("no key in its repr", (good,), shows_no_key, frozenset({"keys"}))


CASES: tuple[ProviderCase, ...] = (*_whole_responses(), *_failures(), *_streams())
"""Every requirement of a provider."""


PATIENCE = 20.0
"""Time limit of a case, in seconds."""


@explained
@dataclass(frozen=True)
class Passed:
    """A case that an adapter has passed."""

    case: ProviderCase
    closed_after: float | None = None
    """Seconds from leaving the stream to the close of its connection, if the case measures that."""


@explained
async def check(
    case: ProviderCase,
    make: Callable[[Any], Provider],
    *,
    serve: Callable[[Sequence[Behaviour]], AbstractAsyncContextManager[Any]] = Endpoint,
    cannot: Collection[str] = (),
) -> Passed:
    """Run a case on an adapter. Raises AssertionError if it fails, or Cannot if the adapter lacks an ability for it.

    make: returns the adapter for the object that `serve` yields.
    serve: plays the behaviours of the case, the n-th for the n-th request. The default is an `Endpoint` of OpenAI's
    chat format; for another format write one with the same `url`, `key`, `timeout`, `asked` and `left`. For an adapter
    that makes no network requests, pass `contextlib.nullcontext`: `make` then gets the behaviours themselves. cannot:
    abilities that the adapter lacks, as keys of `NEEDS`.
    """
    _check_declared(case, frozenset(cannot), frozenset(getattr(serve, "cannot", ())))
    async with serve(case.script) as site:
        trial = ProviderTrial(
            f"conformance case {case.name!r}", make(site), case.script, site, counts="usage" in case.needs
        )
        async with nullcontext() if case.bare else trial.opened():
            with anyio.move_on_after(PATIENCE) as patience:
                await _run(case, trial)
        if patience.cancelled_caught:
            trial.fail(f"not finished within {PATIENCE:g} s")
    return Passed(case, trial.closed_after)


async def _run(case: ProviderCase, trial: ProviderTrial) -> None:
    try:
        await case.check(trial)
    except ProviderError as error:
        trial.check_keys(error)
        what = f"it raised an error of kind {error.kind!r}, and should have succeeded: {error.message}"
        raise AssertionError(f"{trial.name}: {what}") from error
    except (AssertionError, WrongUse):
        raise
    except Exception as error:
        trial.check_keys(error)
        what = f"it raised {type(error).__name__}, and only a ProviderError is allowed: {error}"
        raise AssertionError(f"{trial.name}: {what}") from error


def _check_declared(case: ProviderCase, adapter: frozenset[str], wire: frozenset[str]) -> None:
    for word in sorted(adapter - NEEDS.keys()):
        raise WrongUse(f"cannot={{{word!r}}} is not a need of any case{did_you_mean(word, NEEDS)}")
    for missing, who in ((case.needs & adapter, "adapter"), (case.needs & wire, "wire")):
        if missing:
            raise Cannot(f"{case.name}: the {who} is declared to lack {', '.join(sorted(missing))}")
