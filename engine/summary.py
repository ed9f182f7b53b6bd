"""Many outcomes in figures, by provider. The figures are counted as results come in; no result is kept for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from .decision import Usage
from .providers.clock import Clock
from .tasks import TaskResult

DETAIL = 200
"""Characters of a failure's detail that are shown."""


class NamedFailure(Struct, frozen=True, kw_only=True):
    """A task that failed, and why."""

    id: str
    stop_reason: str
    detail: str


class ProviderSummary(Struct, frozen=True, kw_only=True):
    """The results of one provider, or of all of them."""

    provider: str
    tasks: int
    """Results so far."""
    runs: int
    """Of these, runs that began: means and medians are theirs."""
    statuses: dict[str, int]
    """How often each status came up."""
    stop_reasons: dict[str, int]
    passed: int
    """Verdicts of the evaluation."""
    not_passed: int
    steps: int
    steps_mean: float
    steps_median: float
    usage: Usage
    """Tokens and money of all runs, cancelled ones included. What has no known price counts as nothing."""
    unpriced: int
    """Runs that asked a model and whose price is not known."""
    duration_ms: int
    """Of all runs together, though many went on at once."""
    failures: tuple[NamedFailure, ...]


class Summary(Struct, frozen=True, kw_only=True):
    """The results of a fleet."""

    providers: tuple[ProviderSummary, ...]
    """In the order of the tasks that each had first."""
    total: ProviderSummary
    elapsed_ms: int
    """From the start of the fleet to its latest result."""

    def __str__(self) -> str:
        rows = [_HEAD, *(_row(one) for one in self.providers)]
        if len(self.providers) > 1:
            rows.append(_row(self.total))
        failures = [
            f"failed: {failure.id} ({one.provider}): {failure.stop_reason}: {_short(failure.detail)}"
            for one in self.providers
            for failure in one.failures
        ]
        return "\n".join([*aligned(rows), *failures])


class Tally:
    """Counts results."""

    def __init__(self, clock: Clock, providers: Iterable[str]) -> None:
        self._clock = clock
        self._began = self._latest = clock.now()
        self._providers = {name: _Counts(name) for name in providers}
        self._all = _Counts("all")

    @property
    def results(self) -> int:
        """How many came in."""
        return self._all.tasks

    @property
    def statuses(self) -> dict[str, int]:
        """How often each came up. Can be read from any thread, as `usage` can."""
        return dict(self._all.statuses)

    @property
    def usage(self) -> Usage:
        """Of all of them."""
        return self._all.usage

    def begin(self) -> None:
        """From now on time is counted."""
        self._began = self._latest = self._clock.now()

    def add(self, result: TaskResult) -> None:
        """Count one more."""
        self._latest = self._clock.now()
        self._providers[result.provider].add(result)
        self._all.add(result)

    def summary(self) -> Summary:
        """The figures now."""
        return Summary(
            providers=tuple(counts.summary() for counts in self._providers.values()),
            total=self._all.summary(),
            elapsed_ms=round((self._latest - self._began) * 1000),
        )


class _Counts:
    def __init__(self, provider: str) -> None:
        self.tasks = 0
        self._provider = provider
        self.statuses: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._steps: Counter[int] = Counter()
        self.usage = Usage()
        self._unpriced = 0
        self._duration = 0
        self._failures: list[NamedFailure] = []

    def add(self, result: TaskResult) -> None:
        outcome = result.outcome
        self.tasks += 1
        self.statuses[outcome.status] += 1
        self._reasons[outcome.stop_reason] += 1
        self._verdicts[outcome.verdict] += 1
        if outcome.status == "failed":
            self._failures.append(NamedFailure(id=result.id, stop_reason=outcome.stop_reason, detail=outcome.detail))
        if result.started:
            self._steps[outcome.steps] += 1
            self.usage += outcome.usage
            self._unpriced += outcome.usage.cost_usd is None and outcome.requests > 0
            self._duration += outcome.duration_ms

    def summary(self) -> ProviderSummary:
        runs = self._steps.total()
        steps = sum(steps * times for steps, times in self._steps.items())
        return ProviderSummary(
            provider=self._provider,
            tasks=self.tasks,
            runs=runs,
            statuses=dict(self.statuses),
            stop_reasons=dict(self._reasons),
            passed=self._verdicts["passed"],
            not_passed=self._verdicts["failed"],
            steps=steps,
            steps_mean=steps / runs if runs else 0.0,
            steps_median=_median(self._steps),
            usage=self.usage,
            unpriced=self._unpriced,
            duration_ms=self._duration,
            failures=tuple(self._failures),
        )


def _median(counts: Counter[int]) -> float:
    """The median of numbers of which it is known how often each comes up."""
    many = counts.total()
    if not many:
        return 0.0
    middle = [_at(counts, (many - 1) // 2), _at(counts, many // 2)]
    return sum(middle) / 2


def _at(counts: Counter[int], place: int) -> int:
    for number in sorted(counts):
        place -= counts[number]
        if place < 0:
            return number
    raise IndexError(place)


# ---- in lines

_HEAD = (
    "provider",
    "tasks",
    "completed",
    "other",
    "passed",
    "steps",
    "median",
    "tokens in",
    "out",
    "cost",
    "mean time",
)


def _row(one: ProviderSummary) -> tuple[str, ...]:
    other = ", ".join(f"{n} {status}" for status, n in one.statuses.items() if status != "completed")
    judged = one.passed + one.not_passed
    return (
        one.provider,
        str(one.tasks),
        str(one.statuses.get("completed", 0)),
        other or "-",
        f"{one.passed} of {judged}" if judged else "-",
        f"{one.steps_mean:.1f}",
        f"{one.steps_median:g}",
        f"{one.usage.input_tokens:,}",
        f"{one.usage.output_tokens:,}",
        "-" if one.usage.cost_usd is None else f"${one.usage.cost_usd:.4f}{'+' if one.unpriced else ''}",
        f"{one.duration_ms / one.runs / 1000:.1f} s" if one.runs else "-",
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else line[: DETAIL - 1] + "…"
