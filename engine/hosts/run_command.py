"""`endstop run`: one prompt, one run, one outcome."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import closing
from typing import Any

import msgspec

from ...decision import Outcome, Status
from ..engine import Engine
from ..record import read_record
from ..run import Run
from .channels import Channels
from .choices import check_record, policy_of, presets_of, prompt_of, provider_of, tools_of, workspace_of
from .interrupts import Interrupts
from .leaving import run_to_end
from .saved import Savings, savings_of
from .views import View, choose_view

EXIT_CODES: dict[Status, int] = {
    "completed": 0,
    "exhausted": 3,
    "failed": 4,
    "awaiting_input": 5,
    "cancelled": 130,
}

_HELP = "run an agent on a prompt until the work is done"
_EPILOG = """\
exit codes:
  0    completed
  2    wrong use, before the first request
  3    exhausted: a limit was reached, or the model went round in circles
  4    failed: the provider or the engine gave up
  5    awaiting input: the model asked a question
  130  cancelled, by Ctrl-C for instance

The answer goes to stdout, all else to stderr.
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "run",
        help=_HELP,
        description=_HELP,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to do; read from stdin if left out")
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="M", help="its name, as litellm or the endpoint knows it")
    model.add_argument("--api-base", metavar="URL", help="an OpenAI-compatible endpoint, up to and with /v1")
    model.add_argument("--provider", choices=("litellm", "openai"), help="how to reach it; else decided by --api-base")
    model.add_argument("--tool-choice", choices=("auto", "required", "none"), default="auto", help="default: auto")
    model.add_argument("--temperature", type=float, metavar="T", help="passed to the model")
    model.add_argument("--seed", type=int, metavar="N", help="passed to the model")
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "--tools", action="append", default=[], metavar="FILE", help="a Python file or module with tools; repeatable"
    )
    tools.add_argument("--workspace", metavar="DIR", help="let the model list, read, search and change files in DIR")
    tools.add_argument("--allow-run", action="store_true", help="let it run commands in the workspace, too")
    tools.add_argument("--no-presets", action="store_true", help="offer neither finish_task nor ask_user")
    ending = parser.add_argument_group("when to stop")
    ending.add_argument("--policy", default="agent", metavar="P", help="chat, agent (default), strict, or a TOML file")
    ending.add_argument("--max-steps", type=int, metavar="N", help="hard limit of model steps (default: 30)")
    output = parser.add_argument_group("output")
    output.add_argument("--record", metavar="FILE", help="write every event to a new file, for `endstop replay`")
    output.add_argument("--drain", action="store_true", help="read the rest of cut responses into the record")
    output.add_argument("--json", action="store_true", help="print the outcome as one JSON object")
    output.add_argument("--explain", action="store_true", help="show each decision with all that was considered")
    output.add_argument("--quiet", action="store_true", help="show nothing but the answer")


def command(given: argparse.Namespace) -> int:
    """Run it; gives the exit code. Raises WrongUse."""
    channels = Channels()
    check_record(given.record, given.drain)
    policy = policy_of(given.policy, given.max_steps)
    provider = provider_of(given.model, given.api_base, given.provider)
    tools = [*tools_of(given.tools), *workspace_of(given.workspace, given.allow_run)]
    settings = {"temperature": given.temperature, "seed": given.seed}
    engine = Engine(
        provider,
        tools=tools,
        presets=presets_of(tools, not given.no_presets),
        policy=policy,
        tool_choice=given.tool_choice,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    return run_to_end(_run(engine, prompt_of(given.prompt), given, channels))


async def _run(engine: Engine, prompt: str, given: argparse.Namespace, channels: Channels) -> int:
    view = choose_view(
        channels,
        quiet=given.quiet,
        explain=given.explain,
        saved=lambda: _savings(given.record) if given.drain else None,
        record=given.record,
    )
    run = engine.start(prompt, record=given.record, drain=given.drain)
    with Interrupts(view) as interrupts, closing(view):
        interrupts.attach(run)
        async with run:
            outcome = await watched(run, view)
    if given.json:
        channels.answer(as_json(outcome) + "\n")
    elif outcome.answer and not view.tells_answer:
        channels.answer(outcome.answer.rstrip("\n") + "\n")
    return EXIT_CODES[outcome.status]


async def watched(run: Run, view: View) -> Outcome:
    """Show a run to its end; also one that dies without a last event."""
    watching = asyncio.create_task(_watch(run, view))
    try:
        outcome = await run.wait()
        await watching
        return outcome
    finally:
        watching.cancel()


async def _watch(run: Run, view: View) -> None:
    async for event in run:
        view.show(event)


def as_json(outcome: Outcome) -> str:
    """The outcome as one line of JSON."""
    return msgspec.json.encode(outcome).decode()


def _savings(record: str) -> Savings:
    return savings_of(rest.chunk for rest in read_record(record).runs[-1].after_cut)
