"""What is written for people stays true: tables, examples, links, targets, and the length of files."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LONG_AT = 300
LONG = {
    "decision/events.py": "the record's format: one union, best read on one page",
    "decision/facts.py": "the fold: what changes each fact, best read on one page",
    "engine/calls.py": "the calls of one step; what concerns completions is to become a file of its own",
    "engine/hosts/live.py": "one view: what scrolls by and the rows at the bottom share one state and one lock",
}
"""Files of the rooms that are longer than 300 lines, and why they may be. To look at, release by release."""


def _tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git here to tell the project's files from others")
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def _pages() -> list[str]:
    return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *sorted(str(p.relative_to(ROOT)) for p in _docs())]


def _docs() -> list[Path]:
    return list((ROOT / "docs").rglob("*.md"))


def _blocks(language: str) -> list[Any]:
    """Fenced blocks of the pages, each under the name `page:line`."""
    found = []
    for page in _pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            found.append(pytest.param(block[1], id=f"{page}:{line}"))
    return found


def _tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables


@pytest.mark.parametrize("page", _tables().PAGES)
def test_the_generated_tables_are_what_the_code_says(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert _tables().rendered(text) == text, "run `make docs`"


def test_every_table_stands_on_a_page() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in _tables().PAGES)
    assert set(re.findall(r"<!-- table: (\w+) -->", text)) == set(_tables().TABLES)


@pytest.mark.parametrize("code", _blocks("python"))
def test_an_example_compiles_and_the_names_it_imports_exist(code: str) -> None:
    tree = compile(code, "example", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("endstop"):
            module = importlib.import_module(node.module or "")
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("code", [block for block in _blocks("python") if "Scripted(" in str(block.values[0])])
def test_an_example_with_a_scripted_provider_runs_as_a_script(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", _pages())
def test_a_link_to_a_file_of_the_project_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", _pages())
def test_a_make_target_that_a_page_names_exists(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`make ([a-z-]+)|^ *make ([a-z-]+)(?: *$| +#| +[A-Z]+=)", text, re.MULTILINE)
    assert {quoted or shown for quoted, shown in named} - targets == set()


def test_the_decision_notes_are_numbered_without_a_gap_and_have_their_three_parts() -> None:
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(note.name[:4]) for note in notes] == list(range(1, len(notes) + 1))
    for note in notes:
        parts = re.findall(r"^## (.+)$", note.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], note.name


def test_no_file_says_where_packages_come_from() -> None:
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
    options = ["--" + option for option in ("index-url", "extra-index-url", "find-links", "trusted-host")]
    wrong = []
    for name in _tracked():
        content = (ROOT / name).read_bytes()
        wrong += [f"{name}: {word}" for word in (*hosts, *options) if word.encode() in content]
    assert not wrong, "\n".join(wrong)


def test_a_long_file_has_a_reason() -> None:
    lengths = {}
    for room in ("decision", "providers", "engine"):
        for path in (ROOT / room).rglob("*.py"):
            lengths[path.relative_to(ROOT).as_posix()] = len(path.read_text(encoding="utf-8").splitlines())
    long = {name for name, lines in lengths.items() if lines > LONG_AT}
    assert long == set(LONG)
