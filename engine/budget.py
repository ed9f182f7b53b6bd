"""A budget that many runs share: of one engine or of many, in one process and one event loop.

Before each step a run reserves what the step will probably use, and settles by what it did use. A step that does not
fit beside what the others have reserved waits until one of them has settled; a step that nobody is beside is let in
while anything is left. A response is counted while it is read, beside those of the other runs, and cut off once they
have used up the limit together. Only once the limit is reached is a run refused, which is an event that the guards see.

The same holds for what is asked between two steps: a `ModelJudge`, and summaries. One that is refused is not asked,
and the refusal of the next step ends the run. What other functions use is only counted.
"""

from __future__ import annotations

import asyncio
from math import inf

from .decision import Event, Price, Usage, WrongUse
from .decision.cost import with_cost
from .decision.events import AttemptFailed, BudgetRefused, ResponseFinished, StepFinished, VerdictGiven

EXPECTED_FIRST_OUTPUT = 500
"""Output tokens that a run's first response is expected to have; a later one, as many as the one before it."""


class Budget:
    """What runs may use together: US dollars, input tokens, output tokens; each is off unless set.

    Give the same object to several engines: `Engine(..., budget=budget)`. It is kept in memory: a new process begins
    with a new one, `spent` included. Raises WrongUse if nothing is set, or something is not above 0.
    """

    def __init__(
        self, *, cost_usd: float | None = None, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> None:
        given = {"cost_usd": cost_usd, "input_tokens": input_tokens, "output_tokens": output_tokens}
        self.limits = {name: allowed for name, allowed in given.items() if allowed is not None}
        """What is allowed, by the name of the limit."""
        if not self.limits:
            raise WrongUse("Budget limits nothing: give cost_usd, input_tokens or output_tokens")
        for name, allowed in self.limits.items():
            if not 0 < allowed < inf:
                raise WrongUse(f"Budget.{name} is {allowed}: use more than 0")
        self.spent = Usage()
        """What was used so far, by all runs."""
        self._held: dict[BudgetShare, Usage] = {}
        self._streaming = dict.fromkeys(self.limits, 0.0)
        """What the responses that are being read have used so far, estimated."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def reserved(self) -> Usage:
        """What the steps that are under way will probably use."""
        return sum(self._held.values(), Usage())

    def share(self, price: Price | None) -> BudgetShare:
        """The part of one more run, whose model costs so much."""
        return BudgetShare(self, price)

    async def reserve(self, share: BudgetShare, expected: Usage, step: int) -> BudgetRefused | None:
        """Hold what a step will probably use, as soon as there is room for it; or say what is used up."""
        while True:
            for name, allowed in self.limits.items():
                used = _amount(self.spent, name)
                if used >= allowed:
                    return BudgetRefused(step=step, limit=name, used=used, allowed=allowed)
            if self._fits(expected):
                self._held[share] = expected
                return None
            settled = asyncio.get_running_loop().create_future()
            self._waiting.append(settled)
            await settled

    def settle(self, share: BudgetShare, used: Usage | None) -> None:
        """Give back what a run had reserved, and take what it did use."""
        self._held.pop(share, None)
        self.stream(share, Usage())
        if used is not None:
            self.spent = self.spent + used
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    def stream(self, share: BudgetShare, usage: Usage) -> tuple[str, float, float] | None:
        """What a response that is being read has used so far; the limit that is passed by it, used and allowed.

        Input tokens are spent when a request is sent: no response is cut off for them.
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
        """Take what was used beside what was reserved: by an attempt that failed, or a function that is not ours."""
        self.spent = self.spent + used

    def _fits(self, expected: Usage) -> bool:
        if not self._held:
            return True  # as with limits of one run: the last step may go over
        together = self.spent + self.reserved + expected
        return all(_amount(together, name) <= allowed for name, allowed in self.limits.items())


class BudgetShare:
    """One run's part in a budget. As a sink of the run's log it sees what is used."""

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self._budget = budget
        self._price = price
        self._last = Usage(output_tokens=EXPECTED_FIRST_OUTPUT)
        self.streaming: dict[str, float] = {}
        """What the response that is being read has used so far, by limit."""

    async def reserve(self, step: int, input_tokens: int) -> BudgetRefused | None:
        """Wait for room for one more request, of this size; None once it may be made."""
        last = self._last
        expected = Usage(
            input_tokens=input_tokens,
            output_tokens=last.output_tokens,
            cached_tokens=min(last.cached_tokens, input_tokens),
        )
        if self._price is None:
            expected = expected + Usage(cost_usd=last.cost_usd)  # the provider tells costs: the next one will be alike
        return await self._budget.reserve(self, with_cost(expected, self._price), step)

    def stream(self, usage: Usage) -> tuple[str, float, float] | None:
        """What the response that is being read has used so far; the limit that is passed by it, used and allowed."""
        return self._budget.stream(self, usage)

    def feed(self, event: Event) -> None:
        """See an event of the run."""
        match event:
            case ResponseFinished(usage=usage):
                self._last = usage
                self._budget.settle(self, usage)
            case VerdictGiven(role="judge" | "compactor", usage=usage):
                self._budget.settle(self, usage)
            case AttemptFailed(beside=False):
                self._budget.stream(self, Usage())
                self._budget.spend(event.usage or Usage())
            case AttemptFailed(usage=Usage() as used) | VerdictGiven(usage=Usage() as used):
                self._budget.spend(used)
            case StepFinished():
                self._budget.settle(self, None)  # whose attempts have all failed, or that was cancelled
            case _:
                pass

    def close(self) -> None:
        """Give back what is still reserved, at the run's end."""
        self._budget.settle(self, None)


def _amount(usage: Usage, limit: str) -> float:
    amount: float | None = getattr(usage, limit)
    return amount or 0
