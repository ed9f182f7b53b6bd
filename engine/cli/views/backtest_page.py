"""A backtest as a page in one file: the table, what is saved with its confidence, and the curve of a sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..._sanitize import one_line
from ..._version import __version__
from ...analysis import charts as plots
from ...analysis.backtest import BacktestReport, PolicyTotals, SessionCase
from ...analysis.html import Markup, bullets, figure, foreign, join, page, section, table, tag
from ...analysis.sampling import BadRecord
from ...analysis.statistics import Interval
from ...decision import WrongUse
from .backtest import MEANING, case_words, headline, recorded_under
from .text import counted

NAME = 60
"""Characters of a policy's name."""
FILES_SHOWN = 100


def backtest_page(report: BacktestReport) -> str:
    """The whole file."""
    return page(
        "endstop backtest",
        f"{headline(report)}; {recorded_under(report)}.",
        section("sweep", f"Trade-off of {report.swept}", *_sweep(report)) if report.swept else Markup(),
        section("policies", "What each policy makes of them", _policies(report), _meaning()),
        section("saved", "What it saves, and what it cuts", *_saved(report)) if not report.swept else Markup(),
        section("cases", "Sessions that say most", *_cases(report)) if not report.swept else Markup(),
        section("files", "Files", *_files(report)),
        foot=f"Made by endstop {__version__}. What each figure means exactly stands in its docs/backtest.md.",
    )


def _name(totals: PolicyTotals) -> Markup:
    return foreign(one_line(totals.policy, NAME))


def _policies(report: BacktestReport) -> Markup:
    partings = [name for name in report.policies[0].partings if any(one.partings[name] for one in report.policies)]
    rows = [
        [
            _name(totals),
            *(f"{totals.partings[name]:,}" for name in partings),
            f"{'≥ ' if _is_bound(totals) else ''}{totals.least_saved_steps:,}",
            f"{totals.supposed_saved_steps:,}",
            f"{totals.saved.output_tokens:,}",
            f"{'≥ ' if _is_bound(totals) else ''}{totals.cut:,}",
            f"{totals.false_positives:,} of {totals.passed:,}" if totals.passed else "-",
            f"{totals.false_negatives:,}",
        ]
        for totals in report.policies
    ]
    head = [
        report.swept or "policy",
        *partings,
        "steps saved",
        "supposed",
        "tokens",
        "cut short",
        "good ones",
        "goes on",
    ]
    caption = f"{counted(report.sessions, 'session')} under each policy"
    return table(caption, head, rows, figures=range(1, len(head)))


def _meaning() -> Markup:
    return bullets(MEANING.split("\n"), "faint")


def _saved(report: BacktestReport) -> Iterator[Markup]:
    """Shares with their confidence, on one scale for all policies."""
    yield _intervals(
        report, _least("Steps saved, of all steps", report), [one.least_saved_steps_share for one in report.policies]
    )
    cut = [one.cut_share for one in report.policies]
    yield _intervals(report, _least("Sessions cut short, of all sessions", report), cut, "warn")
    if any(totals.passed for totals in report.policies):
        shares = [one.false_positive_share for one in report.policies]
        yield _intervals(report, "Good sessions cut short, of those that passed", shares, "bad")
    if report.against is not None:
        beyond = [one.against for one in report.policies]
        yield _intervals(report, f"Steps saved beyond {one_line(report.against, NAME)}", beyond)


def _intervals(
    report: BacktestReport, caption: str, intervals: Sequence[Interval | None], tone: str = "main"
) -> Markup:
    last = max((interval.high for interval in intervals if interval is not None), default=0.0) or 1.0
    first = min(0.0, min((interval.low for interval in intervals if interval is not None), default=0.0))
    rows = [
        [
            _name(totals),
            plots.interval(interval.low, interval.value, interval.high, first, last, tone),
            f"{100 * interval.value:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})",
        ]
        for totals, interval in zip(report.policies, intervals, strict=True)
        if interval is not None
    ]
    return table(caption, ("policy", "with 95 % confidence", "share"), rows, figures=(2,))


def _sweep(report: BacktestReport) -> Iterator[Markup]:
    """What is saved and what it costs, always in one picture: savings alone would make the lowest limit the best."""
    policies = report.policies
    saved = _points(report, [one.least_saved_steps_share for one in policies])
    supposed = _points(report, [_supposed(one, report) for one in policies], bound=False)
    cut = _points(report, [one.cut_share for one in policies])
    lines = [
        (plots.Line(_least("steps saved", report), saved), "steps saved, of all steps"),
        (plots.Line("supposed", supposed, "quiet"), MEANING.split("\n")[0]),
        (
            plots.Line(_least("cut short", report), cut, "warn"),
            "cut short: sessions ended before their work was reported as done, of all sessions",
        ),
    ]
    if any(totals.passed for totals in policies):
        good = _points(report, [one.false_positive_share for one in policies])
        line = plots.Line(_least("good ones cut", report), good, "bad")
        lines.append((line, "good ones cut: sessions cut short, of those that passed"))
    picture = plots.curve(
        [line for line, _ in lines],
        title=f"Trade-off of {report.swept}",
        across=report.swept or "",
        up="percent",
        shown=lambda value: f"{round(value, 1):g} %",
        names=() if _numbers(report) else [one_line(totals.policy, 12) for totals in policies],
    )
    caption = "What is saved, and what is cut short. Bands are 95 % confidence."
    if any(map(_is_bound, policies)):
        caption += " Open triangles and ≥ are lower bounds: of some sessions not all is known, and it may be more."
    keys = [tag("li", tag("span", class_=f"cell {line.tone}"), words) for line, words in lines]
    yield figure(picture, caption)
    yield tag("ul", *keys, class_="key")


def _numbers(report: BacktestReport) -> bool:
    return all(isinstance(totals.value, int | float) for totals in report.policies)


def _is_bound(totals: PolicyTotals) -> bool:
    """Whether its figures are lower bounds: not all is known of every session."""
    return totals.known < totals.sessions


def _least(name: str, report: BacktestReport) -> str:
    return f"{name} ≥" if any(map(_is_bound, report.policies)) else name


def _points(
    report: BacktestReport, shares: Sequence[Interval | float | None], *, bound: bool = True
) -> list[plots.Point]:
    """A point for each policy, in percent, at its value; at its place where that is no number."""
    points = []
    for number, (totals, share) in enumerate(zip(report.policies, shares, strict=True)):
        x = totals.value if _numbers(report) and isinstance(totals.value, int | float) else number
        least = bound and _is_bound(totals)
        if isinstance(share, Interval):
            low, high = 100 * share.low, 100 * share.high
            points.append(plots.Point(x, 100 * share.value, low=low, high=high, bound=least))
        else:
            points.append(plots.Point(x, 100 * (share or 0.0), bound=least))
    return points


def _supposed(totals: PolicyTotals, report: BacktestReport) -> float:
    return totals.supposed_saved_steps / report.used.steps if report.used.steps else 0.0


def _cases(report: BacktestReport) -> Iterator[Markup]:
    for totals in report.policies:
        name = one_line(totals.policy, NAME)
        yield _listed(f"{name}: saves most in", totals.most_saved)
        yield _listed(f"{name}: would have cut these, which passed", totals.good_runs_cut)
        yield _listed(f"{name}: unknown, for instance", totals.unknown)


def _listed(head: str, cases: Sequence[SessionCase]) -> Markup:
    return join(tag("h3", head), bullets(foreign(case_words(case)) for case in cases)) if cases else Markup()


def _files(report: BacktestReport) -> Iterator[Markup]:
    yield _listed_files("could not be read", report.bad)
    yield _listed_files("were read in part", report.damaged)


def _listed_files(what: str, files: Sequence[BadRecord]) -> Markup:
    if not files:
        return Markup()
    more = [f"and {len(files) - FILES_SHOWN:,} more"] if len(files) > FILES_SHOWN else []
    named = [foreign(one_line(f"{file.record}: {file.why}", 400)) for file in files[:FILES_SHOWN]]
    return join(tag("h3", f"{counted(len(files), 'file')} {what}"), bullets([*named, *more]))


# A page as a file: refused before the work begins if it cannot be one, and written whole or not at all.


def check_writable(place: str, records: Sequence[Path]) -> None:
    """Raise WrongUse if `--html` names a file that cannot be written, or one of the records."""
    path = Path(place)
    if path.is_dir():
        raise WrongUse(f"--html {place} is a folder: name a file")
    with suppress(OSError):
        if any(path.samefile(record) for record in records):
            raise WrongUse(f"--html {place} is one of the records: name another file")
    existed = path.exists()
    try:
        with open(path, "ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None


def write_page(place: str, text: str) -> str:
    """Write it; gives where it is and how large, in words. Raises WrongUse if it cannot be written."""
    whole = text.encode("utf-8", "replace")
    path = Path(place)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(whole)
        part.replace(path)
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return f"The page is {place} ({len(whole) / 1e6:.1f} MB)"
