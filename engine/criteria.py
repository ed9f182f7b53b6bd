"""`CriteriaCheck`: asks a model whether the work meets each of several criteria, with evidence for each.

    Engine(model, tools=tools, until=Until("pytest -q", CriteriaCheck(judge, goal)))

The judge sees the run's messages and names, for each criterion, a call whose result shows it or a line of a file. What
it names must exist; a criterion without such evidence counts as unknown. If all are met, the run ends as judged by that
model, never as checked: a model that reads a record can be mistaken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .check_answers import Judged, Met, NotMet
from .decision import AssistantMessage, Message, ToolResult, UserMessage, WrongUse
from .providers import Provider
from .side_request import NO_ANSWER, complete_text, render_message
from .tools.run_context import Progress

LATEST = 40
"""Number of the latest messages that the judge sees, in addition to all messages of the user."""
QUESTION = """
Above is the record of an agent at work. Judge whether the work meets each of these criteria:

{criteria}

Answer with a JSON array alone, with one object for each criterion, in this form:
[{{"criterion": 1, "verdict": "met", "evidence": "call_7", "why": "..."}}]
verdict: "met", "not met", or "unknown" if the record does not show it. What the agent only claims is unknown.
evidence: the id of the call above whose result shows it, or FILE:LINE in the folder of the work.
why: one short sentence.
""".strip()
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(.+)$", re.MULTILINE)
_LINE = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+)")


class _Verdict(Struct):
    criterion: int
    verdict: Literal["met", "not met", "unknown"]
    evidence: str = ""
    why: str = ""


class CriteriaCheck:
    """A check that asks a model about each criterion.

    criteria: texts, or a text with one criterion for each item of a list, or else for each paragraph. folder: the
    folder of the work, in which files that are named as evidence must exist; None for this process's folder.

    Raises WrongUse if there is no criterion, or `provider` has no method `stream`.
    """

    in_background = False
    """It is asked only where an answer is needed: about a completion or a final text, or once commands pass."""

    def __init__(self, provider: Provider, criteria: str | Sequence[str], folder: str | None = None) -> None:
        if not callable(getattr(provider, "stream", None)):
            raise WrongUse(f"CriteriaCheck: {provider!r} has no method `stream`; give a provider")
        self.criteria = _criteria_in(criteria) if isinstance(criteria, str) else tuple(criteria)
        if not self.criteria:
            raise WrongUse("CriteriaCheck: there is no criterion: write one for each item of a list")
        self._provider = provider
        self._folder = folder
        self.__name__ = f"{len(self.criteria)} criteria"

    async def __call__(self, run: Progress[Any]) -> Judged | None:
        """Ask the model. Return None if its answer cannot be read."""
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(self.criteria, 1))
        told = "\n\n".join(_rendered(_shown(run.messages)))
        question = f"{told}\n\n{QUESTION.format(criteria=listed)}"
        text, usage, finish = await complete_text(self._provider, question, run.prices)
        verdicts = None if finish in NO_ANSWER else _read(text)
        if verdicts is None:
            return Judged(None, self._provider.model, usage)
        results = {message.call_id for message in run.messages if isinstance(message, ToolResult)}
        missing = [
            said
            for number, criterion in enumerate(self.criteria, 1)
            if (said := self._missing(number, criterion, verdicts.get(number), results)) is not None
        ]
        met = len(self.criteria) - len(missing)
        answer = Met() if not missing else NotMet("\n".join(missing), met, len(self.criteria))
        return Judged(answer, self._provider.model, usage)

    def _missing(self, number: int, criterion: str, said: _Verdict | None, results: Collection[str]) -> str | None:
        """Return what is missing for a criterion; None if it is met, with evidence that exists."""
        head = f"{number}. {criterion}"
        if said is None:
            return f"{head}: unknown, nothing was said about it"
        if said.verdict != "met":
            return f"{head}: {said.verdict}. {said.why}".strip()
        if said.evidence.strip() in results or self._has_line(said.evidence.strip()):
            return None
        return f"{head}: unknown, {said.evidence.strip() or 'nothing'} is no call of this run and no line of a file"

    def _has_line(self, evidence: str) -> bool:
        """Return whether this is a line of a file below the folder."""
        named = _LINE.fullmatch(evidence)
        if named is None:
            return False
        root = os.path.realpath(self._folder or ".")
        path = os.path.realpath(os.path.join(root, named["file"]))
        if os.path.commonpath([root, path]) != root or not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return 1 <= int(named["line"]) <= sum(1 for _ in file)


def _criteria_in(text: str) -> tuple[str, ...]:
    """Return the items of the lists in a text, or else its paragraphs without headings."""
    items = tuple(found.strip() for found in _ITEM.findall(text))
    if items:
        return items
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return tuple(paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith("#"))


def _shown(messages: Sequence[Message]) -> list[Message]:
    users = [message for message in messages[:-LATEST] if isinstance(message, UserMessage)]
    return [*users, *messages[-LATEST:]]


def _rendered(messages: Sequence[Message]) -> Iterator[str]:
    """Yield messages as text, with the ids of calls."""
    for message in messages:
        match message:
            case AssistantMessage():
                calls = "".join(f"\n[call {call.id}: {call.name} {call.arguments}]" for call in message.calls)
                yield f"Agent: {message.text}{calls}"
            case ToolResult():
                yield f"Result of call {message.call_id}: {message.content}"
            case _:
                yield render_message(message)


def _read(text: str) -> dict[int, _Verdict] | None:
    """Return the verdicts in an answer, by the number of the criterion; None if it holds none that can be read."""
    begin, end = text.find("["), text.rfind("]")
    if begin < 0 or end < begin:
        return None
    try:
        said = msgspec.json.decode(text[begin : end + 1], type=list[_Verdict])
    except (msgspec.DecodeError, RecursionError):
        return None
    return {one.criterion: one for one in said}
