"""A browser, and pages in it that forgive nothing: what the page's tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .shown import Site

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
"""The first is made to have no window: it takes two thirds of the CPU time of the others."""
PATIENCE = 60_000
"""Milliseconds after which a wait in a test has failed."""
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window. For one module, since Playwright's event loop keeps out those of other tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in `.[test]`")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium-headless-shell")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shown() -> Iterator[Site]:
    """A server with one agent."""
    with Site().running() as site:
        yield site


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages, each in a browser profile of its own; afterwards nothing may have gone wrong in any of them."""
    pages: list[Any] = []
    wrong: list[str] = []

    def opened(**options: Any) -> Any:
        context = browser.new_context(
            **{"viewport": {"width": 1200, "height": 850}, "reduced_motion": "reduce", **options}
        )
        context.add_init_script(WATCH)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.refused = ()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda said: _console(page, said, wrong))
        pages.append(page)
        return page

    yield opened
    for page in pages:
        if not page.is_closed():
            wrong += page.evaluate("window.violations ?? []")
        page.context.close()
    assert wrong == []


def _console(page: Any, said: Any, wrong: list[str]) -> None:
    """Whatever is said there is wrong, but for answers of the server that a test says it expects (`page.refused`)."""
    if said.type in ("error", "warning") and not any(word in said.text for word in page.refused):
        wrong.append(f"console: {said.text}")


@pytest.fixture
def page(open_page: Callable[..., Any], shown: Site) -> Any:
    """The page of the server, open at its front."""
    page = open_page()
    page.goto(shown.url)
    return page
