"""The structure that a reader relies on: the order of the packages, no circles, names that say what is in a file."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from . import scripts

ROOT = Path(__file__).parent.parent


MAP = scripts.load(scripts.DOCS / "package_map.py")
FILES: dict[str, Path] = MAP.modules()
MOST_HITS = 10
"""A search that finds more files than this has not found one."""

AG_UI_EVENTS = "engine.web.ag_ui.protocol"
"""Its classes have the names that the AG-UI protocol gives to its events."""

MIRRORS = {
    "anthropic": "format of sessions, and provider of the same vendor",
    "audit": "command, view and analysis of one subject",
    "backtest": "the same, and the former place of the simulation in decision/",
    "cases": "the table of cases of each conformance kit",
    "client": "connection to each durable engine",
    "demo": "command and view of one subject",
    "errors": "errors of each layer",
    "fit": "command, view and analysis of one subject",
    "harness": "what runs the cases of each conformance kit",
    "proxy": "the proxy, and the command that serves it",
    "openai": "format of sessions, and adapter for the SDK of the same vendor",
    "openai_agents": "format of sessions, and adapter for the same SDK",
    "queue": "each durable engine's queue, and its conformance cases",
    "race": "of providers, of runs, the command and its view",
    "replay": "a provider that replays, the replay of a record, the command and its view",
    "report": "command, view and analysis of one subject",
    "run": "a run, and the command that makes one",
    "worker": "what works off a queue: the service's own, each durable engine's, the command",
}
"""Base names that several modules have, and what they mirror."""

GLOSSARY = {
    "agent loop": "engine/loop.py",
    "session": "engine/session.py",
    "run": "engine/run.py",
    "event bus": "engine/event_bus.py",
    "event log": "engine/event_log.py",
    "configuration": "engine/config.py",
    "hook": "engine/hooks.py",
    "tool": "engine/tools/tool.py",
    "tool call": "engine/tool_calls.py",
    "tool execution": "engine/tool_execution.py",
    "tool schema": "engine/tools/schema.py",
    "tool result": "engine/tools/results.py",
    "MCP": "engine/tools/mcp.py",
    "shell": "engine/tools/shell.py",
    "workspace": "engine/tools/workspace.py",
    "child process": "engine/tools/child_process.py",
    "prompt": "engine/prompts.py",
    "response": "engine/response.py",
    "compaction": "engine/compaction.py",
    "evaluation": "engine/evaluation.py",
    "budget": "engine/budget.py",
    "batch": "engine/batch.py",
    "race": "engine/race.py",
    "checkpoint": "engine/checkpoint.py",
    "resume": "engine/resume_point.py",
    "transcript": "decision/transcript.py",
    "event": "decision/events.py",
    "decision": "decision/decide.py",
    "rule": "decision/rules.py",
    "guard": "decision/guards.py",
    "policy": "decision/policy.py",
    "limit": "decision/limits.py",
    "outcome": "decision/outcome.py",
    "finish reason": "decision/finish_words.py",
    "backtest": "engine/analysis/backtest.py",
    "cost": "decision/cost.py",
    "retry": "providers/retry.py",
    "fallback": "providers/fallback.py",
    "rate limit": "providers/rate_limit.py",
    "timeout": "providers/timeouts.py",
    "server-sent events": "providers/sse_decoder.py",
    "price": "providers/prices.py",
    "redaction": "engine/records/redaction.py",
    "attachment": "engine/records/attachments.py",
    "compression": "engine/records/compression.py",
    "replay": "engine/replay/replay.py",
    "diff": "engine/replay/diff.py",
    "importer": "engine/formats/importer.py",
    "export": "engine/formats/export_openai.py",
    "report": "engine/analysis/report.py",
    "statistics": "engine/analysis/statistics.py",
    "tracing": "engine/observers/otel/tracing.py",
    "lease": "engine/store/leases.py",
    "heartbeat": "engine/service/membership.py",
    "schema migration": "engine/store/migrations/env.py",
    "dispatcher": "engine/service/dispatch.py",
    "worker": "engine/service/queue_worker.py",
    "authentication": "engine/web/auth.py",
    "graceful shutdown": "engine/process/shutdown.py",
    "conformance": "engine/testing/conformance/providers/cases.py",
}
"""Terms of the field, and the file in which an engineer would look for each."""


# Read when a test asks, as each worker of pytest-xdist loads this module.


@pytest.fixture(scope="module", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """The garbage collector would look through a million nodes in all later tests of this process."""
    yield
    MAP.syntax.cache_clear()


@cache
def _imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = MAP.module_imports(FILES)
    return found


def _syntax(module: str) -> ast.Module:
    found: ast.Module = MAP.syntax(FILES[module])
    return found


def _circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in list(edges):
        if node not in index:
            visit(node)
    return found


def test_every_module_has_its_place_in_the_order_of_packages() -> None:
    known = {name for layer in MAP.LAYERS for name in layer}
    used = {MAP.package_of(module) for module in FILES}
    assert used == known


def test_a_package_imports_only_packages_below_it_types_included() -> None:
    rank = {name: number for number, layer in enumerate(MAP.LAYERS) for name in layer}
    wrong = []
    for module, targets in _imports().items():
        here = MAP.package_of(module)
        for target in targets:
            there = MAP.package_of(target)
            within = here == there or (here.startswith("engine.") and there.startswith("engine."))
            if not within and rank[there] >= rank[here]:
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(sorted(wrong))


def test_the_modules_of_a_run_import_only_those_below_them() -> None:
    rank = {name: number for number, name in enumerate(MAP.LOOP)}
    loose = {"engine": "__init__"} | {f"engine.{name}": name for name in MAP.LOOP if f"engine.{name}" in FILES}
    wrong = [
        f"{module} imports {target}"
        for module in loose
        for target in _imports()[module]
        if target in loose and rank[loose[target]] >= rank[loose[module]]
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_no_modules_and_no_packages_import_each_other_in_a_circle() -> None:
    assert _circles(_imports()) == []
    assert _circles(MAP.package_imports()) == []


def test_the_search_for_circles_finds_one() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_no_base_name_stands_for_two_subjects() -> None:
    bases = Counter(name.rpartition(".")[2] for name, path in FILES.items() if path.name != "__init__.py")
    twice = {base for base, times in bases.items() if times > 1}
    assert twice == set(MIRRORS)


def _classes() -> Iterator[tuple[str, str]]:
    for name in FILES.keys() - {AG_UI_EVENTS}:
        for node in _statements(_syntax(name)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, name


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below this one. Expressions hold none, and there are ten times as many of them."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)


def test_a_class_name_stands_for_one_class() -> None:
    places = defaultdict(list)
    for class_name, module in _classes():
        places[class_name].append(module)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in sorted(twice.items()))


LOOP_ITSELF = (
    *("loop", "response", "tool_calls", "tool_execution", "hook_runner", "compaction", "evaluation"),
    *("context", "hard_limits", "event_log", "run"),
)
"""Modules that know nothing of the past of a run but `Effects`, which they are handed."""
PAST = {"resume_point", "recorded_events", "recorded_round", "checkpoint", "recorded_values", "replay", "durable"}
NAMES_OF_THE_PAST = {
    *("RecordedRound", "RecordedEvents", "RecordedEffects", "RecordedLimits", "ResumePoint", "Durable", "Steps"),
}


@pytest.mark.parametrize("module", LOOP_ITSELF)
def test_the_loop_knows_of_resume_replay_and_durable_engines_by_effects_alone(module: str) -> None:
    path = ROOT / "engine" / f"{module}.py"
    ours = (found.target.split(".") for found in MAP.imports_of(path) if found.top == "endstop")
    assert not {names[1] for names in ours if len(names) > 1} & PAST
    nodes = list(ast.walk(MAP.syntax(path)))
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    named |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert not named & NAMES_OF_THE_PAST


def test_the_wheel_has_the_folders_as_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-dir"] == {
        "endstop": "engine",
        "endstop.decision": "decision",
        "endstop.providers": "providers",
    }


def test_an_engineer_finds_a_term_of_the_field_by_a_files_name() -> None:
    assert len(GLOSSARY) == 60
    missing = {path for path in GLOSSARY.values() if not (ROOT / path).exists()}
    assert not missing
    found = [term for term, path in GLOSSARY.items() if _found_by_name(term, path)]
    assert len(found) >= 54, sorted(set(GLOSSARY) - set(found))


def _found_by_name(term: str, path: str) -> bool:
    """Whether a search for files by one of the term's words finds it, among few others."""
    paths = [file.relative_to(ROOT).as_posix() for file in FILES.values()]
    for word in term.lower().replace("-", " ").split():
        hits = [file for file in paths if any(_same(word, part) for part in _words_of(file))]
        if path in hits and len(hits) <= MOST_HITS:
            return True
    return False


def _words_of(path: str) -> list[str]:
    return path.rpartition("/")[2].removesuffix(".py").split("_")


def _same(word: str, part: str) -> bool:
    """`authentication` and `auth`, `tool` and `tools`: one begins with the other."""
    return len(part) > 2 and (word.startswith(part) or part.startswith(word))


def test_the_picture_of_the_packages_is_what_the_code_says() -> None:
    assert MAP.PICTURE.read_text(encoding="utf-8") == MAP.drawn(), "run `make docs`"


def test_every_module_says_what_is_in_it() -> None:
    assert [name for name in FILES if _syntax(name).body and not ast.get_docstring(_syntax(name))] == []
