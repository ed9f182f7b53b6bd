"""How runs end, on the command line and in the views: gates, evaluation, limits, the closing step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from endstop import read_record
from endstop.cli.views.plain import PlainView
from endstop.cli.views.text import Recorded, ending_of, limit_texts, short_name, usage_line, usage_parts
from endstop.decision import Limits, LimitUse, Policy, SessionLimits, Usage
from endstop.decision import events as ev

from ...console import Done, endstop
from ...servers import ChatServer, call
from .terminal import in_terminal
from .views.test_text import outcome

SUMMARY = "The port in config.yaml is now 8080."
DONE = [call("finish_task", summary=SUMMARY)]


def at(server: ChatServer) -> tuple[str, ...]:
    return ("--model", "scripted", "--api-base", server.url)


async def run(server: ChatServer, *arguments: object) -> Done:
    return await endstop("run", "Set the port to 8080", *at(server), *arguments)


# ---- evaluation

CHECK = """
import json, sys
given = dict(zip(sys.argv[2::2], sys.argv[3::2]))
print(json.dumps(sorted(given)))
print("the port is wrong")
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(("code", "verdict"), [(0, "passed"), (1, "failed")])
async def test_E1_a_completed_run_whose_evaluation_fails_exits_with_6(tmp_path: Path, code: int, verdict: str) -> None:
    (tmp_path / "check.py").write_text(CHECK)
    evaluate = f"python3 {tmp_path}/check.py {code}"
    folders = ("--workspace", tmp_path, "--reference-workspace", tmp_path, "--record", tmp_path / "r.jsonl")
    async with ChatServer(DONE) as server:
        done = await run(server, "--evaluate", evaluate, *folders, "--json")
    assert (done.code, done.json["status"], done.json["verdict"]) == (6 * code, "completed", verdict)
    assert done.json["evaluation"]["exit_code"] == code
    names = ["--agent_workspace", "--groundtruth_workspace", "--launch_time", "--res_log_file"]
    assert done.json["evaluation"]["output"].startswith(json.dumps(names))
    assert f"{verdict}: evaluation by `{evaluate}`" in done.err
    assert f", evaluation {verdict}: " in done.err
    assert ("the port is wrong" in done.err) == bool(code)


async def test_E2_a_run_at_its_limit_is_evaluated_and_still_exits_with_3() -> None:
    async with ChatServer([call("nothing")], repeat=True) as server:
        done = await run(server, "--max-steps", 1, "--evaluate", "true", "--json")
    assert (done.code, done.json["status"], done.json["verdict"]) == (3, "exhausted", "passed")
    assert "Stopped: limit of steps, work checked, evaluation passed: " in done.err


# ---- gates


async def test_a_gate_that_prints_nothing_is_told_so(tmp_path: Path) -> None:
    write = call("write_file", path="ready", content="yes")
    async with ChatServer(DONE, [write, call("finish_task", summary=SUMMARY)]) as server:
        done = await run(server, "--workspace", tmp_path, "--gate", "test -f ready")
    assert done.code == 0
    assert "`test -f ready` failed with exit code 1, and printed nothing\n" in done.err


async def test_a_gate_hands_back_until_its_command_succeeds(tmp_path: Path) -> None:
    write = call("write_file", path="ready", content="yes")
    async with ChatServer(DONE, [write, call("finish_task", summary=SUMMARY)]) as server:
        gate = "test -f ready || (echo not ready; exit 1)"
        arguments = ("--workspace", tmp_path, "--gate", gate, "--gate", "true", "--record", tmp_path / "r.jsonl")
        done = await run(server, *arguments)
    assert (done.code, done.out, len(server.requests)) == (0, SUMMARY + "\n", 2)
    assert f"not accepted as complete: `{gate}` failed with exit code 1:" in done.err
    assert "    not ready\n" in done.err
    assert "gate `true`: accepted" in done.err
    assert "not ready" in server.requests[1]["messages"][-1]["content"]
    assert [run.finished is not None for run in read_record(tmp_path / "r.jsonl").runs] == [True]


# ---- limits, reminders, the closing step


async def test_at_a_limit_the_model_sums_up_without_tools() -> None:
    script = ([call("nothing")], [call("other")], "The port is not set yet.")
    async with ChatServer(*script) as server:
        done = await run(server, "--max-steps", 2, "--policy", "agent")
    assert (done.code, done.out) == (3, "The port is not set yet.\n")
    assert server.requests[2]["tool_choice"] == "none"
    assert "closing step" in done.err
    assert "  The port is not set yet." in done.err


async def test_reminders_and_nudges_are_shown(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("reminder = 0.5\n[repetition]\nnudge_at = [2]\nstop_at = 3\n")
    async with ChatServer([call("nothing")], repeat=True) as server:
        done = await run(server, "--policy", tmp_path / "p.toml", "--max-steps", 4)
    assert done.code == 3
    assert "reminder: You have used 2 of 4 steps" in done.err
    assert "nudge: You have made the same calls" in done.err
    assert "Stopped: repeated itself: " in done.err


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [((), 2), (("--no-closing",), 1), (("--policy", "off.toml"), 1), (("--policy", "plain.toml"), 2)],
)
async def test_the_closing_step_is_on_unless_something_says_no(
    tmp_path: Path, arguments: tuple[str, ...], requests: int
) -> None:
    (tmp_path / "off.toml").write_text("closing = false\n")
    (tmp_path / "plain.toml").write_text("base = 'strict'\n")
    async with ChatServer([call("nothing")], "It is not done.") as server:
        await endstop("run", "Hi", *at(server), "--max-steps", 1, *arguments, cwd=tmp_path)
    assert len(server.requests) == requests


async def test_a_gate_checks_plain_answers_too(tmp_path: Path) -> None:
    async with ChatServer("Hello.", "Hello again.", "Bye.", "Bye.") as server:
        done = await endstop("run", "Hi", *at(server), "--policy", "chat", "--gate", "false", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)["stop_reason"]) == (3, "completion_rejected")


# ---- wrong use

WRONG = {
    "an empty policy": (["--policy", ""], "--policy is empty"),
    "an empty gate": (["--gate", " "], "--gate is empty"),
    "a gate that no shell can read": (["--gate", "'test"], "is not a valid shell command: "),
    "a gate that is not there": (["--gate", "no-such-command x"], "command not found: 'no-such-command'"),
    "an empty evaluation": (["--evaluate", ""], "--evaluate is empty"),
    "an evaluation that is no command": (["--evaluate", "'"], "is not a valid command"),
    "an evaluation that is not there": (["--evaluate", "no-such-command x"], "command not found: 'no-such-command'"),
    "a reference for nothing": (["--reference-workspace", "."], "--evaluate CMD"),
    "a reference that is missing": (["--evaluate", "true", "--reference-workspace", "gone"], "gone: no such folder"),
    "a soft limit above a hard one": (["--policy", "soft.toml", "--max-steps", "3"], "--max-steps 3 with policy"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_contradicts_itself_is_refused_before_any_request(case: str, tmp_path: Path) -> None:
    (tmp_path / "soft.toml").write_text("[limits]\nsoft_steps = 5\n")
    arguments, word = WRONG[case]
    async with ChatServer("Hello.") as server:
        done = await endstop("run", "Hi", *at(server), *arguments, cwd=tmp_path)
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert word in done.err


# ---- the words


def test_limits_are_told_as_used_of_allowed() -> None:
    usage = Usage(input_tokens=1200, output_tokens=20, cost_usd=0.5)
    limits = {
        "steps": LimitUse(used=2, allowed=30),
        "soft_seconds": LimitUse(used=2.5, allowed=5.0, soft=True),
        "seconds": LimitUse(used=2.5, allowed=60.0),
        "output_tokens": LimitUse(used=20, allowed=1000),
        "session_tool_calls": LimitUse(used=1, allowed=2),
    }
    told = usage_parts(usage, limits)
    assert set(told[:3]) == {"1,200 tokens in", "20 of 1,000 tokens out", "$0.5000"}
    assert told[3:] == ("2.5 s of 1 min 00 s", "1 of 2 tool calls in this session")
    assert usage_line(outcome(steps=2, usage=usage, limits=limits)).startswith(
        "2 of 30 steps · 1,200 tokens in · 20 of"
    )
    policy = Policy(limits=Limits(seconds=60, cost_usd=1), session_limits=SessionLimits(steps=9))
    assert limit_texts(policy) == ("$1.0000", "1 min 00 s", "9 steps in this session")


def test_every_end_that_leaves_work_says_how_to_go_on_from_the_record() -> None:
    recorded = Recorded("my records/r.jsonl", "--workspace w")
    command = "endstop run --resume 'my records/r.jsonl' \"Go on.\" --workspace w"
    for status, reason in (("exhausted", "step_limit"), ("cancelled", "cancelled")):
        ending = ending_of(outcome(status=status, stop_reason=reason), recorded=recorded)
        assert command in ending.go_on


def test_functions_are_called_by_their_short_names_and_commands_by_themselves() -> None:
    assert short_name("my.module:Checks.tests_pass") == "Checks.tests_pass"
    assert short_name("endstop.hooks:CommandGate('a:b c')") == "`a:b c`"


def test_what_is_not_the_loops_own_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(explain=False, saved=lambda: None)
    for event in (
        ev.VerdictGiven(role="judge", name="m:Judge", said="incomplete", detail="NO, a file is missing"),
        ev.VerdictGiven(role="handler", name="m:greet", said="failed", detail="ValueError: x"),
        ev.VerdictGiven(role="text_rule", name="m:rule", said="default"),
        ev.ContextCompacted(strategy="summarise", before_tokens=900, after_tokens=800, in_vain=True),
        ev.StageFinished(stage="evaluate", status="skipped", detail="the run is failed"),
        ev.EvaluationFinished(verdict="not_run", name="m:check", details={"error": "no verdict within 1 seconds"}),
        ev.PhaseReported(call_id="1", percentage=40, summary="Read it", next_phase="Change it"),
    ):
        view.show(event)
    told = capsys.readouterr().err
    assert "judge Judge: incomplete: NO, a file is missing" in told
    assert "handler greet failed: ValueError: x" in told
    assert "rule" not in told
    assert "summarized by the model, 900 tokens became 800, which is not enough" in told
    assert "evaluate: skipped: the run is failed" in told
    assert "gave no verdict: evaluation by check\n    no verdict within 1 seconds" in told
    assert "40 % reported as done: Read it; next: Change it" in told


# ---- in a terminal


async def test_the_live_view_shows_limits_and_never_frames_failed_work_as_success(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[limits]\noutput_tokens = 500\nseconds = 90\n")
    arguments = ("--policy", tmp_path / "p.toml", "--evaluate", "false")
    async with (
        ChatServer([call("nothing")], DONE) as server,
        in_terminal("run", "Do it", *at(server), *arguments, columns=120) as (terminal, process),
    ):
        await terminal.closed()
        code = await process.wait()
    assert code == 6
    told = ("500 tokens out · 1 min 30 s", "20 of 500 tokens out", "✘ failed: evaluation by `false`")
    assert [word for word in told if word not in terminal.text] == []
    assert "✘ Reported as done, but wrong" in terminal.text
    assert "┏" not in terminal.text
