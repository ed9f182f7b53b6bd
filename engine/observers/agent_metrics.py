"""Metrics of runs, counted from their events: how they end, how long steps take, tokens, cost and failed requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..base.metrics_registry import OTHER, SECONDS, Metric, Metrics, known
from ..decision import STATUS_OF, Event, Usage
from ..decision import events as ev
from ..providers.errors import KINDS

STARTED = Metric(
    name="endstop_runs_started_total", kind="counter", labels=("how",),
    meaning="Runs that began here (`new`) or that went on here after another process or a break (`resumed`)",
)  # fmt: skip
ENDED = Metric(
    name="endstop_runs_ended_total", kind="counter", labels=("status", "reason"),
    meaning="Runs that ended here, by status and stop reason; reasons of your own rules are `custom`",
)  # fmt: skip
FAILED = Metric(
    name="endstop_runs_failed_total", kind="counter", labels=("kind",),
    meaning="Runs that failed here: kind of the provider's error, `refusal`, `internal_error` or `custom`",
)  # fmt: skip
SUBAGENTS_ENDED = Metric(
    name="endstop_subagent_runs_ended_total", kind="counter", labels=("status",),
    meaning="Runs of sub-agents that ended here; they are not in endstop_runs_ended_total",
)  # fmt: skip
STEP_SECONDS = Metric(
    name="endstop_step_seconds", kind="histogram", buckets=SECONDS,
    meaning="Duration of a step: the request with its retries, and the calls of the response",
)  # fmt: skip
FIRST_TOKEN_SECONDS = Metric(
    name="endstop_first_token_seconds", kind="histogram", buckets=SECONDS,
    meaning="Time from the start of a request to the first piece of its response",
)  # fmt: skip
TOOL_CALL_SECONDS = Metric(
    name="endstop_tool_call_seconds", kind="histogram", labels=("status",), buckets=SECONDS,
    meaning="Duration of a tool call, by the status of its result; calls that did not run are not counted",
)  # fmt: skip
ATTEMPTS = Metric(
    name="endstop_provider_attempts_total", kind="counter", labels=("result",),
    meaning="Requests to the provider, each retry too: `ok` or the kind of error",
)  # fmt: skip
INPUT_TOKENS = Metric(
    name="endstop_input_tokens_total", kind="counter", meaning="Input tokens, cached ones included",
)  # fmt: skip
CACHED_TOKENS = Metric(
    name="endstop_cached_input_tokens_total", kind="counter", meaning="Input tokens that the provider had cached",
)  # fmt: skip
OUTPUT_TOKENS = Metric(
    name="endstop_output_tokens_total", kind="counter", meaning="Output tokens, reasoning included",
)  # fmt: skip
ESTIMATED_TOKENS = Metric(
    name="endstop_estimated_tokens_total", kind="counter",
    meaning="Tokens among the input and output tokens that no provider reported, at least in part",
)  # fmt: skip
COST = Metric(
    name="endstop_cost_usd_total", kind="counter", unit="USD", meaning="Cost, as far as prices are known",
)  # fmt: skip
UNPRICED = Metric(
    name="endstop_unpriced_responses_total", kind="counter",
    meaning="Responses without a known price, which the cost does not include",
)  # fmt: skip
FAILED_WRITES = Metric(
    name="endstop_failed_writes_total", kind="counter",
    meaning="Writes of events that the store did not take, because it is away or its disk is full; they are repeated",
)  # fmt: skip

RUN_METRICS = (
    STARTED, ENDED, FAILED, SUBAGENTS_ENDED, STEP_SECONDS, FIRST_TOKEN_SECONDS, TOOL_CALL_SECONDS, ATTEMPTS,
    INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS, ESTIMATED_TOKENS, COST, UNPRICED, FAILED_WRITES,
)  # fmt: skip

CUSTOM = "custom"
"""Value of a label for the stop reasons of a user's own rules."""
_FIRST_PARTS = frozenset({ev.TextMessageContent, ev.ReasoningMessageContent, ev.ToolCallStart})


class RunCounter:
    """Counts the events of one run, as they happen in this process.

    subagent: whether it is the run of a sub-agent. What sub-agents use is counted by their own events.
    """

    def __init__(self, metrics: Metrics, *, subagent: bool = False) -> None:
        self._metrics = metrics
        self._subagent = subagent
        self._step_began: int | None = None
        self._request_began: int | None = None
        """When the latest request began, until the first piece of its response; milliseconds, like all times here."""
        self._calls: dict[str, int] = {}
        """When each running call began, by its id."""
        self._error = OTHER
        """Kind of the latest error of the provider."""

    def take(self, event: Event) -> None:
        """Count an event. Takes no time to speak of for the parts of a stream."""
        kind = type(event)
        if kind in ev.STREAM_PARTS:
            if self._request_began is not None and kind in _FIRST_PARTS:
                self._metrics.observe(FIRST_TOKEN_SECONDS, (event.t - self._request_began) / 1000)
                self._request_began = None
        elif (count := self._COUNT.get(kind)) is not None:
            count(self, event)

    def count_failed_write(self) -> None:
        """Count that events could not be stored."""
        self._metrics.add(FAILED_WRITES)

    def _run_started(self, event: ev.RunStarted) -> None:
        self._metrics.add(STARTED, "new")

    def _run_resumed(self, event: ev.RunResumed) -> None:
        self._metrics.add(STARTED, "resumed")

    def _run_finished(self, event: ev.RunFinished) -> None:
        status, reason = event.outcome.status, event.outcome.stop_reason
        if self._subagent:
            self._metrics.add(SUBAGENTS_ENDED, status)
            return
        said = reason if reason in STATUS_OF else CUSTOM
        self._metrics.add(ENDED, status, said)
        if status == "failed":
            self._metrics.add(FAILED, self._error if said == "provider_error" else said)

    def _step_started(self, event: ev.StepStarted) -> None:
        self._step_began = event.t

    def _step_finished(self, event: ev.StepFinished) -> None:
        if self._step_began is not None:
            self._metrics.observe(STEP_SECONDS, (event.t - self._step_began) / 1000)
            self._step_began = None

    def _attempt_started(self, event: ev.AttemptStarted) -> None:
        self._request_began = event.t

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        kind = known(event.kind, KINDS)
        if not event.beside:
            self._request_began, self._error = None, kind
        self._metrics.add(ATTEMPTS, kind)
        self._use(event.usage)

    def _response_finished(self, event: ev.ResponseFinished) -> None:
        self._request_began = None
        self._metrics.add(ATTEMPTS, "ok")
        self._use(event.usage)
        if event.usage.cost_usd is None:
            self._metrics.add(UNPRICED)

    def _other_usage(self, event: ev.VerdictGiven | ev.CheckEnded) -> None:
        self._use(event.usage)

    def _call_began(self, event: ev.ToolExecutionStarted) -> None:
        self._calls[event.call_id] = event.t

    def _call_ended(self, event: ev.ToolCallResult) -> None:
        began = self._calls.pop(event.call_id, None)
        if began is not None:
            self._metrics.observe(TOOL_CALL_SECONDS, (event.t - began) / 1000, event.status)

    def _use(self, usage: Usage | None) -> None:
        if usage is None:
            return
        add = self._metrics.add
        add(INPUT_TOKENS, amount=usage.input_tokens)
        if usage.cached_tokens:
            add(CACHED_TOKENS, amount=usage.cached_tokens)
        add(OUTPUT_TOKENS, amount=usage.output_tokens)
        if usage.estimated:
            add(ESTIMATED_TOKENS, amount=usage.input_tokens + usage.output_tokens)
        if usage.cost_usd:
            add(COST, amount=usage.cost_usd)

    _COUNT: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        ev.RunStarted: _run_started,
        ev.RunResumed: _run_resumed,
        ev.RunFinished: _run_finished,
        ev.StepStarted: _step_started,
        ev.StepFinished: _step_finished,
        ev.AttemptStarted: _attempt_started,
        ev.AttemptFailed: _attempt_failed,
        ev.ResponseFinished: _response_finished,
        ev.VerdictGiven: _other_usage,
        ev.CheckEnded: _other_usage,
        ev.ToolExecutionStarted: _call_began,
        ev.ToolCallResult: _call_ended,
    }
