"""A judge that asks a model whether the task is complete. Off unless it is brought; what it costs is counted."""

from __future__ import annotations

from collections.abc import Sequence

from .asking import BROKEN, answer_of, as_told
from .decision import Message, UserMessage, WrongUse
from .hooks import Progress, Verdict
from .providers import Provider

QUESTION = (
    "Above is the record of an agent at work on a user's task. Is the task complete, so that nothing of what the user "
    "asked for is missing? Answer in one line that begins with YES or NO, and say why."
)
LATEST = 20
"""Messages that the judge is shown, besides the user's own."""


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
