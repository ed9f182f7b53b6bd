"""endstop: the agent loop that knows when to stop, and can prove it.

    from endstop import Engine, LiteLLM, tool

    runs        Engine Session Run Outcome Bus Lagged Subscriber Image
    limits      Policy Limits Extend Budget
    models      Anthropic Gemini OpenAICompatible OpenAIResponses LiteLLM
    tools       tool Tool Toolbox RunContext this_call mcp_tools Stdio tools_from_yaml InvalidArguments
    results     Completion Continue Phase ProgressUpdate Happened NotHappened Unclear
    many runs   Task TaskResult Fleet Summary ProviderSummary RaceResult
    when done   Until Met NotMet Impossible
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

from typing import TYPE_CHECKING

from .decision.public_names import lazy_names

if TYPE_CHECKING:
    from .approvals import Approve, Deny
    from .base.version import __version__
    from .batch import Fleet, ProviderSummary, Summary
    from .budget import Budget
    from .check_answers import Impossible, Met, NotMet
    from .config import Observers
    from .decision import Extend, Image, Limits, Outcome, Policy, WrongUse
    from .durability import ResumeRefused
    from .engine import Engine
    from .evaluation import Evaluation, EvaluationInput
    from .event_bus import Bus, Lagged
    from .hooks import Accept, Answer, ModelCompactor, ModelJudge, Prepare, Progress, Reject, Verdict
    from .option_groups import Hooks, ModelOptions, RecordOptions, Runtime
    from .providers import Anthropic, Gemini, LiteLLM, OpenAICompatible, OpenAIResponses
    from .providers.clock import Clock, SystemClock
    from .race import RaceResult
    from .records.reader import SessionRecord, read_record
    from .records.redaction import Redaction
    from .run import Run
    from .session import Session
    from .subscribers import Subscriber
    from .tasks import Task, TaskResult
    from .tools.mcp import Stdio, mcp_tools
    from .tools.results import Completion, Continue, Happened, NotHappened, Phase, ProgressUpdate, Unclear
    from .tools.run_context import RunContext, this_call
    from .tools.schema import InvalidArguments
    from .tools.tool import Tool, Toolbox, tool
    from .tools.yaml import tools_from_yaml
    from .until import Until

    ThisCall = RunContext
else:
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "base.version": "__version__",
            "approvals": "Approve Deny",
            "batch": "Fleet ProviderSummary Summary",
            "budget": "Budget",
            "check_answers": "Impossible Met NotMet",
            "config": "Observers",
            "decision": "Extend Image Limits Outcome Policy WrongUse",
            "durability": "ResumeRefused",
            "engine": "Engine",
            "evaluation": "Evaluation EvaluationInput",
            "event_bus": "Bus Lagged",
            "hooks": "Accept Answer ModelCompactor ModelJudge Prepare Progress Reject Verdict",
            "option_groups": "Hooks ModelOptions RecordOptions Runtime",
            "providers": "Anthropic Gemini LiteLLM OpenAICompatible OpenAIResponses",
            "providers.clock": "Clock SystemClock",
            "race": "RaceResult",
            "records.reader": "SessionRecord read_record",
            "records.redaction": "Redaction",
            "run": "Run",
            "session": "Session",
            "subscribers": "Subscriber",
            "tasks": "Task TaskResult",
            "tools.mcp": "Stdio mcp_tools",
            "tools.results": "Completion Continue Happened NotHappened Phase ProgressUpdate Unclear",
            "tools.run_context": "RunContext this_call",
            "tools.schema": "InvalidArguments",
            "tools.tool": "Tool Toolbox tool",
            "tools.yaml": "tools_from_yaml",
            "until": "Until",
        },
        old={"ThisCall": "endstop.RunContext"},
    )

__all__ = [
    "Accept",
    "Answer",
    "Anthropic",
    "Approve",
    "Budget",
    "Bus",
    "Clock",
    "Completion",
    "Continue",
    "Deny",
    "Engine",
    "Evaluation",
    "EvaluationInput",
    "Extend",
    "Fleet",
    "Gemini",
    "Happened",
    "Hooks",
    "Image",
    "Impossible",
    "InvalidArguments",
    "Lagged",
    "Limits",
    "LiteLLM",
    "Met",
    "ModelCompactor",
    "ModelJudge",
    "ModelOptions",
    "NotHappened",
    "NotMet",
    "Observers",
    "OpenAICompatible",
    "OpenAIResponses",
    "Outcome",
    "Phase",
    "Policy",
    "Prepare",
    "Progress",
    "ProgressUpdate",
    "ProviderSummary",
    "RaceResult",
    "RecordOptions",
    "Redaction",
    "Reject",
    "ResumeRefused",
    "Run",
    "RunContext",
    "Runtime",
    "Session",
    "SessionRecord",
    "Stdio",
    "Subscriber",
    "Summary",
    "SystemClock",
    "Task",
    "TaskResult",
    "Tool",
    "Toolbox",
    "Unclear",
    "Until",
    "Verdict",
    "WrongUse",
    "__version__",
    "mcp_tools",
    "read_record",
    "this_call",
    "tool",
    "tools_from_yaml",
]
