"""The port change (A1) and the five scenes (B6), before and after: the same scripted model under two policies.

    python docs/examples/before_after.py [FOLDER]     FOLDER keeps the records; made if it is not there

The model is a script, not a model: it goes on for as long as it is asked. "Before" only a limit ends a run, and each
further step is asked for with one more prompt; "after" is the policy `agent` as shipped. Tokens are counted by rule of
thumb, 4 characters each.
"""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from endstop import Engine, Hooks, tool
from endstop.decision import AssistantMessage, GoOn, Limits, Policy, Rule, Usage, UsageReport, UserMessage
from endstop.providers import Scripted, call, say
from endstop.tools import task_done

MORE = "What is the next step? Use tools, or go on."
ASK_AGAIN = Rule("P3", "ask_again", "Always goes on, with one more prompt.", (), lambda f, p: GoOn(rule="", say=MORE))
SCENES = {
    "load report.txt": ("load_document", "The report is loaded."),
    "what does it say?": (None, "It says that sales grew."),
    "what is the capital of France?": (None, "Paris."),
    "which skill draws a chart?": ("find_skill", "The skill is called plot."),
    "hello": (None, "Hello! What can I do for you?"),
}


@tool
async def load_document(name: str) -> str:
    """Load a document."""
    return "Sales grew by four percent."


@tool(reads=True)
async def find_skill(name: str) -> str:
    """Find a skill."""
    return "plot: draws a chart"


@tool
async def set_port(port: int) -> str:
    """Set the port."""
    return f"the port is {port}"


def before(steps: int) -> Policy:
    limits = Limits(steps=steps)
    return Policy(name="before", limits=limits, rules=("ask_again",), guards=("step_limit",), inner_cancel=False)


def done(request, chunks):
    read = sum(map(characters, request.messages))
    written = sum(len(getattr(chunk, "text", "") or getattr(chunk, "arguments", "")) for chunk in chunks)
    return [*chunks, UsageReport(Usage(input_tokens=math.ceil(read / 4), output_tokens=math.ceil(written / 4)))]


def characters(message):
    calls = getattr(message, "calls", ())
    text = getattr(message, "text", "") + getattr(message, "content", "")
    return len(text) + sum(len(call.name) + len(call.arguments) for call in calls)


def so_far(request):
    """The user's latest prompt, and how many responses came after it."""
    at = max(n for n, m in enumerate(request.messages) if isinstance(m, UserMessage) and m.text != MORE)
    return request.messages[at].text, sum(isinstance(m, AssistantMessage) for m in request.messages[at:])


def port_change(request):
    _, responses = so_far(request)
    if responses == 0:
        return done(request, call("set_port", port=8080))
    if responses == 1:
        return done(request, call("task_done", summary="The port is 8080 now."))
    return done(request, say(f"I have checked the port again, check {responses - 1}."))


def five_scenes(request):
    prompt, responses = so_far(request)
    name, answer = SCENES[prompt]
    return done(request, call(name, name="it") if name and responses == 0 else say(answer))


async def play(script, prompts, tools, policy, rules, record):
    engine = Engine(
        Scripted(script), tools=tools, policy=policy, hooks=Hooks(rules=rules), presets=[task_done], system=""
    )
    session = engine.session(record=record)
    steps, messages, tokens, reason = [], [], 0, ""
    for prompt in prompts:
        outcome = await session.run(prompt)
        steps.append(outcome.steps)
        messages.append(len(session.transcript.messages))
        tokens += outcome.usage.input_tokens + outcome.usage.output_tokens
        reason = outcome.stop_reason
    return steps, messages, tokens, reason


async def measured(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    told = "| task | policy | steps | messages so far | tokens | last stop reason |\n" + "| --- " * 6 + "|\n"
    tasks = (
        ("A1 port change", port_change, ["Set the port to 8080"], [set_port], 30),
        ("B6 five scenes", five_scenes, list(SCENES), [load_document, find_skill], 10),
    )
    for title, script, prompts, tools, limit in tasks:
        for policy, rules in ((before(limit), [ASK_AGAIN]), (Policy(), [])):
            record = folder / f"{title.split()[0]}-{policy.name}.jsonl"
            steps, messages, tokens, reason = await play(script, prompts, tools, policy, rules, record)
            cells = (title, policy.name, ", ".join(map(str, steps)), ", ".join(map(str, messages)), str(tokens), reason)
            told += f"| {' | '.join(cells)} |\n"
    return told


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        print(asyncio.run(measured(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))), end="")
