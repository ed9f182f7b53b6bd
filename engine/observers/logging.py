"""A subscriber that logs the main events of a run: start, tool calls, failures, decisions, end.

    Engine(provider, observers=Observers(subscribers=[log_run]))

Stream parts are not logged; read the events or a record for these. The log holds only names, numbers and reasons, and
no arguments, results or texts of a model. The logger is `endstop.observers`.
"""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING
from typing import TYPE_CHECKING, Any

from ..decision import events as ev
from ..decision.wrong_calls import explained
from ..event_bus import Lagged
from ..providers._logging import log

if TYPE_CHECKING:
    from ..run import Run


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
