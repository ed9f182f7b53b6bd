"""Reads which module imports which, and draws the packages in their order: `docs/pictures/packages.svg`.

    python docs/package_map.py          # writes the picture; `make docs` runs it

`LAYERS` is the order of the packages, lowest first. `tests/test_structure.py` holds every import to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"
FOLDERS = ("decision", "providers", "engine")

LOOP = tuple(
    """
    durability budget event_bus event_log connections side_request hooks hard_limits cancel_scope validation
    resume_point context checkpoint hook_runner tool_execution tool_calls compaction response evaluation prompts
    loop run config session tasks batch race engine _exports __init__
    """.split()
)
"""The modules of `engine/` itself that make a run, from the lowest to `Engine`."""

LAYERS: tuple[tuple[str, ...], ...] = (
    ("decision",),
    ("providers",),
    ("_sanitize", "_version"),
    ("records",),
    ("tools",),
    tuple(f"engine.{name}" for name in LOOP),
    ("analysis", "replay", "formats", "observers", "plan_execute_think"),
    ("store",),
    ("durable",),
    ("service",),
    ("process",),
    ("web",),
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


def imports(known: dict[str, Path]) -> dict[str, set[str]]:
    """Which module imports which of ours, imports for types and inside functions included."""
    return {name: set(_imports_of(name, path, known)) - {name} for name, path in known.items()}


def _imports_of(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1]
        target = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
        if target.startswith(("engine.decision", "engine.providers")):  # `engine` is the package `endstop` itself
            target = target.removeprefix("engine.")
        for item in node.names:
            whole = f"{target}.{item.name}"
            if whole in known or target in known:
                yield whole if whole in known else target


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
    for module, targets in imports(modules()).items():
        name = package_of(module).partition(".")[0]
        merged.setdefault(name, set()).update(package_of(target).partition(".")[0] for target in targets)
    return {name: targets - {name} for name, targets in merged.items()}


# ---- the picture

WIDTH, MARGIN, GAP = 960, 16, 30
TITLE, LINE = 30, 15
"""Heights in a box: the name, and each line below it."""
LEAVES = {"_sanitize", "_version"}
"""Modules that nearly all packages import, and that import none of ours: left out, or the picture is all arrows."""


class Box(NamedTuple):
    """A package in the picture, in pixels."""

    left: int
    top: int
    wide: int
    tall: int
    lines: list[str]


def _rows() -> list[list[str]]:
    """The packages in rows, the highest first."""
    rows: list[list[str]] = []
    for layer in reversed(LAYERS):
        names = list(dict.fromkeys(name.partition(".")[0] for name in layer if name not in LEAVES))
        if names:
            rows.append(names)
    return rows


def _says(package: str) -> str:
    """The first sentence of a package's docstring."""
    if package == "engine":
        return "The run: " + " → ".join(("engine", "session", "run", "loop", "response", "tool_calls", "context"))
    folder = ROOT / package if package in FOLDERS else ROOT / "engine" / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].split(". ")[0].replace("\n", " ").rstrip(".")


def _direct(edges: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """The imports without those that another path says already."""

    def reaches(start: str, goal: str) -> bool:
        return any(step == goal or reaches(step, goal) for step in edges.get(start, ()))

    for name, targets in sorted(edges.items()):
        for target in sorted(targets):
            if not any(reaches(other, target) for other in targets - {target}):
                yield name, target


def drawn() -> str:
    """The picture as SVG."""
    edges = {name: targets - LEAVES for name, targets in package_imports().items() if name not in LEAVES}
    boxes: dict[str, Box] = {}
    rows = _rows()
    top = MARGIN
    for names in rows:
        wide = (WIDTH - 2 * MARGIN - (len(names) - 1) * MARGIN) // len(names)
        texts = {name: _lines(name, edges, rows, wide) for name in names}
        tall = TITLE + LINE * max(map(len, texts.values())) + 6
        for place, name in enumerate(names):
            boxes[name] = Box(MARGIN + place * (wide + MARGIN), top, wide, tall, texts[name])
        top += tall + GAP
    row_of = {name: number for number, names in enumerate(rows) for name in names}
    near = [(name, target) for name, target in _direct(edges) if row_of[target] == row_of[name] + 1]
    lines = [_arrow(boxes[name], boxes[target]) for name, target in near]
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


def _further(name: str, edges: dict[str, set[str]], rows: list[list[str]]) -> list[str]:
    """What a package imports beyond the next row: written into its box, or arrows would cross half the picture."""
    below = next(number for number, names in enumerate(rows) if name in names) + 1
    near = rows[below] if below < len(rows) else []
    return sorted(target for source, target in _direct(edges) if source == name and target not in near)


def _lines(name: str, edges: dict[str, set[str]], rows: list[list[str]], wide: int) -> list[str]:
    """What a box says below its title, in lines that fit."""
    others = [target for target in _further(name, edges, rows) if target not in ("decision", "providers")]
    says = _says(name) + (f" (also imports {', '.join(others)})" if others else "")
    return wrap(says, max(18, wide * 10 // 64))


def _drawn_box(name: str, box: Box) -> str:
    title = {"engine": "engine/*.py", "decision": "decision", "providers": "providers"}.get(name, name)
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
