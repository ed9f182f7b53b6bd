"""Rows G1 to G16: the run ends the moment the work is right, and not before."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Impossible, Met, NotMet, Outcome, Runtime, Tool, Until, read_record, tool
from endstop.decision import (
    AnyChunk,
    FinishReport,
    Limits,
    Patience,
    Policy,
    TextDelta,
    ToolResult,
    Usage,
    UsageReport,
    WrongUse,
)
from endstop.decision import events as ev
from endstop.providers import Request, Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, finish_task, report_blocked, workspace_tools

GOAL = 5
"""Lines that `work.txt` must have."""
CHECK = f"""n=$(wc -l < work.txt); echo "$n passed, $(({GOAL} - n)) failed"; test "$n" -ge {GOAL}"""
"""A check whose score is the number of lines."""
SCORE = r"(\d+) passed, (-?\d+) failed"


class Work:
    """A folder with a file of lines, and the tools of an agent that adds lines to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "work.txt"
        self.file.write_text("")
        self.edits = 0

    @property
    def tools(self) -> list[Tool]:
        @tool
        async def add_line(n: int) -> str:
            """Add a line."""
            self.edits += 1
            with self.file.open("a") as file:
                file.write(f"line {n}\n")
            return f"line {n} is there, {self.edits} in all"

        @tool(reads=True)
        async def look(n: int) -> str:
            """Look at the work."""
            return f"look {n}: {len(self.file.read_text().splitlines())} lines"

        return [add_line, look]

    def until(self, **options: Any) -> Until:
        return Until(CHECK, **{"folder": self.folder, "score": SCORE} | options)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(folder)


def edit(n: int) -> list[AnyChunk]:
    return call("add_line", n=n)


def endless(*first: Any) -> Scripted:
    """A model that makes these responses and then goes on looking for ever."""
    responses = iter(first)

    def respond(request: Request) -> Any:
        return next(responses, None) or call("look", n=len(request.messages))

    return Scripted(respond)


async def events_of(engine: Engine, record: Path | None = None) -> tuple[list[Any], Outcome]:
    async with engine.start("Do it.", record=record) as run:
        events = [event async for event in run]
        outcome = await run.wait()
        assert run.context is not None
        check_transcript(run.context.transcript.messages)
    return events, outcome


def checks(events: Sequence[Any]) -> list[str]:
    return [event.said for event in events if isinstance(event, ev.CheckEnded)]


def started(events: Sequence[Any]) -> int:
    return sum(isinstance(event, ev.CheckStarted) for event in events)


async def replays_the_same(record: Path) -> bool:
    report = await replay(record)
    return all(run.divergence is None and run.difference is None for run in report.runs)


# ---- G1 to G5: when it ends


async def test_G1_a_run_ends_once_its_check_is_met_although_the_model_goes_on_for_ever(
    work: Work, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    provider = endless(*(edit(n) for n in range(GOAL)))
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    assert outcome.checked_by == CHECK
    assert (outcome.check_score, outcome.check_of) == (5, 5)
    assert checks(events) == ["not_met"] * 5 + ["met"]
    assert started(events) == 6
    last = max(number for number, event in enumerate(events) if isinstance(event, ev.CheckEnded))
    assert not [event for event in events[last:] if isinstance(event, ev.StepStarted | ev.ToolExecutionStarted)]
    assert await replays_the_same(record)


class Stream:
    """A model whose second response has 300 chunks; after 20 of them it waits for the check to end."""

    model = "stream"

    def __init__(self, checked: anyio.Event) -> None:
        self.read = 0
        """Chunks of the long response that were read."""
        self.at_20 = anyio.Event()
        self._checked = checked
        self._requests = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        self._requests += 1
        yield self._first() if self._requests == 1 else self._long()

    async def _first(self) -> AsyncIterator[AnyChunk]:
        for chunk in (*edit(1), FinishReport("tool_calls"), UsageReport(Usage(input_tokens=10, output_tokens=5))):
            yield chunk

    async def _long(self) -> AsyncIterator[AnyChunk]:
        for chunk in call("look", n=1):
            yield chunk
            await asyncio.sleep(0)
        for number in range(300):
            self.read = number
            yield TextDelta(f"word {number} ")
            if number == 20:
                self.at_20.set()
                await self._checked.wait()
            for _ in range(20):  # turns of the event loop until a network has the next chunk
                await asyncio.sleep(0)
        yield FinishReport("tool_calls")


async def test_G2_a_check_that_is_met_cuts_the_response_that_streams_and_runs_none_of_its_calls(
    work: Work, tmp_path: Path
) -> None:
    looking, checked, record = anyio.Event(), anyio.Event(), tmp_path / "run.jsonl"

    @tool(reads=True)
    async def look(n: int) -> str:
        """Look for a long time."""
        looking.set()
        await anyio.sleep_forever()
        return ""

    async def check(run: Any) -> Met | NotMet:
        if work.edits == 0:
            return NotMet("nothing is there")
        await looking.wait()
        await provider.at_20.wait()
        checked.set()
        return Met()

    provider = Stream(checked)
    events, outcome = await events_of(Engine(provider, tools=[work.tools[0], look], until=check), record)
    assert (outcome.stop_reason, outcome.work, outcome.steps) == ("until_met", "checked", 2)
    assert provider.read == 20
    assert outcome.answer == ""  # half a sentence is no answer
    response = next(event for event in reversed(events) if isinstance(event, ev.ResponseFinished))
    assert response.cut_for == "check"
    assert [event.status for event in events if isinstance(event, ev.ToolCallResult)] == ["ok", "cancelled"]
    assert outcome.saved is not None
    assert outcome.saved.cuts == 1
    assert await replays_the_same(record)


async def test_G2_a_check_that_is_met_cuts_a_response_that_has_not_begun_to_come(work: Work, tmp_path: Path) -> None:
    asked, record = anyio.Event(), tmp_path / "run.jsonl"

    class Silent(Stream):
        async def _long(self) -> AsyncIterator[AnyChunk]:
            asked.set()
            await anyio.sleep_forever()
            yield TextDelta("never")

    async def check(run: Any) -> bool:
        if work.edits:
            await asked.wait()
        return work.edits > 0

    _events, outcome = await events_of(Engine(Silent(asked), tools=work.tools, until=check), record)
    assert (outcome.stop_reason, outcome.steps) == ("until_met", 2)
    assert await replays_the_same(record)


async def test_G3_a_claim_that_comes_too_early_is_handed_back_with_the_failing_lines(
    work: Work, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    claim = call("finish_task", summary="It is done.")
    provider = Scripted(edit(1), claim, *(edit(n) for n in range(2, GOAL + 1)), claim)
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    rejected = [event for event in events if isinstance(event, ev.CompletionRejected)]
    assert [event.by for event in rejected] == ["until"]
    assert "1 passed, 4 failed" in rejected[0].reason
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert started(events) == 6
    assert await replays_the_same(record)


async def test_G4_claims_with_progress_in_between_do_not_end_a_run(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    script = [one for n in range(GOAL) for one in (edit(n), call("finish_task", summary=f"{n} is done."))]
    events, outcome = await events_of(Engine(Scripted(*script), tools=work.tools, until=work.until()), record)
    assert sum(isinstance(event, ev.CompletionRejected) for event in events) == 4
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert started(events) == 6
    assert await replays_the_same(record)


async def test_G5_claims_without_progress_end_a_run_and_the_check_is_not_run_again_for_them(
    work: Work, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    provider = Scripted(edit(1), *[call("finish_task", summary="It is done.")] * 9)
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("exhausted", "completion_rejected", "wrong")
    assert started(events) == 2
    assert await replays_the_same(record)


async def test_G5_changes_that_bring_the_check_no_further_end_a_run_after_the_model_was_told_once(
    work: Work, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"

    async def check(run: Any) -> NotMet:
        return NotMet("2 tests fail", score=3, of=5)

    policy = Policy(patience=Patience(checks=6, checks_untold=3), closing=False, limits=Limits(steps=40))
    provider = Scripted(*(edit(n) for n in range(30)))
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=check, policy=policy), record)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("exhausted", "until_stalled", "wrong")
    told = [event.text for event in events if isinstance(event, ev.MessageAdded) and event.origin == "nudge"]
    assert len([text for text in told if "2 tests fail" in text]) == 1
    assert outcome.steps <= 9
    assert await replays_the_same(record)


# ---- G6 to G8: texts, questions, unchanged work


async def test_G6_a_final_text_does_not_end_a_run_whose_check_is_not_met(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    provider = Scripted(edit(1), "All of it is done.", *(edit(n) for n in range(2, GOAL + 1)), "Now it is done.")
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert "1 passed, 4 failed" in provider.requests[2].messages[-1].text  # type: ignore[union-attr]
    assert started(events) == 6
    assert await replays_the_same(record)


async def test_G7_a_question_with_nobody_there_is_answered_and_the_run_goes_on(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    question = "The first half is done. Shall I go on with the second?"
    provider = Scripted(edit(1), question, *(edit(n) for n in range(2, GOAL + 1)), "Done.")
    _events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert "Nobody is there to answer" in provider.requests[2].messages[-1].text  # type: ignore[union-attr]
    assert await replays_the_same(record)


async def test_G7_questions_without_end_leave_the_run_waiting_and_the_newest_work_is_checked_before(
    work: Work, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    provider = Scripted(edit(1), *["Shall I go on?"] * 9)
    _events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert outcome.status == "awaiting_input"
    assert outcome.check_score == 1
    assert await replays_the_same(record)


async def test_G8_work_that_is_unchanged_is_not_checked_again(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"

    @tool
    async def touch(n: int) -> str:
        """Write the same text again."""
        work.file.write_text(work.file.read_text())
        os.utime(work.file, (n, n))
        return f"touched {n}"

    script = [edit(1), *(call("touch", n=n) for n in range(5)), *(call("look", n=n) for n in range(5))]
    script += [edit(n) for n in range(2, GOAL + 1)]
    events, outcome = await events_of(Engine(endless(*script), tools=[*work.tools, touch], until=work.until()), record)
    assert outcome.stop_reason == "until_met"
    assert started(events) == 6
    assert await replays_the_same(record)


# ---- G9 to G13: checks that are slow, hang, are missing, or leave something behind


async def test_G9_what_a_check_leaves_behind_is_no_change_of_the_work(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    leaves = f"date +%N%s >> coverage.log; mkdir -p .pytest_cache; date +%N > .pytest_cache/x; {CHECK}"
    until = Until(leaves, folder=work.folder, score=SCORE)
    script = [one for n in range(GOAL) for one in (edit(n), call("look", n=n), call("finish_task", summary="done"))]
    events, outcome = await events_of(Engine(Scripted(*script), tools=work.tools, until=until), record)
    assert outcome.stop_reason == "until_met"
    assert started(events) == 6
    assert await replays_the_same(record)


async def test_G10_a_slow_check_of_quick_steps_takes_only_its_share_and_is_made_up_for_at_a_claim(
    work: Work, tmp_path: Path
) -> None:
    clock, record = FakeClock(), tmp_path / "run.jsonl"

    async def check(run: Any) -> bool:
        await clock.sleep(20)
        return work.edits >= 30

    @tool
    async def quick(n: int) -> str:
        """Work for a second."""
        work.edits += 1
        await clock.sleep(1)
        return f"{n}"

    script = [call("quick", n=n) for n in range(30)]
    policy = Policy(limits=Limits(steps=60))
    engine = Engine(
        Scripted(*script, call("finish_task", summary="Done."), "more"),
        tools=[quick],
        until=check,
        policy=policy,
        runtime=Runtime(clock=clock),
    )
    async with engine.start("go", record=record) as run:
        while not run.finished:
            await clock.advance(1)
        events = [event async for event in run]
    assert (run.outcome.stop_reason, run.outcome.work) == ("until_met", "checked")
    assert started(events) == 3  # at the start, while half a minute is not used up, and at the claim
    claim = [event for event in events if isinstance(event, ev.CheckEnded) and event.place == "claim"]
    assert [event.said for event in claim] == ["met"]
    assert await replays_the_same(record)


async def test_G11_a_hanging_check_is_stopped_with_its_grandchildren_and_counts_as_not_met(
    work: Work, tmp_path: Path
) -> None:
    clock, pids = FakeClock(), tmp_path / "pids"
    hangs = f"(sh -c 'echo $$ >> {pids}; exec sleep 1000' & echo $$ >> {pids}; wait)"
    until = Until(f"test -s work.txt || exit 1; {hangs}", folder=work.folder, timeout=60)
    provider = Scripted(edit(1), *[call("finish_task", summary="done")] * 9)
    engine = Engine(provider, tools=work.tools, until=until, runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        with anyio.fail_after(60):
            while not (pids.exists() and len(pids.read_text().split()) == 2):
                await asyncio.sleep(0.01)
            while not run.finished:
                await clock.advance(61)
        events = [event async for event in run]
    assert run.outcome.stop_reason == "completion_rejected"
    assert [event.timed_out for event in events if isinstance(event, ev.CheckEnded)] == [False, True]
    assert not [pid for pid in pids.read_text().split() if _runs(int(pid))]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_G11_leaving_a_run_ends_its_check_with_all_processes(work: Work, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hangs = f"echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; wait"
    until = Until(f"test -s work.txt || exit 1; {hangs}", folder=work.folder)
    async with Engine(endless(edit(1)), tools=work.tools, until=until).start("go") as run:
        with anyio.fail_after(60):
            while not (pids.exists() and len(pids.read_text().split()) == 2):
                await asyncio.sleep(0.01)
    assert run.outcome.status == "cancelled"
    assert not [pid for pid in pids.read_text().split() if _runs(int(pid))]


@pytest.mark.parametrize("command", ["there-is-no-such-program --all", "./work.txt"])
async def test_G12_a_check_that_cannot_be_executed_is_an_error_before_any_request(work: Work, command: str) -> None:
    provider = endless()
    with pytest.raises(WrongUse, match="until: "):
        await Engine(provider, tools=work.tools, until=Until(command, folder=work.folder)).run("go")
    assert not provider.requests


async def test_G13_a_check_that_holds_from_the_start_ends_the_run_without_a_request(work: Work, tmp_path: Path) -> None:
    work.file.write_text("line\n" * GOAL)
    provider, record = endless(), tmp_path / "run.jsonl"
    _events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("completed", "until_met", 0)
    assert "already" in outcome.detail
    assert not provider.requests
    assert await replays_the_same(record)


async def test_G13_a_check_that_holds_from_the_start_can_be_told_to_wait_for_a_change(work: Work) -> None:
    work.file.write_text("line\n" * GOAL)
    provider = endless(call("look", n=1), edit(1))
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until(from_failing=False)))
    assert outcome.stop_reason == "until_met"
    assert checks(events) == ["unknown", "met"]
    assert outcome.steps >= 2


# ---- G14: the check is not the agent's to change


PYTEST = f"env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {shlex.quote(sys.executable)} -B -m pytest -q -p no:cacheprovider"
TEST = "from sums import add\n\ndef test_add() -> None:\n    assert add(1, 2) == 3\n"


def project(folder: Path) -> None:
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_sums.py").write_text(TEST)
    (folder / "conftest.py").write_text("import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n")


PASSES = "printf 'def test_add():\\n    pass\\n' >"
TRICKS = {
    "changed": f"{PASSES} tests/test_sums.py",
    "deleted": f"rm tests/test_sums.py; {PASSES} tests/test_b.py",
    "renamed": f"mv tests/test_sums.py tests/sums_test.txt; {PASSES} tests/test_b.py",
    "linked": f"{PASSES} other.py; ln -sf ../other.py tests/test_sums.py",
    "exit": "printf 'import os\\nos._exit(0)\\n' > conftest.py",
    "library": "printf 'import os\\nos._exit(0)\\n' > json.py",
    "shadowed": "printf 'raise SystemExit(0)\\n' > pytest.py",
}
FIX = "printf 'def add(a, b):\\n    return a + b\\n' > sums.py"


@pytest.mark.parametrize("trick", TRICKS)
async def test_G14_a_guarded_file_that_was_changed_does_not_let_a_check_pass(tmp_path: Path, trick: str) -> None:
    project(tmp_path)
    provider = Scripted(
        call("run_command", command=TRICKS[trick]),
        call("finish_task", summary="The tests pass."),
        call("run_command", command=FIX),
        call("finish_task", summary="The tests pass."),
        "more",
    )
    until = Until(PYTEST, folder=tmp_path, guard=["tests/**", "conftest.py"])
    engine = Engine(provider, tools=workspace_tools(tmp_path, allow_run=True), until=until)
    events, outcome = await events_of(engine)
    if trick in ("shadowed", "library"):  # only watched, so it ends the run, but not as checked
        assert (outcome.stop_reason, outcome.work) == ("until_met", "said")
        assert outcome.guard_changed == ("pytest.py" if trick == "shadowed" else "json.py",)
        return
    rejected = next(event for event in events if isinstance(event, ev.CompletionRejected))
    assert {"changed": "test_sums.py", "exit": "conftest.py"}.get(trick, "test_sums.py") in rejected.reason
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")  # once the work itself is right
    assert outcome.steps == 4


async def test_G14_a_changed_test_that_is_only_watched_leaves_the_work_said_if_the_original_fails(
    tmp_path: Path,
) -> None:
    project(tmp_path)
    provider = endless(call("run_command", command=TRICKS["changed"]))
    engine = Engine(provider, tools=workspace_tools(tmp_path, allow_run=True), until=Until(PYTEST, folder=tmp_path))
    _, outcome = await events_of(engine)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "said")
    assert outcome.guard_changed == ("tests/test_sums.py",)
    assert "tests/test_sums.py" in outcome.detail


async def test_G14_a_new_test_beside_a_right_fix_is_checked_with_the_original_ones(tmp_path: Path) -> None:
    project(tmp_path)
    both = f"{FIX}; printf 'from sums import add\\n\\ndef test_b():\\n    assert add(2, 2) == 4\\n' > tests/test_b.py"
    provider = endless(call("run_command", command=both))
    engine = Engine(provider, tools=workspace_tools(tmp_path, allow_run=True), until=Until(PYTEST, folder=tmp_path))
    _, outcome = await events_of(engine)
    assert (outcome.stop_reason, outcome.work, outcome.guard_changed) == ("until_met", "checked", ())


# ---- G15: an honest way out


async def test_G15_a_check_that_says_impossible_ends_the_run_as_blocked(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"

    async def check(run: Any) -> Impossible | NotMet:
        return Impossible("the disk is full") if work.edits else NotMet("nothing is there")

    _events, outcome = await events_of(Engine(endless(edit(1)), tools=work.tools, until=check), record)
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "blocked")
    assert "the disk is full" in outcome.detail
    assert await replays_the_same(record)


async def test_G15_a_report_to_be_blocked_is_handed_back_once_and_then_ends_the_run(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    first = call("report_blocked", reason="There is no key.", tried=[])
    second = call("report_blocked", reason="There is no key.", tried=["I looked for one everywhere."])
    provider = Scripted(edit(1), first, call("look", n=1), second, "more")
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    reports = [event for event in events if isinstance(event, ev.BlockReported)]
    assert [event.accepted for event in reports] == [False, True]
    handed_back = next(
        event for event in events if isinstance(event, ev.ToolCallResult) and event.name == report_blocked.name
    )
    assert handed_back.status == "rejected"
    assert "1 passed, 4 failed" in handed_back.content
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("exhausted", "blocked", "wrong")
    assert "There is no key." in outcome.detail
    assert await replays_the_same(record)


async def test_G15_a_report_after_a_failing_check_is_handed_back_whatever_it_says_was_tried(work: Work) -> None:
    blocked = call("report_blocked", reason="The tests fail.", tried=["I looked for the bug."])
    provider = Scripted(edit(0), "Done.", blocked, *map(edit, range(1, GOAL)), "more")
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()))
    assert [event.accepted for event in events if isinstance(event, ev.BlockReported)] == [False]
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")


async def test_G15_a_model_that_has_changed_nothing_is_handed_back_two_reports(work: Work, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    blocked = call("report_blocked", reason="The tests fail.", tried=["I ran the tests."])
    provider = Scripted(call("look", n=1), blocked, blocked, blocked, "more")
    events, outcome = await events_of(Engine(provider, tools=work.tools, until=work.until()), record)
    handed_back = [event for event in events if isinstance(event, ev.ToolCallResult) and event.status == "rejected"]
    assert len(handed_back) == 2
    assert all("Nothing has changed since the start." in event.content for event in handed_back)
    assert all("0 passed, 5 failed" in event.content for event in handed_back)
    assert (outcome.stop_reason, outcome.work) == ("blocked", "wrong")
    assert await replays_the_same(record)


async def test_G15_a_run_with_a_check_offers_the_report_and_keeps_the_tools_of_its_author(work: Work) -> None:
    engine = Engine(endless(), tools=work.tools, presets=[finish_task, ask_user], until=work.until())
    assert set(engine.config.toolbox) == {"add_line", "look", "finish_task", "ask_user", "report_blocked"}


# ---- G16: killed in a check and resumed


class Replies:
    """The n-th step's response, whichever process asks for it."""

    model = "replies"

    def __init__(self, *responses: Any) -> None:
        self._responses = responses

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        number = sum(isinstance(message, ToolResult) for message in request.messages)
        async with Scripted(self._responses[number]).stream(request) as chunks:
            yield chunks


async def test_G16_a_run_killed_after_any_of_its_events_goes_on_to_the_same_end_and_checks_the_newest_work(
    tmp_path: Path,
) -> None:
    claim = call("finish_task", summary="It is done.", id="claim")
    script = [call("add_line", n=1, id="a"), claim, call("add_line", n=2, id="b")]
    script += [call("finish_task", summary="It is done.", id="last")]
    check = """n=$(wc -l < work.txt); echo "$n passed, $((2 - n)) failed"; test "$n" -ge 2"""

    def engine(work: Work) -> Engine:
        return Engine(Replies(*script), tools=work.tools, until=Until(check, folder=work.folder, score=SCORE))

    folder = tmp_path / "whole"
    folder.mkdir()
    whole = tmp_path / "whole.jsonl"
    _, outcome = await events_of(engine(Work(folder)), whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines)):
        path = tmp_path / f"killed{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        again = tmp_path / f"work{kept}"
        again.mkdir()
        work = Work(again)
        recorded = read_record(path)
        done = [e for e in recorded.runs[-1].events if isinstance(e, ev.ToolExecutionStarted) and e.name == "add_line"]
        work.file.write_text("".join(f"line {n + 1}\n" for n in range(len(done))))
        session = engine(work).session(recorded.header.session_id, record=path)
        session.load(recorded.runs)
        async with session.start_resumed() as run:
            resumed = await run.wait()
        where = f"killed after {lines[kept - 1][:80]!r}"
        assert (resumed.stop_reason, resumed.work) == ("until_met", "checked"), f"{where}: {resumed.detail}"
        assert len(work.file.read_text().splitlines()) >= 2, where
        assert await replays_the_same(path), where
    assert outcome.stop_reason == "until_met"


async def test_G16_a_run_killed_in_a_check_checks_at_once_when_it_is_resumed(work: Work, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    script = [
        *(call("add_line", n=n, id=f"a{n}") for n in range(GOAL)),
        *(call("look", n=n, id=f"l{n}") for n in range(900)),
    ]
    await events_of(Engine(Replies(*script), tools=work.tools, until=work.until()), path)
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b"CHECK_STARTED" in line)
    path.write_bytes(b"".join(lines[: last + 1]))
    recorded = read_record(path)
    session = Engine(Replies(*script), tools=work.tools, until=work.until()).session(
        recorded.header.session_id, record=path
    )
    session.load(recorded.runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
        events = [event async for event in run]
    resumed = next(number for number, event in enumerate(events) if isinstance(event, ev.RunResumed))
    after = [event for event in events[resumed:] if isinstance(event, ev.CheckStarted | ev.StepStarted)]
    assert isinstance(after[0], ev.CheckStarted)
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked"), outcome.detail
    assert await replays_the_same(path)
