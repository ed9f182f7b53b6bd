"""Pages in a browser that forgive nothing: what the page's tests share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .shown import Site

PATIENCE = 60_000
"""Milliseconds after which a wait in a test has failed."""
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def shown() -> Iterator[Site]:
    """A server with one agent."""
    with Site().running() as site:
        yield site


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages, each in a browser profile of its own; afterwards nothing may have gone wrong in any of them."""
    pages: list[Any] = []

    def opened(**options: Any) -> Any:
        pages.append(_page_in(browser, **options))
        return pages[-1]

    yield opened
    wrong = [told for page in pages for told in _wrong_in(page)]
    for page in pages:
        page.context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """A page for all tests of a module: a browser profile and a process for each would cost as much as the test."""
    page = _page_in(browser)
    yield page
    page.context.close()


@pytest.fixture
def page(shown: Site, clean_tab: Any) -> Any:
    """The page of the server, loaded anew, at its front."""
    clean_tab.goto(shown.url)
    return clean_tab


@pytest.fixture
def blank(clean_tab: Any) -> Any:
    """The tab before it shows anything, so that an address opened in it loads the page anew."""
    clean_tab.goto("about:blank")
    return clean_tab


@pytest.fixture
def clean_tab(tab: Any) -> Iterator[Any]:
    """The tab, in which a test may leave nothing but the page. Tests that leave more take `open_page`."""
    tab.refused = ()
    tab.asked.clear()
    yield tab
    tab.unroute_all()
    tab.context.set_offline(False)
    tab.context.clear_permissions()
    kept = 0
    if tab.url != "about:blank":  # a test leaves for it before it ends its own server, whose origin nobody has again
        kept = tab.evaluate("localStorage.length + sessionStorage.length + document.cookie.length")
        tab.evaluate("(localStorage.clear(), sessionStorage.clear())")
    assert _wrong_in(tab) == []
    assert kept == 0, "the test leaves something for the next one: it should take `open_page`"


@pytest.fixture(scope="module")
def _page_that_stays(browser: Any, shown: Site) -> Iterator[Any]:
    page = _page_in(browser)
    page.goto(shown.url)
    yield page
    page.context.close()


@pytest.fixture
def modules(_page_that_stays: Any) -> Iterator[Callable[[str, Any], Any]]:
    """Calls JavaScript, with one argument, that uses the page's modules and leaves the page as it is."""

    def called(function: str, given: Any) -> Any:
        # as text, since Playwright takes apart each value that it hands over
        return _page_that_stays.evaluate(f"async (text) => ({function})(JSON.parse(text))", json.dumps(given))

    yield called
    assert _wrong_in(_page_that_stays) == []


def _page_in(browser: Any, **options: Any) -> Any:
    """A page in a browser profile of its own, that keeps what went wrong in it."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 850}, "reduced_motion": "reduce", **options})
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.refused = ()
    page.asked = []
    page.wrong = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (page.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda said: _console(page, said))
    return page


def _wrong_in(page: Any) -> list[str]:
    """What went wrong in this page since it was asked for the last time."""
    wrong = [*page.wrong, *(() if page.is_closed() else page.evaluate("(window.violations ?? []).splice(0)"))]
    page.wrong.clear()
    return wrong


def _console(page: Any, said: Any) -> None:
    """Whatever is said there is wrong, but for answers of the server that a test says it expects (`page.refused`)."""
    if said.type in ("error", "warning") and not any(word in said.text for word in page.refused):
        page.wrong.append(f"console: {said.text}")
