"""Names of before the modules were renamed: in records, YAML files and on the command line."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from endstop import Policy, WrongUse, tools_from_yaml
from endstop.decision import AssistantMessage, ToolCall
from endstop.decision.events import ResponseFinished, RunStarted, StepStarted, VerdictGiven
from endstop.effects import EffectKey, Live
from endstop.event_log import Log
from endstop.hooks import Verdict
from endstop.providers.clock import SystemClock
from endstop.recorded_events import RecordedEvents
from endstop.recorded_round import RecordedRound
from endstop.records.qualified_names import current_module, current_name
from endstop.resume_point import ResumePoint

BEFORE = {
    "endstop.engine": """
        Budget Bus Clock Completion Continue Engine Fleet Happened Image InvalidArguments Lagged NotHappened Phase
        ProviderSummary RaceResult Redaction Run Session SessionRecord Stdio Subscriber Summary SystemClock Task
        TaskResult ThisCall Tool Toolbox Unclear mcp_tools read_record this_call tool tools_from_yaml
    """,
    "endstop.engine.archive.redaction": "Redaction",
    "endstop.engine.bus": "Bus",
    "endstop.engine.durable": "Job RunLost ResultNotStored Queue StepKey Steps",
    "endstop.engine.durable.dbos": "Dbos",
    "endstop.engine.durable.temporal": "Temporal",
    "endstop.engine.formats": "FORMATS",
    "endstop.engine.hooks": "Accept CommandGate Progress Reject",
    "endstop.engine.hosts.web": "Auth BearerTokens Connection WebLimits engine_of service_of web",
    "endstop.engine.intents": "Answer Prepare",
    "endstop.engine.judge": "ModelJudge",
    "endstop.engine.presets": "ask_user attempt_completion finish_task task_done think workspace_tools",
    "endstop.engine.presets.control": "finish_task think",
    "endstop.engine.presets.plan_execute_think": "",
    "endstop.engine.record": "read_record",
    "endstop.engine.replay": "",
    "endstop.engine.replay.playing": "replay",
    "endstop.engine.service": "Service",
    "endstop.engine.subscribers": "log_run progress traced",
    "endstop.engine.testing": "FakeClock MemorySteps check_transcript settle",
    "endstop.engine.tools": "Tool tool",
}


@pytest.mark.filterwarnings("ignore:endstop.ThisCall is deprecated:DeprecationWarning")
@pytest.mark.parametrize("module", BEFORE)
def test_what_was_public_is_found_under_its_name_of_today(module: str) -> None:
    today = importlib.import_module(current_module(module))
    assert [name for name in BEFORE[module].split() if not hasattr(today, name)] == []


@pytest.mark.parametrize("name", ["mine.gates:check", "endstop.decision.fold:fold", "endstop_tools_a:x", "len", ""])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert current_name(name) == name


def test_a_part_of_an_expression_in_a_name_is_no_part_of_the_module() -> None:
    name = current_name("endstop.engine.hooks:CommandGate('endstop.engine.hooks: x')")
    assert name == "endstop.hooks:CommandGate('endstop.engine.hooks: x')"


async def test_a_killed_run_of_before_takes_its_verdicts_and_its_redaction_for_ours() -> None:
    started = RunStarted(
        run_id="r",
        session_id="s",
        policy=Policy(),
        functions={"redaction": ("endstop.engine.archive.redaction:Redaction",)},
    )
    verdict = VerdictGiven(role="gate", name="endstop.engine.hooks:CommandGate('make')", said="accept", call_id="c")
    call = ToolCall("c", "write", '{"token":"[redacted:key]"}')
    message = AssistantMessage("", (call,))
    response = ResponseFinished(step=1, attempt="1.1", model="m", message=message, finish="tool_calls")
    point = ResumePoint.at([started, StepStarted(step=1, round=1), response, verdict])
    log = Log(SystemClock(), lambda event: None, ())
    past = RecordedEvents(point.events, point.void, point.interrupted_step, None, strict=False)
    log.continue_from(point.facts, point.history, past, seq=point.last.seq, t=point.last.t)
    effects = RecordedRound(point, log, Live())

    async def nobody() -> None:
        raise AssertionError("the record holds the verdict, and a redacted call cannot run")

    said = await effects.once(EffectKey(1, "gate", "endstop.hooks:CommandGate('make')", "c"), nobody)
    assert said == Verdict("accept")
    assert (await effects.once(EffectKey(1, "call", call_id="c"), nobody)).status == "unknown"


def test_a_yaml_file_of_before_loads_and_an_unknown_name_is_told(tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    entry = "- name: think\n  description: Think.\n  handler: {}\n"
    file.write_text(entry.format("endstop.engine.presets.control:think"), encoding="utf-8")
    assert [tool.name for tool in tools_from_yaml(file)] == ["think"]
    file.write_text(entry.format("endstop.engine.nowhere:think"), encoding="utf-8")
    with pytest.raises(WrongUse, match=r"there is no module 'endstop\.nowhere'"):
        tools_from_yaml(file)
