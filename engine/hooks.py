"""Hooks: functions of yours that have a say in a run. What each takes and returns, and two that are ready to use.

    async def tests_pass(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if await run_tests() else Reject("2 tests fail")

    async def greet(prompt: str, run: Progress) -> Answer | Prepare | None:
        return Answer("Hello!") if prompt.lower() in ("hi", "hello") else None

    Engine(provider, hooks=Hooks(gates=[tests_pass], prompt_handlers=[greet]))

A hook may be async or plain; a plain one runs in a thread. What it returns is recorded, so a replay calls none of them.
A hook that raises or misses its deadline never loses the run: the record says so, and the run goes on without its
answer. Only a gate that fails hands the completion back to the model, since nobody has checked it.
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

from .decision import Facts, Message, ToolCall, Usage, UserMessage, WrongUse
from .decision.confirmation import Reply
from .decision.events import AttemptFailed, BudgetRefused, LimitReached, MessageAdded, ResponseFinished, VerdictGiven
from .providers import Prices, Provider
from .side_request import BROKEN, answer_of, as_told
from .tools.child_process import check_variable_names, child_environment, start_child
from .tools.results import Completion

LONGEST_OUTPUT = 200_000
"""Bytes of a command's output that are kept, from its end."""
QUESTION = (
    "Above is the record of an agent at work on a user's task. Is the task complete, so that nothing of what the user "
    "asked for is missing? Answer in one line that begins with YES or NO, and say why."
)
LATEST = 20
"""Messages that the judge is shown, besides the user's own."""


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


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the prompt; the model is not asked."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Something for the model to know before it answers."""

    message: str = ""
    """Added in the user's role, after the prompt; nothing if empty."""
    next_step: bool = True
    """False: no next-step prompt in this run."""


Gate = Callable[[Completion, Progress], Awaitable[Accept | Reject] | Accept | Reject]
"""Says whether a completion is good. Plain text that would end the run is asked about as well, as its answer."""

TextRule = Callable[[str, Sequence[ToolCall]], Awaitable[bool | None] | bool | None]
"""Takes text and calls of a response. True: this ends the run. False: it does not. None: as the policy says."""

Judge = Callable[[Progress], Awaitable[Verdict]]
"""Says `complete` or `incomplete`; asked after each round that would go on."""

PromptHandler = Callable[[str, Progress], Awaitable[Answer | Prepare | None] | Answer | Prepare | None]
"""Sees a prompt before the model does. The first that answers wins, and the run ends as `handled`."""


class ModelJudge:
    """Asks a model of its own, or the same one, after each round that would go on."""

    def __init__(self, provider: Provider, question: str = QUESTION) -> None:
        if not callable(getattr(provider, "stream", None)):
            raise WrongUse(f"judge: it asks a model, and {provider!r} is no provider of one; see endstop.providers")
        self._provider = provider
        self._question = question

    async def __call__(self, run: Progress) -> Verdict:
        """`complete` if the model's answer begins with YES."""
        told = "\n\n".join(as_told(message) for message in _shown(run.messages))
        text, usage, finish = await answer_of(self._provider, f"{told}\n\n{self._question}", run.prices)
        yes = text.strip().upper().startswith("YES") and finish not in BROKEN
        said = "complete" if yes else "incomplete"
        return Verdict(said, text.strip(), usage)


def _shown(messages: Sequence[Message]) -> list[Message]:
    users = [message for message in messages[:-LATEST] if isinstance(message, UserMessage)]
    return [*users, *messages[-LATEST:]]


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


def qualified(function: Any) -> str:
    """The name under which a function stands in records."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"


class ReplaySource(Protocol):
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
