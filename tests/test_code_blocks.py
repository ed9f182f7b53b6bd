"""Every code block of README and the documents runs as it is printed, or a table here says why it does not.

Lines for a shell run page by page, in one folder that holds the files which the pages name, with a model on this
machine in place of a hosted one: only the address and the port of servers differ from what is printed. Nothing is asked
of another host.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import os
import re
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from endstop.analysis.scoring import read_ratings
from endstop.cli.commands import build_parser
from endstop.decision import Policy, policy_from
from endstop.records.format import Decoded
from endstop.until_settings import until_settings_from
from endstop.web.schemas import AnswersRequest, ApprovalRequest

from . import console
from .chromium import Chromium
from .code_blocks import KINDS, ROOT, Block, Line, blocks, shell_lines
from .documented_files import write_files, write_home
from .providers import anthropic_endpoint as anthropic
from .providers.endpoint import Endpoint
from .servers import ChatServer
from .servers import call as called

PATIENCE = 120.0
BLOCKS = blocks()
NOT_RUN = {
    r"^pip install": "asks an index of packages",
    r"^make\b": "makes environments; the targets are checked in test_docs.py",
    r"^(createuser|createdb|psql|pg_dump)\b": "needs the reader's PostgreSQL server",
    r"^python (serve|nudges)\.py": "needs the weights of a model",
    r"^python tests/(real_model|benchmarks)/": "needs the weights of a model, or sessions that are not in the project",
    r"^curl\b": "needs a server that runs on; tests/engine/web asks the same of one",
    r"postgresql://|\"\$URL\"": "needs the reader's PostgreSQL server",
    r"\b(PROMPT|DIR|MODEL|known_ends/)": "stands for what the reader has",
    r"--model groq/": "says what an install without litellm says; tests/test_core_install.py has one",
    r"\bs3://": "needs a bucket; tests/engine/objects has one of a server on this machine",
    r"/run/secrets/": "needs a secret that an orchestrator mounts",
    r"\bdocker run\b": "needs Docker and an image",
    r"--step\b": "needs a terminal; tests/engine/cli/test_replay.py has one",
}
"""What a line that does not run looks like, and why not. Of endstop's own, the options are parsed all the same."""
SERVERS = ("serve", "proxy", "view")
"""Commands that run until they are stopped."""
PYTHON_NOT_RUN = {
    "endstop.adapters": "needs its framework; tests/engine/adapters/test_page.py runs it where that is installed",
    "endstop.durable": "needs the reader's PostgreSQL server",
}
GIVEN = {
    "docs/guides/workers.md": "from endstop import Engine\nfrom endstop.providers import Scripted\n"
    "from endstop.service import Service\nengine = Engine(Scripted())\n"
}
"""What goes before the blocks of a page that go on from the text."""
JSON_READERS = {"call_id": ApprovalRequest, "answers": AnswersRequest}
"""What reads JSON with this field."""
TESTED_ELSEWHERE = {
    "docs/reference/command_line.md": "the examples of help, which tests/engine/cli/test_help.py runs",
    "docs/guides/hook.md": "the configuration of other programs: tests/agents drives them with it",
    "docs/guides/deploy.md": "sets up a machine as root; tests/test_operations.py parses the commands of its files",
    "docs/guides/operations.md": "needs a fleet and its database; tests/fleet/test_runbook.py has both",
    "docs/guides/coding_agents.md": "the configuration of other programs: `make agents` and tests/agents use it",
}
"""Pages whose blocks have a test of their own."""
EMPTY = {"docs/start/first_steps.md"}
"""Pages that begin in an empty folder: they make what they name."""


def _named(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind and block.page not in TESTED_ELSEWHERE]


def _is_run(line: Line) -> bool:
    return not any(re.search(pattern, line.text) for pattern in NOT_RUN)


def test_every_block_is_of_a_known_kind_and_each_kind_is_there() -> None:
    counts = Counter(block.kind for block in BLOCKS)
    assert counts.keys() <= KINDS.keys(), [str(block) for block in BLOCKS if block.kind not in KINDS]
    assert counts.keys() == KINDS.keys()
    lines = [line for block in _named("sh") for line in shell_lines(block.text)]
    print(f"{len(BLOCKS)} blocks: {dict(counts)}; {sum(map(_is_run, lines))} of {len(lines)} lines for a shell run")


def test_each_reason_not_to_run_a_line_is_needed() -> None:
    lines = [line.text for block in _named("sh") + _named("console") for line in shell_lines(block.text)]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in lines)] == []
    python = [block.text for block in _named("python")]
    assert [name for name in PYTHON_NOT_RUN if not any(name in text for text in python)] == []


@pytest.mark.parametrize("block", _named("python"), ids=str)
async def test_python_runs_as_a_script(block: Block, tmp_path: Path) -> None:
    if any(name in block.text for name in PYTHON_NOT_RUN):
        return _check_imports(block)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "s1.jsonl").symlink_to(ROOT / "tests" / "records" / "port_server.jsonl")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    script = tmp_path / "example.py"
    async with Endpoint(anthropic.message(anthropic.text(0, "24 degrees."), anthropic.ends())) as model:
        here = f"\\1, api_key='key', api_base='{model.url}')"
        text = re.sub(r"(Anthropic\(\"[^\"]+\")\)", here, GIVEN.get(block.page, "") + block.text)
        script.write_text(text, encoding="utf-8")
        ran = await console.python(script, cwd=tmp_path)
    assert ran.code == 0, ran.err
    if "(caplog" in block.text:
        runner = tmp_path / "run_tests.py"
        runner.write_text("import pytest\nraise SystemExit(pytest.main(['-qo', 'asyncio_mode=auto', 'example.py']))\n")
        ran = await console.python(runner, cwd=tmp_path)
        assert ran.code == 0, ran.out


def _check_imports(block: Block) -> None:
    """What a block imports of endstop is there."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("endstop"):
            module = importlib.import_module(node.module or "")
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("block", _named("console"), ids=str)
async def test_a_command_prints_what_is_shown(block: Block, tmp_path: Path) -> None:
    command, _, shown = block.text.removeprefix("$ ").partition("\n")
    (line,) = shell_lines(command)
    if not _is_run(line):
        return _parse(line.words[1:])
    assert line.words[0] == "python"
    done = await console.python(ROOT / line.words[1], cwd=tmp_path)
    assert (done.code, done.out) == (0, shown), done.err


@pytest.mark.parametrize("block", _named("csv"), ids=str)
def test_csv_is_read_as_ratings(block: Block, tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(block.text)
    assert read_ratings(tmp_path / "ratings.csv")


@pytest.mark.parametrize("block", _named("js"), ids=str)
def test_a_browser_compiles_its_script(chromium: Chromium, block: Block) -> None:
    with chromium.used() as browser:
        page = browser.new_page()
        page.evaluate("(code) => { new Function(code) }", block.text)
        page.close()


@pytest.mark.parametrize("block", _named("toml"), ids=str)
def test_toml_is_a_policy(block: Block) -> None:
    data = tomllib.loads(block.text)
    if "until" in data:
        assert until_settings_from(data.pop("until"), "until").commands
    assert policy_from(data) != Policy()


@pytest.mark.parametrize("block", _named("json"), ids=str)
def test_json_is_read_by_what_takes_it(block: Block) -> None:
    (reader,) = [reader for name, reader in JSON_READERS.items() if name in json.loads(block.text)]
    msgspec.json.decode(block.text, type=reader)


@pytest.mark.parametrize("block", _named("jsonl"), ids=str)
def test_lines_of_a_record_can_be_read(block: Block) -> None:
    """`...` stands for fields that are left out, so what is there is read without them."""
    for line in block.text.splitlines():
        data = json.loads(line.replace("{...}", "{}").replace(",...}", "}"))
        if data["type"] != "HEADER":
            msgspec.convert(data, Decoded)


@dataclass
class Shell:
    """Runs lines of a page in a folder, with a model at `model`."""

    folder: Path
    model: str
    env: dict[str, str] = field(default_factory=dict)

    async def run(self, line: Line) -> None:
        """Run one line. Fails if it does not end as it should."""
        if not _is_run(line):
            if line.words[0] == "endstop":
                _parse(line.words[1:])
        elif line.words[0] == "export":
            name, _, value = line.words[1].partition("=")
            self.env[name] = value
        elif line.words[0] == "endstop" and line.is_plain and line.words[1] in SERVERS:
            await self._start_and_stop(self._here(line.words[1:]))
        elif line.words[0] == "endstop" and line.is_plain:
            words = [re.sub("^~", str(self.folder / "home"), word) for word in line.words[1:]]
            done = await console.endstop(*self._here(words), env=self._env(), cwd=self.folder)
            assert done.code == 0, f"{line.text}\n{done.out}{done.err}"
        else:
            await self._bash(line.text)

    def _env(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**self.env, "HOME": str(self.folder / "home"), "PATH": path, "BROWSER": "true"}

    def _here(self, words: list[str]) -> list[str]:
        """The words with the model of this machine in place of the page's."""
        if words[0] not in ("run", "race", "serve") or not {"--model", "--fork", "--resume"} & set(words):
            return words
        if "--api-base" not in words:
            return [*words, "--api-base", self.model]
        return [
            self.model if before == "--api-base" else word for before, word in zip(["", *words], words, strict=False)
        ]

    async def _start_and_stop(self, words: list[str]) -> None:
        port = [] if "--port" in words else ["--port", "0"]
        async with console.started(*words, *port, env=self._env(), cwd=self.folder) as process:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                told = await process.stdout.readline()
            assert b"http://127.0.0.1:" in told, told
            process.send_signal(signal.SIGINT)
            done = await console.ended(process)
        assert done.code == 130, done.out + done.err

    async def _bash(self, text: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", text),
            env={**os.environ, **self._env()},
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(PATIENCE):
            told, _ = await process.communicate()
        assert process.returncode == 0, f"{text}\n{told.decode()}"


def _parse(words: list[str]) -> None:
    """Parse a command of endstop. Raises SystemExit if an option is unknown."""
    build_parser(words).parse_args(words)


@asynccontextmanager
async def _shell(folder: Path, *, empty: bool, fits: bool) -> AsyncIterator[Shell]:
    write_home(folder / "home")
    if not empty:
        await write_files(folder, enough_to_fit=fits)
    script = [
        ["I will set it.", called("write_file", path="server.conf", content="port = 8080\n")],
        [called("finish_task", summary="The port is 8080.")],
    ]
    async with ChatServer(*script, repeat=True) as model:
        yield Shell(folder, model.url)


@pytest.mark.parametrize("page", sorted({block.page for block in _named("sh")}))
async def test_lines_for_a_shell_run(page: str, tmp_path: Path) -> None:
    lines = [line for block in _named("sh") if block.page == page for line in shell_lines(block.text)]
    fits = any(line.words[:2] == ["endstop", "fit"] for line in lines)
    async with _shell(tmp_path, empty=page in EMPTY, fits=fits) as shell:
        for line in lines:
            for name in re.findall(r"(?:-o|--record) (\S+\.\w+)", line.text):
                (tmp_path / name).unlink(missing_ok=True)  # the line makes it
        for line in lines:
            await shell.run(line)
