"""A race: one prompt, several models, and the first good completion wins.

    race = await engine.race("Set the port to 8080", [one_model, another])
    print(race.winner.provider if race.winner else "nobody")

As soon as a run completes, the others are cancelled through their shared scopes; their usage until then is counted. A
run completes by an accepted completion, or by text if the policy lets text end a run. A run that reached a limit,
failed or waits for an answer never wins. A run that completed but failed its evaluation wins only if all others have
ended and none was better.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from .batch import Fleet, Summary
from .config import RunConfig, provider_of
from .decision import Usage, WrongUse
from .decision.outcome import OutputT
from .decision.wrong_calls import checked
from .providers import Provider
from .providers.clock import Clock
from .tasks import PreparedTask, Records, TaskResult, numbered, prepare_task
from .user_message import Prompt, user_message
from .validation import preview

CAUSE = "race"
"""The recorded cause of a run that was cancelled because another one won."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult(Generic[OutputT]):
    """Result of a race."""

    results: tuple[TaskResult[OutputT], ...]
    """One for each provider, in the given order."""
    winner: TaskResult[OutputT] | None
    """None if no run completed."""
    summary: Summary
    """Figures of all runs by provider, with the total."""

    @property
    def usage(self) -> Usage:
        """Usage of all runs together, cancelled ones included."""
        return self.summary.total.usage


class Racing:
    """A race: starts all runs at once, and cancels the others once one has won.

    compare: let all runs continue to their end. holds: providers whose connections stay open during the race.
    """

    def __init__(
        self, jobs: Sequence[PreparedTask], *, compare: bool, holds: Sequence[Provider] = (), clock: Clock | None = None
    ) -> None:
        if len(jobs) < 2:
            raise WrongUse(f"a race needs two models or more; there {'is only one' if jobs else 'are none'}")
        self._compare = compare
        self._first: int | None = None
        """Number of the task that completed first and did not fail its evaluation; None so far."""
        self._first_of_all: int | None = None
        """Number of the task that completed first, whatever its evaluation said; None so far."""
        self._fleet = Fleet(jobs, limit=len(jobs), on_end=self._ended, holds=holds, clock=clock)

    @property
    def begun(self) -> bool:
        """Whether any run of the race is in progress, so that it can be cancelled."""
        return self._fleet.running > 0

    def cancel(self, cause: str = "caller") -> None:
        """Cancel all runs."""
        self._fleet.cancel(cause)

    async def result(self) -> RaceResult:
        """Start all runs, wait until all have ended, and return the result."""
        async with self._fleet:
            results = sorted([result async for result in self._fleet], key=lambda result: result.number)
        first = self._first_of_all if self._first is None else self._first
        winner = results[first] if first is not None else None
        return RaceResult(results=tuple(results), winner=winner, summary=self._fleet.summary())

    def _ended(self, result: TaskResult) -> None:
        if result.outcome.status != "completed":
            return
        if self._first_of_all is None:
            self._first_of_all = result.number
        if self._first is None and result.outcome.verdict != "failed":
            self._first = result.number
            if not self._compare:
                self._fleet.cancel(CAUSE)


def racing(
    config: RunConfig,
    prompt: Prompt,
    providers: Sequence[Provider | str],
    compare: bool,
    record: str | os.PathLike[str] | None,
    deps: Any = None,
) -> Racing:
    """Return the race of these providers. One that is given twice races twice."""
    message = user_message(prompt)
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise WrongUse(f"providers is {preview(providers)}: a race takes two or more: write [one, another]")
    records = Records(record) if record is not None else None
    racers = [provider_of(provider) for provider in providers]
    configs = [config.with_provider(provider) for provider in racers]
    taken: Counter[str] = Counter()
    names = [numbered(provider.model, taken) for provider in racers]
    jobs = [
        prepare_task(chosen, message, number, name, name, records, deps=deps)
        for number, (chosen, name) in enumerate(zip(configs, names, strict=True))
    ]
    return Racing(jobs, compare=compare, holds=racers, clock=config.runtime.clock)
