"""From the options of `endstop race` to racers: an engine each, with a workspace that is its own copy."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..decision import Event, WrongUse
from ..engine import Engine
from ..event_bus import Lagged
from ..providers import Provider
from ..run import Run
from ..tasks import numbered
from .factory import (
    evaluator_of,
    gates_of,
    guarded,
    limited,
    policy_of,
    presets_of,
    provider_of,
    tools_of,
    workspace_of,
)
from .options import finish_words_of, sampling_of

NONE = "-"
"""Stands for no endpoint where others have one."""

Watch = Callable[[int, Event | Lagged], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """One of those who race."""

    name: str
    engine: Engine
    workspace: Path | None


def providers_of(given: argparse.Namespace) -> list[Provider]:
    """The providers for `--model`, `--api-base` and `--provider`: one for all, or one for each model in its order."""
    models = given.model
    if len(models) < 2:
        raise WrongUse("a race needs two models or more: give --model A --model B")
    bases = _for_each("--api-base", given.api_base, models)
    reached = _for_each("--provider", given.provider, models)
    first, between = given.first_timeout, given.content_timeout
    made = [
        provider_of(model, None if base == NONE else base, way, first=first, between=between)
        for model, base, way in zip(models, bases, reached, strict=True)
    ]
    return [guarded(provider, given.retries, given.response_timeout) for provider in made]


def _for_each(option: str, given: Sequence[str], models: Sequence[str]) -> list[str | None]:
    if len(given) <= 1:
        return [given[0] if given else None] * len(models)
    if len(given) != len(models):
        raise WrongUse(
            f"{option} is given {len(given)} times for {len(models)} models: give it once for all of them, or once for "
            "each, in the order of the models" + (f" ({NONE} where there is none)" if option == "--api-base" else "")
        )
    return list(given)


def names_of(providers: Sequence[Provider]) -> list[str]:
    """A name for each racer: its model's, with a number where two have the same."""
    taken: Counter[str] = Counter()
    return [numbered(provider.model, taken) for provider in providers]


def racers_of(
    given: argparse.Namespace, names: Sequence[str], providers: Sequence[Provider], copies: Copies, watch: Watch
) -> list[Racer]:
    """An engine for each provider. All that cannot work raises WrongUse."""
    policy = policy_of("agent" if given.policy is None else given.policy, closing=True)
    policy = limited(policy, given.max_steps, given.max_tokens, closing=not given.no_closing)
    shared = tools_of(given.tools)
    racers = []
    for number, (name, provider) in enumerate(zip(names, providers, strict=True)):
        workspace = copies.copy(f"{number + 1}-{_plain(name)}")
        folder = str(workspace) if workspace is not None else None
        tools = [*shared, *workspace_of(folder, given.allow_run, given.env)]
        engine = Engine(
            provider,
            tools=tools,
            presets=presets_of(tools, not given.no_presets),
            policy=policy,
            gates=gates_of(given.gate, folder, given.env),
            evaluate=evaluator_of(given.evaluate, folder, given.reference_workspace, given.evaluate_plain),
            subscribers=[partial(_told, watch, number)],
            tool_choice=given.tool_choice or "auto",
            settings=sampling_of(given),
            finish_words=finish_words_of(given),
        )
        racers.append(Racer(name=name, engine=engine, workspace=workspace))
    return racers


def _told(watch: Watch, number: int, event: Event | Lagged, run: Run) -> None:
    watch(number, event)


class Copies:
    """Copies of a workspace in a temporary folder, one for each racer; at the end all go but those that are `kept`.

    Without a workspace there are none.
    """

    def __init__(self, workspace: str | None) -> None:
        self._workspace = workspace
        self._folder: Path | None = None
        self.kept: Sequence[Path | None] = ()

    def __enter__(self) -> Copies:
        if self._workspace is not None:
            workspace_of(self._workspace, False)  # refused here with the name that was given, not with that of a copy
            self._folder = Path(tempfile.mkdtemp(prefix="endstop-race-")).resolve()
            if self._folder.is_relative_to(Path(self._workspace).resolve()):
                self._folder.rmdir()
                raise WrongUse(
                    f"--workspace {self._workspace} holds the folder for temporary files: name a smaller one"
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
        """One more copy."""
        if self._workspace is None or self._folder is None:
            return None
        try:
            shutil.copytree(self._workspace, self._folder / name, symlinks=True)
        except shutil.Error as error:
            source, _, why = error.args[0][0]
            raise WrongUse(f"--workspace {self._workspace} cannot be copied: {source}: {why}") from None
        return self._folder / name


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)[:40].rstrip("-.")
