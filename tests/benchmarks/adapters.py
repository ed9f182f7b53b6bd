"""Agents of other frameworks before a model that never stops: as they are, with the adapter, and with the proxy.

And the decisions of each adapter on recorded sessions, beside those of a follower that is told the same.

    python tests/benchmarks/adapters.py                     the table, for the frameworks that are installed here
    python tests/benchmarks/adapters.py sessions FOLDER     records of sessions, played once more in each framework

Each framework is in an environment of its own: `make bench-adapters` calls this in each.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from endstop import read_record  # noqa: E402
from endstop.decision import Decision, GoOn, Stop, ToolCall, ToolResult, ToolSpec, Usage  # noqa: E402
from endstop.decision.decisions import made_by_policy  # noqa: E402
from endstop.decision.events import DecisionMade, ResponseFinished, StepFinished, ToolCallResult  # noqa: E402
from endstop.follow import Follower  # noqa: E402
from endstop.records.reader import RecordedRun  # noqa: E402

from tests.engine.adapters import loops  # noqa: E402
from tests.engine.adapters.endless_model import LAST_TEXT, EndlessModel, ScriptedModel, serving  # noqa: E402
from tests.engine.adapters.frameworks import FRAMEWORKS  # noqa: E402
from tests.engine.adapters.proxied import proxied  # noqa: E402

MOST = 12
"""Requests after which each framework is told to give up."""
PAUSE = 0.001
"""Seconds between two chunks after a completion: a model is not faster, and what a socket buffers is not counted."""
PAGE, END = ROOT / "docs" / "guides" / "adapters.md", "<!-- end of the table -->"
CUT_BY_PROXY = ("claude_agent_sdk",)
"""Frameworks whose adapter cannot cut a stream, and is used together with the proxy."""
PROXIED = ("finish_task", "mcp__mine__finish_task")
"""Completions, as the proxy is told them: Claude Code puts the server's name before that of a tool."""
ALWAYS_STREAM = ("claude_agent_sdk", "strands")
"""Frameworks that ask their model for streams, however an agent is run."""
SETUPS: dict[str, dict[str, bool]] = {
    "as it is": {},
    "with the adapter": {"adapter": True},
    "with the proxy": {"proxy": True},
    "with both": {"adapter": True, "proxy": True},
}
COMPLETIONS = ("finish_task", "attempt_completion", "task_done", "submit", "transfer_to_human_agents")


def installed() -> Iterator[str]:
    """The frameworks that are installed here; of those, which FRAMEWORKS names, if it is set."""
    wanted = os.environ.get("FRAMEWORKS", "").split()
    for framework in loops.PACKAGES:
        if wanted and framework not in wanted:
            continue
        try:
            loops.version(framework)
            import_module(FRAMEWORKS[framework].packages[0])
        except (ImportError, loops.metadata.PackageNotFoundError):
            continue
        yield framework


# ---- the table


def measure(framework: str, name: str, *, adapter: bool = False, proxy: bool = False, stream: bool) -> str:
    """One agent: its requests, the chunks after the completion, and how it ended. stream: whether it is a stream."""
    made = import_module(f"endstop.adapters.{framework}").Endstop(completion=("finish_task",)) if adapter else None
    tools = dict.fromkeys(("work", "finish_task"), lambda call_id, arguments: ("ok", False))
    with serving(EndlessModel(PAUSE)) as model, proxied(model.url, PROXIED) if proxy else _itself(model.url) as url:
        ended = loops.run(framework, loops.Play(url, name, tools, "go", MOST, stream), made)
        requests, chunks = len(model.requests), model.chunks_after
    ended = re.sub(r"(gave the same result \d+ times).*(The task may)", r"\1 ... \2", ended)
    return f"{requests} | {chunks} | {ended}" if name == "finisher" else f"{requests} | {ended}"


@contextmanager
def _itself(url: str) -> Iterator[str]:
    yield url


def table() -> None:
    """Measure each framework, and write its rows into the page in place of the ones that are there."""
    for framework in installed():
        name = loops.version(framework)
        rows = []
        streams = (True,) if framework in ALWAYS_STREAM else (False, True)
        for stream, (what, options) in product(streams, SETUPS.items()):
            if what == "with both" and framework not in CUT_BY_PROXY:
                continue
            completes, circles = (measure(framework, one, stream=stream, **options) for one in ("finisher", "circle"))
            rows.append(f"| {name} | {'streamed' if stream else 'whole'} | {what} | {completes} | {circles} |")
            print(rows[-1], flush=True)
        package = loops.PACKAGES[framework]
        lines = PAGE.read_text(encoding="utf-8").splitlines()
        lines = [line for line in lines if not line.startswith(f"| {package} ")]
        end = lines.index(END)
        PAGE.write_text("\n".join([*lines[:end], *rows, *lines[end:], ""]), encoding="utf-8")


# ---- recorded sessions


def script_of(run: RecordedRun) -> list[tuple[str, list[ToolCall], dict[str, ToolResult]]]:
    """The responses of a run: text, calls, and their results by id. A result may come before its response has ended."""
    results = {one.call_id: _result(one) for one in run.events if isinstance(one, ToolCallResult)}
    messages = [one.message for one in run.events if isinstance(one, ResponseFinished)]
    return [
        (message.text, list(message.calls), {call.id: results[call.id] for call in message.calls if call.id in results})
        for message in messages
    ]


def _result(event: ToolCallResult) -> ToolResult:
    failed = event.status not in ("ok", "skipped", "unknown")
    return ToolResult(event.call_id, event.name, event.content, "error" if failed else "ok")


def tools_of(run: RecordedRun, completion: tuple[str, ...]) -> list[ToolSpec]:
    """The tools that a run calls, as an agent offers them in the frameworks."""
    names = {call.name for _, calls, _ in script_of(run) for call in calls} | set(completion)
    return [ToolSpec(name=name, description=name, parameters=loops.SCHEMA) for name in sorted(names)]


def by_follower(run: RecordedRun, completion: tuple[str, ...]) -> list[str]:
    """The decisions of a follower that is told the responses, one after the other."""
    heard: list[Any] = []
    with Follower("agent", completion=completion, tools=tools_of(run, completion), on_event=heard.append) as follower:
        follower.prompt(run.started.prompt or "go")
        for text, calls, results in [*script_of(run), *[(LAST_TEXT, [], {})] * 50]:
            given = [results.get(call.id, ToolResult(call.id, call.name, "")) for call in calls]
            usage = Usage(input_tokens=100, output_tokens=10)
            decision = follower.step(text, calls, given, usage=usage, finish="tool_calls" if calls else "stop")
            if not isinstance(decision, GoOn) or not (calls or decision.say):
                break
    return decisions_in(heard)


def by_adapter(framework: str, run: RecordedRun, completion: tuple[str, ...]) -> list[str]:
    """The decisions that the adapter came to, where the framework's agent asks a model that replies as recorded."""
    script = script_of(run)
    results = {id: result for _, _, found in script for id, result in found.items()}

    def answer(id: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = results.get(id, ToolResult(id, "", ""))
        return result.content, result.status == "error"

    events: list[Any] = []
    endstop = import_module(f"endstop.adapters.{framework}").Endstop(
        "agent", completion=completion, on_event=events.append
    )
    with serving(ScriptedModel()) as model:
        assert isinstance(model, ScriptedModel)
        model.scripts["recorded"] = [
            (text, [(call.id, call.name, call.arguments) for call in calls]) for text, calls, _ in script
        ]
        tools = dict.fromkeys((tool.name for tool in tools_of(run, completion)), answer)
        loops.run(framework, loops.Play(model.url, "recorded", tools, run.started.prompt or "go", 300), endstop)
        endstop.runs.close()
    return decisions_in(events)


def decisions_in(events: list[Any]) -> list[str]:
    """What a loop acts on, in order, each with the step after which it was decided."""
    found, step = [], 0
    for event in events:
        match event:
            case StepFinished():
                step = event.step
            case DecisionMade() if made_by_policy(event.decision):
                found.append(f"{step}: {essence(event.decision)}")
            case _:
                pass
    return found


def essence(decision: Decision) -> str:
    """A decision as far as a loop acts on it."""
    if isinstance(decision, GoOn):
        return f"go on, say {decision.say[:60]!r}, remind {decision.remind[:60]!r}"
    return f"stop, {decision.reason}, {decision.detail}" if isinstance(decision, Stop) else "pause"


def sessions(folder: Path) -> None:
    """Print for each framework how many sessions were decided alike, and the first difference of each other one."""
    records = {path.stem: read_record(path) for path in sorted(folder.glob("*.jsonl"))}
    for framework in installed():
        equal, runs, stops, different = 0, 0, Counter[str](), []
        for name, record in records.items():
            differs = ""
            for run in record.runs:
                offered = tuple(tool.name for tool in run.started.tools if tool.kind == "completion")
                expected = by_follower(run, offered or COMPLETIONS)
                got = by_adapter(framework, run, offered or COMPLETIONS)
                runs += 1
                stops[expected[-1].split(", ")[1] if "stop" in expected[-1] else "none"] += 1
                if expected != got and not differs:
                    first = next((pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]), None)
                    differs = f"{name}: {first or (expected[len(got) :][:1], got[len(expected) :][:1])}"
            equal += not differs
            different += [differs] if differs else []
        print(f"{loops.version(framework)}: {equal} of {len(records)} sessions ({runs} runs) alike; ends {dict(stops)}")
        print("".join(f"    {one}\n" for one in different[:20]), end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["sessions"]:
        sessions(Path(sys.argv[2]))
    else:
        table()
