"""endstop: the agent loop that knows when to stop, and can prove it.

    from endstop import Engine, LiteLLM, tool

    runs        Engine Session Run Outcome Bus Lagged Subscriber Image
    limits      Policy Limits Extend Budget
    models      LiteLLM OpenAICompatible
    tools       tool Tool Toolbox RunContext this_call mcp_tools Stdio tools_from_yaml InvalidArguments
    results     Completion Continue Phase ProgressUpdate Happened NotHappened Unclear
    many runs   Task TaskResult Fleet Summary ProviderSummary RaceResult
    hooks       Hooks Accept Reject Answer Prepare Approve Deny Verdict Progress
                ModelJudge ModelCompactor Evaluation EvaluationInput
    options     ModelOptions RecordOptions Redaction Observers Runtime Clock SystemClock
    records     read_record SessionRecord
    errors      WrongUse ResumeRefused

`help(endstop.Engine)` describes one of them. More is in `endstop.decision` (when to stop, without the engine),
`endstop.providers` (models and wrappers around them), `endstop.tools`, `endstop.observers`, `endstop.follow`,
`endstop.adapters`, `endstop.formats`, `endstop.records`, `endstop.replay`, `endstop.web` and `endstop.testing`.
A name is imported when it is first used: a program that needs only `endstop.decision` does not load the engine.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._exports import *  # noqa: F403
    from ._exports import __all__ as __all__
    from ._exports import __version__ as __version__

    ThisCall = RunContext  # noqa: F405
else:
    _OLD_NAMES = {"ThisCall": "endstop.RunContext"}

    def __getattr__(name: str) -> Any:
        """Import a public name. Raises AttributeError for submodules, which the import system first looks for here."""
        if name in _OLD_NAMES:
            return import_module(".decision.old_names", __name__).old_name(__name__, name, _OLD_NAMES)
        public = name in ("__all__", "__version__") or not (name.startswith("_") or find_spec(f"{__name__}.{name}"))
        exports = import_module("._exports", __name__) if public else None
        if not hasattr(exports, name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(exports, name)
        return value

    def __dir__() -> list[str]:
        return list(import_module("._exports", __name__).__all__)
