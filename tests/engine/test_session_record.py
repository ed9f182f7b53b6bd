"""`Engine.resume`, and what a session refuses to append to."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, WrongUse, read_record, tool
from endstop.providers import Scripted, call
from endstop.tools import ask_user


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look(x: int) -> str:
    """Look."""
    return str(x)


def engine(*responses: Any, **options: Any) -> Engine[Any, Any]:
    return Engine(Scripted(*responses), tools=[pay, look, ask_user], **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.jsonl"


# ---- going on


RESTARTED = """
import asyncio, sys
from endstop import Engine, tool
from endstop.providers import Scripted

@tool(approval=True)
def pay(amount: int) -> str:
    "Pay."
    print("paid", amount)
    return f"paid {amount}"

async def main():
    model = Scripted("All done.")
    outcome = await Engine(model, tools=[pay]).resume(sys.argv[1]).approve("c1")
    print(outcome.answer, model.requests[0].messages[-1].content)

asyncio.run(main())
"""


async def test_an_approval_is_given_in_another_process(path: Path) -> None:
    asking = Engine(Scripted([call("pay", amount=5, id="c1")]), tools=[pay])
    assert (await asking.run("x", record=path)).status == "awaiting_input"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", RESTARTED, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split("\n") == ["paid 5", "All done. paid 5", ""], done.stderr
    assert len({run.started.session_id for run in read_record(path).runs}) == 1


async def test_a_finished_session_takes_the_next_prompt(path: Path) -> None:
    first = await engine("Hello Ann.").run("I am Ann.", record=str(path))
    model = Scripted("Ann.", "Again.")
    session = Engine(model).resume(path, owner="jane", metadata={"plan": "free"})
    assert (session.id, session.owner, session.metadata) == (first.session_id, "jane", {"plan": "free"})
    await session.run("Who am I?")
    await session.run("And now?")
    assert [m.text for m in model.requests[1].messages[1:]] == [
        "I am Ann.",
        "Hello Ann.",
        "Who am I?",
        "Ann.",
        "And now?",
    ]
    assert len(read_record(path).runs) == 3


async def test_an_open_question_is_answered_after_a_restart(path: Path) -> None:
    await engine([call("ask_user", question="Which?", id="q")]).run("x", record=path)
    session = engine("That one.").resume(path)
    assert [question.call_id for question in session.questions] == ["q"]
    assert (await session.answer("q", "the left")).answer == "That one."


async def test_an_interrupted_run_goes_on(path: Path) -> None:
    await engine([call("look", x=1)], "Seen.").run("x", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b"STEP_FINISHED" in line) + 1
    path.write_bytes(b"".join(lines[:cut]))
    session = engine("Seen again.").resume(path)
    assert session.interrupted
    async with session.start_resumed() as run:
        assert "".join([piece async for piece in run.text()]).endswith("Seen again.")
        assert (await run.wait()).answer == "Seen again."
    assert len(read_record(path).runs) == 1


async def test_a_prompt_may_pass_over_an_interrupted_run(path: Path) -> None:
    await engine([call("look", x=1)], "Seen.").run("x", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # its last line is torn
    assert (await engine("Next.").resume(path).run("Something else")).answer == "Next."
    assert len(read_record(path).runs) == 2


async def test_a_fork_is_resumed_like_any_session(path: Path, tmp_path: Path) -> None:
    await engine([call("look", x=1)], "Seen.").run("x", record=path)
    at = next(event.seq for event in read_record(path).runs[0].events if type(event).__name__ == "DecisionMade")
    fork = engine("Forked.").resume(path).fork(at=at, record=tmp_path / "fork.jsonl")
    async with fork.start_fork() as run:
        await run.wait()
    session = engine("On.").resume(tmp_path / "fork.jsonl")
    assert session.id == fork.id
    assert (await session.run("more")).answer == "On."


# ---- what cannot be resumed


async def test_what_is_no_session_is_refused(path: Path, tmp_path: Path) -> None:
    empty, text, folder = tmp_path / "empty.jsonl", tmp_path / "a.txt", tmp_path / "folder"
    empty.touch()
    text.write_text("hello\n")
    folder.mkdir()
    for wrong in (tmp_path / "missing.jsonl", empty, text, folder, None, 3, read_record):
        with pytest.raises(WrongUse):
            engine().resume(wrong)  # type: ignore[arg-type]
    assert text.read_text() == "hello\n"
    assert not (tmp_path / "missing.jsonl").exists()


async def test_a_record_that_is_being_written_is_refused(path: Path) -> None:
    async with engine([call("look", x=1)], "Seen.").start("x", record=path):
        with pytest.raises(WrongUse, match="is being written by another run"):
            engine().resume(path)
        with pytest.raises(WrongUse, match="holds one session"):
            await engine("y").run("y", record=path)
    engine().resume(path)


async def test_a_damaged_record_is_refused_with_its_line(path: Path) -> None:
    await engine([call("look", x=1)], "Seen.").run("x", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b'{"broken\n', *lines[6:]]))
    with pytest.raises(WrongUse, match="line 6"):
        engine().resume(path)


async def test_a_compressed_record_is_refused(path: Path) -> None:
    await engine("Hello.").run("x", record=path)
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(WrongUse, match="compressed and cannot be appended to"):
        engine().resume(packed)


async def test_the_record_of_a_subagent_names_its_caller(path: Path) -> None:
    helper = engine("Found.").as_tool("helper", "Help.")
    caller = await Engine(Scripted([call("helper", prompt="find")], "Done."), tools=[helper]).run("x", record=path)
    (below,) = [file for file in path.parent.rglob("*.jsonl") if file != path]
    with pytest.raises(WrongUse, match=f"sub-agent.* session {caller.session_id}"):
        engine().resume(below)


async def test_a_file_into_which_an_older_version_wrote_two_sessions_is_refused(path: Path, tmp_path: Path) -> None:
    await engine("Hello Ann.").run("I am Ann.", record=path)
    await engine("Hello Bob.").run("I am Bob.", record=tmp_path / "bob.jsonl")
    with path.open("ab") as file:
        file.write((tmp_path / "bob.jsonl").read_bytes().partition(b"\n")[2])
    with pytest.raises(WrongUse, match="runs of several sessions"):
        engine().resume(path)


# ---- one session, one record


async def test_a_second_session_on_a_record_is_told_its_session_and_how_to_go_on(path: Path) -> None:
    first = await engine("Hello Ann.").run("I am Ann.", record=path)
    before = path.read_bytes()
    with pytest.raises(WrongUse) as told:
        await engine("Hello Bob.").run("I am Bob.", record=path)
    assert all(part in str(told.value) for part in (str(path), first.session_id, "engine.resume("))
    assert path.read_bytes() == before


async def test_a_session_of_the_same_id_that_has_not_read_the_record_is_told(path: Path) -> None:
    await engine("Hello Ann.").session("s", record=path).run("I am Ann.")
    with pytest.raises(WrongUse, match=r"this session has not read it: go on in it with `engine\.resume"):
        await engine("Hello?").session("s", record=path).run("Who am I?")
    assert len(read_record(path).runs) == 1


async def test_of_two_sessions_that_resumed_one_record_the_later_one_is_told(path: Path) -> None:
    await engine("Hello Ann.").run("I am Ann.", record=path)
    one, other = engine("One.").resume(path), engine("Other.", "Other.").resume(path)
    assert (await one.run("a")).answer == "One."
    with pytest.raises(WrongUse, match="holds more of its session"):
        await other.run("b")
    assert (await engine("Third.").resume(path).run("c")).answer == "Third."
    assert len(read_record(path).runs) == 3


async def test_two_sessions_that_begin_at_once_on_a_new_record_do_not_mix(path: Path) -> None:
    ends = await asyncio.gather(
        *(engine([call("look", x=1)], "Seen.").run(str(n), record=path) for n in range(3)), return_exceptions=True
    )
    assert [type(end).__name__ for end in ends].count("WrongUse") == 2
    assert len(read_record(path).runs) == 1


async def test_a_session_may_go_on_in_another_file(path: Path, tmp_path: Path) -> None:
    session = engine("One.", "Two.").session(record=path)
    await session.run("a")
    session.record = tmp_path / "other.jsonl"
    assert (await session.run("b")).answer == "Two."


async def test_many_runs_are_given_a_folder(path: Path) -> None:
    with pytest.raises(WrongUse, match="name a folder for them"):
        engine("a", "b").run_many(["x", "y"], record=path)
    with pytest.raises(WrongUse, match="name a folder for them"):
        await engine().race("x", [Scripted("a"), Scripted("b")], record=path)
    assert not path.exists()
