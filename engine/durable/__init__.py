"""Runs that survive their process: what a durable engine is asked for, and the adapters to two of them.

A run's record is its journal: whoever reads it goes on where the run stood (`Session.start_resumed`). A durable engine
adds what a record cannot: a result that is kept before anything else happens, and a queue that finds another process
when one dies. `docs/workers.md` says which is for whom.
"""

from ..durability import Job, Queue, ResultNotStored, RunLost, StepKey, Steps

__all__ = ["Job", "Queue", "ResultNotStored", "RunLost", "StepKey", "Steps"]
