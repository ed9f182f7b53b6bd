"""A budget of cost and tokens that many runs share, from one or more engines in one process and event loop.

Before each step a run reserves what the step is expected to use, and afterwards settles what it used. A step that does
not fit in addition to the other reservations waits until one of them is settled; if there are no others, a step is
admitted as long as anything is left. Responses are counted while they stream and cut off once all of them together
exceed the limit. A run is refused only when the limit is reached; the guards see that as an event.

Requests between steps (a `ModelJudge`, summaries) reserve in the same way: if refused, they are not sent, and the
refusal of the next step ends the run. Usage of other functions is only counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf

from .decision import Event, Price, Usage, WrongUse
from .decision.cost import with_cost
from .decision.events import AttemptFailed, BudgetRefused, CheckEnded, ResponseFinished, StepFinished, VerdictGiven
from .decision.wrong_calls import checked

EXPECTED_FIRST_OUTPUT = 500
"""Expected output tokens of a run's first response; each later one is expected to be as long as the one before."""


@checked
class Budget:
    """Limits for all runs together; each is off unless set.

    cost_usd: US dollars, above 0.
    input_tokens: tokens of all requests, cached ones included, above 0.
    output_tokens: tokens of all responses, above 0.

    Pass the same object to several engines: `Engine(..., budget=budget)`. It lives in memory: a new process starts
    with a new one, and `spent` at zero. Raises WrongUse if no limit is set, or one is not above 0.
    """

    def __init__(
        self, *, cost_usd: float | None = None, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> None:
        given = {"cost_usd": cost_usd, "input_tokens": input_tokens, "output_tokens": output_tokens}
        self.limits = {name: allowed for name, allowed in given.items() if allowed is not None}
        """The limits that are set, by name."""
        if not self.limits:
            raise WrongUse("Budget limits nothing: give cost_usd, input_tokens or output_tokens")
        for name, allowed in self.limits.items():
            if not 0 < allowed < inf:
                raise WrongUse(f"Budget.{name} is {allowed}: use more than 0")
        self.spent = Usage()
        """Usage of all runs so far."""
        self._held: dict[BudgetShare, Usage] = {}
        self._streaming = dict.fromkeys(self.limits, 0.0)
        """Estimated usage of the responses that are streaming, by limit."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def reserved(self) -> Usage:
        """The expected usage of the steps in progress."""
        return sum(self._held.values(), Usage())

    def share(self, price: Price | None) -> BudgetShare:
        """Return a share for one more run. price: that of its most expensive model; None if no price is known."""
        return BudgetShare(self, price)

    async def reserve(self, share: BudgetShare, expected: Usage, step: int) -> BudgetRefused | None:
        """Reserve the expected usage of a step, waiting until it fits. Return the refusal if a limit is used up."""
        while True:
            if (reached := limit_reached(self.limits, self.spent)) is not None:
                name, used, allowed = reached
                return BudgetRefused(step=step, limit=name, used=used, allowed=allowed)
            if not self._held or fits(self.limits, self.spent + self.reserved + expected):
                self._held[share] = expected
                return None
            settled = asyncio.get_running_loop().create_future()
            self._waiting.append(settled)
            await settled

    def settle(self, share: BudgetShare, used: Usage | None) -> None:
        """Release a run's reservation and count what was used. used: None if nothing is left to count."""
        self._held.pop(share, None)
        self.stream(share, Usage())
        if used is not None:
            self.spent = self.spent + used
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    def stream(self, share: BudgetShare, usage: Usage) -> tuple[str, float, float] | None:
        """Update the usage of a streaming response. Return the limit it exceeds as (name, used, allowed), or None.

        Input tokens are spent when a request is sent, so they never cut a response off.
        """
        passed = None
        for name, allowed in self.limits.items():
            now = _amount(usage, name)
            self._streaming[name] += now - share.streaming.get(name, 0.0)
            share.streaming[name] = now
            used = _amount(self.spent, name) + self._streaming[name]
            if used > allowed and name != "input_tokens" and passed is None:
                passed = name, used, allowed
        return passed

    def spend(self, used: Usage) -> None:
        """Count usage that was not reserved, such as that of a failed attempt or of a user's function."""
        self.spent = self.spent + used


class BudgetShare:
    """One run's share of a budget. It reads the run's events to learn what was used."""

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self._budget = budget
        self._price = price
        self._last = FIRST
        self.streaming: dict[str, float] = {}
        """Estimated usage of this run's streaming response, by limit."""

    async def reserve(self, step: int, input_tokens: int) -> BudgetRefused | None:
        """Wait until one more request of this size fits, then reserve it. Return the refusal if a limit is used up."""
        return await self._budget.reserve(self, expected_usage(input_tokens, self._last, self._price), step)

    def stream(self, usage: Usage) -> tuple[str, float, float] | None:
        """Update the usage of the streaming response. Like `Budget.stream`."""
        return self._budget.stream(self, usage)

    def feed(self, event: Event) -> None:
        """Process one event of the run."""
        match event:
            case ResponseFinished(usage=usage):
                self._last = usage
                self._budget.settle(self, usage)
            case VerdictGiven(role="judge" | "compactor", usage=usage):
                self._budget.settle(self, usage)
            case AttemptFailed(beside=False):
                self._budget.stream(self, Usage())
                self._budget.spend(event.usage or Usage())
            case (
                AttemptFailed(usage=Usage() as used)
                | VerdictGiven(usage=Usage() as used)
                | CheckEnded(usage=Usage() as used)
            ):
                self._budget.spend(used)
            case StepFinished():
                self._budget.settle(self, None)  # whose attempts have all failed, or that was cancelled
            case _:
                pass

    def close(self) -> None:
        """Release what is still reserved, at the end of the run."""
        self._budget.settle(self, None)


FIRST = Usage(output_tokens=EXPECTED_FIRST_OUTPUT)
"""Expected usage of a run's first response."""


def expected_usage(input_tokens: int, last: Usage, price: Price | None) -> Usage:
    """Return the expected usage of a request with this many input tokens, if its response is like the last one."""
    cached = min(last.cached_tokens, input_tokens)
    expected = Usage(input_tokens=input_tokens, output_tokens=last.output_tokens, cached_tokens=cached)
    if price is None:
        expected = expected + Usage(cost_usd=last.cost_usd)  # the provider reports costs: expect a similar one
    return with_cost(expected, price)


def limit_reached(limits: Mapping[str, float], spent: Usage) -> tuple[str, float, float] | None:
    """Return the limit that is used up as (name, used, allowed); None if there is none."""
    amounts = ((name, _amount(spent, name), allowed) for name, allowed in limits.items())
    return next((one for one in amounts if one[1] >= one[2]), None)


def fits(limits: Mapping[str, float], together: Usage) -> bool:
    """Return whether a usage is within all limits. A lone request is not checked: the last one may exceed a limit."""
    return all(_amount(together, name) <= allowed for name, allowed in limits.items())


def _amount(usage: Usage, limit: str) -> float:
    amount: float | None = getattr(usage, limit)
    return amount or 0
