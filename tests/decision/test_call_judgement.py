"""What a call did and how it ended, as everything that shows or counts calls is told it."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from endstop.decision import AssistantMessage, Facts, Policy, ToolCall, ToolSpec, fold
from endstop.decision import events as ev
from endstop.decision.call_judgement import MAX_SCRIPTS, CallJudge, CallJudgement, SessionJudge
from endstop.decision.messages import ResultStatus
from msgspec.structs import replace

NAMES = ("bash", "read_file", "write_file", "frobnicate", "book_flight")
OWN = ev.RunStarted(
    run_id="r",
    session_id="s",
    policy=Policy(),
    tools=(
        *(ToolSpec(name=name, description="", parameters={}, reads=name == "read_file") for name in NAMES),
        ToolSpec(name="finish", description="", parameters={}, kind="completion"),
        ToolSpec(name="ask", description="", parameters={}, kind="question"),
        ToolSpec(name="think", description="", parameters={}, kind="think"),
    ),
)
FOREIGN = replace(OWN, engine="import:openai", tools=tuple(replace(tool, reads=False) for tool in OWN.tools))
FOLLOWED = replace(FOREIGN, engine="follow:proxy 1")


class Run:
    """A run whose calls are judged one after another."""

    def __init__(self, started: ev.RunStarted) -> None:
        self.judge = CallJudge(started)
        self.facts = fold(Facts(), started)
        self.made = 0

    def call(self, name: str, content: str, status: ResultStatus = "ok", /, **arguments: Any) -> CallJudgement:
        self.made += 1
        call = ToolCall(f"c{self.made}", name, json.dumps(arguments))
        response = ev.ResponseFinished(step=1, message=AssistantMessage(calls=(call,)), finish="tool_calls")
        result = ev.ToolCallResult(call_id=call.id, name=name, content=content, status=status)
        for event in (response, result):
            self.facts = fold(self.facts, event)
        return self.judge.judge(result, self.facts)


def judged(
    started: ev.RunStarted, name: str, content: str, status: ResultStatus = "ok", /, **args: Any
) -> CallJudgement:
    return Run(started).call(name, content, status, **args)


# ---- how it ended


def test_of_our_own_tools_the_recorded_status_decides_whatever_the_result_says() -> None:
    for content in ("Exit code 1\nboom", "Traceback (most recent call last):\n", "fine", ""):
        ends = {status: judged(OWN, "bash", content, status).end for status in get_args(ResultStatus)}
        assert {status for status, end in ends.items() if end == "succeeded"} == {"ok"}
        assert {status for status, end in ends.items() if end == "failed"} == {"error", "invalid", "truncated"}


@pytest.mark.parametrize("started", [FOREIGN, FOLLOWED])
def test_in_another_loop_ok_says_nothing_and_the_result_does(started: ev.RunStarted) -> None:
    assert judged(started, "bash", "a.py\nb.py", command="ls").end == "unknown"
    assert judged(started, "bash", "<returncode>0</returncode>", command="ls").succeeded
    for content in ("<returncode>2</returncode>\nx", "exit code 1\n(no output)", "bash: jq: command not found"):
        found = judged(started, "bash", content, command="jq . a.json")
        assert (found.failed, found.succeeded) == (True, False), content


def test_a_status_that_says_more_than_ok_decides_in_another_loop_too() -> None:
    ends = {
        status: judged(FOREIGN, "bash", "<returncode>0</returncode>", status).end for status in get_args(ResultStatus)
    }
    assert ends.pop("ok") == "succeeded"
    assert {status for status, end in ends.items() if end == "failed"} == {"error", "invalid", "truncated"}
    assert {status for status, end in ends.items() if end == "unknown"} == ends.keys() - {
        "error",
        "invalid",
        "truncated",
    }


def test_what_a_limit_cuts_off_has_not_failed() -> None:
    run = Run(OWN)
    run.facts = fold(run.facts, ev.LimitReached(step=1, limit="seconds", used=1, allowed=1))
    assert run.call("bash", "", "truncated").end == "unknown"


def test_an_accepted_completion_and_an_answered_question_have_succeeded_and_a_thought_is_unknown() -> None:
    assert judged(FOREIGN, "finish", "error: none left").succeeded
    assert judged(FOREIGN, "ask", "No such file? Use b.txt").succeeded
    assert judged(FOREIGN, "think", "Your thought was logged.").end == "unknown"


def test_any_exit_code_but_0_has_failed_also_that_of_a_search_without_a_hit() -> None:
    found = judged(FOREIGN, "bash", "<returncode>1</returncode>\n<output>\n</output>", command="grep x a.py")
    assert (found.end, found.failed) == ("nothing_found", True)


# ---- what it did


def test_what_only_reads_is_declared_or_shown_by_the_name_and_the_arguments() -> None:
    assert judged(OWN, "read_file", "x").only_read
    assert not judged(OWN, "bash", "x", command="ls").only_read, "a tool of ours says it itself"
    assert judged(FOREIGN, "read_file", "x", path="a").only_read
    assert judged(FOREIGN, "bash", "x", command="cat a | head").only_read
    assert not judged(FOREIGN, "frobnicate", "x", path="a").only_read, "nothing shows it"


CHANGES: dict[str, tuple[str, ...]] = {
    "python3 analyze.py > out/a.csv": ("out/a.csv",),
    "rencrypt -o out.txt secret.txt": ("out.txt",),
    "python3 plot.py --output=plots/a.png": ("plots/a.png",),
    "./transform --output-dir results data": ("results",),
    "rm reproduce_issue.py": ("reproduce_issue.py",),
    "sed -i 's/a/b/' src/a.py": ("src/a.py",),
    "cp a.txt b.txt": ("b.txt",),
    "mv a.txt old/": ("a.txt", "old/a.txt"),
}


@pytest.mark.parametrize(("command", "files"), CHANGES.items())
def test_a_program_that_writes_a_file_changes_the_work(command: str, files: tuple[str, ...]) -> None:
    found = judged(FOREIGN, "bash", "", command=command)
    assert (found.changed, found.files) == (True, files)
    assert not judged(FOREIGN, "bash", "<returncode>2</returncode>\nno", command=command).changed


def test_a_program_of_which_nothing_more_is_known_changed_what_it_says_it_wrote() -> None:
    found = judged(FOREIGN, "bash", "10 rows\nResults saved to out/results.json\n", command="python3 analyze.py")
    assert (found.changed, found.perhaps) == (True, ("out/results.json",))
    for content in ("", "rows: 10", "Nothing was written to out.json", "Command still running: saved to a.txt"):
        assert not judged(FOREIGN, "bash", content, command="python3 analyze.py").changed, content
    echoed = judged(FOREIGN, "bash", "saved to a.txt", command="./run.sh; echo 'saved to a.txt'")
    assert not echoed.changed, "the command says it, and not the program"
    assert not judged(FOREIGN, "bash", "x: saved to a.txt", command="cat log.txt").changed


def test_a_program_that_the_run_wrote_is_known_by_its_text() -> None:
    run = Run(FOREIGN)
    text = "import json\nwith open('/app/answer.json', 'w') as out:\n    json.dump(1, out)\n"
    assert run.call("write_file", "ok", path="/app/analyze.py", content=text).files == ("/app/analyze.py",)
    assert run.call("bash", "", command="cd /app && python3 analyze.py").perhaps == ("/app/answer.json",)
    assert not run.call("bash", "", command="python3 other.py").changed
    assert not run.call("bash", "KeyError: 'x'", command="python3 analyze.py").changed
    heredoc = f"cat > b.py <<'EOF'\n{text.replace('answer', 'other')}EOF\npython3 b.py"
    found = run.call("bash", "", command=heredoc)
    assert (found.files, found.perhaps) == (("b.py",), ("/app/other.json",))
    assert not Run(FOREIGN).call("bash", "", command="python3 analyze.py").changed


def test_a_run_remembers_a_bounded_number_of_its_programs() -> None:
    run = Run(FOREIGN)
    for number in range(MAX_SCRIPTS + 1):
        run.call("write_file", "ok", path=f"{number}.py", content=f"open('{number}.txt', 'w')")
    assert not run.call("bash", "", command="python3 0.py").changed
    assert run.call("bash", "", command="python3 1.py").perhaps == ("1.txt",)


def test_a_change_in_the_world_is_one_without_files() -> None:
    found = judged(FOREIGN, "book_flight", '{"id": 1}', number=7)
    assert (found.changed, found.files) == (True, ())
    assert not judged(FOREIGN, "book_flight", "Error: no seats", number=7).changed


def test_completions_questions_and_thoughts_change_nothing() -> None:
    for name in ("finish", "ask", "think"):
        assert not judged(FOREIGN, name, "ok", path="a.py").changed


def test_our_own_tools_change_as_they_declare_and_a_file_that_they_only_name_is_perhaps_changed() -> None:
    found = judged(OWN, "frobnicate", "ok", path="a.py")
    assert (found.changed, found.files, found.perhaps) == (True, (), ("a.py",))
    assert not judged(OWN, "read_file", "ok").changed
    assert not judged(OWN, "frobnicate", "ok", "error").changed


# ---- sessions


def test_a_session_is_judged_run_by_run_and_in_detail() -> None:
    call = ToolCall("c", "bash", '{"command": "cat a.py"}')
    response = ev.ResponseFinished(step=1, message=AssistantMessage(calls=(call,)), finish="tool_calls")
    result = ev.ToolCallResult(call_id="c", name="bash", content="<returncode>2</returncode>")
    judge = SessionJudge()
    *none, found = [judge.feed(event) for event in (FOREIGN, response, ev.StepFinished(step=1), result)]
    assert none == [None, None, None]
    assert found is not None
    assert (found.end, found.effect, found.code, found.looked_at) == ("failed", "reads", 2, "a.py")
    *_, own = [judge.feed(event) for event in (OWN, response, result)]
    assert own is not None
    assert own.end == "succeeded", "a status of a tool of ours says it"


def test_a_call_that_waits_for_approval_is_judged_by_its_arguments_with_the_changes_that_it_would_make() -> None:
    arguments = {"path": "a.py", "content": "x = 1\n"}
    response = AssistantMessage(calls=(ToolCall("c1", "write_file", json.dumps(arguments)),))
    judge = SessionJudge()
    assert judge.feed(OWN) is None
    assert judge.feed(ev.ResponseFinished(step=1, message=response, finish="tool_calls")) is None
    asked = ev.QuestionAsked(call_id="c1", text="May it?", tool="write_file", arguments=arguments)
    known = judge.feed(asked)
    assert known is not None
    assert ([edit.path for edit in known.edits], known.end) == (["a.py"], "unknown")
    assert not known.changed
    assert judge.feed(replace(asked, tool=None)) is None, "a question of the model is no call to judge"
