"""A foreign session as events: runs, rounds, endings, and what the engine itself would have written."""

from __future__ import annotations

import cProfile
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, read_record, tool
from endstop.analysis.policy_simulation import backtest
from endstop.decision import Event, Policy, ToolResult
from endstop.decision import events as ev
from endstop.formats import FORMATS, ImportOptions, events_of
from endstop.formats.run_events import MAX_OPEN_QUESTIONS
from endstop.providers import Scripted
from endstop.providers import call as calls
from endstop.providers import say as text
from endstop.records.recorder import RecordWriter
from endstop.replay import replay

from .heard import Heard, answer, call, hear, says, user


def recorded(events: list[Event], path: Path) -> str:
    writer = RecordWriter(path, "session", "", "test")
    for event in events:
        writer.write(event)
    writer.close()
    return str(path)


async def replayed(heard: Heard, path: Path) -> Any:
    return await replay(recorded(heard.events, path))


# ---- as the engine would have written it


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


async def test_an_imported_session_has_the_events_that_the_engine_writes_for_the_same_session(tmp_path: Path) -> None:
    script = [calls("read", id="c1", path="a")], [text("Reading."), calls("read", id="c2", path="b")]
    engine = Engine(Scripted(*script, [text("Both read.")]), tools=[read], presets=(), policy=Policy())
    await engine.run("Read a and b", record=tmp_path / "native.jsonl")
    native = read_record(tmp_path / "native.jsonl").runs[0].events
    heard = hear(
        "openai",
        [
            user("Read a and b"),
            says(None, call("c1", "read", '{"path":"a"}')),
            answer("c1", "content of a"),
            says("Reading.", call("c2", "read", '{"path":"b"}')),
            answer("c2", "content of b"),
            says("Both read."),
        ],
    )
    assert _told(heard.events) == _told(native)
    marks = [
        [event.fingerprint for event in of if isinstance(event, ev.ToolCallResult)] for of in (native, heard.events)
    ]
    assert marks[0] == marks[1]


def test_a_response_is_whole_and_has_no_stream_parts(tmp_path: Path) -> None:
    heard = hear("openai", [user("a"), says("Look.", call("1", "read", "{}")), answer("1"), says("Done.")])
    assert not [event for event in heard.events if type(event) in ev.STREAM_PARTS]
    assert not [event for event in heard.events if isinstance(event, ev.FinishReported | ev.UsageReported)]
    (run,) = read_record(recorded(heard.events, tmp_path / "r.jsonl")).runs
    assert [event.seq for event in run.events] == list(range(1, len(heard.events) + 1)), "and numbers without a gap"
    assert [e.message for e in run.events if isinstance(e, ev.ResponseFinished)] == heard.said[1::2]


def test_a_backtest_cuts_an_imported_response_at_its_completion_call() -> None:
    def findings(status: dict[str, Any]) -> tuple[Any, ...]:
        done = call("d", "finish_task", '{"summary": "Done."}')
        heard = hear(
            "openai", [user("a"), says(None, done), answer("d", "no", **status), says(None, call("e", "read"))]
        )
        (result,) = backtest(heard.events, [Policy(inner_cancel=True, mixed="before")])
        return result.findings

    (rejected,), (accepted,) = findings({"is_error": True}), findings({})
    assert "it would have cut the response at its completion call" in str(rejected)
    assert "it would have cut" not in str(accepted)


async def test_a_session_that_goes_on_after_an_import_uses_no_call_id_twice(tmp_path: Path) -> None:
    heard = hear("openai", [user("a"), says(None, call("c1", "read", '{"path":"a"}')), answer("c1", "x"), says("Ok.")])
    path = recorded(heard.events, tmp_path / "session.jsonl")
    engine = Engine(
        Scripted([calls("read", id="c1", path="b")], [text("Both read.")]), tools=[read], presets=(), policy=Policy()
    )
    session = engine.resume(path)
    await session.run("Read b as well")
    *_, run = read_record(path).runs
    ids = [event.call_id for event in run.events if isinstance(event, ev.ToolCallResult)]
    assert ids
    assert ids != ["c1"]


def _told(events: list[Event]) -> list[tuple[Any, ...]]:
    """What happened, as far as both must agree; results of reading calls may come before the response ends."""
    told = []
    for event in events:
        match event:
            case ev.ResponseFinished(message=message, finish=finish):
                told.append((event.step, message, finish))
            case ev.ToolCallResult():
                told.append((event.call_id, event.content, event.status))
            case ev.DecisionMade(decision=decision):
                told.append((event.round, str(decision), decision.rule))
            case ev.RunFinished(outcome=outcome):
                told.append((outcome.stop_reason, outcome.steps, outcome.rounds, outcome.answer, outcome.status))
            case ev.RunStarted() | ev.RoundStarted() | ev.StepStarted() | ev.StepFinished() | ev.StageFinished():
                told.append((type(event).__name__,))
            case _:
                pass
    return told


async def test_what_ended_by_a_rule_of_ours_replays_the_same(tmp_path: Path) -> None:
    heard = hear(
        "openai",
        [
            user("a"),
            says("Hello"),
            user("b"),
            says(None, call("q", "ask_user", '{"question": "Which?"}')),
            answer("q", "The red one"),
            says(None, call("t", "read", '{"path": "red"}')),
            answer("t", "no", is_error=True),
            says(None, call("d", "finish_task", '{"summary": "Done."}'), call("late", "read")),
            answer("d", "ok"),
            user("c"),
            says(None, call("q2", "ask_user", '{"question": "Sure?"}')),
        ],
    )
    report = await replayed(heard, tmp_path / "r.jsonl")
    assert report.same, [run.divergence for run in report.runs]
    assert [run.outcome.stop_reason for run in report.runs] == [
        "text_final", "awaiting_input", "completed", "awaiting_input",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "nudge",
    [
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.",
        "Please always provide EXACTLY ONE action in triple backticks, found 2 actions.",
    ],
)
async def test_what_the_loop_said_replays_the_same_where_text_did_not_end_its_runs(tmp_path: Path, nudge: str) -> None:
    done = call("d", "attempt_completion", '{"result": "Done."}')
    heard = hear("openai", [user("go"), says("Hm."), user(nudge), says("Well."), user(nudge), says(None, done)])
    assert [event.text for event in heard.of(ev.MessageAdded)] == [nudge, nudge]
    assert [str(event.decision) for event in heard.of(ev.DecisionMade)][-1] == "stop(completed)"
    assert heard.outcomes[0].rounds == 3
    assert (await replayed(heard, tmp_path / "r.jsonl")).same


async def test_a_decision_has_no_trace_and_is_the_one_that_the_rules_give(tmp_path: Path) -> None:
    asked = [user("Read a"), says(None, call("c1", "read", '{"path":"a"}')), answer("c1", "x")]
    heard = hear("openai", [*asked, says("Shall I go on?")])
    (made,) = [event.decision for event in heard.events if isinstance(event, ev.DecisionMade)]
    assert (made.rule, made.reason, made.trace) == ("finish_reason", "text_final", ())
    assert (await replayed(heard, tmp_path / "r.jsonl")).same


async def test_a_rejected_completion_begins_a_round_as_in_the_engine(tmp_path: Path) -> None:
    done = '{"summary": "Done."}'
    heard = hear(
        "openai",
        [
            user("go"),
            says(None, call("a", "finish_task", done)),
            answer("a", "tests fail", is_error=True),
            says(None, call("b", "finish_task", done)),
            answer("b", "ok"),
        ],
    )
    assert [result.status for result in heard.results] == ["rejected", "ok"]
    assert heard.outcomes[0].rounds == 2
    assert heard.of(ev.DecisionMade)[0].decision.hand_back
    assert (await replayed(heard, tmp_path / "r.jsonl")).runs[0].outcome.stop_reason == "completed"


# ---- completions


def test_steps_after_the_completion_stay_in_the_record_as_the_waste_they_are() -> None:
    heard = hear(
        "openai",
        [
            user("go"),
            says(None, call("d", "task_done", '{"summary": "Port set.", "files": ["a"]}')),
            answer("d", "ok"),
            says(None, call("x", "read")),
            answer("x", "A"),
            says(None, call("d2", "task_done", '{"summary": "Again."}')),
            answer("d2", "ok"),
            says("Anything else?"),
        ],
    )
    assert heard.stops == ["completed"]
    assert (heard.outcomes[0].answer, heard.outcomes[0].steps) == ("Port set.", 4)
    assert [event.call_id for event in heard.of(ev.CompletionAccepted)] == ["d"]


@pytest.mark.parametrize(
    ("arguments", "result", "answered"),
    [
        ('{"summary": "S", "result": "R"}', "ok", "S"),
        ('{"result": "R", "summary": ""}', "ok", "R"),
        ('{"how": 1, "words": "W"}', "ok", "W"),
        ("{}", "the diff", "the diff"),
        ('{"command": "submit x"}', "x", "x"),
        ("not json", "ok", "not json"),
        ("[" * 100_000, "ok", "[" * 100_000),
    ],
)
def test_the_answer_is_what_the_completion_carries(arguments: str, result: str, answered: str) -> None:
    heard = hear("openai", [user("go"), says(None, call("d", "finish", arguments)), answer("d", result)])
    assert heard.outcomes[0].answer == answered


def test_the_users_word_on_tools_replaces_the_guesses() -> None:
    data = [user("go"), says(None, call("a", "finish"), call("b", "hand_in"), call("c", "boss")), says("ok")]
    guessed = {spec.name: spec.kind for spec in hear("openai", data).of(ev.RunStarted)[0].tools}
    assert guessed == {"finish": "completion", "hand_in": "ordinary", "boss": "ordinary"}
    told = hear("openai", data, completion=("hand_in",), question=("boss",))
    named = {spec.name: spec.kind for spec in told.of(ev.RunStarted)[0].tools}
    assert named == {"finish": "ordinary", "hand_in": "completion", "boss": "question"}
    assert ImportOptions(completion=("x",), question=("y",)).unmatched_names({"y"}) == ["x"]


@pytest.mark.parametrize("name", ["Think", "think", "attempt_completion", "AskUserQuestion", "submit_and_exit"])
def test_well_known_tools_are_known(name: str) -> None:
    assert ImportOptions().tool_kind(name, "openai") != "ordinary"


def test_a_thought_is_recorded_and_ends_nothing() -> None:
    think = call("t", "think", '{"thought": "Hm."}')
    heard = hear("openai", [user("go"), says(None, think), answer("t", ""), says("ok")])
    assert [event.text for event in heard.of(ev.ThoughtRecorded)] == ["Hm."]
    assert heard.stops == ["text_final"]


# ---- questions


def test_an_answered_question_is_a_pause_and_a_run_that_goes_on_from_it() -> None:
    heard = hear(
        "openai",
        [
            user("go", timestamp=1_700_000_000),
            says(None, call("x", "read"), call("q", "ask_user", '{"question": "Which?"}'), timestamp=1_700_000_001),
            answer("x", "A", timestamp=1_700_000_002),
            answer("q", "Red", timestamp=1_700_000_100),
            says("Red it is.", timestamp=1_700_000_103),
        ],
    )
    first, second = heard.of(ev.RunStarted)
    assert heard.stops == ["awaiting_input", "text_final"]
    assert (second.prompt, second.continues) == (None, first.run_id)
    assert second.carried.steps == 1
    assert [event.text for event in heard.of(ev.QuestionAsked)] == ["Which?"]
    assert [event.text for event in heard.of(ev.QuestionAnswered)] == ["Red"]
    assert heard.outcomes[1].steps == 2
    assert [result.content for result in heard.results] == ["A", "Red"]
    assert heard.outcomes[1].duration_ms == 2000 + 3000, "the time of waiting is nobody's"


def test_a_question_that_the_user_passes_over_is_closed_as_the_engine_does() -> None:
    heard = hear("openai", [user("go"), says(None, call("q", "ask_user", '{"question": "?"}')), user("x"), says("ok")])
    assert heard.stops == ["awaiting_input", "text_final"]
    assert [result.status for result in heard.results] == ["unanswered"]
    assert heard.of(ev.RunStarted)[1].before.steps == 1


def test_a_question_beside_a_completion_does_not_pause() -> None:
    heard = hear(
        "openai",
        [
            user("go"),
            says(None, call("q", "ask_user", '{"question": "?"}'), call("d", "finish", '{"summary": "S"}')),
            answer("q", "yes"),
            answer("d", "ok"),
        ],
    )
    assert heard.stops == ["completed"]


# ---- endings, and calls without a result


@pytest.mark.parametrize(
    ("messages", "stop", "status", "results"),
    [
        ([says(None, call("a", "t"))], "custom:unfinished", "cancelled", ["cancelled"]),
        ([says(None, call("a", "t")), user("stop"), says("ok")], "cancelled", "cancelled", ["cancelled"]),
        ([says(None, call("a", "t")), says("ok")], "text_final", "completed", ["unknown"]),
        ([says(None, call("a", "t")), answer("a")], "custom:unfinished", "cancelled", ["ok"]),
        ([says(None, call("d", "done"), call("a", "t"))], "completed", "completed", ["ok", "skipped"]),
        ([says(None, call("q", "ask_user"))], "awaiting_input", "awaiting_input", []),
        ([says("")], "no_answer", "exhausted", []),
        ([says("cut", finish_reason="length")], "text_final", "completed", []),
        ([says("no", finish_reason="content_filter")], "refusal", "failed", []),
        ([says("", finish_reason="error")], "provider_error", "failed", []),
    ],
)
async def test_a_run_ends_by_the_last_thing_that_happened(
    messages: list[Any], stop: str, status: str, results: list[str], tmp_path: Path
) -> None:
    heard = hear("openai", [user("go"), *messages])
    assert (heard.stops[0], heard.outcomes[0].status) == (stop, status)
    assert [result.status for result in heard.results] == results
    assert await replayed(heard, tmp_path / "r.jsonl"), "it does not crash, whatever it says"


def test_a_message_that_was_never_answered_is_a_run_without_steps() -> None:
    heard = hear("openai", [user("a"), says("b"), user("c")])
    assert heard.stops == ["text_final", "custom:unfinished"]
    assert heard.outcomes[1].steps == 0


def test_two_messages_before_one_answer_are_one_run() -> None:
    heard = hear("openai", [user("Here is the file"), user("Read it"), says("ok")])
    assert heard.stops == ["text_final"]
    assert [(event.text, event.origin) for event in heard.of(ev.MessageAdded)] == [("Read it", "user")]


def test_times_only_go_forward() -> None:
    heard = hear(
        "openai",
        [
            user("a", timestamp=1_700_000_100),
            says("b", timestamp=1_700_000_050),
            user("c"),
            says("d", timestamp="never"),
        ],
    )
    assert [outcome.duration_ms for outcome in heard.outcomes] == [0, 0]


# ---- scale


def in_one_response(calls: int) -> list[Any]:
    many = [call(f"c{n}", "read", '{"path": "a"}') for n in range(calls)]
    return [user("go"), says(None, *many), *[answer(f"c{n}") for n in reversed(range(calls))], says("ok")]


def in_one_step_each(calls: int) -> list[Any]:
    steps = [message for n in range(calls) for message in (says(None, call(f"s{n}", "read")), answer(f"s{n}"))]
    return [user("go"), *steps, says("ok")]


@pytest.mark.parametrize("session", [in_one_response, in_one_step_each])
def test_a_call_among_two_thousand_takes_no_more_work_than_one_among_two_hundred(session: Any) -> None:
    def work(calls: int) -> float:
        """Function calls of the import, for each call of a tool."""
        profile = cProfile.Profile()
        heard = profile.runcall(hear, "openai", session(calls))
        assert [result.call_id[1:] for result in heard.results] == [str(n) for n in range(calls)]
        return sum(entry.callcount for entry in profile.getstats()) / calls

    assert work(2_000) < 1.1 * work(200)


def test_the_questions_of_one_step_are_bounded() -> None:
    many = [call(f"q{n}", "ask_user", '{"question": "?"}') for n in range(5_000)]
    (foreign,) = FORMATS["openai"].sessions([user("go"), says(None, *many)])
    events = events_of(foreign, "s", "openai")
    assert sum(isinstance(event, ev.QuestionAsked) for event in events) == MAX_OPEN_QUESTIONS
    answered = [event for event in events if isinstance(event, ev.ToolCallResult)]
    assert {event.status for event in answered} == {"cancelled"}
    assert len(answered) == 5_000 - MAX_OPEN_QUESTIONS


def test_the_same_session_gets_the_same_run_ids_and_another_one_others() -> None:
    def ids(answer: str) -> list[str]:
        return [event.run_id for event in hear("openai", [user("a"), says(answer)]).of(ev.RunStarted)]

    assert ids("b") == ids("b") != ids("c")


def test_a_result_is_kept_whole_with_its_pictures_beside_a_question() -> None:
    picture = [{"type": "image_url", "image_url": {"url": "http://h/p.png"}}]
    heard = hear("openai", [user("a"), says(None, call("q", "ask_user")), answer("q", picture), says("ok")])
    (result,) = heard.results
    assert isinstance(result, ToolResult)
    assert result.images
    assert heard.stops == ["text_final"]
