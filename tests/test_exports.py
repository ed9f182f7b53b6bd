"""The public names of each room, exactly: a name comes or goes here by decision, never by accident."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from endstop.decision import Event
from endstop.tools.control import CONTROL_TOOLS
from endstop.tools.tool import Tool

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "endstop.decision": """
        GUARDS POLICIES RECOMMENDED RULES STATUS_OF AnyChunk Assembler AssistantMessage Compaction TraceEntry
        AttemptEnded Deadlines Decision Degeneration Echo Event Extend Facts FinishReason FinishReport GoOn Image
        LimitUse Limits Message Outcome Patience Pause Policy Price Prompts ProviderToolReport Question Reasoning
        ReasoningDelta Repetition Rule SessionLimits Stagnation Status StepJudge Stop SystemMessage
        Asker CutSavings SubagentUse
        ModelSelected TextDelta TextKind ToolCall ToolCallDelta ToolKind ToolResult ToolSpec Transcript Usage
        UsageReport UserMessage Verdict Work WrongUse build_outcome classify_text decide fold policy_from
    """,
    "endstop.providers": """
        Anthropic BadRequest Cancelled Chaos Clock ContextOverflow Degenerate Exchange Exhausted Fallback Gemini Hedge
        Interrupted KINDS LiteLLM NotFound OpenAICompatible OpenAIResponses Prices ProtocolError Provider
        ProviderError QuotaExceeded Race RateLimit RateLimited Record RecordedError Replay Request Retry Scripted
        SystemClock TimedOut Timeouts ToolChoice Unauthorized Unavailable Unreachable Wrapper call say
    """,
    "endstop.testing.conformance.providers": """
        CASES Behaviour Cannot Ending Endpoint Passed ProviderCase check
    """,
    "endstop": """
        Accept Answer Approve Budget Bus Clock Completion Continue Deny Engine Evaluation EvaluationInput Extend Fleet
        Happened Hooks Image InvalidArguments
        Lagged Limits LiteLLM ModelCompactor ModelJudge ModelOptions NotHappened Observers OpenAICompatible
        Outcome Phase Policy Prepare Progress ProgressUpdate ProviderSummary RaceResult RecordOptions Redaction Reject
        ResumeRefused Run RunContext Runtime Session SessionRecord Stdio Subscriber Summary SystemClock Task TaskResult
        ThisCall Tool Toolbox Unclear Verdict WrongUse __version__ mcp_tools read_record this_call tool
        tools_from_yaml
    """,
    "endstop.follow": """
        Cut Follower
    """,
    "endstop.proxy": """
        Proxy ProxyOptions
    """,
    "endstop.durable": """
        Job JobAnswer RunLost ResultNotStored Queue StepKey Steps
    """,
    "endstop.testing.conformance.durable": """
        CASES NEEDS Adapter Cannot DurableCase check
    """,
    "endstop.durable.dbos": """
        Dbos
    """,
    "endstop.durable.temporal": """
        Temporal
    """,
    "endstop.formats": """
        FORMATS Format FoundSession ImportOptions ImportedEnding ImportedMessage ImportedSession ImportedVerdict
        SkippedSession Unreadable detect_format events_of find_sessions
    """,
    "endstop.web": """
        Auth BearerTokens Connection Disconnected WebLimits engine_of service_of until_disconnect web
    """,
    "endstop.tools": """
        ask_user attempt_completion finish_task task_done think workspace_tools
    """,
    "endstop.observers": """
        log_run progress traced
    """,
    "endstop.observers.otel": """
        traced
    """,
    "endstop.testing.faults": """
        HARMLESS HOSTILE_ENDPOINTS INVARIANTS SECRETS FaultReport SecretShape SideEffects Violation by_step
        check_cancel_points check_cut_records check_fuzzed_inputs check_fuzzed_responses check_hostile_endpoints
        check_hostile_subscribers check_hostile_tools check_leaks check_policy check_redaction check_store
    """,
    "endstop.testing": """
        FakeClock LoopClock MemorySteps check_transcript settle
    """,
}
EVENTS = """
    RUN_STARTED RUN_RESUMED RESUME_DIVERGED MESSAGE_ADDED CANCEL_REQUESTED RUN_FINISHED ROUND_STARTED STEP_STARTED
    ATTEMPT_STARTED ATTEMPT_FAILED ATTEMPT_RETRACTED RESPONSE_FINISHED STEP_FINISHED DECISION_MADE TEXT_MESSAGE_CONTENT
    REASONING_MESSAGE_CONTENT TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END PROVIDER_TOOL_REPORTED FINISH_REPORTED
    USAGE_REPORTED TOOL_EXECUTION_STARTED TOOL_CALL_RESULT COMPLETION_ACCEPTED COMPLETION_REJECTED PHASE_REPORTED
    QUESTION_ASKED QUESTION_ANSWERED THOUGHT_RECORDED VERDICT_GIVEN CONTEXT_COMPACTED STAGE_FINISHED
    EVALUATION_FINISHED BUDGET_REFUSED LIMIT_REACHED SUBAGENT_STARTED SUBAGENT_USED TOOL_PROGRESS
    ALARM_RAISED LIMIT_EXTENDED
"""
"""As they stand in records. A new one may come; one that has been in a release never goes and is never renamed."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_room_exports_exactly_these_names(name: str) -> None:
    module = importlib.import_module(name)
    here = [word for word, value in vars(module).items() if getattr(value, "__module__", None) == name]
    exported = getattr(module, "__all__", None) or [word for word in here if not word.startswith("_")]
    assert sorted(exported) == sorted(PUBLIC[name].split())
    assert all(hasattr(module, word) for word in exported)


def test_the_names_of_events_in_a_record_are_exactly_these() -> None:
    assert {kind.__struct_config__.tag for kind in Event.__args__} == set(EVENTS.split())


LAZY = tuple(ROOT / f for f in ("providers/__init__.py", "engine/_exports.py", "engine/observers/__init__.py"))
"""They import some of their names when these are first used, as `endstop` itself does."""
OF_AN_EXTRA = {ROOT / "engine" / "service", ROOT / "engine" / "web"}
"""Packages that cannot be imported without an extra: what is raised instead says which."""


def test_an_init_file_holds_imports_and_names_and_no_logic() -> None:
    wrong = []
    for room in ("decision", "providers", "engine"):
        for path in sorted((ROOT / room).rglob("__init__.py")):
            path = ROOT / "engine" / "_exports.py" if path.parent == ROOT / "engine" else path
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                match node:
                    case ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                        pass
                    case ast.Assign(targets=[ast.Name(id="__all__")]):
                        pass
                    case ast.If(test=ast.Name(id="TYPE_CHECKING")) if path in LAZY:
                        pass
                    case ast.Try(body=body, handlers=[ast.ExceptHandler(body=[ast.Raise()])], orelse=[]) if (
                        path.parent in OF_AN_EXTRA and all(isinstance(one, ast.ImportFrom) for one in body)
                    ):
                        pass
                    case _:
                        wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_importing_the_engine_imports_no_heavy_package() -> None:
    heavy = {"litellm", "aiohttp", "opentelemetry", "mcp", "httpx2", "temporalio", "endstop.providers.anthropic"}
    rooms = "endstop.observers, endstop.durable.temporal, endstop.providers"
    code = f"import sys, {rooms}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_the_public_types_are_what_a_strict_user_expects() -> None:
    if _is_editable():
        pytest.skip("a type checker does not see an editable install: `make test` has an ordinary one")
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing/api.py", "tests/typing/deps_and_output.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _is_editable() -> bool:
    origin = json.loads(distribution("endstop").read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def test_what_is_shipped_are_all_tools_that_are_exported() -> None:
    exported = vars(importlib.import_module("endstop.tools")).values()
    assert set(CONTROL_TOOLS) == {value for value in exported if isinstance(value, Tool)}
