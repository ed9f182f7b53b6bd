"""A backtest in the terminal: one table, and the most interesting sessions; of policies, or of recorded checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...analysis.backtest import BacktestReport
from .backtest_document import UNKNOWN, BacktestDocument, Cases, backtest_document, case_words, fork_command, is_bound
from .checks_document import checks_document
from .document_terminal import FittingTable, bad_files, command, item, line, listing, meaning

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_backtest(
    report: BacktestReport, written: str = "", given: Mapping[str, str] = MappingProxyType({})
) -> Iterator[RenderableType]:
    """Yield the parts of the backtest.

    `written`: where the page was written. `given`: how `--policy` names each policy.
    """
    document = backtest_document(report)
    for words in document.outcomes:
        yield line(f"{words}.", "bold")
    yield line(document.headline)
    yield line(document.recorded_under, "dim")
    yield line("")
    if document.published is not None:
        yield FittingTable(document.published)
        yield line(document.published.note, "dim")
    else:
        yield from _policies(document)
        if report.swept is None:
            for cases in document.cases:
                yield from _cases(cases, given.get(cases.policy, cases.policy))
    yield from bad_files(report.bad, report.damaged)
    if written:
        yield line(f"\n{written}.")


def render_checks(report: BacktestReport) -> Iterator[RenderableType]:
    """Yield the parts of a backtest that looked for checks."""
    document = checks_document(report)
    yield line(document.headline, "bold")
    yield line(document.recorded_under, "dim")
    yield line("")
    yield FittingTable(document.groups)
    for column, words in document.meaning:
        yield meaning(column, words)
    yield from listing(*document.failing)
    yield from bad_files(report.bad, report.damaged)


def _policies(document: BacktestDocument) -> Iterator[RenderableType]:
    report = document.report
    yield FittingTable(document.policies)
    if document.stopped.rows:
        yield line("")
        yield FittingTable(document.stopped)
    else:
        yield line("no session is known to be good, so false stops are unknown: give --labels FILE", "dim")
    for holds, words in document.guarantees:
        yield line(f"\n{words}", "" if holds else "yellow")
    unknown = [f"{one.policy} {one.sessions - one.known:,}" for one in report.policies if is_bound(one)]
    if unknown and report.swept is None:
        many = ", ".join(unknown)
        yield line(f"some sessions are not fully known ({many}): of those, only what is certain is counted", "dim")
    for column, words, in_terminal in document.meaning:
        if in_terminal:
            yield meaning(column, words)


def _cases(cases: Cases, given: str) -> Iterator[RenderableType]:
    """Yield the sessions; after one that could be forked under the policy `given`, the command that does it."""
    yield line(f"\n{cases.policy}: {cases.heading}", "yellow" if cases.tone == "warn" else "dim")
    for case in cases.sessions:
        yield item(case_words(case))
        if cases.heading == UNKNOWN and case.finding.at is not None:
            yield command(fork_command(case, given))
