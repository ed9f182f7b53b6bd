"""What the proxy saw and saved: counted as it happens, as metrics for Prometheus, and as one page without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from html import escape
from typing import Literal

from .._version import __version__
from ..decision import Event, Usage
from ..decision.events import AttemptFailed, RunFinished
from ..process.prometheus import Family, prometheus_text

CHARACTERS_PER_TOKEN = 4
"""For the estimate of a request by its size."""


def request_tokens(size: int) -> int:
    """Tokens of a request of so many bytes, estimated: system prompt, tools, messages and images are all among them."""
    return size // CHARACTERS_PER_TOKEN


Handling = Literal["passed", "followed", "answered", "stopped", "refused"]

HANDLING: dict[Handling, str] = {
    "followed": "followed and passed on",
    "passed": "passed on, not followed",
    "answered": "answered here after a completion",
    "stopped": "stopped here",
    "refused": "refused",
}
"""What became of a request, and how the page says it."""


class ProxyCounts:
    """What was counted in one span of time."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        """By `Handling`."""
        self.cuts: Counter[str] = Counter()
        """Responses that were cut, by why."""
        self.endings: Counter[str] = Counter()
        """Runs that ended, by stop reason."""
        self.failures: Counter[str] = Counter()
        """Requests to the provider that failed, by kind."""
        self.would: Counter[str] = Counter()
        """What a dry run would have stopped, by stop reason."""
        self.open_budgets = 0
        """Requests that were let through because the store of the budgets failed."""
        self.unfollowed_runs = 0
        """Runs that could not be followed any more, because a policy raised or a response could not be read."""
        self.usage = Usage()
        self.estimated_tokens = 0
        """Tokens of `usage` that no provider reported."""
        self.saved_tokens = 0
        """Input tokens of the requests that were answered or stopped here, estimated by their size."""


class Statistics:
    """Counts since the start, and of today. today: the date as a text; with another one a day's counts begin anew."""

    def __init__(self, today: Callable[[], str] = lambda: date.today().isoformat()) -> None:
        self.total = ProxyCounts()
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
        """Count what happened in a run."""
        for counts in (self.total, self.day):
            match event:
                case RunFinished(outcome=outcome):
                    counts.endings[outcome.stop_reason] += 1
                case AttemptFailed(kind=kind):
                    counts.failures[kind] += 1
                case _:
                    pass

    def count_usage(self, usage: Usage) -> None:
        """A response used this. Those that a conversation tells of are not counted: they came past the proxy."""
        for counts in (self.total, self.day):
            counts.usage = counts.usage + usage
            counts.estimated_tokens += usage.input_tokens + usage.output_tokens if usage.estimated else 0

    def count_request(self, handling: Handling, size: int = 0) -> None:
        """A request was handled like this. size: its bytes, if it is one that was not made."""
        for counts in (self.total, self.day):
            counts.requests[handling] += 1
            counts.saved_tokens += request_tokens(size)

    def count_cut(self, reason: str) -> None:
        """A response was cut."""
        for counts in (self.total, self.day):
            counts.cuts[reason] += 1

    def count_open_budget(self) -> None:
        """A request was let through because the store of the budgets failed."""
        for counts in (self.total, self.day):
            counts.open_budgets += 1

    def count_unfollowed_run(self) -> None:
        """A run could not be followed any more."""
        for counts in (self.total, self.day):
            counts.unfollowed_runs += 1

    def count_dry_stop(self, reason: str) -> None:
        """A dry run would have stopped here."""
        for counts in (self.total, self.day):
            counts.would[reason] += 1


def metrics(statistics: Statistics, running: int, runs: int, *, open_budgets: bool = False) -> str:
    """The counts since the start in Prometheus' text format (version 0.0.4).

    open_budgets: whether the budgets hold nothing back, as their store fails.
    """
    total = statistics.total
    families: list[Family] = [
        ("requests_total", "counter", "handling", dict(total.requests)),
        ("cut_responses_total", "counter", "reason", dict(total.cuts)),
        ("ended_runs_total", "counter", "reason", dict(total.endings)),
        ("failed_requests_total", "counter", "kind", dict(total.failures)),
        ("dry_run_stops_total", "counter", "reason", dict(total.would)),
        ("input_tokens_total", "counter", "", {"": total.usage.input_tokens}),
        ("output_tokens_total", "counter", "", {"": total.usage.output_tokens}),
        ("estimated_tokens_total", "counter", "", {"": total.estimated_tokens}),
        ("saved_input_tokens_estimated_total", "counter", "", {"": total.saved_tokens}),
        ("cost_usd_total", "counter", "", {"": total.usage.cost_usd or 0.0}),
        ("open_budget_requests_total", "counter", "", {"": total.open_budgets}),
        ("budgets_open", "gauge", "", {"": int(open_budgets)}),
        ("unfollowed_runs_total", "counter", "", {"": total.unfollowed_runs}),
        ("requests_in_progress", "gauge", "", {"": running}),
        ("known_runs", "gauge", "", {"": runs}),
    ]
    return prometheus_text("endstop_proxy", families)


# ---- the page

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5a6478;--line:#d5dce8;--card:#f5f7fb;--bar:#3565b0;--page:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf2;--soft:#9aa5b8;--line:#323b4c;--card:#1b212c;--bar:#7aa7f0;
--page:#12161d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1rem;max-width:68rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--page)}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:0 0 .6rem}p{margin:.2rem 0 1.4rem;color:var(--soft)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.8rem;margin-bottom:1.4rem}
.figures div,section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.9rem 1rem}
.figures b{display:block;font-size:1.5rem;line-height:1.2;font-variant-numeric:tabular-nums}
.figures span,small{color:var(--soft);font-size:.85rem}
.tables{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:.8rem}
table{width:100%;border-collapse:collapse}td{padding:.25rem 0;vertical-align:top;overflow-wrap:anywhere;width:100%}
td:last-child{text-align:right;padding-left:1rem;font-variant-numeric:tabular-nums;white-space:nowrap;width:auto}
td i{display:block;height:.25rem;border-radius:.125rem;background:var(--bar)}
.alarm{color:#b3261e;font-weight:600}footer{margin-top:1.4rem;color:var(--soft);font-size:.85rem}a{color:inherit}
"""


def page(statistics: Statistics, running: int, upstream: str, *, dry_run: bool, problem: str = "") -> str:
    """What the proxy saw and saved today. problem: why the budgets hold nothing back, if they do not."""
    day = statistics.day
    figures = [
        (f"{sum(day.requests.values()):,}", "requests"),
        (f"{sum(day.endings.values()):,}", "runs that ended"),
        (f"{sum(day.cuts.values()):,}", "responses cut"),
        (f"{day.requests['answered'] + day.requests['stopped']:,}", "requests not made"),
        (f"{day.saved_tokens:,}", "input tokens of these (estimated)"),
        (f"{day.usage.input_tokens + day.usage.output_tokens:,}", _tokens_label(day)),
    ]
    tables = [
        ("Requests", {said: day.requests[name] for name, said in HANDLING.items() if day.requests[name]}),
        ("How runs ended", dict(day.endings.most_common())),
        ("Responses cut", dict(day.cuts.most_common())),
        ("Failures of the provider", dict(day.failures.most_common())),
    ]
    if dry_run:
        tables.append(("Would have been stopped", dict(day.would.most_common())))
    failed = {
        "requests let through, as the store of the budgets failed": day.open_budgets,
        "runs that could not be followed any more": day.unfollowed_runs,
    }
    if any(failed.values()):
        tables.append(("Failures of the proxy", {said: count for said, count in failed.items() if count}))
    alarm = f"<p class=alarm>The budgets hold nothing back: {escape(problem)}</p>" if problem else ""
    mode = "dry run: nothing is changed; " if dry_run else ""
    shown = "".join(f"<div><b>{number}</b><span>{escape(what)}</span></div>" for number, what in figures)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>endstop proxy</title><style>{_STYLE}</style><h1>endstop proxy</h1>"
        f"<p>Today, in front of {escape(upstream)}; {mode}in progress: {running:,}</p>{alarm}"
        f"<div class=figures>{shown}</div><div class=tables>{''.join(_table(*one) for one in tables)}</div>"
        f"<footer>endstop {escape(__version__)}, counted in this process. <a href=/endstop/metrics>Metrics</a></footer>"
    )


def _tokens_label(counts: ProxyCounts) -> str:
    estimated = f", {counts.estimated_tokens:,} of them estimated" if counts.estimated_tokens else ""
    cost = f", ${counts.usage.cost_usd:,.2f}" if counts.usage.cost_usd else ""
    return f"tokens used{estimated}{cost}"


def _table(title: str, counted: dict[str, int]) -> str:
    most = max(counted.values(), default=0)
    rows = "".join(
        f"<tr><td>{escape(name)}<i style='width:{100 * number / most:.0f}%'></i><td>{number:,}"
        for name, number in counted.items()
    )
    return f"<section><h2>{escape(title)}</h2>{f'<table>{rows}</table>' if rows else '<small>none</small>'}</section>"
