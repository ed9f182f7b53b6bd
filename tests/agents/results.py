"""What was measured: kept in `measured.json`, cell by cell, and shown on docs/reference/agents.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec import json as codec
from msgspec.structs import replace

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
    delays: list[int] | UnsetType = UNSET
    """Milliseconds by which streams ended late, if it was measured once with each; otherwise once, in turn."""
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
"""By row and scenario. A row is an agent's name, and behind a space the proxy's options beside those of a scenario."""


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


def joined(measured: list[Cell], delays: list[int]) -> Cell:
    """Return one cell of those that were measured with these delays: what is wrong with any, the most requests."""
    wrong = [
        f"streams {delay} ms late: {said}" for one, delay in zip(measured, delays, strict=True) for said in one.problems
    ]
    return replace(
        measured[0],
        problems=wrong,
        requests=max(one.requests for one in measured),
        answers=max(one.answers for one in measured),
        seconds=round(sum(one.seconds for one in measured), 1),
        delays=delays,
    )


def read_cells(file: Path = MEASURED) -> Cells:
    """Return all that was measured."""
    return codec.decode(file.read_bytes(), type=Cells) if file.exists() else {}


def keep(agent: Agent, options: tuple[str, ...], scenario: str, measured: Cell) -> None:
    """Keep a cell, and write the page anew. options: those of the proxy, besides the scenario's."""
    _put(MEASURED, " ".join((agent.name, *options)), scenario, measured)
    if agent.stranger and not options and scenario not in read_cells(FIRST_TRY).get(agent.name, {}):
        _put(FIRST_TRY, agent.name, scenario, measured)
    page = rendered(PAGE.read_text(encoding="utf-8"), read_cells(), read_cells(FIRST_TRY))
    PAGE.write_text(page, encoding="utf-8")


def _put(file: Path, row: str, scenario: str, measured: Cell) -> None:
    cells = read_cells(file)
    cells.setdefault(row, {})[scenario] = measured
    file.write_text(json.dumps(to_builtins(cells), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rendered(page: str, cells: Cells, first: Cells) -> str:
    """Return the page with its tables from these cells, and from those of the strangers' first try."""
    known = [one for one in agents().values() if not one.stranger]
    strangers = [one for one in agents().values() if one.stranger]
    tables = {
        "agents": _table(_HEAD, [row for one in known for row in _rows(one, cells)]),
        "agent_scenarios": _scenarios(BEHIND_PROXY),
        "agent_problems": _problems(known, cells, BEHIND_PROXY),
        "hook_agents": _table(
            _HOOK_HEAD, [row for one in known if one.setup.hook for row in _rows(one, cells, WITH_HOOK)]
        ),
        "hook_scenarios": _scenarios(WITH_HOOK),
        "hook_problems": _problems(known, cells, WITH_HOOK),
        "strangers": _table(
            ("try", *_HEAD),
            [
                (when, *row)
                for one in strangers
                for when, tried in (("first", first), ("now", cells))
                for row in _rows(one, tried)
            ],
        ),
        "strangers_first_problems": _problems(strangers, first, BEHIND_PROXY),
        "strangers_problems": _problems(strangers, cells, BEHIND_PROXY),
    }
    return _MARKED.sub(lambda found: f"{found[1]}{tables[found['name']]}{found[3]}", page)


_HEAD = ("agent", "version", "wire", *BEHIND_PROXY, "streams end", "measured on")
_HOOK_HEAD = ("agent", "version", "wire", *WITH_HOOK, "streams end", "measured on")
Scenarios = Mapping[str, Scenario]


def _rows(agent: Agent, cells: Cells, columns: Scenarios = BEHIND_PROXY) -> Iterator[tuple[str, ...]]:
    """Yield the agent's row, and those with more options of the proxy."""
    yield _row(agent, agent.title, cells.get(agent.name, {}), columns)
    for options, measured in _with_options(agent, cells, columns):
        yield _row(agent, f"{agent.title} `{options}`", measured, columns)


def _with_options(agent: Agent, cells: Cells, columns: Scenarios) -> Iterator[tuple[str, dict[str, Cell]]]:
    for row, measured in cells.items():
        name, _, options = row.partition(" ")
        if name == agent.name and options and measured.keys() & columns.keys():
            yield options, measured


def _row(agent: Agent, title: str, cells: dict[str, Cell], columns: Scenarios) -> tuple[str, ...]:
    measured = {name: one for name, one in cells.items() if name in columns}
    return (
        title,
        agent.version,
        ", ".join(sorted({wire for one in measured.values() for wire in one.wires})),
        *(measured[name].shown if name in measured else "" for name in columns),
        "; ".join(sorted({_delays(one) for one in measured.values() if one.wires})),
        ", ".join(sorted({f"{one.date} {one.commit}".strip() for one in measured.values()})),
    )


def _delays(measured: Cell) -> str:
    return f"each {', '.join(map(str, measured.delays))} ms late" if measured.delays else "in turn"


def _scenarios(listed: Scenarios) -> str:
    return _table(("", "the model"), [(one.name, one.title) for one in listed.values()])


def _problems(listed: list[Agent], cells: Cells, scenarios: Scenarios) -> str:
    lines = list(_problem_lines(listed, cells, scenarios))
    return "".join(lines) if lines else "Nothing.\n"


def _problem_lines(listed: list[Agent], cells: Cells, scenarios: Scenarios) -> Iterator[str]:
    for agent in listed:
        rows = [
            ("", cells.get(agent.name, {})),
            *((f" `{options}`", measured) for options, measured in _with_options(agent, cells, scenarios)),
        ]
        for (options, measured), name in product(rows, scenarios):
            for said in measured[name].problems if name in measured else ():
                yield f"- {agent.title}{options}, {name}: {_plain(said)}\n"


def _plain(said: str) -> str:
    """Return the text as one line without marks of Markdown or HTML."""
    return " ".join(re.sub(r"([\\<>*_|\[\]])", r"\\\1", said).split())


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
