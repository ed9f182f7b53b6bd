"""Writes the tables of rules, guards, events and stop reasons into the documentation, from the code's own tables.

    python docs/tables.py       (or `make docs`)

A page gets a table where it has a pair of markers: `<!-- table: rules -->` and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from endstop.decision import GUARDS, RULES, STATUS_OF, Event, Rule

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/architecture.md")
MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rules() -> str:
    """The priorities, first to last."""
    return _rule_table("rule", RULES)


def guards() -> str:
    """What may turn a go-on into something else."""
    return _rule_table("guard", GUARDS)


def events() -> str:
    """The union of events, in its order."""
    rows = []
    for kind in Event.__args__:
        about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        rows.append((f"`{kind.__struct_config__.tag}`", f"`{kind.__name__}`", about))
    return _table(("in the record", "in Python", "what happened"), rows)


def statuses() -> str:
    """Each status with the stop reasons that lead to it."""
    reasons: dict[str, list[str]] = {}
    for reason, status in STATUS_OF.items():
        reasons.setdefault(status, []).append(f"`{reason}`")
    return _table(("status", "stop reasons"), [(f"`{status}`", ", ".join(them)) for status, them in reasons.items()])


TABLES: dict[str, Callable[[], str]] = {"rules": rules, "guards": guards, "events": events, "statuses": statuses}


def rendered(page: str) -> str:
    """The page with every table written anew."""
    return MARKED.sub(lambda found: found[1] + TABLES[found["name"]]() + found[3], page)


def _rule_table(what: str, lines: Iterable[Rule]) -> str:
    rows = [(r.priority, f"`{r.name}`", r.says, ", ".join(f"`{fact}`" for fact in r.sees) or "-") for r in lines]
    if what == "guard":
        return _table((what, "says", "looks at"), [row[1:] for row in rows])
    return _table(("", what, "says", "looks at"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def main() -> None:
    """Write every page that has markers."""
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        if (new := rendered(page)) != page:
            path.write_text(new, encoding="utf-8")
            print(f"wrote the tables of {name}")


if __name__ == "__main__":
    main()
