"""`endstop run`: one prompt, one run, one outcome."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

import msgspec

from ..decision import Event, Outcome, WrongUse
from ..process.shutdown import ShutdownSignals, run_to_end
from ..process.streams import StdStreams
from ..records.reader import read_record
from ..run import Run
from .agent import ResumedSession, Start, build_engine, options_to_repeat, read_resumed
from .exit_codes import exit_code
from .factory import check_record, read_prompt
from .options import add_agent, add_command, add_output, add_redaction
from .views.run_view import RunView
from .views.select import choose_view
from .views.text import Recorded, Savings, savings_of

_HELP = "run an agent on a prompt until the work is done"
_EPILOG = """\
exit codes:
  0    completed
  2    usage error, before the first request
  3    exhausted: a limit was reached, or the model was stuck in a loop
  4    failed: the provider or the engine gave up
  5    awaiting input: the model asked a question
  6    completed, but the evaluation failed
  130  cancelled, for example by Ctrl-C

The answer goes to stdout, everything else to stderr.

--resume takes the model, the policy, the names of the tools and the settings from the record. A record does not hold
--api-base, --provider, --tools, --workspace, --gate, --evaluate and --evaluate-plain: give them again.
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "run", _HELP, command, _EPILOG)
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the task; read from stdin if omitted")
    add_agent(parser)
    again = parser.add_argument_group("resuming")
    again.add_argument("--resume", metavar="RECORD", help="resume the session of this record, and append to the record")
    again.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="TEXT",
        help="the answer to the open question, CALL_ID=TEXT if there are several; repeatable",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--record", metavar="FILE", help="write every event to a new file (see `endstop replay`)")
    output.add_argument(
        "--drain", action="store_true", help="read the rest of responses that were cut, into the record"
    )
    add_redaction(output, "the record")
    output.add_argument("--explain", action="store_true", help="show each decision with every rule that was considered")
    add_output(output, "print the outcome as one JSON object", "show only the answer")


def command(args: argparse.Namespace) -> int:
    """Run the agent and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    if args.resume is None:
        check_record(args.record, args.drain)
        if args.answer:
            raise WrongUse("--answer answers a recorded question: give its record with --resume RECORD")
        engine = build_engine(args, None)
        session = engine.session(record=args.record, drain=args.drain)
        return run_to_end(_run([partial(session.start, read_prompt(args.prompt))], None, args, std_streams))
    if args.record is not None:
        raise WrongUse("--resume appends to its record: leave out --record")
    resumed = read_resumed(args.resume)
    engine = build_engine(args, resumed)
    session = engine.session(resumed.record.header.session_id, record=args.resume, drain=args.drain)
    prompt = None if args.prompt is None else read_prompt(args.prompt)
    return run_to_end(_run(resumed.starts(session, prompt, args.answer), resumed, args, std_streams))


async def _run(
    starts: Sequence[Start], resumed: ResumedSession | None, args: argparse.Namespace, std_streams: StdStreams
) -> int:
    record = args.resume or args.record
    view = choose_view(
        std_streams,
        quiet=args.quiet,
        explain=args.explain,
        saved=lambda: _savings(record) if args.drain else None,
        recorded=Recorded(record, options_to_repeat(args)) if record else None,
    )
    with ShutdownSignals(view) as interrupts, closing(view):
        for start in starts[:-1]:  # each run only takes one answer, and then waits for the next
            run = start()
            interrupts.attach(run)
            async with run:
                if (await run.wait()).status != "awaiting_input":
                    outcome = await show_run(run, view)
                    break
        else:
            run = starts[-1]()
            interrupts.attach(run)
            seen: Sequence[Event] = resumed.last.events if resumed is not None and resumed.same_run else ()
            async with run:
                outcome = await show_run(run, view, seen)
    if args.json:
        std_streams.write_answer(as_json(outcome) + "\n")
    elif outcome.answer and not view.shows_answer:
        std_streams.write_answer(outcome.answer.rstrip("\n") + "\n")
    return exit_code(outcome)


async def show_run(run: Run, view: RunView, seen: Sequence[Event] = ()) -> Outcome:
    """Show a run until it ends, even if it fails without a last event; returns its outcome.

    seen: for a run that continues after its process was killed, its events from before; they are not shown again.
    """
    watching = asyncio.create_task(_show_events(run, view, seen))
    try:
        outcome = await run.wait()
        await watching
        return outcome
    finally:
        watching.cancel()


async def _show_events(run: Run, view: RunView, seen: Sequence[Event]) -> None:
    if seen:
        view.skip(seen)
    async for event in run.events(after=seen[-1].seq if seen else 0):
        view.show(event)


def as_json(outcome: Outcome) -> str:
    """The outcome as one line of JSON."""
    return msgspec.json.encode(outcome).decode()


def _savings(record: str) -> Savings:
    return savings_of(rest.chunk for rest in read_record(record).runs[-1].after_cut)
