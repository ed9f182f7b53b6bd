"""Inspect: the agent `react`, whose `on_continue` runs the check after each step, and `attempts` as before."""

from __future__ import annotations

from inspect_attempts import attempts
from trial import Trial, play


def on_continue(trial: Trial) -> str:
    """Evaluate one sample."""
    return attempts(trial, each_step=True)


if __name__ == "__main__":
    play(on_continue)
