"""A subscriber that writes a run's landmarks to structlog: starts, tool calls, decisions, the end.

    Engine(provider, observers=Observers(subscribers=[log_run]))

Parts of the stream are not logged: whoever wants them reads the events or a record. No key, no argument and no text
of a model is logged, only names, numbers and reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..decision import events as ev
from ..event_bus import Lagged

if TYPE_CHECKING:
    from ..run import Run


def log_run(event: Any, run: Run) -> None:
    """Log one event of a run, if it is a landmark."""
    import structlog

    log = structlog.get_logger("endstop").bind(run_id=run.id, session_id=run.session_id)
    match event:
        case ev.RunStarted():
            log.info("run started", model=event.model, policy=event.policy.name)
        case ev.ToolCallResult(status="ok"):
            log.debug("tool called", tool=event.name, call_id=event.call_id)
        case ev.ToolCallResult():
            log.info("tool call not ok", tool=event.name, call_id=event.call_id, status=event.status)
        case ev.AttemptFailed():
            log.warning("attempt failed", attempt=event.attempt, kind=event.kind, status=event.status)
        case ev.CompletionRejected():
            log.info("completion handed back", tool=event.name, by=event.by)
        case ev.DecisionMade():
            log.info("decided", round=event.round, rule=event.decision.rule, decision=str(event.decision))
        case ev.RunFinished(outcome=outcome):
            ending = {"status": outcome.status, "stop_reason": outcome.stop_reason, "work": outcome.work}
            log.info("run finished", **ending, steps=outcome.steps)
        case Lagged():
            log.warning("log fell behind", missed=event.missed)
        case _:
            pass
