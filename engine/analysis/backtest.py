"""Backtest of many records: several policies in one pass over all of them."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .._version import __version__
from ..decision import Policy, WrongUse
from ..decision.policy_files import with_setting
from ..decision.summary import Point
from ..records.index import Index, remembered
from ..records.parallel import Failure, Progress
from ..records.scan import scan
from .sessions import SessionTested, session_tested
from .totals import Case, PolicyTotals, Tally, case_of
from .unread import BadRecord, read_in_part

MADE = 1
"""Goes up whenever the same record is tested otherwise than before: what an index holds is then made anew."""
_decode = msgspec.msgpack.Decoder(SessionTested).decode


class Named(Struct, frozen=True):
    """A policy under the name that it has in a table: its own, or the setting that was swept."""

    name: str
    policy: Policy
    value: float | str | None = None
    """Of the swept setting."""


class BacktestReport(Struct, frozen=True, kw_only=True):
    """What the policies make of all records."""

    sessions: int
    runs: int
    used: Point
    recorded_policies: dict[str, int]
    """Sessions by the name of the policy that they were recorded under."""
    verdicts: dict[str, int]
    against: str | None = None
    """The policy that the others are compared with, beside the record."""
    swept: str | None = None
    """The setting that was swept."""
    policies: tuple[PolicyTotals, ...]
    bad: tuple[BadRecord, ...] = ()
    damaged: tuple[BadRecord, ...] = ()
    """Records that were read, but for some of their lines."""


def tested_record(policies: Sequence[Policy], path: Path) -> bytes:
    """One record under each policy, encoded. Raises WrongUse for what is none."""
    events = scan(path)
    tested = session_tested(events, policies)
    return msgspec.msgpack.encode(replace(tested, damaged=events.damaged_lines, lost=events.lost))


def index_for(policies: Sequence[Named], place: str | None = None) -> Index:
    """The index of what these policies make of records."""
    plain = msgspec.json.encode([named.policy for named in policies])
    return Index(f"backtest {sha256(plain).hexdigest()[:16]}", f"{__version__}.{MADE}", place)


def backtest_records(
    paths: Sequence[Path],
    policies: Sequence[Named],
    *,
    against: Named | None = None,
    swept: str | None = None,
    index: Index | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    watch: Callable[[str, Case], None] | None = None,
) -> BacktestReport:
    """Test every record under each policy. Files that cannot be read are listed in the report.

    against: one more policy, with which the others are compared. index: of `index_for` these policies, that one
    included. watch: gets each policy's name and each case.
    """
    every = [*policies, *([against] if against is not None else [])]
    work = partial(tested_record, [named.policy for named in every])
    tallies = [Tally(named.name, named.value) for named in every]
    sessions = runs = 0
    used = Point()
    recorded: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    bad, damaged = [], []
    for path, result in remembered(index, work, paths, processes=processes, progress=progress):
        if isinstance(result, Failure):
            bad.append(BadRecord(str(path), result.message))
            continue
        tested = _decode(result)
        if (partly := read_in_part(str(path), tested.damaged, tested.lost, "tested")) is not None:
            damaged.append(partly)
        sessions, runs, used = sessions + 1, runs + tested.runs, used + tested.used
        recorded[tested.policy] += 1
        verdicts[tested.verdict] += 1
        other = tested.findings[-1] if against is not None else None
        for number, tally in enumerate(tallies):
            case = case_of(str(path), tested, number)
            tally.add(case, other)
            if watch is not None:
                watch(every[number].name, case)
    return BacktestReport(
        sessions=sessions,
        runs=runs,
        used=used,
        recorded_policies=dict(recorded),
        verdicts=dict(verdicts),
        against=against.name if against is not None else None,
        swept=swept,
        policies=tuple(tally.totals() for tally in tallies),
        bad=tuple(bad),
        damaged=tuple(damaged),
    )


# A sweep: one policy, with one of its settings at many values.

MOST = 200
"""Values of a sweep."""


def sweep(policy: Policy, given: str) -> tuple[str, list[Named]]:
    """The setting and the policies for `SETTING=FROM:TO:STEP` (both ends included) or `SETTING=VALUE,VALUE,...`.

    Raises WrongUse for what is none, for a setting that does not exist and for values that it does not take.
    """
    setting, equals, text = given.partition("=")
    setting = setting.strip()
    if not equals or not setting or not text.strip():
        raise WrongUse(f"--sweep {given}: write SETTING=FROM:TO:STEP, as limits.steps=5:40:5, or SETTING=VALUE,VALUE")
    values = _range(given, text) if ":" in text else [_value(given, word) for word in text.split(",")]
    named = []
    for value in values:
        try:
            changed = with_setting(policy, setting, value)
        except WrongUse as error:
            raise WrongUse(f"--sweep {given}: {error}") from None
        shown = _shown(value)
        named.append(Named(shown, changed, shown if isinstance(value, str | bool) else value))
    return setting, named


def _range(given: str, text: str) -> list[int | float]:
    try:
        first, last, step = (Decimal(word) for word in text.split(":"))
    except (ValueError, InvalidOperation):
        raise WrongUse(f"--sweep {given}: write FROM:TO:STEP in numbers, as 5:40:5") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0 or last < first:
        raise WrongUse(f"--sweep {given}: from {first} to {last} no step of {step} leads; use a step above 0")
    if (last - first) / step >= MOST:
        raise WrongUse(f"--sweep {given}: these are more than {MOST} values; use a larger step")
    count = int((last - first) / step) + 1
    values = [first + step * number for number in range(count)]
    whole = all(value == value.to_integral_value() for value in (first, step))
    return [int(value) if whole else float(value) for value in values]


def _value(given: str, word: str) -> Any:
    """One value as it would stand in a policy file; a bare word is a text."""
    word = word.strip()
    if not word:
        raise WrongUse(f"--sweep {given}: a value is empty")
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
