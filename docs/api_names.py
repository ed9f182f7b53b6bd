"""The public names of each package and module, with the first sentence of their docstrings, read from the sources.

    python docs/api_names.py        # prints them as tables, for docs/reference/api.md

Nothing is imported, so that packages of an extra are read where that extra is not installed.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = {"endstop.decision": "decision", "endstop.providers": "providers", "endstop": "engine"}
PACKAGES = {
    "endstop": "The engine, its sessions and runs, tools, policies and limits.",
    "endstop.decision": "When to stop: pure functions over frozen data, and the types of events, facts and policies.",
    "endstop.decision.events": "What happens in a run: the events of a record, in Python.",
    "endstop.providers": "Models, wrappers around them, and models for tests.",
    "endstop.tools": "Ready-made tools.",
    "endstop.observers": "Observers of runs: a log, a progress line, traces.",
    "endstop.follow": "The decision for your own loop.",
    "endstop.proxy": "The proxy in front of an existing agent.",
    "endstop.adapters.claude_agent_sdk": "For the Claude Agent SDK; imported as `Endstop`.",
    "endstop.adapters.google_adk": "For Google ADK; imported as `Endstop`.",
    "endstop.adapters.langchain": "For LangChain and LangGraph; imported as `Endstop`.",
    "endstop.adapters.openai": "For a loop around OpenAI's client; imported as `Endstop`.",
    "endstop.adapters.openai_agents": "For the OpenAI Agents SDK; imported as `Endstop`.",
    "endstop.adapters.pydantic_ai": "For Pydantic AI; imported as `Endstop`.",
    "endstop.adapters.strands": "For Strands; imported as `Endstop`.",
    "endstop.records.files": "Records on disk.",
    "endstop.records.scan": "A record as a stream of events, for many or large ones.",
    "endstop.records.parallel": "A function applied to many records.",
    "endstop.replay": "A record run again through the engine, and compared.",
    "endstop.service": "Sessions in the background, stored and followed; the parts of the server.",
    "endstop.store.url": "The stores that come with endstop.",
    "endstop.store.base": "The interface of a store.",
    "endstop.web.ag_ui": "Events and requests of AG-UI.",
    "endstop.web": "The server, and helpers that mount it in your own application.",
    "endstop.durable": "The interface of a durable engine.",
    "endstop.durable.dbos": "Durable runs with DBOS.",
    "endstop.durable.temporal": "Durable runs with Temporal.",
    "endstop.formats": "Readers of other agents' sessions.",
    "endstop.testing": "For tests: a clock that does not wait, and checks.",
    "endstop.testing.faults": "Checks that show how your agent behaves under faults.",
    "endstop.testing.conformance.providers": "Checks that your provider keeps the contract.",
    "endstop.testing.conformance.durable": "Checks that your durable engine keeps the contract.",
}
"""Each package or module with public names, and what it is for."""


class PublicName(NamedTuple):
    """A name that users import."""

    name: str
    path: str
    """Where it is defined, such as `endstop.decision.policy.Policy`."""
    about: str
    """What it is, in a sentence; empty if no docstring says it."""


def own_names(package: str) -> list[PublicName]:
    """The names to describe under a package: those that no package before it in `PACKAGES` has, too."""
    earlier = {name.path for one in takewhile(package.__ne__, PACKAGES) for name in public_names(one)}
    return [name for name in public_names(package) if name.path not in earlier]


def repeated_names(package: str) -> list[str]:
    """The names that are described under another package."""
    own = own_names(package)
    return [name.name for name in public_names(package) if name not in own]


@cache
def public_names(package: str) -> tuple[PublicName, ...]:
    """The public names of a package, in the order of the alphabet."""
    names = sorted(name for name in _names(package) if not name.startswith("_"))
    return tuple(_public(name, *_definition(package, name)) for name in names)


def _public(name: str, path: str, docstring: str) -> PublicName:
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z`(])", paragraph)[0].rstrip(":")
    return PublicName(name, path, sentence)


def _names(module: str) -> list[str]:
    """`__all__`, or what an `__init__.py` without it imports; an adapter's `Endstop`; the members of `Event`."""
    body = _body(module)
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return list(ast.literal_eval(node.value))
            case ast.Assign(targets=[ast.Name(id="Endstop")], value=ast.Name(id=adapter)):
                return [adapter]
            case ast.Assign(targets=[ast.Name(id="Event")], value=ast.BinOp() as union):
                return [node.id for node in ast.walk(union) if isinstance(node, ast.Name)]
    return [name.asname or name.name for node in body if isinstance(node, ast.ImportFrom) for name in node.names]


def _definition(module: str, name: str) -> tuple[str, str]:
    """Where a name comes from, and its docstring: of a class or function, or the one under an assignment."""
    body = _body(module)
    for node, after in pairwise([*body, ast.Pass()]):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                if text := ast.get_docstring(node):
                    return f"{module}.{name}", text  # the overloads of a function come before it, and have none
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        return f"{module}.{name}", text
                return f"{module}.{name}", ""
            case ast.ImportFrom() if (source := _source(module, node)) is not None:
                for one in node.names:
                    if (one.asname or one.name) == name:
                        return _definition(source, one.name)
    return f"{module}.{name}", ""


def _source(module: str, node: ast.ImportFrom) -> str | None:
    """The module of ours that an import names; None for another's."""
    if not node.level:
        return node.module if (node.module or "").startswith("endstop") else None
    parts = module.split(".") if _path(module).name == "__init__.py" else module.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


@cache
def _body(module: str) -> list[ast.stmt]:
    """The statements of a module, with those under `if TYPE_CHECKING`."""
    whole: list[ast.stmt] = []
    for node in ast.parse(_path(module).read_text(encoding="utf-8")).body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Try():
                whole += node.body
            case _:
                whole.append(node)
    return whole


def _path(module: str) -> Path:
    folder = next(name for name in FOLDERS if module == name or module.startswith(f"{name}."))
    path = ROOT / FOLDERS[folder] / module.removeprefix(folder).removeprefix(".").replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def main() -> None:
    """Print a table for each package."""
    for package, about in PACKAGES.items():
        print(f"\n## `{package}`\n\n{about}\n\n| name | what it is |\n| --- | --- |")
        for name in own_names(package):
            print(f"| `{name.name}` | {name.about.replace('|', chr(92) + '|')} |")
        if repeated := repeated_names(package):
            print(f"\nAlso importable from here: {', '.join(f'`{name}`' for name in repeated)}.")


if __name__ == "__main__":
    main()
