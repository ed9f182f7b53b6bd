"""Conformance kit for model providers: cases that run on any adapter, yours included.

See "Your own adapter" in `docs/guides/providers.md`.
"""

from ..nonconformance import Cannot
from .cases import CASES, Passed, ProviderCase, check
from .endpoint import Endpoint
from .harness import Behaviour, Ending

__all__ = ["CASES", "Behaviour", "Cannot", "Ending", "Endpoint", "Passed", "ProviderCase", "check"]
