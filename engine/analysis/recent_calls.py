"""The latest calls of a run, one by one, with what they returned: a second fold, in addition to that of `facts`.

`Facts` remembers one mark for each step, which is all that the built-in guards need. Rules of other projects look at
single calls: at the text sent with them, at three of them in one response, at how alike two errors are. A run that is
judged by such rules is folded with `fold_calls`; no other run pays for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import events as ev
from ..decision.call_effects import effect_of
from ..decision.call_results import has_failed
from ..decision.facts import Facts
from ..decision.fold import fold
from ..decision.messages import ToolCall

REMEMBERED_CALLS = 64
"""Number of calls before the latest step that are remembered."""
ALIKE = 0.9
"""Share of common words from which two failed results count as alike."""
_WORD = re.compile(r"[A-Za-z0-9_]+")


class RecentCall(Struct, frozen=True, gc=False):
    """A call as marks: equal marks stand for equal texts."""

    step: int
    """Number of its step, from 1, among those that have calls."""
    tool: str
    call: int
    """Mark of the name and the arguments, whatever the order of their keys."""
    text: int
    """Mark of the response's text for its first call; 0 for the others."""
    result: int
    error: bool
    """Whether the result's status says that the call failed."""
    failures: int
    """Number of calls of this tool in a row, including this one, that failed; the status or the result says so."""
    alike: int
    """Number of those in a row that had nearly the same words as the one before."""


class RecentCalls(Struct, frozen=True):
    """The latest calls of a run, in the order in which the model made them."""

    calls: tuple[RecentCall, ...] = ()
    """The calls of the latest step that has any, and up to `REMEMBERED_CALLS` before them."""
    steps: int = 0
    """Number of steps with calls so far."""
    error_steps: int = 0
    """Number of steps in a row in which each call ended with an error; a step without calls does not change it."""
    loops: int = 0
    """Number of steps in which a call completed five rounds of a cycle of one to five calls."""
    failure: frozenset[str] = frozenset()
    """The words of the latest failed result."""

    def with_step(self, facts: Facts) -> RecentCalls:
        """Return the memory with the calls of the step that is about to end. A step without calls changes nothing."""
        if not facts.open_calls:
            return self
        results = {result.call_id: result for result in facts.results}
        after = replace(self, calls=self.calls[-REMEMBERED_CALLS:], steps=self.steps + 1)
        for number, call in enumerate(facts.open_calls):
            after = after._remember(call, results.get(call.id), facts.text if number == 0 else None)
        errors = [call.error for call in after.calls if call.step == after.steps]
        return replace(
            after,
            error_steps=self.error_steps + 1 if all(errors) else 0,
            loops=self.loops + any(repeats_in_cycle(calls, 5, 5) for calls in after.at_each_call()),
        )

    def _remember(self, call: ToolCall, result: ev.ToolCallResult | None, text: str | None) -> RecentCalls:
        """Add a call. text: the response's text, for its first call; None for the others."""
        content, status = ("", "ok") if result is None else (result.content, result.status)
        failed = has_failed(content, status, effect_of(call.name, call.arguments))
        words = frozenset(word.lower() for word in _WORD.findall(content)) if failed else frozenset()
        before = self.calls[-1] if failed and self.calls and self.calls[-1].tool == call.name else None
        failures, alike = (before.failures, before.alike) if before is not None else (0, 0)
        one = RecentCall(
            step=self.steps,
            tool=call.name,
            call=_mark(call.name, _sorted_keys(call.arguments)),
            text=0 if text is None else _mark(text),
            result=_mark(content),
            error=status in ("error", "invalid"),
            failures=failures + failed,
            alike=alike + 1 if failures and _share(words, self.failure) >= ALIKE else 0,
        )
        return replace(self, calls=(*self.calls, one), failure=words if failed else self.failure)

    def at_each_call(self) -> Iterator[tuple[RecentCall, ...]]:
        """Yield, for each call of the latest step that has any, the calls up to it."""
        first = next((number for number, call in enumerate(self.calls) if call.step == self.steps), 0)
        for number in range(first + 1, len(self.calls) + 1):
            yield self.calls[:number]


def repeats_in_cycle(calls: tuple[RecentCall, ...], longest: int, times: int, shortest: int = 1) -> bool:
    """Return whether the calls end with a cycle of `shortest` to `longest` calls that was made `times` times."""
    marks = [call.call for call in calls]
    return any(
        len(marks) >= length * times
        and all(marks[-number] == marks[-number - length] for number in range(1, length * (times - 1) + 1))
        for length in range(shortest, longest + 1)
    )


class CallFacts(Facts, frozen=True, kw_only=True, gc=False):
    """Facts with the latest calls."""

    recent: RecentCalls = RecentCalls()


def fold_calls(facts: Facts, event: ev.Event) -> Facts:
    """Like `fold`, but also remember the latest calls, from a run's start on."""
    after = fold(facts, event)
    if isinstance(event, ev.RunStarted):
        return CallFacts(**{name: getattr(after, name) for name in Facts.__struct_fields__})
    if isinstance(event, ev.StepFinished) and isinstance(facts, CallFacts) and isinstance(after, CallFacts):
        return replace(after, recent=facts.recent.with_step(facts))
    return after


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    either = one | other
    return len(one & other) / len(either) if either else 1.0


def _sorted_keys(arguments: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return arguments


def _mark(*parts: str) -> int:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return int.from_bytes(digest.digest(), "big")
