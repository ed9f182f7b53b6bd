"""Going on from a record with the console command: an answer, a process that was killed, a further prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from endstop import SessionRecord, read_record
from endstop.decision.events import RunResumed, ToolCallResult

from ...console import PATIENCE, Done, ended, endstop, started
from ...servers import STALL, ChatServer, call

SUMMARY = "The port in config.yaml is now 8080."
QUESTION = call("ask_user", id="q1", question="Which file?")
TWO_QUESTIONS = [
    call("ask_user", id="q1", index=0, question="Which file?"),
    call("ask_user", id="q2", index=1, question="Which port?"),
]


def at(server: ChatServer) -> tuple[str, ...]:
    return ("--model", "scripted", "--api-base", server.url)


async def resume(server: ChatServer, record: Path, *arguments: object) -> Done:
    return await endstop("run", "--resume", record, "--api-base", server.url, *arguments)


async def recorded(folder: Path, *responses: Any, arguments: tuple[object, ...] = ()) -> Path:
    """The record of a run that was played these responses."""
    record = folder / "r.jsonl"
    async with ChatServer(*responses) as server:
        await endstop("run", "Set the port to 8080", *at(server), "--record", record, *arguments)
    return record


# ---- answers


async def test_B6_a_question_is_answered_in_another_process_and_the_record_grows(tmp_path: Path) -> None:
    async with ChatServer([QUESTION]) as server:
        asked = await endstop(
            "run", "Set it", *at(server), "--record", tmp_path / "r.jsonl", "--max-steps", 7, "--seed", 3
        )
    assert asked.code == 5
    assert f'endstop run --resume {tmp_path}/r.jsonl --answer "..." --api-base {server.url}' in asked.err
    before = (tmp_path / "r.jsonl").read_bytes()
    async with ChatServer([call("finish_task", summary=SUMMARY)]) as server:
        done = await resume(server, tmp_path / "r.jsonl", "--answer", "config.yaml", "--json")
    assert (done.code, done.json["status"], done.json["answer"]) == (0, "completed", SUMMARY)
    assert done.json["limits"]["steps"] == {"used": 2, "allowed": 7, "soft": False}
    request = server.requests[0]
    assert (request["model"], request["seed"]) == ("scripted", 3)
    assert request["messages"][-1] == {"role": "tool", "tool_call_id": "q1", "content": "config.yaml"}
    assert [tool["function"]["name"] for tool in request["tools"]] == ["finish_task", "ask_user"]
    assert "the question: Which file?" in done.err
    assert "your answer: config.yaml" in done.err
    assert (tmp_path / "r.jsonl").read_bytes().startswith(before)
    first, second = read_record(tmp_path / "r.jsonl").runs
    assert second.started.continues == first.started.run_id
    assert (await endstop("replay", tmp_path / "r.jsonl")).code == 0


async def test_several_questions_are_answered_by_name_together_or_one_by_one(tmp_path: Path) -> None:
    for folder in ("together", "apart"):
        (tmp_path / folder).mkdir()
    together = await recorded(tmp_path / "together", TWO_QUESTIONS)
    async with ChatServer([call("finish_task", summary=SUMMARY)]) as server:
        done = await resume(server, together, "--answer", "q2=8080", "--answer", "q1=a=b.yaml")
    assert (done.code, done.out) == (0, SUMMARY + "\n")
    assert [m["content"] for m in server.requests[0]["messages"][-2:]] == ["a=b.yaml", "8080"]

    apart = await recorded(tmp_path / "apart", TWO_QUESTIONS)
    async with ChatServer([call("finish_task", summary=SUMMARY)]) as server:
        bare = await resume(server, apart, "--answer", "8080")
        first = await resume(server, apart, "--answer", "q2=8080")
        assert server.requests == []
        second = await resume(server, apart, "--answer", "config.yaml")
    assert [done.code for done in (bare, first, second)] == [2, 5, 0]
    assert "several open questions" in bare.err
    assert "q2: Which port?" in bare.err
    assert "Which file?" in first.err


CONFIRM = "from endstop.tools import task_done"


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("No, restart it too", 3)])
async def test_a_completion_is_confirmed_or_handed_back_by_the_user(tmp_path: Path, answer: str, code: int) -> None:
    (tmp_path / "tools.py").write_text(CONFIRM)
    tools = ("--tools", tmp_path / "tools.py")
    asking = call("task_done", summary=SUMMARY, requires_user_confirmation=True, pending_issues=["restart it"])
    async with ChatServer([asking]) as server:
        arguments = (*at(server), *tools, "--record", tmp_path / "r.jsonl", "--max-steps", 2, "--no-closing")
        asked = await endstop("run", "Set it", *arguments)
    assert asked.code == 5
    assert [
        word for word in (SUMMARY, "Do you confirm", "still open: restart it", '"yes"') if word not in asked.err
    ] == []
    async with ChatServer([call("nothing")]) as server:
        done = await resume(server, tmp_path / "r.jsonl", *tools, "--answer", answer)
    assert (done.code, done.out) == (code, SUMMARY + "\n" if code == 0 else "")
    assert ("not accepted as complete: The user does not confirm it" in done.err) == bool(code)


# ---- a process that was killed

TOOLS = """
from endstop import tool

@tool
def add_line(path: str) -> str:
    "Add a line."
    with open(path, "a") as file:
        file.write("line\\n")
    return "added"
"""


async def killed(folder: Path) -> Path:
    """The record of a process that was killed in its second step, after its tool had run once."""
    (folder / "tools.py").write_text(TOOLS)
    record = folder / "r.jsonl"
    add = call("add_line", id="a1", path=str(folder / "out"))
    async with ChatServer([add], ["Half of", STALL]) as server:
        arguments = (*at(server), "--tools", folder / "tools.py", "--record", record)
        async with started("run", "Add a line", *arguments) as process:
            async with asyncio.timeout(PATIENCE):
                await server.stalled.wait()
            process.kill()
            await ended(process)
    return record


async def test_a_killed_run_goes_on_without_repeating_what_it_did(tmp_path: Path) -> None:
    record = await killed(tmp_path)
    run_id = read_record(record).runs[0].started.run_id
    tools = ("--tools", tmp_path / "tools.py")
    told = await endstop("replay", record)
    assert f"endstop run --resume {record}" in told.out
    async with ChatServer([call("finish_task", summary=SUMMARY)]) as server:
        wrong = [
            await resume(server, record, *tools, "Go on."),
            await resume(server, record, *tools, "--max-steps", 40),
            await resume(server, record),
            await resume(server, record, *tools, "--no-presets"),
        ]
        assert server.requests == []
        done = await resume(server, record, *tools, "--json")
    assert [each.code for each in wrong] == [2, 2, 2, 2]
    assert "was killed" in wrong[0].err
    assert "the policy that it began with" in wrong[1].err
    assert "add_line (give --tools FILE again)" in wrong[2].err
    assert "(leave out --no-presets)" in wrong[3].err
    assert (done.code, done.json["run_id"], done.json["steps"]) == (0, run_id, 2)
    assert (tmp_path / "out").read_text() == "line\n"
    assert server.requests[0]["messages"][-1] == {"role": "tool", "tool_call_id": "a1", "content": "added"}
    assert "prompt: Add a line" in done.err
    assert "goes on where its process was killed" in done.err
    assert "step 2 of 30" in done.err
    assert "not shown" not in done.err
    (run,) = whole(record).runs
    assert sum(isinstance(event, RunResumed) for event in run.events) == 1
    assert sum(isinstance(event, ToolCallResult) and event.name == "add_line" for event in run.events) == 1
    assert run.finished is not None


def whole(record: Path) -> SessionRecord:
    read = read_record(record)
    for run in read.runs:
        assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    return read


HALFWAY = """
import sys, time
from pathlib import Path
from endstop import this_call, tool

HERE = Path(__file__).parent

def note(what):
    with open(HERE / "done", "a") as file:
        file.write(f"{what} {this_call().key.partition('/')[2]} {this_call().again}\\n")

def hang(what):
    print(what, file=sys.stderr, flush=True)
    time.sleep(600)

@tool
def add(path: str) -> str:
    "Add a line."
    note("add")
    return "added"

@tool(reads=True)
def look(path: str) -> str:
    "Look; the first time for ever."
    note("look")
    if not (HERE / "looked").exists():
        (HERE / "looked").touch()
        hang("LOOKING")
    return "seen"

@tool
def hold(path: str) -> str:
    "Hold on for ever."
    note("hold")
    hang("HOLDING")
    return "never"
"""


async def killed_at(word: str, *arguments: object) -> None:
    """Kill a command once its tool says this."""
    async with started(*arguments) as process:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while word not in (line := (await process.stderr.readline()).decode()):
                assert line, f"it ended by itself with {await process.wait()}"
        process.kill()
        await process.wait()


async def test_a_run_killed_in_mid_tool_goes_on_within_the_step(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(HALFWAY)
    record, tools = tmp_path / "r.jsonl", ("--tools", tmp_path / "tools.py")
    four = [
        call("add", id="a1", index=0, path="a"),
        call("look", id="l1", index=1, path="b"),
        call("hold", id="h1", index=2, path="c"),
        call("add", id="a2", index=3, path="d"),
    ]
    async with ChatServer(four, [call("finish_task", summary=SUMMARY)]) as server:
        await killed_at("LOOKING", "run", "Go", *at(server), *tools, "--record", record)
        await killed_at("HOLDING", "run", "--resume", record, "--api-base", server.url, *tools)
        done = await resume(server, record, *tools)
        assert len(server.requests) == 2, "the response of the killed step is not requested again"
    assert (done.code, done.out) == (0, SUMMARY + "\n")
    assert (tmp_path / "done").read_text().splitlines() == [
        "add 1/a1 False",
        "look 1/l1 False",
        "look 1/l1 True",
        "hold 1/h1 False",
        "add 1/a2 False",
    ]
    (run,) = whole(record).runs
    results = [event for event in run.events if isinstance(event, ToolCallResult)]
    assert {r.call_id: r.status for r in results if r.name != "finish_task"} == {
        "a1": "ok",
        "l1": "ok",
        "h1": "unknown",
        "a2": "ok",
    }
    assert (await endstop("replay", record)).code == 0


# ---- a further prompt


async def test_a_new_prompt_is_a_further_run_with_what_is_given_anew(tmp_path: Path) -> None:
    record = await recorded(tmp_path, "Hello.", arguments=("--policy", "chat", "--temperature", 0.5, "--seed", 3))
    async with ChatServer([call("finish_task", summary=SUMMARY)]) as server:
        anew = ("--policy", "strict", "--seed", 4, "--model", "other", "--max-steps", 5)
        done = await resume(server, record, "And now?", *anew, "--json")
    request = server.requests[0]
    assert (done.code, done.json["limits"]["steps"]["allowed"]) == (0, 5)
    assert (request["model"], request["temperature"], request["seed"]) == ("other", 0.5, 4)
    assert [tool["function"]["name"] for tool in request["tools"]] == ["ask_user", "finish_task"]
    assert [m["role"] for m in request["messages"]] == ["system", "user", "assistant", "user"]
    assert [run.started.policy.name for run in whole(record).runs] == ["chat", "strict"]
    assert (await endstop("replay", record)).code == 0


# ---- wrong use

WRONG = {
    "no record": (["--resume", "none.jsonl"], "none.jsonl: No such file"),
    "a question without an answer": (["--resume", "asked.jsonl"], "q1: Which file?"),
    "an answer beside a prompt": (["--resume", "asked.jsonl", "--answer", "a", "Hi"], "give one of them"),
    "an empty answer": (["--resume", "asked.jsonl", "--answer", " "], "--answer is empty"),
    "the same answer twice": (["--resume", "asked.jsonl", "--answer", "a", "--answer", "b"], "given twice for q1"),
    "an answer to nothing": (["--resume", "done.jsonl", "--answer", "a"], "no question is open"),
    "an answer without a record": (["Hi", "--answer", "a"], "--resume RECORD"),
    "nothing to go on with": (["--resume", "done.jsonl"], "has ended (text_final): write a PROMPT"),
    "another record": (["--resume", "done.jsonl", "Hi", "--record", "x"], "leave out --record"),
    "no presets": (["--resume", "done.jsonl", "Hi", "--no-presets"], "finish_task, ask_user"),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")

    async def make() -> None:
        for name, response in (("asked", [QUESTION]), ("done", "Hello.")):
            (await recorded(folder, response)).rename(folder / f"{name}.jsonl")

    asyncio.run(make())
    return folder


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_use_of_a_record_makes_no_request_and_leaves_it_alone(case: str, records: Path) -> None:
    arguments, word = WRONG[case]
    before = {path.name: path.read_bytes() for path in records.iterdir()}
    async with ChatServer("Hello.") as server:
        done = await endstop("run", *at(server), *arguments, cwd=records)
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert word in done.err
    assert {path.name: path.read_bytes() for path in records.iterdir()} == before


async def test_workspace_tools_are_brought_again(tmp_path: Path) -> None:
    record = await recorded(tmp_path, "Hello.", arguments=("--workspace", tmp_path, "--allow-run"))
    async with ChatServer("Hello again.") as server:
        missing = await resume(server, record, "Hi")
        done = await resume(server, record, "Hi", "--workspace", tmp_path, "--allow-run")
    assert (missing.code, done.code) == (2, 0)
    assert "run_command (give --workspace DIR --allow-run again)" in missing.err


TYPED = """
from dataclasses import dataclass
from endstop import RunContext, tool

@dataclass
class Port:
    "A port."
    number: int

@dataclass
class Deps:
    host: str

made = []

def deps(ctx: RunContext[None]) -> Deps:
    made.append(ctx.run_id)
    return Deps("localhost")

@tool(reads=True)
async def host(ctx: RunContext[Deps]) -> str:
    "The host."
    return f"{ctx.deps.host} {len(made)}"
"""


async def test_deps_and_the_output_type_come_from_a_file_also_of_a_resumed_run(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    named = ("--deps", tmp_path / "typed.py:deps", "--output-type", tmp_path / "typed.py:Port")
    arguments = ("--tools", tmp_path / "typed.py", *named)
    async with ChatServer([call("host", id="h1")], [call("ask_user", id="q1", question="Which port?")]) as server:
        asked = await endstop("run", "Hi", *at(server), *arguments, "--record", tmp_path / "r.jsonl")
    assert asked.code == 5, asked.err
    (result, *_) = [e for e in read_record(tmp_path / "r.jsonl").runs[0].events if isinstance(e, ToolCallResult)]
    assert result.content == "localhost 1", "the file is one module, whichever option names it"
    async with ChatServer([call("final_result", number=8080)]) as server:
        without = await resume(server, tmp_path / "r.jsonl", "--answer", "8080", *arguments[:4])
        done = await resume(server, tmp_path / "r.jsonl", "--answer", "8080", *arguments, "--json")
    assert without.code == 2
    assert "final_result (give --output-type FILE:NAME again)" in without.err
    assert (done.code, done.json["output"], done.json["answer"]) == (0, {"number": 8080}, '{"number":8080}')


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--deps", "typed.py", "write FILE:NAME"),
        ("--deps", "typed.py:nothing", "there is no 'nothing' in typed.py"),
        ("--deps", "typed.py:Port", "deps: Port is a class"),
        ("--output-type", "nowhere.py:Port", "no such file"),
        ("--output-type", "typed.py:host", "output is the function host: write the type"),
    ],
)
async def test_a_name_that_is_wrong_is_refused(tmp_path: Path, option: str, value: str, says: str) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    done = await endstop(
        "run", "Hi", "--model", "m", "--api-base", "http://127.0.0.1:9/v1", option, value, cwd=tmp_path
    )
    assert done.code == 2
    assert says in done.err
