"""What `pip install endstop` brings, without any extra: it runs sessions, and what it lacks says which extra has it.

Its packages are those that pyproject.toml asks for, found among the installed ones and linked into a folder: a Python
that looks nowhere else has what a plain install has. `make install-sizes` asks pip itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import endstop
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
NOT_OURS = {"litellm", "openai", "httpx", "starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "dbos", "mcp"}
SESSIONS = """
import asyncio, json
from importlib.util import find_spec
from aiohttp import web
from endstop import Engine, OpenAICompatible, read_record
from endstop.providers import Anthropic, Gemini, OpenAIResponses, Prices, Scripted, call

async def answer(request):
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for delta, finish in (({"content": "Port 8080."}, None), ({}, "stop")):
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
    await response.write(b"data: [DONE]\\n\\n")
    return response

async def main():
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    scripted = await Engine(Scripted(call("finish_task", summary="Done."))).run("Go.", record="scripted.jsonl")
    loopback = await Engine(OpenAICompatible("m", f"http://127.0.0.1:{port}/v1")).run("Which port?")
    await runner.cleanup()
    models = [Anthropic("claude-haiku-4-5", api_key="k"), OpenAIResponses("gpt-4o", api_key="k")]
    models += [Gemini("gemini-2.5-pro", api_key="k"), OpenAICompatible("gpt-4o", "https://api.openai.com/v1")]
    print(json.dumps({
        "scripted": scripted.answer, "loopback": loopback.answer, "priced": [bool(Prices().of(m)) for m in models],
        "found": [name for name in NAMES if find_spec(name)],
    }))

asyncio.run(main())
"""
NEEDS_AN_EXTRA = {
    "import endstop.service": "server",
    "import endstop.web": "server",
    "import endstop.web.server": "server",
    "from endstop.store.url import store_at": "server",
    "from endstop import LiteLLM; LiteLLM('groq/llama')": "litellm",
    "from endstop.durable.dbos import Dbos; Dbos('runs.sqlite')": "dbos",
    "from endstop.durable.temporal import Temporal; Temporal()": "temporal",
    "from endstop.observers.otel import traced; from endstop import Engine; from endstop.providers import Scripted\n"
    "traced(Engine(Scripted('x')))": "otel",
    "import asyncio; from endstop.tools.mcp import mcp_tools\n"
    "async def main():\n    async with mcp_tools('http://127.0.0.1:1/mcp'): pass\n"
    "asyncio.run(main())": "mcp",
}
"""What one can do only with an extra, and which one it is."""
CAUGHT = """
from endstop import WrongUse
for kind in (ImportError, WrongUse):
    try:
        import endstop.web
    except kind:
        print(kind.__name__)
"""
COMMANDS_NEED = {
    "run Go. --model groq/llama": "litellm",
    "run Go. --model llama": "litellm",
    "run Go. --model antropic/claude-haiku-4-5": "litellm",
    "run Go. --model anthropic/claude-haiku-4-5 --provider litellm": "litellm",
    "race Go. --model groq/llama --model anthropic/claude-haiku-4-5": "litellm",
    "serve": "server",
    "erase alice --yes": "server",
    "serve --model llama": "server",
    "serve --workers 2 --model anthropic/claude-haiku-4-5 --store postgresql://me@db/x": "dbos",
    "worker --model anthropic/claude-haiku-4-5 --store postgresql://me@db/x": "dbos",
    "worker --queue temporal://127.0.0.1:1 --model anthropic/claude-haiku-4-5 --store postgresql://me@db/x": (
        "temporal,postgres"
    ),
}
COMMANDS = (
    "run",
    "race",
    "replay",
    "report",
    "backtest",
    "fit",
    "audit",
    "import",
    "export",
    "redact",
    "serve",
    "worker",
    "erase",
)


def _core() -> dict[str, Distribution]:
    """The distributions that a plain install brings, beside endstop itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [Requirement(line) for line in project["dependencies"]]
    found: dict[str, Distribution] = {}
    while waiting:
        asked = waiting.pop()
        name = asked.name.lower().replace("_", "-")
        if name in found or (asked.marker and not asked.marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(name)
        waiting += map(Requirement, found[name].requires or ())
    return found


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of a plain install."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "endstop").symlink_to(Path(endstop.__file__).parent)
    for found in _core().values():
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            place = folder / top
            if not place.exists():  # `backports` is shared by several
                place.symlink_to(Path(str(found.locate_file(top))))
    return folder


DRIVER = """
import json, os, sys, tempfile
from endstop.cli.main import main
import endstop.engine

def told(code):
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            try:
                exec(code, {"main": main})
            except BaseException as error:
                if not isinstance(error, SystemExit):
                    print(type(error).__name__, error, sep=": ", file=sys.stderr)
                code = error.code if isinstance(error, SystemExit) else 1
            else:
                code = 0
            sys.stdout.flush()
            os._exit(code or 0)
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode()

print(json.dumps([told(code) for code in json.load(sys.stdin)]))
"""
"""Runs each program in a fork of a process that has the imports, and prints exit codes and what was said."""


def _python(core: Path, folder: Path, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_PROXY", "_API_BASE"))}
    environment = {**kept, "PYTHONPATH": str(core), "HOME": str(folder)}
    command = [sys.executable, "-S", *arguments]  # -S: what else is installed is not looked for
    return subprocess.run(
        command, cwd=folder, env=environment, input=said, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def told(core: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """The exit code and the output of each program and each command of the tables above."""
    programs = {code: code for code in (*NEEDS_AN_EXTRA, CAUGHT)}
    programs |= {words: f"raise SystemExit(main({words.split()!r}))" for words in COMMANDS_NEED}
    programs |= {f"{name} --help": f"raise SystemExit(main([{name!r}, '--help']))" for name in COMMANDS}
    done = _python(core, tmp_path_factory.mktemp("here"), "-c", DRIVER, said=json.dumps([*programs.values()]))
    assert done.returncode == 0, done.stderr
    return dict(zip(programs, map(tuple, json.loads(done.stdout)), strict=True))


def test_a_plain_install_brings_at_most_32_packages_and_60_mb() -> None:
    found = _core()
    assert len(found) + 1 <= 32, sorted(found)
    installed = {Path(str(one.locate_file(file))) for one in found.values() for file in one.files or ()}
    ours = {path for folder in ("decision", "providers", "engine") for path in (ROOT / folder).rglob("*")}
    assert sum(path.stat().st_size for path in installed | ours if path.is_file()) < 60 * 2**20


def test_sessions_run_without_any_extra_and_vendors_models_have_prices(core: Path, tmp_path: Path) -> None:
    done = _python(core, tmp_path, "-W", "error", "-c", f"NAMES = {sorted(NOT_OURS)!r}\n{SESSIONS}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "scripted": "Done.",
        "loopback": "Port 8080.",
        "priced": [True] * 4,
        "found": [],
    }
    command = "import sys; from endstop.cli.main import main; sys.exit(main(sys.argv[1:]))"
    replayed = _python(core, tmp_path, "-c", command, "replay", "scripted.jsonl")
    assert replayed.returncode == 0, replayed.stderr
    reported = _python(core, tmp_path, "-c", command, "report", ".", "--html", "report.html")
    assert reported.returncode == 0, reported.stderr


@pytest.mark.parametrize("code", NEEDS_AN_EXTRA)
def test_what_needs_an_extra_says_which(code: str, told: dict[str, tuple[int, str]]) -> None:
    returned, said = told[code]
    assert returned == 1
    assert said.startswith("MissingExtra: ")
    assert said.endswith(f'pip install "endstop[{NEEDS_AN_EXTRA[code]}]"\n')


def test_a_missing_extra_is_caught_as_an_import_error_and_as_wrong_use(told: dict[str, tuple[int, str]]) -> None:
    assert told[CAUGHT] == (0, "ImportError\nWrongUse\n")


@pytest.mark.parametrize("words", COMMANDS_NEED)
def test_a_command_that_needs_an_extra_says_which_and_nothing_else(
    words: str, told: dict[str, tuple[int, str]]
) -> None:
    returned, said = told[words]
    assert returned == 2, said
    assert said.startswith("endstop: ")
    assert said.endswith(f'pip install "endstop[{COMMANDS_NEED[words]}]"\n')
    assert said.count("\n") == 1
    assert ("did you mean 'anthropic'" in said) == ("antropic" in words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_without_any_extra(name: str, told: dict[str, tuple[int, str]]) -> None:
    returned, said = told[f"{name} --help"]
    assert returned == 0, said
    assert said.startswith(f"Usage: endstop {name} ")
