"""Replay: a record through the real engine, and the proof that it decides the same."""

from .replay import ReplayedRun, ReplayReport, Watcher, replay, replay_runs

__all__ = ["ReplayReport", "ReplayedRun", "Watcher", "replay", "replay_runs"]
