"""Effects: everything in a run that endstop does not compute itself.

A response of the model, what the function of a tool returned, what a gate, judge or other hook said, whether a shared
budget had room: each is an effect, done under a key that is unique in its run. The loop does effects through `once`
and through nothing else. Whether that does the work, finds the result in a record, or asks a durable engine first is
decided by the object behind it, so the loop knows of none of these.

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
from .decision.events import ResponseFinished, ToolCallResult
from .decision.step_history import StepJudgement
from .tools.results import fingerprint

T = TypeVar("T")
Kind = Literal[
    "response", "call", "room", "gate", "judge", "text_rule", "handler", "compactor", "evaluator", "approval", "system"
]
"""What kind of effect it is. `room`: whether time and a shared budget leave room for one more step."""


class EffectKey(NamedTuple):
    """Identifies an effect within its run. A hook that is called several times about the same has one key."""

    step: int
    """Number of the step, from 1; for what happens between two steps, that of the step before."""
    kind: Kind
    name: str = ""
    """Qualified name of a hook's function; empty for all else."""
    call_id: str = ""
    """The tool call that it is, or that it is about; empty if there is none."""


class Response(NamedTuple):
    """The result of a response effect."""

    finished: ResponseFinished
    complete: Sequence[str]
    """Ids of the calls whose arguments are complete, in the order in which they became so."""


class Effects(Protocol):
    """Does the effects of one run."""

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[T]]) -> T:
        """The result of this effect: the one that is known already, or that of `work`.

        If a key is used several times, the n-th call gets the n-th result. What `work` raises propagates. Raises
        RunLost if another process owns the run now.
        """
        ...

    def began(self, key: EffectKey) -> bool:
        """Whether this step or call had begun in a process that died, so that it may have taken effect."""
        ...

    def has_result(self, call_id: str) -> bool:
        """Whether the result of this call is known before `once` is called for it."""
        ...

    def may_start_early(self, call_id: str) -> bool:
        """Whether this call may start before its response is complete, if it only reads."""
        ...

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...]) -> str:
        """The fingerprint of this result of a call, by which repetition is found."""
        ...

    def judgement(self, step: int, results: Sequence[ToolCallResult]) -> StepJudgement | None:
        """Return the recorded judgement of this step with these results; None if the step has to be judged now."""
        ...

    def settled(self, step: int) -> Sequence[Event] | None:
        """The events with which a loop that is not ours settled the calls of this step; None if they are to be run."""
        ...

    def has_decision(self, steps: int) -> bool:
        """Whether the record of a loop that is not ours holds another decision after this many steps."""
        ...


class Live:
    """Does every effect."""

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[T]]) -> T:
        """Always the result of `work`."""
        return await work()

    def began(self, key: EffectKey) -> bool:
        """Always False."""
        return False

    def has_result(self, call_id: str) -> bool:
        """Always False."""
        return False

    def may_start_early(self, call_id: str) -> bool:
        """Always True."""
        return True

    def fingerprint(self, call: ToolCall, content: str, images: tuple[Image, ...]) -> str:
        """Computed from the call and its result."""
        return fingerprint(call, content, images)

    def judgement(self, step: int, results: Sequence[ToolCallResult]) -> StepJudgement | None:
        """Always None."""
        return None

    def settled(self, step: int) -> Sequence[Event] | None:
        """Always None."""
        return None

    def has_decision(self, steps: int) -> bool:
        """Always False."""
        return False
