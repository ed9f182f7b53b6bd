"""What a backtest shows, for the terminal (`backtest.py`) and the page (`backtest_page.py`): its sentences and tables.

The figures are those of `BacktestReport`, which `--json` prints. A column of a table is one `Column`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from ...analysis.backtest import BacktestReport, PolicyTotals, SessionCase
from ...analysis.endings import short_ending
from ...analysis.false_stops import StoppedSessions
from ...analysis.published_policies import PublishedPolicy
from ...analysis.statistics import Interval
from ...analysis.step_mix import DRIFT, LEAST_SESSIONS, MixComparison
from ...base.sanitize import one_line
from ...base.version import __version__
from ...decision import EvaluationVerdict
from ...http.document_page import Tone
from .counted_sessions import CountedSessions
from .document import Column, IntervalBar, Place, Table
from .figures import dollars
from .tables import labels_summary
from .text import cost, counted, duration

NAME = 60
"""The most characters that are shown of a policy's name in a heading."""
WHY = 160
"""The most characters of `finding_words`."""
KINDS_NAMED = 3
"""The most kinds of steps that are named where two mixes differ."""
MEANING = {
    "supposed": "steps saved if the policy's messages did not change what the model does",
    "cut short": "sessions that would have ended before their work was reported as done",
    "before change": "sessions that would have ended before the last change of their work, with the same assumption",
    "goes on": "sessions that would have continued after their work was reported as done",
    "false stops": "good sessions that would have ended before their last change or, without any, before they said "
    '"done"',
    "in brackets": "95 % confidence interval",
}
"""What the columns mean."""
UNKNOWN = "unknown, for example"
CountLink = Callable[[str, str], str]
"""The link of a count: from a policy's name and what is counted (`CountedSessions.link`)."""
PUBLISHED_MEANING = """\
stops: ends the run; asks: asks the user; tells: tells the model something first.
steps after the stop: supposing that the model goes on as recorded, whatever the rule tells it or asks its user; so not
what is certainly saved. Good cut: sessions that passed their evaluation and would lose two steps or more; harmed: those
that would lose the last change of their work. In brackets: 95 % confidence interval.
Where each rule was read, and what of it is not said: docs/reference/published_rules.md"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestDocument:
    """A backtest as it is shown."""

    report: BacktestReport
    headline: str
    """The numbers of sessions, runs, steps and tokens that were tested."""
    recorded_under: str
    """The policies of the records, and how their runs were evaluated."""
    outcomes: Sequence[str]
    """For each policy, what it would have saved and which sessions it would have ended early, in a sentence.
    Empty for a sweep and beside the rules of other projects, whose tables say it."""
    policies: Table[PolicyTotals]
    stopped: Table[StoppedRow]
    """How many good and bad sessions each policy stops; no rows if no session is known to be good."""
    published: Table[PublishedRow] | None
    """The policies beside the rules of other projects, if they were asked for."""
    shares: Sequence[Table[PolicyShare]]
    """Shares with their confidence intervals on a common scale."""
    meaning: Sequence[Meaning]
    guarantees: Sequence[tuple[bool, str]]
    """For each fitted policy, whether its guarantee holds for these sessions, and that in words."""
    cases: Sequence[Cases]
    """The most interesting sessions of each policy."""


class Meaning(NamedTuple):
    """What a column means."""

    column: str
    words: str
    in_terminal: bool
    """Whether a table in the terminal has the column."""


class Cases(NamedTuple):
    """Sessions under one policy that have something in common."""

    policy: str
    heading: str
    sessions: Sequence[SessionCase]
    tone: Tone


def backtest_document(report: BacktestReport, counted: CountedSessions | None = None) -> BacktestDocument:
    """Build the document of a backtest. counted: the sessions that its numbers lead to on a page."""
    link = (counted or CountedSessions()).link
    policies = _policies(report, link)
    return BacktestDocument(
        report=report,
        headline=headline(report),
        recorded_under=recorded_under(report),
        outcomes=[] if report.swept or report.published else [_outcome(report, one) for one in report.policies],
        policies=policies,
        stopped=_stopped(report, link),
        published=_published(report, link) if report.published else None,
        shares=list(_shares(report)),
        meaning=list(_meaning(report, policies)),
        guarantees=[(bool(one.holds), _guarantee(one)) for one in report.fitted],
        cases=[cases for totals in report.policies for cases in _cases(totals) if cases.sessions],
    )


def headline(report: BacktestReport) -> str:
    """Return a line with the numbers of sessions, runs, steps and tokens tested."""
    return " · ".join(
        [
            counted(report.sessions, "session"),
            counted(report.runs, "run"),
            counted(report.used.steps, "step"),
            f"{'about ' if report.used.usage.estimated else ''}{report.used.usage.output_tokens:,} tokens out",
            *([_known_cost(report)] if report.priced else []),
        ]
    )


def _known_cost(report: BacktestReport) -> str:
    """Return the cost in words; before it, of how many sessions it is known, if not of all."""
    known = f"cost of {report.priced:,} of {counted(report.sessions, 'session')}: "
    return f"{known if report.priced < report.sessions else ''}{cost(report.used.usage)}"


def _outcome(report: BacktestReport, totals: PolicyTotals) -> str:
    """Say what a policy would have saved, as money where most sessions have a price, and what harm it would have done.

    The harm supposes that the policy's messages do not change what the model does.
    """
    if totals.partings["refused"] == report.sessions:
        return f"{one_line(totals.policy, NAME)} cannot be used with these sessions"
    spent, saved = report.used.usage.cost_usd, totals.saved.cost_usd
    least = "at least " if is_bound(totals) else ""
    if 2 * report.priced > report.sessions and spent and saved is not None:
        priced = "" if report.priced == report.sessions else f"of {report.priced:,} of {report.sessions:,} sessions, "
        what = f"{priced}{least}{dollars(saved)} of {dollars(spent)}"
    else:
        what = f"{least}{totals.least_saved_steps:,} of {counted(report.used.steps, 'step')}"
    good, unknown = (totals.by_verdict.get(verdict) for verdict in _UNHARMED)
    early = f"{good.premature:,} of {counted(good.sessions, 'good session')} early" if good is not None else ""
    ended = 0 if unknown is None else unknown.before_change
    some = f"{ended:,}" if early else counted(ended, "session")
    before = f"{some} of unknown worth before their last change" if unknown is not None else ""
    harm = ", ".join(filter(None, (early, before))) or "no session that is known to be good"
    return f"{one_line(totals.policy, NAME)} would have saved {what}; would have ended {harm}"


_UNHARMED: tuple[EvaluationVerdict, EvaluationVerdict] = ("passed", "not_run")
"""The verdicts on sessions that an early end would harm, for all that is known."""


def recorded_under(report: BacktestReport) -> str:
    """Return the policies of the records and how their runs were evaluated."""
    under = ", ".join(
        f"{one_line(name, NAME) or 'no name'} {many:,}" for name, many in _most_first(report.recorded_policies)
    )
    judged = {name: many for name, many in report.verdicts.items() if name != "not_run"}
    verdicts = ", ".join(f"{many:,} {name}" for name, many in _most_first(judged))
    labels = f"; {words}" if (words := labels_summary(report.labels)) else ""
    return f"recorded under {under}{f'; evaluated: {verdicts}' if verdicts else '; no run was evaluated'}{labels}"


def _most_first(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _guarantee(found: MixComparison) -> str:
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


# ---- all policies


def _policies(report: BacktestReport, link: CountLink) -> Table[PolicyTotals]:
    """Return the table of what each policy would have changed. The terminal leaves out what no policy has."""

    def where_any(figure: Callable[[PolicyTotals], int]) -> Place | None:
        return None if any(map(figure, report.policies)) else "page"

    return Table(
        caption=f"{counted(report.sessions, 'session')} under each policy",
        columns=(
            Column(report.swept or "policy", "name", lambda one: one.policy),
            *_partings(report, link),
            Column("steps saved", "figures", _least_saved, only="terminal"),
            Column("steps saved", "figures", lambda one: f"{bound_sign(one)}{one.least_saved_steps:,}", only="page"),
            Column("supposed", "count", lambda one: one.supposed_saved_steps, spare=6),
            Column("tokens", "count", lambda one: one.saved.output_tokens, spare=1),
            Column("cut short", "count", lambda one: one.cut, spare=3, only="terminal"),
            Column(
                "cut short",
                "figures",
                lambda one: f"{bound_sign(one)}{one.cut:,}",
                only="page",
                link=lambda one: link(one.policy, "cut"),
            ),
            Column(
                "good ones",
                "figures",
                lambda one: _of_passed(one.false_positives, one),
                only="page",
                link=lambda one: link(one.policy, "cut, passed"),
            ),
            Column(
                "before change",
                "count",
                lambda one: one.supposed_before_change,
                spare=4,
                only=where_any(lambda one: one.supposed_before_change),
                link=lambda one: link(one.policy, "supposed_before_change"),
            ),
            Column(
                "false stops",
                "figures",
                _false_stops,
                only="page",
                link=lambda one: link(one.policy, "premature, passed"),
            ),
            Column(
                "goes on",
                "count",
                lambda one: one.false_negatives,
                spare=5,
                only=where_any(lambda one: one.false_negatives),
                link=lambda one: link(one.policy, "false_negatives"),
            ),
            *(
                []
                if report.against is None
                else [
                    Column[PolicyTotals](
                        f"beyond {report.against}",
                        "figures",
                        lambda one: "" if one.policy == report.against else _percent(one.against),
                        spare=8,
                        only="terminal",
                    )
                ]
            ),
        ),
        rows=report.policies,
    )


def _partings(report: BacktestReport, link: CountLink) -> Iterator[Column[PolicyTotals]]:
    """Yield a column for each way in which a session differs from its record."""
    spare = {"refused": 2, "later": 7}
    for name in report.policies[0].partings:
        occurs = any(one.partings[name] for one in report.policies)
        if occurs or name in ("same", "earlier"):
            yield _parting(name, spare.get(name, 0), None if occurs else "terminal", link)


def _parting(name: str, spare: int, only: Place | None, link: CountLink) -> Column[PolicyTotals]:
    return Column(
        name,
        "count",
        lambda one: one.partings[name],
        spare=spare,
        only=only,
        link=lambda one: link(one.policy, name),
    )


def is_bound(totals: PolicyTotals) -> bool:
    """Return whether a policy's figures are lower bounds because some sessions are not fully known."""
    return totals.known < totals.sessions


def bound_sign(totals: PolicyTotals) -> str:
    """Return the sign before a figure that is a lower bound."""
    return "≥ " if is_bound(totals) else ""


def _least_saved(totals: PolicyTotals) -> str:
    return bound_sign(totals) + _with_share(totals.least_saved_steps, totals.least_saved_steps_share)


def _of_passed(sessions: int, totals: PolicyTotals) -> str:
    return f"{sessions:,} of {totals.passed:,}" if totals.passed else "-"


def _false_stops(totals: PolicyTotals) -> str:
    return _of_passed(totals.by_verdict["passed"].premature, totals) if totals.passed else "-"


def _with_share(number: int, interval: Interval | None, digits: int | None = None) -> str:
    return f"{number:,}" + (f" {_percent(interval, digits)}" if interval is not None and number else "")


def _percent(interval: Interval | None, digits: int | None = None) -> str:
    """Format a share with its 95 % confidence interval; digits: None for as many as its size asks for."""
    if interval is None:
        return "-"
    low, value, high = (100 * share for share in (interval.low, interval.value, interval.high))
    if digits is None:
        digits = 1 if max(abs(low), abs(value), abs(high)) < 10 else 0
    return f"{value:.{digits}f} % ({low:.{digits}f}-{high:.{digits}f})"


def _meaning(report: BacktestReport, policies: Table[PolicyTotals]) -> Iterator[Meaning]:
    shown = {column.name for column in policies.columns_in("terminal")}
    if report.verdicts.get("passed"):
        shown.add("false stops")
    for column, words in MEANING.items():
        yield Meaning(column, words, column in shown or column == "in brackets")


# ---- good and bad sessions


class StoppedRow(NamedTuple):
    """The sessions with one verdict under one policy."""

    totals: PolicyTotals
    is_first: bool
    """Whether it is the first row of its policy, which names it."""
    verdict: EvaluationVerdict
    found: StoppedSessions
    cut: int | None
    """How many were cut short, if they are good; None for other sessions."""


JUDGED: dict[EvaluationVerdict, str] = {"passed": "good", "failed": "bad", "not_run": "unknown"}
"""The words for sessions of each verdict."""


def _stopped(report: BacktestReport, link: CountLink) -> Table[StoppedRow]:
    def good(row: StoppedRow, count: str) -> str:
        return "" if row.cut is None else link(row.totals.policy, f"{count}, passed")

    return Table(
        caption="good and bad sessions",
        columns=(
            Column(report.swept or "policy", "name", lambda row: row.totals.policy if row.is_first else ""),
            Column("sessions", "word", lambda row: JUDGED[row.verdict]),
            Column(
                "stopped",
                "figures",
                lambda row: f"{row.found.stopped:,} of {row.found.sessions:,}",
                link=lambda row: link(row.totals.policy, f"stopped, {row.verdict}"),
            ),
            Column("false stops", "figures", _premature, link=lambda row: good(row, "premature")),
            Column(
                "cut short",
                "count",
                lambda row: "" if row.cut is None else row.cut,
                spare=1,
                link=lambda row: good(row, "cut"),
            ),
            Column(
                "steps saved",
                "figures",
                lambda row: _with_share(row.found.saved_steps, row.found.saved_steps_share),
                spare=2,
            ),
        ),
        rows=[row for totals in report.policies for row in _stopped_by(totals)] if _knows_good(report) else [],
    )


def _knows_good(report: BacktestReport) -> bool:
    return bool(report.verdicts.get("passed"))


def _stopped_by(totals: PolicyTotals) -> Iterator[StoppedRow]:
    known = [verdict for verdict in JUDGED if verdict in totals.by_verdict]
    for number, verdict in enumerate(known):
        cut = totals.false_positives if verdict == "passed" else None
        yield StoppedRow(totals, not number, verdict, totals.by_verdict[verdict], cut)


def _premature(row: StoppedRow) -> str:
    return "" if row.cut is None else f"{row.found.premature:,} {_percent(row.found.premature_share)}"


# ---- beside the rules of other projects


class PublishedRow(NamedTuple):
    """A policy, and what was read of it if it is the rule of another project."""

    totals: PolicyTotals
    rule: PublishedPolicy | None


def _published(report: BacktestReport, link: CountLink) -> Table[PublishedRow]:
    read = {one.name: one for one in report.published}
    return Table(
        caption=f"{counted(report.sessions, 'session')} under each rule",
        columns=(
            Column("rule", "name", lambda row: row.totals.policy),
            Column("of", "text", lambda row: _project(row.rule), spare=1),
            Column("", "text", lambda row: "" if row.rule is None else row.rule.acts, spare=2),
            Column(
                "stopped",
                "count",
                lambda row: row.totals.supposed_stopped,
                link=lambda row: link(row.totals.policy, "stopped"),
            ),
            Column("steps after the stop", "figures", _steps_after),
            Column(
                "good cut",
                "figures",
                lambda row: _of_passed(row.totals.supposed_good_cut, row.totals),
                spare=3,
                link=lambda row: link(row.totals.policy, "good_cut, passed"),
            ),
            Column(
                "harmed",
                "figures",
                lambda row: _of_passed(row.totals.supposed_harmed, row.totals),
                link=lambda row: link(row.totals.policy, "supposed_before_change, passed"),
            ),
        ),
        rows=[PublishedRow(totals, read.get(totals.policy)) for totals in report.policies],
        note=PUBLISHED_MEANING,
    )


def _project(rule: PublishedPolicy | None) -> str:
    return f"endstop {__version__}" if rule is None else f"{rule.project} {rule.version}"


def _steps_after(row: PublishedRow) -> str:
    return _with_share(row.totals.supposed_saved_steps, row.totals.supposed_saved_steps_share, digits=1)


# ---- shares with their intervals


class PolicyShare(NamedTuple):
    """A share of one policy."""

    policy: str
    share: Interval


def _shares(report: BacktestReport) -> Iterator[Table[PolicyShare]]:
    caption = with_bound_sign("Steps saved, of all steps", report)
    yield _intervals(report, caption, lambda one: one.least_saved_steps_share)
    caption = with_bound_sign("Sessions cut short, of all sessions", report)
    yield _intervals(report, caption, lambda one: one.cut_share, "warn")
    if _knows_good(report):
        caption = "Good sessions cut short, of those that passed"
        yield _intervals(report, caption, lambda one: one.false_positive_share, "bad")
        caption = "False stops, of the sessions that passed (exact interval)"
        yield _intervals(report, caption, lambda one: one.by_verdict["passed"].premature_share, "bad")
    if report.against is not None:
        yield _intervals(report, f"Steps saved beyond {one_line(report.against, NAME)}", lambda one: one.against)


def _intervals(
    report: BacktestReport,
    caption: str,
    share: Callable[[PolicyTotals], Interval | None],
    tone: Tone = "main",
) -> Table[PolicyShare]:
    """Return each policy's share with its interval, on a scale common to all."""
    rows = [PolicyShare(one.policy, found) for one in report.policies if (found := share(one)) is not None]
    last = max((row.share.high for row in rows), default=0.0) or 1.0
    first = min(0.0, min((row.share.low for row in rows), default=0.0))

    def drawn(row: PolicyShare) -> IntervalBar:
        return IntervalBar(row.share.low, row.share.value, row.share.high, first, last, tone)

    return Table(
        caption=caption,
        columns=(
            Column("policy", "name", lambda row: row.policy),
            Column("with 95 % confidence", "interval_bar", drawn, only="page"),
            Column("share", "figures", lambda row: _decimal_share(row.share)),
        ),
        rows=rows,
    )


def with_bound_sign(name: str, report: BacktestReport) -> str:
    """Return the name of a figure with the sign of a lower bound, if it is one for some policy."""
    return f"{name} ≥" if any(map(is_bound, report.policies)) else name


def _decimal_share(share: Interval) -> str:
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"


# ---- sessions


def _cases(totals: PolicyTotals) -> Iterator[Cases]:
    policy = totals.policy
    yield Cases(policy, "saves most in", totals.most_saved, "quiet")
    yield Cases(policy, "would have cut short these sessions, which passed", totals.good_runs_cut, "warn")
    yield Cases(policy, "would have stopped these good sessions too early", totals.false_stops, "warn")
    yield Cases(policy, UNKNOWN, totals.unknown, "quiet")


def fork_command(case: SessionCase, policy: str) -> str:
    """Return the command that forks a session where this policy would decide differently."""
    run = "" if case.finding.in_last_run else f" --run {case.finding.run}"
    return f"endstop run --fork {quote(case.record)} --at {case.finding.at}{run} --policy {quote(policy)} --record NEW"


def case_words(case: SessionCase) -> str:
    """Describe one session in a line, with the name of its record."""
    return f"{one_line(case.record, len(case.record))}: {finding_words(case)}"


def finding_words(case: SessionCase) -> str:
    """Say where a policy differs from the record of one session, and what that saves."""
    finding = case.finding
    words = f"run {finding.run}, " if finding.run > 1 else ""
    why = f"it would end ({short_ending(finding.stop_reason)})" if finding.parting == "earlier" else finding.why
    words += f"at the start: {why}" if not finding.step else f"after step {finding.step}: {why}"
    if finding.saved is not None and finding.saved.steps:
        rest = f" and {duration(finding.saved.ms)}" if finding.saved.ms else ""
        words += (
            f"; {counted(finding.saved.steps, 'step')}, {finding.saved.usage.output_tokens:,} tokens out{rest} saved"
        )
    elif finding.stop_reason and finding.parting == "diverges":
        words += f"; if the model had continued as recorded, it would end ({short_ending(finding.stop_reason)})"
        words += f" {counted(finding.supposed_steps, 'step')} earlier" if finding.supposed_steps else ""
    return one_line(words, WHY)
