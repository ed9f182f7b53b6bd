"""Conformance kit for durable engines: cases that run on any implementation of `Steps` and `Queue`.

The cases start real processes, kill and freeze them, and log their work to a file outside the engine.
"""

from ..nonconformance import Cannot
from .cases import CASES, NEEDS, DurableCase, check
from .harness import Adapter

__all__ = ["CASES", "NEEDS", "Adapter", "Cannot", "DurableCase", "check"]
