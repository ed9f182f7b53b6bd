"""The text that an adapter or the proxy gives an agent in place of a response, once a decision has ended its run."""

from __future__ import annotations

from ..decision import Outcome, Stop

COMPLETED = "The task is complete."
"""The answer of a completed run whose model reported nothing."""


def end_text(stop: Stop, outcome: Outcome | None) -> str:
    """The text with which the agent ends: the model's own report of a completed task, or one that is marked as ours.

    outcome: of the run that `stop` ended; None if it is not known.
    """
    if stop.final_status == "completed":
        return (outcome.answer if outcome is not None else "") or COMPLETED
    return f"[{stopped_text(stop)}. The task may be unfinished.]"


def stopped_text(stop: Stop) -> str:
    """Why a run was stopped, in a sentence without its full stop."""
    return f"endstop stopped this run: {stop.reason}: {stop.detail}"
