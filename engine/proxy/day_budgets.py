"""Daily budgets: one for all agents together, and one for each key that they use.

A request reserves its expected usage and settles its actual usage, so that many at once do not exceed a limit. One that
does not fit now waits, as in `endstop.Budget`. `budget_store.py` keeps the amounts. A budget whose store fails is
open, and reports this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import partial
from math import inf
from time import monotonic
from typing import TypeVar
from uuid import uuid4

from msgspec.structs import replace

from ..budget import FIRST, Budget, expected_usage
from ..decision import Price, Usage, WrongUse
from ..decision.errors import error_text
from ..decision.events import BudgetRefused
from ..providers._logging import log_warning
from ..providers._outage import Outage
from ..providers.prices import Prices
from ..records.sqlite_file import FAILURES
from .budget_store import EVERYBODY, PROCESS_SECONDS, BudgetRequest, BudgetStore

LIMITS = {"cost_usd": "US dollars", "input_tokens": "input tokens", "output_tokens": "output tokens"}
"""Limits of a budget, with what each counts."""
POLL_SECONDS = 0.5
"""Seconds between the checks of a waiting request for amounts that other processes have settled."""
STORE_SECONDS = 3.0
"""Maximum seconds that a request waits for the store."""
LOOK_SECONDS = 1.0
"""Maximum seconds that a look at what is left waits for the store."""
RETRY_SECONDS = 5.0
"""Seconds until a store that failed is tried again."""

T = TypeVar("T")


def parse_limits(option: str, given: list[str]) -> dict[str, float]:
    """Return the limits of a budget, written NAME=AMOUNT. Raises WrongUse."""
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
        _budget(limits)  # its error says what is wrong with them
    return limits


class DayBudgets:
    """Budgets of the current day.

    everybody, each_key: daily limits by name, for all agents together and for each key; empty for none. prices: prices
    of the models, for a limit on cost. store: where the budgets are kept; in memory if omitted.

    If the store fails, requests are let through without a reservation, and `problem` says why. It is tried again after
    `RETRY_SECONDS`; usage in the meantime is counted then.
    """

    def __init__(
        self,
        everybody: Mapping[str, float],
        each_key: Mapping[str, float],
        prices: Prices,
        today: Callable[[], str] = lambda: date.today().isoformat(),
        store: BudgetStore | None = None,
    ) -> None:
        self._everybody, self._each_key = dict(everybody), dict(each_key)
        self.prices = prices
        self.problem = ""
        """Why the budgets limit nothing; empty while they do."""
        self._today = today
        self._store = store or BudgetStore()
        self._thread = None if self._store.path is None else ThreadPoolExecutor(1, "budgets")
        """Thread that waits for the disk; None if nothing does."""
        self._left_alone_until = -inf
        """Time at which a store that failed is tried again, in seconds on the monotonic clock."""
        self._outage = Outage("the store of the budgets fails: they limit nothing")
        self._reserved = 0
        """Reserved requests in progress."""
        self._renewing: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def reserve(self, key: str, input_tokens: int, price: Price | None, like: Usage = FIRST) -> Reservation:
        """Reserve a request, waiting until there is room for it.

        key: the provider's key, as the agent sent it. like: earlier usage by which the response is estimated.
        """
        expected = expected_usage(input_tokens, like, price)
        while True:
            budgets = self._budgets_of(key)
            request = BudgetRequest(name=uuid4().hex, day=self._today(), budgets=budgets, expected=expected)
            try:
                answer = await self._ask(request)
            except asyncio.CancelledError:  # the agent left
                self._end(request, None)
                raise
            if answer is True:
                self._reserved += 1
                self._keep_alive()
                return Reservation(partial(self._settle, request), expected)
            if isinstance(answer, BudgetRefused):
                return Reservation(refused=answer)
            if answer is None:
                return Reservation(partial(self._end, replace(request, name="")), expected, open=True)
            await self._wait()

    def _budgets_of(self, key: str) -> dict[bytes, dict[str, float]]:
        budgets = {EVERYBODY: self._everybody} if self._everybody else {}
        return budgets | ({self._store.digest(key): self._each_key} if self._each_key else {})

    @property
    def limits(self) -> Mapping[str, Mapping[str, float]]:
        """The daily limits by their names: those of `everybody`, and those of each `key`; empty for none."""
        return {"everybody": self._everybody, "key": self._each_key}

    async def left(self) -> Mapping[str, Mapping[str, float]] | None:
        """Return what is left today of each limit, by its name as in `limits`; of keys, the least that one has left.

        Returns None if that is not known within `LOOK_SECONDS`.
        """
        ask = partial(self._store.most_spent, self._today())
        try:
            if self._thread is None:
                spent = ask()
            elif self.problem:
                return None
            else:
                async with asyncio.timeout(LOOK_SECONDS):
                    spent = await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._attempt, ask))
        except (TimeoutError, OSError, *FAILURES):
            return None
        return {
            budget: {name: max(0.0, limit - (getattr(used, name) or 0)) for name, limit in limits.items()}
            for (budget, limits), used in zip(self.limits.items(), spent, strict=True)
        }

    async def _ask(self, request: BudgetRequest) -> BudgetRefused | bool | None:
        """Return the store's answer to a request; None if the store fails."""
        if self._thread is None:
            return self._store.reserve(request)
        asked = partial(self._attempt, partial(self._store.reserve, request))
        try:
            async with asyncio.timeout(STORE_SECONDS):
                answer = await asyncio.get_running_loop().run_in_executor(self._thread, asked)
        except TimeoutError:
            self._end(request, None)  # it may still be reserved
            self._note_failure(f"it gave no answer within {STORE_SECONDS:g} s")
            return None
        except (OSError, *FAILURES) as error:
            self._note_failure(error_text(error))
            return None
        self.problem = ""
        self._outage.over()
        return answer

    def _attempt(self, work: Callable[[], T]) -> T:
        """Do something with the store, in its thread, unless it has just failed. Raises the store's errors."""
        if monotonic() < self._left_alone_until:
            raise OSError("it has just failed")
        try:
            return work()
        except (OSError, *FAILURES):
            self._left_alone_until = monotonic() + RETRY_SECONDS
            raise

    def _note_failure(self, why: str) -> None:
        self.problem = self.problem or why
        self._outage.failed(store=str(self._store.path), why=self.problem)

    def _settle(self, request: BudgetRequest, used: Usage | None) -> None:
        self._reserved -= 1
        self._end(request, used)

    def _end(self, request: BudgetRequest, used: Usage | None) -> None:
        """Note that a request has ended. Returns at once."""
        if self._thread is None:
            self._store.note_end(request, used)
            self._store.write()
            self._wake()
        else:
            self._thread.submit(self._write_end, asyncio.get_running_loop(), request, used)

    def _write_end(self, loop: asyncio.AbstractEventLoop, request: BudgetRequest, used: Usage | None) -> None:
        self._store.note_end(request, used)
        with suppress(OSError, *FAILURES):  # the amounts are kept, and the next request finds that the store fails
            self._attempt(self._store.write)
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(self._wake)

    async def _wait(self) -> None:
        """Wait until a request has been settled, here or perhaps in another process."""
        settled = asyncio.get_running_loop().create_future()
        self._waiting.append(settled)
        await asyncio.wait([settled], timeout=None if self._thread is None else POLL_SECONDS)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    def _keep_alive(self) -> None:
        if self._thread is not None and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.create_task(self._renew(self._thread), name="endstop day budgets")

    async def _renew(self, thread: ThreadPoolExecutor) -> None:
        """Write signs of life while requests are reserved, so that other processes know that this one lives."""
        while self._reserved:
            await asyncio.sleep(PROCESS_SECONDS / 3)
            with suppress(OSError, *FAILURES):
                await asyncio.get_running_loop().run_in_executor(thread, self._attempt, self._store.write)

    async def close(self) -> None:
        """Write the ended requests, and close the store."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._thread is None:
            self._store.close()
            return
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        except (OSError, *FAILURES) as error:
            log_warning("the latest usage is not in the store of the budgets", why=error_text(error))
        self._thread.shutdown(wait=False)


class Reservation:
    """Part of the budgets reserved for one request.

    end: called with its usage. expected: its expected usage. refused: why it is not made; None if it may be.
    open: whether it may be made because the store fails.
    """

    def __init__(
        self,
        end: Callable[[Usage | None], None] | None = None,
        expected: Usage | None = None,
        *,
        refused: BudgetRefused | None = None,
        open: bool = False,
    ) -> None:
        self.refused = refused
        self.expected = expected
        self.open = open
        self._end = end

    @property
    def detail(self) -> str:
        """Reason why the request is not made, for people."""
        if self.refused is None:
            return ""
        used, allowed = f"{self.refused.used:,.10g}", f"{self.refused.allowed:,.10g}"
        return f"the budget of today is spent: {used} of {allowed} {LIMITS[self.refused.limit]}"

    def settle(self, used: Usage | None) -> None:
        """Note that the request has ended with this usage; None if it is unknown."""
        end, self._end = self._end, None
        if end is not None:
            end(used)


def _budget(limits: Mapping[str, float]) -> Budget:
    def tokens(name: str) -> int | None:
        return int(limits[name]) if name in limits else None

    return Budget(
        cost_usd=limits.get("cost_usd"), input_tokens=tokens("input_tokens"), output_tokens=tokens("output_tokens")
    )
