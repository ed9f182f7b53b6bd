"""Hooks: your functions that influence a run. Defines what each takes and returns, and three ready-made ones.

    async def tests_pass(completion: Completion, run: Progress) -> Accept | Reject:
        return Accept() if await run_tests() else Reject("2 tests fail")

    async def greet(prompt: str, run: Progress) -> Answer | Prepare | None:
        return Answer("Hello!") if prompt.lower() in ("hi", "hello") else None

    Engine(provider, hooks=Hooks(gates=[tests_pass], prompt_handlers=[greet]))

A hook may be async or plain; a plain one runs in a thread. Its answer is recorded, so a replay calls no hooks. A hook
that raises or misses its deadline never ends the run: the record says so, and the run continues without its answer.
Only a gate that fails hands the completion back to the model, because it was not checked. A gate that raises
`InvalidArguments` has not failed: it rejects the completion with that text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .command_check import CommandCheck
from .decision import Message, Prompts, TextKind, ToolCall, Usage, UserMessage, WrongUse
from .decision.wrong_calls import CheckedStruct, checked
from .providers import Provider
from .side_request import NO_ANSWER, complete_text, render_message, summarise
from .tools.results import Completion
from .tools.run_context import Progress as Progress
from .tools.run_context import RunContext

QUESTION = (
    "Above is the record of an agent at work on a user's task. Is the task complete, so that nothing of what the user "
    "asked for is missing? Answer in one line that begins with YES or NO, and say why."
)
LATEST = 20
"""Number of the latest messages that a `ModelJudge` sees, in addition to all messages of the user."""


@checked
@dataclass(frozen=True, slots=True)
class Accept:
    """A gate's acceptance of a completion: the run ends."""


@checked
@dataclass(frozen=True, slots=True)
class Reject:
    """A gate's rejection of a completion, which is handed back to the model with this reason."""

    reason: str


class Verdict(CheckedStruct, frozen=True):
    """Answer of a judge: `complete` or `incomplete`, and why. Every hook's answer is recorded in this form.

    A compactor that itself asks a model returns `Verdict("summarised", text, usage)`, so that the usage is counted.
    """

    said: str
    """`complete` or `incomplete`; of a compactor `summarised`."""
    detail: str = ""
    """The reason; of a compactor the summary."""
    usage: Usage | None = None
    """Usage of the model that was asked, which counts as the run's; None if none was."""


@checked
@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the prompt without asking the model. With `Engine(output=...)` the text is that output as JSON."""

    text: str


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """A message that the model reads before it answers."""

    message: str = ""
    """Text added after the prompt, in the user's role; none if empty."""
    next_step: bool = True
    """Whether the run gets the next-step prompt."""


Gate = Callable[[Completion, Progress], Awaitable[Accept | Reject] | Accept | Reject]
"""Function that checks a completion. Plain text that would end the run is also checked, as the completion's answer.
`completion.output` is a copy of its own: to change it, return `Reject(reason)`, or use a validator of its type."""

TextVerdict = bool | TextKind | None
"""Answer of a text rule. True: the text ends the run. False: it does not. None: the policy decides by the kind of text
that `classify_text` finds. A kind of text: the policy decides by this kind."""
TextRule = (
    Callable[[str, Sequence[ToolCall]], Awaitable[TextVerdict] | TextVerdict]
    | Callable[[str, Sequence[ToolCall], RunContext[Any]], Awaitable[TextVerdict] | TextVerdict]
)
"""Function that takes a response's text and calls and returns a `TextVerdict`. A third parameter that is annotated as
`RunContext` gets the run's context."""

Judge = Callable[[Progress], Awaitable[Verdict]]
"""Function that returns `Verdict("complete")` or `Verdict("incomplete")`, called after each round that would go on."""

PromptHandler = Callable[[str, Progress], Awaitable[Answer | Prepare | None] | Answer | Prepare | None]
"""Function that gets a prompt before the model. The first `Answer` ends the run as `handled`; None passes it on."""

Compacted = str | Sequence[Message] | Verdict | None
"""A summary, or the messages that replace the given ones. None: the policy's strategies compact the context."""
Compactor = Callable[[Sequence[Message], Progress[Any]], Awaitable[Compacted] | Compacted]
"""Function that compacts the oldest messages: all but the system prompt and the latest `keep_messages`, in whole
exchanges, so that no call is separated from its result. Its answer replaces them, except the user's latest prompt."""


@checked
class ModelCompactor:
    """A compactor that asks the given model for a summary. The cost counts as cost of the run.

    provider: the model. question: the request for the summary, after the messages; by default the policy's default.

    `Hooks(compactor=provider)` is the short form. Raises WrongUse if `provider` has no method `stream`.
    """

    def __init__(self, provider: Provider, question: str = Prompts().summarise) -> None:
        if not callable(getattr(provider, "stream", None)):
            raise WrongUse(
                f"ModelCompactor: {provider!r} has no method `stream`; give a provider, as in LiteLLM('model')"
            )
        self._provider = provider
        self._question = question

    async def __call__(self, messages: Sequence[Message], run: Progress[Any]) -> Verdict:
        """Ask the model for a summary. Raises ValueError if it is empty or was cut off."""
        return Verdict("summarised", *await summarise(self._provider, messages, self._question, run.prices))


SystemPrompt = Callable[[Progress[Any]], Awaitable[str] | str]
"""Function that returns the system prompt of the next request, called before each step. "" for none."""


@checked
class ModelJudge:
    """A judge that asks a model. The cost counts as cost of the run.

    provider: the model.
    question: asked after the messages. An answer that begins with YES says that the task is complete.

    Raises WrongUse if `provider` has no method `stream`.
    """

    def __init__(self, provider: Provider, question: str = QUESTION) -> None:
        if not callable(getattr(provider, "stream", None)):
            raise WrongUse(f"ModelJudge: {provider!r} has no method `stream`; give a provider, as in LiteLLM('model')")
        self._provider = provider
        self._question = question

    async def __call__(self, run: Progress) -> Verdict:
        """Ask the model. Return `complete` if its answer begins with YES, else `incomplete`."""
        told = "\n\n".join(render_message(message) for message in _shown(run.messages))
        text, usage, finish = await complete_text(self._provider, f"{told}\n\n{self._question}", run.prices)
        yes = text.strip().upper().startswith("YES") and finish not in NO_ANSWER
        said = "complete" if yes else "incomplete"
        return Verdict(said, text.strip(), usage)


def _shown(messages: Sequence[Message]) -> list[Message]:
    users = [message for message in messages[:-LATEST] if isinstance(message, UserMessage)]
    return [*users, *messages[-LATEST:]]


class CommandGate(CommandCheck):
    """A gate that runs a command: exit code 0 accepts; any other code rejects, with the end of its output."""

    def __init__(self, command: str, folder: str | None = None, *, env: Collection[str] = ()) -> None:
        super().__init__(command, folder, env=env)
        self.__qualname__ = f"CommandGate({command!r})"

    async def __call__(self, completion: Completion, run: Progress) -> Accept | Reject:
        """Run the command and return the verdict."""
        code, output = await self.execute(self.folder)
        return Accept() if code == 0 else Reject(self.describe(code, output))


def qualified_name(function: Any) -> str:
    """Return the name of a function in records: `module:qualified name`."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"
