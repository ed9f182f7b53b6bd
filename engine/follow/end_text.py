"""Text that an adapter or the proxy gives an agent in place of a response, once a decision has ended its run."""

from __future__ import annotations

from ..decision import Outcome, Stop

COMPLETED = "The task is complete."
"""Answer of a completed run whose model reported nothing."""


def end_text(stop: Stop, outcome: Outcome | None) -> str:
    """Return the text with which the agent ends: the model's own report of a completed task, or one marked as ours.

    outcome: the outcome of the run that `stop` ended; None if it is not known.
    """
    if stop.reason == "until_met":
        return f"{COMPLETED} {stop.detail}."
    if stop.final_status == "completed":
        return (outcome.answer if outcome is not None else "") or COMPLETED
    return f"[{stopped_text(stop)}. The task may be unfinished.]"


def stopped_text(stop: Stop) -> str:
    """Return why a run was stopped, as a sentence without its full stop."""
    return f"endstop stopped this run: {stop.reason}: {stop.detail}"
