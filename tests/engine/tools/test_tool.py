"""Tools: schema from hints and docstring, arguments checked, results made readable."""

import inspect
from typing import Any, Literal

import anyio
import pytest
from endstop import Engine, InvalidArguments, Runtime, Tool, Toolbox, tool
from endstop.decision import Policy, ToolCallDelta, ToolResult, WrongUse
from endstop.decision.events import ToolCallResult
from endstop.providers import Scripted, call
from endstop.testing import FakeClock
from endstop.tools.results import MAX_RESULT_CHARACTERS
from pydantic import BaseModel


async def result_of(made: Tool, *, response: Any = None, **arguments: Any) -> ToolResult:
    provider = Scripted(response or [call(made.name, **arguments)], "done")
    session = Engine(provider, tools=[made]).session()
    await session.run("go")
    return next(m for m in session.transcript.messages if isinstance(m, ToolResult))


def test_the_schema_comes_from_hints_and_docstring() -> None:
    @tool
    async def search(query: str, limit: int = 5, order: Literal["new", "old"] = "new", title: str | None = None) -> str:
        """Search the archive.

        Newest first unless told otherwise.

        Args:
            query: What to look for.
            limit: How many hits at most.
        """
        return query

    assert search.spec.description == "Search the archive.\n\nNewest first unless told otherwise."
    properties = search.spec.parameters["properties"]
    assert properties["query"] == {"description": "What to look for.", "type": "string"}
    assert properties["limit"] == {"default": 5, "description": "How many hits at most.", "type": "integer"}
    assert properties["order"]["enum"] == ["new", "old"]
    assert "title" in properties
    assert search.spec.parameters["required"] == ["query"]


def test_nested_models_are_arguments_too_and_keep_a_field_called_title() -> None:
    class Book(BaseModel):
        title: str
        year: int

    @tool
    def shelve(book: Book) -> str:
        """Shelve a book."""
        return book.title

    book = shelve.parse('{"book": {"title": "Emma", "year": 1815}}')["book"]
    assert book.title == "Emma"
    assert "title" in shelve.spec.parameters["$defs"]["Book"]["properties"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ("3", "object"),
        ("{}", "path: Field required"),
        ('{"path": 3}', "path: Input should be a valid string"),
    ],
)
async def test_arguments_that_do_not_fit_are_handed_back_with_the_field_named(arguments: str, complaint: str) -> None:
    ran: list[str] = []

    @tool
    async def read(path: str) -> str:
        """Read."""
        ran.append(path)
        return path

    with pytest.raises(InvalidArguments, match=complaint):
        read.parse(arguments)
    result = await result_of(read, response=[[ToolCallDelta(0, "c", "read", arguments)]])
    assert result.status in ("invalid", "truncated")
    assert ran == []


def test_arguments_that_the_function_does_not_know_are_left_out_because_models_add_their_own() -> None:
    @tool
    async def read(path: str) -> str:
        """Read."""
        return path

    assert read.parse('{"path": "a", "task_progress": "- [x] done"}') == {"path": "a"}


def test_a_type_hint_without_a_schema_is_refused_when_the_tool_is_offered() -> None:
    class Odd:
        pass

    def work(thing: Odd) -> str:
        """Work."""
        return ""

    with pytest.raises(WrongUse, match="no schema can be made of its type hints"):
        Engine(Scripted(), tools=[Tool(work)])


async def test_invalid_calls_are_handed_back_a_bounded_number_of_times() -> None:
    outcome = await Engine(Scripted(*[[call("nobody")]] * 20)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "invalid_calls", 4)


async def test_a_tool_that_is_not_offered_is_answered_with_the_names_of_those_that_are() -> None:
    session = Engine(Scripted([call("red_file")], "done")).session()
    await session.run("go")
    (result,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert result.status == "invalid"
    assert "'red_file'" in result.content
    assert "finish_task" in result.content


async def test_a_tool_that_raises_is_answered_with_its_error() -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise KeyError("port")

    result = await result_of(broken)
    assert (result.status, result.content) == ("error", "KeyError: 'port'")


async def test_a_tool_that_calls_exit_ends_nothing() -> None:
    @tool
    def leave() -> str:
        """Leave."""
        raise SystemExit(3)

    result = await result_of(leave)
    assert (result.status, result.content) == ("error", "it wanted to end the process: SystemExit: 3")


async def test_a_tool_that_hangs_is_stopped_at_its_timeout_and_the_run_goes_on() -> None:
    clock = FakeClock()

    @tool(timeout=30)
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    engine = Engine(Scripted([call("hang")], "done"), tools=[hang], runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        while not run.facts.tool_calls and not run.finished:
            await clock.advance(10)
        results = [e async for e in run if isinstance(e, ToolCallResult)]
    assert "30 seconds" in results[0].content
    assert run.outcome.answer == "done"


async def test_a_sync_tool_runs_in_a_thread_and_blocks_nobody() -> None:
    import threading

    release, ticks = threading.Event(), 0

    @tool
    def block() -> str:
        """Block."""
        assert release.wait(100)
        return threading.current_thread().name

    engine = Engine(Scripted([call("block")], "done"), tools=[block])
    async with engine.start("go") as run:
        while ticks < 100:
            await anyio.lowlevel.checkpoint()
            ticks += 1
        release.set()
        results = [e async for e in run if isinstance(e, ToolCallResult)]
    assert results[0].content != threading.current_thread().name


async def test_a_late_result_of_a_cancelled_sync_tool_is_dropped() -> None:
    import threading

    begun, release = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Block."""
        begun.set()
        assert release.wait(100)
        return "late"

    session = Engine(Scripted([call("block")]), tools=[block]).session()
    async with session.start("go") as run:
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        run.cancel()
        with anyio.fail_after(60):  # the thread waits longer than that
            await run.wait()
    release.set()
    (result,) = [m for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert result.status == "cancelled"


async def test_a_result_that_cannot_be_shown_is_an_error_that_names_the_type() -> None:
    @tool
    async def odd() -> Any:
        """Return something odd."""
        return object()

    result = await result_of(odd)
    assert result.status == "error"
    assert "object" in result.content


async def test_results_become_json_and_bytes_are_refused() -> None:
    values: list[Any] = [{"a": [1, None]}, None, b"\0"]

    @tool
    async def give() -> Any:
        """Give."""
        return values[0]

    assert (await result_of(give)).content == '{"a":[1,null]}'
    values.pop(0)
    assert (await result_of(give)).content == "Done."
    values.pop(0)
    assert (await result_of(give)).status == "error"


async def test_a_result_of_50_mb_is_shortened_in_its_middle() -> None:
    @tool
    async def flood() -> str:
        """Flood."""
        return "a" + "x" * 50_000_000 + "z"

    result = await result_of(flood)
    assert len(result.content) < MAX_RESULT_CHARACTERS + 200
    assert result.content.startswith("a")
    assert result.content.endswith("z")
    assert "left out" in result.content


def test_two_tools_of_one_name_are_refused() -> None:
    def work() -> str:
        """Work."""
        return ""

    with pytest.raises(WrongUse, match="two tools are called 'work'"):
        Toolbox([Tool(work), Tool(work)])


def test_what_is_no_tool_is_refused_with_what_to_do() -> None:
    with pytest.raises(WrongUse, match="@tool"):
        Engine(Scripted(), tools=[len])  # type: ignore[list-item]


def test_a_function_without_a_description_or_with_open_arguments_is_refused() -> None:
    with pytest.raises(WrongUse, match="no description"):
        Tool(lambda: "")
    with pytest.raises(WrongUse, match="name each argument"):
        Tool(lambda *paths: "", description="Read.", name="read")


def test_a_policy_that_needs_a_completion_is_refused_where_none_is_offered() -> None:
    with pytest.raises(WrongUse, match=r"'strict'.*no completion tool"):
        Engine(Scripted(), presets=(), policy=Policy(name="strict", text="nudge", completion="required"))


async def test_duplicate_and_missing_call_ids_become_step_and_index() -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "ok"

    def twice(id: str) -> list[Any]:
        return [call("work", id=id), call("work", id=id)]

    session = Engine(Scripted(twice("a"), twice(""), "done"), tools=[work]).session()
    await session.run("go")
    ids = [m.call_id for m in session.transcript.messages if isinstance(m, ToolResult)]
    assert ids == ["a", "1.1", "2.0", "2.1"]


# ---- a tool is still the function


async def test_a_decorated_function_is_called_as_before() -> None:
    @tool
    def add(left: int, right: int = 1) -> int:
        """Add two numbers."""
        return left + right

    @tool(name="reader", timeout=1)
    async def read(path: str, *, lines: int = 10) -> str:
        """Read a file."""
        return f"{lines} lines of {path}"

    assert add(1, right=4) == add(4) == 5
    assert await read("a.txt", lines=2) == "2 lines of a.txt"
    assert await read.renamed("other")("b.txt") == "10 lines of b.txt"
    assert list(inspect.signature(add).parameters) == ["left", "right"]
    assert (read.__name__, read.__doc__, read.name) == ("read", "Read a file.", "reader")
    with pytest.raises(TypeError, match="missing"):
        add()  # type: ignore[call-arg]
    assert Tool(lambda text: text * 2, name="twice", description="Say it twice.")("ho") == "hoho"


async def test_what_a_direct_call_raises_comes_out_as_it_is() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await fail()
