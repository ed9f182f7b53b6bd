"""One run, and what is known of the work itself: whether it was good, and when it was done."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..decision import WrongUse
from ..decision.summary import ResourceUse, RunSummary

GOOD_FROM = 0.5
"""A reward or rating of this or more is good."""
ID_COLUMNS = ("session_id", "session", "run_id", "run", "id")
RATING_WORDS = {
    **dict.fromkeys(("good", "pass", "passed", "yes", "true", "ok"), 1.0),
    **dict.fromkeys(("bad", "fail", "failed", "no", "false"), 0.0),
}
MAX_FILE_BYTES = 256 * 1024 * 1024
"""Bytes of the file."""
LIMITS = frozenset({"step_limit", "tool_call_limit", "token_limit", "cost_limit", "time_limit"})
LabelSource = Literal["rating", "evaluation", "reward", ""]
"""Who says whether a run was good."""
WorkState = Literal["checked", "said", "said_after_failures", "wrong", "not_said"]
"""What is known of a run's work, in the words of a report.

checked, wrong: somebody has judged it. said: it was reported as done, and nobody has looked. said_after_failures: the
same, although calls had failed before it and nothing made up for that. not_said: nobody said that it was done.
"""
RunEnd = Literal["completion", "text", "limit", "other", "unfinished"]
"""How a run ended, in the words of a report.

completion: an accepted one. text: a plain answer. limit: of steps, calls, tokens, cost or time. other: all other stop
reasons. unfinished: the record ends before the run does.
"""


class LabelledRun(Struct, frozen=True, kw_only=True):
    """A run with what is said of it."""

    digest: RunSummary
    kind: str = ""
    """Of its task, where given."""
    good: bool | None = None
    """None if nobody says."""
    by: LabelSource = ""
    done: ResourceUse | None = None
    """What was used when the work was reported as done, as far as anybody can tell; None if it never was."""

    @property
    def ended(self) -> RunEnd:
        """How it ended."""
        match self.digest.stop_reason:
            case "":
                return "unfinished"
            case "completed":
                return "completion"
            case "text_final":
                return "text"
            case reason:
                return "limit" if reason in LIMITS else "other"

    @property
    def known(self) -> WorkState:
        """What is known of its work, a user's rating and a bare reward included."""
        if self.good is not None:
            return "checked" if self.good else "wrong"
        if not self.ended_as_done:
            return "not_said"
        return "said_after_failures" if self.digest.failed_calls else "said"

    @property
    def ended_as_done(self) -> bool:
        """Whether it ended as reported as done."""
        return self.digest.status == "completed"

    @property
    def waste(self) -> ResourceUse | None:
        """What was used after the work was reported as done; None where it never was."""
        return None if self.done is None else self.digest.end.since(self.done)

    @property
    def imported(self) -> bool:
        """Whether another loop made it: its limits are then not known."""
        return self.digest.engine.startswith("import:")


def label_run(digest: RunSummary, kind: str = "", rating: float | None = None) -> LabelledRun:
    """What is known of a run. The user's own rating counts before the evaluation, and that before a bare reward."""
    good, by = _label_of(digest, rating)
    return LabelledRun(digest=digest, kind=kind, good=good, by=by, done=_reported_done(digest, good))


def _label_of(digest: RunSummary, rating: float | None) -> tuple[bool | None, LabelSource]:
    if rating is not None:
        return rating >= GOOD_FROM, "rating"
    if digest.verdict != "not_run":
        return digest.verdict == "passed", "evaluation"
    if digest.reward is not None:
        return digest.reward >= GOOD_FROM, "reward"
    return None, ""


def _reported_done(digest: RunSummary, good: bool | None) -> ResourceUse | None:
    """When the work was reported as done.

    That is at the accepted completion or the text that ended the run; and if the end is good, at the model's first
    word that it is done if it did nothing after it but say so again.
    """
    done, claimed = digest.done, digest.claimed
    ends_well = good is True or (digest.status == "completed" and good is None)
    if claimed is None or not ends_well:
        return done
    return claimed if done is None or claimed.steps < done.steps else done


# ---- ratings by users


class Rating(Struct, frozen=True, kw_only=True):
    """What a user says of one session or run."""

    rating: float | None = None
    """0 (bad) to 1 (good): what was given, divided by its scale."""
    kind: str = ""
    """Of the task."""


NO_RATING = Rating()


class RatingStatistics(Struct, frozen=True, kw_only=True):
    """What became of the users' own ratings. Ratings are from 0 to 1 here, whatever their scale was."""

    given: int
    used: int
    unmatched: tuple[str, ...]
    """Ids that belong to no session and no run of these records."""
    rated: int = 0
    """Those of `used` that have a rating, and not only a kind of task."""
    mean: float | None = None
    """Of these; None if there are none."""
    deviation: float | None = None
    """Their standard deviation, as that of a sample; None for fewer than two."""
    lowest: float | None = None
    highest: float | None = None


class Ratings:
    """All ratings, by id. It remembers which were asked for."""

    def __init__(self, given: Mapping[str, Rating] | None = None) -> None:
        self._given = dict(given or {})
        self._used: set[str] = set()

    def __len__(self) -> int:
        return len(self._given)

    @property
    def used(self) -> int:
        """How many belong to a session or run that was found."""
        return len(self._used)

    @property
    def statistics(self) -> RatingStatistics:
        """What became of them."""
        values = [value for id in self._given if id in self._used and (value := self._given[id].rating) is not None]
        return RatingStatistics(
            given=len(self),
            used=self.used,
            unmatched=self.unmatched,
            rated=len(values),
            mean=fmean(values) if values else None,
            deviation=stdev(values) if len(values) > 1 else None,
            lowest=min(values, default=None),
            highest=max(values, default=None),
        )

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Ids that belong to nothing that was found, in the order of the file."""
        return tuple(id for id in self._given if id not in self._used)

    def rating_of(self, id: str) -> Rating:
        """What is said of the session or run with this id."""
        found = self._given.get(id)
        if found is None:
            return NO_RATING
        self._used.add(id)
        return found


def read_ratings(path: str | os.PathLike[str]) -> Ratings:
    """Read a file of ratings. Raises WrongUse with the line that is wrong, and what should stand there."""
    given: dict[str, Rating] = {}
    lines: dict[str, int] = {}
    for number, entry in _entries(path):
        id, rating = _parse_entry(f"{path}, line {number}", entry)
        if id in given and given[id] != rating:
            raise WrongUse(f"{path}, line {number}: {id} is rated otherwise in line {lines[id]}: keep one of them")
        given[id], lines[id] = rating, number
    if not given:
        raise WrongUse(f"{path} holds no rating: a line has an id and a rating, as in `session_id,rating`")
    return Ratings(given)


def _entries(path: str | os.PathLike[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each line that is not blank, with its number."""
    text = _read_text(path)
    if text.lstrip()[:1] == "{":
        yield from _json_lines(path, text)
    elif text.lstrip()[:1] == "[":
        raise WrongUse(f"{path} is a JSON array: write one object a line (JSON Lines), or CSV")
    else:
        yield from _csv_rows(path, text)


def _read_text(path: str | os.PathLike[str]) -> str:
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise WrongUse(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MB: is it a file of ratings?")
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise WrongUse(f"cannot read the ratings {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path} is no text in UTF-8 (byte {error.start}): write CSV or JSON Lines") from None


def _json_lines(path: str | os.PathLike[str], text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise WrongUse(f"{path}, line {number} is no JSON: {error}") from None
        if not isinstance(entry, dict):
            raise WrongUse(f'{path}, line {number} is no JSON object: write {{"session_id": ..., "rating": ...}}')
        yield number, entry


def _csv_rows(path: str | os.PathLike[str], text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    lines = text.splitlines()
    separator = max(",;\t", key=(lines[0] if lines else "").count)
    rows = csv.reader(lines, delimiter=separator)
    head: list[str] | None = None
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if head is None:
                head = _parse_header(path, row)
            elif len(row) > len(head):
                raise WrongUse(f"{path}, line {rows.line_num}: {len(row)} cells under a head of {len(head)}")
            else:
                yield rows.line_num, dict(zip(head, row, strict=False))
    except csv.Error as error:
        raise WrongUse(f"{path}, line {rows.line_num} is no CSV: {error}") from None


def _parse_header(path: str | os.PathLike[str], row: Iterable[str]) -> list[str]:
    head = [cell.strip().lower().replace(" ", "_") for cell in row]
    if not set(head) & set(ID_COLUMNS) or not set(head) & {"rating", "kind"}:
        raise WrongUse(
            f"{path}: its first line is no head of a table of ratings: it names an id ({', '.join(ID_COLUMNS)}) and "
            "`rating`, `kind` or both, as in `session_id,rating`"
        )
    return head


def _parse_entry(where: str, entry: Mapping[str, Any]) -> tuple[str, Rating]:
    id = next((str(entry[name]).strip() for name in ID_COLUMNS if entry.get(name) not in (None, "")), "")
    if not id:
        raise WrongUse(f"{where}: no id: it stands under one of {', '.join(ID_COLUMNS)}")
    rating = _parse_rating(where, entry.get("rating"), entry.get("scale"))
    kind = entry.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise WrongUse(f"{where}: kind is {kind!r}: write a word, as look_up")
    if rating is None and not (kind or "").strip():
        raise WrongUse(f"{where}: neither a rating nor a kind")
    return id, Rating(rating=rating, kind=(kind or "").strip())


def _parse_rating(where: str, given: Any, scale: Any) -> float | None:
    """A rating from 0 to 1; None where the cell is empty."""
    best = None if _is_blank(scale) else _parse_scale(where, scale)
    if _is_blank(given):
        return None
    word = str(given).strip().lower()
    if word in RATING_WORDS:
        return RATING_WORDS[word]
    value, slash, of = word.partition("/")
    if slash:
        stated = _parse_scale(where, of)
        if best is not None and best != stated:
            raise WrongUse(f"{where}: rating is {given!r}, and scale is {scale!r}: give one scale")
        best = stated
    rating = _parse_number(value)
    if rating is None or not 0 <= rating <= (best or 1):
        wanted = f"a number from 0 to {best:g}" if best is not None else "a number from 0 to 1, or one with its scale"
        raise WrongUse(
            f"{where}: rating is {given!r}: write good, bad, pass, fail, yes, no, or {wanted}"
            + (", as 4.5/5" if best is None else "")
        )
    return rating / (best or 1)


def _parse_scale(where: str, given: Any) -> float:
    scale = None if isinstance(given, bool) else _parse_number(str(given))
    if scale is None or scale <= 0:
        raise WrongUse(
            f"{where}: scale is {str(given).strip()!r}: write the best rating there is, a number above 0, as 5"
        )
    return scale


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
