"""What may be imported: nothing impure in `decision/`, and heavy packages in one place, when they are needed."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import scripts

ROOT = Path(__file__).parent.parent
IMPURE = {
    "asyncio": "waits", "concurrent": "waits", "sched": "waits", "selectors": "waits", "threading": "waits",
    "datetime": "a clock", "time": "a clock",
    "random": "chance", "secrets": "chance", "uuid": "chance",
    "logging": "I/O", "io": "I/O", "os": "I/O", "pathlib": "I/O", "shutil": "I/O", "socket": "I/O",
    "subprocess": "I/O", "sys": "I/O", "tempfile": "I/O", "urllib": "I/O",
}  # fmt: skip
"""What of the standard library has no place in `decision/`, and why."""

WHEN_FIRST_USED = {
    "shtab": "only a script for the shell needs it",
    "difflib": "only a name that is not known needs it",
    "tomllib": "2 ms, and only tables of words and files of the user need it",
    "litellm": "4 s and 190 MB",
    "aiohttp": "0.2 s, and only the direct path and the proxy need it",
    "pydantic": "0.1 s, and a run without tools needs none of it",
    "pydantic_core": "comes with pydantic",
    "rich": "only the live view and reports need it",
    "jsonschema": "0.1 s, and only tools with a schema of their own need it",
    "yaml": "only tools in YAML need it",
    "opentelemetry": "only traced engines need it, and it is an extra",
    "mcp": "0.7 s, only tools of an MCP server need it, and it is an extra",
    "httpx2": "the same",
    "uvloop": "only what stands for long needs it, and only if it is there",
    "structlog": "only our programs need it, once they log a line",
    "zipfile": "only archives need it",
    "backports": "8 ms, and only compressed records need it (`backports.zstd`)",
    "compression": "the same, as Python 3.14 brings it",
    "pysqlite3": "only DBOS needs it, and only where Python is linked with an old SQLite",
}
"""Heavy packages that a function may import when it is called, and why."""

ONLY_IN = {
    "litellm": "providers/litellm.py",
    "opentelemetry": "engine/observers/otel/spans.py",
    "mcp": "engine/tools/mcp.py",
    "httpx2": "engine/tools/mcp.py",
}
"""Packages with one module of ours around them."""

WITHIN = {
    "pydantic_ai": "engine/adapters/pydantic_ai.py",
    "agents": "engine/adapters/openai_agents.py",
    "openai": "engine/adapters/",
    "google": "engine/adapters/google_adk.py",
    "langchain": "engine/adapters/langchain.py",
    "langchain_core": "engine/adapters/langchain.py",
    "aiohttp": (
        "providers/http_provider.py",
        "providers/http_connections.py",
        "providers/litellm_http.py",
        "engine/http/idle_connections.py",
        "engine/http/operator_port.py",
        "engine/proxy/",
        "engine/viewer/",
        "engine/cli/demo_reader.py",
        "engine/cli/demo_sides.py",
        "engine/cli/demo_stream.py",
    ),
    "httpx": "providers/litellm_http.py",
    "httpcore": "providers/litellm_http.py",
    "dbos": "engine/durable/dbos/",
    "sqlalchemy": ("engine/store/", "engine/durable/dbos/"),
    "alembic": "engine/store/",
    "psycopg": "engine/store/",
    "starlette": "engine/web/",
    "uvicorn": "engine/web/",
    "uvloop": "engine/process/daemon.py",
    "obstore": "engine/objects/s3_objects.py",
    "temporalio": "engine/durable/temporal/",
}
"""Heavy packages that one subpackage imports as it likes: who does without it imports none of them."""

FOR_TYPES = {"typing_extensions": "type checkers bring it along, and only they read the import"}
"""What is imported for type checkers alone, nowhere else, and why it is no dependency."""

VIEWS = "engine/cli/views"
HISTORY = "engine/message_history.py"
FORMATS = "endstop.formats"
FOLLOWER = "engine/follow/follower.py"
FOLLOWER_RECORD = "engine/follow/follower_record.py"
RECORDS = "engine/records"
RUN_EVENTS = "engine/formats/run_events.py"
LATE = {
    (
        "engine/config.py",
        "endstop.providers.model_names",
    ): "all providers, and only a model given by its name needs them",
    ("engine/objects/object_url.py", "endstop.objects.s3_objects"): "imports obstore, an extra that only buckets need",
    (HISTORY, f"{FORMATS}.openai"): "the formats take 25 ms, and only a history in another form needs them",
    (HISTORY, f"{FORMATS}.imported_session"): "the same",
    (HISTORY, f"{FORMATS}.session_builder"): "the same",
    (HISTORY, f"{FORMATS}.export_openai"): "the same, and only messages in another form need them",
    (HISTORY, f"{FORMATS}.export_anthropic"): "the same",
    ("providers/http_provider.py", "endstop.providers.http_connections"): "imports aiohttp",
    ("providers/clock.py", "anyio"): "only what waits needs it, and a follower only reads the clock",
    ("providers/prices.py", "endstop.providers._wrapper"): "imports asyncio, and only the price of a provider needs it",
    (FOLLOWER, "endstop.analysis.policy_simulation"): "20 ms, and only followers with a policy that watches need it",
    (FOLLOWER, "endstop.check_answers"): "its dataclasses take 2 ms, and only loops with a check need them",
    (FOLLOWER, "endstop.formats.reconstruction"): "only a run that its loop ended needs it",
    (FOLLOWER_RECORD, "endstop.providers._logging"): "imports logging, and only a record that is lost needs it",
    ("engine/agent_hook/old_sessions.py", "endstop.records.retention"): "4 ms, and a hook deletes once a day at most",
    (f"{RECORDS}/recorder.py", "endstop.records.event_redaction"): "only records with hidden texts need it",
    (RUN_EVENTS, "endstop.tools.results"): "its dataclasses take 4 ms, and only results of completion calls need them",
    ("engine/tools/function_roles.py", "endstop.tools.run_context"): "only roles that take a context need it",
    ("engine/user_errors.py", "endstop.records.known_secrets"): "only what a user's function raises is masked with it",
    ("providers/litellm.py", "endstop.providers.litellm_http"): "imports httpx, which comes with litellm, and aiohttp",
    ("providers/litellm_http.py", "httpcore._backends.anyio"): "a private module, which may be gone in a later version",
    ("providers/http_provider.py", "urllib.request"): "takes 40 ms, and aiohttp brings it along when it is used",
    (f"{VIEWS}/select.py", "endstop.cli.views.live"): "imports rich, which plain lines do without",
    (f"{VIEWS}/select.py", "endstop.cli.views.terminal"): "the same",
    ("engine/testing/faults/peak_memory.py", "resource"): "not on every platform",
    ("engine/cli/question_prompt.py", "readline"): "not on every platform; prepares the terminal when imported",
    (f"{VIEWS}/select.py", "endstop.cli.views.race_live"): "the same",
    ("engine/cli/demo.py", "endstop.cli.views.demo"): "the same",
    ("engine/cli/demo.py", "endstop.cli.views.terminal"): "the same",
    ("engine/cli/demo.py", "endstop.cli.demo_sides"): "imports aiohttp and the loop, which the parser does without",
    ("engine/cli/demo.py", "endstop.cli.demo_stream"): "imports aiohttp",
    ("engine/cli/console_script.py", "endstop.cli.main"): "Ctrl-C during this import must not print a traceback",
    ("engine/cli/console_script.py", "endstop.cli.hook_options"): "agents wait for it, and nobody else needs it",
    ("engine/cli/hook_options.py", "endstop.cli.factory"): "all that builds an engine, for a policy in a file",
    ("engine/cli/hook_options.py", "endstop.agent_hook.handler"): "the follower, which wrong options do without",
    ("engine/agent_hook/handler.py", "endstop.agent_hook.end_check"): "only the end of an agent with --until needs it",
    ("engine/agent_hook/agent_proxy.py", "http.client"): "takes 20 ms, and is asked once a session at most",
    ("engine/cli/convert.py", "endstop.cli.export_html"): "reads and judges records, which other exports do without",
    ("engine/cli/parser.py", "endstop.cli.views.help_page"): "the same, and only help needs it",
    ("engine/cli/serve.py", "endstop.web.server"): "imports starlette, uvicorn and SQLAlchemy",
    ("engine/cli/serve.py", "endstop.cli.worker_process"): "imports SQLAlchemy",
    ("engine/cli/serve.py", "endstop.service.span_receiver"): "the same",
    ("engine/cli/worker.py", "endstop.cli.worker_process"): "the same",
    ("engine/cli/erase.py", "endstop.cli.owner_erasure"): "the same",
    ("engine/engine.py", "endstop.batch"): "only programs of many runs need it",
    ("engine/engine.py", "endstop.race"): "the same",
    ("engine/session.py", "endstop.fork"): "only forks need it",
    ("engine/session.py", "endstop.checkpoint"): "only durable engines need it",
    ("engine/engine.py", "endstop.tools.output"): "only runs with a typed output need it",
    ("engine/engine.py", "endstop.until"): "only runs with a check need it",
    ("engine/session.py", "endstop.until_background"): "the same",
    ("engine/session.py", "endstop.until_work"): "the same",
    ("engine/cli/until_options.py", "endstop.criteria"): "only --until-criteria needs it",
    ("engine/engine.py", "endstop.subagents"): "only runs with sub-agents need it",
    ("engine/loop.py", "endstop.compaction"): "only runs that compact their context need it",
    ("engine/run.py", "endstop.text_stream"): "only readers of the text need it",
    ("engine/engine.py", "endstop.session_record"): "only sessions that go on in a record need it",
    ("engine/session.py", "endstop.session_record"): "only runs with a record need it",
    ("engine/session.py", "endstop.providers"): "Record keeps the rest of a cut stream, which only drain asks for",
    ("engine/session.py", "endstop.recorded_events"): "only resumed runs and forks need it",
    ("engine/session.py", "endstop.recorded_round"): "the same",
    ("engine/session_state.py", "endstop.recorded_round"): "the same",
    ("engine/session_state.py", "endstop.resume_point"): "the same",
    ("engine/journal.py", "endstop.records.recorder"): "only runs with a record need it",
    ("engine/cli/proxy.py", "endstop.proxy.day_budgets"): "imports aiohttp, by its package",
    ("engine/cli/proxy.py", "endstop.proxy.budget_store"): "the same",
    ("engine/cli/proxy.py", "endstop.proxy.proxy_tracer"): "the same",
    ("engine/cli/proxy.py", "endstop.observers.otel.spans"): "imports the loop, and only --trace needs it",
    ("engine/cli/proxy.py", "endstop.proxy.proxy"): "the same",
    ("engine/cli/proxy.py", "endstop.proxy.proxy_server"): "the same",
    ("engine/cli/view.py", "endstop.viewer.viewer_app"): "imports aiohttp",
    ("engine/cli/view.py", "endstop.viewer.viewer_server"): "the same",
    ("engine/cli/worker_process.py", "endstop.durable.dbos"): "imports dbos: 0.9 s, and an extra",
    ("engine/cli/worker_process.py", "endstop.durable.temporal"): "needed for temporal:// alone, and an extra",
    ("engine/durable/dbos/queue.py", "endstop.durable.dbos.client"): "imports dbos: 0.9 s, and an extra",
    ("engine/durable/dbos/queue.py", "endstop.durable.dbos.worker"): "the same",
    ("engine/durable/dbos/queue.py", "endstop.durable.dbos.database_url"): "imports SQLAlchemy",
    (
        "engine/durable/temporal/queue.py",
        "endstop.durable.temporal.client",
    ): "imports temporalio: 0.6 s",
}
"""Other imports inside a function: (file, module) -> why. None may be there to walk round a cycle."""


@cache
def _imports() -> list[Any]:
    """All imports (`package_map.Import`). Read when a test asks, as each worker of pytest-xdist loads this module."""
    found: list[Any] = scripts.load(scripts.DOCS / "package_map.py").all_imports()
    return found


def test_imports_between_our_modules_are_relative() -> None:
    wrong = [i for i in _imports() if i.top == "endstop" and not i.relative]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_decision_imports_nothing_but_the_standard_library_and_msgspec() -> None:
    allowed = sys.stdlib_module_names | {"msgspec", "endstop"}
    wrong = [i for i in _imports() if i.folder == "decision" and i.top not in allowed and not _for_types_alone(i)]
    assert not wrong, "\n".join(map(str, wrong))


def _for_types_alone(found: Any) -> bool:
    return found.top in FOR_TYPES and bool(found.for_types)


def test_the_decision_imports_no_clock_no_chance_and_no_input_or_output() -> None:
    wrong = [f"{i}: {IMPURE[i.top]}" for i in _imports() if i.folder == "decision" and i.top in IMPURE]
    assert not wrong, "\n".join(wrong)


def test_the_decision_neither_awaits_nor_opens_nor_prints() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    wrong = []
    for path in sorted((ROOT / "decision").rglob("*.py")):
        for node in ast.walk(scripts.load(scripts.DOCS / "package_map.py").syntax(path)):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
            if path.name == "wrong_calls.py" and isinstance(node, waiting):
                continue  # awaits what it wraps, for the functions of the packages above
            if isinstance(node, waiting) or called in ("open", "print", "input", "__import__"):
                wrong.append(f"{path.name}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ONLY_IN)
def test_one_module_of_ours_stands_around(package: str) -> None:
    wrong = [i for i in _imports() if i.top == package and i.file != ONLY_IN[package]]
    wrong += [i for i in _imports() if i.top == package and not (i.in_function or i.for_types)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("package", WITHIN)
def test_one_subpackage_of_ours_stands_around(package: str) -> None:
    wrong = [i for i in _imports() if i.top == package and not i.file.startswith(WITHIN[package])]
    assert not wrong, "\n".join(map(str, wrong))


def test_importing_the_engine_or_the_command_line_imports_no_package_of_a_server() -> None:
    heavy = {*WITHIN, "starlette", "uvicorn"}
    imports = "import sys, endstop.cli.main as _; from endstop import Engine"
    code = f"{imports}; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_importing_the_engine_imports_nothing_that_only_some_programs_use() -> None:
    some = {"tomllib", *(f"endstop.{name}" for name in ("records.redaction", "tools.mcp", "tools.yaml"))}
    code = f"import sys; from endstop import Engine; print({some!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_importing_a_follower_imports_only_what_a_hook_runs() -> None:
    """A hook of another agent is a process for each call of a tool, and must be done in a tenth of a second."""
    needless = {
        *("aiohttp", "anyio", "asyncio", "dataclasses", "difflib", "email", "html", "litellm", "logging"),
        *("pydantic", "random", "rich", "socket", "sqlalchemy", "sqlite3", "ssl", "string", "subprocess", "tempfile"),
        *("threading", "tomllib"),
        *("endstop.analysis.summary", "endstop.check_answers", "endstop.engine", "endstop.formats.session_files"),
        *("endstop.formats.to_events", "endstop.providers.event_stream", "endstop.providers.provider"),
        *("endstop.records.known_secrets", "endstop.records.redaction", "endstop.tools.results"),
        "endstop.tools.user_functions",
    }
    code = f"""
import sys
before = {{*sys.modules}}
import endstop.follow.follower
from endstop.decision import deferred_patterns
new = {{*sys.modules}} - before
compiled = [one.pattern for one in deferred_patterns._DEFERRED if "compiled" in vars(one)]
print({needless!r} & new, len([name for name in new if name.startswith("endstop")]), compiled, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found, ours, compiled = done.stdout.strip().split("|")
    assert (found, compiled) == ("set()", "[]")
    assert int(ours) <= 98


def test_an_import_inside_a_function_is_a_heavy_package_or_has_a_reason() -> None:
    late = [i for i in _imports() if i.in_function and not i.for_types]
    wrong = [i for i in late if i.top not in WHEN_FIRST_USED and (i.file, i.module) not in LATE]
    assert not wrong, "\n".join(map(str, wrong))
    unused = set(LATE) - {(i.file, i.module) for i in late}
    assert not unused, f"no longer there, take them out of LATE: {unused}"


def test_every_foreign_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    declared = {_name_of(dependency) for dependency in asked} | {
        "agents",  # openai-agents, which brings openai
        "google",  # google-adk, and google-genai, which it brings
        "httpx",  # litellm, which brings httpcore, too
        "httpcore",
        "openai",
        "pydantic_ai",  # pydantic-ai-slim
        "pydantic_core",
        "strands",  # strands-agents
        "yaml",
        "pysqlite3",
        "backports",
        "compression",
        "opentelemetry",
    }
    foreign = [i for i in _imports() if i.top not in sys.stdlib_module_names | {"endstop"}]
    wrong = [i for i in foreign if i.top not in declared and not _for_types_alone(i)]
    assert not wrong, "\n".join(map(str, wrong))


def _name_of(dependency: str) -> str:
    name = "".join(letter if letter.isalnum() or letter in "-_." else " " for letter in dependency).split()[0]
    return name.replace("-", "_")
