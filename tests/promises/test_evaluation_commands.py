"""Row F14: a plain command evaluates without arguments, and every command finds the four values in its environment."""

from pathlib import Path

import pytest
from endstop import Engine, Hooks, Runtime
from endstop.evaluation import CommandEvaluator
from endstop.providers import Scripted, call
from endstop.testing import FakeClock
from endstop.tools import finish_task

from ..console import endstop
from ..servers import ChatServer
from ..servers import call as called

DONE = [call("finish_task", summary="done")]


@pytest.mark.parametrize(("content", "verdict"), [("port = 8080\n", "passed"), ("port = 80\n", "failed")])
async def test_F14_a_plain_command_gets_no_arguments_and_its_exit_code_decides(
    tmp_path: Path, content: str, verdict: str
) -> None:
    (tmp_path / "config.ini").write_text(content)
    evaluate = CommandEvaluator(f"grep -q 8080 '{tmp_path}/config.ini'", workspace=str(tmp_path), plain=True)
    outcome = await Engine(Scripted(DONE), presets=[finish_task], hooks=Hooks(evaluate=evaluate)).run("go")
    assert (outcome.status, outcome.verdict) == ("completed", verdict)
    assert outcome.evaluation is not None
    assert outcome.evaluation["exit_code"] == (0 if verdict == "passed" else 1)


@pytest.mark.parametrize("plain", [False, True])
async def test_F14_both_forms_find_the_four_values_in_their_environment(
    tmp_path: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "show.sh"
    script.write_text('env | grep "^ENDSTOP_[ARGL]" | sort; echo "arguments: $#"\n')
    record = tmp_path / "r.jsonl"
    evaluate = CommandEvaluator(f"sh '{script}'", workspace="mine", reference="theirs", plain=plain)
    engine = Engine(
        Scripted(DONE), presets=[finish_task], hooks=Hooks(evaluate=evaluate), runtime=Runtime(clock=FakeClock())
    )
    outcome = await engine.run("go", record=record)
    assert outcome.evaluation is not None
    assert outcome.evaluation["output"].splitlines() == [
        "ENDSTOP_AGENT_WORKSPACE=mine",
        "ENDSTOP_GROUNDTRUTH_WORKSPACE=theirs",
        "ENDSTOP_LAUNCH_TIME=2026-01-01T00:00:00.000+00:00",
        f"ENDSTOP_RES_LOG_FILE={record}",
        f"arguments: {0 if plain else 8}",
    ]


async def test_F14_what_is_not_known_is_not_set_whatever_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENDSTOP_AGENT_WORKSPACE", "another's")
    evaluate = CommandEvaluator('echo "[$ENDSTOP_AGENT_WORKSPACE$ENDSTOP_RES_LOG_FILE]"', plain=True)
    outcome = await Engine(Scripted(DONE), presets=[finish_task], hooks=Hooks(evaluate=evaluate)).run("go")
    assert outcome.evaluation is not None
    assert outcome.evaluation["output"] == "[]\n"


async def test_F14_the_command_line_takes_a_plain_command(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("port = 8080\n")
    for wanted, code, verdict in (("8080", 0, "passed"), ("9090", 6, "failed")):
        plain = f'grep -q {wanted} "$ENDSTOP_AGENT_WORKSPACE/config.ini"'
        async with ChatServer([called("finish_task", summary="done")]) as server:
            model = ("--model", "m", "--api-base", server.url, "--workspace", tmp_path)
            done = await endstop("run", "go", *model, "--evaluate-plain", plain, "--json")
        assert (done.code, done.json["verdict"]) == (code, verdict), done.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--evaluate-plain", " "), "--evaluate-plain is empty"),
        (("--evaluate-plain", "grep '"), "is not a valid shell command"),
        (("--evaluate-plain", "no-such-command-here x"), "command not found: 'no-such-command-here'"),
        (("--evaluate-plain", "true", "--evaluate", "true"), "give one of them"),
    ],
)
async def test_F14_a_bad_command_is_refused_before_the_first_request(options: tuple[str, ...], why: str) -> None:
    done = await endstop("run", "go", "--model", "m", "--api-base", "http://127.0.0.1:9/v1", *options)
    assert done.code == 2
    assert why in done.err
