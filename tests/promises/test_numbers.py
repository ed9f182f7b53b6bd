"""Numbers that a provider says: none lowers a sum, and whatever is recorded can be read by every command."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from endstop import Budget, Engine, Limits, tool
from endstop.decision import POLICIES, Price
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses, Prices
from endstop.proxy.statistics_page import Statistics, metrics
from msgspec.structs import replace

from ..console import endstop, started
from ..providers.endpoint import Endpoint, Reply

RUNS, STEPS = 10, 5
"""Runs on each of four wires, and requests of each: 200 reports in all."""
PARTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd")
ODD = (
    *("-1", "-1000000", "-5e300", "0", "7", "7.0", "12.5", "1e308", "1e-300", "9007199254740992", "9007199254740993"),
    *("18446744073709551616", "9" * 400, "9" * 4400, "-" + "9" * 400, "1e400", "NaN", "Infinity", "-Infinity"),
    *("null", "true", "false", '""', '"many"', '"12"', '"-3"', "[]", "[5]", "{}", '{"tokens":5}', "MISSING"),
)
"""What stands in place of a number, as JSON or nearly so; MISSING: nothing."""


@tool(reads=True)
async def look(n: int) -> str:
    "Look at a place."
    return f"place {n}"


def _object(random: Random, *names: str, **nested: str) -> str:
    """A JSON object of these names with odd values, and of others that are given."""
    members = [f'"{name}":{value}' for name in names if (value := random.choice(ODD)) != "MISSING"]
    members += [f'"{name}":{value}' for name, value in nested.items()]
    return f"{{{','.join(members)}}}"


def _chat(random: Random, n: int) -> bytes:
    function = {"name": "look", "arguments": json.dumps({"n": n})}
    call = {"index": 0, "id": f"c{n}", "type": "function", "function": function}
    usage = _object(
        random,
        *("prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens", "cost"),
        prompt_tokens_details=_object(random, "cached_tokens"),
        completion_tokens_details=random.choice([_object(random, "reasoning_tokens"), "7", "null", "[]"]),
    )
    choice = '{"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'
    events = [choice % (json.dumps({"tool_calls": [call]}), "null"), choice % ("{}", '"tool_calls"')]
    said = random.choice([usage, usage, usage, "null", "5", "[]"])
    return _sse([*events, f'{{"choices":[],"usage":{said}}}', "[DONE]"])


def _anthropic(random: Random, n: int) -> bytes:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    call = json.dumps({"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"n": n}})
    return _sse(
        [
            f'{{"type":"message_start","message":{{"id":"m","usage":{_object(random, *names)}}}}}',
            f'{{"type":"content_block_start","index":0,"content_block":{call}}}',
            '{"type":"content_block_stop","index":0}',
            f'{{"type":"message_delta","delta":{{"stop_reason":"tool_use"}},"usage":{_object(random, *names)}}}',
            '{"type":"message_stop"}',
        ]
    )


def _gemini(random: Random, n: int) -> bytes:
    part = json.dumps({"functionCall": {"name": "look", "args": {"n": n}}})
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
    usage = _object(random, *names, "totalTokenCount", "toolUsePromptTokenCount")
    candidate = f'{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}'
    return _sse([f'{{"candidates":[{candidate}],"usageMetadata":{usage}}}'])


def _responses(random: Random, n: int) -> bytes:
    call = {"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": json.dumps({"n": n})}
    item = json.dumps({**call, "id": f"i{n}", "status": "completed"})
    usage = _object(
        random,
        *("input_tokens", "output_tokens", "total_tokens", "cost"),
        input_tokens_details=_object(random, "cached_tokens"),
        output_tokens_details=_object(random, "reasoning_tokens"),
    )
    end = f'{{"status":"completed","output":[{item}],"usage":{usage}}}'
    return _sse(
        [
            f'{{"type":"response.output_item.done","output_index":0,"item":{item}}}',
            f'{{"type":"response.completed","response":{end}}}',
        ]
    )


def _sse(events: list[str]) -> bytes:
    return b"".join(b"data: " + event.encode() + b"\n\n" for event in events)


WIRES: dict[str, tuple[Any, Any]] = {
    "chat": (lambda url: OpenAICompatible("m", f"{url}", api_key="k"), _chat),
    "anthropic": (lambda url: Anthropic("m", api_base=url, api_key="k"), _anthropic),
    "gemini": (lambda url: Gemini("m", api_base=url, api_key="k"), _gemini),
    "responses": (lambda url: OpenAIResponses("m", api_base=url, api_key="k"), _responses),
}


class Sums:
    """Sums that are looked at with each event, of which none may ever be lower than before."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._statistics = Statistics()
        self._before: dict[str, float] = {}

    def look(self, event: Any, facts: Any) -> None:
        """Compare the sums after an event with those before it."""
        if type(event).__name__ == "ResponseFinished":
            self._statistics.count_usage(event.usage)
        lines = [line for line in metrics(self._statistics, 0, 0).splitlines() if "_total " in line and line[0] != "#"]
        now = {f"budget {name}": getattr(self._budget.spent, name) or 0 for name in PARTS}
        now |= {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
        now |= {f"{facts.run_id} {name}": getattr(facts.usage, name) or 0 for name in PARTS}
        for name, value in now.items():
            assert value >= self._before.get(name, 0), f"{name} fell from {self._before[name]} to {value}"
        self._before |= now


async def _record_runs(wire: str, folder: Path) -> None:
    """Make the runs of a wire, each into a record of its own, and look at all sums with each event."""
    make, says = WIRES[wire]
    random, budget = Random(wire), Budget(input_tokens=2**62, output_tokens=2**62, cost_usd=1e18)
    sums = Sums(budget)
    policy = replace(POLICIES["agent"], limits=Limits(steps=STEPS, cost_usd=1e18), closing=False)
    for number in range(RUNS):
        replies = [Reply(pieces=[says(random, n)]) for n in range(STEPS)]
        async with Endpoint(*replies) as endpoint:
            prices = Prices({"m": Price(input=1, output=2)})
            engine = Engine(make(endpoint.url), tools=[look], policy=policy, budget=budget, prices=prices)
            async with engine.start("hi", record=folder / f"{wire}-{number}.jsonl") as run:
                async for event in run:
                    sums.look(event, run.facts)
            assert run.outcome.stop_reason == "step_limit", run.outcome.detail
            assert run.outcome.usage.input_tokens > 0


@pytest.mark.parametrize("wire", WIRES)
async def test_C8_no_report_lowers_a_budget_a_limit_or_a_metric_and_every_command_reads_the_record(
    wire: str, tmp_path: Path
) -> None:
    await _record_runs(wire, tmp_path)
    records = sorted(tmp_path.glob("*.jsonl"))
    assert len(records) == RUNS
    for command in (("report", "--no-index", "--json"), ("backtest", "--policy", "strict", "--json")):
        done = await endstop(command[0], tmp_path, *command[1:])
        assert (done.code, done.json["bad"]) == (0, []), done.err
    for record in records:
        commands: list[tuple[object, ...]] = [("audit", record, "--json"), ("replay", record)]
        out = record.with_suffix("")
        commands += [("export", kind, record, "-o", f"{out}.{kind}") for kind in ("html", "openai", "atif", "otlp")]
        for words in commands:
            done = await endstop(*words)
            assert done.code == 0, (words, done.err)


async def test_C8_one_bad_record_is_named_and_the_others_are_reported(tmp_path: Path) -> None:
    await _record_runs("chat", tmp_path)
    good = sorted(tmp_path.glob("*.jsonl"))[0].read_text()
    impossible = str(2**70)
    (tmp_path / "bad.jsonl").write_text(good.replace(f'"steps":{STEPS}', f'"steps":{impossible}'))
    (tmp_path / "torn.jsonl").write_text(
        re.sub(r'(PARTS","seq":\d+)(,"t":\d+)?', rf'\1,"t":{impossible}', good, count=1)
    )
    report = (await endstop("report", tmp_path, "--no-index", "--json")).json
    assert report["sessions"] >= RUNS
    assert [Path(one["record"]).name for one in report["bad"]] == ["bad.jsonl"], report["bad"]
    tested = (await endstop("backtest", tmp_path, "--policy", "strict", "--json")).json
    assert tested["sessions"] >= RUNS
    async with started("view", tmp_path, "--port", "0", "--no-index") as viewer:
        assert viewer.stdout is not None
        async with asyncio.timeout(60), aiohttp.ClientSession() as client:
            url = ""
            while not url.startswith("http"):
                url = next(
                    (word for word in (await viewer.stdout.readline()).decode().split() if "http://" in word), ""
                )
            text = ""
            while "bad.jsonl" not in text:  # until it has read all files
                async with client.get(f"{url.rstrip('/')}/report") as reply:
                    assert reply.status == 200
                    text = await reply.text()
