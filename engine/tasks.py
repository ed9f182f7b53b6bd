"""Tasks of a batch and their results: one for each task, even if its run failed or never began."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import floor
from pathlib import Path
from typing import Any, Generic
from uuid import uuid4

from .config import RunConfig
from .decision import Facts, Outcome, Status, UserMessage, WrongUse
from .decision.outcome import OutputT
from .decision.wrong_calls import checked
from .evaluation import Evaluator
from .providers import Provider
from .run import Run
from .session import Session
from .tools.function_roles import check_functions
from .user_message import Prompt, user_message


@checked
@dataclass(frozen=True, slots=True)
class Task:
    """A prompt in a batch. A plain string is a task with only a prompt. Raises WrongUse for an invalid evaluator."""

    prompt: Prompt
    id: str = ""
    """Its name in results, summaries and file names of records; if empty, its number, from 1."""
    provider: Provider | None = None
    """The provider of its run; None for the batch's."""
    evaluate: Evaluator | None = None
    """The evaluator of its run; None for the engine's."""
    deps: Any = None
    """Dependencies of its run: `RunContext.deps`."""

    def __post_init__(self) -> None:
        check_functions(evaluate=self.evaluate)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(Generic[OutputT]):
    """Result of one task."""

    number: int
    """Its index among the tasks, from 0."""
    id: str
    """The task's id; its number, from 1, if it was given none."""
    provider: str
    """The model's name; `name (2)` for a second provider of the same name."""
    outcome: Outcome[OutputT]
    """The run's outcome. Without a run: `failed` with the error, or `cancelled` if it had not begun."""
    started: bool = True
    """Whether a run began, so that there are events and a record."""
    record: str | None = None
    """The path of its record, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTask:
    """Task that is ready to start."""

    number: int
    id: str
    provider: str
    start: Callable[[], Run]
    """Function that makes the run. If it raises, the task's result is `failed`, with that error."""
    record: str | None = None

    def result(self, outcome: Outcome) -> TaskResult:
        """Return the result of a run that has its outcome."""
        return TaskResult(number=self.number, id=self.id, provider=self.provider, outcome=outcome, record=self.record)

    def result_without_outcome(self, run: Run | None, status: Status, reason: str, detail: str) -> TaskResult:
        """Return the result of a task whose run did not begin or has no outcome. Usage of the run is counted."""
        facts = run.facts if run is not None else Facts()
        outcome = Outcome(
            run_id=run.id if run is not None else "",
            session_id=run.session_id if run is not None else "",
            status=status,
            stop_reason=reason,
            detail=detail,
            steps=facts.steps,
            rounds=facts.rounds,
            requests=facts.requests,
            usage=facts.usage,
            duration_ms=facts.t,
        )
        if facts.run_id:
            return self.result(outcome)
        return TaskResult(number=self.number, id=self.id, provider=self.provider, outcome=outcome, started=False)


def prepare_tasks(
    config: RunConfig,
    tasks: Sequence[Task],
    providers: Sequence[Provider],
    record: str | os.PathLike[str] | None,
    drain: float = 0,
) -> list[PreparedTask]:
    """Make all tasks ready to start. The providers take turns; a task with a separate provider takes no turn.

    drain: the share of the tasks whose cut responses are read to their end; these tasks are spread evenly.

    They take turns because the alternative, the provider with the fewest runs, would send everything to a
    provider that refuses each request immediately.
    """
    _check(tasks)
    records = Records(record) if record is not None else None
    brought = [task.provider for task in tasks if task.provider is not None]
    configs = {id(provider): config.with_provider(provider) for provider in (*providers, *brought)}
    names = provider_names([*providers, *brought])
    turns = cycle(providers)
    width = len(str(len(tasks)))
    prepared = []
    for number, task in enumerate(tasks):
        provider = task.provider or next(turns)
        chosen = configs[id(provider)]
        if task.evaluate is not None:
            chosen = chosen.with_provider(provider, task.evaluate)
        place = f"{number + 1:0{width}}"
        task_id, name = task.id or str(number + 1), names[id(provider)]
        drained = floor((number + 1) * drain) > floor(number * drain)
        prepared.append(
            prepare_task(chosen, task.prompt, number, task_id, name, records, place, deps=task.deps, drain=drained)
        )
    return prepared


def prepare_task(
    config: RunConfig,
    prompt: Prompt,
    number: int,
    id: str,
    name: str,
    records: Records | None,
    place: str = "",
    deps: Any = None,
    *,
    drain: bool = False,
) -> PreparedTask:
    """Prepare one run of this prompt in a new session. place: the beginning of its record's file name."""
    session_id = f"session_{uuid4().hex[:12]}"
    record = records.path(place or str(number + 1), id, session_id) if records is not None else None

    def start() -> Run:
        return Session(config, session_id, record=record, drain=drain).start(prompt, deps=deps)

    return PreparedTask(number=number, id=id, provider=name, start=start, record=record)


def provider_names(providers: Iterable[Provider]) -> dict[int, str]:
    """Return a name for each provider, by its `id()`: its model's name, with a number if another one has it."""
    names: dict[int, str] = {}
    taken: Counter[str] = Counter()
    for provider in providers:
        if id(provider) not in names:
            names[id(provider)] = numbered(provider.model, taken)
    return names


def numbered(name: str, taken: Counter[str]) -> str:
    """Return the name; from its second use on, with a number, as in `name (2)`."""
    taken[name] += 1
    return name if taken[name] == 1 else f"{name} ({taken[name]})"


class Records:
    """Folder with one record for each run. No file name is used twice, not even by another batch."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        if self._folder.suffix == ".jsonl" and not self._folder.is_dir():
            raise WrongUse(
                f"record is {str(folder)!r}, a file: each run writes a file of its own, so name a folder for them, as "
                f"in record={str(self._folder.with_suffix(''))!r}"
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUse(f"record: {folder} cannot be a folder of records: {error.strerror}") from None

    def path(self, place: str, id: str, session_id: str) -> str:
        """Return the path of a run's record: its place among the tasks, its id, the end of its session's id."""
        words = [place] if id == place.lstrip("0") else [place, _NOT_IN_NAMES.sub("-", id)[:60].strip("-.")]
        return str(self._folder / f"{'-'.join(filter(None, (*words, session_id[-8:])))}.jsonl")


_NOT_IN_NAMES = re.compile(r"[^\w.]+", re.ASCII)


def _check(tasks: Sequence[Task]) -> None:
    ids: Counter[str] = Counter()
    for number, task in enumerate(tasks, 1):
        name = task.id or str(number)
        if isinstance(task.prompt, list | tuple | UserMessage):
            user_message(task.prompt)
        elif not isinstance(task.prompt, str) or not task.prompt.strip():
            raise WrongUse(f"task {name}: its prompt is {task.prompt!r}; a task is a prompt, or a Task that has one")
        ids[name] += 1
        if ids[name] > 1:
            raise WrongUse(f"two tasks have the id {name!r}: give each a different id")
