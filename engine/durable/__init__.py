"""Runs that survive their process: the interface to a durable engine, and adapters for two engines.

A run whose process died can continue from its record alone (`Session.start_resumed`). A durable engine adds what a
record cannot: it stores the result of a step before anything else happens, and its queue gives the run of a dead
process to another process. `docs/guides/workers.md` says when to use which.
"""

from ..durability import GivenRun, Job, JobAnswer, Queue, Reachable, ResultNotStored, RunLost, StepKey, Steps

__all__ = ["GivenRun", "Job", "JobAnswer", "Queue", "Reachable", "ResultNotStored", "RunLost", "StepKey", "Steps"]
