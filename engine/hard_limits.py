"""The hard limits on time, tokens and cost within a step.

Between steps the guards check the limits (`decision/guards.py`). Within a step a deadline enforces time, and counting
the streamed output enforces tokens and cost. The first limit that is used up is logged as an event (`LimitReached`):
`decide` needs to know nothing else. Input tokens are spent when a request is sent, so cutting a response could not save
any; they are checked between requests.

A limit whose guard the policy leaves out is not enforced here either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Self

import anyio
from msgspec.structs import replace

from .budget import BudgetShare
from .decision import (
    AnyChunk,
    AssistantMessage,
    Policy,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from .decision.degeneration import RepetitionDetector
from .decision.events import LimitReached
from .decision.limit_usage import LimitStatus, limit_statuses
from .decision.limits import STOP_REASONS
from .decision.messages import new_usage
from .event_log import Log
from .providers.clock import Clock

RESPONSE_TOKENS = "response_tokens"
"""`ResponseFinished.cut_for` of a response that exceeds the policy's limit on one response. The run may continue."""
BYTES_PER_TOKEN = 4
"""Bytes of output that count as one token until the provider reports a count."""
CLOSING = "closing"
"""`ResponseFinished.cut_for` of a response that exceeds the deadline of the closing step."""
BUDGET_CHECK_BYTES = 64
"""Bytes of output between two checks of a shared budget."""


class NoDeadline:
    """Stand-in for a cancel scope if time is not limited: a scope that never times out costs as much as a real one."""

    cancel_called = cancelled_caught = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


NO_DEADLINE = NoDeadline()


class HardLimits:
    """Hard limits of one run: computes what is left of them, and logs when one is used up."""

    def __init__(self, log: Log, policy: Policy, clock: Clock) -> None:
        self._log = log
        self._policy = policy
        self._clock = clock
        self._held = tuple(name for name, reason in STOP_REASONS.items() if reason in policy.guards)
        each = (policy.limits, policy.session_limits)
        self._set = frozenset(name for name in self._held if any(getattr(limits, name) is not None for limits in each))
        """The enforced limits that the policy sets: most runs limit neither time nor output."""

    @property
    def reached(self) -> bool:
        """Whether a limit was used up during the current step."""
        return self._log.facts.limit_reached is not None

    def seconds_left(self) -> float | None:
        """Return the seconds until the first time limit is used up; None if there is none."""
        if "seconds" not in self._set and self._log.facts.refused is None:
            return None  # called several times per step, and most runs have no limit on time
        left = [one.use.allowed - one.use.used for one in self._hard("seconds")]
        return min(left) + self._log.facts.t / 1000 - self._log.elapsed if left else None

    @property
    def out_of_time(self) -> bool:
        """Whether a time limit is used up."""
        left = self.seconds_left()
        return left is not None and left <= 0

    def deadline(self) -> anyio.CancelScope | NoDeadline:
        """Return a scope that cancels the block when the time is up; in the closing step, at that step's deadline."""
        closing = self._log.facts.closing
        seconds = self._policy.deadlines.closing if closing else self.seconds_left()
        return NO_DEADLINE if seconds is None else self._clock.deadline(seconds)

    def record_time_up(self, step: int, attempt: str = "") -> str:
        """Log that the time is used up, and return the name of the limit."""
        facts = self._log.facts
        if facts.closing:
            return CLOSING
        if facts.limit_reached is not None:
            return facts.limit_reached.limit
        self.record(self.time_up(step, attempt))
        return "seconds"

    def time_up(self, step: int, attempt: str = "") -> LimitReached:
        """Return the event that says that the time is used up. Raises ValueError if the run has no limit on time."""
        spent = min(self._hard("seconds"), key=lambda one: one.use.allowed - one.use.used)
        used = spent.use.used - self._log.facts.t / 1000 + self._log.elapsed
        return _limit_reached(spent, step, attempt, round(used, 3), estimated=False)

    def used_up(self, step: int) -> str:
        """Before another attempt of this step, log a used-up limit on tokens or cost and return its name, or ""."""
        if self._log.facts.closing:
            return ""
        spent = next((one for one in self._hard("input_tokens", "output_tokens", "cost_usd") if one.reached), None)
        if spent is None:
            return ""
        estimated = self._log.facts.usage.estimated
        self.record(_limit_reached(spent, step, "", spent.use.used, estimated=estimated))
        return spent.limit

    def record(self, reached: LimitReached) -> None:
        """Log that a limit is used up in the current step. Only the first one is logged."""
        if not self.reached:
            self._log.append(reached)

    def end_step(self, step: int) -> None:
        """Do nothing: before a step ends, the clock and the meter have already logged every limit."""

    def cut_without_end(self, step: int) -> str:
        """Return why a stream without a finish reason was cut off here; "" if it was not cut, so it broke off."""
        return ""

    def repetition_detector(self) -> RepetitionDetector | None:
        """Return a repetition detector for one attempt at a response; None if the policy does not ask for it."""
        settings = self._policy.degeneration
        return RepetitionDetector(settings) if settings.watches else None

    def meter(
        self, step: int, input_tokens: int, priced: Callable[[Usage, str], Usage], share: BudgetShare | None
    ) -> ResponseMeter:
        """Return a meter of a response that is about to be requested.

        priced: adds the cost of a usage of a model. share: the run's share of a budget that other runs use too.
        """
        closing = self._log.facts.closing
        most = self._policy.closing_tokens if closing else self._policy.response_tokens
        return ResponseMeter(
            self, step, input_tokens, priced, None if closing else share, inf if most is None else most
        )

    def milliseconds_due(self) -> float:
        """Return the milliseconds from the start of the run to the time limit; infinite without one or when closing."""
        left = None if self._log.facts.closing else self.seconds_left()
        return inf if left is None else (self._log.elapsed + left) * 1000

    def response_limits(self) -> tuple[LimitStatus, ...]:
        """Return the limits that a streaming response can use up, with their current usage; none when closing."""
        return () if self._log.facts.closing else tuple(self._hard("output_tokens", "cost_usd"))

    def _hard(self, *names: str) -> Iterable[LimitStatus]:
        """Return the hard limits that are set and enforced, with their usage. Soft limits are left out."""
        if self._set.isdisjoint(names) and self._log.facts.refused is None:
            return ()
        held = tuple(name for name in names if name in self._held)
        return (one for one in limit_statuses(self._log.facts, self._policy, held) if not one.use.soft)


class ResponseMeter:
    """Counter of the output of one attempt at a response, which says when to cut it.

    Tokens are estimated from bytes of UTF-8 until the provider reports them: a Chinese character has three bytes, and
    about as many tokens as three letters of English.

    most: the largest number of output tokens; `inf` for no limit. For the other parameters see `HardLimits.meter`.
    """

    def __init__(
        self,
        limits: HardLimits,
        step: int,
        input_tokens: int,
        priced: Callable[[Usage, str], Usage],
        share: BudgetShare | None,
        most: float,
    ) -> None:
        self.written = 0
        """Bytes of output so far, including reasoning and arguments of calls."""
        self._limits = limits
        self._step = step
        self._hard: tuple[LimitStatus, ...] = ()
        self._max_tokens = most
        self._budget_share = share
        self._priced = priced
        self._input_tokens = input_tokens
        self._input = new_usage(input_tokens=input_tokens, estimated=True)
        self._bytes_allowed: float = inf
        self._deadline_ms: float = inf
        """Milliseconds from the start of the run to the time limit."""
        self._model = ""
        self._attempt = ""

    @property
    def tokens(self) -> int:
        """Estimated output tokens so far."""
        return -(-self.written // BYTES_PER_TOKEN)

    def begin(self, attempt: str, model: str) -> None:
        """Start counting a new attempt, or continue with the same one once its model is known."""
        if attempt != self._attempt:
            self.written = 0
        self._attempt, self._model = attempt, model
        self._hard = self._limits.response_limits()
        self._deadline_ms = self._limits.milliseconds_due()
        self._update_bytes_allowed()

    def count(self, chunk: AnyChunk) -> None:
        """Count the output in a chunk."""
        if isinstance(chunk, UsageReport):
            self._set_usage(chunk.usage)
        else:
            self.written += _output_bytes(chunk)

    def limit_to_cut_for(self, t: int) -> str:
        """Return the limit for which to cut the response at `t`, in milliseconds since the run began; "" for none.

        Time is also checked here, because a deadline cannot end a stream that never waits.
        """
        if t >= self._deadline_ms:
            return self._limits.record_time_up(self._step, self._attempt)
        return self._check_limits() if self.written > self._bytes_allowed else ""

    def has_room_for(self, chunk: AnyChunk) -> bool:
        """Return whether no limit on the output can be exceeded within this chunk."""
        return self._bytes_allowed == inf or self.written + _output_bytes(chunk) <= self._bytes_allowed

    def estimate(self, reported: Usage, message: AssistantMessage, attempt: str) -> Usage:
        """Return the usage of a response that ended before the provider had reported all of it.

        reported: the usage reported so far. message: the response so far.
        """
        return reported.for_cut_response(input_tokens=self._input_tokens, output_tokens=self.tokens)

    def _set_usage(self, usage: Usage) -> None:
        """Use the provider's count of the output so far."""
        sent = usage.input_tokens or self._input.input_tokens
        self._input = new_usage(input_tokens=sent, cached_tokens=usage.cached_tokens, estimated=True)
        self.written = max(self.written, usage.output_tokens * BYTES_PER_TOKEN)
        self._update_bytes_allowed()

    def _update_bytes_allowed(self) -> None:
        """Compute how many bytes may come before the next check."""
        tokens = min((self._tokens_left(spent) for spent in self._hard), default=inf)
        self._bytes_allowed = BYTES_PER_TOKEN * min(tokens, self._max_tokens)
        if self._budget_share is not None:
            self._bytes_allowed = min(self._bytes_allowed, self.written + BUDGET_CHECK_BYTES)

    def _tokens_left(self, spent: LimitStatus) -> float:
        """Return the output tokens that a limit still allows in this response."""
        left = spent.use.allowed - spent.use.used
        if spent.limit == "output_tokens":
            return left
        asked = self._cost(0)
        each = (self._cost(1_000_000) - asked) / 1_000_000
        return (left - asked) // each if each > 0 else inf

    def _cost(self, output_tokens: int) -> float:
        return self._priced(replace(self._input, output_tokens=output_tokens), self._model).cost_usd or 0.0

    def _check_limits(self) -> str:
        """Log and return the limit that is exceeded; "" if none is."""
        tokens = self.tokens
        for spent in self._hard:
            if tokens > self._tokens_left(spent):
                used = spent.use.used + (tokens if spent.limit == "output_tokens" else self._cost(tokens))
                self._limits.record(_limit_reached(spent, self._step, self._attempt, used, estimated=True))
                return spent.limit
        if tokens > self._max_tokens:
            return RESPONSE_TOKENS
        return self._check_budget(tokens)

    def _check_budget(self, tokens: int) -> str:
        if self._budget_share is None:
            return ""
        usage = self._priced(replace(self._input, output_tokens=tokens), self._model)
        passed = self._budget_share.stream(usage)
        if passed is None:
            self._update_bytes_allowed()
            return ""
        limit, used, allowed = passed
        self._limits.record(
            LimitReached(
                step=self._step,
                limit=limit,
                scope="budget",
                used=used,
                allowed=allowed,
                attempt=self._attempt,
                estimated=True,
            )
        )
        return limit


def _output_bytes(chunk: AnyChunk) -> int:
    """Return the bytes of output in a chunk."""
    kind, name = type(chunk), ""
    if kind is TextDelta or kind is ReasoningDelta:
        text = chunk.text  # type: ignore[union-attr]
    elif kind is ToolCallDelta:
        text, name = chunk.arguments, chunk.name  # type: ignore[union-attr]
    else:
        text = chunk.arguments if isinstance(chunk, ProviderToolReport) else ""
    return len(name) + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))


def _limit_reached(spent: LimitStatus, step: int, attempt: str, used: float, *, estimated: bool) -> LimitReached:
    return LimitReached(
        step=step,
        limit=spent.limit,
        scope="session" if spent.scope else "",
        used=used,
        allowed=spent.use.allowed,
        attempt=attempt,
        estimated=estimated,
    )
