"""Log runs: a subscriber for their main events (start, tool calls, failures, decisions, end), and a line at each end.

    Engine(provider, observers=Observers(subscribers=[log_run]))

Stream parts are not logged; read the events or a record for these. The log holds only names, numbers and reasons, and
no arguments, results or texts of a model. The logger is `endstop.observers`.

`log_run_end` is what servers, workers and the proxy log of each run, with loggers of their own.
"""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING
from typing import TYPE_CHECKING, Any

from ..base.sanitize import one_line
from ..decision import Outcome
from ..decision import events as ev
from ..decision.wrong_calls import explained
from ..event_bus import Lagged
from ..providers._logging import log

if TYPE_CHECKING:
    from ..run import Run

LONGEST_DETAIL = 300
"""Characters of the detail of a failed run that are logged."""


@explained
def log_run(event: Any, run: Run) -> None:
    """Log an event of a run, if it is one of the main events."""
    ids = {"run_id": run.id, "session_id": run.session_id}

    def line(level: int, what: str, **fields: object) -> None:
        log(level, what, ids | fields)

    match event:
        case ev.RunStarted():
            line(INFO, "run started", model=event.model, policy=event.policy.name)
        case ev.ToolCallResult(status="ok"):
            line(DEBUG, "tool called", tool=event.name, call_id=event.call_id)
        case ev.ToolCallResult():
            line(INFO, "tool call not ok", tool=event.name, call_id=event.call_id, status=event.status)
        case ev.AttemptFailed():
            line(WARNING, "attempt failed", attempt=event.attempt, kind=event.kind, status=event.status)
        case ev.CompletionRejected():
            line(INFO, "completion handed back", tool=event.name, by=event.by)
        case ev.DecisionMade():
            line(INFO, "decided", round=event.round, rule=event.decision.rule, decision=str(event.decision))
        case ev.RunFinished(outcome=outcome):
            ending = {"status": outcome.status, "stop_reason": outcome.stop_reason, "work": outcome.work}
            line(INFO, "run finished", **ending, steps=outcome.steps)
        case Lagged():
            line(WARNING, "log fell behind", missed=event.missed)
        case _:
            pass


def log_run_end(outcome: Outcome, error_kind: str | None, **about: object) -> None:
    """Log the end of a run in one line: INFO, and WARNING if it has failed.

    error_kind: of the last error of the provider, which is the kind of a failure by `provider_error`; the kind of other
    failures is their reason. about: further fields, such as owner and agent; empty ones are left out.
    """
    usage = outcome.usage
    fields: dict[str, object] = {
        "session_id": outcome.session_id,
        "run_id": outcome.run_id,
        **{name: value for name, value in about.items() if value},
        "status": outcome.status,
        "reason": outcome.stop_reason,
    }
    if outcome.status == "failed":
        from_provider = outcome.stop_reason == "provider_error"
        fields["kind"] = (from_provider and error_kind) or outcome.stop_reason
        if outcome.stop_reason != "refusal":  # its detail may be words of the model
            fields["detail"] = one_line(outcome.detail, LONGEST_DETAIL)
    fields |= {
        "steps": outcome.steps,
        "seconds": round(outcome.duration_ms / 1000, 1),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": "unknown" if usage.cost_usd is None else round(usage.cost_usd, 6),
    }
    log(WARNING if outcome.status == "failed" else INFO, "run ended", fields, frames=2)
