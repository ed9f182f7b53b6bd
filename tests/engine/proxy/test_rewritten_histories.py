"""An agent's run is found again whatever the agent has made of its history, and its record replays the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import POLICIES, AssistantMessage, GoOn, Stop, ToolCall
from endstop.decision.events import (
    ContextCompacted,
    DecisionMade,
    MessageAdded,
    ResponseFinished,
    RunStarted,
    ToolCallResult,
)
from endstop.follow import Follower
from endstop.proxy.agent_runs import RECENT_SECONDS, AgentRun, AgentRuns
from endstop.proxy.anthropic_wire import ANTHROPIC
from endstop.proxy.chat_wire import CHAT
from endstop.proxy.offered_completion import lacks_completion
from endstop.proxy.responses_wire import RESPONSES
from endstop.proxy.wire import ProxyWire
from endstop.replay import replay
from endstop.testing import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

Items = list[dict[str, Any]]
Rewrite = Callable[[Items], Items]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "write")]
SUMMARY = "The port is set in the file config.toml, and the tests in tests/test_port.py still fail with a timeout."


class Proxied:
    """The runs of a proxy, with their records in a folder, and a provider that says what a test tells it to."""

    def __init__(self, folder: Path, *, inner: int = 100, wire: ProxyWire = CHAT) -> None:
        self.wire = wire
        self.folder, self.clock = folder, FakeClock()
        self.policy = replace(POLICIES["agent"], max_inner_steps=inner)
        self.runs = AgentRuns(self._open, self.clock.now)
        self._numbers = count(1)

    def _open(self, agent: str) -> Follower:
        record = self.folder / f"{next(self._numbers)}.jsonl"
        return Follower(self.policy, completion=("finish_task",), speaks=False, record=record, clock=self.clock)

    def ask(self, items: Items, said: AssistantMessage | None, **fields: Any) -> tuple[AgentRun, Stop | None]:
        """Make a request, and get this response if it is passed on; None if it fails."""
        request = self.wire.read({"model": "m", self.wire.items: items, "tools": TOOLS, **fields})
        run, place = self.runs.find(request, "", "agent")
        stop = run.take(request, place)
        if stop is not None:
            return run, stop
        run.answered = False
        if said is None:
            run.follower.failed("reset")
        else:
            response = run.follower.response(said.text, said.calls)
            assert response is not None
            run.hear(response.message)
            if not response.message.calls:
                run.follower.decide()
        self.runs.note_response(run, request)
        return run, None

    def close(self) -> None:
        self.runs.close()

    def events(self, kind: type) -> list[Any]:
        """All events of this type, in all records."""
        return [e for path in sorted(self.folder.glob("*")) for run in read_record(path).runs for e in run.events
                if isinstance(e, kind)]  # fmt: skip

    async def replayed(self) -> list[str]:
        """What is not the same in the replays of all records."""
        reports = [await replay(path) for path in sorted(self.folder.glob("*"))]
        return [str(run.divergence) for report in reports for run in report.runs if run.divergence is not None]


class Agent:
    """An agent that resends its history, after it has rewritten it."""

    def __init__(
        self, proxied: Proxied, prompt: str = "Set the port", rewrite: Callable[[Items], Items] = list
    ) -> None:
        self.proxied, self.rewrite = proxied, rewrite
        self.items: Items = [{"role": "system", "content": "You work."}, {"role": "user", "content": prompt}]
        self.runs: list[AgentRun] = []
        self.stop: Stop | None = None

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def ask(self, said: AssistantMessage | None) -> None:
        run, self.stop = self.proxied.ask(self.rewrite(self.items), said)
        self.runs.append(run)
        if said is not None and self.stop is None:
            self.items.append(item_of(said))

    def work(self, *calls: ToolCall, text: str = "So:", result: str = "done") -> None:
        """Make a step with these calls, and run them."""
        self.ask(AssistantMessage(text, calls))
        if self.stop is None:
            self.items += (
                {"role": "tool", "tool_call_id": call.id, "content": f"{result} {call.id}"} for call in calls
            )


def item_of(said: AssistantMessage) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in said.calls
    ]
    return {"role": "assistant", "content": said.text, **({"tool_calls": calls} if calls else {})}


def call(number: int, id: str = "call_ab{}xyz", name: str = "look") -> ToolCall:
    return ToolCall(id.format(number), name, json.dumps({"file": f"f{number}", "all": True}))


# ---- how agents rewrite


def as_text(items: Items) -> Items:
    """The history as smolagents sends it."""
    texts: Items = []
    for item in items:
        if item["role"] == "tool":
            if texts[-1]["role"] == "user":
                texts[-1]["content"][0]["text"] += "\n" + item["content"]
                continue
            role, text = "user", f"Observation:\n{item['content']}"
        else:
            role, text = item["role"], item["content"]
            if calls := item.get("tool_calls"):
                decoded = [one | {"function": one["function"] | {"arguments": arguments_of(one)}} for one in calls]
                text = f"{text}\nCalling tools:\n{decoded}"
        texts.append({"role": role, "content": [{"type": "text", "text": text}]})
    return texts


def arguments_of(call: dict[str, Any]) -> dict[str, Any]:
    return json.loads(call["function"]["arguments"])


def merged(items: Items) -> Items:
    """All responses in one message, with all results behind it, as Mastra sends them."""
    made = [item for item in items if item["role"] == "assistant"]
    if not made:
        return items
    calls = [one for item in made for one in item.get("tool_calls", [])]
    text = "\n".join(item["content"] for item in made)
    one = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return [*items[:2], one, *(item for item in items[2:] if item["role"] != "assistant")]


def each(change: Callable[[int, dict[str, Any]], dict[str, Any] | None]) -> Rewrite:
    def rewrite(items: Items) -> Items:
        changed = (change(len(items) - place, dict(item)) for place, item in enumerate(items))
        return [item for item in changed if item is not None]

    return rewrite


def encoded_anew(item: dict[str, Any]) -> dict[str, Any]:
    def anew(one: dict[str, Any]) -> dict[str, Any]:
        encoded = json.dumps(dict(reversed(arguments_of(one).items())), indent=2)
        return one | {"function": one["function"] | {"arguments": encoded}}

    return item | ({"tool_calls": [anew(one) for one in item["tool_calls"]]} if "tool_calls" in item else {})


def other_ids(item: dict[str, Any]) -> dict[str, Any]:
    if "tool_calls" in item:
        return item | {"tool_calls": [one | {"id": f"t{one['id'][5:8]}"} for one in item["tool_calls"]]}
    return item | ({"tool_call_id": f"t{item['tool_call_id'][5:8]}"} if item["role"] == "tool" else {})


REWRITES: dict[str, Rewrite] = {
    "as it is": list,
    "text": as_text,
    "merged": merged,
    "old results shortened": each(lambda left, item: item | {"content": "[cut]"} if item["role"] == "tool" and left > 3
                                  else item),
    "old results dropped": each(lambda left, item: None if item["role"] == "tool" and left > 4 else item),
    "marks": each(lambda left, item: item | ({"cache_control": {"type": "ephemeral"}, "id": f"m{left}"})),
    "parts": each(lambda left, item: item | {"content": [{"type": "text", "text": item["content"]}]}),
    "another system prompt": each(lambda left, item: item | {"content": f"It is {left}"} if item["role"] == "system"
                                  else item),
    "arguments anew": each(lambda left, item: encoded_anew(item)),
    "other ids": each(lambda left, item: other_ids(item)),
    "no texts beside calls": each(lambda left, item: item | {"content": None} if "tool_calls" in item else item),
    "the prompt with a time": each(lambda left, item: item | {"content": f"{item['content']}\nTime: {left}"}
                                   if item["content"] == "Set the port" else item),
    "the oldest dropped": lambda items: [*items[:2], *items[-6:]] if len(items) > 8 else items,
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITES)
async def test_one_conversation_is_one_run_with_each_step_and_result_once(name: str, tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied, rewrite=REWRITES[name])
    for number in range(6):
        agent.work(call(number), call(number + 100, name="write"), text=f"Step {number}.")
    agent.ask(AssistantMessage("The port is set."))
    proxied.close()
    assert len(set(agent.runs)) == 1
    assert len(proxied.events(RunStarted)) == 1
    assert [e.message.text for e in proxied.events(ResponseFinished)] == [
        *(f"Step {number}." for number in range(6)),
        "The port is set.",
    ]
    results = proxied.events(ToolCallResult)
    assert [result.status for result in results] == ["ok"] * 12
    if name != "text":  # there, the results of a step are one text
        assert [result.content for result in results] == [f"done {result.call_id}" for result in results]
    assert await proxied.replayed() == []


def responses_items(*, between: bool) -> Items:
    """A conversation of the Responses API. between: whether each call has its result directly behind it."""
    calls = [{"type": "function_call", "call_id": f"call_{n}x7yz", "name": "look", "arguments": "{}"} for n in (1, 2)]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": "done"} for call in calls]
    both = [calls[0], results[0], calls[1], results[1]] if between else [*calls, *results]
    return [{"role": "user", "content": "Set the port"}, {"type": "reasoning", "summary": []}, *both]


def anthropic_messages(*, apart: bool) -> Items:
    """A conversation of the Messages API. apart: whether each call is a message of its own."""
    calls = [{"type": "tool_use", "id": f"call_{n}x7yz", "name": "look", "input": {}} for n in (1, 2)]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "done"} for call in calls]
    pairs = [([call], [result]) for call, result in zip(calls, results, strict=True)] if apart else [(calls, results)]
    messages = [({"role": "assistant", "content": a}, {"role": "user", "content": b}) for a, b in pairs]
    return [{"role": "user", "content": "Set the port"}, *(one for pair in messages for one in pair)]


@pytest.mark.parametrize(
    ("wire", "items"),
    [
        *((RESPONSES, responses_items(between=between)) for between in (False, True)),
        *((ANTHROPIC, anthropic_messages(apart=apart)) for apart in (False, True)),
    ],
)
async def test_all_results_of_a_response_are_found_wherever_they_stand(
    wire: ProxyWire, items: Items, tmp_path: Path
) -> None:
    proxied = Proxied(tmp_path, wire=wire)
    said = AssistantMessage("", (ToolCall("call_1x7yz", "look", "{}"), ToolCall("call_2x7yz", "look", "{}")))
    first, _ = proxied.ask(items[:1], said)
    second, _ = proxied.ask(items, AssistantMessage("The port is set."))
    proxied.close()
    assert first is second
    assert [result.status for result in proxied.events(ToolCallResult)] == ["ok", "ok"]
    assert await proxied.replayed() == []


async def test_texts_without_calls_are_found_again(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(
        proxied,
        rewrite=each(
            lambda left, item: item | {"content": f" {item['content']}\n"} if item["role"] == "assistant" else item
        ),
    )
    for number in range(4):
        agent.ask(AssistantMessage(f"Answer {number}."))
        agent.say(f"And {number}?")
    proxied.close()
    assert len(set(agent.runs)) == 1
    assert [e.prompt for e in proxied.events(RunStarted)] == ["Set the port", "And 0?", "And 1?", "And 2?"]
    assert await proxied.replayed() == []


async def test_rewritten_texts_are_found_by_the_prompt_for_a_time(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied, rewrite=each(lambda left, item: item | {"content": "[said]"}
                                        if item["role"] == "assistant" else item))  # fmt: skip
    for number in range(3):
        agent.ask(AssistantMessage(f"Answer {number}."))
        agent.say(f"And {number}?")
    assert len(set(agent.runs)) == 1
    await proxied.clock.advance(RECENT_SECONDS + 1)
    agent.ask(AssistantMessage("Answer."))
    proxied.close()
    assert len(set(agent.runs)) == 2


@pytest.mark.parametrize("id", ["call_ab{}xyz", "functions.look:0", "c1", ""])
async def test_agents_that_begin_alike_are_runs_of_their_own(id: str, tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agents = [Agent(proxied) for _ in range(3)]
    for step in range(4):
        for number, agent in enumerate(agents):
            agent.work(call(10 * number + step, id), text=f"Agent {number}.")
    proxied.close()
    assert [len(set(agent.runs)) for agent in agents] == [1, 1, 1]
    assert len({run for agent in agents for run in agent.runs}) == 3
    for path in tmp_path.glob("*"):
        texts = [e.message.text for e in read_record(path).runs[0].events if isinstance(e, ResponseFinished)]
        assert len(texts) == 4
        assert len(set(texts)) == 1
    assert await proxied.replayed() == []


async def test_agents_with_another_prompt_and_counted_ids_are_not_taken_for_each_other(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    first, second = Agent(proxied, "Set the port"), Agent(proxied, "Set the host")
    for number in range(3):
        first.work(call(number, "functions.look:{}"))
        second.work(call(number, "functions.look:{}"))
    assert len({*first.runs}) == len({*second.runs}) == 1
    assert first.runs[0] is not second.runs[0]
    proxied.close()


def circle(agent: Agent) -> None:
    for number in range(12):
        agent.work(replace(call(number), arguments="{}"), result="same")
        agent.items[-1]["content"] = "same"


async def test_a_stop_that_is_tried_again_is_the_same_run_and_the_same_stop(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    circle(agent)
    proxied.close()
    assert agent.stop is not None
    assert len(set(agent.runs)) == 1
    assert len(proxied.events(ResponseFinished)) == 6
    assert await proxied.replayed() == []


async def test_a_request_that_failed_is_tried_again_in_the_same_step(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    for number in range(4):
        agent.ask(None)
        agent.ask(None)
        agent.work(call(number))
    proxied.close()
    assert len(set(agent.runs)) == 1
    assert [result.status for result in proxied.events(ToolCallResult)][:3] == ["ok"] * 3
    assert len(proxied.events(ResponseFinished)) == 4
    assert await proxied.replayed() == []


async def test_a_response_that_the_agent_drops_stays_a_step_whose_calls_nobody_answered(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    agent.work(call(1))
    agent.ask(AssistantMessage("Hm.", (call(2),)))
    del agent.items[-1]
    agent.work(call(3))
    agent.ask(AssistantMessage("The port is set."))
    proxied.close()
    assert len(set(agent.runs)) == 1
    assert [result.status for result in proxied.events(ToolCallResult)] == ["ok", "unknown", "ok"]
    assert await proxied.replayed() == []


async def test_a_request_beside_the_work_is_no_step_of_it(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    agent.work(call(1))
    asked = [*agent.items, {"role": "user", "content": "Write a title for this conversation."}]
    beside, _ = proxied.ask(asked, AssistantMessage("Ports"), tools=[])
    agent.work(call(2))
    proxied.close()
    assert beside not in agent.runs
    assert len(set(agent.runs)) == 1
    assert sorted(len(read_record(path).runs[0].own.events) > 0 for path in tmp_path.glob("*")) == [True, True]
    assert [e.prompt for e in proxied.events(RunStarted)] == ["Set the port", "Write a title for this conversation."]
    assert len(proxied.events(ResponseFinished)) == 3
    assert proxied.events(ToolCallResult)[0].content == f"done {call(1).id}"
    assert await proxied.replayed() == []


CLAUDE = "Your task is to create a detailed summary of the conversation so far."
OWN = "Summarise the conversation for another model."


@pytest.mark.parametrize("kept", [0, 2, 4])
@pytest.mark.parametrize(("prompt", "tools"), [(OWN, []), (CLAUDE, TOOLS)], ids=["without tools", "with tools"])
async def test_a_compaction_goes_on_in_the_same_run_and_is_recorded_as_one(
    prompt: str, tools: Items, kept: int, tmp_path: Path
) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    for number in range(5):
        agent.work(call(number))
    asked = [*agent.items, {"role": "user", "content": prompt}]
    said = f"<analysis>\nI look at all of it.\n</analysis>\n<summary>\n{SUMMARY}\n</summary>"
    proxied.ask(asked, AssistantMessage(said), tools=tools)
    summary = {"role": "user", "content": f"This session is continued. The summary:\n{SUMMARY}"}
    agent.items = [agent.items[0], summary, *(agent.items[-kept:] if kept else [])]
    agent.ask(None)
    for number in range(5, 8):
        agent.work(call(number))
    proxied.close()
    assert len(set(agent.runs)) == 1
    (compacted,) = proxied.events(ContextCompacted)
    assert [message.text for message in compacted.put_first] == [summary["content"]]
    assert compacted.dropped == 11 - kept
    prompts = [e.prompt for e in proxied.events(RunStarted)]
    assert prompts == ["Set the port", prompt]
    assert [result.status for result in proxied.events(ToolCallResult)][:7] == ["ok"] * 7
    assert await proxied.replayed() == []


async def test_a_request_for_a_summary_is_one_although_a_note_of_the_loop_follows(tmp_path: Path) -> None:
    """As of Claude Code 2.1.197, which also asks from the last response but one, and keeps the last."""
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    for number in range(4):
        agent.work(call(number))
    before = list(agent.items)
    agent.work(call(4))
    asked = [*before, {"role": "user", "content": CLAUDE}, reminder(1)]
    proxied.ask(asked, AssistantMessage(SUMMARY), tools=TOOLS)
    summary = {"role": "user", "content": f"This session is being continued.\n{SUMMARY}"}
    agent.items = [summary, *agent.items[-2:]]
    agent.work(call(5))
    proxied.close()
    assert len(set(agent.runs)) == 1
    (compacted,) = proxied.events(ContextCompacted)
    assert [message.text for message in compacted.put_first] == [summary["content"]]
    assert await proxied.replayed() == []


async def test_a_summary_in_the_models_role_is_a_compaction_too(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agent = Agent(proxied)
    for number in range(5):
        agent.work(call(number))
    proxied.ask([*agent.items, {"role": "user", "content": OWN}], AssistantMessage(SUMMARY), tools=[])
    asked, summary = {"role": "user", "content": "What did we do?"}, {"role": "assistant", "content": SUMMARY}
    agent.items = [agent.items[0], asked, summary, {"role": "user", "content": "Go on."}]
    agent.work(call(6))
    agent.work(call(7))
    proxied.close()
    assert len(set(agent.runs)) == 1
    assert len(proxied.events(ContextCompacted)) == 1
    assert [result.status for result in proxied.events(ToolCallResult)][:6] == ["ok"] * 6
    assert await proxied.replayed() == []


async def test_a_prompt_that_quotes_another_agents_answer_is_no_compaction(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    first = Agent(proxied, "Plan it")
    first.ask(AssistantMessage(SUMMARY))
    second = Agent(proxied, f"Do what the plan says:\n{SUMMARY}")
    second.work(call(1))
    proxied.close()
    assert first.runs[0] is not second.runs[0]
    assert proxied.events(ContextCompacted) == []


def reminder(number: int) -> dict[str, Any]:
    """A note that Claude Code puts between results."""
    return {"role": "user", "content": f"<system-reminder>{number}</system-reminder>"}


async def test_a_note_between_results_is_no_decision_of_the_loop(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path, inner=2)
    agent = Agent(proxied)
    for number in range(5):
        agent.work(call(number), call(number + 100))
        agent.items.insert(len(agent.items) - number % 3, reminder(number))
    agent.ask(AssistantMessage("The port is set."))
    proxied.close()
    notes = [e.text for e in proxied.events(MessageAdded) if e.origin == "nudge"]
    assert notes == [f"<system-reminder>{number}</system-reminder>" for number in range(5)]
    decisions = [e.decision for e in proxied.events(DecisionMade)]
    assert not any(isinstance(one, GoOn) and one.rule == "followed" for one in decisions)
    assert [result.status for result in proxied.events(ToolCallResult)] == ["ok"] * 10
    assert await proxied.replayed() == []


# ---- any conversation


MOVES = st.one_of(
    st.tuples(st.just("work"), st.integers(1, 3)),
    st.tuples(st.just("unanswered"), st.integers(1, 2)),
    st.tuples(st.just("answer"), st.sampled_from(["Done.", "I look at it now.", "Which file?"])),
    st.tuples(st.just("note"), st.integers(0, 3)),
    st.tuples(st.just("prompt"), st.sampled_from(["And now?", "Go on."])),
    st.tuples(st.just("fails"), st.integers(1, 2)),
    st.tuples(st.just("again"), st.just(0)),
    st.tuples(st.just("beside"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 90)),
)
ORDERLY = ["as it is", "marks", "parts", "arguments anew", "another system prompt", "merged", "old results shortened"]


@settings(deadline=None)
@given(
    moves=st.lists(st.tuples(st.integers(0, 1), MOVES), max_size=14),
    rewrite=st.sampled_from(ORDERLY),
    inner=st.sampled_from([1, 2, 100]),
    same_prompt=st.booleans(),
)
async def test_any_conversations_are_recorded_once_and_replay_the_same(
    moves: list[tuple[int, tuple[str, int | str]]], rewrite: str, inner: int, same_prompt: bool
) -> None:
    with TemporaryDirectory() as folder:
        proxied = Proxied(Path(folder), inner=inner)
        agents = [Agent(proxied, "Set the port" if same_prompt else f"Set {n}", REWRITES[rewrite]) for n in (1, 2)]
        made: Counter[str] = Counter()
        numbers = count(1)
        if same_prompt:  # until they have a response, nobody can tell them apart
            for number, agent in enumerate(agents):
                agent.work(call(9_000 + number), text=f"Began {number}.")
                made[f"Began {number}."] += 1
        for who, (kind, what) in moves:
            await move(agents[who], kind, what, numbers, made)
        proxied.close()
        assert Counter(e.message.text for e in proxied.events(ResponseFinished)) == made
        for agent in agents:
            assert len(set(agent.runs)) <= 1
        assert not set(agents[0].runs) & set(agents[1].runs)
        assert await proxied.replayed() == []


async def move(agent: Agent, kind: str, what: Any, numbers: Any, made: Counter[str]) -> None:
    number = next(numbers)
    text, calls = (
        f"Said {number}.",
        [call(10 * number + place) for place in range(what if isinstance(what, int) else 0)],
    )
    before = len(agent.items)
    match kind:
        case "work":
            agent.work(*calls, text=text)
        case "unanswered" if len(agent.items) > 2 and agent.stop is None and agent.items[2]["role"] == "assistant":
            agent.ask(AssistantMessage(text, tuple(calls)))
            if agent.stop is None:
                agent.items.pop()
                made[text] += 1
            return
        case "answer":
            text = f"{what} {number}"
            agent.ask(AssistantMessage(text))
        case "note":
            results = sum(item["role"] == "tool" for item in agent.items[-3:])
            agent.items.insert(len(agent.items) - min(what, results), reminder(number))
        case "prompt":
            agent.say(f"{what} {number}")
        case "fails":
            for _ in range(what):
                agent.ask(None)
        case "again":
            agent.ask(None)
            agent.ask(AssistantMessage(text))
        case "beside" if len(agent.items) > 2 and agent.items[2]["role"] == "assistant":
            asked = [*agent.rewrite(agent.items), {"role": "user", "content": f"A title {number}."}]
            run, stop = agent.proxied.ask(asked, AssistantMessage(text), tools=[])
            assert run not in agent.runs
            made[text] += stop is None
            return
        case "wait":
            await agent.proxied.clock.advance(what)
    if kind in ("work", "answer", "again") and len(agent.items) > before:
        made[text] += 1


def test_what_an_agent_says_in_the_models_name_is_no_response(tmp_path: Path) -> None:
    proxied = Proxied(tmp_path)
    agents = [Agent(proxied, prompt) for prompt in ("Set the port", "Set the host")]
    for agent in agents:
        note = {"role": "user", "content": "This is the Qwen Code. We are setting up the context for our chat."}
        reply = {"role": "assistant", "content": "Got it. Thanks for the context!"}
        agent.items[1:1] = [note, reply]
        request = CHAT.read({"model": "m", "messages": agent.items, "tools": TOOLS})
        assert lacks_completion(request, ())
    for number in range(2):
        for agent in agents:
            agent.work(call(number))
    proxied.close()
    assert [len(set(agent.runs)) for agent in agents] == [1, 1]
    assert [one.prompt for one in proxied.events(RunStarted)] == ["Set the port", "Set the host"]
