"""`endstop race`: one prompt, several models, side by side; the first good completion wins."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..config import Observers
from ..decision import Event, Status, WrongUse
from ..engine import Engine
from ..event_bus import Lagged
from ..option_groups import Hooks, ModelOptions
from ..process.shutdown import ShutdownSignals, run_to_end
from ..process.streams import StdStreams
from ..providers import Provider
from ..providers.model_names import WIRES
from ..race import RaceResult, Racing
from ..run import Run
from ..tasks import PreparedTask, Records, numbered, prepare_task
from .commands import add_command
from .exit_codes import EXIT_CODES, exit_code
from .factory import (
    build_evaluator,
    build_gates,
    build_provider,
    build_workspace_tools,
    load_policy,
    load_tools,
    preset_tools,
    read_prompt,
    with_limits,
    with_retries,
)
from .options import (
    add_output,
    add_presets,
    add_retries_and_timeouts,
    add_sampling,
    add_stopping,
    add_tools,
    parse_finish_words,
    sampling_settings,
)
from .until_options import add_until, build_until
from .views.race import RaceView
from .views.select import choose_race_view

BEST_FIRST: tuple[Status, ...] = ("awaiting_input", "exhausted", "failed")
"""If nobody won the race, the exit code is that of the first of these statuses with which a run ended."""

NONE = "-"
"""The value of `--api-base` for a model without its own endpoint."""

Watch = Callable[[int, Event | Lagged], None]

_ABOUT = """
The first model that completes wins, and the others are cancelled; with --compare all run to their end. A run that
completes but fails its evaluation wins only if none of the others does better.

Give --api-base and --provider once for all models, or once for each, in the order of the models; `-` stands for none.

Each racer works in a copy of the workspace; the workspace itself is not touched. The winner's copy is kept and its
path is shown; if nobody won, or with --keep, all copies are kept. Tools from --tools are shared by all racers.

The winner's answer goes to stdout, everything else to stderr.
"""
_EXIT_CODES = {
    0: "there is a winner",
    2: "usage error, before the first request",
    3: "nobody won, and at least one run reached a limit",
    4: "all runs failed",
    5: "nobody won, and one run waits for the user's answer",
    6: "there is a winner, but its evaluation failed",
    130: "cancelled before anybody won",
}
_EXAMPLES = (
    (
        "Let two vendors' models race in copies of this folder",
        'endstop race "Fix the tests." --model openai/gpt-5 --model anthropic/claude-sonnet-4-5 --workspace .',
    ),
    (
        "Let two of your own servers race",
        'endstop race "Fix the tests." --model small --api-base http://127.0.0.1:8001/v1 '
        "--model large --api-base http://127.0.0.1:8002/v1",
    ),
    (
        "Compare a vendor's model with your own",
        'endstop race "Fix the tests." --compare --model gpt-5 --api-base - '
        "--model local --api-base http://127.0.0.1:8001/v1",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "race",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the task; read from stdin if omitted")
    race = parser.add_argument_group("race")
    race.add_argument("--compare", action="store_true", help="let all models run to the end")
    model = parser.add_argument_group("models")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    model.add_argument("--model", **repeated, metavar="M", help="a model; give two or more")
    model.add_argument(
        "--api-base", **repeated, metavar="URL", help="the URL of its OpenAI-compatible endpoint; - for none"
    )
    model.add_argument("--provider", **repeated, choices=tuple(WIRES), help="how to reach the model")
    add_retries_and_timeouts(model)
    add_sampling(model)
    tools = parser.add_argument_group("tools")
    add_tools(tools, "let each model work in its own copy of DIR", "also let the models run commands in their copies")
    tools.add_argument("--keep", action="store_true", help="keep every copy of the workspace, not only the winner's")
    add_presets(tools)
    ending = parser.add_argument_group("when to stop")
    add_stopping(ending)
    add_until(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--record", metavar="FOLDER", help="write the record of each run to this folder")
    add_output(output, "print the result as one JSON object", "show only the answer")


def command(args: argparse.Namespace) -> int:
    """Run the race and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    prompt = read_prompt(args.prompt, "race")
    providers = build_providers(args)
    if args.keep and args.workspace is None:
        raise WrongUse("--keep keeps the copies of a workspace: give one with --workspace DIR")
    names = racer_names(providers)
    view = choose_race_view(std_streams, names, prompt, quiet=args.quiet)
    with WorkspaceCopies(args.workspace) as copies:
        racers = build_racers(args, names, providers, copies, view.show)
        records = Records(args.record) if args.record is not None else None
        jobs = [
            prepare_task(racer.engine.config, prompt, number, racer.name, racer.name, records)
            for number, racer in enumerate(racers)
        ]
        return run_to_end(_race(args, racers, jobs, copies, view, std_streams))


async def _race(
    args: argparse.Namespace,
    racers: Sequence[Racer],
    jobs: Sequence[PreparedTask],
    copies: WorkspaceCopies,
    view: RaceView,
    std_streams: StdStreams,
) -> int:
    with ShutdownSignals(view) as interrupts, closing(view):
        async with AsyncExitStack() as held:
            for racer in racers:  # reports options that cannot work before the first request
                await held.enter_async_context(racer.engine)
            racing = Racing(jobs, compare=args.compare)
            interrupts.attach(racing)
            race = await racing.result()
        if race.winner is not None and not args.keep:
            copies.kept = [racers[race.winner.number].workspace]
        else:
            copies.kept = [racer.workspace for racer in racers]
        view.finish(race, _notes(race, racers, copies, args.record))
    answer = race.winner.outcome.answer if race.winner is not None else ""
    if args.json:
        std_streams.write_answer(as_json(race, racers, copies) + "\n")
    elif answer and not view.shows_answer:
        std_streams.write_answer(answer.rstrip("\n") + "\n")
    return race_exit_code(race)


def race_exit_code(race: RaceResult) -> int:
    """Return the winner's exit code; if nobody won, 130 for an interrupted race, else that of the best run."""
    if race.winner is not None:
        return exit_code(race.winner.outcome)
    statuses = {result.outcome.status for result in race.results}
    if "cancelled" in statuses:
        return EXIT_CODES["cancelled"]
    return EXIT_CODES[next(status for status in BEST_FIRST if status in statuses)]


def as_json(race: RaceResult, racers: Sequence[Racer], copies: WorkspaceCopies) -> str:
    """Encode the result of the race as one line of JSON."""
    racers_json = [
        {
            "racer": result.id,
            "model": racer.engine.config.provider.model,
            "won": result is race.winner,
            "outcome": result.outcome,
            "record": result.record,
            "workspace": str(racer.workspace) if racer.workspace in copies.kept and racer.workspace else None,
        }
        for result, racer in zip(race.results, racers, strict=True)
    ]
    winner = race.winner
    whole = {
        "winner": winner.id if winner is not None else None,
        "answer": winner.outcome.answer if winner is not None else "",
        "racers": racers_json,
        "usage": race.usage,
        "elapsed_ms": race.summary.elapsed_ms,
    }
    return msgspec.json.encode(whole).decode()


def _notes(race: RaceResult, racers: Sequence[Racer], copies: WorkspaceCopies, record: str | None) -> list[str]:
    """Return the lines that name the kept workspaces and the records."""
    notes = [f"the workspace of {racer.name}: {racer.workspace}" for racer in racers if racer.workspace in copies.kept]
    if race.winner is not None and len(notes) == 1:
        notes = [f"the winner's workspace: {racers[race.winner.number].workspace}"]
    return [*(notes if copies.kept[0] is not None else []), *([f"records: {record}"] if record is not None else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """One model of the race."""

    name: str
    engine: Engine
    workspace: Path | None


def build_providers(args: argparse.Namespace) -> list[Provider]:
    """Return the providers for `--model`, `--api-base` and `--provider`.

    One option serves all models, or there is one for each model in order.
    """
    models = args.model
    if len(models) < 2:
        raise WrongUse("a race needs at least two models: give --model A --model B")
    bases = _for_each("--api-base", args.api_base, models)
    reached = _for_each("--provider", args.provider, models)
    first, between = args.first_timeout, args.content_timeout
    made = [
        build_provider(model, None if base == NONE else base, way, first=first, between=between)
        for model, base, way in zip(models, bases, reached, strict=True)
    ]
    return [with_retries(provider, args.retries, args.response_timeout, args.wait_for_provider) for provider in made]


def _for_each(option: str, values: Sequence[str], models: Sequence[str]) -> list[str | None]:
    if len(values) <= 1:
        return [values[0] if values else None] * len(models)
    if len(values) != len(models):
        raise WrongUse(
            f"{option} is given {len(values)} times for {len(models)} models: give it once for all of them, or once "
            "for each, in the order of the models" + (f" ({NONE} for none)" if option == "--api-base" else "")
        )
    return list(values)


def racer_names(providers: Sequence[Provider]) -> list[str]:
    """Return a name for each racer: its model's, numbered if two are the same."""
    taken: Counter[str] = Counter()
    return [numbered(provider.model, taken) for provider in providers]


def build_racers(
    args: argparse.Namespace, names: Sequence[str], providers: Sequence[Provider], copies: WorkspaceCopies, watch: Watch
) -> list[Racer]:
    """Return an engine for each provider. Raises WrongUse for options that cannot work."""
    policy = load_policy("agent" if args.policy is None else args.policy, closing=True)
    policy = with_limits(policy, args.max_steps, args.max_tokens, closing=not args.no_closing)
    shared = load_tools(args.tools)
    racers = []
    for number, (name, provider) in enumerate(zip(names, providers, strict=True)):
        workspace = copies.copy(f"{number + 1}-{_folder_name(name)}")
        folder = str(workspace) if workspace is not None else None
        tools = [*shared, *build_workspace_tools(folder, args.allow_run, args.env)]
        engine = Engine(
            provider,
            tools=tools,
            presets=preset_tools(tools, not args.no_presets),
            policy=policy,
            until=build_until(args, folder, provider),
            hooks=Hooks(
                gates=build_gates(args.gate, folder, args.env),
                evaluate=build_evaluator(args.evaluate, folder, args.reference_workspace, args.evaluate_plain),
            ),
            observers=Observers(subscribers=[partial(_show_event, watch, number)]),
            model_options=ModelOptions(
                tool_choice=args.tool_choice or "auto",
                settings=sampling_settings(args),
                finish_words=parse_finish_words(args),
            ),
        )
        racers.append(Racer(name=name, engine=engine, workspace=workspace))
    return racers


def _show_event(watch: Watch, number: int, event: Event | Lagged, run: Run) -> None:
    watch(number, event)


class WorkspaceCopies:
    """A copy of the workspace for each racer, in a temporary folder; on exit, all but those in `kept` are removed.

    Without a workspace, there are no copies.
    """

    def __init__(self, workspace: str | None) -> None:
        self._workspace = workspace
        self._folder: Path | None = None
        self.kept: Sequence[Path | None] = ()

    def __enter__(self) -> WorkspaceCopies:
        if self._workspace is not None:
            build_workspace_tools(self._workspace, False)  # so that an error names this folder, not a copy
            self._folder = Path(tempfile.mkdtemp(prefix="endstop-race-")).resolve()
            if self._folder.is_relative_to(Path(self._workspace).resolve()):
                self._folder.rmdir()
                raise WrongUse(
                    f"--workspace {self._workspace} contains the folder for temporary files: give a smaller folder"
                )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._folder is not None:
            for copy in self._folder.iterdir():
                if copy not in self.kept:
                    shutil.rmtree(copy, ignore_errors=True)
            with suppress(OSError):
                self._folder.rmdir()  # if nothing is left in it

    def copy(self, name: str) -> Path | None:
        """Make a copy; None without a workspace."""
        if self._workspace is None or self._folder is None:
            return None
        try:
            shutil.copytree(self._workspace, self._folder / name, symlinks=True)
        except shutil.Error as error:
            source, _, why = error.args[0][0]
            raise WrongUse(f"--workspace {self._workspace} cannot be copied: {source}: {why}") from None
        return self._folder / name


def _folder_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)[:40].rstrip("-.")
