"""Effects: everything in a run that endstop does not compute itself.

A response of the model, the value that a tool's function returned, the answer of a gate, judge or other hook, whether a
shared budget had room: each is an effect, done under a key that is unique in its run. The loop does effects only
through `once`. The object behind it decides whether that does the work, finds the result in a record, or asks a durable
engine first, so the loop knows none of these.

| implementation | does |
| --- | --- |
| `Live` | does the work |
| `Durable` (`checkpoint.py`) | asks a durable engine for the result, and lets it store that of the work |
| `RecordedRound` (`recorded_round.py`) | answers from the record of a killed process; where that ends, asks the next |
| `RecordedEffects` (`replay/recorded.py`) | answers from the record of a run that is replayed |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

from .decision import Event, Image, ToolCall
from .decision.compared_results import ComparedResult, fingerprint
from .decision.events import ResponseFinished, ToolCallResult
from .decision.step_history import StepJudgement

T = TypeVar("T")
Kind = Literal[
    "response",
    "call",
    "room",
    "check_start",
    "check",
    "gate",
    "judge",
    "text_rule",
    "handler",
    "compactor",
    "evaluator",
    "approval",
    "system",
]
"""Kind of an effect. `room`: whether time and a shared budget leave room for one more step. `check_start`: whether the
user's check of the work begins here; `check`: what it has answered by now (both None if not)."""


class EffectKey(NamedTuple):
    """Identifier of an effect within its run. A hook that is called several times about the same thing has one key."""

    step: int
    """Number of the step, from 1; for effects between two steps, that of the earlier one."""
    kind: Kind
    name: str = ""
    """Qualified name of a hook's function; for a check, the place where the loop looks at it; else empty."""
    call_id: str = ""
    """Id of the tool call that the effect is, or is about; empty if there is none."""


class Response(NamedTuple):
    """Result of a response effect."""

    finished: ResponseFinished
    complete: Sequence[str]
    """Ids of the calls whose arguments are complete, in the order in which they became complete."""


class Effects(Protocol):
    """Protocol for doing the effects of one run."""

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of this effect: the one that is already known, or that of `work`.

        If a key is used several times, the n-th call gets the n-th result. What `work` raises propagates. Raises
        RunLost if another process owns the run now.
        """
        ...

    def began(self, key: EffectKey) -> bool:
        """Return whether this step or call had begun in a process that died, so that it may have had side effects."""
        ...

    def has_result(self, call_id: str) -> bool:
        """Return whether the result of this call is known before `once` is called for it."""
        ...

    def may_start_early(self, call_id: str) -> bool:
        """Return whether this call, if it only reads, may start before its response is complete."""
        ...

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...], compared: ComparedResult) -> str:
        """Return the fingerprint of this result of a call, which is used to detect repetition.

        compared: what of the result must be equal.
        """
        ...

    def judgement(self, step: int, results: Sequence[ToolCallResult]) -> StepJudgement | None:
        """Return the recorded judgement of this step with these results; None if the step must be judged now."""
        ...

    def settled(self, step: int) -> Sequence[Event] | None:
        """Return the events with which another program's loop settled this step's calls; None if they are to be run."""
        ...

    def has_decision(self, steps: int) -> bool:
        """Return whether the record of another program's loop holds another decision after this many steps."""
        ...


class Live:
    """Effects that are always done, never looked up."""

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`."""
        return await work()

    def began(self, key: EffectKey) -> bool:
        """Return False."""
        return False

    def has_result(self, call_id: str) -> bool:
        """Return False."""
        return False

    def may_start_early(self, call_id: str) -> bool:
        """Return True."""
        return True

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...], compared: ComparedResult) -> str:
        """Compute the fingerprint from the call and its result."""
        return fingerprint(call, content, images, compared)

    def judgement(self, step: int, results: Sequence[ToolCallResult]) -> StepJudgement | None:
        """Return None."""
        return None

    def settled(self, step: int) -> Sequence[Event] | None:
        """Return None."""
        return None

    def has_decision(self, steps: int) -> bool:
        """Return False."""
        return False
