"""A follower: what a loop that is not ours tells it, what it answers, and what its record holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Extend, Limits, Policy, WrongUse, read_record
from endstop.cli.factory import with_limits
from endstop.decision import (
    POLICIES,
    Decision,
    GoOn,
    Pause,
    Repetition,
    Rule,
    Stop,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from endstop.decision.chunks import FinishReport, TextDelta, ToolCallDelta, UsageReport
from endstop.decision.events import (
    MessageAdded,
    QuestionAnswered,
    ResponseFinished,
    RunFinished,
    RunStarted,
    ToolCallResult,
)
from endstop.decision.policy import Stagnation
from endstop.decision.policy_files import policy_from
from endstop.follow import Cut, Follower
from endstop.replay import replay
from endstop.testing import FakeClock
from msgspec.structs import replace

FINISH = ToolSpec(
    name="finish_task",
    description="",
    parameters={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
)


def call(id: str, name: str = "work", arguments: str = '{"n": 1}') -> ToolCall:
    return ToolCall(id, name, arguments)


def result(id: str, content: str = "ok", name: str = "work") -> ToolResult:
    return ToolResult(id, name, content)


def follower(policy: Policy | str = "agent", **more: Any) -> Follower:
    one = Follower(policy, clock=FakeClock(), **{"completion": ("finish_task",), **more})
    one.prompt("go")
    return one


def test_the_same_call_for_ever_is_stuck_after_nudges_that_are_the_same_run() -> None:
    one, said = follower(), []
    for number in range(20):
        decision = one.step(calls=[call(f"c{number}")], results=[result(f"c{number}")])
        if isinstance(decision, Stop):
            break
        assert isinstance(decision, GoOn)
        if decision.say:
            said.append(decision.say)
            one.said(decision.say)  # as a loop does that reports all that it adds
    assert isinstance(decision, Stop)
    assert (decision.reason, number + 1) == ("stuck", 6)
    assert said
    assert one.outcome is not None
    assert (one.outcome.steps, one.outcome.status) == (6, "exhausted")


def test_words_of_the_loop_itself_begin_no_run() -> None:
    events: list[Any] = []
    one = follower(on_event=events.append)
    one.step(calls=[call("a")], results=[result("a")])
    one.said("Please go on.")
    one.step(calls=[call("b")], results=[result("b")])
    assert sum(isinstance(event, RunStarted) for event in events) == 1
    assert [event.origin for event in events if isinstance(event, MessageAdded)] == ["nudge"]
    assert one.facts.steps == 2


def test_a_completion_is_cut_in_the_stream_and_what_comes_after_is_not_read() -> None:
    one = follower(tools=[FINISH])
    assert one.chunk(TextDelta("I am done. ")) is None
    assert one.chunk(ToolCallDelta(0, "x", "finish_task", '{"summary": ')) is None
    cut = one.chunk(ToolCallDelta(0, arguments='"port is 8080"}'))
    assert isinstance(cut, Cut)
    assert (cut.reason, cut.call_id) == ("completion", "x")
    assert one.chunk(TextDelta("and now I check again")) == cut
    one.response()
    one.result(result("x", "noted", "finish_task"))
    decision = one.decide()
    assert isinstance(decision, Stop)
    assert decision.reason == "completed"
    assert one.outcome is not None
    assert one.outcome.answer == "port is 8080"


@pytest.mark.parametrize("arguments", ['{"text": "no summary"}', "[1]", '{"summary": 1'])
def test_a_completion_whose_arguments_do_not_fit_is_not_cut(arguments: str) -> None:
    one = follower(tools=[FINISH])
    assert one.chunk(ToolCallDelta(0, "x", "finish_task", arguments)) is None
    assert one.chunk(TextDelta("more")) is None


def test_a_question_before_the_completion_keeps_the_stream() -> None:
    one = follower(tools=[FINISH], question=("ask_user",))
    one.chunk(ToolCallDelta(0, "q", "ask_user", '{"question": "Which port?"}'))
    assert one.chunk(ToolCallDelta(1, "x", "finish_task", '{"summary": "done"}')) is None


def test_a_response_that_repeats_itself_is_cut_and_ends_the_run_as_degenerate() -> None:
    one = follower()
    cuts = [cut for _ in range(2000) if (cut := one.chunk(TextDelta("and now I check again "))) is not None]
    assert cuts[0].reason == "repetition"
    one.response()
    decision = one.decide()
    assert isinstance(decision, Stop)
    assert decision.reason == "degenerate"


def test_the_result_of_a_rejected_completion_lets_the_loop_go_on() -> None:
    one = follower()
    refused = ToolResult("x", "finish_task", "Tests fail.", "error")
    decision = one.step(calls=[call("x", "finish_task", '{"summary": "done"}')], results=[refused])
    assert isinstance(decision, GoOn)
    assert one.running


def test_a_completion_without_a_result_counts_as_accepted() -> None:
    one = follower()
    decision = one.step(calls=[call("x", "finish_task", '{"summary": "done"}')])
    assert isinstance(decision, Stop)
    assert decision.reason == "completed"


def test_an_open_question_pauses_and_an_answered_one_goes_on() -> None:
    ask = call("q", "ask_user", '{"question": "Which port?"}')
    one = follower(question=("ask_user",))
    assert one.step(calls=[ask]) == one.decision
    assert isinstance(one.decision, Pause)
    events: list[Any] = []
    two = follower(question=("ask_user",), on_event=events.append)
    decision = two.step(calls=[ask], results=[result("q", "8080", "ask_user")])
    assert isinstance(decision, GoOn)
    assert [event.text for event in events if isinstance(event, QuestionAnswered)] == ["8080"]
    assert two.running


def test_results_that_come_while_the_response_streams_are_those_of_its_calls() -> None:
    one = follower()
    for number in range(10):
        one.result(result(f"c{number}"))
        decision = one.step(calls=[call(f"c{number}")])
        if isinstance(decision, Stop):
            break
    assert isinstance(decision, Stop)
    assert decision.reason == "stuck"


def test_ids_that_repeat_from_step_to_step_find_their_results() -> None:
    one, events = follower(), []
    one = follower(on_event=events.append)
    for number in range(2):
        one.step(calls=[call("call_0", arguments=f'{{"n": {number}}}')], results=[result("call_0", f"result {number}")])
    one.chunk(ToolCallDelta(0, "call_0", "work", '{"n": 3}'))
    one.chunk(FinishReport("tool_calls", "tool_calls"))
    one.response()
    one.result(result("call_0", "result 3"))
    one.decide()
    results = [event for event in events if type(event).__name__ == "ToolCallResult"]
    assert [event.content for event in results] == ["result 0", "result 1", "result 3"]
    assert len({event.call_id for event in results}) == 3


def test_a_failed_request_and_the_one_that_follows_are_one_step() -> None:
    one = follower()
    one.failed("overloaded", kind="server", status=529)
    one.step("The port is 8080.")
    assert one.outcome is not None
    assert (one.outcome.stop_reason, one.facts.steps, one.facts.requests) == ("text_final", 1, 2)


def test_a_request_that_failed_for_good_ends_as_a_providers_error() -> None:
    one = follower()
    one.failed("invalid key", kind="auth", status=401)
    outcome = one.end()
    assert outcome is not None
    assert outcome.stop_reason == "provider_error"


def test_a_loop_that_ends_in_the_middle_is_not_called_complete() -> None:
    one = follower()
    one.step(calls=[call("a")], results=[result("a")])
    outcome = one.end()
    assert outcome is not None
    assert (outcome.status, outcome.stop_reason) == ("cancelled", "custom:unfinished")


ANNOUNCED = "I will now run the tests."


def after_work(texts: list[str], **more: Any) -> tuple[list[Decision], Follower]:
    """The decisions after these responses without calls, which follow one with a call and its result."""
    one = follower(**more)
    one.step(calls=[call("a")], results=[result("a")])
    return [one.step(text) for text in texts], one


@pytest.mark.parametrize(
    ("texts", "reason", "said"),
    [
        (["The port is 8080."], "text_final", 0),
        ([ANNOUNCED, ANNOUNCED], "no_answer", 1),
        ([""] * 6, "no_answer", 5),
        (["I understand."] * 3, "no_answer", 2),
    ],
    ids=["answer", "announcements", "empty", "echoes"],
)
def test_whether_a_response_without_calls_is_the_end_the_loop_decides(texts: list[str], reason: str, said: int) -> None:
    """The policy says what it amounts to, and nudges as long as it is patient, but does not end the loop."""
    decisions, one = after_work(texts)
    assert [type(decision) for decision in decisions] == [GoOn] * len(texts)
    assert [bool(decision.say) for decision in decisions if isinstance(decision, GoOn)] == [
        number < said for number in range(len(texts))
    ]
    assert not one.running
    assert one.outcome is not None
    assert (one.outcome.stop_reason, one.end()) == (reason, one.outcome)


def test_a_loop_that_goes_on_after_a_text_goes_on_in_another_run_whose_guards_hold() -> None:
    events: list[Any] = []
    _, one = after_work(["The port is 8080."], on_event=events.append)
    for number in range(6):
        decision = one.step(calls=[call(f"b{number}")], results=[result(f"b{number}")])
    assert isinstance(decision, Stop)
    assert decision.reason == "stuck"
    runs = [event for event in events if isinstance(event, RunStarted)]
    ended = [event.outcome.stop_reason for event in events if isinstance(event, RunFinished)]
    assert ([run.prompt for run in runs], ended) == (["go", None], ["text_final", "stuck"])


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy(repetition=Repetition(same_text=2), text="nudge"), "stuck"),
        (Policy(limits=Limits(steps=3), text="nudge"), "step_limit"),
    ],
)
def test_a_guard_ends_the_loop_after_a_text_too(policy: Policy, reason: str) -> None:
    decisions, _ = after_work(["The port is 8080."] * 2, policy=policy)
    assert isinstance(decisions[-1], Stop)
    assert decisions[-1].reason == reason


def test_a_rule_of_the_users_own_ends_the_loop_at_a_text() -> None:
    rule = Rule("own", "said_port", "", ("text",), lambda facts, _: OWN_END if "port" in facts.text else None)
    rules = ("said_port", *Policy().rules)
    decisions, _ = after_work(["The port is 8080."], policy=Policy(rules=rules), rules=[rule])
    assert decisions == [replace(OWN_END, trace=decisions[0].trace)]


OWN_END = Stop(rule="said_port", reason="custom:port", status="completed")


def news(number: int) -> str:
    """A result that says something new: another number in the same words would not."""
    return "It says " + "".join("abcdefghij"[int(digit)] for digit in str(number)) * 3


def work_on(one: Follower, steps: int) -> Decision:
    """The decision after so many steps of useful work, or after the one with which the run ends."""
    decision: Decision = GoOn(rule="")
    for n in range(steps):
        decision = one.step(calls=[call(f"w{n}", arguments=f'{{"n": {n}}}')], results=[result(f"w{n}", news(n))])
        if isinstance(decision, Stop):
            break
    return decision


@pytest.mark.parametrize(
    "policy",
    [
        *POLICIES,
        *POLICIES.values(),
        Policy(),
        Policy(limits=Limits(cost_usd=5)),
        Policy(name="mine", stagnation=Stagnation(stop_at=20)),
        policy_from({"name": "mine", "base": "strict", "repetition": {"stop_at": 9}}),
        replace(POLICIES["chat"], closing=True),
    ],
)
async def test_there_is_no_limit_of_steps_that_nobody_has_set(policy: Policy | str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    one = follower(policy, record=path)
    assert isinstance(work_on(one, 200), GoOn)
    one.step(calls=[call("x", "finish_task", '{"summary": "done"}')])
    assert one.outcome is not None
    assert (one.outcome.status, one.outcome.steps) == ("completed", 201)
    assert "steps" not in one.outcome.limits
    assert (one.policy.limits.cost_usd == 5) is (policy == Policy(limits=Limits(cost_usd=5)))
    one.close()
    assert one.policy.completion == "none" or (await replay(path)).same  # an engine offers no completion then


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (Policy(limits=Limits(steps=30)), 30),
        (replace(POLICIES["chat"], limits=Limits(steps=30)), 30),
        (with_limits(POLICIES["chat"], 30, closing=True), 30),
        (Policy(limits=Limits(soft_steps=4)), 8),
        (Policy(name="mine", limits=Limits(steps=7)), 7),
        (policy_from({"limits": {"steps": 30}}), 30),
        (policy_from({"recommended": "look_up"}), 20),
        (Policy(limits=Limits(steps=7, extend=Extend(by=5, most=2))), 17),
    ],
)
async def test_a_limit_of_steps_that_is_set_holds(policy: Policy, steps: int, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with follower(policy, record=path) as one:
        decision = work_on(one, 200)
        assert isinstance(decision, Stop)
        assert (decision.reason, one.facts.steps) == ("step_limit", steps)
    assert (await replay(path)).same


@pytest.mark.parametrize(("speaks", "ends"), [(True, "stuck"), (False, "")])
def test_what_a_decision_says_does_not_keep_a_loop_going_for_ever(speaks: bool, ends: str) -> None:
    """With `strict` each text is nudged, and no limit of steps ends that."""
    decisions, one = after_work([f"Text {n}." for n in range(40)], policy="strict", speaks=speaks)
    stops = [n for n, decision in enumerate(decisions, 1) if isinstance(decision, Stop)]
    assert stops == ([30] if speaks else [])
    assert (one.outcome.stop_reason if one.outcome else "") == ends


def test_a_limit_that_asks_stops_where_nobody_can_be_asked(tmp_path: Path) -> None:
    policy = Policy(limits=Limits(steps=3, extend=Extend(when="ask")))
    one = follower(policy, record=tmp_path / "r.jsonl")
    for n in range(3):
        decision = one.step(calls=[call(f"c{n}", arguments=f'{{"n": {n}}}')], results=[result(f"c{n}", f"done {n}")])
    assert isinstance(decision, Stop)
    assert (decision.reason, one.policy.limits) == ("step_limit", Limits(steps=3))
    one.close()
    assert read_record(tmp_path / "r.jsonl").runs[0].started.policy.limits == Limits(steps=3)


def test_limits_on_steps_and_on_the_session_hold() -> None:
    one = follower(Policy(limits=Limits(steps=3)))
    decisions = [
        one.step(calls=[call(f"c{n}", arguments=f'{{"n": {n}}}')], results=[result(f"c{n}", f"page {n}")])
        for n in range(3)
    ]
    assert isinstance(decisions[-1], Stop)
    assert decisions[-1].reason == "step_limit"


def limited(**more: Any) -> Follower:
    """A follower whose loop can ask for closing words, after a run that a limit has ended."""
    one = follower(Policy(limits=Limits(steps=2)), closes=True, **more)
    assert isinstance(work_on(one, 3), Stop)
    assert one.closing is one.decision
    assert (one.running, one.outcome) == (False, None)
    return one


@pytest.mark.parametrize("calls", [[], [call("late"), call("x", "finish_task", '{"summary": "done"}')]])
async def test_at_a_limit_the_model_can_have_the_last_word(calls: list[ToolCall], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    one = limited(record=path)
    one.chunk(TextDelta("I read two pages."))
    for number, each in enumerate(calls):
        assert one.chunk(ToolCallDelta(number, each.id, each.name, each.arguments)) is None
    one.response()
    outcome = one.end()
    assert outcome is not None
    assert (outcome.stop_reason, outcome.steps, outcome.requests) == ("step_limit", 2, 3)
    assert (outcome.answer, outcome.answer_from) == ("I read two pages.", "closing")
    one.close()
    (run,) = read_record(path).runs
    assert [event.status for event in run.events if isinstance(event, ToolCallResult)][2:] == ["skipped"] * len(calls)
    assert (await replay(path)).same


@pytest.mark.parametrize(
    "go_on",
    [
        lambda one: one.prompt("another task"),
        lambda one: one.said("Please go on."),
        lambda one: one.end(),
        lambda one: one.failed("overloaded", kind="server", status=529) or one.end(),
        lambda one: (one.response("Words."), one.response("More of them.")),
    ],
    ids=["a prompt", "words of the loop", "the end", "a failed request", "another response"],
)
async def test_a_run_at_a_limit_ends_whatever_the_loop_does(go_on: Any, tmp_path: Path) -> None:
    one = limited(record=tmp_path / "run.jsonl")
    go_on(one)
    assert one.closing is None
    assert one.outcome is not None
    assert (one.outcome.stop_reason, one.outcome.steps) == ("step_limit", 2)
    one.close()
    first = read_record(tmp_path / "run.jsonl").runs[0]
    assert first.finished is not None
    assert first.finished.outcome.stop_reason == "step_limit"


def test_a_loop_that_cannot_ask_for_closing_words_ends_at_once() -> None:
    one = follower(Policy(limits=Limits(steps=2)))
    work_on(one, 3)
    assert one.closing is None
    assert one.outcome is not None
    circle = follower(closes=True)
    for number in range(6):
        circle.step(calls=[call(f"c{number}")], results=[result(f"c{number}")])
    assert circle.closing is None  # only at a limit
    assert circle.outcome is not None


def test_a_limit_on_rounds_ends_the_run_after_its_last_allowed_round_and_not_inside_it() -> None:
    """What a round is, is the engine's: its steps follow each other until the loop is told something."""
    one = follower(Policy(limits=Limits(rounds=1), max_inner_steps=3))
    for number in range(2):
        decision = one.step(calls=[call(f"c{number}", arguments=f'{{"n": {number}}}')], results=[result(f"c{number}")])
        assert isinstance(decision, GoOn)
    decision = one.step(calls=[call("last", arguments='{"n": 9}')], results=[result("last")])
    assert isinstance(decision, Stop)
    assert decision.reason == "step_limit"
    assert not one.running
    assert one.outcome is not None
    assert (one.outcome.rounds, one.outcome.steps) == (1, 3)


def test_usage_is_as_reported_and_estimated_where_the_stream_was_cut() -> None:
    events: list[Any] = []
    one = follower(on_event=events.append)
    one.step(calls=[call("a")], results=[result("a")], usage=Usage(input_tokens=100, output_tokens=7))
    one.chunk(UsageReport(Usage(input_tokens=120)))
    one.chunk(ToolCallDelta(0, "x", "finish_task", '{"summary": "done"}'))
    one.response()
    one.decide()
    first, second = [event.usage for event in events if isinstance(event, ResponseFinished)]
    assert (first.input_tokens, first.output_tokens, first.estimated) == (100, 7, False)
    assert (second.input_tokens, second.estimated) == (120, True)


async def test_the_record_replays_with_the_same_decisions(tmp_path: Path) -> None:
    path = tmp_path / "followed.jsonl"
    with Follower(completion=("finish_task",), record=path, agent="plain", clock=FakeClock()) as one:
        one.prompt("go")
        for number in range(6):
            one.step(calls=[call(f"c{number}")], results=[result(f"c{number}")])
        one.prompt("again")
        one.step("I finish.", calls=[call("x", "finish_task", '{"summary": "done"}')])
        one.prompt("a greeting")
        one.step("Hello!")
    record = read_record(path)
    assert [run.finished is not None for run in record.runs] == [True] * 3
    assert record.runs[0].started.engine.startswith("follow:plain ")
    report = await replay(path)
    assert report.same, [str(run.divergence) for run in report.runs]


def test_a_record_that_cannot_be_written_any_more_does_not_end_the_loop(tmp_path: Path, monkeypatch: Any) -> None:
    one = Follower(record=tmp_path / "full.jsonl", clock=FakeClock())
    one.prompt("go")

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("endstop.records.recorder.RecordWriter.flush", lambda self: full())
    decision = one.step(calls=[call("a")], results=[result("a")])
    assert isinstance(decision, GoOn)
    one.step("The port is 8080.")
    assert one.outcome is not None


def test_bad_input_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="unknown policy 'agnt'"):
        Follower("agnt")
    with pytest.raises(WrongUse, match="requires a completion tool"):
        Follower("strict").prompt("go")
    (tmp_path / "text").write_text("not a record")
    with pytest.raises(WrongUse):
        Follower(record=tmp_path / "text")


def test_what_happened_before_it_was_followed_is_told_as_messages() -> None:
    from endstop.decision import AssistantMessage, UserMessage

    one = Follower(completion=("finish_task",), clock=FakeClock())
    history: list[Any] = [UserMessage("go")]
    for number in range(5):
        history += [AssistantMessage(calls=(call(f"c{number}"),)), result(f"c{number}")]
    one.messages(history)
    decision = one.step(calls=[call("c9")], results=[result("c9")])
    assert isinstance(decision, Stop)
    assert (decision.reason, one.facts.steps) == ("stuck", 6)
