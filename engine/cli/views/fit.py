"""A fit in the terminal: the guarantee, the path from cautious to eager, and the limits of the guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...analysis.fit_report import FitReport, settings_text
from .document_terminal import FittingTable, bad_files, line, listing
from .fit_document import fit_document

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_fit(report: FitReport, written: Sequence[str] = (), warning: str | None = None) -> Iterator[RenderableType]:
    """Yield the parts of the report.

    written: where the policy and the page are. warning: what is unusual about the labels.
    """
    document, chosen = fit_document(report), report.chosen
    yield line(document.guarantee, "bold green" if chosen is not None else "bold red")
    yield line(document.data, "dim")
    if warning:
        yield line(warning, "yellow")
    yield line("")
    yield FittingTable(document.rungs)
    yield line("\n".join(document.meaning), "dim")
    if chosen is not None:
        yield from listing("chosen", [settings_text(chosen.settings)])
    for heading, examples in document.examples:
        yield from listing(heading, [str(one) for one in examples])
    yield from listing(
        "what this means, and what it does not promise", [f"- {sentence}" for sentence in document.conditions]
    )
    yield from bad_files(report.bad, report.damaged)
    if written:
        yield line("\n" + "\n".join(f"{place}." for place in written))
    elif chosen is not None:
        yield line("\nNo file was written: give -o FILE for the policy.", "dim")
