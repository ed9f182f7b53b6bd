"""The public names of each package, exactly: a name comes or goes here by decision, never by accident."""

from __future__ import annotations

import ast
import importlib
import json
import pydoc
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import endstop
import pytest
from endstop.decision import Event, events
from endstop.providers import Anthropic, Gemini, OpenAIResponses
from endstop.tools.control import CONTROL_TOOLS
from endstop.tools.tool import Tool

from .code_blocks import blocks

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "endstop.decision": """
        GUARDS POLICIES RECOMMENDED RULES STATUS_OF AnyChunk Assembler AssistantMessage Compaction TraceEntry
        AttemptEnded Deadlines Decision Degeneration Echo EvaluationVerdict Event Extend Facts FinishReason
        FinishReport GoOn Image
        LimitUse Limits Message Outcome Patience Pause Policy Price Prompts ProviderToolReport Question Reasoning
        ReasoningDelta Repetition Rule SessionLimits Stagnation Status StepJudge Stop SystemMessage
        Asker CutSavings SubagentUse
        ModelSelected TextDelta TextKind ToolCall ToolCallDelta ToolKind ToolResult ToolSpec Transcript Usage
        UsageReport UserMessage Work WrongUse build_outcome classify_text decide fold policy_from
    """,
    "endstop.decision.events": """
        RunStarted RunResumed ResumeDiverged MessageAdded CancelRequested RunFinished RoundStarted StepStarted
        AttemptStarted AttemptFailed AttemptRetracted ResponseFinished StepFinished DecisionMade TextMessageContent
        ReasoningMessageContent ToolCallStart ToolCallArgs ToolCallEnd ProviderToolReported FinishReported
        UsageReported ToolExecutionStarted ToolCallResult CompletionAccepted CompletionRejected PhaseReported
        QuestionAsked QuestionAnswered ThoughtRecorded VerdictGiven ContextCompacted StageFinished EvaluationFinished
        BlockReported CheckEnded CheckStarted
        BudgetRefused LimitReached SubagentStarted SubagentUsed ToolProgress AlarmRaised LimitExtended
    """,
    "endstop.records.files": """
        find_records
    """,
    "endstop.records.scan": """
        Scan scan
    """,
    "endstop.records.parallel": """
        FileFailure map_files
    """,
    "endstop.replay": """
        EventAddress ReplayReport ReplayedRun Watcher replay replay_runs
    """,
    "endstop.service": """
        Conflict Forbidden Frame Frames Gap Receiving Refusal Service ServiceUnavailable TooMany Unknown
    """,
    "endstop.store.url": """
        store_at
    """,
    "endstop.store.base": """
        Archive EventBatch GOING LEASE LeaseLost Membership NewSession Orphan Overview Page Process QueuedRun
        SequenceConflict SessionBusy SessionFilter SessionLocked SessionStatus Store StoreError StoredMessage
        StoredProcess StoredRun StoredSession
    """,
    "endstop.web.ag_ui": """
        AgUiInput AgUiTranslator QuestionAnswer RunAgentInput read_input to_sse
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
        Accept Answer Anthropic Approve Budget Bus Clock Completion Continue Deny Engine Evaluation EvaluationInput
        Extend Fleet Gemini Happened Hooks Image Impossible InvalidArguments
        Lagged Limits LiteLLM Met ModelCompactor ModelJudge ModelOptions NotHappened NotMet Observers OpenAICompatible
        OpenAIResponses Outcome Phase Policy Prepare Progress ProgressUpdate ProviderSummary RaceResult RecordOptions
        Redaction Reject ResumeRefused Run RunContext Runtime Session SessionRecord Stdio Subscriber Summary SystemClock
        Task TaskResult Tool Toolbox Unclear Until Verdict WrongUse __version__ mcp_tools read_record this_call tool
        tools_from_yaml
    """,
    "endstop.follow": """
        Cut Follower
    """,
    "endstop.proxy": """
        Proxy ProxyOptions
    """,
    "endstop.durable": """
        GivenRun Job JobAnswer RunLost Reachable ResultNotStored Queue StepKey Steps
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
        ask_user attempt_completion finish_task report_blocked task_done think workspace_tools
    """,
    "endstop.observers": """
        export_metrics log_run progress traced
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


@pytest.mark.parametrize("name", PUBLIC)
def test_a_package_exports_exactly_these_names(name: str) -> None:
    module = importlib.import_module(name)
    here = [word for word, value in vars(module).items() if getattr(value, "__module__", None) == name]
    exported = getattr(module, "__all__", None) or [word for word in here if not word.startswith("_")]
    if module is events:
        exported = [kind.__name__ for kind in Event.__args__]
    assert sorted(exported) == sorted(PUBLIC[name].split())
    assert all(hasattr(module, word) for word in exported)


def test_dir_shows_the_public_names_alone() -> None:
    assert sorted(dir(endstop)) == sorted(PUBLIC["endstop"].split())


def test_help_begins_with_every_public_name_on_one_screen() -> None:
    screen = pydoc.plain(pydoc.render_doc(endstop)).partition("PACKAGE CONTENTS")[0]
    assert len(screen.splitlines()) <= 30
    table = (endstop.__doc__ or "").split("\n\n")[2]
    assert all(line.strip() in screen for line in table.splitlines())
    named = [name for line in table.splitlines() for name in line[16:].split()]
    assert sorted(named) == sorted(set(PUBLIC["endstop"].split()) - {"__version__"})


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("endstop", "ThisCall", "endstop.RunContext"),
        ("endstop.decision", "Verdict", "endstop.decision.EvaluationVerdict"),
    ],
)
def test_a_deprecated_name_works_and_says_which_one_replaces_it(package: str, old: str, new: str) -> None:
    home, _, today = new.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"{package}.{old} is deprecated .*: use {new}$"):
        found = getattr(importlib.import_module(package), old)
    assert found is getattr(importlib.import_module(home), today)


@pytest.mark.parametrize("provider", [Anthropic, Gemini, OpenAIResponses])
def test_a_deprecated_keyword_works_and_says_which_one_replaces_it(provider: Callable[..., Any]) -> None:
    with pytest.warns(DeprecationWarning, match="the argument base_url is deprecated .*: use api_base$") as warned:
        made = provider("m", api_key="k", base_url="http://127.0.0.1:1/v1")
    assert made.url == provider("m", api_key="k", api_base="http://127.0.0.1:1/v1").url
    assert warned[0].filename == __file__


REPEATED = {
    "endstop.decision": "Extend Image Limits Outcome Policy WrongUse",
    "endstop.providers": "Anthropic Clock Gemini LiteLLM OpenAICompatible OpenAIResponses SystemClock",
}
"""Names that `endstop` repeats, so that a program that runs agents needs one import (decision 44)."""
KITS = {"endstop.testing.conformance.providers", "endstop.testing.conformance.durable"}
"""Two kits of one form, with the same names for the same parts; a program uses one of them."""


def test_a_public_name_has_one_meaning_and_endstop_repeats_those_that_an_agent_needs() -> None:
    homes = defaultdict(set)
    for package in PUBLIC.keys() - KITS:
        for name in PUBLIC[package].split():
            homes[name].add(package)
    repeated = {name: {"endstop", package} for package, names in REPEATED.items() for name in names.split()}
    assert {name: packages for name, packages in homes.items() if len(packages) > 1} == repeated
    for name, packages in repeated.items():
        assert len({id(getattr(importlib.import_module(package), name)) for package in packages}) == 1


def test_an_event_is_named_in_a_record_as_in_python() -> None:
    tags = {kind.__name__: kind.__struct_config__.tag for kind in Event.__args__}
    assert tags == {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in tags}


def _imports(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("endstop"):
            yield from ((str(node.module), one.name) for one in node.names)


def test_what_the_documents_and_examples_import_is_public() -> None:
    programs = {str(block): textwrap.dedent(block.text) for block in blocks() if block.kind == "python"}
    programs |= {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.py")}
    other = [
        f"{place}: from {module} import {name}"
        for place, source in programs.items()
        for module, name in _imports(source)
        if not (name == "Endstop" and module.startswith("endstop.adapters."))
        and name not in PUBLIC.get(module, "").split()
    ]
    assert not other, "\n".join(other)


LAZY = {
    "endstop": ROOT / "engine" / "__init__.py",
    "endstop.decision": ROOT / "decision" / "__init__.py",
    "endstop.formats": ROOT / "engine" / "formats" / "__init__.py",
    "endstop.observers": ROOT / "engine" / "observers" / "__init__.py",
    "endstop.providers": ROOT / "providers" / "__init__.py",
    "endstop.tools": ROOT / "engine" / "tools" / "__init__.py",
}
"""Packages that import names when these are first used (`decision/public_names.py`), or have deprecated names."""
OF_AN_EXTRA = {ROOT / "engine" / "service", ROOT / "engine" / "web"}
"""Packages that cannot be imported without an extra: what is raised instead says which."""


def test_an_init_file_holds_imports_and_names_and_no_logic() -> None:
    wrong = []
    for room in ("decision", "providers", "engine"):
        for path in sorted((ROOT / room).rglob("__init__.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                match node:
                    case ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                        pass
                    case ast.Assign(targets=[ast.Name(id="__all__")]):
                        pass
                    case ast.If(test=ast.Name(id="TYPE_CHECKING")) if path in LAZY.values():
                        pass
                    case ast.Try(body=body, handlers=[ast.ExceptHandler(body=[ast.Raise()])], orelse=[]) if (
                        path.parent in OF_AN_EXTRA and all(isinstance(one, ast.ImportFrom) for one in body)
                    ):
                        pass
                    case _:
                        wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_imported_late_is_what_type_checkers_see(package: str) -> None:
    (block,) = (node for node in ast.parse(LAZY[package].read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    seen = {(one.name, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for one in node.names}
    (tables,) = (
        call.args[1]
        for node in block.orelse
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and len(call.args) == 2
    )
    homes = ast.literal_eval(tables)
    assert seen == {(name, module) for module, names in homes.items() for name in names.split()}


def test_importing_the_engine_imports_no_heavy_package() -> None:
    heavy = {"litellm", "aiohttp", "opentelemetry", "mcp", "httpx2", "temporalio", "endstop.providers.anthropic"}
    rooms = "endstop.observers, endstop.durable.temporal, endstop.providers"
    code = f"import sys, {rooms}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_the_public_types_are_what_a_strict_user_expects() -> None:
    if _is_editable():
        pytest.skip("a type checker does not see an editable install: `make test` has an ordinary one")
    programs = [f"tests/typing/{name}.py" for name in ("api", "deps_and_output", "wrong_uses")]
    command = [sys.executable, "-m", "mypy", "--strict", *programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _is_editable() -> bool:
    origin = json.loads(distribution("endstop").read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def test_what_is_shipped_are_all_tools_that_are_exported() -> None:
    tools = importlib.import_module("endstop.tools")
    exported = [getattr(tools, name) for name in tools.__all__]
    assert set(CONTROL_TOOLS) == {value for value in exported if isinstance(value, Tool)}
