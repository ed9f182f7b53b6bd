"""The checks that are found in the calls of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable

from endstop.analysis.recorded_checks import CheckFinder, RunChecks
from endstop.analysis.summary import SummaryBuilder
from endstop.decision import AssistantMessage, Event, Facts, ToolCall, ToolSpec, fold
from endstop.decision import events as ev
from msgspec.structs import replace

from .test_anchors import IMPORTED, Made, did, ran, step, steps

STARTED = replace(IMPORTED, tools=(*IMPORTED.tools, ToolSpec(name="process", description="", parameters={})))


def found(events: Iterable[Event], started: ev.RunStarted = STARTED) -> RunChecks:
    facts = fold(Facts(), started)
    builder = SummaryBuilder(started, facts)
    finder = CheckFinder(started, builder.judge)
    for number, event in enumerate(events, 2):
        event = replace(event, seq=number)
        facts = fold(facts, event)
        builder.feed(event, facts)
        finder.feed(event, facts)
    return finder.build(facts)


def said(*made: Made) -> list[tuple[int, str]]:
    return [(check.step, check.said) for check in found(steps(*made)).checks]


def code(number: int, output: str = "") -> str:
    return f"<returncode>{number}</returncode>\n<output>\n{output}\n</output>"


def script(name: str, text: str) -> Made:
    return ran(f"cat > {name} <<'EOF'\n{text}\nEOF", code(0))


def test_the_exit_code_of_the_check_decides() -> None:
    made = ran("pytest", code(0)), ran("cd /app && npm test", code(1)), ran("make test && echo fine", code(0))
    assert said(*made) == [
        (1, "passed"), (2, "failed"), (3, "passed")
    ]  # fmt: skip


def test_behind_a_pipe_a_semicolon_or_an_alternative_only_the_summary_counts() -> None:
    ends = ("| tail -5", "; echo done", "|| true", "\necho done")
    assert {said(ran(f"pytest {end}", code(0, "1 failed in 0.1s")))[0][1] for end in ends} == {"failed"}
    assert {said(ran(f"pytest {end}", code(0, "4 passed in 0.1s")))[0][1] for end in ends} == {"passed"}
    assert {said(ran(f"pytest {end}", code(0, "tests/a.py ...")))[0][1] for end in ends} == {"unknown"}


def test_of_two_checks_in_a_call_a_failure_of_the_first_counts() -> None:
    assert said(ran("pytest a; pytest b", code(0, "1 failed in 1s\n3 passed in 1s"))) == [(1, "failed")]


def test_a_check_that_could_not_start_or_ran_no_test_says_nothing() -> None:
    alone = (
        ran("mvn test", code(127, "mvn: command not found")),
        ran("mvn test", "/bin/bash: line 7: mvn: command not found"),
        ran("pytest -k nothing", code(5, "no tests ran in 0.01s")),
        ran("go test ./... | head", "ok  \tpkg\t0.006s [no tests to run]"),
        ran("pytest", "still collecting"),
    )
    assert [said(made) for made in alone] == [[(1, "unknown")]] * 5


def test_a_tool_that_shows_only_the_codes_of_failures_has_ended_with_0_where_it_shows_none() -> None:
    written, failed, fine = script("a.py", "assert x"), ran("make", "(Command exited with code 2)"), ran("ls", "a.py")
    check = ran("python a.py", "some output")
    assert said(written, failed, fine, check) == [(4, "unknown")]  # the first result shows a 0
    shown = ran("cat > a.py <<'E'\nassert x\nE", "(no output)")
    assert said(shown, failed, fine, check) == [(4, "passed")]
    assert said(shown, fine, check) == [(3, "unknown")]
    cut = ran("python a.py", "Command aborted by signal SIGTERM")
    assert said(shown, failed, fine, cut) == [(4, "unknown")]


def test_a_test_file_that_the_run_has_read_is_a_check_when_it_is_run() -> None:
    holds = "     1\tdef test_f():\n     2\t    assert f() == 1\n"
    assert said(did("read_file", "eval.py", holds), ran("python eval.py", code(0))) == [(2, "passed")]
    assert said(did("read_file", "train.py", "assert shape\n"), ran("python train.py", code(0))) == []


def test_a_script_that_a_tool_has_written_is_read_from_its_arguments() -> None:
    write = ToolCall("w", "write", json.dumps({"path": "/app/a.py", "content": "import f\nassert f.g() == 1\n"}))
    written = [
        ev.ResponseFinished(step=1, message=AssistantMessage(calls=(write,)), finish="tool_calls"),
        ev.ToolCallResult(call_id="w", name="write", content="Successfully wrote 20 bytes", status="ok"),
        ev.StepFinished(step=1),
    ]
    started = replace(STARTED, tools=(*STARTED.tools, ToolSpec(name="write", description="", parameters={})))
    checks = found([ev.StepStarted(step=1, round=1), *written, *step(2, ran("python a.py", code(1)))], started).checks
    assert [(check.step, check.said) for check in checks] == [(2, "failed")]


def test_of_several_packages_some_may_have_no_test() -> None:
    first = "--- PASS: TestA (0.00s)\nPASS\nok  \tp\t0.05s\n"
    other = "testing: warning: no tests to run\nPASS\nok  \tp/q\t0.002s [no tests to run]"
    assert said(ran("go test -v -run TestA ./... | tail", first + other)) == [(1, "passed")]


def test_the_output_of_a_check_in_the_background_belongs_to_it() -> None:
    background = ran("cargo test", "Command still running (session a, pid 7). Use process for follow-up.")
    poll = did("process", "poll", "test result: ok. 5 passed; 0 failed; 0 ignored")
    checks = found(steps(background, poll, poll)).checks
    assert [(check.step, check.said, check.command) for check in checks] == [
        (1, "unknown", "cargo test"), (2, "passed", "cargo test")
    ]  # fmt: skip


def test_counts_of_the_summary_are_kept() -> None:
    (check,) = found(steps(ran("pytest", code(1, "3 failed, 20 passed in 0.5s")))).checks
    assert (check.passed, check.failed, check.command) == (20, 3, "pytest")


def test_a_script_counts_if_it_decides_by_its_exit_code() -> None:
    assert said(script("reproduce.py", "print('FAIL')"), ran("python reproduce.py", code(0))) == []
    assert said(script("reproduce.py", "assert f(1) == 2"), ran("python reproduce.py", code(0))) == [(2, "passed")]
    assert said(script("test_a.py", "print('PASS')"), ran("python test_a.py", code(0))) == []
    assert said(ran("python test_a.py", code(1))) == [(1, "failed")]
    assert said(ran("python a.py", code(0))) == []


def test_a_script_that_is_written_anew_is_read_anew() -> None:
    first, second = script("a.py", "assert x"), script("a.py", "print(x)")
    assert said(first, second, ran("python a.py", code(0))) == []


def test_a_script_that_is_written_and_run_in_one_call_counts() -> None:
    assert said(ran("cat > t.py <<E\nassert x\nE\npython t.py", code(1))) == [(1, "failed")]


def test_a_script_of_the_run_that_writes_files_changes_the_work() -> None:
    patch = script("fix.py", "p = 'src/a.py'\nopen(p, 'w').write('x')")
    assert found(steps(patch, ran("python fix.py", code(0)), ran("rm fix.py", code(0)))).changes == (2,)


def test_a_failing_call_of_a_tool_with_a_status_has_failed() -> None:
    assert said(ran("pytest", "broken", "error")) == [(1, "failed")]


def test_a_tool_that_runs_tests_by_its_name_is_a_check() -> None:
    own = replace(STARTED, engine="", tools=(ToolSpec(name="run_tests", description="", parameters={}),))
    made = steps(did("run_tests", "", "3 passed in 0.1s"), did("run_tests", "", "1 failed in 0.1s"), did("run_tests"))
    assert [check.said for check in found(made, own).checks] == ["passed", "failed", "unknown"]


def test_reading_a_test_and_printing_its_words_is_no_check() -> None:
    assert (
        said(ran("cat test_a.py", "3 passed in 0.1s"), ran("echo 'pytest'", "OK"), did("read_file", "", "3 passed"))
        == []
    )


def test_the_checks_of_a_run_with_until_are_those_that_it_recorded() -> None:
    events = [
        STARTED,
        ev.CheckStarted(step=0, place="start", name="pytest -q"),
        ev.CheckEnded(step=0, place="start", said="not_met", score=1, of=3),
        ev.CheckStarted(step=2, place="step", name="pytest -q"),
        ev.CheckEnded(step=3, place="response", said="met"),
    ]
    checks = found(events).checks
    assert [(check.step, check.said, check.passed, check.failed) for check in checks] == [
        (0, "failed", 1, 2),
        (2, "passed", None, None),
    ]
