"""C3: a call never runs on a part of the arguments that were sent for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool, read_record
from endstop.decision import AnyChunk, FinishReport, Policy, TextDelta, ToolCallDelta
from endstop.decision.events import ResponseFinished, ToolCallResult
from endstop.decision.policy import Limits
from endstop.providers import Scripted
from endstop.replay import replay

CALLS = FinishReport("tool_calls", "tool_calls")


def tools(ran: list[Any], wait: Any = None) -> list[Tool]:
    async def look(place: str = "anywhere") -> str:
        if wait is not None:
            await wait.wait()
        ran.append(("look", place))
        return f"seen {place}"

    async def change(place: str = "everywhere") -> str:
        ran.append(("change", place))
        return "changed"

    return [Tool(look, description="Look.", reads=True), Tool(change, description="Change.")]


def results(run: Any) -> dict[str, tuple[str, str]]:
    return {e.call_id: (e.status, e.content) for e in run.events if isinstance(e, ToolCallResult)}


async def played(tmp_path: Path, chunks: Sequence[Any], ran: list[Any], **how: Any) -> Any:
    """The first run of these chunks; its record replays the same."""
    path = tmp_path / "record.jsonl"
    provider = Scripted(list(chunks), [TextDelta("done"), FinishReport("stop")])
    await Engine(provider, tools=tools(ran, how.get("wait")), policy=Policy(limits=Limits(steps=4))).run(
        "go", record=path
    )
    report = await replay(str(path))
    assert report.same, [str(run.divergence) for run in report.runs]
    return read_record(path).runs[0]


@pytest.mark.parametrize("name", ["look", "change"])
async def test_C3_headers_first_and_arguments_after_run_with_their_arguments(name: str, tmp_path: Path) -> None:
    chunks: list[AnyChunk] = [
        ToolCallDelta(0, "a", name),
        ToolCallDelta(1, "b", name),
        ToolCallDelta(0, arguments='{"place": '),
        ToolCallDelta(1, arguments='{"place": '),
        ToolCallDelta(0, arguments='"here"}'),
        ToolCallDelta(1, arguments='"there"}'),
        CALLS,
    ]
    ran: list[Any] = []
    await played(tmp_path, chunks, ran)
    assert ran == [(name, "here"), (name, "there")]


@pytest.mark.parametrize("completion_first", [False, True])
async def test_C3_a_completion_waits_for_the_arguments_of_the_calls_before_it(
    completion_first: bool, tmp_path: Path
) -> None:
    heads: list[AnyChunk] = [ToolCallDelta(0, "a", "change"), ToolCallDelta(1, "f", "finish_task")]
    summary = ToolCallDelta(1, arguments='{"summary": "It is done."}')
    place = ToolCallDelta(0, arguments='{"place": "here"}')
    ran: list[Any] = []
    rest = [summary, place] if completion_first else [place, summary]
    run = await played(tmp_path, [*heads, *rest, ToolCallDelta(2, "late", "change", '{"place": "x"}'), CALLS], ran)
    assert ran == [("change", "here")]
    assert run.finished.outcome.stop_reason == "completed"
    assert [e.cut_at for e in run.events if isinstance(e, ResponseFinished)] == ["f"]


async def test_C3_an_empty_call_before_a_completion_runs_once_the_response_has_finished(tmp_path: Path) -> None:
    chunks = [
        ToolCallDelta(0, "a", "change"),
        ToolCallDelta(1, "f", "finish_task", '{"summary": "It is done."}'),
        CALLS,
    ]
    ran: list[Any] = []
    run = await played(tmp_path, chunks, ran)
    assert ran == [("change", "everywhere")]
    assert run.finished.outcome.stop_reason == "completed"


@pytest.mark.parametrize("late", ["}", ' {"place": "there"}', "x", '{"place"'])
async def test_C3_a_writing_call_for_which_more_came_is_invalid_and_never_runs(late: str, tmp_path: Path) -> None:
    chunks = [ToolCallDelta(0, "a", "change", '{"place": "here"}'), ToolCallDelta(0, arguments=late), CALLS]
    ran: list[Any] = []
    run = await played(tmp_path, chunks, ran)
    assert ran == []
    assert results(run)["a"][0] == "invalid"


async def test_C3_a_reading_call_that_runs_when_more_comes_is_stopped_and_says_so(tmp_path: Path) -> None:
    import anyio

    chunks = [ToolCallDelta(0, "a", "look", '{"place": "here"}'), ToolCallDelta(0, arguments="}"), CALLS]
    ran: list[Any] = []
    run = await played(tmp_path, chunks, ran, wait=anyio.Event())
    assert ran == []
    status, content = results(run)["a"]
    assert status == "invalid"
    assert "Call it again" in content


class _Until:
    """Waits in the middle of a response until a reading call has run."""

    def __init__(self, ran: list[Any]) -> None:
        self._ran = ran

    async def wait(self) -> None:
        import anyio.lowlevel

        while not self._ran:
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()


async def test_C3_a_reading_call_that_has_run_when_more_comes_says_so_to_the_model(tmp_path: Path) -> None:
    ran: list[Any] = []
    head = ToolCallDelta(0, "a", "look", '{"place": "here"}')
    provider = Scripted(
        [head, _Until(ran), ToolCallDelta(0, arguments="}"), CALLS], [TextDelta("done"), FinishReport("stop")]
    )
    path = tmp_path / "record.jsonl"
    session = Engine(provider, tools=tools(ran)).session(record=path)
    await session.run("go")
    assert ran == [("look", "here")]
    shown = next(m for m in session.transcript.messages if getattr(m, "call_id", "") == "a")
    assert "more of them came" in shown.content
    assert (await replay(str(path))).same


async def test_C3_of_calls_without_arguments_none_runs_where_the_response_broke_off(tmp_path: Path) -> None:
    chunks = [
        ToolCallDelta(0, "a", "change"),
        ToolCallDelta(1, "b", "look"),
        ToolCallDelta(2, "c", "change", '{"place": '),
        FinishReport("length", "length"),
    ]
    ran: list[Any] = []
    run = await played(tmp_path, chunks, ran)
    assert ran == []
    assert {id: status for id, (status, _) in results(run).items()} == dict.fromkeys("abc", "truncated")


async def test_C3_a_record_in_which_an_empty_call_was_whole_before_the_finish_replays_the_same(tmp_path: Path) -> None:
    """As in records of earlier versions, in which it was whole when the next one began."""
    chunks = [
        ToolCallDelta(0, "a", "change", whole=True),
        ToolCallDelta(1, "f", "finish_task", '{"summary": "It is done."}'),
        CALLS,
    ]
    ran: list[Any] = []
    run = await played(tmp_path, chunks, ran)
    assert run.finished.outcome.stop_reason == "completed"
    assert b"FINISH_REPORTED" not in (tmp_path / "record.jsonl").read_bytes()


def whole(index: int, id: str, name: str, arguments: str) -> ToolCallDelta:
    return ToolCallDelta(index, id, name, arguments)


DONE = '{"summary": "It is done."}'


@pytest.mark.parametrize("late", [" x", "{}", '{"summary"'])
async def test_C3_a_completion_with_more_in_its_last_piece_cuts_nothing_off_and_is_invalid(
    late: str, tmp_path: Path
) -> None:
    run = await played(tmp_path, [whole(0, "f", "finish_task", DONE + late), CALLS], [])
    (response, _) = [e for e in run.events if isinstance(e, ResponseFinished)]
    assert response.cut_at is None
    assert response.message.calls[0].arguments == DONE + late.strip()
    assert results(run)["f"][0] == "invalid"


@pytest.mark.parametrize("piece", ["x", DONE])
async def test_C3_a_completion_that_waits_for_a_call_before_it_may_still_get_more_arguments(
    piece: str, tmp_path: Path
) -> None:
    ran: list[Any] = []
    chunks: list[AnyChunk] = [
        ToolCallDelta(0, "a", "change"),
        whole(1, "f", "finish_task", DONE),
        ToolCallDelta(1, arguments=piece),
        ToolCallDelta(0, arguments='{"place": "here"}'),
        CALLS,
    ]
    run = await played(tmp_path, chunks, ran)
    assert ran == [("change", "here")]
    response = next(e for e in run.events if isinstance(e, ResponseFinished))
    again = piece == DONE  # the same once more says nothing new
    assert response.cut_at == ("f" if again else None)
    assert results(run)["f"][0] == ("ok" if again else "invalid")


async def test_C3_a_replay_cuts_nothing_off_that_only_the_finish_made_whole(tmp_path: Path) -> None:
    chunks: list[AnyChunk] = [
        ToolCallDelta(0, "a", "look"),
        whole(1, "f", "finish_task", DONE),
        ToolCallDelta(2, "b", "look"),
        CALLS,
    ]
    run = await played(tmp_path, chunks, [])
    response = next(e for e in run.events if isinstance(e, ResponseFinished))
    assert (response.cut_at, response.cut_at_end) == ("f", True)
    report = await replay(str(tmp_path / "record.jsonl"))
    assert report.runs[0].difference is None
