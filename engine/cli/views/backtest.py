"""A backtest as text: one table, and the most interesting sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..._sanitize import one_line
from ...analysis.backtest import BacktestReport, PolicyTotals, SessionCase
from ...analysis.statistics import Interval
from ...analysis.step_mix import DRIFT, LEAST_SESSIONS, MixComparison
from ...decision import EvaluationVerdict
from .document import Column, Table
from .document_terminal import FittingTable
from .published_table import PUBLISHED_MEANING, published_table
from .tables import bad_files, labels_summary
from .text import cost, counted, duration

if TYPE_CHECKING:
    from rich.console import RenderableType

AnyTable = Table[Any]
WHY = 160
"""The most characters of `case_words` besides the name of the record."""

KINDS_NAMED = 3
"""The most kinds of steps that are named where two mixes differ."""


def render_backtest(
    report: BacktestReport, written: str = "", given: Mapping[str, str] = MappingProxyType({})
) -> Iterator[RenderableType]:
    """Yield the parts of the backtest.

    `written`: where the page was written. `given`: how `--policy` names each policy.
    """
    from rich.text import Text

    yield Text(headline(report), style="bold")
    yield Text(recorded_under(report), style="dim")
    yield Text("")
    if report.published:
        yield published_table(report)
        yield Text(PUBLISHED_MEANING, style="dim")
    else:
        yield FittingTable(_table(report))
        yield from _false_stops(report)
        yield from _guarantees(report)
        yield from _notes(report)
    if report.swept is None and not report.published:
        for totals in report.policies:
            yield from _cases(totals, given.get(totals.policy, totals.policy))
    yield from bad_files("could not be read", report.bad)
    yield from bad_files("were read in part", report.damaged)
    if written:
        yield Text(f"\n{written}.")


def headline(report: BacktestReport) -> str:
    """Return a line with the numbers of sessions, runs, steps and tokens tested."""
    return " · ".join(
        [
            counted(report.sessions, "session"),
            counted(report.runs, "run"),
            counted(report.used.steps, "step"),
            f"{'about ' if report.used.usage.estimated else ''}{report.used.usage.output_tokens:,} tokens out",
            *([cost(report.used.usage)] if report.used.usage.cost_usd is not None else []),
        ]
    )


def recorded_under(report: BacktestReport) -> str:
    """Return the policies of the records and how their runs were evaluated."""
    under = ", ".join(f"{name or 'no name'} {many:,}" for name, many in _most_first(report.recorded_policies))
    judged = {name: many for name, many in report.verdicts.items() if name != "not_run"}
    verdicts = ", ".join(f"{many:,} {name}" for name, many in _most_first(judged))
    labels = f"; {words}" if (words := labels_summary(report.labels)) else ""
    return f"recorded under {under}{f'; evaluated: {verdicts}' if verdicts else '; no run was evaluated'}{labels}"


def _most_first(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _table(report: BacktestReport) -> AnyTable:
    partings = [
        name
        for name in ("same", "earlier", "later", "diverges", "refused")
        if name in ("same", "earlier") or any(totals.partings[name] for totals in report.policies)
    ]
    optional = _optional_columns(report)
    against = [] if report.against is None else [f"beyond {report.against}"]
    head = (report.swept or "policy", *partings, "steps saved", "supposed", "tokens", "cut short", *optional, *against)
    spare = ("tokens", "refused", "cut short", *optional, "supposed", "later", *against)
    rows = [_row(report, totals, partings, optional) for totals in report.policies]
    return _typed("what each policy would have changed", head, rows, spare)


def _typed(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]) -> AnyTable:
    columns = [
        Column(
            name,
            "figures" if number and name != "sessions" else "name",
            itemgetter(number),
            spare=spare.index(name) + 1 if name in spare else 0,
        )
        for number, name in enumerate(head)
    ]
    return Table(caption=caption, columns=columns, rows=rows)


def _optional_columns(report: BacktestReport) -> list[str]:
    """Return the columns that are shown only if a policy has a figure for them."""
    before_change = any(totals.supposed_before_change for totals in report.policies)
    goes_on = any(totals.false_negatives for totals in report.policies)
    return [*(["before change"] if before_change else []), *(["goes on"] if goes_on else [])]


def _row(
    report: BacktestReport, totals: PolicyTotals, partings: Sequence[str], optional: Sequence[str]
) -> tuple[str, ...]:
    figures = {"before change": totals.supposed_before_change, "goes on": totals.false_negatives}
    beyond = "" if totals.policy == report.against else _percent(totals.against)
    return (
        totals.policy,
        *(f"{totals.partings[name]:,}" for name in partings),
        ("≥ " if totals.known < totals.sessions else "")
        + _of(totals.least_saved_steps, totals.least_saved_steps_share),
        f"{totals.supposed_saved_steps:,}",
        f"{totals.saved.output_tokens:,}",
        f"{totals.cut:,}",
        *(f"{figures[name]:,}" for name in optional),
        *([] if report.against is None else [beyond]),
    )


def _false_stops(report: BacktestReport) -> Iterator[RenderableType]:
    """Show how many good and bad sessions each policy stops, or why that is unknown where no session is good."""
    from rich.text import Text

    if not report.verdicts.get("passed"):
        yield Text("no session is known to be good, so false stops are unknown: give --labels FILE", style="dim")
        return
    rows = []
    for totals in report.policies:
        known = [(name, verdict) for verdict, name in JUDGED.items() if verdict in totals.by_verdict]
        for number, (name, verdict) in enumerate(known):
            rows.append(("" if number else totals.policy, name, *_stopped(totals, verdict)))
    head = (report.swept or "policy", "sessions", "stopped", "false stops", "cut short", "steps saved")
    yield Text("")
    yield FittingTable(_typed("good and bad sessions", head, rows, ("cut short", "steps saved")))


JUDGED: dict[EvaluationVerdict, str] = {"passed": "good", "failed": "bad", "not_run": "unknown"}
"""The words for sessions of each verdict."""


def _stopped(totals: PolicyTotals, verdict: EvaluationVerdict) -> Iterator[str]:
    found, good = totals.by_verdict[verdict], verdict == "passed"
    yield f"{found.stopped:,} of {found.sessions:,}"
    yield f"{found.premature:,}  {_percent(found.premature_share)}" if good else ""
    yield f"{totals.false_positives:,}" if good else ""
    yield _of(found.saved_steps, found.saved_steps_share)


def _guarantees(report: BacktestReport) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in report.fitted:
        yield Text(f"\n{guarantee_words(one)}", style="" if one.holds else "yellow")


def guarantee_words(found: MixComparison) -> str:
    """Return whether a fitted policy's guarantee holds for these sessions, as far as their mix of steps tells."""
    if found.distance is None:
        return (
            f"{found.policy}: whether its guarantee holds here is not known, since its file does not say of which "
            "kinds of steps it was fitted: fit again"
        )
    if found.holds is None:
        return (
            f"{found.policy}: whether its guarantee holds here is not known: {counted(found.sessions, 'session')} "
            f"cannot tell whether they are like those that it was fitted on; {LEAST_SESSIONS} can"
        )
    apart = f"the mix of steps is {100 * found.distance:.0f} % apart from that of the data that it was fitted on"
    if found.holds:
        return f"{found.policy}: {apart}. {found.guarantee}"
    largest = ", ".join(
        f"{kind} {100 * share:+.0f} points" for kind, share in list(found.differences.items())[:KINDS_NAMED]
    )
    return (
        f"{found.policy}: no guarantee here: {apart}, and {100 * DRIFT:.0f} % is the most ({largest}): fit on "
        "sessions like these"
    )


def _of(number: int, interval: Interval | None) -> str:
    return f"{number:,}" + (f"  {_percent(interval)}" if interval is not None and number else "")


def _percent(interval: Interval | None) -> str:
    """Format a share with its 95 % confidence interval."""
    if interval is None:
        return "-"
    low, value, high = (100 * share for share in (interval.low, interval.value, interval.high))
    digits = 1 if max(abs(low), abs(value), abs(high)) < 10 else 0
    return f"{value:.{digits}f} % ({low:.{digits}f}-{high:.{digits}f})"


def _notes(report: BacktestReport) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    unknown = [f"{totals.policy} {totals.sessions - totals.known:,}" for totals in report.policies if totals.unknown]
    if unknown and report.swept is None:
        words = f"some sessions are not fully known ({', '.join(unknown)}): of those, only what is certain is counted"
        yield Text(words, style="dim")
    unused = {"before change", "goes on"} - set(_optional_columns(report))
    if not report.verdicts.get("passed"):
        unused.add("false stops")
    lines = (line for line in MEANING.split("\n") if line.partition(":")[0] not in unused)
    for line in lines:
        term, _, meaning = line.partition(": ")
        yield Padding(Text.assemble(f"{term}: ", (meaning, "dim")), (0, 0, 0, 2))


MEANING = """\
supposed: steps saved if the policy's messages did not change what the model does
cut short: sessions that would have ended before their work was reported as done
before change: sessions that would have ended before the last change of their work, with the same assumption
goes on: sessions that would have continued after their work was reported as done
false stops: good sessions that would have ended before their last change or, without any, before they said "done"
in brackets: 95 % confidence interval"""


def _cases(totals: PolicyTotals, given: str) -> Iterator[RenderableType]:
    yield from _listed(f"{totals.policy}: saves most in", totals.most_saved)
    yield from _listed(
        f"{totals.policy}: would have cut short these sessions, which passed", totals.good_runs_cut, "yellow"
    )
    yield from _listed(
        f"{totals.policy}: would have stopped these good sessions too early", totals.false_stops, "yellow"
    )
    yield from _listed(f"{totals.policy}: unknown, for example", totals.unknown, given=given)


def _listed(head: str, cases: Sequence[SessionCase], style: str = "dim", given: str = "") -> Iterator[RenderableType]:
    """Yield the sessions.

    One whose continuation under policy `given` is unknown comes with the command that finds it out.
    """
    from rich.padding import Padding
    from rich.text import Text

    if not cases:
        return
    yield Text(f"\n{head}", style=style)
    for case in cases:
        yield Padding(Text(case_words(case)), (0, 0, 0, 2))
        if given and case.finding.at is not None:
            yield Text(f"    {fork_command(case, given)}", style="cyan", no_wrap=True)


def fork_command(case: SessionCase, policy: str) -> str:
    """Return the command that forks a session where this policy would decide differently."""
    run = "" if case.finding.in_last_run else f" --run {case.finding.run}"
    return f"endstop run --fork {quote(case.record)} --at {case.finding.at}{run} --policy {quote(policy)} --record NEW"


def case_words(case: SessionCase) -> str:
    """Describe one session in a line."""
    finding = case.finding
    where = f"run {finding.run}, " if case.finding.run > 1 else ""
    words = f"{case.record}: {where}"
    words += f"at the start: {finding.why}" if not finding.step else f"after step {finding.step}: {finding.why}"
    if finding.saved is not None and finding.saved.steps:
        rest = f" and {duration(finding.saved.ms)}" if finding.saved.ms else ""
        words += (
            f"; {counted(finding.saved.steps, 'step')}, {finding.saved.usage.output_tokens:,} tokens out{rest} saved"
        )
    elif finding.stop_reason and finding.parting == "diverges":
        words += f"; if the model had continued as recorded, {finding.stop_reason}"
        words += f" {counted(finding.supposed_steps, 'step')} earlier" if finding.supposed_steps else ""
    return one_line(words, len(case.record) + WHY)
