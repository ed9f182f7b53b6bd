"""What every durable engine must do, as a table of cases that run on any adapter of `Steps` and `Queue`.

Processes are real ones: they are killed and frozen, and what their work did stands in a file outside of the engine.
"""

from .cases import CASES, NEEDS, Cannot, Case, check
from .harness import Adapter

__all__ = ["CASES", "NEEDS", "Adapter", "Cannot", "Case", "check"]
