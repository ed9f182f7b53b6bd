"""The port change (A1) and the five scenes (B6) with a real model, before and after; prints the table.

    python tests/real_model/before_after.py http://127.0.0.1:PORT/v1 [--only A1-before,B6-agent]

"Before" is the policy of ask_again.py, with 30 steps for A1 and 10 for each scene; "after" is the policy `agent` as
shipped. Records lie in /tmp/endstop-before-after.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tasks
from ask_again import ASK_AGAIN, before
from endstop import Engine, Hooks, Tool, read_record, tool
from endstop.decision import Policy, SystemMessage
from endstop.hooks import Answer, Progress, PromptHandler
from endstop.providers import OpenAICompatible
from endstop.tools import finish_task, workspace_tools
from run_tasks import counted

PLACE = Path("/tmp/endstop-before-after")
COLUMNS = ("task", "policy", "steps", "messages so far", "tokens in/out", "seconds", "last stop reason")
PORT = ("Set the port to 8080",)
SCENES = (
    "Load the document report.txt.",
    "What does it say about sales?",
    "What is the capital of France?",
    "Which skill draws a chart?",
    "hello",
)


@tool(reads=True)
async def load_document(name: str) -> str:
    """Load a document.

    Args:
        name: The document's name.

    """
    return "Report. Sales grew by four percent. Costs stayed the same."


@tool(reads=True)
async def find_skill(topic: str) -> str:
    """Find a skill by what it does.

    Args:
        topic: What the skill should do.

    """
    return "plot: draws a chart"


def greet(prompt: str, run: Progress) -> Answer | None:
    """The handler of a greeting."""
    return Answer("Hello! What can I do for you?") if prompt == "hello" else None


class Show(NamedTuple):
    """One line of the table."""

    task: str
    policy: Policy
    prompts: Sequence[str]
    prompt_handlers: Sequence[PromptHandler] = ()
    presets: Sequence[Tool] = (finish_task,)


SHOWS = {
    "A1-before": Show("A1 port change", before(30), PORT),
    "A1-agent": Show("A1 port change", Policy(), PORT),
    "B6-before": Show("B6 five scenes", before(10), SCENES),
    "B6-agent": Show("B6 five scenes", Policy(), SCENES),
    "B6-handled": Show("B6 five scenes, the greeting handled", Policy(), SCENES, (greet,)),
    "B6-text": Show("B6 five scenes, no completion tool", Policy(), SCENES, presets=()),
}


def tools_for(name: str) -> list[Tool]:
    """The workspace with the config file, or the two tools of the scenes."""
    if not name.startswith("A1"):
        return [load_document, find_skill]
    shutil.rmtree(PLACE / name, ignore_errors=True)
    return workspace_tools(tasks.put({"config.ini": tasks.CONFIG}, PLACE / name))


async def played(name: str, url: str) -> dict[str, Any]:
    """Play one show; gives its row of the table."""
    show, record = SHOWS[name], PLACE / f"{name}.jsonl"
    provider = OpenAICompatible("local", url, settings={"temperature": 0, "max_tokens": 256})
    tools = tools_for(name)
    record.unlink(missing_ok=True)
    rules = [ASK_AGAIN] if show.policy.name == "before" else []
    hooks = Hooks(rules=rules, prompt_handlers=show.prompt_handlers)
    engine = Engine(provider, tools=tools, presets=show.presets, policy=show.policy, hooks=hooks)
    steps, messages, began = [], [], time.monotonic()
    async with engine:
        session = engine.session(record=record, drain=True)
        for prompt in show.prompts:
            outcome = await session.run(prompt)
            steps.append(outcome.steps)
            messages.append(sum(not isinstance(message, SystemMessage) for message in session.transcript.messages))
    tokens = [counted(run) for run in read_record(record).runs]
    return {
        "task": show.task,
        "policy": show.policy.name,
        "steps": ", ".join(map(str, steps)),
        "messages so far": ", ".join(map(str, messages)),
        "tokens in/out": "{:,} / {:,}".format(*map(sum, zip(*tokens, strict=True))),
        "seconds": f"{time.monotonic() - began:.0f}",
        "last stop reason": outcome.stop_reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--only", help="names of shows, with commas")
    given = parser.parse_args()
    PLACE.mkdir(exist_ok=True)
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for name in given.only.split(",") if given.only else SHOWS:
        row = asyncio.run(played(name, given.url))
        print("| " + " | ".join(row[column] for column in COLUMNS) + " |", flush=True)


if __name__ == "__main__":
    main()
