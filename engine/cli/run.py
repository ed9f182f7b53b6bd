"""`endstop run`: one prompt, one run, one outcome."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from ..answers import Answer
from ..decision import Event, Outcome, Question, WrongUse
from ..process.daemon import log_to_stderr
from ..process.shutdown import ShutdownSignals, run_to_end
from ..process.streams import StdStreams
from ..providers.endpoint_url import mask_url
from ..records.reader import read_record
from ..run import Run
from ..session import Session
from ..tools.tool import Toolbox
from ..user_message import Prompt, image_at, user_message
from ..validation import preview
from .agent import Start, asks_user, build_engine, options_to_repeat, read_forked, read_resumed
from .commands import add_command
from .exit_codes import EXIT_CODES, exit_code
from .factory import check_record, read_prompt
from .options import add_agent, add_output, add_redaction
from .question_prompt import ask_questions, ask_text, parse_approvals, parse_extension
from .views.run_view import RunView
from .views.select import choose_view, print_lines
from .views.text import Asking, Recorded, Savings, left_open, savings_of

_ABOUT = """
The answer goes to stdout, everything else to stderr.

In a terminal, a person is asked where the run pauses, with a question of the model, a call that waits for approval or a
limit that asks for more steps, and it goes on with the answer. Ctrl-D leaves the question open. Nothing is asked with
--no-input, --json or --quiet, or if stdin or stderr is not a terminal.

--resume takes the model, the policy, the names of the tools and the settings from the record. A record does not hold
--api-base, --provider, --tools, --workspace, --gate, --evaluate and --evaluate-plain: give them again.

--fork goes on from a decision in a record, as a new session with its own record. It takes the same from the record
as --resume; options replace it, PROMPT replaces the prompt, and --result what a tool returned.
"""
_EXIT_CODES = {
    0: "completed",
    2: "usage error, before the first request",
    3: "exhausted: a limit was reached, or the model was stuck in a loop",
    4: "failed: the provider or the engine gave up",
    5: "awaiting input: the model asked a question, a call waits for approval, or the run asks for more steps",
    6: "completed, but the evaluation failed",
    130: "cancelled, for example by Ctrl-C",
}
_EXAMPLES = (
    (
        "Let a model change files in this folder, and keep a record",
        'endstop run "Set the port to 8080." --model anthropic/claude-sonnet-4-5 --workspace . --record run.jsonl',
    ),
    (
        "The same with your own model, until the tests pass",
        'endstop run "Fix the tests." --model qwen3 --api-base http://127.0.0.1:8000/v1 --workspace . '
        "--until 'pytest -q'",
    ),
    ("Ask about an image", 'endstop run "What is wrong here?" --image screen.png --model gemini/gemini-2.5-flash'),
    ("Go on with a recorded session", 'endstop run --resume run.jsonl "And the host?" --workspace .'),
    (
        "Go on from a decision, with another policy",
        "endstop run --fork run.jsonl --at 57 --policy strict --record fork.jsonl --workspace .",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "run",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the task; read from stdin if omitted")
    parser.add_argument_group("prompt").add_argument(
        "--image",
        action="append",
        default=[],
        metavar="PATH_OR_URL",
        help="an image after the prompt's text, from a file or for the provider to fetch; repeatable",
    )
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
    again.add_argument(
        "--approve",
        action="append",
        default=[],
        metavar="CALL_ID",
        help="approve this call, which waits for it; CALL_ID=JSON with other arguments; repeatable",
    )
    again.add_argument(
        "--deny",
        action="append",
        default=[],
        metavar="CALL_ID",
        help="deny this call, which waits for approval; CALL_ID=REASON with a reason for the model; repeatable",
    )
    again.add_argument(
        "--extend", type=int, metavar="N", help="grant N more steps to the run, which asks for some at its limit"
    )
    again.add_argument(
        "--strict-resume",
        action="store_true",
        help="refuse to resume a killed run that would go on differently from its record; nothing is written then",
    )
    again.add_argument(
        "--no-input",
        action="store_true",
        help="do not ask at the terminal: a question ends the command with exit code 5, and --resume answers it",
    )
    fork = parser.add_argument_group("forking")
    fork.add_argument("--fork", metavar="RECORD", help="go on from a decision of this record, into a new --record FILE")
    fork.add_argument("--at", type=int, metavar="SEQ", help="the number (`seq`) of the decision, which is made again")
    fork.add_argument("--run", metavar="RUN", help="the run of the decision, by its number or id (default: the last)")
    fork.add_argument(
        "--result",
        action="append",
        default=[],
        metavar="CALL_ID=TEXT",
        help="replace what this call of a tool returned, CALL_ID=@FILE by the text of a file; repeatable",
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
    _check_options(args)
    with log_to_stderr():
        if args.fork is not None:
            return run_to_end(_run(_forked(args), args, std_streams))
        if args.resume is not None:
            resumed = _resumed(args, std_streams)
            return EXIT_CODES["awaiting_input"] if resumed is None else run_to_end(_run(resumed, args, std_streams))
        check_record(args.record, args.drain)
        engine = build_engine(args, None)
        session = engine.session(record=args.record, drain=args.drain)
        work = _Work(session, engine.config.toolbox, [partial(session.start, _prompt(args))])
        return run_to_end(_run(work, args, std_streams))


@dataclass(frozen=True, slots=True)
class _Work:
    """The session of a command, and the runs that it starts in it."""

    session: Session[Any]
    toolbox: Toolbox
    starts: Sequence[Start]
    """The runs to start, one after another."""
    seen: Sequence[Event] = ()
    """Events of the last of these runs that its record already holds."""


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that need another one, or exclude it. Raises WrongUse."""
    if args.fork is not None and args.resume is not None:
        raise WrongUse("--fork and --resume cannot be combined: give one of them")
    for name in ("answer", "approve", "deny", "extend"):
        if getattr(args, name) not in (None, []) and args.resume is None:
            raise WrongUse(f"--{name} answers a recorded question: give its record with --resume RECORD")
    if args.strict_resume and args.resume is None:
        raise WrongUse("--strict-resume is for a run that is resumed: give its record with --resume RECORD")
    for name in ("at", "run", "result"):
        if getattr(args, name) not in (None, []) and args.fork is None:
            raise WrongUse(f"--{name} is for a fork: give the record to fork with --fork RECORD")
    if args.image and args.prompt is None and (args.fork is not None or args.resume is not None):
        raise WrongUse("--image goes with a prompt: write the PROMPT that it belongs to")
    if args.resume is not None and args.record is not None:
        raise WrongUse("--resume appends to its record: leave out --record")
    if args.fork is not None:
        for name, why in (("at", "the `seq` of a DECISION_MADE in it"), ("record", "a new file for the fork")):
            if getattr(args, name) is None:
                raise WrongUse(f"--fork {args.fork}: add --{name}, {why}")


def _prompt(args: argparse.Namespace) -> Prompt:
    """Return the prompt, with its images after the text. Raises WrongUse."""
    images = [image_at(f"--image {_shown(source)}", source) for source in args.image]
    text = read_prompt(args.prompt)
    return user_message([text, *images]) if images else text


def _shown(source: str) -> str:
    """Return the source of an image as people may see it: without a password or the bytes of a data URL."""
    return preview(mask_url(source.partition(",")[0] if source.startswith("data:") else source))


def _resumed(args: argparse.Namespace, std_streams: StdStreams) -> _Work | None:
    """Return how to resume a session, with the answers to its open questions; None if nobody answers.

    Raises WrongUse.
    """
    resumed = read_resumed(args.resume)
    engine = build_engine(args, resumed)
    session = engine.session(resumed.record.header.session_id, record=args.resume, drain=args.drain)
    prompt = None if args.prompt is None else _prompt(args)
    answers = parse_approvals(args.approve, args.deny, [one.call_id for one in resumed.questions if one.tool])
    answers |= parse_extension(args.extend, resumed.questions)
    if resumed.questions and prompt is None and not (args.answer or answers) and asks_user(args):
        asked = _ask(resumed.questions, engine.config.toolbox, args, std_streams, seen=False)
        if not isinstance(asked, dict):
            return None
        answers = asked
    starts = resumed.starts(session, prompt, args.answer, answers)
    return _Work(session, engine.config.toolbox, starts, resumed.last.events if resumed.same_run else ())


def _forked(args: argparse.Namespace) -> _Work:
    """Return how to run a fork. Raises WrongUse."""
    check_record(args.record, args.drain)
    forked = read_forked(args.fork, args.at, args.run)
    engine = build_engine(args, forked)
    prompt = None if args.prompt is None else _prompt(args)
    session = forked.fork(engine, args.record, prompt, args.result, drain=args.drain)
    return _Work(session, engine.config.toolbox, [session.start_fork], session.copies)


async def _run(work: _Work, args: argparse.Namespace, std_streams: StdStreams) -> int:
    """Run; while the run pauses, ask at the terminal and go on with what is answered there."""
    asking = Asking() if asks_user(args) else None
    outcome, shown = await _run_shown(work.starts, work.seen, args, std_streams, asking)
    while asking is not None and outcome.status == "awaiting_input":
        start = _answered(work, outcome, args, std_streams)  # nothing else runs meanwhile
        if start is None:
            break
        outcome, shown = await _run_shown([start], (), args, std_streams, Asking(answered=True))
    if args.json:
        std_streams.write_answer(as_json(outcome) + "\n")
    elif outcome.answer and not shown:
        std_streams.write_answer(outcome.answer.rstrip("\n") + "\n")
    return exit_code(outcome)


def _answered(work: _Work, outcome: Outcome, args: argparse.Namespace, std_streams: StdStreams) -> Start | None:
    """Return the start that continues the paused run with a person's answer; None if the question stays open."""
    match _ask(outcome.questions, work.toolbox, args, std_streams, seen=True):
        case None:
            return None
        case str() as reply:
            return partial(work.session.start, reply)
        case answers:
            return partial(work.session.start_answers, answers)


def _ask(
    questions: Sequence[Question], toolbox: Toolbox, args: argparse.Namespace, std_streams: StdStreams, *, seen: bool
) -> dict[str, Answer] | str | None:
    """Ask at the terminal the open questions, or for a reply to the model's text if there are none.

    None if the person leaves; how to answer later is then shown.
    """
    show = partial(print_lines, std_streams)
    given = ask_questions(questions, toolbox, show, seen=seen) if questions else ask_text(show)
    if given is None:
        show([[(left_open(_recorded(args)), None)]])
    return given


def _recorded(args: argparse.Namespace) -> Recorded | None:
    record = args.resume or args.record
    return Recorded(record, options_to_repeat(args)) if record else None


async def _run_shown(
    starts: Sequence[Start],
    seen: Sequence[Event],
    args: argparse.Namespace,
    std_streams: StdStreams,
    asking: Asking | None,
) -> tuple[Outcome, bool]:
    """Run the starts one after another; returns the outcome of the last, and whether its answer was shown.

    seen: events of the last one that are already in its record.
    """
    record = args.resume or args.record
    view = choose_view(
        std_streams,
        quiet=args.quiet,
        explain=args.explain,
        saved=lambda: _savings(record) if args.drain else None,
        recorded=_recorded(args),
        asking=asking,
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
            async with run:
                outcome = await show_run(run, view, seen)
    return outcome, view.shows_answer


async def show_run(run: Run, view: RunView, seen: Sequence[Event] = ()) -> Outcome:
    """Show a run until it ends, even if it fails without a last event; returns its outcome.

    seen: the events that are already in the record of a resumed run or a fork; they are not shown again.
    """
    watching = asyncio.create_task(_show_events(run, view, seen), name=f"endstop view of run {run.id}")
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
    """Encode the outcome as one line of JSON."""
    return msgspec.json.encode(outcome.to_dict()).decode()


def _savings(record: str) -> Savings:
    return savings_of(rest.chunk for rest in read_record(record).runs[-1].after_cut)
