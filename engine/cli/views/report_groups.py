"""A report as tables, continued: groups of runs, tools, and policies beside a baseline."""

from __future__ import annotations

from ...analysis.metrics import Figures, ToolTotals
from ...analysis.report import Report
from .report_sheets import Bar, Sheet, mean_cost
from .tables import in_unit, long, part, percent, short
from .text import counted

NAMED = 15
"""Rows of a table by model, policy or tool; --json has all."""


def groups(title: str, name: str, found: dict[str, Figures]) -> Sheet:
    """Groups of runs beside each other."""
    rows = []
    for key, one in list(found.items())[:NAMED]:
        done, spent = one.steps_before_done, one.spending
        rows.append(
            (
                key,
                f"{one.runs:,}",
                part(one.judged.passed),
                part(one.false_positives.runs),
                part(one.false_negatives.went_on),
                part(one.ended["limit"]),
                "-" if done.mean is None else f"{done.mean:.1f}",
                short(spent.output_tokens / one.runs),
                mean_cost(one),
                long(spent.seconds / one.runs),
            )
        )
    more = f"And {len(found) - NAMED:,} more: --json lists them all." if len(found) > NAMED else ""
    head = (name, "runs", "good", "false pos.", "went on", "at limit", "steps to done", "tokens out", "cost", "time")
    caption = f"{title}: shares of the runs that can tell, and means of a run"
    return Sheet(
        title=title,
        caption=caption,
        head=head,
        rows=rows,
        figures=tuple(range(1, 10)),
        spare=(9, 7, 5, 6, 8, 4),
        note=more,
    )


def tools(found: dict[str, ToolTotals]) -> Sheet:
    """The calls of each tool."""
    most = max((tool.calls for tool in found.values()), default=1) or 1
    rows = [
        (
            name,
            Bar(tool.calls / most),
            f"{tool.calls:,}",
            f"{tool.runs:,}",
            f"{tool.failed:,}",
            percent(tool.failed_share.value if tool.failed_share is not None else None),
            f"{tool.handed_back:,}",
            f"{tool.not_run:,}",
            long(tool.seconds),
        )
        for name, tool in list(found.items())[:NAMED]
    ]
    more = f"And {len(found) - NAMED:,} more: --json lists them all." if len(found) > NAMED else ""
    head = ("tool", "", "calls", "runs", "failed", "share", "handed back", "not run", "time")
    caption = "By tool: calls, and how they ended"
    return Sheet(
        title="By tool",
        caption=caption,
        head=head,
        rows=rows,
        figures=tuple(range(2, 9)),
        spare=(7, 8, 6, 1, 3),
        note=more,
    )


def comparisons(report: Report) -> list[Sheet]:
    """Each policy beside the baseline."""
    if report.comparison is None:
        return []
    base = report.comparison
    sheets = []
    for group in base.groups:
        rows = [
            (
                one.name,
                in_unit(one, one.baseline),
                in_unit(one, one.value),
                in_unit(one, one.change.value, signed=True),
                f"{in_unit(one, one.change.low, signed=True).removesuffix(' points')} to "
                f"{in_unit(one, one.change.high, signed=True).removesuffix(' points')}",
                "yes" if one.sure else "can be chance",
            )
            for one in group.differences
        ]
        sheets.append(
            Sheet(
                title=f"{group.name} beside {base.baseline}",
                caption=f"{group.name} beside {base.baseline}: a run's mean, or the share of runs",
                head=("", base.baseline, group.name, "change", "95 %", "sure"),
                rows=rows,
                figures=(1, 2, 3, 4),
                spare=(5, 2),
                note=f"{counted(group.runs, 'run')} beside {counted(base.runs, 'run')}, as they are: other tasks or "
                "models are part of the difference.",
            )
        )
    return sheets
