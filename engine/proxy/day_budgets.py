"""Budgets of a day: for all agents together, and for each key with which they come.

Each is an `endstop.Budget`: a request reserves what it is expected to use, and settles what it did use, so that many at
once do not overrun a limit. Keys are known by a digest with a secret of this process. Budgets live in memory: another
process begins with unspent ones.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import date
from hashlib import blake2b

from ..budget import Budget, BudgetShare
from ..decision import Price, Usage, WrongUse
from ..decision.events import BudgetRefused
from ..providers.prices import Prices

LIMITS = {"cost_usd": "US dollars", "input_tokens": "input tokens", "output_tokens": "output tokens"}
"""The limits of a budget, and what they count."""
MOST_KEYS = 10_000
"""Keys with a budget of their own in one day; more share the last one."""


def parse_limits(option: str, given: list[str]) -> dict[str, float]:
    """The limits of a budget, written NAME=AMOUNT. Raises WrongUse."""
    limits: dict[str, float] = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            limits[name] = float(amount)
        except ValueError:
            limits[name] = 0.0
        if name not in LIMITS or not limits[name] > 0:
            raise WrongUse(f"{option} {text}: write NAME=AMOUNT with a name of {', '.join(LIMITS)}, as in cost_usd=20")
    if limits:
        _budget(limits)  # says what is wrong with them
    return limits


class DayBudgets:
    """The budgets of today.

    everybody, each_key: limits of a day by name, for all agents together and for each key; empty: none. prices: of the
    models, for a limit of cost.
    """

    def __init__(
        self,
        everybody: Mapping[str, float],
        each_key: Mapping[str, float],
        prices: Prices,
        today: Callable[[], str] = lambda: date.today().isoformat(),
    ) -> None:
        self._everybody, self._each_key = dict(everybody), dict(each_key)
        self.prices = prices
        self._today = today
        self._secret = os.urandom(16)
        self._begin_day()

    def _begin_day(self) -> None:
        self._date = self._today()
        self._all = _budget(self._everybody) if self._everybody else None
        self._by_key: dict[bytes, Budget] = {}

    async def reserve(self, key: str, input_tokens: int, price: Price | None) -> Reservation:
        """Reserve a request, waiting until it fits beside the others. key: of the provider, as the agent sent it."""
        if self._date != self._today():
            self._begin_day()
        held = Reservation()
        try:
            for budget in self._budgets_of(key):
                share = budget.share(price)
                held.refused = await share.reserve(0, input_tokens)
                if held.refused is not None:
                    break
                held.shares.append((budget, share))
            else:
                return held
        except asyncio.CancelledError:  # the agent left while it waited
            held.settle(None)
            raise
        held.settle(None)
        return held

    def _budgets_of(self, key: str) -> list[Budget]:
        budgets = [] if self._all is None else [self._all]
        if self._each_key:
            digest = blake2b(key.encode("utf-8", "surrogateescape"), key=self._secret, digest_size=16).digest()
            known = digest if digest in self._by_key or len(self._by_key) < MOST_KEYS else b""
            budgets.append(self._by_key.setdefault(known, _budget(self._each_key)))
        return budgets


class Reservation:
    """What one request holds of the budgets. refused: why it is not made; None if it may be."""

    def __init__(self) -> None:
        self.refused: BudgetRefused | None = None
        self.shares: list[tuple[Budget, BudgetShare]] = []

    @property
    def detail(self) -> str:
        """Why the request is not made, for people."""
        if self.refused is None:
            return ""
        used, allowed = f"{self.refused.used:,.10g}", f"{self.refused.allowed:,.10g}"
        return f"the budget of today is spent: {used} of {allowed} {LIMITS[self.refused.limit]}"

    def settle(self, used: Usage | None) -> None:
        """The request has ended, and used this; None: nothing that is known."""
        for budget, share in self.shares:
            budget.settle(share, used)
        self.shares.clear()


def _budget(limits: Mapping[str, float]) -> Budget:
    def tokens(name: str) -> int | None:
        return int(limits[name]) if name in limits else None

    return Budget(
        cost_usd=limits.get("cost_usd"), input_tokens=tokens("input_tokens"), output_tokens=tokens("output_tokens")
    )
