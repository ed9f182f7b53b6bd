"""Replay: run a record through the real engine, and check that it makes the same decisions."""

from .replay import ReplayedRun, ReplayReport, Watcher, replay, replay_runs

__all__ = ["ReplayReport", "ReplayedRun", "Watcher", "replay", "replay_runs"]
