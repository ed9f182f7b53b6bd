"""Reports in a browser: a document as a file that Chromium shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endstop.http.document_page import Part, ReportPage, Section, report_html


def show(page: Any, document: ReportPage, folder: Path) -> Any:
    """Let the browser's page show a document, from a file in this folder."""
    file = folder / "shown.html"
    file.write_text(report_html(document).html, encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector("#document > *")
    return page


def show_parts(page: Any, folder: Path, *parts: Part) -> Any:
    """Let the browser's page show these parts."""
    return show(page, ReportPage(title="t", lead="l", sections=[Section("s", "S", parts)], foot="f"), folder)
