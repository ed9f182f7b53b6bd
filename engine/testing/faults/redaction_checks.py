"""Checks that a redaction finds secrets and keeps harmless texts, and that an engine applies it to all it writes."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from ...decision import ReasoningDelta, WrongUse
from ...decision import events as ev
from ...decision.errors import error_text
from ...decision.wrong_calls import explained
from ...engine import Engine
from ...providers import Provider, Scripted, call, say
from ...records.format import Redact
from ...records.reader import read_record
from ...tools.tool import Tool
from .harmless_texts import HARMLESS
from .invariants import Broken
from .secret_shapes import SECRETS, SecretShape
from .simulated_loop import check_no_loop
from .violations import MOST_VIOLATIONS, FaultReport, Points, Stopwatch, check_not_async, chosen

SHOWN_CHARACTERS = 200
"""Maximum number of characters of a text that a violation shows."""
LONGEST_PIECE = 7
"""Maximum number of characters of the pieces in which the model streams a text with a secret."""
NEEDLE = 8
"""Minimum length of the line of a secret that must not be found anywhere; if no line is that long, the longest one."""


@explained
def check_redaction(
    redact: Redact,
    *,
    kinds: Sequence[str] | None = None,
    harmless: Sequence[str] | None = None,
    times: int = 5,
    seed: int = 0,
    most_missed: float = 0.05,
    most_changed: float = 0.02,
) -> FaultReport:
    """Try a redaction on secrets of every kind and on harmless texts.

    redact: a function that takes and returns a text, such as `Redaction(...)`.
    kinds: kinds of `SECRETS`, such as `GitHub`; None for all. times: number of secrets of each kind, drawn with `seed`.
    harmless: texts that should stay unchanged; None for `HARMLESS`, a thousand of them.
    most_missed, most_changed: the maximum share of secrets that may be missed and of harmless texts that may be
        changed, from 0 to 1. Above that, each is a violation. No redaction finds all and changes nothing.

    Raises WrongUse for arguments that cannot work.
    """
    if not callable(redact) or isinstance(redact, type | Engine):
        raise WrongUse(
            f"check_redaction: {redact!r} is not a function from text to text: give Redaction(), or for an engine "
            "write check_leaks(make_engine)"
        )
    for name, share in (("most_missed", most_missed), ("most_changed", most_changed)):
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise WrongUse(f"{name} is {share!r}: give a share from 0 to 1, such as 0.05 for 5 %")
    if type(times) is not int or times < 1:
        raise WrongUse(f"times is {times!r}: give the number of each kind, 1 or more")
    if isinstance(harmless, str):
        raise WrongUse(f"harmless must be a list of texts: write harmless=[{harmless!r}]")
    harmless = HARMLESS if harmless is None else harmless
    shapes, watch = chosen_shapes(kinds), Stopwatch(None)
    report = FaultReport("check_redaction", counted="texts")
    missed, changed = FaultReport(""), FaultReport("")
    for shape in shapes:
        for number in range(1, times + 1):
            if report.full:
                break
            text, secret = shape.example(Random(f"{seed} {shape.kind} {number}"))
            again = f"kinds=[{shape.kind!r}], seed={seed}, times={number}, most_missed=0"
            redacted = _redacted(report, redact, text, shape.kind, number, again)
            found = redacted is None or secret not in redacted
            report.ends["secrets found" if found else "secrets missed"] += 1
            if not found:
                missed.add(shape.kind, number, [("not_leaked", f"{secret!r} is still in {_shown(text)}")], again)
    for number, text in enumerate(harmless, 1):
        if report.full:
            break
        again = f"kinds=[], harmless=[{text!r}], most_changed=0"
        same = _redacted(report, redact, text, "harmless", number, again) == text
        report.ends["harmless kept" if same else "harmless changed"] += 1
        if not same:
            changed.add("harmless", number, [("not_destroyed", f"{_shown(text)} was changed")], again)
    report.of, report.tried = len(shapes) * times + len(harmless), report.ends.total()
    if len(missed.violations) > most_missed * len(shapes) * times:
        report.violations += missed.violations[:MOST_VIOLATIONS]
    if len(changed.violations) > most_changed * len(harmless):
        report.violations += changed.violations[:MOST_VIOLATIONS]
    report.seconds = watch.passed
    return report


def chosen_shapes(kinds: Sequence[str] | None) -> list[SecretShape]:
    """Return the shapes of these kinds. Raises WrongUse for an unknown kind."""
    if kinds is None:
        return list(SECRETS)
    known = {shape.kind: shape for shape in SECRETS}
    wrong = [kind for kind in kinds if kind not in known]
    if wrong or isinstance(kinds, str):
        raise WrongUse(f"kinds is {kinds!r}: give a list of names in SECRETS, as in kinds=['GitHub', 'mysql -p']")
    return [known[kind] for kind in kinds]


def _redacted(report: FaultReport, redact: Redact, text: str, fault: str, point: int, again: str) -> str | None:
    """Return a redacted text; None if the redaction failed, so that nothing of it is written."""
    try:
        redacted = redact(text)
        if not isinstance(redacted, str):
            raise TypeError(f"it returned {type(redacted).__name__} instead of a text")
        if redact(text) != redacted:
            raise ValueError("the same text was redacted differently the second time")
        if redact(redacted) != redacted:
            raise ValueError("a redacted text was redacted again")
    except Exception as error:
        report.add(fault, point, [("redacts", f"{error_text(error)}, of {_shown(text)}")], again)
        return None
    return redacted


def _shown(text: str) -> str:
    return repr(text[:SHOWN_CHARACTERS])


# ---- of an engine

MakeEngineWith = Callable[[Provider, Tool], Engine[Any, Any]]


@explained
def check_leaks(
    make_engine: MakeEngineWith,
    *,
    also: Callable[[], str] = str,
    kinds: Sequence[str] | None = None,
    points: Points = 40,
    seed: int = 0,
    seconds: float | None = None,
) -> FaultReport:
    """Let secrets pass through every text of a run, and look for them in all that the run writes.

    A secret is put into the prompt, into a text, the reasoning and the arguments of the model, into the result and the
    error of a tool, and into the completion, in small pieces if it is streamed. It is searched for in the record and
    the files next to it, in the log, and in the results of `also`. A harmless text is put there, too, and must reach
    the record complete. Only secrets that the engine's redaction finds in the text alone are tried: `check_redaction`
    tells which those are.

    make_engine: called with a provider and a tool of the kit; returns an engine with both, and with your options. also:
    returns, after each run, other data that it wrote, such as the spans of an in-memory exporter.
    kinds: kinds of `SECRETS`; None for all. points: how many kinds to try, chosen with `seed`; or the numbers of kinds.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and for an engine without `redact`.
    """
    check_no_loop("check_leaks")
    shapes = chosen_shapes(kinds)
    report, watch = FaultReport("check_leaks"), Stopwatch(seconds)
    report.of = len(shapes)
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as runner:
        for point in chosen(points, range(1, len(shapes) + 1), seed):
            if report.full or watch.up or point > len(shapes):
                break
            kind = shapes[point - 1].kind
            chance = Random(f"{seed} {kind}")
            text, secret = shapes[point - 1].example(chance)
            path = Path(folder) / str(point) / "record.jsonl"
            path.parent.mkdir()
            trial = _Trial(make_engine, path, text, chance.choice(HARMLESS))
            if secret in trial.redact(text) or secret in trial.redact(error_text(ValueError(text))):
                continue  # the redaction does not find it, alone or in the error of a tool
            report.tried += 1
            broken = runner.run(trial.leaks(_needle(secret), also))
            report.ends[trial.ended] += 1
            report.add(f"a secret, {kind}", point, broken, f"kinds=[{kind!r}], points=[1], seed={seed}")
    report.seconds = watch.passed
    return report


def _needle(secret: str) -> str:
    """Return a part of the secret that no escaping in a file changes."""
    return next((line for line in secret.splitlines() if len(line) >= NEEDLE), secret)


class _Trial:
    """One run, with one secret and one harmless text."""

    def __init__(self, make_engine: MakeEngineWith, path: Path, text: str, harmless: str) -> None:
        self.ended = "no end"
        self._path, self._text, self._harmless = path, text, harmless
        self._called = 0
        tool = Tool(self._tool, name="leak", description="Return texts that contain secrets.", timeout=None)
        self._engine = make_engine(Scripted(*self._script()), tool)
        check_not_async("make_engine", self._engine)
        if not isinstance(self._engine, Engine):
            raise WrongUse(f"make_engine returned {self._engine!r}, which is not an engine: write `return Engine(...)`")
        redact = self._engine.config.record_options.redact
        if redact is None:
            raise WrongUse(
                "the engine redacts nothing: write Engine(..., record_options=RecordOptions(redact=Redaction()))"
            )
        self.redact: Redact = redact

    def _script(self) -> Iterator[Any]:
        pieces = max(1, len(self._text) // LONGEST_PIECE)
        reasoning = [ReasoningDelta(delta.text) for delta in say(self._text, pieces)]  # type: ignore[union-attr]
        yield [*reasoning, *say(self._text, pieces), *call("leak", text=self._text, pieces=pieces, id="a")]
        yield call("leak", text=self._harmless, id="b")
        yield call("leak", text="", id="c")
        yield call("finish_task", summary=self._text, pieces=pieces, id="d")

    async def _tool(self, text: str) -> str:
        self._called += 1
        if self._called == 1:
            raise ValueError(self._text)
        return self._text if self._called == 2 else self._harmless

    async def leaks(self, needle: str, also: Callable[[], str]) -> list[Broken]:
        """Return the secrets that were found, and missing parts of the harmless text."""
        with _log() as log:
            outcome = await self._engine.run(self._text, record=self._path)
        self.ended = outcome.stop_reason
        files = [path for path in self._path.parent.rglob("*") if path.is_file()]
        written = {f"the file {path.name}": path.read_text("utf-8", "replace") for path in files}
        events = [event for run in read_record(self._path).runs for event in run.events]
        for kind in (ev.TextMessageContent, ev.ReasoningMessageContent, ev.ToolCallArgs):
            pieces = [event.delta for event in events if isinstance(event, kind)]
            written[f"the pieces of {kind.__name__}"] = "".join(pieces)
        written["the log"] = "\n".join(log)
        written["what `also` returned"] = also()
        broken: list[Broken] = [
            ("not_leaked", f"{needle!r} is in {where}") for where, text in written.items() if needle in text
        ]
        results = [event.content for event in events if isinstance(event, ev.ToolCallResult)]
        if self._harmless not in results and self.redact(self._harmless) == self._harmless:
            broken.append(("not_destroyed", f"no result in the record is {_shown(self._harmless)}"))
        return broken


class _Lines(logging.Handler):
    """Handler that keeps what the standard library logs: each line, and the fields of its record."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(f"{self.format(record)} {vars(record)}")


@contextmanager
def _log() -> Iterator[list[str]]:
    """Capture what the standard library and structlog log within the block.

    Yields a list of lines, which is complete when the block has ended.
    """
    from structlog.testing import capture_logs

    lines: list[str] = []
    handler = _Lines(lines)
    logging.getLogger().addHandler(handler)
    try:
        with capture_logs() as entries:
            yield lines
        lines += [str(entry) for entry in entries]
    finally:
        logging.getLogger().removeHandler(handler)
