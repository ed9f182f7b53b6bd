"""A record of a followed loop replays the same: what the loop decided is given, what the policy decided made anew."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from endstop import Limits, read_record
from endstop.decision import POLICIES, Policy, Stop, TextDelta, ToolCall, ToolCallDelta, ToolResult, ToolSpec, Usage
from endstop.decision.events import ToolCallResult, ToolCallStart
from endstop.decision.limits import SessionLimits
from endstop.decision.policy import Repetition, Stagnation
from endstop.follow import Follower
from endstop.replay import replay
from endstop.testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

TOOLS = [ToolSpec(name=name, description="", parameters={"type": "object"}) for name in ("look", "write")]
POLICY_CHANGES: list[dict[str, Any]] = [
    {},
    {"steps": 2},
    {"steps": 4, "soft_steps": 2},
    {"tool_calls": 3},
    {"seconds": 4},
    {"input_tokens": 60},
    {"rounds": 2},
]
ENDS = (
    None,
    Stop(rule="followed", reason="custom:unfinished", status="cancelled"),
    Stop(rule="followed", reason="cancelled"),
    Stop(rule="mine", reason="custom:tests_pass", status="completed"),
    Stop(rule="control_flow", reason="completed"),
    Stop(rule="followed", reason="internal_error"),
)
MOVES = st.one_of(
    st.tuples(st.just("calls"), st.lists(st.sampled_from(["look", "write", "gone"]), min_size=1, max_size=3)),
    st.tuples(st.just("text"), st.sampled_from(["Done.", "I will look.", ""])),
    st.tuples(st.just("completion"), st.sampled_from(["ok", '{"continue": "not yet"}', None])),
    st.tuples(st.just("question"), st.sampled_from(["yes", None])),
    st.tuples(st.just("unasked"), st.booleans()),
    st.tuples(st.just("failed"), st.booleans()),
    st.tuples(st.just("streamed"), st.integers(1, 30)),
    st.tuples(st.just("said"), st.just("Go on.")),
    st.tuples(st.just("prompt"), st.just("And now?")),
    st.tuples(st.just("wait"), st.integers(1, 5)),
    st.tuples(st.just("end"), st.sampled_from(ENDS)),
)


class Loop:
    """A loop that tells a follower of everything that it does, in any order."""

    def __init__(self, follower: Follower, clock: FakeClock, calls: int) -> None:
        self.follower, self.clock, self.calls = follower, clock, calls

    def call(self, name: str, arguments: str = '{"file": "a"}') -> ToolCall:
        self.calls += 1
        return ToolCall(f"c{self.calls}", name, arguments)

    async def move(self, kind: str, what: Any) -> None:
        follower = self.follower
        match kind:
            case "calls":
                calls = [self.call(name, "{broken" if name == "gone" else f'{{"n": {self.calls}}}') for name in what]
                results = [ToolResult(call.id, call.name, "the same", "ok") for call in calls]
                follower.step("So:", calls, results, usage=Usage(input_tokens=20, output_tokens=4))
            case "text":
                follower.step(what)
            case "completion" | "question":
                call = self.call("finish_task" if kind == "completion" else "ask_user", '{"answer": "a"}')
                follower.step("", [self.call("look"), call], [ToolResult(call.id, call.name, what)] if what else [])
            case "unasked":
                call = self.call("finish_task" if what else "look")
                follower.response("", [call])
                follower.result(ToolResult(call.id, call.name, "ok"))
            case "failed":
                follower.failed("reset")
                if what:
                    follower.decide()
            case "streamed":
                for _ in range(what):
                    if follower.chunk(TextDelta("the same words over and over again, " * 8)):
                        break
                follower.response()
            case "wait":
                await self.clock.advance(what)
            case "end":
                follower.end(what)
            case _:
                getattr(follower, kind)(what)


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(
    changes=st.sampled_from(POLICY_CHANGES),
    inner=st.sampled_from([1, 2, 100]),
    speaks=st.booleans(),
    sessions=st.lists(st.lists(MOVES, max_size=9), min_size=1, max_size=2),
    killed=st.none() | st.integers(2, 60),
)
async def test_a_record_replays_the_same_whatever_the_policy_and_however_the_loop_ended(
    name: str, changes: dict[str, Any], inner: int, speaks: bool, sessions: list[Any], killed: int | None
) -> None:
    policy = replace(POLICIES[name], max_inner_steps=inner)
    policy = replace(policy, limits=replace(policy.limits, **changes))
    with TemporaryDirectory() as folder:
        record, clock, calls = Path(folder) / "r.jsonl", FakeClock(), 0
        for moves in sessions:
            with Follower(
                policy,
                completion=("finish_task",),
                question=("ask_user",),
                tools=TOOLS,
                speaks=speaks,
                closes=True,
                record=record,
                session_id="s",
                clock=clock,
            ) as follower:
                follower.prompt("Set the port")
                loop = Loop(follower, clock, calls)
                for move in moves:
                    await loop.move(*move)
                calls = loop.calls
        lines = record.read_bytes().splitlines(keepends=True)
        if killed is not None:
            record.write_bytes(b"".join(lines[: max(2, min(killed, len(lines)))]))
        report = await replay(record)
        assert [run.divergence for run in report.runs] == [None] * len(report.runs)


def follow(record: Path, steps: int, policy: Policy | str = "agent") -> None:
    with Follower(policy, completion=("finish_task",), record=record, session_id="s") as follower:
        follower.prompt("Set the port")
        for number in range(steps):
            call = ToolCall(f"c{number}", "look", f'{{"n": {number}}}')
            follower.step(calls=[call], results=[ToolResult(call.id, call.name, f"port {number}")])


def change(record: Path, kind: str, **fields: Any) -> None:
    """Change the events of one type in a record."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        if line["type"] == kind:
            line |= {name: line[name] | value if isinstance(value, dict) else value for name, value in fields.items()}
    record.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


async def test_what_the_policy_decided_is_decided_anew(tmp_path: Path) -> None:
    follow(tmp_path / "r.jsonl", 3, replace(POLICIES["agent"], limits=replace(POLICIES["agent"].limits, steps=3)))
    assert (await replay(tmp_path / "r.jsonl")).same
    change(tmp_path / "r.jsonl", "DECISION_MADE", decision={"reason": "stuck"})
    report = await replay(tmp_path / "r.jsonl")
    assert "the record says stop(stuck), the replay stop(step_limit)" in str(report.runs[0].divergence)


async def test_the_end_that_a_caller_gives_is_the_loops_own_whatever_its_rule_says(tmp_path: Path) -> None:
    seen: list[Any] = []
    with Follower("agent", completion=("finish_task",), on_event=seen.append) as follower:
        follower.prompt("Set the port")
        follower.end(Stop(rule="step_limit", reason="step_limit"))
    (decision,) = (event.decision for event in seen if type(event).__name__ == "DecisionMade")
    assert (decision.rule, decision.reason) == ("followed", "step_limit")


async def test_where_the_loop_went_on_without_asking_the_record_says_so(tmp_path: Path) -> None:
    seen: list[Any] = []
    with Follower("agent", completion=("finish_task",), on_event=seen.append) as follower:
        follower.prompt("Set the port")
        for number in range(2):
            follower.response("", [ToolCall(f"c{number}", "finish_task", "{}")])
    decisions = [event.decision for event in seen if type(event).__name__ == "DecisionMade"]
    assert [decision.rule for decision in decisions] == ["followed", "control_flow"]
    assert decisions[0].why == "the loop went on without asking"


def step(follower: Follower, number: int, result: str = "port", name: str = "look") -> Any:
    call = ToolCall(f"c{number}", name, f'{{"n": {number}}}')
    return follower.step(calls=[call], results=[ToolResult(call.id, call.name, result)])


@pytest.mark.parametrize("given", [None, "s"])
async def test_a_second_follower_goes_on_with_the_session_of_the_record(tmp_path: Path, given: str | None) -> None:
    policy, record = Policy(session_limits=SessionLimits(steps=3)), tmp_path / "r.jsonl"
    with Follower(policy, completion=("finish_task",), record=record, session_id="s") as follower:
        follower.prompt("Set the port")
        assert not isinstance(step(follower, 1), Stop)
        assert not isinstance(step(follower, 2), Stop)
    with Follower(policy, completion=("finish_task",), record=record, session_id=given) as follower:
        assert follower.session_id == "s"
        follower.prompt("And the host")
        assert isinstance(step(follower, 1), Stop)
        assert follower.facts.before.steps == 2
    first, second = read_record(record).runs
    calls = [{event.call_id for event in run.events if isinstance(event, ToolCallStart)} for run in (first, second)]
    assert not calls[0] & calls[1]
    assert (await replay(record)).same


async def test_another_session_in_the_same_record_counts_from_zero(tmp_path: Path) -> None:
    policy = Policy(session_limits=SessionLimits(steps=2))
    for id in ("s", "t", "t"):
        with Follower(policy, completion=("finish_task",), record=tmp_path / "r.jsonl", session_id=id) as follower:
            follower.prompt("Set the port")
            assert not isinstance(step(follower, 1), Stop)
    assert (await replay(tmp_path / "r.jsonl")).same


@pytest.mark.parametrize("spoke", [False, True])
async def test_a_user_who_spoke_before_the_loop_asked_is_heard_in_the_replay_too(tmp_path: Path, spoke: bool) -> None:
    stagnation = Stagnation(nudge_at=2, stop_at=3, after_nudge=0, least_steps=0)
    policy = Policy(repetition=Repetition(nudge_at=(2,)), stagnation=stagnation)
    with Follower(policy, completion=("finish_task",), record=tmp_path / "r.jsonl") as follower:
        follower.prompt("Set the port")
        for number in range(2):
            call = ToolCall(f"c{number}", "look", "{}")
            follower.response("", [call])
            follower.result(ToolResult(call.id, "look", "Error: no such file", "error"))
            if spoke and number == 1:
                follower.prompt("Try the other file")
            decision = follower.decide()
        assert isinstance(decision, Stop) is not spoke
        step(follower, 3)
    report = await replay(tmp_path / "r.jsonl")
    assert report.same


async def test_a_later_attempt_of_another_model_costs_what_it_did(tmp_path: Path) -> None:
    policy = Policy(limits=Limits(cost_usd=0.01))
    with Follower(policy, completion=("finish_task",), record=tmp_path / "r.jsonl", model="gpt-4o") as follower:
        follower.prompt("Set the port")
        follower.failed("reset")
        call = ToolCall("c1", "look", "{}")
        usage = Usage(input_tokens=90_000)
        follower.step("", [call], [ToolResult("c1", "look", "8080")], usage=usage, model="one without a price")
        assert follower.running
        step(follower, 2)
    assert (await replay(tmp_path / "r.jsonl")).same


async def test_a_request_that_timed_out_counts_its_input(tmp_path: Path) -> None:
    with Follower(Policy(limits=Limits(input_tokens=20)), record=tmp_path / "r.jsonl", model="m") as follower:
        follower.requested(100)
        follower.prompt("Set the port")
        follower.failed("no response", kind="timeout")
        assert follower.facts.usage.input_tokens == 100
        assert isinstance(step(follower, 1), Stop)
    assert (await replay(tmp_path / "r.jsonl")).same


async def test_a_question_at_which_the_policy_does_not_pause_is_answered_as_not_answered(tmp_path: Path) -> None:
    policy = Policy(rules=("finish_reason", "message_shape", "go_on"))
    with Follower(policy, question=("ask_user",), record=tmp_path / "r.jsonl") as follower:
        follower.prompt("Set the port")
        follower.step("", [ToolCall("q", "ask_user", '{"question": "Which?"}')])
        step(follower, 1)
    results = [e for e in read_record(tmp_path / "r.jsonl").runs[0].events if isinstance(e, ToolCallResult)]
    assert [(result.call_id, result.status) for result in results] == [("q", "unanswered"), ("c1", "ok")]
    assert (await replay(tmp_path / "r.jsonl")).same


FIRST, SECOND = "\ud83d", "\ude00"


async def test_halves_of_characters_are_joined_across_deltas_and_one_alone_is_replaced(tmp_path: Path) -> None:
    with Follower("agent", completion=("finish_task",), record=tmp_path / "r.jsonl") as follower:
        follower.prompt(f"half {FIRST}")
        for delta in (
            TextDelta(f"a{FIRST}"),
            ToolCallDelta(0, "c1", f"look{SECOND}", f'{{"a": "{FIRST}'),
            TextDelta(f"{SECOND}b"),
            ToolCallDelta(1, "c2", "look", '{"a": 1}'),
            ToolCallDelta(0, arguments=f'{SECOND}"}}'),
            TextDelta(f"z{FIRST}"),
        ):
            follower.chunk(delta)
        response = follower.response()
        assert response is not None
        assert response.message.text == "a\U0001f600bz\ufffd"
        assert [call.name for call in response.message.calls] == ["look\ufffd", "look"]
        assert response.message.calls[0].arguments == '{"a": "\U0001f600"}'
        follower.result(ToolResult("c1", "look", f"{FIRST}{SECOND}{FIRST}"))
        follower.decide()
        follower.failed(f"reset {SECOND}")
        follower.step(f"Done {FIRST}")
    report = await replay(tmp_path / "r.jsonl")
    assert report.same
    assert [run.difference for run in report.runs] == [None]
