"""What is written for people stays true: tables, links, targets, and the length of files."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from endstop.decision import STATUS_OF, Policy
from endstop.replay import replay

from . import scripts
from .console import endstop

ROOT = Path(__file__).parent.parent


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


def _tables() -> ModuleType:
    return scripts.load(scripts.DOCS / "tables.py")


@pytest.mark.parametrize("page", _tables().PAGES)
def test_the_generated_tables_are_what_the_code_says(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert _tables().rendered(text) == text, "run `make docs`"


def test_every_table_stands_on_a_page() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in _tables().PAGES)
    assert set(re.findall(r"<!-- table: (\w+) -->", text)) == set(_tables().TABLES)


def test_every_stop_reason_has_one_cause_in_a_sentence_and_what_stops_with_it() -> None:
    endings, known = _tables().ENDINGS, {rule.name for rule in _tables().EVERY_RULE} | {"the engine"}
    assert list(endings) == list(STATUS_OF)
    rows = [line.split(" | ") for line in _tables().endings().splitlines()[2:]]
    for (_, cause, by, *_), reason in zip(rows, STATUS_OF, strict=False):
        assert re.fullmatch(r"[A-Z`][^.]*(\.[a-z][^.]*)*\.", cause), reason
        assert len(cause) < 120, reason
        assert set(by.replace("`", "").split(", ")) <= known, reason


def test_what_the_endings_name_to_go_on_exists() -> None:
    settings = set(_leaves(msgspec.to_builtins(Policy())))
    cli = ROOT / "engine" / "cli"
    options = "".join((cli / name).read_text(encoding="utf-8") for name in ("run.py", "options.py"))
    for reason, ending in _tables().ENDINGS.items():
        assert ending.go_on.endswith("."), reason
        named = re.findall(r"`(\w+\.\w+)`", ending.go_on)
        assert {name for name in named if name not in settings} == set(), reason
        assert [option for option in re.findall(r"--[a-z-]+", ending.go_on) if f'"{option}"' not in options] == []


def _leaves(group: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in group.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name


def test_every_setting_of_a_policy_has_a_row_with_its_values_and_what_it_means() -> None:
    page = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w.]+)` \| (.+?) \| (.+?) \| (.+) \|$", page.partition("## Every setting")[2], re.MULTILINE
    )
    assert [row[0] for row in rows] == list(_leaves(msgspec.to_builtins(Policy())))
    assert all(word.strip() for row in rows for word in row)


async def test_the_audit_that_is_shown_is_what_the_command_prints() -> None:
    text = (ROOT / "docs" / "guides" / "report.md").read_text(encoding="utf-8")
    shown = re.search(r"`endstop (audit \S+)`.*?```text\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    ran = await endstop(*shown[1].split(), cwd=ROOT)
    assert (ran.code, ran.out) == (0, shown[2])


def _promises() -> dict[str, list[str]]:
    """The references to tests in each row of docs/reference/promises.md, in their order."""
    page = (ROOT / "docs" / "reference" / "promises.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-G]\d*) \| [^|]+ \| [^|]* ?\| ([^|]+) \|$", page, re.MULTILINE)
    return {row: re.findall(r"`([^`]+)`", tests) for row, tests in rows}


def test_every_promise_stands_on_its_page() -> None:
    parts = {"A": 7, "B": 7, "C": 8, "D": 5, "E": 0, "F": 16, "G": 0}
    rows = [f"{part}{number}" for part, last in parts.items() for number in range(1, last + 1)] + ["E", "G"]
    assert list(_promises()) == sorted(rows, key=lambda row: (row[0], int(row[1:] or 0)))


def test_the_tests_that_hold_a_promise_exist() -> None:
    promises = _promises()
    assert [row for row, tests in promises.items() if not tests] == [], "no test is named"
    functions: dict[str, list[str]] = {}
    missing = []
    for row, reference in [(row, reference) for row, tests in promises.items() for reference in tests]:
        path, _, prefix = reference.partition("::")
        if path not in functions:
            body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
            functions[path] = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        if not any(name.startswith(prefix or "test_") for name in functions[path]):
            missing.append(f"{row}: {reference}")
    assert missing == []


def test_a_table_whose_data_is_absent_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = _tables()
    monkeypatch.setitem(tables.TABLES, "steps_foreign", lambda: "")
    page = "<!-- table: steps_foreign -->\n| measured elsewhere |\n<!-- end -->"
    assert tables.rendered(page) == page


def _links() -> Iterator[tuple[str, str, str]]:
    """Each link within the project: the page that it stands on, the path that it names, and the heading."""
    for page in _pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            if "://" not in link:
                name, _, anchor = link.partition("#")
                yield page, name, anchor


def test_a_link_to_a_file_of_the_project_leads_somewhere() -> None:
    links = [(page, name) for page, name, _ in _links() if name]
    assert len(links) > 300
    assert [f"{page}: {name}" for page, name in links if not (ROOT / page).parent.joinpath(name).exists()] == []


def _anchors(page: Path) -> set[str]:
    """The anchors that a code host makes of the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


def test_a_link_to_a_heading_leads_to_one() -> None:
    links = [(page, name, anchor) for page, name, anchor in _links() if anchor]
    targets = {(page, name): (ROOT / page).parent / name if name else ROOT / page for page, name, _ in links}
    anchors = {target: _anchors(target) for target in set(targets.values())}
    assert len(links) > 50
    lost = [(page, name, anchor) for page, name, anchor in links if anchor not in anchors[targets[page, name]]]
    assert [f"{page}: {name}#{anchor}" for page, name, anchor in lost] == []


def test_each_page_stands_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in _docs() if path.parent.name != "decisions"]
    assert [page for page in pages if f"({page})" not in index and page != "README.md"] == []


def test_the_picture_of_the_demo_is_what_its_program_draws() -> None:
    program = scripts.load(scripts.DOCS / "demo_picture.py")
    assert program.picture() == program.PICTURE.read_text(encoding="utf-8"), "run `make docs`"


def test_the_picture_of_until_is_what_its_program_draws() -> None:
    program = scripts.load(scripts.DOCS / "until_picture.py")
    assert program.picture() == program.PICTURE.read_text(encoding="utf-8"), "run `make docs`"


async def test_the_run_in_the_picture_of_until_replays_to_the_same_end() -> None:
    report = await replay(scripts.load(scripts.DOCS / "until_picture.py").RECORD)
    assert [(run.divergence, run.difference, run.outcome.stop_reason) for run in report.runs] == [
        (None, None, "until_met")
    ]


def test_a_make_target_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    missing = []
    for page in _pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        named = re.findall(r"`make ([a-z-]+)|^ *make ([a-z-]+)(?: *$| +#| +[A-Z]+=)", text, re.MULTILINE)
        missing += [f"{page}: make {quoted or shown}" for quoted, shown in named if (quoted or shown) not in targets]
    assert missing == []


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


@pytest.mark.parametrize("name", ["docs/explanation/architecture.md", "CONTRIBUTING.md"])
def test_files_that_the_way_through_the_project_names_are_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:decision|providers|engine|tests|docs)/[\w/]*[\w.]*)`", text))
    assert len(named) > 5
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
