"""Writes the tables of rules, guards, events, stop reasons and settings into the documentation, from the code.

    python docs/tables.py       (or `make docs`)

A page gets a table where it has a pair of markers: `<!-- table: rules -->` and `<!-- end -->`.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from endstop.decision import GUARDS, RECOMMENDED, RULES, STATUS_OF, Event, Policy, Rule
from endstop.engine.evaluation import EVALUATED
from endstop.engine.hosts.run_command import EXIT_CODES
from msgspec import Struct

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/architecture.md", "docs/endings.md", "docs/policies.md")
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


HOW_TO_GO_ON = {
    "completed": "the session's next prompt",
    "awaiting_input": "answer: `session.answer(call_id, text)`, or `--resume RECORD --answer TEXT`",
    "exhausted": "raise what is used up or change the policy, then the session's next prompt",
    "failed": "mend what `detail` names, then the session's next prompt",
    "cancelled": "the session's next prompt; calls that were cut are marked",
}
BESIDE_RULES = {
    "awaiting_input": "`control_flow`: a question to the user is open",
    "internal_error": "the engine: something of ours, or the record, broke",
    "cancelled": "the loop: the caller, a disconnect, a timeout or a shutdown ended it",
}
"""What no rule stops with: a pause is no stop, and the other two come from outside the decision."""


def endings() -> str:
    """Each stop reason: who stops with it and what that one says, status, exit code, evaluation, how to go on."""
    rows = []
    for reason, status in STATUS_OF.items():
        rules = [rule for rule in (*RULES, *GUARDS) if reason in _reasons(rule)]
        cause = BESIDE_RULES.get(reason) or "; ".join(f"`{rule.name}`: {rule.says}" for rule in rules)
        evaluated = "yes" if status in EVALUATED else "no"
        rows.append((f"`{reason}`", cause, f"`{status}`", str(EXIT_CODES[status]), evaluated, HOW_TO_GO_ON[status]))
    return _table(("stop reason", "who stops, and when", "status", "exit code", "evaluated", "to go on"), rows)


def settings() -> str:
    """Every setting of a policy, with its default and what it means, from the source."""
    return _table(("setting", "default", "meaning"), list(_settings("", Policy())))


def recommended() -> str:
    """The recommended limits by kind of task."""
    rows = [(f"`{task}`", str(limits.soft_steps), str(limits.steps)) for task, limits in RECOMMENDED.items()]
    return _table(("kind of task", "soft steps", "hard steps"), rows)


def before_after() -> str:
    """What the example measures."""
    command = [sys.executable, str(ROOT / "docs" / "examples" / "before_after.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _settings(path: str, group: Struct) -> Iterable[tuple[str, str, str]]:
    for name in group.__struct_fields__:
        value = getattr(group, name)
        meaning = _meanings(type(group))[name]
        if isinstance(value, Struct):
            about = " ".join((inspect.getdoc(type(value)) or "").split())
            yield f"**`{path}{name}`**", "", about
            yield from _settings(f"{path}{name}.", value)
        else:
            yield f"`{path}{name}`", _default(value), meaning


@cache
def _meanings(kind: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of those it inherits from."""
    found: dict[str, str] = {}
    for one in reversed([k for k in kind.__mro__ if k.__module__.startswith("endstop")]):
        tree = ast.parse(Path(inspect.getfile(one)).read_text(encoding="utf-8"))
        body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == one.__name__)
        for field, after in pairwise(body):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def _default(value: Any) -> str:
    match value:
        case None:
            return "off"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.4g}"
        case tuple():
            return ", ".join(f"`{item}`" for item in value) or "none"
        case str():
            return (value and f'"{value}"') or "empty"
        case _:
            return str(value)


def _reasons(rule: Rule) -> set[str]:
    """The stop reasons that stand as constants in a rule's function and in those of ours that it calls."""
    seen: set[CodeType] = set()
    waiting, found = [rule.judge], set()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        found |= {word for word in (*function.__code__.co_consts, *cells) if isinstance(word, str)}
        called = [function.__globals__.get(name) for name in function.__code__.co_names]
        waiting += [other for other in called if getattr(other, "__module__", "").startswith("endstop.decision")]
    return found & set(STATUS_OF)


TABLES: dict[str, Callable[[], str]] = {
    "rules": rules,
    "guards": guards,
    "events": events,
    "statuses": statuses,
    "endings": endings,
    "settings": settings,
    "recommended": recommended,
    "before_after": before_after,
}


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
