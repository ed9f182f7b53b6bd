"""The table: what every durable engine must do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from . import failover as dying
from . import queue as queueing
from . import steps as asking
from .harness import Trial

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
