"""What was measured: kept in `measured.json`, cell by cell, and shown on docs/reference/agents.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec import json as codec

from .agents import HERE, ROOT, Agent, agents
from .checks import loop_requests, own_answers
from .drive import Observation
from .hook_checks import denied_calls
from .scenarios import BEHIND_PROXY, WITH_HOOK, Scenario

MEASURED = HERE / "measured.json"
FIRST_TRY = HERE / "first_try.json"
"""What the strangers did the first time: each cell is written once."""
PAGE = ROOT / "docs" / "reference" / "agents.md"
_MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class HookCell(Struct, kw_only=True):
    """What a hook did."""

    checks: int
    """How often the check at the agent's end was run."""
    denied: int
    """Calls that were denied."""

    @property
    def said(self) -> list[str]:
        """What stands in the table; nothing of what was not done."""
        counted = ((self.checks, "check" if self.checks == 1 else "checks"), (self.denied, "denied"))
        return [f"{number} {what}" for number, what in counted if number]


class Cell(Struct, kw_only=True):
    """One agent in one scenario."""

    version: str
    date: str
    commit: str = ""
    """The commit of endstop."""
    problems: list[str]
    requests: int = 0
    """Those of the agent's loop that reached the provider."""
    answers: int = 0
    """Those that the proxy answered."""
    seconds: float = 0.0
    wires: list[str] = []
    hook: HookCell | UnsetType = UNSET
    """What the hook did; not set without one."""

    @property
    def shown(self) -> str:
        """What stands in the table."""
        if not self.requests and not self.version:
            return "not installed"
        said = ", ".join([str(self.requests), *(self.hook.said if self.hook else [])])
        return f"**no** ({said})" if self.problems else said


Cells = dict[str, dict[str, Cell]]
"""By agent and scenario."""


def cell(agent: Agent, seen: Observation, problems: list[str], date: str, commit: str) -> Cell:
    """Return what was measured."""
    return Cell(
        version=agent.version,
        date=date,
        commit=commit,
        problems=problems,
        requests=len(loop_requests(seen)),
        answers=len(own_answers(seen.near)),
        seconds=round(seen.seconds, 1),
        wires=sorted({one.wire for one in seen.answered}),
        hook=HookCell(checks=seen.checks, denied=denied_calls(seen)) if seen.scenario.hooked else UNSET,
    )


def read_cells(file: Path = MEASURED) -> Cells:
    """Return all that was measured."""
    return codec.decode(file.read_bytes(), type=Cells) if file.exists() else {}


def keep(agent: Agent, scenario: str, measured: Cell) -> None:
    """Keep a cell, and write the page anew."""
    _put(MEASURED, agent.name, scenario, measured)
    if agent.stranger and scenario not in read_cells(FIRST_TRY).get(agent.name, {}):
        _put(FIRST_TRY, agent.name, scenario, measured)
    page = rendered(PAGE.read_text(encoding="utf-8"), read_cells(), read_cells(FIRST_TRY))
    PAGE.write_text(page, encoding="utf-8")


def _put(file: Path, agent: str, scenario: str, measured: Cell) -> None:
    cells = read_cells(file)
    cells.setdefault(agent, {})[scenario] = measured
    file.write_text(json.dumps(to_builtins(cells), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rendered(page: str, cells: Cells, first: Cells) -> str:
    """Return the page with its tables from these cells, and from those of the strangers' first try."""
    known = [one for one in agents().values() if not one.stranger]
    strangers = [one for one in agents().values() if one.stranger]
    tables = {
        "agents": _table(_HEAD, [_row(one, cells) for one in known]),
        "agent_scenarios": _scenarios(BEHIND_PROXY),
        "agent_problems": _problems(known, cells, BEHIND_PROXY),
        "hook_agents": _table(_HOOK_HEAD, [_row(one, cells, WITH_HOOK) for one in known if one.setup.hook]),
        "hook_scenarios": _scenarios(WITH_HOOK),
        "hook_problems": _problems(known, cells, WITH_HOOK),
        "strangers": _table(
            ("try", *_HEAD),
            [(when, *_row(one, tried)) for one in strangers for when, tried in (("first", first), ("now", cells))],
        ),
        "strangers_first_problems": _problems(strangers, first, BEHIND_PROXY),
        "strangers_problems": _problems(strangers, cells, BEHIND_PROXY),
    }
    return _MARKED.sub(lambda found: f"{found[1]}{tables[found['name']]}{found[3]}", page)


_HEAD = ("agent", "version", "wire", *BEHIND_PROXY, "measured on")
_HOOK_HEAD = ("agent", "version", "wire", *WITH_HOOK, "measured on")
Scenarios = Mapping[str, Scenario]


def _row(agent: Agent, cells: Cells, columns: Scenarios = BEHIND_PROXY) -> tuple[str, ...]:
    measured = {name: one for name, one in cells.get(agent.name, {}).items() if name in columns}
    return (
        agent.title,
        agent.version,
        ", ".join(sorted({wire for one in measured.values() for wire in one.wires})),
        *(measured[name].shown if name in measured else "" for name in columns),
        ", ".join(sorted({f"{one.date} {one.commit}".strip() for one in measured.values()})),
    )


def _scenarios(listed: Scenarios) -> str:
    return _table(("", "the model"), [(one.name, one.title) for one in listed.values()])


def _problems(listed: list[Agent], cells: Cells, scenarios: Scenarios) -> str:
    lines = list(_problem_lines(listed, cells, scenarios))
    return "".join(lines) if lines else "Nothing.\n"


def _problem_lines(listed: list[Agent], cells: Cells, scenarios: Scenarios) -> Iterator[str]:
    for agent in listed:
        measured = cells.get(agent.name, {})
        for name in scenarios:
            for said in measured[name].problems if name in measured else ():
                yield f"- {agent.title}, {name}: {_plain(said)}\n"


def _plain(said: str) -> str:
    """Return the text as one line without marks of Markdown or HTML."""
    return " ".join(re.sub(r"([\\<>*_|\[\]])", r"\\\1", said).split())


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
