"""Draws a run that its check ends: `docs/pictures/until.svg`, on the page of `until`.

    python docs/until_picture.py          # draws the record; `make docs` runs it
    python docs/until_picture.py --run    # makes the record anew: a scripted model repairs a small project under pytest

The run is recorded, as in `docs/pictures/until.jsonl`, since the place at which the last response is cut is another one
each time. The model writes that response at the pace of a real one; all its other responses come at once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from endstop import Engine, Until, read_record
from endstop.decision import Event, Facts, fold
from endstop.decision import events as ev
from endstop.providers import Scripted, call, say
from endstop.tools import workspace_tools

PICTURES = Path(__file__).parent / "pictures"
RECORD, PICTURE = PICTURES / "until.jsonl", PICTURES / "until.svg"
TASK = "The tests fail. Make them pass."
SCORE = r"(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed"
WORDS = 300
"""Number of words that the last response, the one that is cut, would have before its tool call."""
PACE = 0.03
"""Seconds between two of these words."""

WIDTH, HEIGHT, LEFT, EDGE, TOP, BOTTOM, STEP = 960, 400, 70, 20, 90, 290, 82
"""Pixels: the picture, its edges, the lines of all tests and of none, and a step."""
STEPS = 8
BACKGROUND, FRAME, COLOUR, STRONG, QUIET = "#0d1117", "#30363d", "#e6edf3", "#e6edf3", "#8b949e"
LINE, GOOD, WARNING, BAD = "#58a6ff", "#3fb950", "#d29922", "#f85149"

ROMAN = """\
SIGNS = {"M": 1000, "D": 500, "C": 100, "L": 50, "X": 10, "V": 5, "I": 1}


def to_roman(number):
    text = ""
    for sign, value in SIGNS.items():
        while number >= value:
            text, number = text + sign, number - value
    return text


def from_roman(text):
    return sum(SIGNS[sign] for sign in text)
"""
TESTS = """\
import pytest
from roman import from_roman, to_roman

PAIRS = [(1, "I"), (3, "III"), (4, "IV"), (9, "IX"), (14, "XIV"), (40, "XL"), (90, "XC"), (1994, "MCMXCIV")]


@pytest.mark.parametrize("number, text", PAIRS)
def test_to_roman(number, text):
    assert to_roman(number) == text


@pytest.mark.parametrize("number, text", PAIRS)
def test_from_roman(number, text):
    assert from_roman(text) == number


def test_small_letters_are_read():
    assert from_roman("xiv") == 14


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_what_has_no_roman_number_is_refused(number):
    with pytest.raises(ValueError):
        to_roman(number)
"""
SIGNS = 'SIGNS = {"M": 1000, "D": 500, "C": 100, "L": 50, "X": 10, "V": 5, "I": 1}'
WITH_PAIRS = SIGNS.replace('"D"', '"CM": 900, "D"').replace('"C": 100', '"CD": 400, "C": 100')
WITH_PAIRS = WITH_PAIRS.replace('"L"', '"XC": 90, "L"').replace('"X": 10', '"XL": 40, "X": 10')
WITH_PAIRS = WITH_PAIRS.replace('"V"', '"IX": 9, "V"').replace('"I"', '"IV": 4, "I"')
SUM = "    return sum(SIGNS[sign] for sign in text)\n"
READ = """\
    values = [SIGNS[sign] for sign in text] + [0]
    return sum(-value if value < after else value for value, after in zip(values, values[1:]))
"""
REFUSE = '    if not 0 < number < 4000:\n        raise ValueError(f"{number} has no Roman number")\n'
FIRST_LINE = '    text = ""\n'


def edit(said: str, old: str, new: str) -> list[Any]:
    """A response that edits the module."""
    return [say(said), call("edit_file", path="roman.py", old=old, new=new)]


class _NextWord:
    async def wait(self) -> None:
        await asyncio.sleep(PACE)


def responses() -> list[Any]:
    """The script of the model: five edits, one of which makes it worse, and a claim that comes too early."""
    chatter = "I will now go through all of the code once more, add comments and tidy up as I see fit. ".split()
    words = [one for number in range(WORDS) for one in (_NextWord(), say(f"{chatter[number % len(chatter)]} "))]
    return [
        [call("read_file", path="roman.py"), call("read_file", path="test_roman.py")],
        edit("Pairs such as IV are missing.", SIGNS, WITH_PAIRS),
        edit("Reading has to subtract, too.", SUM, READ),
        [call("finish_task", summary="All tests pass now.")],
        edit("What has no Roman number is refused.", FIRST_LINE, f"{REFUSE.replace('0 <', '9 <')}{FIRST_LINE}"),
        edit("That refuses too much.", "9 < number", "0 < number"),
        edit("Small letters are left.", "for sign in text]", "for sign in text.upper()]"),
        [*words, call("edit_file", path="roman.py", old="SIGNS", new="ROMAN_SIGNS")],
    ]


async def run(record: Path = RECORD) -> None:
    """Let the model work in a temporary folder and record the run."""
    record.unlink(missing_ok=True)
    with TemporaryDirectory() as folder:
        (Path(folder) / "roman.py").write_text(ROMAN)
        (Path(folder) / "test_roman.py").write_text(TESTS)
        until = Until("pytest -q", guard=["test_*.py"], score=SCORE)
        engine = Engine(Scripted(*responses()), tools=workspace_tools(folder), until=until)
        outcome = await engine.run(TASK, record=record)
    print(f"{outcome.stop_reason} after {outcome.steps} steps: {outcome.detail}")


class Checked(NamedTuple):
    """An answer of the check: the step after which the work was like that, the score, and the most that it can be."""

    step: int
    score: float
    of: float
    is_met: bool


def answers(events: Sequence[Event]) -> Iterator[Checked]:
    """The answers of the check in a run, each at the step whose work it saw."""
    facts, step = Facts(), 0
    for event in events:
        facts = fold(facts, event)
        match event:
            case ev.CheckStarted():
                step = event.step
            case ev.CheckEnded() if facts.check is not None and facts.check.score is not None:
                yield Checked(step, facts.check.score, facts.check.of or 0, event.said == "met")


def doings(events: Sequence[Event]) -> dict[int, list[str]]:
    """What the model did in each step, and what became of it, in a few words a line."""
    words = {"read_file": "reads", "edit_file": "edits", "finish_task": "says done,"}
    did: dict[int, list[str]] = {}
    for event in events:
        match event:
            case ev.ResponseFinished(cut_for=""):
                did[event.step] = [words[event.message.calls[0].name]]
            case ev.CompletionRejected():
                did[max(did)].append("handed back")
    return did


def picture(record: Path = RECORD) -> str:
    """The picture of a record, as SVG."""
    events = [event for run in read_record(record).runs for event in run.events]
    points = list(answers(events))
    shown = [*_axes(points[0].of), *_curve(points)]
    for step, lines in doings(events).items():
        for number, (words, colour) in enumerate(zip(lines, (QUIET, BAD), strict=False)):
            shown.append(_text(_x(step), BOTTOM + 40 + 16 * number, words, colour, anchor="middle"))
    shown += _cut_response(events)
    title = f"Score of the check over the steps of a run; it ends in the middle of step {points[-1].step + 1}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{BACKGROUND}"/>\n'
        + "\n".join([_text(LEFT, 30, f"endstop run \"{TASK}\" --until 'pytest -q'", STRONG), *shown])
        + "\n</svg>\n"
    )


def _x(step: float) -> float:
    return LEFT + step * STEP


def _y(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


def _axes(of: float) -> Iterator[str]:
    """The lines of no test and of all tests, and the number of each step."""
    for share, words in ((0.0, "0"), (0.5, f"{of / 2:g}"), (1.0, f"{of:g}")):
        yield _line(LEFT, _y(share), WIDTH - EDGE, _y(share), FRAME)
        yield _text(LEFT - 10, _y(share) + 4, words, QUIET, anchor="end")
    yield _text(EDGE, TOP - 20, "tests that pass", QUIET)
    yield _text(LEFT, BOTTOM + 22, "start", QUIET, anchor="middle")
    for step in range(1, STEPS + 1):
        yield _text(_x(step), BOTTOM + 22, f"step {step}" if step == 1 else f"{step}", COLOUR, anchor="middle")


def _curve(points: Sequence[Checked]) -> Iterator[str]:
    """The score after each step that was checked; the work stays as it is between two of them."""
    places = [(_x(one.step), _y(one.score / one.of)) for one in points]
    path = f"M{places[0][0]} {places[0][1]}" + "".join(f"H{x}V{y}" for x, y in places[1:])
    yield f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="2"/>'
    for one, (x, y), before in zip(points, places, [None, *points], strict=False):
        colour = GOOD if one.is_met else WARNING if before and one.score < before.score else LINE
        yield f'<circle cx="{x}" cy="{y}" r="{6 if one.is_met else 4}" fill="{colour}"/>'
        below = before is not None and one.score < before.score
        words = f"{one.score:g} of {one.of:g}"
        yield _text(x, y + 20 if below else y - 10, words, colour, anchor="start" if one is points[0] else "middle")


def _cut_response(events: Sequence[Event]) -> Iterator[str]:
    """The response that was cut: what was read of it, and what the model had left to write."""
    cut = next(event for event in events if isinstance(event, ev.ResponseFinished) and event.cut_for)
    read = len(cut.message.text.split())
    begin, end, y = _x(cut.step) - 8, WIDTH - EDGE, BOTTOM + 48
    at = begin + (end - begin) * read / WORDS
    yield f'<rect x="{begin}" y="{y - 12}" width="{at - begin:.1f}" height="16" fill="{LINE}"/>'
    yield (
        f'<rect x="{at:.1f}" y="{y - 12}" width="{end - at:.1f}" height="16" fill="none" stroke="{QUIET}" '
        'stroke-dasharray="4 3"/>'
    )
    yield _line(at, _y(1), at, y + 4, GOOD, ' stroke-dasharray="3 3"')
    yield _text(at + 8, _y(1) + 22, "the check is met:", GOOD)
    yield _text(at + 8, _y(1) + 38, "the response is cut,", GOOD)
    yield _text(at + 8, _y(1) + 54, "the run ends", GOOD)
    yield _text(begin, y + 24, f"{read} words read; {WORDS - read} more and", QUIET)
    yield _text(begin, y + 40, "an edit were left to write", QUIET)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def _text(x: float, y: float, words: str, colour: str, *, anchor: str = "start") -> str:
    edge = f'stroke="{BACKGROUND}" stroke-width="4" paint-order="stroke"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {edge} text-anchor="{anchor}">{escape(words)}</text>'


if __name__ == "__main__":
    if "--run" in sys.argv:
        asyncio.run(run())
    PICTURE.write_text(picture(), encoding="utf-8")
