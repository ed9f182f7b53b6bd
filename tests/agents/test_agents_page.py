"""The guide has a block for each agent, and the table is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from .agents import PROXY, Agent, agents
from .install import install, installed_version
from .results import FIRST_TRY, MEASURED, PAGE, Cell, joined, read_cells, rendered
from .scenarios import SCENARIOS


@pytest.mark.parametrize("agent", agents())
def test_the_guide_leads_each_agent_through_the_proxy(agent: str) -> None:
    setup = agents()[agent].setup
    assert setup.upstream.startswith("https://")
    assert PROXY in setup.shell + "".join(setup.files.values())
    there = setup.behind("http://127.0.0.1:1")
    assert PROXY not in there.shell + "".join(there.files.values())
    assert there.upstream_at("http://127.0.0.1:2").startswith("http://127.0.0.1:2")


@pytest.mark.parametrize("agent", [one for one in agents().values() if one.setup.hook], ids=lambda one: one.name)
def test_the_guide_sets_up_a_hook_which_gets_the_check_of_the_matrix(agent: Agent) -> None:
    assert agent.setup.hook_words("true")[:5] == ["setup", agent.name, "--hook", "--until", "true"]
    assert "--until" not in agent.setup.hook_words("")


def test_the_table_is_what_was_measured() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert rendered(text, read_cells(), read_cells(FIRST_TRY)) == text, "run `make agents`"


def test_an_agent_that_is_not_there_is_never_green(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Cell(version="", date="2026-11-29", problems=["not installed: no such package"])
    page = rendered(PAGE.read_text(encoding="utf-8"), {"codex": {"a": absent}}, {})
    row = next(line for line in page.splitlines() if line.startswith("| Codex |"))
    assert row.split(" | ")[3] == "not installed"
    assert "- Codex, a: not installed: no such package" in page


def test_a_cell_with_a_problem_is_shown_with_its_reason() -> None:
    red = Cell(version="1", date="2026-11-29", problems=["61 requests reached the provider"], requests=61)
    page = rendered(PAGE.read_text(encoding="utf-8"), {"pi": {"c": red}}, {})
    assert "**no** (61)" in page
    assert "- pi, c: 61 requests reached the provider" in page


def test_a_cell_that_was_measured_with_each_delay_says_so_and_with_which_it_is_red() -> None:
    green = Cell(version="1", date="2026-11-29", problems=[], requests=3, seconds=1.5, wires=["chat"])
    red = Cell(version="1", date="2026-11-29", problems=["1 response is missing"], requests=4, seconds=2.0)
    both = joined([green, red], [0, 50])
    assert (both.requests, both.seconds, both.problems) == (4, 3.5, ["streams 50 ms late: 1 response is missing"])
    page = rendered(PAGE.read_text(encoding="utf-8"), {"pi": {"a": both}}, {})
    row = next(line for line in page.splitlines() if line.startswith("| pi |"))
    assert row.split(" | ")[3] == "**no** (4)"
    assert "| each 0, 50 ms late |" in row


def test_options_of_the_proxy_make_a_row_of_their_own() -> None:
    red = Cell(version="1", date="2026-11-29", problems=["it is red"], requests=3)
    green = Cell(version="1", date="2026-11-29", problems=[], requests=3)
    cells = {"smolagents": {"a": red}, "smolagents --no-upstream-streaming": {"a": green}}
    page = rendered(PAGE.read_text(encoding="utf-8"), cells, {})
    rows = [line.split(" | ")[:4] for line in page.splitlines() if line.startswith("| smolagents")]
    assert [(row[0], row[3]) for row in rows] == [
        ("| smolagents", "**no** (3)"),
        ("| smolagents `--no-upstream-streaming`", "3"),
    ]


def test_every_cell_belongs_to_an_agent_and_a_scenario() -> None:
    for name, cells in [*read_cells(MEASURED).items(), *read_cells(FIRST_TRY).items()]:
        assert name.partition(" ")[0] in agents()
        assert set(cells) <= set(SCENARIOS)


def test_an_installation_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "npm" in install(agents()["codex"])
    assert installed_version(agents()["codex"]) == ""
