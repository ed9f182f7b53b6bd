"""Labels of runs: whether the work was good, and when it was done, from ratings, labels, evaluations and rewards.

Ratings come from a file, CSV with a header line or JSON Lines, distinguished by content. Each line has an id
(`session_id`, `session`, `run_id`, `run` or `id`) and a `rating`, a `kind` of task, or both. A rating is good, bad,
pass, fail, yes, no, a number from 0 to 1, or a number with its scale: `4.5/5`, or 4.5 with a `scale` column of 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from statistics import fmean, stdev
from typing import Any, Literal

from msgspec import Struct

from ..decision import WrongUse
from ..decision.events import is_imported
from .rows import FilePath, Row, csv_rows, json_rows, read_text
from .summary import ResourceUse, RunSummary

GOOD_FROM = 0.5
"""Rewards and ratings from this value on are good."""
ID_COLUMNS = ("session_id", "session", "run_id", "run", "id")
RATING_WORDS = {
    **dict.fromkeys(("good", "pass", "passed", "yes", "true", "ok"), 1.0),
    **dict.fromkeys(("bad", "fail", "failed", "no", "false"), 0.0),
}
LIMITS = frozenset({"step_limit", "tool_call_limit", "token_limit", "cost_limit", "time_limit"})
LabelSource = Literal["rating", "label", "evaluation", "reward", ""]
"""Source of a label; empty if there is none."""
WorkState = Literal["checked", "said", "said_after_failures", "wrong", "not_said"]
"""How good the work of a run is known to be.

checked, wrong: it was evaluated as good or bad. said: it was reported as done, and never evaluated.
said_after_failures: the same, but tools had failed before and did not succeed later. not_said: it was never reported
as done.
"""
Anchor = Literal["said", "changed", "checked"]
"""Where a run could have ended.

said: a completion call, or a text that ends the work, accepted or not. changed: the last change of the work. checked:
the first check that passed since that change (`anchors.py`).
"""
MANY_STEPS_AFTER = 5
"""Number of steps after the last change from which they are many. A few are to be expected: a look at it, a test, the
report."""
RunEnd = Literal["completion", "text", "limit", "other", "unfinished"]
"""How a run ended.

completion: by an accepted completion. text: by a plain answer. limit: by a limit on steps, calls, tokens, cost or
time. other: any other stop reason. unfinished: the record ends before the run does.
"""


class LabelledRun(Struct, frozen=True, kw_only=True):
    """A run and what is known about its work."""

    digest: RunSummary
    kind: str = ""
    """Kind of task; empty if not given."""
    good: bool | None = None
    """Whether the work was good; None if the run has no rating, label, evaluation or reward."""
    by: LabelSource = ""
    done: ResourceUse | None = None
    """Tokens and steps up to the report that the work was done; None if there was no such report."""

    @property
    def ended(self) -> RunEnd:
        """How the run ended, by its stop reason."""
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
        """How good its work is known to be, including from ratings and rewards."""
        if self.good is not None:
            return "checked" if self.good else "wrong"
        if not self.ended_as_done or self.done is None:
            return "not_said"
        return "said_after_failures" if self.digest.failed_calls else "said"

    @property
    def ended_as_done(self) -> bool:
        """Whether it ended with the status `completed`."""
        return self.digest.status == "completed"

    @property
    def waste(self) -> ResourceUse | None:
        """Tokens and steps after the work was reported as done; None if it never was reported."""
        return None if self.done is None else self.digest.used_after(self.done)

    def used_after(self, anchor: Anchor) -> ResourceUse | None:
        """Return what was used after an anchor; None if the run has no anchor of this kind."""
        match anchor:
            case "said":
                return self.digest.after_said
            case "changed":
                return self.digest.after_change
            case "checked":
                return self.digest.after_check

    @property
    def imported(self) -> bool:
        """Whether it was imported from another loop, whose limits are unknown."""
        return is_imported(self.digest.engine)


def label_run(
    digest: RunSummary, kind: str = "", rating: float | None = None, verdict: bool | None = None
) -> LabelledRun:
    """Label a run. A rating takes precedence over the verdict of a file of labels, an evaluation over a reward.

    verdict: whether the run was good according to a label; None without one. It never contradicts an evaluation
    (`labels.py`).
    """
    good, by = _label_of(digest, rating, verdict)
    return LabelledRun(digest=digest, kind=kind, good=good, by=by, done=_reported_done(digest, good))


def _label_of(digest: RunSummary, rating: float | None, verdict: bool | None) -> tuple[bool | None, LabelSource]:
    if rating is not None:
        return rating >= GOOD_FROM, "rating"
    if verdict is not None and digest.verdict == "not_run":
        return verdict, "label"
    if digest.verdict != "not_run":
        return digest.verdict == "passed", "evaluation"
    if digest.reward is not None:
        return digest.reward >= GOOD_FROM, "reward"
    return None, ""


def _reported_done(digest: RunSummary, good: bool | None) -> ResourceUse | None:
    """Return what had been used when the work was reported as done: at the accepted completion, or at the last text.

    If the run ended well, the model's first claim to be done counts instead, provided that it did nothing afterwards
    except repeat the claim.
    """
    done, claimed = digest.done, digest.claimed
    ends_well = good is True or (digest.status == "completed" and good is None)
    if claimed is None or not ends_well:
        return done
    return claimed if done is None or claimed.steps < done.steps else done


# ---- ratings by users


class Rating(Struct, frozen=True, kw_only=True):
    """A user's rating of one session or run."""

    rating: float | None = None
    """From 0 (bad) to 1 (good): the value in the file, divided by its scale."""
    kind: str = ""
    """Kind of task; empty if the file gives none."""


NO_RATING = Rating()


class RatingStatistics(Struct, frozen=True, kw_only=True):
    """Number of ratings that matched a session or run, and their distribution. All are scaled to the range 0 to 1."""

    given: int
    used: int
    unmatched: tuple[str, ...]
    """Ids that do not match any session or run of these records."""
    rated: int = 0
    """Number of ids in `used` with a rating, not just a kind of task."""
    mean: float | None = None
    """Mean of these ratings; None if there are none."""
    deviation: float | None = None
    """Sample standard deviation; None for fewer than two."""
    lowest: float | None = None
    highest: float | None = None


class Ratings:
    """Ratings by id. Keeps track of the ids that were looked up."""

    def __init__(self, given: Mapping[str, Rating] | None = None) -> None:
        self._ratings = dict(given or {})
        self._used: set[str] = set()

    def __len__(self) -> int:
        return len(self._ratings)

    @property
    def used(self) -> int:
        """Number of ids that belong to a session or run, that is, that were looked up."""
        return len(self._used)

    @property
    def statistics(self) -> RatingStatistics:
        """Number of ratings that belong to a session or run that was looked up, and their distribution."""
        values = [value for id in self._ratings if id in self._used and (value := self._ratings[id].rating) is not None]
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
        """Ids that no session or run has had so far, in the order of the file."""
        return tuple(id for id in self._ratings if id not in self._used)

    def rating_of(self, id: str) -> Rating:
        """Return the rating of a session or run; an empty one if there is none."""
        found = self._ratings.get(id)
        if found is None:
            return NO_RATING
        self._used.add(id)
        return found


def read_ratings(path: FilePath) -> Ratings:
    """Read a file of ratings. Raises WrongUse that names the wrong line and what is expected."""
    ratings: dict[str, Rating] = {}
    lines: dict[str, int] = {}
    for number, entry in _entries(path):
        id, rating = _parse_entry(f"{path}, line {number}", entry)
        if id in ratings and ratings[id] != rating:
            raise WrongUse(f"{path}, line {number}: {id} has another rating in line {lines[id]}: keep one of the two")
        ratings[id], lines[id] = rating, number
    if not ratings:
        raise WrongUse(f"{path} holds no ratings: write one per line, under a header such as `session_id,rating`")
    return Ratings(ratings)


def _entries(path: FilePath) -> Iterator[tuple[int, Row]]:
    """Yield each line that is not blank, with its number."""
    text = read_text(path, "ratings")
    if text.lstrip()[:1] == "{":
        return json_rows(path, text, '{"session_id": ..., "rating": ...}')
    if text.lstrip()[:1] == "[":
        raise WrongUse(f"{path} is a JSON array: write one object per line (JSON Lines), or CSV")
    return csv_rows(path, text, partial(_check_header, path))


def _check_header(path: FilePath, head: Sequence[str]) -> None:
    if not set(head) & set(ID_COLUMNS) or not set(head) & {"rating", "kind"}:
        raise WrongUse(
            f"{path}: the first line must be a header with an id column ({', '.join(ID_COLUMNS)}) and `rating`, `kind` "
            "or both, such as `session_id,rating`"
        )


def _parse_entry(where: str, entry: Row) -> tuple[str, Rating]:
    id = next((str(entry[name]).strip() for name in ID_COLUMNS if entry.get(name) not in (None, "")), "")
    if not id:
        raise WrongUse(f"{where}: no id: write one under {', '.join(ID_COLUMNS)}")
    rating = _parse_rating(where, entry.get("rating"), entry.get("scale"))
    kind = entry.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise WrongUse(f"{where}: kind is {kind!r}: write a word such as look_up")
    if rating is None and not (kind or "").strip():
        raise WrongUse(f"{where}: neither a rating nor a kind: write one of them")
    return id, Rating(rating=rating, kind=(kind or "").strip())


def _parse_rating(where: str, cell: Any, scale: Any) -> float | None:
    """Return a rating from 0 to 1; None for an empty cell."""
    best = None if _is_blank(scale) else _parse_scale(where, scale)
    if _is_blank(cell):
        return None
    word = str(cell).strip().lower()
    if word in RATING_WORDS:
        return RATING_WORDS[word]
    value, slash, of = word.partition("/")
    if slash:
        stated = _parse_scale(where, of)
        if best is not None and best != stated:
            raise WrongUse(f"{where}: rating is {cell!r}, but scale is {scale!r}: give one scale")
        best = stated
    rating = _parse_number(value)
    if rating is None or not 0 <= rating <= (best or 1):
        wanted = f"a number from 0 to {best:g}" if best is not None else "a number from 0 to 1, or one with its scale"
        raise WrongUse(
            f"{where}: rating is {cell!r}: write good, bad, pass, fail, yes, no, or {wanted}"
            + (", such as 4.5/5" if best is None else "")
        )
    return rating / (best or 1)


def _parse_scale(where: str, cell: Any) -> float:
    scale = None if isinstance(cell, bool) else _parse_number(str(cell))
    if scale is None or scale <= 0:
        raise WrongUse(
            f"{where}: scale is {str(cell).strip()!r}: write the best possible rating, a number above 0 such as 5"
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
