"""Metrics of the proxy: what `/endstop/metrics` shows."""

from __future__ import annotations

from ..base.metrics_registry import SECONDS, Metric

REQUESTS = Metric(
    name="endstop_proxy_requests_total", kind="counter", labels=("handling",),
    meaning="Requests of agents: `followed` or `passed` on, `answered`, `stopped` or `refused` here",
)  # fmt: skip
CUT_RESPONSES = Metric(
    name="endstop_proxy_cut_responses_total", kind="counter", labels=("reason",), meaning="Responses that were cut",
)  # fmt: skip
ENDED_RUNS = Metric(
    name="endstop_proxy_ended_runs_total", kind="counter", labels=("reason",), meaning="Ended runs, by stop reason",
)  # fmt: skip
FAILED_REQUESTS = Metric(
    name="endstop_proxy_failed_requests_total", kind="counter", labels=("kind",),
    meaning="Requests of followed runs that failed, by kind of error",
)  # fmt: skip
DRY_RUN_STOPS = Metric(
    name="endstop_proxy_dry_run_stops_total", kind="counter", labels=("reason",),
    meaning="Runs that a dry run would have stopped",
)  # fmt: skip
INPUT_TOKENS = Metric(name="endstop_proxy_input_tokens_total", kind="counter", meaning="Input tokens")
OUTPUT_TOKENS = Metric(name="endstop_proxy_output_tokens_total", kind="counter", meaning="Output tokens")
ESTIMATED_TOKENS = Metric(
    name="endstop_proxy_estimated_tokens_total", kind="counter",
    meaning="Tokens among the input and output tokens that no provider reported",
)  # fmt: skip
SAVED_TOKENS = Metric(
    name="endstop_proxy_saved_input_tokens_estimated_total", kind="counter",
    meaning="Input tokens of the requests that were answered or stopped here, estimated by their size",
)  # fmt: skip
COST = Metric(
    name="endstop_proxy_cost_usd_total", kind="counter", unit="USD", meaning="Cost, as far as prices are known",
)  # fmt: skip
OPEN_BUDGET_REQUESTS = Metric(
    name="endstop_proxy_open_budget_requests_total", kind="counter",
    meaning="Requests let through because the store of the budgets failed",
)  # fmt: skip
BUDGETS_OPEN = Metric(
    name="endstop_proxy_budgets_open", kind="gauge",
    meaning="1 while the budgets limit nothing because their store fails, else 0",
)  # fmt: skip
UNFOLLOWED_RUNS = Metric(
    name="endstop_proxy_unfollowed_runs_total", kind="counter", meaning="Runs that could no longer be followed",
)  # fmt: skip
UNRECORDED_RUNS = Metric(
    name="endstop_proxy_unrecorded_runs_total", kind="counter", meaning="Runs whose record could not be written",
)  # fmt: skip
IN_PROGRESS = Metric(name="endstop_proxy_requests_in_progress", kind="gauge", meaning="Requests in progress")
KNOWN_RUNS = Metric(name="endstop_proxy_known_runs", kind="gauge", meaning="Runs that may go on")
PROVIDER_REPLIES = Metric(
    name="endstop_proxy_provider_replies_total", kind="counter", labels=("status",),
    meaning="Replies of the provider by HTTP status; `none`: it could not be reached or broke off before its reply",
)  # fmt: skip
FIRST_BYTE_SECONDS = Metric(
    name="endstop_proxy_first_byte_seconds", kind="histogram", buckets=SECONDS,
    meaning="Time from a request to the provider until its reply begins",
)  # fmt: skip
RESPONSE_SECONDS = Metric(
    name="endstop_proxy_response_seconds", kind="histogram", buckets=SECONDS,
    meaning="Time from a request to the provider until its response is whole, or cut",
)  # fmt: skip
BUDGET_LIMIT = Metric(
    name="endstop_proxy_budget_limit", kind="gauge", labels=("budget", "limit"), unit="USD or tokens, by `limit`",
    meaning="Budgets of a day: that of `everybody`, and that of each `key`",
)  # fmt: skip
BUDGET_LEFT = Metric(
    name="endstop_proxy_budget_left", kind="gauge", labels=("budget", "limit"), unit="USD or tokens, by `limit`",
    meaning="What is left of the budgets today; of those of keys, the one with the least left",
)  # fmt: skip

PROXY_METRICS = (
    REQUESTS, CUT_RESPONSES, ENDED_RUNS, FAILED_REQUESTS, DRY_RUN_STOPS, INPUT_TOKENS, OUTPUT_TOKENS, ESTIMATED_TOKENS,
    SAVED_TOKENS, COST, OPEN_BUDGET_REQUESTS, BUDGETS_OPEN, UNFOLLOWED_RUNS, UNRECORDED_RUNS, IN_PROGRESS, KNOWN_RUNS,
    PROVIDER_REPLIES, FIRST_BYTE_SECONDS, RESPONSE_SECONDS, BUDGET_LIMIT, BUDGET_LEFT,
)  # fmt: skip
