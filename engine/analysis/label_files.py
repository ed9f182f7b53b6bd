"""Readers of files in which other programs say which sessions were good, in the forms that benchmarks and people write.

- SWE-bench: a report with lists of ids (`resolved`, `unresolved_ids`, ...), or an object of instances with `resolved`.
- A JSON object of ids, each with true or false, a number, a word, or an object that has one of them and a `model`.
- CSV with a header line, JSON Lines, or a JSON array of objects; each with an id and a verdict (`ID_COLUMNS`,
  `VERDICT_COLUMNS`), such as the results of tau-bench (`task_id`, `trial`, `reward`).

A verdict is true or false, a word of `VERDICT_WORDS`, or a number up to 1, which is good from `GOOD_NUMBER` on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from ..base.sanitize import one_line
from ..decision import WrongUse
from .rows import FilePath, Row, csv_rows, json_rows, read_text

ID_COLUMNS = ("session_id", "session", "instance_id", "run_id", "run", "id")
"""Column names of a row's id, in the order in which they are tried. If none is present, `task_id` and `trial` are
used."""
MODEL_COLUMNS = ("model", "model_name", "model_name_or_path")
VERDICT_COLUMNS = ("resolved", "good", "correct", "passed", "success", "verdict", "label", "reward")
"""Column names of a row's verdict. The first that is present counts."""
GOOD_NUMBER = 1.0
"""A reward or another number is good from this value on."""
_TOLERANCE = 1e-6
VERDICT_WORDS = {
    **dict.fromkeys(("good", "pass", "passed", "yes", "true", "ok", "right", "correct", "success", "succeeded"), True),
    **dict.fromkeys(("resolved", "solved"), True),
    **dict.fromkeys(("bad", "fail", "failed", "no", "false", "wrong", "incorrect", "failure"), False),
    **dict.fromkeys(("unresolved", "unsolved"), False),
}
UNKNOWN_WORDS = frozenset({"", "unknown", "none", "null", "na", "n/a", "nan", "not_run", "not run"})
"""Words that mean that there is no verdict."""
GOOD_LISTS = frozenset({"resolved", "resolved_ids"})
BAD_LISTS = frozenset(
    {"unresolved", "unresolved_ids", "no_generation", "empty_patch_ids", "applied", "completed", "completed_ids"}
)
"""Lists of a SWE-bench report whose ids are bad, unless `GOOD_LISTS` has them. Other lists say nothing about the work:
what was submitted, was not run, has no logs, or whose evaluation ended in an error."""


class Label(Struct, frozen=True, kw_only=True):
    """The label that a file gives to one session or run."""

    id: str
    good: bool
    model: str = ""
    """Name of the model; empty if the file names none."""
    value: bool | int | float | str = ""
    """The verdict as written in the file."""
    where: str
    """The file, and the line or element."""


def read_label_file(path: FilePath) -> list[Label]:
    """Return the labels of a file, each id and model once.

    Raises WrongUse if its form is unknown, or if it contradicts itself or has no labels.
    """
    labels: dict[tuple[str, str], Label] = {}
    for label in _labels_in(path, read_text(path, "labels")):
        before = labels.setdefault((label.id, label.model), label)
        if before.good != label.good:
            raise WrongUse(
                f"{label.where}: {one_line(label.id, 200)} is {_word(label.good)} here, but {_word(before.good)} in "
                f"{before.where}: keep one of the two, or name the model of each (column `model`, or MODEL/ID)"
            )
    if not labels:
        raise WrongUse(f"{path} holds no labels: write one per line, under a header such as `id,resolved`")
    return list(labels.values())


def _word(good: bool) -> str:
    return "good" if good else "bad"


def _labels_in(path: FilePath, text: str) -> Iterator[Label]:
    begins = text.lstrip()[:1]
    whole = _decode_whole(text) if begins in ("{", "[") else None
    if isinstance(whole, list):
        yield from _array_labels(path, whole)
    elif isinstance(whole, dict) and not _is_row(whole):
        yield from _object_labels(path, whole)
    elif begins == "[":
        raise WrongUse(f"{path} is not valid JSON: it begins as an array, and cannot be decoded")
    elif begins == "{":
        for number, row in json_rows(path, text, '{"id": ..., "resolved": true}'):
            yield from _row_labels(f"{path}, line {number}", row)
    else:
        for number, row in csv_rows(path, text, partial(_check_header, path)):
            yield from _row_labels(f"{path}, line {number}", row)


def _decode_whole(text: str) -> Any:
    """Return the text as one JSON value; None if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


# ---- rows


def _is_row(entry: Row) -> bool:
    """Return whether an object is a row: the label of one session."""
    named = any(isinstance(entry.get(name), str | int) for name in (*ID_COLUMNS, "task_id"))
    return named and any(name in entry for name in VERDICT_COLUMNS)


def _check_header(path: FilePath, head: Sequence[str]) -> None:
    if not {*head} & {*ID_COLUMNS, "task_id"} or not {*head} & {*VERDICT_COLUMNS}:
        raise WrongUse(
            f"{path} is not in a known form of labels. For CSV, write a header line with an id "
            f"({', '.join(ID_COLUMNS)}, or task_id and trial) and a verdict ({', '.join(VERDICT_COLUMNS)}), such as "
            "`id,resolved`"
        )


def _array_labels(path: FilePath, entries: Sequence[Any]) -> Iterator[Label]:
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise WrongUse(f'{path}, element {number} is not an object: write {{"id": ..., "resolved": true}}')
        yield from _row_labels(f"{path}, element {number}", entry)


def _row_labels(where: str, row: Row) -> Iterator[Label]:
    """Yield the label of a row; none if its verdict is empty."""
    id = next((found for name in ID_COLUMNS if (found := _cell(row.get(name)))), "") or _task_id(row)
    if not id:
        raise WrongUse(f"{where}: no id: write one under {', '.join(ID_COLUMNS)}, or task_id and trial")
    if not any(name in row for name in VERDICT_COLUMNS):
        raise WrongUse(f"{where}: no verdict: write one under {', '.join(VERDICT_COLUMNS)}")
    model = next((found for name in MODEL_COLUMNS if (found := _cell(row.get(name)))), "")
    yield from _label(where, id, next(row[name] for name in VERDICT_COLUMNS if name in row), model)


def _task_id(row: Row) -> str:
    """Return the id that the import gives to a session of tau-bench."""
    task, trial = _cell(row.get("task_id")), _cell(row.get("trial"))
    return "" if not task else f"task-{task}.trial-{trial}" if trial else f"task-{task}"


def _cell(value: Any) -> str:
    """Return an id or a name as text; empty if there is none."""
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


# ---- objects


def _object_labels(path: FilePath, whole: Mapping[str, Any]) -> Iterator[Label]:
    if any(isinstance(whole.get(name), list) for name in GOOD_LISTS):
        yield from _report_labels(path, whole)
        return
    for id, value in whole.items():
        named = one_line(repr(id), 200)
        where = f"{path}, {named}"
        if isinstance(value, dict):
            name = next((name for name in VERDICT_COLUMNS if name in value), None)
            model = next((found for name in MODEL_COLUMNS if (found := _cell(value.get(name)))), "")
            if name is None:
                raise WrongUse(f"{where}: its object has no verdict: write one under {', '.join(VERDICT_COLUMNS)}")
            yield from _label(where, id, value[name], model)
        elif value is None or isinstance(value, bool | int | float | str):
            yield from _label(where, id, value)
        else:
            raise WrongUse(
                f"{path} is not in a known form of labels: {named} holds {type(value).__name__}. Write an object "
                "of ids with true or false, a report of SWE-bench with `resolved` or `resolved_ids`, JSON Lines or CSV"
            )


def _report_labels(path: FilePath, report: Mapping[str, Any]) -> Iterator[Label]:
    """Yield the labels of a SWE-bench report. Ids that no list calls good or bad have none."""
    good: dict[str, str] = {}
    bad: dict[str, str] = {}
    for name, ids in report.items():
        lists = good if name in GOOD_LISTS else bad if name in BAD_LISTS else None
        if lists is not None and isinstance(ids, list):
            for id in ids:
                if not isinstance(id, str):
                    raise WrongUse(
                        f"{path}, {name}: {one_line(repr(id), 80)} is not an id: write the names of the instances"
                    )
                lists.setdefault(id, name)
    for id, name in good.items():
        if bad.get(id, "").startswith("unresolved"):
            raise WrongUse(f"{path}: {id} is in `{name}` and in `{bad[id]}`: keep one of the two")
        yield Label(id=id, good=True, value=name, where=f"{path}, {name}")
    for id, name in bad.items():
        if id not in good:
            yield Label(id=id, good=False, value=name, where=f"{path}, {name}")


# ---- one label


def _label(where: str, id: str, value: Any, model: str = "") -> Iterator[Label]:
    """Yield the label with this verdict; none if the verdict says that there is none."""
    id = id.strip()
    if not id:
        raise WrongUse(f"{where}: the id is empty")
    good = _parse_verdict(where, value)
    if good is not None:
        yield Label(id=id, good=good, model=model, value=value, where=where)


def _parse_verdict(where: str, value: Any) -> bool | None:
    """Return whether a verdict is good; None if it says that there is no verdict."""
    if value is None or isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if isinstance(value, str) and word in UNKNOWN_WORDS:
        return None
    if word in VERDICT_WORDS:
        return VERDICT_WORDS[word]
    number = _number(value)
    if number is None or number > GOOD_NUMBER + _TOLERANCE:
        raise WrongUse(
            f"{where}: the verdict is {one_line(repr(value), 80)}: write true or false, good or bad, passed or failed, "
            f"resolved or unresolved, or a number up to {GOOD_NUMBER:g}, which alone is good"
        )
    return number >= GOOD_NUMBER - _TOLERANCE


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
