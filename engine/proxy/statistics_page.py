"""Statistics of the proxy: counted as events happen, as metrics for Prometheus, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from http import HTTPStatus
from typing import Literal

from ..analysis.endings import short_ending
from ..base.metrics_registry import OTHER, Metrics
from ..base.version import __version__
from ..decision import Event, Usage
from ..decision.events import AttemptFailed, RunFinished
from ..http.document_page import (
    Cell,
    Figure,
    FiguresPart,
    Head,
    Item,
    ListPart,
    NotePart,
    ReportPage,
    Section,
    TablePart,
)
from . import proxy_metrics as m

CHARACTERS_PER_TOKEN = 4
"""Characters per token for the estimate of a request by its size."""


def request_tokens(size: int) -> int:
    """Return the estimated tokens of a request of this many bytes, with system prompt, tools, messages and images."""
    return size // CHARACTERS_PER_TOKEN


_STATUSES = frozenset(map(int, HTTPStatus))
Handling = Literal["passed", "followed", "answered", "stopped", "refused"]

HANDLING: dict[Handling, str] = {
    "followed": "followed and passed on",
    "passed": "passed on, not followed",
    "answered": "answered here after a completion",
    "stopped": "stopped here",
    "refused": "refused",
}
"""How requests are handled, with the page's words for it."""


class ProxyCounts:
    """Counts of one period of time."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        """By `Handling`."""
        self.cuts: Counter[str] = Counter()
        """Cut responses, by reason."""
        self.endings: Counter[str] = Counter()
        """Ended runs, by stop reason."""
        self.failures: Counter[str] = Counter()
        """Failed requests to the provider, by kind."""
        self.would: Counter[str] = Counter()
        """Runs that a dry run would have stopped, by stop reason."""
        self.open_budgets = 0
        """Requests let through because the store of the budgets failed."""
        self.unfollowed_runs = 0
        """Runs that could no longer be followed, because a policy raised or a response could not be read."""
        self.unrecorded_runs = 0
        """Runs whose record could not be written."""
        self.usage = Usage()
        self.estimated_tokens = 0
        """Number of tokens in `usage` that no provider reported."""
        self.saved_tokens = 0
        """Input tokens of the requests that were answered or stopped here, estimated by their size."""


class Statistics:
    """Counts since the start, and of today. today: returns the date as text; a new date restarts the day's counts."""

    def __init__(self, today: Callable[[], str] = lambda: date.today().isoformat()) -> None:
        self.total = ProxyCounts()
        self.metrics = Metrics(m.PROXY_METRICS)
        self._today = today
        self._date = today()
        self._day = ProxyCounts()

    @property
    def day(self) -> ProxyCounts:
        """The counts of today."""
        if self._date != self._today():
            self._date, self._day = self._today(), ProxyCounts()
        return self._day

    def take(self, event: Event) -> None:
        """Count an event of a run."""
        for counts in (self.total, self.day):
            match event:
                case RunFinished(outcome=outcome):
                    counts.endings[outcome.stop_reason] += 1
                case AttemptFailed(kind=kind):
                    counts.failures[kind] += 1
                case _:
                    pass

    def count_usage(self, usage: Usage) -> None:
        """Count a response's usage. Responses known only from a conversation bypassed the proxy and do not count."""
        for counts in (self.total, self.day):
            counts.usage = counts.usage + usage
            counts.estimated_tokens += usage.input_tokens + usage.output_tokens if usage.estimated else 0

    def count_request(self, handling: Handling, size: int = 0) -> None:
        """Count a request handled like this. size: its bytes, if the request was not made."""
        for counts in (self.total, self.day):
            counts.requests[handling] += 1
            counts.saved_tokens += request_tokens(size)

    def count_cut(self, reason: str) -> None:
        """Count a cut response."""
        for counts in (self.total, self.day):
            counts.cuts[reason] += 1

    def count_open_budget(self) -> None:
        """Count a request that was let through because the store of the budgets failed."""
        for counts in (self.total, self.day):
            counts.open_budgets += 1

    def count_unfollowed_run(self) -> None:
        """Count a run that can no longer be followed."""
        for counts in (self.total, self.day):
            counts.unfollowed_runs += 1

    def count_reply(self, status: int | None, seconds: float) -> None:
        """Count a reply of the provider that began after so many seconds. status: of HTTP; None: there was none."""
        if status is None:
            self.metrics.add(m.PROVIDER_REPLIES, "none")
            return
        self.metrics.add(m.PROVIDER_REPLIES, str(status) if status in _STATUSES else OTHER)
        self.metrics.observe(m.FIRST_BYTE_SECONDS, seconds)

    def count_whole(self, seconds: float) -> None:
        """Count a response of the provider that was whole, or cut, after so many seconds."""
        self.metrics.observe(m.RESPONSE_SECONDS, seconds)

    def set_budgets(
        self, limits: Mapping[str, Mapping[str, float]], left: Mapping[str, Mapping[str, float]] | None
    ) -> None:
        """Set the budgets of the day, and what is left of them: by budget and limit; None if that is not known."""
        self.metrics.set(m.BUDGET_LIMIT, _by_two_names(limits))
        self.metrics.set(m.BUDGET_LEFT, _by_two_names(left or {}))

    def count_unrecorded_run(self) -> None:
        """Count a run whose record could not be written: once a run."""
        for counts in (self.total, self.day):
            counts.unrecorded_runs += 1

    def count_dry_stop(self, reason: str) -> None:
        """Count a run that a dry run would have stopped here."""
        for counts in (self.total, self.day):
            counts.would[reason] += 1


def metrics(statistics: Statistics, running: int, runs: int, *, open_budgets: bool = False) -> str:
    """Return the counts since the start in Prometheus' text format (version 0.0.4).

    open_budgets: whether the budgets limit nothing because their store fails.
    """
    total, values = statistics.total, statistics.metrics
    for metric, counts in (
        (m.REQUESTS, total.requests),
        (m.CUT_RESPONSES, total.cuts),
        (m.ENDED_RUNS, total.endings),
        (m.FAILED_REQUESTS, total.failures),
        (m.DRY_RUN_STOPS, total.would),
    ):
        values.set(metric, {(name,): count for name, count in counts.items()})
    for metric, number in (
        (m.INPUT_TOKENS, total.usage.input_tokens),
        (m.OUTPUT_TOKENS, total.usage.output_tokens),
        (m.ESTIMATED_TOKENS, total.estimated_tokens),
        (m.SAVED_TOKENS, total.saved_tokens),
        (m.COST, total.usage.cost_usd or 0.0),
        (m.OPEN_BUDGET_REQUESTS, total.open_budgets),
        (m.BUDGETS_OPEN, int(open_budgets)),
        (m.UNFOLLOWED_RUNS, total.unfollowed_runs),
        (m.UNRECORDED_RUNS, total.unrecorded_runs),
        (m.IN_PROGRESS, running),
        (m.KNOWN_RUNS, runs),
    ):
        values.set(metric, {(): number})
    return values.text()


def _by_two_names(values: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, ...], float]:
    return {(budget, name): value for budget, those in values.items() for name, value in those.items()}


# ---- the page


def statistics_page(
    statistics: Statistics, running: int, upstream: str, *, dry_run: bool, problem: str = ""
) -> ReportPage:
    """Build the page of today's statistics. problem: why the budgets limit nothing, if they do not."""
    day = statistics.day
    mode = "dry run: nothing is changed; " if dry_run else ""
    failures = {
        "requests let through because the store of the budgets failed": day.open_budgets,
        "runs that could no longer be followed": day.unfollowed_runs,
        "runs whose record could not be written": day.unrecorded_runs,
    }
    counts = [
        ("requests", "Requests", {said: day.requests[name] for name, said in HANDLING.items()}),
        ("endings", "How runs ended", _in_words(day.endings, short_ending)),
        ("cuts", "Responses cut", _in_words(day.cuts, _plain)),
        ("failures", "Failures of the provider", _in_words(day.failures, _plain)),
        ("would", "Would have been stopped", _in_words(day.would, short_ending)),
        ("proxy", "Failures of the proxy", failures),
    ]
    return ReportPage(
        title="endstop proxy",
        lead=f"Today, in front of {upstream}; {mode}in progress: {running:,}",
        parts=[
            *([NotePart(f"The budgets limit nothing: {problem}", "bad")] if problem else []),
            FiguresPart(_figures(day)),
        ],
        sections=[
            *(Section(id, title, list(_table(title, counted))) for id, title, counted in counts),
            Section("metrics", "For other programs", [ListPart(items=[_METRICS])]),
        ],
        foot=f"endstop {__version__}, counted in this process.",
        view="/endstop/",
    )


_METRICS = Item(name="Metrics", link="metrics", text="the counts since the start, for Prometheus")


def _figures(day: ProxyCounts) -> list[Figure]:
    saved = f"{day.saved_tokens:,} input tokens of these (estimated)"
    estimated = f"{day.estimated_tokens:,} of them estimated" if day.estimated_tokens else ""
    return [
        Figure("Requests", f"{sum(day.requests.values()):,}"),
        Figure("Runs that ended", f"{sum(day.endings.values()):,}"),
        Figure("Responses cut", f"{sum(day.cuts.values()):,}"),
        Figure("Requests not made", f"{day.requests['answered'] + day.requests['stopped']:,}", saved),
        Figure("Tokens used", f"{day.usage.input_tokens + day.usage.output_tokens:,}", estimated),
        *([Figure("Cost", f"${day.usage.cost_usd:,.2f}")] if day.usage.cost_usd else []),
    ]


def _in_words(counts: Counter[str], words: Callable[[str], str]) -> dict[str, int]:
    """Return the counts by their names in words, the most frequent first."""
    named: Counter[str] = Counter()
    for name, count in counts.items():
        named[words(name)] += count
    return dict(named.most_common())


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _table(title: str, counted: dict[str, int]) -> Iterator[TablePart]:
    """Yield the table of what was counted, if anything was."""
    most = max(counted.values(), default=0)
    if most:
        yield TablePart(
            caption=f"{title}, today",
            heads=[Head(""), Head(""), Head("Number", is_figure=True)],
            rows=[
                [name, Cell(bar=number / most), Cell(text=f"{number:,}", order=number)]
                for name, number in counted.items()
                if number
            ],
        )
