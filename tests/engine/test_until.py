"""`Engine(until=...)`: what is refused, what a run with a check offers, and how it runs beside the model."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Accept, Engine, Hooks, Impossible, Met, NotMet, Policy, Runtime, Until, Verdict, WrongUse, tool
from endstop.decision import Limits
from endstop.decision import events as ev
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools import ask_user, workspace_tools


async def never(run: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"checks": ()}, "needs a check"),
        ({"checks": ("",)}, "a command or a function"),
        ({"checks": (3,)}, "a command or a function"),
        ({"checks": (["pytest -q", "ruff check ."],)}, r"write until=Until\('pytest -q', 'ruff check .'\)"),
        ({"checks": ("true",), "timeout": 0}, "timeout is 0"),
        ({"checks": ("true",), "share": 0}, "share is 0"),
        ({"checks": ("true",), "share": 1.5}, "share is 1.5"),
        ({"checks": ("true",), "folder": "/there/is/no/such/folder"}, "is not a folder"),
        ({"checks": ("true",), "guard": "tests/**"}, "several patterns"),
        ({"checks": (never,), "guard": ["tests/**"]}, "guard is for commands"),
        ({"checks": (never,), "score": r"(\d+)"}, "score is for commands"),
        ({"checks": (never,), "inside": "docker run"}, "inside is for commands"),
    ],
)
def test_values_that_cannot_work_are_refused_where_they_are_written(options: dict[str, Any], complaint: str) -> None:
    checks = options.pop("checks")
    with pytest.raises(WrongUse, match=complaint):
        Until(*checks, **options)


@pytest.mark.parametrize(
    ("until", "complaint"),
    [
        ("there-is-no-such-program -q", "command not found"),
        ("pytest -q '", "not a valid shell command"),
        (Until("true", guard=["no/such/**"]), "no/such"),
        (Until("true", guard=["../outside"]), "leads out"),
    ],
)
def test_a_check_that_cannot_run_is_refused_when_the_engine_is_made(until: Any, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=complaint):
        Engine(Scripted(), tools=workspace_tools(tmp_path), until=until)


async def test_a_judge_beside_a_check_is_refused() -> None:
    async def judge(run: Any) -> Verdict:
        return Verdict("complete")

    with pytest.raises(WrongUse, match="until and a judge"):
        Engine(Scripted(), until=never, hooks=Hooks(judge=judge))


def test_the_work_is_in_the_folder_of_the_workspace_tools_unless_another_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    tools = workspace_tools(one)
    assert Until("true").work_folder(tools) == str(one)
    assert Until("true", folder=other).work_folder(tools) == str(other)
    assert Until("true").work_folder([]) == str(Path.cwd())
    assert Until(never).work_folder([]) is None
    with pytest.raises(WrongUse, match="2 folders"):
        Until("true").work_folder([*tools, *workspace_tools(other)])


def test_a_run_with_a_check_offers_a_way_to_say_that_it_cannot_be_done() -> None:
    assert set(Engine(Scripted(), until=never).config.toolbox) == {"finish_task", "report_blocked"}
    assert set(Engine(Scripted(), presets=[ask_user], until=never).config.toolbox) == {"ask_user", "report_blocked"}
    assert set(Engine(Scripted()).config.toolbox) == {"finish_task"}


def test_the_record_names_the_check() -> None:
    config = Engine(Scripted(), until=Until("true", never)).config
    assert config.functions["until"] == ("true && never",)


class Desk:
    """A tool that writes, another that reads, and a check whose answers come when they are released."""

    def __init__(self) -> None:
        self.writes = 0
        self.asked = 0
        self.release = anyio.Event()

    async def check(self, run: Any) -> Met | NotMet:
        self.asked += 1
        if self.asked == 2:
            await self.release.wait()
        return Met() if self.writes == 1 or self.writes >= 4 else NotMet("not yet", self.writes, 4)

    @property
    def tools(self) -> list[Any]:
        @tool
        async def write(n: int) -> str:
            """Write."""
            self.writes += 1
            if self.writes == 3:
                self.release.set()
                await asyncio.sleep(0)
            return f"written {n}"

        @tool(reads=True)
        async def read(n: int) -> str:
            """Read."""
            return f"read {n}"

        return [write, read]


async def test_a_call_that_writes_waits_for_a_running_check_and_one_that_reads_does_not() -> None:
    desk, read = Desk(), anyio.Event()

    @tool(reads=True)
    async def look(n: int) -> str:
        """Look."""
        assert desk.writes == 1
        desk.release.set()
        read.set()
        return "seen"

    desk.release = anyio.Event()
    script = [call("write", n=1), [*call("look", n=1, id="a"), *call("write", n=2, id="b")]]
    engine = Engine(Scripted(*script), tools=[desk.tools[0], look], until=desk.check)
    outcome = await engine.run("go")
    assert read.is_set()
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert desk.writes == 1  # the second one waited, and then did not run


async def test_with_a_copy_an_answer_about_older_work_ends_nothing(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    (tmp_path / "work").mkdir()
    desk = Desk()
    until = Until("true", desk.check, folder=tmp_path / "work", copy=True)
    file = tmp_path / "work" / "a.txt"
    tools = desk.tools

    @tool
    async def write(n: int) -> str:
        """Write."""
        said: str = await tools[0].run({"n": n})
        file.write_text(f"{desk.writes}")
        return said

    script = [call("write", n=n) for n in range(6)]
    engine = Engine(Scripted(*script, "more"), tools=[write], until=until)
    async with engine.start("go", record=record) as run:
        outcome = await run.wait()
        events = [event async for event in run]
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    assert desk.writes >= 4  # right after the first write, too, but by then it was another work
    assert [event.said for event in events if isinstance(event, ev.CheckEnded)].count("met") == 1
    assert (await replay(record)).same


async def test_what_a_limit_ends_is_checked_as_it_is_then(tmp_path: Path) -> None:
    clock = FakeClock()
    desk = Desk()
    desk.release.set()
    engine = Engine(
        Scripted(*(call("write", n=n) for n in range(9))),
        tools=desk.tools,
        until=Until(desk.check, share=0.01),
        policy=Policy(limits=Limits(steps=3, extend=None), closing=False),
        runtime=Runtime(clock=clock),
    )
    outcome = await engine.run("go")
    assert outcome.stop_reason in ("until_met", "step_limit")
    assert outcome.checked_by == "check"


def raises(run: Any) -> bool:
    raise ZeroDivisionError("the check itself")


def score_is_text(run: Any) -> NotMet:
    return NotMet("no", score="0/1")  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [raises, score_is_text, lambda run: "a reason", lambda run: Accept()])
async def test_a_check_that_raises_or_answers_something_else_lets_no_claim_through(broken: Any, tmp_path: Path) -> None:
    desk, record = Desk(), tmp_path / "run.jsonl"
    engine = Engine(Scripted(lambda request: "Done."), tools=desk.tools, until=broken)
    async with engine.start("go", record=record) as run:
        outcome = await run.wait()
        events = [event async for event in run]
    assert outcome.stop_reason == "completion_rejected"
    assert all(event.said == "not_met" for event in events if isinstance(event, ev.CheckEnded))
    assert (await replay(record)).same


async def test_a_command_without_a_known_folder_is_asked_again_after_each_call_that_may_write(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"

    @tool
    def write_report(text: str) -> str:
        """Write the report."""
        report.write_text(text)
        return "written"

    claim = [call("finish_task", summary="It is written.")]
    model = Scripted(claim, [call("write_report", text="all")], claim)
    outcome = await Engine(model, tools=[write_report], until=f"test -f {report}").run("Write a report.")
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")


async def test_an_evaluation_decides_over_the_check() -> None:
    desk = Desk()
    desk.release.set()
    engine = Engine(
        Scripted(call("write", n=1), "Done."),
        tools=desk.tools,
        until=desk.check,
        hooks=Hooks(evaluate=lambda looked_at: False),
    )
    outcome = await engine.run("go")
    assert (outcome.stop_reason, outcome.verdict, outcome.work) == ("until_met", "failed", "wrong")


async def test_two_commands_must_both_succeed(tmp_path: Path) -> None:
    tools = workspace_tools(tmp_path)
    script = [
        call("write_file", path="a.txt", content="a"),
        call("finish_task", summary="done"),
        call("write_file", path="b.txt", content="b"),
        "more",
        "more",
    ]
    engine = Engine(Scripted(*script), tools=tools, until=Until("test -f a.txt", "test -f b.txt"))
    outcome = await engine.run("go")
    assert (outcome.stop_reason, outcome.checked_by) == ("until_met", "test -f a.txt && test -f b.txt")


async def test_tests_that_are_too_large_to_be_watched_do_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endstop.work.guarded_files.MAX_BYTES", 100)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("# " + "x" * 1_000)
    until = Until("test -f a.txt || python -m pytest --no-such-option", folder=tmp_path)
    script = [call("write_file", path="a.txt", content="a"), call("finish_task", summary="done"), "more"]
    outcome = await Engine(Scripted(*script), tools=workspace_tools(tmp_path), until=until).run("go")
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")
    with pytest.raises(WrongUse, match="can be guarded"):
        Engine(Scripted(), tools=workspace_tools(tmp_path), until=Until("true", guard=["tests/**"]))


async def test_a_copy_that_cannot_be_made_says_nothing_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: str) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("endstop.until_work.copy_of", full)
    until = Until("true", folder=tmp_path, copy=True)
    outcome = await Engine(Scripted("Done."), tools=workspace_tools(tmp_path), until=until).run("go")
    assert (outcome.stop_reason, outcome.work, outcome.checked_by) == ("text_final", "said", "")


async def test_a_session_can_have_a_check_of_its_own_and_the_engine_keeps_its_own() -> None:
    engine = Engine(Scripted(lambda request: [call("finish_task", summary="Done.")]), until=Until(lambda run: True))
    mine = engine.session(until=Until(lambda run: Impossible("not today"), from_failing=False))
    assert (await mine.run("Go")).stop_reason == "blocked"
    assert (await engine.run("Go")).stop_reason == "until_met"
    plain = Engine(Scripted(lambda request: [call("finish_task", summary="Done.")]))
    assert (await plain.session(until=Until(lambda run: True)).run("Go")).stop_reason == "until_met"
    assert (await plain.session().run("Go")).stop_reason == "completed"


def test_a_check_of_a_session_that_cannot_work_is_refused_when_the_session_is_made() -> None:
    engine = Engine(Scripted())
    for wrong in ("no_such_program_here", 7, ""):
        with pytest.raises(WrongUse):
            engine.session(until=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("by_the_user", "ends"), [(False, "completion_rejected"), (True, "until_met")])
async def test_the_originals_of_guarded_files_are_those_of_the_session_and_what_the_user_changes_counts(
    tmp_path: Path, by_the_user: bool, ends: str
) -> None:
    check = tmp_path / "check.sh"
    check.write_text("grep -q right work.txt\n")
    claims = [call("finish_task", summary="done")] * 5
    script = [call("write_file", path="check.sh", content="exit 0\n"), *claims, *claims]
    engine = Engine(Scripted(*script), tools=workspace_tools(tmp_path), until=Until("sh check.sh", folder=tmp_path))
    session = engine.session()
    first = await session.run("go")
    assert (first.stop_reason, check.read_text()) == ("completion_rejected", "exit 0\n")
    if by_the_user:
        check.write_text("true\n")
    second = await session.run("go on")
    assert (second.stop_reason, second.work) == (ends, "checked" if by_the_user else "wrong")


async def test_a_command_that_cannot_be_executed_any_more_is_an_error_of_the_next_prompt(tmp_path: Path) -> None:
    check = tmp_path / "check.sh"
    check.write_text("#!/bin/sh\nexit 1\n")
    check.chmod(0o755)
    engine = Engine(Scripted("Done."), tools=workspace_tools(tmp_path), until=Until("./check.sh", folder=tmp_path))
    session = engine.session()
    assert not (await session.run("go")).never_started
    check.unlink()
    outcome = await session.run("go on")
    assert (outcome.status, outcome.never_started, outcome.requests) == ("failed", True, 0)
