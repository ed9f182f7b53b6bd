"""D3: damaged files and odd functions give clear errors and exit code 2, never a traceback, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Continue, Engine, Phase, read_record, tool
from endstop.decision import Image, WrongUse
from endstop.decision import events as ev
from endstop.providers import Scripted, call
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given
from hypothesis import strategies as st

from ..console import COMMAND, PATIENCE, ended, endstop, environment, started
from ..servers import ChatServer
from ..servers import call as served

RECORDS = sorted((Path(__file__).parents[1] / "records").rglob("*.jsonl"), key=lambda path: path.stat().st_size)[:12]
ODD: list[Any] = [None, True, -1, 1e308, "", [], {}, [[]], {"a": 1}, "x" * 100, "\0", 2**70, [None], "0", 1.5]


@tool
def look(place: str) -> str:
    """Look at a place."""
    return place


async def a_record(path: Path) -> list[str]:
    await Engine(Scripted([call("look", place="here")], [call("finish_task", summary="Done.")]), tools=[look]).run(
        "Look.", record=path
    )
    return path.read_text().splitlines()


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.startswith("endstop") and "Traceback" not in text


# ---- files


@pytest.mark.parametrize("kind", ["{}", "[]", "5", "null"])
async def test_D3_a_line_whose_type_is_no_text_is_a_damaged_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = await a_record(path)
    path.write_text("\n".join([*lines[:2], f'{{"type": {kind}}}', *lines[3:]]) + "\n")
    for words in (("replay", path), ("export", "openai", path), ("run", "--resume", path)):
        done = await endstop(*words)
        assert (done.code, one_line(done.err)) == (2, True), done.err
        assert "line 3" in done.err
    path.write_text("\n".join([*lines, f'{{"type": {kind}}}']) + "\n")
    assert read_record(path).damaged == [len(lines) + 1]
    assert (await replay(path)).same


POLICIES = {
    "nested.toml": "a = " + "[" * 5000 + "]" * 5000,
    "tables.toml": "a = " + "{b = " * 3000 + "1" + "}" * 3000,
    "digits.toml": "[limits]\nsteps = " + "9" * 5000,
    "date.toml": "limits = 2001-01-01",
    "list.toml": "[[limits]]\nsteps = 3",
}


@pytest.mark.parametrize("name", POLICIES)
async def test_D3_a_policy_file_that_is_none_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(POLICIES[name])
    done = await endstop("run", "x", "--model", "m", "--policy", name, cwd=tmp_path)
    assert (done.code, one_line(done.err), name in done.err) == (2, True, True), done.err


YAML = {
    "a list as key": "? [a]\n: b",
    "a mapping as name": "tools:\n  ? {a: 1}\n  : {}",
    "a list as key of a tool": "tools:\n  - {[a]: b}",
    "a number as key": "tools:\n  - {1: b}",
    "itself": "tools: &a [*a]",
    "a bad merge": "tools:\n  - <<: 3\n    name: x",
    "an object": "tools: !!python/object:os.system x",
    "a date as type": "tools:\n  - {name: a, handler: 'os:getpid', parameters: {x: 2001-01-01}}",
}


@pytest.mark.parametrize("what", YAML)
async def test_D3_a_yaml_file_of_tools_that_is_none_is_named(what: str, tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(YAML[what])
    done = await endstop("run", "x", "--model", "m", "--tools", "tools.yaml", cwd=tmp_path)
    assert (done.code, one_line(done.err), "tools.yaml" in done.err) == (2, True, True), done.err


@given(seed=st.integers(0, 2**32))
def test_D3_a_damaged_record_is_read_or_refused_and_never_a_surprise(seed: int, tmp_path_factory: Any) -> None:
    chance = random.Random(seed)
    lines = chance.choice(RECORDS).read_bytes().splitlines()
    for _ in range(chance.randint(1, 3)):
        number = chance.randrange(len(lines))
        lines[number] = json.dumps(_odd(json.loads(lines[number]), chance)).encode()
    path = tmp_path_factory.mktemp("damaged") / "session.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    for read in (lambda: list(scan(path, parts=True, attachments=True)), lambda: asyncio.run(_replayed(path))):
        with suppress(WrongUse):
            read()


async def _replayed(path: Path) -> None:
    await asyncio.wait_for(replay(path), PATIENCE)


def _odd(line: Any, chance: random.Random) -> Any:
    """The line with one odd value somewhere in it."""
    if not isinstance(line, dict | list) or not line or chance.random() < 0.3:
        return chance.choice(ODD)
    key = chance.choice(list(line)) if isinstance(line, dict) else chance.randrange(len(line))
    line[key] = _odd(line[key], chance)
    return line


ODD_WORDS = [
    "",
    "-",
    "0",
    "-1",
    "nan",
    "1e400",
    "9" * 20,
    "\udcff",
    "/",
    "/nope/x",
    ".",
    "a=b",
    "=",
    "(",
    "http://x",
    "☃",
]


@pytest.mark.parametrize(
    "command", ["run", "race", "replay", "report", "backtest", "audit", "import", "export", "redact"]
)
async def test_D3_no_arguments_bring_a_traceback(command: str, tmp_path: Path) -> None:
    chance = random.Random(command)
    helped = (await endstop(command, "--help")).out
    options = sorted({word.strip(",[]") for word in helped.split() if word.startswith("--")} - {"--help"})
    for _ in range(12):
        words: list[str] = [command]
        for option in chance.sample(options, k=min(len(options), chance.randint(0, 3))):
            words += [option, chance.choice(ODD_WORDS)] if chance.random() < 0.8 else [option]
        words += chance.choices(ODD_WORDS, k=chance.randint(0, 2))
        done = await endstop(*words, cwd=tmp_path)
        assert done.code in (0, 1, 2, 4), (words, done)
        assert "Traceback" not in done.err, (words, done.err)
        assert "internal error" not in done.err, (words, done.err)


async def test_D3_a_folder_as_record_of_a_replay_is_named(tmp_path: Path) -> None:
    done = await endstop("replay", ".", cwd=tmp_path)
    assert (done.code, one_line(done.err)) == (2, True), done.err


# ---- functions


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raiser(error: BaseException, *, asynchronous: bool) -> Any:
    async def waits(place: str) -> str:
        """Look at a place."""
        raise error

    def blocks(place: str) -> str:
        """Look at a place."""
        raise error

    return tool(name="look")(waits if asynchronous else blocks)


ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "an error without a text": (Mute, "Mute: (its text cannot be had: RuntimeError)"),
    "KeyboardInterrupt": (lambda: KeyboardInterrupt("mine"), "KeyboardInterrupt: mine"),
    "GeneratorExit": (lambda: GeneratorExit("mine"), "GeneratorExit: mine"),
    "SystemExit": (lambda: SystemExit(3), "SystemExit: 3"),
    "a group of them": (lambda: BaseExceptionGroup("g", [KeyboardInterrupt()]), "BaseExceptionGroup: g"),
}


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("kind", ERRORS)
async def test_D3_whatever_a_tool_raises_is_its_result(kind: str, asynchronous: bool, tmp_path: Path) -> None:
    make, told = ERRORS[kind]
    provider = Scripted([call("look", place="here")], [call("finish_task", summary="Done.")])
    path = tmp_path / "session.jsonl"
    outcome = await Engine(provider, tools=[raiser(make(), asynchronous=asynchronous)]).run("go", record=path)
    assert outcome.status == "completed"
    (run,) = read_record(path).runs
    result = next(event for event in run.events if isinstance(event, ev.ToolCallResult))
    assert result.status == "error"
    assert told in result.content
    assert (await replay(path)).same


@pytest.mark.parametrize(
    "make",
    [
        lambda: Completion(answer=5),  # type: ignore[arg-type]
        lambda: Completion(answer="x", percentage="all"),  # type: ignore[arg-type]
        lambda: Completion(answer="x", pending_issues="one"),  # type: ignore[arg-type]
        lambda: Phase(percentage=50, summary=["half"]),  # type: ignore[arg-type]
        lambda: Continue(None),  # type: ignore[arg-type]
        lambda: Image(url=["http://x"]),  # type: ignore[arg-type]
    ],
)
async def test_D3_an_answer_of_a_wrong_type_leaves_a_record_that_can_be_read(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    with pytest.raises(WrongUse, match="value of type"):
        make()

    @tool(kind="completion")
    def hand_in(report: str) -> Any:
        """Hand it in."""
        return make()

    path = tmp_path / "session.jsonl"
    outcome = await Engine(Scripted([call("hand_in", report="r")], "text"), tools=[hand_in]).run("go", record=path)
    assert (outcome.status, "value of type" in outcome.detail) == ("failed", True)
    record = read_record(path)
    assert record.damaged == []
    assert record.runs[0].finished is not None


# ---- disks


@pytest.mark.parametrize("size", [0, 150, 1000, 4000])
async def test_D3_a_disk_that_is_full_from_the_start_is_told_before_the_first_request(
    size: int, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    async with ChatServer(served("finish_task", summary="Done.")) as server:
        words = ("run", "x", "--model", "m", "--api-base", server.url, "--record", path, "--quiet")
        async with started(*words, largest_file=size) as process:
            done = await ended(process)
        assert server.requests == []
    assert (done.code, done.out) == (2, "")
    assert one_line(done.err)
    assert f"cannot write the record {path}" in done.err
    assert not path.exists()  # so that the same command works once there is room


async def test_D3_a_record_that_misses_its_end_is_named_even_if_quiet_is_wanted(tmp_path: Path) -> None:
    path, whole = tmp_path / "session.jsonl", tmp_path / "whole.jsonl"
    async with ChatServer(*[served("finish_task", summary="Done.")] * 2) as server:
        words = ("run", "x", "--model", "m", "--api-base", server.url, "--quiet", "--record")
        await endstop(*words, whole)
        size = len(whole.read_bytes()) - len(whole.read_bytes().splitlines()[-1]) // 2
        done = await asyncio.to_thread(
            subprocess.run,
            [COMMAND, *words, str(path)],
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
            timeout=PATIENCE,
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "the record ends before the end of its run" in done.stderr
    assert str(path) in done.stderr
    assert read_record(path).runs[0].finished is None
