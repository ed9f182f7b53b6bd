"""Lists what the signatures of other agent libraries have, and which of these names `other_names.toml` does not answer.

    python docs/other_libraries.py [--all]

It runs where they are installed, beside nothing of endstop: pydantic-ai-slim, openai-agents, langchain and langgraph,
in the versions of the extras in pyproject.toml. With `--all` every name is listed, with its answer.
"""

from __future__ import annotations

import argparse
import inspect
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "decision" / "other_names.toml"
SOURCES = [
    ("Engine", "parameters", "pydantic_ai:Agent"),
    ("Engine", "parameters", "agents:Agent"),
    ("Engine", "parameters", "langgraph.prebuilt:create_react_agent"),
    ("Engine", "parameters", "langchain.agents:create_agent"),
    ("Engine.run", "parameters", "pydantic_ai:Agent.run"),
    ("Engine.run", "parameters", "agents:Runner.run"),
    ("Engine.run", "parameters", "langgraph.graph.state:CompiledStateGraph.invoke"),
    ("Engine.", "attributes", "pydantic_ai:Agent"),
    ("ModelOptions", "annotations", "pydantic_ai:ModelSettings"),
    ("ModelOptions", "parameters", "agents:ModelSettings"),
    ("Limits", "parameters", "pydantic_ai:UsageLimits"),
    ("Outcome.", "attributes", "pydantic_ai.run:AgentRunResult"),
    ("Outcome.", "annotations", "pydantic_ai.run:AgentRunResult"),
    ("Outcome.", "attributes", "agents:RunResult"),
    ("Outcome.", "annotations", "agents:RunResult"),
    ("Run.", "attributes", "pydantic_ai.run:AgentRun"),
    ("Run.", "attributes", "pydantic_ai.result:StreamedRunResult"),
    ("Run.", "attributes", "agents:RunResultStreaming"),
    ("tool", "parameters", "pydantic_ai:Agent.tool_plain"),
    ("tool", "parameters", "pydantic_ai:Tool"),
    ("tool", "parameters", "agents:function_tool"),
    ("tool", "parameters", "langchain_core.tools:tool"),
]
"""A table of ours, what is listed, and the class or function of theirs that has it."""


def names(place: str, what: str) -> Iterable[str]:
    """Return the public names of a class or function: its parameters, attributes or annotated fields."""
    module, _, path = place.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    listed: dict[str, Callable[[Any], Iterable[str]]] = {
        "parameters": lambda one: inspect.signature(one).parameters,
        "attributes": dir,
        "annotations": lambda one: one.__annotations__,
    }
    return [name for name in listed[what](found) if not name.startswith("_") and name not in ("self", "args", "kwargs")]


def unanswered(table: dict[str, dict[str, str]], ours: dict[str, set[str]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each name of theirs: our owner, their place, the name, and the answer, which may be empty."""
    for owner, what, place in SOURCES:
        for name in names(place, what):
            same = "the same here" if name in ours.get(owner, ()) else ""
            yield owner, place, name, table.get(owner, {}).get(name, same)


def main() -> None:
    """Print the names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    every = parser.parse_args().all
    table: dict[str, dict[str, str]] = {}
    for owners, entries in tomllib.loads(TABLE.read_text()).items():
        for owner in owners.split(", "):
            table.setdefault(owner, {}).update(entries)
    rows = list(unanswered(table, OURS))
    for owner, place, name, answer in rows:
        if every or not answer:
            print(f"{owner:12} {place:42} {name:32} {answer}")
    print(f"{len(rows)} names, {sum(not answer for *_, answer in rows)} without an answer")


OURS = {
    "Engine": {"tools", "hooks", "output"},
    "Engine.run": {"deps", "prompt", "history", "record"},
    "Engine.": {"run", "start", "session", "as_tool", "run_sync"},
    "ModelOptions": {"tool_choice"},
    "Limits": set[str](),
    "Outcome.": {"output", "usage", "run_id", "max_turns"},
    "Run.": {"cancel", "messages", "session_id"},
    "tool": {"name", "description", "timeout", "function", "kind", "check"},
}
"""Names that mean the same here."""

if __name__ == "__main__":
    main()
