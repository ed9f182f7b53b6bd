"""Backtest: another policy asked at every step of a recorded run, without a model.

What a policy decides by stands in the events, so it can be asked anew. What it would have brought about does not:
from the first point where it says something to the model that the record did not say, or goes on past the recorded
end, the rest is unknown, and a finding says so. Beside that stands where it would have stopped if the model had gone
on as recorded all the same (`stops`), which is a supposition and never counted as a saving.

One assumption is made throughout: the model's responses do not depend on which completion and question tools the
policy offers, nor on anything else that is not said to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from . import events as ev
from .facts import Facts, fold
from .policy import Policy
from .rules import Rule
from .summary import HEARD, Digester, Point, RunDigest
from .walker import WALKED, Walker

# What one policy makes of one recorded run, in words that all who compare policies share.

Parting = Literal["same", "earlier", "later", "diverges", "refused"]
"""How a policy's run compares with the record.

same: ends at the same step. earlier: would have ended before. later: would have gone on past the recorded end.
diverges: would have said something else to the model. refused: cannot work with the tools that were offered.
"""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one policy makes of one recorded run."""

    parting: Parting
    step: int | None = None
    """The step after which the two part; None where they are the same."""
    why: str = ""
    """What the policy says there, in words."""
    stops: Point | None = None
    """What would be used at its stop; if `parting` is `diverges`, only supposing that the model goes on as recorded."""
    stop_reason: str = ""
    """Its stop reason there."""
    rule: str = ""
    """The rule or guard that spoke."""
    saved: Point | None = None
    """What the record used after that stop; None where it is unknown. A closing step of the new policy is a request."""
    least_saved_steps: int = 0
    """Steps that the record made beyond the policy's hard limit: saved for certain, whatever the model would do."""
    cut: bool = False
    """True if it would have ended before the step at which the work was reported as done."""
    goes_on: bool = False
    """True if it would have gone on after that step."""


_HEARD = HEARD | WALKED


class Backtested(Struct, frozen=True, kw_only=True):
    """One recorded run, and what each policy makes of it, in the order in which they were given."""

    digest: RunDigest
    findings: tuple[Finding, ...]


def backtest(
    events: Iterable[ev.Event], policies: Sequence[Policy], own: tuple[Rule, ...] = ()
) -> Iterator[Backtested]:
    """Each run in these events of one record, under each of the policies.

    Parts of streams may be left out of the events. `own` are a user's rules and guards that the policies name.
    Raises WrongUse if a policy names one that nobody brought.
    """
    facts = Facts()
    digester: Digester | None = None
    walkers: list[Walker] = []
    for event in events:
        if isinstance(event, ev.RunStarted):
            if digester is not None:
                yield _backtested(digester, facts, walkers)
            facts = fold(Facts(), event)
            digester = Digester(event, facts)
            walkers = [Walker(policy, event, facts, own) for policy in policies]
        elif digester is not None:
            facts = fold(facts, event)
            if type(event) in _HEARD:
                digester.take(event, facts)
                for walker in walkers:
                    walker.take(event, facts)
    if digester is not None:
        yield _backtested(digester, facts, walkers)


def _backtested(digester: Digester, facts: Facts, walkers: Iterable[Walker]) -> Backtested:
    digest = digester.digest(facts)
    return Backtested(digest=digest, findings=tuple(walker.finding(digest) for walker in walkers))
