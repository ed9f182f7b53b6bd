"""Helpers for tests of what you build on the engine: a controlled clock, durable steps, a check of transcripts.

Providers that need no model are in `endstop.providers`: `Scripted` and `Chaos`.
"""

from .fakes import FakeClock, LoopClock, MemorySteps, check_transcript, settle

__all__ = ["FakeClock", "LoopClock", "MemorySteps", "check_transcript", "settle"]
