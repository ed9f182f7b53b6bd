"""The structure that a reader relies on: the order of the packages, no circles, names that say what is in a file."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from endstop.cli.commands import COMMANDS

from . import scripts

ROOT = Path(__file__).parent.parent


MAP = scripts.load(scripts.DOCS / "package_map.py")
FILES: dict[str, Path] = MAP.modules()
SHORT = 60
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

SMALL = {
    "decision.foreign_loops": "what followers, audits and benchmarks ask; policy.py and rules.py are our own loop's",
    "decision.program_text": "what program text does; both a code tool and `python -c` in a shell ask it",
    "decision.cut_savings": "what a cut saved, which both the fold and a summary add up",
    "decision.errors": "WrongUse, which everything raises and which must import nothing",
    "providers._logging": "imports structlog when there is something to log, and not before",
    "decision.tool_names": "what names mean, for importers and for tools whose kind is left out",
    "decision.step_judge": "reads the facts, which read what a step brought; step_history.py knows neither",
    "engine.adapters.missing_framework": "what a user is told to install, apart from what an adapter does",
    "engine.records.sqlite_file": "databases of our own; the index of records and the proxy's budgets are such",
    "engine.records.short_forms": "what fields a line leaves out; the parts within a line and whole lines both do",
    "engine.follow.end_text": "what a stopped agent reads; the adapters and the proxy say the same",
    "engine.http.idle_connections": "imports aiohttp; the servers of proxy and viewer both close connections",
    "engine.completion_cut": "where a response is cut; the engine's own responses and followed ones ask it",
    "engine.ids": "ids of sessions, runs and messages; the engine, the service and the follower make them",
    "engine._plural": "numbers with their words, for whatever is read by people; imports nothing",
    "engine._sanitize": "what is safe to show in a terminal, a page or a header; imports nothing",
    "engine._version": "read by records, exports and the command line without importing the engine",
    "engine.analysis.false_stops": "backtest.py would have more than 600 lines with it",
    "engine.cli.exit_codes": "the documented table of exit codes",
    "engine.cli.output_file": "where `-o` writes, for exports of records and of pages",
    "engine.cli.console_script": "catches Ctrl-C during the imports, and so imports nothing itself",
    "engine.cli.main": "one call of the command line; commands.py has the table of commands",
    "engine.cli.hardening": "one measure of the operating system, with its reason",
    "engine.formats.export_anthropic": "one format, one file",
    "engine.formats.exported_messages": "what every export of messages exports, with the results beside a question",
    "engine.formats.sqlite_files": "how a database is opened without touching it",
    "engine.http.problems": "one format, which all servers write",
    "engine.web.auth": "whose a request is; process/tokens.py has the tokens",
    "engine.observers.structlog": "one integration, one file",
    "engine.process.prometheus": "one format, which both servers write",
    "engine.prompts": "texts for the model, apart from the code that sends them",
    "engine.proxy.closing_words": "the request for them, and how often they are given; requests and runs ask it",
    "engine.proxy.offered_completion": "the tool of the proxy's own; both the request and the response ask for it",
    "engine.records.qualified_names": "the one table of old names in records",
    "engine.records.frame_judge": "what is known of calls, beside their events; the viewer and the server send it",
    "engine.testing.faults.peak_memory": "what the operating system says of memory, for the checks with a bound on it",
    "engine.testing.conformance.nonconformance": "the two exceptions that both kits raise",
    "providers.cache_marks": "which messages are marked, whatever form they have: Claude's wire and litellm's use it",
    "providers.clock": "the clock that tests replace",
    "providers.endpoint_url": "masks secrets in a URL, for the wires and for the command line",
    "providers.fallback": "one wrapper, one file",
    "providers.gemini_parts": "the items that the parser writes and the encoder of requests reads",
}
"""Files of fewer than 60 lines: why each stands alone."""

ONE_IMPORTER = {
    "decision.anchors": "where a run said it was done, changed the work, and checked it; summary.py has its figures",
    "decision.echoes": "what a short text says beside its phrases, apart from what a rule makes of it",
    "decision.echo_phrases_latin": "languages as data; one file for all would have more than 600 lines",
    "decision.echo_phrases_other": "languages as data; one file for all would have more than 600 lines",
    "decision.novelty": "what of a text is new, apart from what a step is judged by",
    "decision.phrases": "how expressions are searched for, apart from the phrases of text_kinds.py",
    "decision.report_phrases": "phrases as data; text_kinds.py says what follows from them",
    "decision.text_phrases": "phrases as data; text_kinds.py says what follows from them",
    "engine.cli.main": "what programs call; what the console script calls imports nothing before it can be interrupted",
    "engine.cli.question_prompt": "what a person at the terminal is asked, apart from what the command runs",
    "engine.cli.export_html": "what the command does for pages, which other exports import nothing of",
    "engine.html_export.recorded_session": "what is read of records; session_html.py writes the page",
    "engine.cli.views.help_page": "imports rich",
    "engine.cli.views.audit": "what the command prints, apart from what it computes",
    "engine.cli.views.backtest_page": "the same, as a page",
    "engine.cli.views.demo": "imports rich",
    "engine.cli.views.fit_page": "the same, as a page",
    "engine.cli.views.live": "imports rich",
    "engine.cli.views.race_live": "imports rich",
    "engine.cli.views.replay_stepper": "the step-by-step view, imported when it is asked for",
    "engine.cli.views.report": "what the command prints, apart from what it computes",
    "engine.cli.views.report_page": "the same, as a page",
    "engine.analysis.false_stops": "backtest.py would have more than 600 lines with it",
    "engine.analysis.fit": "what the command computes, apart from what it prints",
    "engine.analysis.eagerness": "the table of thresholds and the search along them, apart from reading and testing",
    "engine.checkpoint": "effects with a durable engine; the loop knows nothing of it",
    "engine.compaction": "a subject of its own: P0",
    "engine.durable.dbos.step_results": "the table of results and its thread; worker.py has the runs",
    "engine.durable.dbos.worker": "imports dbos",
    "engine.durable.temporal.worker": "imports temporalio",
    "engine.formats.parallel_import": "starts processes; importer.py imports in this one",
    "engine.formats.anthropic": "one format, one file",
    "engine.formats.atif": "one format, one file",
    "engine.formats.claude_code": "one format, one file",
    "engine.formats.cline": "one format, one file",
    "engine.formats.copilot_cli": "one format, one file",
    "engine.formats.cursor": "one format, one file",
    "engine.formats.export_anthropic": "one format, one file",
    "engine.formats.export_atif": "one format, one file",
    "engine.formats.export_otlp": "one format, one file",
    "engine.formats.gemini_cli": "one format, one file",
    "engine.formats.kimi_cli": "one format, one file",
    "engine.formats.known_places": "where agents keep their sessions",
    "engine.formats.inspect_log": "one format, one file",
    "engine.formats.known_formats": "the table of what is recognised and not read",
    "engine.formats.langchain_messages": "one format, one file",
    "engine.formats.otlp_protobuf": "one encoding, one file; otlp_values.py has the other",
    "engine.formats.pydantic_messages": "one format, one file",
    "engine.formats.sharegpt": "one format, one file",
    "engine.formats.mini_swe_agent": "one format, one file",
    "engine.formats.openai_agents": "one format, one file",
    "engine.formats.openhands_sdk": "one format, one file",
    "engine.formats.opencode": "one format, one file",
    "engine.formats.opencode_store": "where OpenCode keeps sessions, apart from what is in them",
    "engine.follow.followed_step": "one step and its attempts; follower.py has runs and decisions",
    "engine.formats.pi": "one format, one file",
    "engine.formats.qwen_code": "one format, one file",
    "engine.formats.swe_agent": "one format, one file",
    "engine.formats.tau2_bench": "one format, one file",
    "engine.formats.tau_bench": "one format, one file",
    "engine.formats.trae": "one format, one file",
    "engine.loop": "the loop; run.py has the task and the handle",
    "engine.observers.otel.chat": "spans of model requests; tracing.py has those of runs and tools",
    "engine.prompts": "texts for the model, apart from the code that sends them",
    "engine.records.encoded_text": "what a text says when it is decoded, apart from what is looked for in it",
    "engine.records.byte_dumps": "how lines of a dump are read; encoded_text.py decodes what is written in one run",
    "engine.records.secret_labels": "which names announce a secret, and where its value stands beside them",
    "engine.records.secret_columns": "a table is read line by line, and not by a pattern",
    "engine.proxy.chat_assembler": "chat completions put together; chat_wire.py writes them",
    "engine.proxy.upstream_streaming": "when a stream is asked for that no agent asked for; proxy.py has the HTTP",
    "engine.proxy.anthropic_wire": "one wire, one file",
    "engine.proxy.responses_wire": "one wire, one file",
    "engine.replay.player": "the engine that plays one run; replay.py has the comparison of a whole session",
    "engine.replay.responses": "recorded responses as streams; player.py would be too long with it",
    "engine.response": "one response; loop.py has steps and rounds",
    "engine.run_start": "the first events of a run; session.py has what stays between runs",
    "engine.service.lifecycle": "opening and closing of a service; service.py has its operations",
    "engine.service.received_session": "one session; span_receiver.py has all of them, and the store",
    "engine.web.otlp_route": "a protocol of its own, with its own errors; app.py has the other routes",
    "engine.store.notify": "LISTEN and NOTIFY of PostgreSQL",
    "engine.store.queries": "reading; transaction.py has the writing",
    "engine.store.sql": "imports SQLAlchemy",
    "engine.store.writer": "what the store's thread writes; write_thread.py has the thread",
    "engine.service.stored_subagents": "sub-agents as sessions, apart from the runs that a service starts",
    "engine.subagent_records": "where sessions of sub-agents are kept, apart from what runs them",
    "engine.subagents": "a subject of its own: runs as calls of a tool",
    "engine.testing.conformance.durable.failover": "cases of one part of the kit",
    "engine.testing.conformance.durable.queue": "cases of one part of the kit",
    "engine.testing.conformance.durable.steps": "cases of one part of the kit",
    "engine.testing.faults.hostile_streams": "the endpoints that misuse events; hostile_http.py has those below",
    "engine.testing.faults.mutations": "how data is changed; fuzzed_inputs.py checks what reads it",
    "engine.testing.conformance.providers.checks": "the checks; cases.py has the table",
    "engine.testing.faults.stored_batches": "what is stored; store_checks.py says what must become of it",
    "engine.testing.faults.limit_breaches": "what a run did past its limits, apart from what holds of every record",
    "engine.tools.loop_watchdog": "warns of a blocked event loop, for functions of any role",
    "engine.tools.shell": "one tool; workspace.py has those that work on files",
    "engine.tools.side_effects": "recognises commands and tools that change something",
    "engine.web.ag_ui_routes": "routes of AG-UI; ag_ui/ knows no HTTP",
    "engine.web.openapi": "writes the OpenAPI document from the table of routes",
    "engine.viewer.record_follower": "reading in threads, of which viewer_app.py knows nothing",
    "engine.viewer.step_texts": "what is indexed of a record, read by workers; text_index.py has the database",
    "engine.viewer.viewer_server": "the socket and the signals; viewer_app.py has the requests",
    "engine.proxy.proxy_server": "the socket, the signals and the records; proxy.py has the requests",
    "engine.web.middleware": "what holds for all routes; app.py has the routes",
    "providers.gemini_arguments": "arguments that come in pieces with paths, which no other wire has",
    "providers.gemini_format": "the body of a request; gemini.py has the arguments of the provider",
    "providers.gemini_schema": "the subset of JSON Schema that Gemini takes",
    "providers.litellm_http": "imports httpx and aiohttp, which litellm.py does only with litellm",
}
"""Modules that one other module imports: why they are not part of it."""

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


@cache
def _lines(module: str) -> int:
    return len(FILES[module].read_text(encoding="utf-8").splitlines())


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


def _is_private_data(name: str, path: Path) -> bool:
    return path.name == "__init__.py" or ".migrations" in name


def test_a_small_file_has_its_reason() -> None:
    small = {name for name, path in FILES.items() if _lines(name) < SHORT and not _is_private_data(name, path)}
    assert small == set(SMALL)


def test_a_module_that_one_other_imports_has_its_reason() -> None:
    importers = defaultdict(set)
    for module, targets in _imports().items():
        for target in targets:
            importers[target].add(module)
    public = {name for name, path in FILES.items() if path.name == "__init__.py"} | {"engine._exports"}
    commands = {
        f"engine.cli.{command.module}" for command in COMMANDS.values()
    }  # imported by name, when the command is called
    single = {
        name
        for name, path in FILES.items()
        if len(importers[name]) == 1
        and not importers[name] & public  # what a package exports is imported by its users
        and not _is_private_data(name, path)
        and name not in commands
    }
    assert single == set(ONE_IMPORTER)


LOOP_ITSELF = (
    *("loop", "response", "tool_calls", "tool_execution", "hook_runner", "compaction", "evaluation"),
    *("context", "hard_limits", "event_log", "run"),
)
"""Modules that know nothing of the past of a run but `Effects`, which they are handed."""
PAST = {"resume_point", "checkpoint", "recorded_values", "replay", "durable"}
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
