"""Reads which module imports which, and draws the packages in their order: `docs/pictures/packages.svg`.

    python docs/package_map.py          # writes the picture; `make docs` runs it

`LAYERS` is the order of the packages, lowest first. `tests/test_structure.py` holds every import to it.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"
FOLDERS = ("decision", "providers", "engine")

LOOP = tuple(
    """
    durability budget event_bus event_log connections side_request check_answers command_check hooks evaluation
    user_errors own_copies
    hard_limits cancel_scope validation user_message message_history
    dependencies journal effects until until_settings until_work criteria until_background until_events checkpoint
    recorded_values recorded_events resume_point session_record recorded_round
    option_groups context hook_runner approvals tool_execution
    tool_calls answers session_state compaction completion_cut response prompts model_request loop text_stream run
    subscribers config
    run_start fork session subagent_records subagents tasks batch race engine __init__
    """.split()
)
"""The modules of `engine/` itself that make a run, from the lowest to `Engine`."""

LAYERS: tuple[tuple[str, ...], ...] = (
    ("decision",),
    ("providers",),
    ("base",),
    ("records",),
    ("tools",),
    ("formats", "work"),
    tuple(f"engine.{name}" for name in LOOP),
    ("analysis", "replay", "observers", "plan_execute_think"),
    ("follow",),
    ("objects", "store"),
    ("durable",),
    ("service",),
    ("process",),
    ("http",),
    ("web", "proxy", "viewer", "adapters", "agent_hook", "agent_setup"),
    ("html_export",),
    ("cli", "testing"),
)
"""Lowest first. A package imports those below it; packages of one layer do not import each other."""


def modules() -> dict[str, Path]:
    """Each module by the dotted path of its file: `engine.store.sql`, `decision` for a package's `__init__.py`."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class Import(NamedTuple):
    """One import statement's module, by its absolute name: `endstop.store.sql` for ours."""

    file: str
    """The path below the repository's root."""
    line: int
    module: str
    names: tuple[str, ...]
    """What is imported from the module; empty where the module itself is imported."""
    in_function: bool
    for_types: bool
    """Whether it stands under `if TYPE_CHECKING`."""
    relative: bool

    @property
    def folder(self) -> str:
        """The top folder of the file."""
        return self.file.partition("/")[0]

    @property
    def top(self) -> str:
        """The package at the top of what is imported."""
        return self.module.partition(".")[0]

    @property
    def target(self) -> str:
        """One of our modules by the path of its file: `endstop.store.sql` is `engine.store.sql`."""
        _, _, below = self.module.partition("endstop.")
        return below if below.startswith(("decision", "providers")) else f"engine.{below}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


@cache
def syntax(path: Path) -> ast.Module:
    """What stands in a file. It is parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """The imports of a file, those for types and inside functions included."""
    file = path.relative_to(ROOT).as_posix()
    package = ["endstop", *file.removeprefix("engine/").split("/")[:-1]]

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import():
                    for name in child.names:
                        yield Import(file, child.lineno, name.name, (), in_function, for_types, False)
                case ast.ImportFrom(level=0):
                    names = tuple(name.name for name in child.names)
                    yield Import(file, child.lineno, child.module or "", names, in_function, for_types, False)
                case ast.ImportFrom(module=None):
                    base = package[: len(package) - child.level + 1]
                    for name in child.names:
                        module = ".".join([*base, name.name])
                        yield Import(file, child.lineno, module, (), in_function, for_types, True)
                case ast.ImportFrom():
                    module = ".".join([*package[: len(package) - child.level + 1], str(child.module)])
                    names = tuple(name.name for name in child.names)
                    yield Import(file, child.lineno, module, names, in_function, for_types, True)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield from walk(child, True, for_types)
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    yield from walk(child, in_function, True)
                case ast.expr():
                    pass  # holds no statement
                case _:
                    yield from walk(child, in_function, for_types)

    return tuple(walk(syntax(path), False, False))


def all_imports() -> list[Import]:
    """The imports of all our files."""
    with _garbage_collector_paused():
        return [found for path in modules().values() for found in imports_of(path)]


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """Syntax trees stay, and have a million nodes; to look through them again and again takes two seconds of three."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def module_imports(known: dict[str, Path]) -> dict[str, set[str]]:
    """Which module imports which of ours."""
    with _garbage_collector_paused():
        return {
            name: {target for one in imports_of(path) if one.relative for target in _targets(one, known)} - {name}
            for name, path in known.items()
        }


def _targets(one: Import, known: dict[str, Path]) -> Iterator[str]:
    """The modules behind an import: `from .store import sql` means `engine.store.sql`, not its package."""
    for name in [f"{one.target}.{name}" for name in one.names] or [one.target]:
        yield name if name in known else name.rpartition(".")[0]


def package_of(module: str) -> str:
    """The name under which `LAYERS` has a module: its package, or the module itself where it is loose in `engine/`."""
    parts = module.split(".")
    if parts[0] != "engine":
        return parts[0]
    if len(parts) == 1:
        return "engine.__init__"
    if len(parts) == 2 and not (ROOT / "engine" / parts[1]).is_dir():
        return f"engine.{parts[1]}" if parts[1] in LOOP else parts[1]
    return parts[1]


def package_imports() -> dict[str, set[str]]:
    """Which package imports which; the modules that make a run are one, `engine`."""
    merged: dict[str, set[str]] = {}
    for module, targets in module_imports(modules()).items():
        name = package_of(module).partition(".")[0]
        merged.setdefault(name, set()).update(package_of(target).partition(".")[0] for target in targets)
    return {name: targets - {name} for name, targets in merged.items()}


# ---- the picture

WIDTH, MARGIN, GAP = 960, 16, 30
TITLE, LINE = 30, 15
"""Heights in a box: the name, and each line below it."""


class Box(NamedTuple):
    """A package in the picture, in pixels."""

    left: int
    top: int
    wide: int
    tall: int
    lines: list[str]


def _rows() -> list[list[str]]:
    """The packages in rows, the highest first."""
    return [_names(layer) for layer in reversed(LAYERS)]


def _names(layer: tuple[str, ...]) -> list[str]:
    """A layer's packages; the modules that make a run are one, `engine`."""
    return list(dict.fromkeys(name.partition(".")[0] for name in layer))


def _says(package: str) -> str:
    """The first sentence of a package's docstring."""
    if package == "engine":
        return "The run: " + " → ".join(("engine", "session", "run", "loop", "response", "tool_calls", "context"))
    folder = ROOT / package if package in FOLDERS else ROOT / "engine" / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(syntax(path)) or ""
    return text.split("\n\n")[0].split(". ")[0].replace("\n", " ").rstrip(".")


def _direct(edges: dict[str, set[str]]) -> dict[str, list[str]]:
    """What each package imports, without what it reaches through another of its imports (transitive reduction)."""
    below = dict.fromkeys(edges, frozenset[str]())
    for name in sorted(edges, key=[name for layer in LAYERS for name in _names(layer)].index):  # lowest first
        below[name] = frozenset(edges[name]).union(*(below[target] for target in edges[name]))
    return {
        name: sorted(target for target in targets if not any(target in below[other] for other in targets))
        for name, targets in edges.items()
    }


def drawn() -> str:
    """The picture as SVG."""
    imports = package_imports()
    boxes: dict[str, Box] = {}
    rows = _rows()
    row_of = {name: number for number, names in enumerate(rows) for name in names}
    near: dict[str, list[str]] = {}  # in the next row: an arrow
    far: dict[str, list[str]] = {}  # further down: named in the box, or arrows would cross half the picture
    for name, targets in sorted(_direct(imports).items()):
        near[name] = [target for target in targets if row_of[target] == row_of[name] + 1]
        far[name] = [target for target in targets if target not in (*near[name], "decision", "providers")]
    top = MARGIN
    for names in rows:
        wide = (WIDTH - 2 * MARGIN - (len(names) - 1) * MARGIN) // len(names)
        texts = {name: _lines(name, far[name], wide) for name in names}
        tall = TITLE + LINE * max(map(len, texts.values())) + 6
        for place, name in enumerate(names):
            boxes[name] = Box(MARGIN + place * (wide + MARGIN), top, wide, tall, texts[name])
        top += tall + GAP
    lines = [_arrow(boxes[name], boxes[target]) for name, targets in near.items() for target in targets]
    height = top - GAP + MARGIN
    style = (
        "text{font-family:system-ui,sans-serif;fill:#1c2330}.n{font-weight:600;font-size:15px}.d{font-size:12px;"
        "fill:#475064}rect{fill:#f3f6fb;stroke:#8fa3c4;rx:6}path{stroke:#6b7c99;fill:none;stroke-width:1.2}"
    )
    arrow = (
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#6b7c99;stroke:none"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="The packages of endstop; each imports only those below it">'
        f'<style>{style}</style><defs>{arrow}</defs><rect width="{WIDTH}" height="{height}" '
        f'style="fill:#fff;stroke:none"/>\n'
        + "\n".join([*lines, *(_drawn_box(name, box) for name, box in boxes.items())])
        + "\n</svg>\n"
    )


def _lines(package: str, imported: list[str], wide: int) -> list[str]:
    """What a box says below its title, in lines that fit its width."""
    also = f" (also imports {', '.join(imported)})" if imported else ""
    return wrap(_says(package) + also, max(18, wide * 10 // 64))


def _drawn_box(name: str, box: Box) -> str:
    title = "engine/*.py" if name == "engine" else name
    texts = [f'<text class="n" x="{box.left + 10}" y="{box.top + 21}">{escape(title)}</text>']
    for number, line in enumerate(box.lines):
        texts.append(
            f'<text class="d" x="{box.left + 10}" y="{box.top + TITLE + 7 + LINE * number}">{escape(line)}</text>'
        )
    return f'<rect x="{box.left}" y="{box.top}" width="{box.wide}" height="{box.tall}"/>' + "".join(texts)


def _arrow(start: Box, goal: Box) -> str:
    x1, y1 = start.left + start.wide // 2, start.top + start.tall
    x2, y2 = goal.left + goal.wide // 2, goal.top - 1
    middle = (y1 + y2) // 2
    return f'<path d="M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}" marker-end="url(#a)"/>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
