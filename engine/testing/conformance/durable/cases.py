"""The table: what every durable engine must do."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import anyio

from ....decision import WrongUse
from ....decision.errors import did_you_mean
from . import failover as dying
from . import queue as queueing
from . import steps as asking
from .harness import Adapter, Trial

NEEDS = {
    "freezing": "others to go on while a process is frozen: it may hold no lock that they wait for",
    "limits": "a limit to the jobs in work in all processes together",
    "servers": "a server of its own, which can be away",
}
"""What a case can need, and an engine can be declared unable to do."""


@dataclass(frozen=True)
class Case:
    """One thing that every durable engine must do."""

    name: str
    check: Callable[[Trial], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    """Words of NEEDS: an engine that was declared unable to do one of them is not asked."""

    def __str__(self) -> str:
        return self.name


def _case(name: str, check: Callable[[Trial], Awaitable[None]], *needs: str) -> Case:
    return Case(name, check, frozenset(needs))


CASES: tuple[Case, ...] = (
    _case("step: its work happens once", asking.happens_once),
    _case("step: the first result is kept", asking.keeps_the_first),
    _case("step: keys do not mix", asking.keeps_keys_apart),
    _case("step: an exception goes through and keeps nothing", asking.lets_errors_through),
    _case("step: cancelled work keeps nothing", asking.keeps_nothing_of_the_cancelled),
    _case("step: five at once", asking.keeps_five_apart),
    _case("step: a result too large", asking.survives_the_large),
    _case("killed: another process goes on", dying.is_done_by_another),
    _case("killed: results of every kind come back equal", dying.comes_back_equal),
    _case("killed: five at once, two unfinished", dying.keeps_the_finished_of_five),
    _case("killed: many times in a row", dying.survives_many_kills),
    _case("killed: as soon as submit returned", dying.is_durable_when_submitted),
    _case("frozen: within a step", dying.loses_to_another_within, "freezing"),
    _case("frozen: between two steps", dying.loses_to_another_between, "freezing"),
    _case("frozen: and woken while another is at it", dying.loses_in_the_middle, "freezing"),
    _case("recover: of a run at rest", dying.changes_nothing_at_rest),
    _case("queue: a job comes whole", queueing.brings_it_whole),
    _case("queue: submitted twice", queueing.takes_it_once),
    _case("queue: submitted anew after its end", queueing.takes_it_anew),
    _case("queue: work that raises", queueing.goes_on_after_errors),
    _case("queue: at_once is held", queueing.holds_at_once),
    _case("queue: the limit of all processes is held", queueing.holds_the_limit, "limits"),
    _case("queue: two processes share the work", queueing.is_shared),
    _case("drop: a run that waits", queueing.forgets_what_waits),
    _case("drop: a run in work", queueing.takes_it_away),
    _case("drop: results", queueing.forgets_results),
    _case("working: leaving it", queueing.leaves),
    _case("working: once more", queueing.works_again),
    _case("open: the engine is away", queueing.says_that_it_is_away, "servers"),
)


# Runs one case on one adapter.

PATIENCE = 60.0
"""Seconds that a case may take."""


class Cannot(unittest.SkipTest):
    """The engine was declared unable to do this. Shown as skipped, by pytest and unittest."""


async def check(case: Case, adapter: Adapter, *, cannot: Collection[str] = ()) -> None:
    """Run a case on an engine that holds nothing yet. Raises AssertionError, or Cannot.

    `cannot` names what the engine is unable to do, in the words of `Case.needs`. Processes are started by
    `multiprocessing`'s forkserver: a script that calls this needs `if __name__ == "__main__":`, and
    `multiprocessing.set_forkserver_preload` with the engine's packages, before the first case, makes them start sooner.
    """
    for word in sorted(set(cannot) - NEEDS.keys()):
        raise WrongUse(f"cannot={{{word!r}}} names nothing that a case needs{did_you_mean(word, NEEDS)}")
    adapter.check()
    missing = {*cannot} | ({"limits"} if adapter.limited is None else set())
    missing |= {"servers"} if adapter.away is None else set()
    if case.needs & missing:
        raise Cannot(f"{case.name}: the engine was declared unable to do {', '.join(sorted(case.needs & missing))}")
    with tempfile.TemporaryDirectory(prefix="endstop-durable-") as folder:
        trial = Trial(f"conformance case {case.name!r}", adapter, Path(folder))
        try:
            with anyio.move_on_after(PATIENCE) as patience:
                await case.check(trial)
                trial.once()
            if patience.cancelled_caught:
                trial.complain(f"nothing came of it within {PATIENCE:g} s; it waited for: {trial.waiting}")
            trial.quiet()
        finally:
            await trial.close()
