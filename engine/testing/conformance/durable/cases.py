"""Table of the cases that every durable engine must pass, and `check`, which runs one of them."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import anyio

from ....decision import WrongUse
from ....decision.errors import did_you_mean
from ....decision.wrong_calls import checked, explained
from ..nonconformance import Cannot
from . import failover as dying
from . import queue as queueing
from . import steps as script
from .harness import Adapter, DurableTrial

NEEDS = {
    "freezing": "other processes continue while one is frozen: it holds no lock that they wait for",
    "limits": "a limit on the number of jobs running in all processes together",
    "servers": "a separate server, which can be down",
}
"""Abilities that a case may need and that an engine may be declared to lack."""


@checked
@dataclass(frozen=True)
class DurableCase:
    """One requirement of a durable engine."""

    name: str
    check: Callable[[DurableTrial], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    """Keys of NEEDS. The case is skipped for an engine that is declared to lack one of them."""

    def __str__(self) -> str:
        return self.name


def _case(name: str, check: Callable[[DurableTrial], Awaitable[None]], *needs: str) -> DurableCase:
    return DurableCase(name, check, frozenset(needs))


CASES: tuple[DurableCase, ...] = (
    _case("step: its work happens once", script.happens_once),
    _case("step: the first result is kept", script.keeps_the_first),
    _case("step: keys do not mix", script.keeps_keys_apart),
    _case("step: an exception goes through and keeps nothing", script.lets_errors_through),
    _case("step: cancelled work keeps nothing", script.keeps_nothing_of_the_cancelled),
    _case("step: five at once", script.keeps_five_apart),
    _case("step: a result too large", script.survives_the_large),
    _case("killed: another process goes on", dying.is_done_by_another),
    _case("killed: results of every kind come back equal", dying.comes_back_equal),
    _case("killed: five at once, two unfinished", dying.keeps_the_finished_of_five),
    _case("killed: many times in a row", dying.survives_many_kills),
    _case("killed: as soon as submit returned", dying.is_durable_when_submitted),
    _case("frozen: within a step", dying.loses_to_another_within, "freezing"),
    _case("frozen: between two steps", dying.loses_to_another_between, "freezing"),
    _case("frozen: and woken while another is at it", dying.loses_in_the_middle, "freezing"),
    _case("recover: of a run at rest", dying.changes_nothing_at_rest),
    _case("lost: neither what waits nor what is in work", queueing.keeps_what_is_there),
    _case("given: neither what waits nor what these processes have", queueing.tells_what_others_have),
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
"""Every requirement of a durable engine."""


# Running one case on one adapter.

PATIENCE = 120.0
"""Time limit of a case, in seconds. Cases take a few seconds; starting processes on a busy machine takes most of
them."""


@explained
async def check(case: DurableCase, adapter: Adapter, *, cannot: Collection[str] = ()) -> None:
    """Run a case on an empty engine. Raises AssertionError if it fails, or Cannot if the engine lacks a need of it.

    cannot: abilities that the engine lacks, as keys of `NEEDS`. Processes are started by `multiprocessing`'s
    forkserver: a script that calls this needs `if __name__ == "__main__":`, and they start sooner after
    `multiprocessing.set_forkserver_preload` with the engine's packages, called before the first case.
    """
    for word in sorted(set(cannot) - NEEDS.keys()):
        raise WrongUse(f"cannot={{{word!r}}} is not a need of any case{did_you_mean(word, NEEDS)}")
    adapter.check()
    missing = {*cannot} | ({"limits"} if adapter.limited is None else set())
    missing |= {"servers"} if adapter.away is None else set()
    if case.needs & missing:
        raise Cannot(f"{case.name}: the engine is declared to lack {', '.join(sorted(case.needs & missing))}")
    with tempfile.TemporaryDirectory(prefix="endstop-durable-") as folder:
        trial = DurableTrial(f"conformance case {case.name!r}", adapter, Path(folder))
        try:
            with anyio.move_on_after(PATIENCE) as patience:
                await case.check(trial)
                trial.check_exactly_once()
            if patience.cancelled_caught:
                trial.fail(f"not finished within {PATIENCE:g} s; it was waiting for: {trial.waiting}")
            trial.check_no_output()
        finally:
            await trial.close()
