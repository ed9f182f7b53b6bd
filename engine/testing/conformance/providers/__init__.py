"""What every provider must do, as a table of cases that run on any adapter, yours included.

`docs/providers.md` shows how, under "Your own adapter".
"""

from .cases import CASES, Cannot, Case, Passed, check
from .endpoint import Endpoint
from .harness import Behaviour, Ending

__all__ = ["CASES", "Behaviour", "Cannot", "Case", "Ending", "Endpoint", "Passed", "check"]
