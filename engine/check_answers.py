"""Answers of checks of the work: functions, or commands (`command_check.py`), that say whether the task is done.

    Engine(model, tools=tools, until="pytest -q")
    Engine(model, tools=tools, until=Until("pytest -q", "ruff check .", guard=["tests/**"], timeout=600))

    async def pages_answer(run: Progress) -> Met | NotMet:
        answering = await count_pages()
        return Met() if answering == 12 else NotMet("some pages do not answer", score=answering, of=12)

A check is called with the `Progress` of a run. It returns `Met`, `NotMet` or `Impossible`; True and False stand for the
first two, and None says that it cannot tell now.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from .decision import Usage
from .decision.until_facts import CheckSaid
from .decision.wrong_calls import checked

if TYPE_CHECKING:
    from .tools.run_context import Progress


@checked
@dataclass(frozen=True, slots=True)
class Met:
    """The work is done."""


@checked
@dataclass(frozen=True, slots=True)
class NotMet:
    """The work is not done yet."""

    reason: str = ""
    """What the model reads."""
    score: float | None = None
    """How much of it is done, the more the better; None if there is no number."""
    of: float | None = None
    """The most that the score can be; None if that is not known."""
    failing: tuple[str, ...] = ()
    """Without a score: what fails. A set that was not seen before counts as progress."""


@checked
@dataclass(frozen=True, slots=True)
class Impossible:
    """The work cannot be done, whatever else is tried: the run ends as `blocked`."""

    reason: str
    """Why it cannot be done, for the outcome's `detail`."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a model says of the work: the run ends as judged by it, never as checked."""

    answer: Met | NotMet | None
    """None: its answer cannot be read."""
    by: str
    """The model."""
    usage: Usage | None = None
    """Its usage, which counts as usage of the run."""


CheckAnswer = Met | NotMet | Impossible | Judged | bool | None
"""Answer of a check. True: met. False: not met. None: it cannot tell now, which counts as no answer."""
Check = Callable[["Progress[Any]"], Awaitable[CheckAnswer] | CheckAnswer]


_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


def failure_mark(answer: NotMet) -> int:
    """Return a mark of what failed, which numbers such as times and addresses do not change."""
    text = "\n".join(sorted(answer.failing)) or answer.reason
    return crc32(_NUMBER.sub("0", text).encode("utf-8", "surrogatepass"))


class WorkAnswer(Struct, frozen=True, kw_only=True):
    """What the checks say of the work, as `CheckEnded` records it."""

    said: CheckSaid
    detail: str = ""
    score: float | None = None
    of: float | None = None
    failure: int = 0
    guard_changed: tuple[str, ...] = ()
    timed_out: bool = False
    usage: Usage | None = None
    judged_by: str = ""
    duration_ms: int = 0

    @property
    def is_final(self) -> bool:
        """Whether it ends a run: the work is done, or cannot be."""
        return self.said in ("met", "impossible")


def answer_of(said: Any, name: str) -> WorkAnswer:
    """Return what a check of this name has said, whatever form it said it in."""
    match said:
        case Met() | True:
            return WorkAnswer(said="met")
        case NotMet(reason, score, of):
            failure = 0 if score is not None else failure_mark(said)
            return WorkAnswer(said="not_met", detail=reason, score=score, of=of, failure=failure)
        case Judged(answer, by, usage):
            return replace(answer_of(answer, name), judged_by=by, usage=usage)
        case False:
            return WorkAnswer(said="not_met", detail=f"`{name}` is not met")
        case Impossible(reason):
            return WorkAnswer(said="impossible", detail=reason)
        case None:
            return WorkAnswer(said="unknown", detail=f"`{name}` cannot tell now")
        case _:
            what = f"a check answers Met, NotMet, Impossible, a bool or None, not {type(said).__name__}"
            return WorkAnswer(said="unknown", detail=what)
