"""The documentation site: every page is in it, its links lead somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from . import scripts
from .chromium import CHROMIUM
from .engine.web.conftest import PATIENCE
from .test_exports import PUBLIC

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-site" / "bin" / "python"


@pytest.fixture
def build_site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(scripts.DOCS))
    return importlib.import_module("build_site")


def _names(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case str():
                yield entry
            case dict():
                for inside in entry.values():
                    yield from _names(inside if isinstance(inside, list) else [inside])


def test_every_page_stands_once_in_the_navigation(build_site: ModuleType) -> None:
    found = build_site.pages()
    named = list(_names(build_site.navigation(build_site.configuration()[1], found)))
    assert sorted(named) == sorted(found), "docs/mkdocs.yml has the navigation"


def test_the_pages_of_python_have_exactly_the_public_names(build_site: ModuleType) -> None:
    names = importlib.import_module("api_names")
    shown = {package: {name.name for name in names.public_names(package)} for package in names.PACKAGES}
    modules = (ROOT / "engine" / "adapters").glob("*.py")
    adapters = {
        f"endstop.adapters.{path.stem}" for path in modules if "\nEndstop = " in path.read_text(encoding="utf-8")
    }
    assert {package for package in shown if package not in PUBLIC} == adapters
    public = {package: set(exported.split()) - {"__version__"} for package, exported in PUBLIC.items()}
    assert {package: shown[package] for package in shown.keys() & public.keys()} == {
        package: public[package] for package in shown.keys() & public.keys()
    }
    assert public.keys() <= shown.keys()


def test_llms_txt_has_a_line_for_every_page(build_site: ModuleType) -> None:
    found = build_site.pages()
    text = build_site.llms_text(build_site.configuration()[1], found)
    assert text.startswith("# endstop\n\n> ")
    listed = re.findall(r"^- \[.+?\]\((.+)\.html\)", text, re.MULTILINE)
    assert sorted(listed) == sorted(name.removesuffix(".md") for name in found)


def test_every_public_name_says_what_it_is(build_site: ModuleType) -> None:
    names = importlib.import_module("api_names")
    silent = [name.path for package in names.PACKAGES for name in names.public_names(package) if not name.about]
    assert silent == []


def test_links_out_of_the_documents_are_pages_of_the_site_or_plain_names(build_site: ModuleType) -> None:
    text = "[a](../../CHANGELOG.md#unreleased) [b](../examples) [`c`](../../tests/records) [d](../steps.py) `[e](x.md)`"
    assert build_site.site_links(text, ROOT / "docs" / "guides", Path("guides")) == (
        "[a](../changelog.md#unreleased) [b](../examples/index.md) `c` `docs/steps.py` `[e](x.md)`"
    )


def test_a_broken_link_a_missing_anchor_and_what_comes_from_elsewhere_are_found(
    build_site: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><a href="b.html#there">1</a><a href="b.html#gone">2</a>'
        '<a href="c.html">3</a><a href="https://example.com">4</a>'
    )
    (tmp_path / "b.html").write_text('<h2 id="there">Here</h2><link rel="stylesheet" href="look.css">')
    (tmp_path / "look.css").write_text("@font-face { src: url(//fonts.example/a.woff) } b { background: url(a.png) }")
    assert list(build_site.broken(tmp_path)) == [
        "a.html: loads https://cdn.example/x.js",
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html leads nowhere",
        "look.css: loads //fonts.example/a.woff",
    ]


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of the site, built anew."""
    if not PYTHON.exists():
        pytest.skip("what makes the site is not installed: make site")
    ran = subprocess.run([PYTHON, scripts.DOCS / "build_site.py"], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    handler = functools.partial(_Quiet, directory=str(ROOT / "build" / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.long
@pytest.mark.parametrize("width", [1440, 390])
def test_a_browser_asks_no_other_host_and_finds_a_page_by_its_words(served: str, width: int) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in `.[test]`")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium-headless-shell")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PATIENCE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "reference/api/endstop.html", "guides/proxy.html", "reference/policies.html"):
            page.goto(served + name, wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        page.keyboard.press("/")
        page.keyboard.type("degenerate")
        page.get_by_text("Degenerate", exact=True).last.wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url("**/*?h=degenerate*")
        browser.close()
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []
