"""endstop: the agent loop that knows when to stop, and can prove it.

`from endstop import Engine, Policy, Limits, tool`. A name is imported when it is first used, so that a program that
needs only a part, such as `endstop.decision`, does not load the engine.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._exports import *  # noqa: F403
    from ._exports import __all__ as __all__
    from ._exports import __version__ as __version__
else:

    def __getattr__(name: str) -> Any:
        """Import a public name. Raises AttributeError for submodules, which the import system first looks for here."""
        public = name in ("__all__", "__version__") or not (name.startswith("_") or find_spec(f"{__name__}.{name}"))
        exports = import_module("._exports", __name__) if public else None
        if not hasattr(exports, name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(exports, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("._exports", __name__).__all__})
