"""What a user may bring to say when a run is done: gates, a text rule, a judge. What each takes and answers.

    async def tests_pass(completion: Completion, run: Progress) -> Accept | Reject:
        ...

    Engine(provider, gates=[tests_pass], text_rule=lambda text, calls: bool(text) and not calls)

Whatever they say is recorded, so that a replay needs none of them. One that raises or takes too long never loses the
run: it gets a recorded verdict, and a completion whose gate failed is handed back.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio.to_thread
from msgspec import Struct

from .decision import Facts, Message, ToolCall, Usage
from .decision.confirmation import Reply
from .decision.events import AttemptFailed, BudgetRefused, LimitReached, MessageAdded, ResponseFinished, VerdictGiven
from .providers import Prices
from .tools.child_process import check_variable_names, child_environment, start_child
from .tools.results import Completion

LONGEST_OUTPUT = 200_000
"""A command's output is cut to this many bytes, its last ones."""


@dataclass(frozen=True, slots=True)
class Accept:
    """The completion is good."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The completion is handed back to the model, with this reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a gate, a judge or an evaluator may look at."""

    facts: Facts
    messages: Sequence[Message]
    record: str | None = None
    """Path of the record so far, if one is kept."""
    prices: Prices = field(default_factory=Prices)
    """What models cost, for a judge that asks one."""


class Verdict(Struct, frozen=True):
    """What was said, in the words of `VerdictGiven`."""

    said: str
    detail: str = ""
    usage: Usage | None = None


Gate = Callable[[Completion, Progress], Awaitable[Accept | Reject] | Accept | Reject]
"""Says whether a completion is good. Plain text that would end the run is asked about as well, as its answer."""

TextRule = Callable[[str, Sequence[ToolCall]], Awaitable[bool | None] | bool | None]
"""Takes text and calls of a response. True: this ends the run. False: it does not. None: as the policy says."""

Judge = Callable[[Progress], Awaitable[Verdict]]
"""Says `complete` or `incomplete`; asked after each round that would go on."""


class Recalled(Protocol):
    """In a replay, what is known from the record."""

    @property
    def lost(self) -> Collection[str]:
        """Ids of calls that were open when the process was killed: they are answered `unknown` again."""
        ...

    @property
    def answered_late(self) -> Collection[str]:
        """Ids of calls that never ran and were answered after their response was whole, such as skipped ones."""
        ...

    @property
    def ended(self) -> Collection[str]:
        """Ids of calls whose result is `ok` or `error`: they ran to their end."""
        ...

    def __call__(self, role: str, name: str, call_id: str | None, /) -> VerdictGiven | None:
        """The recorded verdict for a role, a name and a call id."""
        ...

    def reply(self, call_id: str, /) -> Reply | None:
        """What was made then of the user's reply to the confirmation of this call."""
        ...

    def fingerprint(self, call_id: str, content: str, /) -> str:
        """That of the recorded result, if this is it: what was redacted in it must not make two results one."""
        ...

    def failed_before(self, step: int, /) -> Sequence[AttemptFailed]:
        """The attempts of this step that failed before the process was killed in it; the step was begun anew."""
        ...

    def refused(self, step: int, /) -> BudgetRefused | None:
        """What a shared budget said before this step, if it was therefore not made."""
        ...

    def reached(self, step: int, /, *, begun: bool) -> LimitReached | None:
        """The limit that was used up in this step, or before it, so that it was not made; given once."""
        ...

    def response(self, step: int, /) -> ResponseFinished | None:
        """What this step's response was then: where the engine cut it off, and what was reckoned for it."""
        ...

    def heard(self, step: int, /) -> Sequence[MessageAdded]:
        """What the user said while the run was going that was heard before this step; given once."""
        ...


def qualified(function: Any) -> str:
    """The name under which a function stands in records."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"


class CommandGate:
    """A gate that runs a command: exit code 0 accepts, any other hands back, with the end of its output.

    It may run what the model wrote (its tests), and so it sees as little of our environment as the model's commands
    do (`child_process.py`). env: names of variables that it sees besides.
    """

    def __init__(self, command: str, folder: str | None = None, *, env: Collection[str] = ()) -> None:
        self.command = command
        self.folder = folder
        self.env = check_variable_names(env)
        self.__qualname__ = f"CommandGate({command!r})"

    async def __call__(self, completion: Completion, run: Progress) -> Accept | Reject:
        """Run it."""
        code, output = await run_command(self.command, self.folder, child_environment(self.env))
        if code == 0:
            return Accept()
        return Reject(f"`{self.command}` failed with exit code {code}:\n{output[-2000:]}")


async def run_command(
    command: str | Sequence[str], folder: str | None, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and output of a command, through the shell if it is one string.

    All that it has started ends with it, also if it is cancelled. env: what it sees; our whole environment if left out.
    """
    visible = dict(os.environ) if env is None else dict(env)
    if not isinstance(command, str) and shutil.which(command[0]) is None:
        raise FileNotFoundError(f"there is no command {command[0]!r}")
    with tempfile.TemporaryFile() as output:
        with start_child(command, folder=folder, output=output.fileno(), env=visible) as running:
            code = await anyio.to_thread.run_sync(running.process.wait, abandon_on_cancel=True)
        output.seek(max(0, output.seek(0, os.SEEK_END) - LONGEST_OUTPUT))
        return code, output.read().decode("utf-8", "replace")
