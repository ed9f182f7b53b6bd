"""For testing what you build on the engine: time that you own, durable steps, and the rules of every transcript.

Providers that need no model are in `endstop.providers`: `Scripted` and `Chaos`.
"""

from .fakes import FakeClock, MemorySteps, check_transcript, settle

__all__ = ["FakeClock", "MemorySteps", "check_transcript", "settle"]
