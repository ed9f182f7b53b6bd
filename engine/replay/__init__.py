"""Replay: runs a record through the real engine, and checks that it makes the same decisions."""

from .diff import EventAddress
from .replay import ReplayedRun, ReplayReport, Watcher, replay, replay_runs

__all__ = ["EventAddress", "ReplayReport", "ReplayedRun", "Watcher", "replay", "replay_runs"]
