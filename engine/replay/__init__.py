"""Replay: runs a record through the real engine, and checks that it makes the same decisions."""

from .replay import ReplayedRun, ReplayReport, Watcher, replay, replay_runs

__all__ = ["ReplayReport", "ReplayedRun", "Watcher", "replay", "replay_runs"]
