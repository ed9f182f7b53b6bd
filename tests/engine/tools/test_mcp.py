"""Tools of real MCP servers: one that is a process over stdio, one over HTTP on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endstop import Engine, Runtime, Stdio, Tool, mcp_tools
from endstop.decision import Image, ToolResult, WrongUse
from endstop.decision.events import ToolCallResult, ToolProgress
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools import mcp as connections
from endstop.tools.mcp import McpConnection, result_of
from endstop.tools.user_functions import UserFunctionError
from mcp import Client, MCPError

from ...captured_logs import capture_logs
from ...console import environment
from ...forked import Forks
from ...ports import held_port

SERVER = Path(__file__).with_name("mcp_server.py")
FORK_CLIENT = Path(__file__).parents[2] / "fork_client.py"
PATIENCE = 60.0


@cache
def forks() -> Forks:
    """A process that has mcp imported, which takes a second of CPU. It ends with the tests."""
    return Forks(("mcp.server.mcpserver", "mcp.server.stdio", "uvicorn"), environment(), f"mcp-{os.getpid()}")


def forked_server() -> list[str]:
    """The command of a server in a fork of that process; a port makes it one over HTTP."""
    return [sys.executable, "-IS", str(FORK_CLIENT), forks().name, str(SERVER)]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """What the server of a test says of itself."""
    path = tmp_path / "notes"
    path.touch()
    return path


def stdio(notes: Path, command: list[str] | None = None) -> Stdio:
    return Stdio(*(command or forked_server()), env={"NOTES": str(notes)})


@contextmanager
def serving(port: int, notes: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The server over HTTP, from when it answers until the end of the block."""
    process = subprocess.Popen(
        [*forked_server(), str(port)],
        env={**os.environ, "NOTES": str(notes)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            with socket.socket() as probe:
                probe.settimeout(0.1)
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server ended"
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    notes = tmp_path_factory.mktemp("mcp") / "notes"
    notes.touch()
    with held_port() as port, serving(port, notes):
        yield SimpleNamespace(url=f"http://127.0.0.1:{port}/mcp", notes=notes)


@asynccontextmanager
async def named(server: Stdio | str, **options: Any) -> AsyncIterator[dict[str, Tool]]:
    async with mcp_tools(server, **options) as tools:
        yield {tool.name: tool for tool in tools}


async def noted(notes: Path, line: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while line not in notes.read_text(encoding="utf-8").splitlines():
            await asyncio.sleep(0.01)


def results(run: Any) -> dict[str, ToolResult]:
    return {m.name: m for m in run.context.transcript.messages if isinstance(m, ToolResult)}


async def test_what_the_server_notifies_of_a_call_is_its_progress_and_not_its_result(notes: Path) -> None:
    async with mcp_tools(stdio(notes), only=["bake"]) as tools:
        engine = Engine(Scripted([call("bake", loaves=2, id="a"), call("bake", loaves=1, id="b")], "done"), tools=tools)
        async with engine.start("go") as run:
            events = [event async for event in run]
    told = [(e.call_id, e.text, e.progress, e.total) for e in events if isinstance(e, ToolProgress)]
    assert told == [("a", "loaf 1", 1, 2), ("a", "loaf 2", 2, 2), ("b", "loaf 1", 1, 1)]
    assert [e.content for e in events if isinstance(e, ToolCallResult)] == ["2 loaves", "1 loaves"]


async def test_a_run_uses_the_tools_of_a_server_over_stdio_and_ends_by_its_completion(notes: Path) -> None:
    provider = Scripted(
        [call("add", a=20, b=22), call("write", text="42"), call("fail")],
        [call("submit", summary="It is 42.")],
    )
    started_anew = stdio(notes, [sys.executable, str(SERVER)])
    async with named(started_anew, kinds={"submit": "completion"}) as tools:
        assert {name for name, tool in tools.items() if tool.spec.reads} == {"add", "hang", "meet"}
        engine = Engine(provider, tools=list(tools.values()))
        async with engine.start("Add.") as run:
            outcome = await run.wait()
        told = results(run)
    assert (outcome.stop_reason, outcome.answer) == ("completed", "handed in: It is 42.")
    assert (told["add"].content, told["write"].content) == ("42", "written")
    assert told["fail"].status == "error"
    assert notes.read_text(encoding="utf-8").splitlines() == ["started", "wrote 42"]
    schema = tools["add"].spec.parameters
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"]["description"] == "What is added."
    assert tools["add"].spec.description == "Add two integers."
    assert "finish_task" not in engine.config.toolbox, "the server's completion stands for ours"


def needs(name: str, arguments: Any) -> bool:
    return name == "write" and arguments["text"] != "safe"


async def needs_later(name: str, arguments: Any) -> bool:
    return needs(name, arguments)


@pytest.mark.parametrize(
    ("approval", "asked"),
    [
        (True, {"add", "write", "append"}),
        (False, set()),
        (["write"], {"write"}),
        ("destructive", {"write"}),
        ([], set()),
    ],
)
async def test_which_tools_need_approval(http: SimpleNamespace, approval: Any, asked: set[str]) -> None:
    only, kinds = ["add", "write", "append", "submit"], {"submit": "completion"}
    async with named(http.url, approval=approval, only=only, kinds=kinds, prefix="n_") as tools:
        assert {name for name, tool in tools.items() if tool.spec.approval} == {f"n_{name}" for name in asked}
        assert tools["n_submit"].kind == "completion"


async def test_who_does_not_believe_the_server_names_what_reads(http: SimpleNamespace) -> None:
    async with named(http.url, approval="destructive", reads=[], only=["add", "append"]) as tools:
        assert [name for name, tool in tools.items() if tool.spec.approval] == ["add"]


@pytest.mark.parametrize("function", [needs, needs_later])
async def test_a_function_of_name_and_arguments_says_which_calls_wait(
    http: SimpleNamespace, function: Any, tmp_path: Path
) -> None:
    def written() -> list[str]:
        return http.notes.read_text(encoding="utf-8").splitlines()[before:]

    before = len(http.notes.read_text(encoding="utf-8").splitlines())
    calls = [call("n_write", text="safe", id="a"), call("n_write", text="x", id="b"), call("n_add", a=1, id="c")]
    async with mcp_tools(http.url, prefix="n_", only=["write", "add"], approval=function) as tools:
        session = Engine(Scripted(calls, "done"), tools=tools).session(record=tmp_path / "r.jsonl")
        paused = await session.run("go")
        (question,) = paused.questions
        assert (question.call_id, question.tool, question.arguments) == ("b", "n_write", {"text": "x"})
        assert written() == ["wrote safe"]
        with pytest.raises(WrongUse, match="text"):
            await session.approve("b", {"txt": "y"})
        outcome = await session.approve("b", {"text": "y"})
    assert outcome.status == "completed"
    assert written() == ["wrote safe", "wrote y"]
    assert f":{function.__name__}" in (tmp_path / "r.jsonl").read_text(encoding="utf-8")
    assert (await replay(str(tmp_path / "r.jsonl"))).same


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"approval": "write"}, r"approval=\['write'\]"),
        ({"approval": ["wriet"]}, r"approval names 'wriet', which the server does not have .did you mean 'write'"),
        ({"approval": 7}, "approval is 7"),
        ({"approval": None}, "approval is None"),
        ({"approval": ["submit"], "kinds": {"submit": "completion"}}, "cannot have an approval"),
    ],
)
async def test_an_approval_that_means_nothing_is_refused(http: SimpleNamespace, options: Any, said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        async with mcp_tools(http.url, **options):
            pass


async def test_A1_a_servers_completion_tool_without_a_kind_is_logged_and_one_with_the_mark_completes(
    http: SimpleNamespace,
) -> None:
    async with mcp_tools(http.url, prefix="n_", only=["task_done", "hand_over"]) as tools:
        kinds = {made.name: made.kind for made in tools}
        with capture_logs() as logs:
            engine = Engine(Scripted([call("n_hand_over", summary="It is done.")]), tools=tools)
        outcome = await engine.run("go")
    assert kinds == {"n_task_done": "ordinary", "n_hand_over": "completion"}
    (said,) = [entry["event"] for entry in logs]
    assert "write kinds={'task_done': 'completion'}, or 'ordinary' if it does not" in said
    assert (outcome.status, outcome.answer) == ("completed", "It is done.")
    with capture_logs() as logs:
        async with mcp_tools(http.url, only=["task_done"], kinds={"task_done": "ordinary"}) as tools:
            Engine(Scripted(), tools=tools)
    assert logs == []


async def test_a_server_over_http_gets_our_headers(http: SimpleNamespace) -> None:
    async with named(http.url, headers={"x-who": "endstop"}) as tools:
        assert await tools["header"].run({}) == "endstop"
    async with named(http.url) as tools:
        assert await tools["header"].run({}) == "nobody"


async def test_every_kind_of_content_becomes_text_or_pictures(http: SimpleNamespace) -> None:
    async with named(http.url) as tools:
        everything = await tools["everything"].run({})
        assert await tools["structured"].run({}) == '{"sum":3}'
    pictures = [part for part in everything if isinstance(part, Image)]
    assert [(picture.media_type, picture.data[:4]) for picture in pictures] == [("image/png", b"\x89PNG")] * 2
    assert [part for part in everything if isinstance(part, str)] == [
        "first",
        "[audio: audio/wav, 3 bytes]",
        "[resource file:///a.txt (a): the first]",
        "[resource file:///b.txt]\ninside b",
        "[resource file:///c.png]",
        "[resource file:///d.bin: application/octet-stream, 3 bytes]",
    ]


async def test_names_are_made_fit_for_providers_and_arguments_may_be_called_as_they_like(
    http: SimpleNamespace,
) -> None:
    async with named(http.url, prefix="t_", only=["odd/name.x", "add"], polls=["add"], reads=[]) as tools:
        assert set(tools) == {"t_odd_name_x", "t_add"}
        assert await tools["t_odd_name_x"].run({"function": "f"}) == "f"
        assert (tools["t_add"].spec.polls, tools["t_add"].spec.reads) == (True, False)


async def test_many_runs_share_one_connection_and_wait_for_each_other_in_it(http: SimpleNamespace) -> None:
    def script(request: Any) -> Any:
        return "Done." if len(request.messages) > 2 else call("meet", name=request.messages[-1].text)

    async with mcp_tools(http.url, only=["meet"]) as tools:
        engine = Engine(Scripted(script), tools=tools, system="")
        sessions = [engine.session() for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(session.run(f"m{n}") for n, session in enumerate(sessions)))
    told = [m.content for s in sessions for m in s.transcript.messages if isinstance(m, ToolResult)]
    assert told == ["m0 met 3", "m1 met 3", "m2 met 3"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_cancelling_a_run_cancels_its_request_and_leaves_the_connection(
    transport: str, notes: Path, http: SimpleNamespace
) -> None:
    server, heard = (stdio(notes), notes) if transport == "stdio" else (http.url, http.notes)
    async with named(server) as tools:
        engine = Engine(Scripted([call("hang", name=transport)]), tools=[tools["hang"]])
        async with engine.start("Hang.") as run:
            await noted(heard, f"{transport} began")
            run.cancel("disconnect")
            outcome = await run.wait()
        assert outcome.status == "cancelled"
        await noted(heard, f"{transport} cancelled")
        assert await tools["add"].run({"a": 1}) == "2"
    assert heard.read_text(encoding="utf-8").count("started") == 1


async def test_a_call_that_takes_too_long_is_answered_and_cancelled_at_the_server(http: SimpleNamespace) -> None:
    provider, clock = Scripted([call("hang", name="late")], "I give up."), FakeClock()
    async with mcp_tools(http.url, only=["hang"], timeout=0.5) as tools:
        async with Engine(provider, tools=tools, runtime=Runtime(clock=clock)).start("Hang.") as run:
            await noted(http.notes, "late began")
            await clock.advance(0.5)
            await run.wait()
        await noted(http.notes, "late cancelled")
    assert results(run)["hang"].content == "hang was stopped after 0.5 seconds."


async def test_a_server_that_dies_is_an_error_of_its_call_and_is_started_again_by_the_next(notes: Path) -> None:
    provider = Scripted([call("die")], [call("add", a=1)], "Done.")
    async with mcp_tools(stdio(notes), only=["die", "add"]) as tools:
        async with Engine(provider, tools=tools).start("Die.") as run:
            outcome = await run.wait()
        told = results(run)
    assert outcome.status == "completed"
    assert told["die"].status == "error"
    assert "whether this call took effect is not known" in told["die"].content
    assert "The next call connects to it again." in told["die"].content
    assert (told["add"].status, told["add"].content) == ("ok", "2")
    assert notes.read_text(encoding="utf-8").splitlines() == ["started", "started"]


async def test_a_server_over_http_that_goes_away_and_comes_back(notes: Path) -> None:
    with held_port() as port, serving(port, notes) as process:
        async with named(f"http://127.0.0.1:{port}/mcp") as tools:
            assert await tools["add"].run({"a": 1}) == "2"
            process.terminate()
            process.wait()
            for _ in range(2):
                with pytest.raises(UserFunctionError, match=r"the MCP server http://127\.0\.0\.1"):
                    await tools["add"].run({"a": 1})
            with serving(port, notes):
                assert await tools["add"].run({"a": 2}) == "3"


@pytest.mark.parametrize("forgets", [1, 2])
async def test_a_session_that_the_server_has_forgotten_is_begun_anew_once(
    forgets: int, http: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = Client.call_tool

    async def forgetful(self: Client, *args: Any, **named: Any) -> Any:
        asked.append(self)
        if len(asked) <= forgets:
            raise MCPError(-32600, "Session not found")
        return await real(self, *args, **named)

    monkeypatch.setattr(Client, "call_tool", forgetful)
    async with named(http.url) as tools:
        if forgets == 1:
            assert await tools["add"].run({"a": 1}) == "2"
        else:
            with pytest.raises(UserFunctionError, match="The tool did not run"):
                await tools["add"].run({"a": 1})
    assert len(set(map(id, asked))) == 2, "the second time in a new session"


OWNER: ContextVar[str] = ContextVar("OWNER", default="nobody")


async def test_a_connection_that_is_made_again_has_no_context_of_the_run_that_needed_it(
    http: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[str] = []
    hold, call_tool = McpConnection._hold, Client.call_tool

    async def held(self: McpConnection, *args: Any) -> None:
        owners.append(OWNER.get())
        await hold(self, *args)

    async def forgetful(self: Client, *args: Any, **named: Any) -> Any:
        if len(owners) == 1:
            raise MCPError(-32600, "Session not found")
        return await call_tool(self, *args, **named)

    monkeypatch.setattr(McpConnection, "_hold", held)
    monkeypatch.setattr(Client, "call_tool", forgetful)
    async with mcp_tools(http.url, only=["add"]) as tools:
        OWNER.set("a run")
        outcome = await Engine(Scripted([call("add", a=1)], "Done."), tools=tools).run("Add.")
    assert outcome.status == "completed"
    assert owners == ["nobody", "nobody"]


async def test_an_error_of_the_protocol_is_told_and_the_connection_stays(
    http: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(*args: Any, **named: Any) -> Any:
        raise MCPError(-32602, "Unknown tool: add")

    async with named(http.url) as tools:
        with monkeypatch.context() as changed:
            changed.setattr(Client, "call_tool", refusing)
            with pytest.raises(UserFunctionError, match=r"answered with an error: Unknown tool: add \(-32602\)"):
                await tools["add"].run({"a": 1})
        assert await tools["add"].run({"a": 1}) == "2"


async def test_leaving_the_block_ends_the_server_and_its_tools_say_so(notes: Path) -> None:
    async with named(stdio(notes)) as tools:
        pass
    with pytest.raises(UserFunctionError, match="inside `async with mcp_tools`"):
        await tools["add"].run({"a": 1})
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("endstop: ")] == []


async def test_whoever_is_cancelled_inside_the_block_still_ends_the_server(notes: Path) -> None:
    inside = asyncio.Event()

    async def main() -> None:
        async with named(stdio(notes)):
            inside.set()
            await asyncio.sleep(PATIENCE)

    task = asyncio.create_task(main())
    async with asyncio.timeout(PATIENCE):
        await inside.wait()
    pid = int(notes.with_name("notes.pid").read_text(encoding="utf-8"))
    os.kill(pid, 0)  # it is there
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_what_its_server_writes_to_stderr_can_go_to_a_file(notes: Path, tmp_path: Path) -> None:
    with (
        (tmp_path / "log").open("w", encoding="utf-8") as log,
        pytest.raises(ConnectionError, match="cannot be reached, or is not an MCP server"),
    ):
        async with mcp_tools(Stdio(sys.executable, "-c", "import sys; sys.exit('no server')", log=log)):
            pass
    assert (tmp_path / "log").read_text(encoding="utf-8") == "no server\n"


async def test_a_program_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match=r"did not respond within 0\.5 s"):
        async with mcp_tools(Stdio(sys.executable, "-c", "import sys; sys.stdin.read()")):
            pass


async def test_a_server_that_cannot_be_reached_is_named_without_what_is_secret_in_its_address() -> None:
    with (
        held_port() as port,
        pytest.raises(ConnectionError, match=f"the MCP server http://127.0.0.1:{port}/mcp") as raised,
    ):
        async with mcp_tools(f"http://user:hunter2@127.0.0.1:{port}/mcp?key=hunter2", headers={"x": "hunter2"}):
            pass
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(Stdio("x", env={"KEY": "hunter2"}))


@pytest.mark.parametrize(
    ("server", "options", "said"),
    [
        ("server.py", {}, r"neither a URL nor a program: write Stdio"),
        (Stdio("x"), {"headers": {"a": "b"}}, "headers are for a server over HTTP"),
        (Stdio("/no/such/program"), {}, "'/no/such/program' cannot be started"),
    ],
    ids=["neither", "headers", "program"],
)
async def test_what_cannot_work_is_refused(server: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        async with mcp_tools(server, **options):
            pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"kinds": {"submitt": "completion"}},
            r"kinds names 'submitt', which the server does not have \(did you mean 'submit'",
        ),
        ({"kinds": {"submit": "final"}}, "'submit' is of kind 'final': use one of ordinary"),
        ({"polls": "add"}, r"write polls=\['add'\]"),
        ({"only": ["nothing"]}, "only names 'nothing'"),
        ({"reads": ["nothing"]}, "reads names 'nothing'"),
    ],
    ids=["kinds", "kind", "polls", "only", "reads"],
)
async def test_names_that_the_server_has_not_are_refused(
    http: SimpleNamespace, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(WrongUse, match=said):
        async with mcp_tools(http.url, **options):
            pass


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(WrongUse, match="the command is empty"):
        Stdio("")


async def test_without_mcp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(WrongUse, match=r'pip install "endstop\[mcp\]"'):
        async with mcp_tools("http://127.0.0.1:1/mcp"):
            pass


def answered(*content: Any, error: bool = False, structured: Any = None) -> Any:
    return SimpleNamespace(content=list(content), is_error=error, structured_content=structured)


def block(type: str, **fields: Any) -> Any:
    return SimpleNamespace(type=type, **fields)


def test_results_that_are_odd_are_told_in_words() -> None:
    assert result_of(answered()) is None
    assert result_of(answered(block("hologram"))) == "[hologram: not shown]"
    assert (
        result_of(answered(block("image", data="?", mime_type="image/png")))
        == "[image: image/png, which is not base64]"
    )
    failed = result_of(answered(error=True))
    assert (failed.status, failed.content) == ("error", "The tool failed without a word.")
    both = result_of(answered(block("text", text="three"), structured={"sum": 3}))
    assert both == "three", "text stands for the structure beside it"
