"""A bug in a user's function is logged with its traceback, once for a run, function and line, and without secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endstop import (
    Engine,
    Hooks,
    InvalidArguments,
    Observers,
    Policy,
    RecordOptions,
    Runtime,
    Tool,
    Until,
    WrongUse,
    read_record,
    tool,
)
from endstop.decision import Rule
from endstop.decision.events import VerdictGiven
from endstop.dependencies import DepsFailed
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools import workspace_tools
from pydantic import BaseModel, field_validator, model_validator

DONE = [call("finish_task", summary="done")]
PLAN = [call("work", id="w")]


class Bug(Exception):
    """What all functions here raise."""


def fails(*arguments: Any) -> Any:
    raise Bug("mine")


async def fails_later(*arguments: Any) -> Any:
    await asyncio.sleep(0)
    raise Bug("mine")


@tool
def work() -> str:
    """Work."""
    return "worked"


@tool
def broken() -> str:
    """Fail."""
    raise Bug("mine")


@tool(approval=fails)
def pay() -> str:
    """Pay."""
    return "paid"


@asynccontextmanager
async def fails_on_entry(run: Any) -> AsyncIterator[None]:
    raise Bug("mine")
    yield


@asynccontextmanager
async def fails_on_exit(run: Any) -> AsyncIterator[None]:
    yield
    raise Bug("mine")


async def deps_that_fail_at_the_end(ctx: Any) -> AsyncIterator[int]:
    yield 1
    raise Bug("mine")


def one_round(**options: Any) -> Engine[Any, Any]:
    return Engine(Scripted(PLAN, DONE), tools=[work], policy=Policy(max_inner_steps=1), **options)


KINDS: dict[str, Callable[[], Engine[Any, Any]]] = {
    "tool": lambda: Engine(Scripted([call("broken")], DONE), tools=[broken]),
    "gate": lambda: Engine(Scripted(DONE, "Well."), hooks=Hooks(gates=[fails])),
    "judge": lambda: one_round(hooks=Hooks(judge=fails_later)),
    "text rule": lambda: Engine(Scripted("Hi."), hooks=Hooks(text_rule=fails)),
    "prompt handler": lambda: Engine(Scripted("Hi."), hooks=Hooks(prompt_handlers=[fails_later])),
    "evaluator": lambda: Engine(Scripted("Hi."), hooks=Hooks(evaluate=fails)),
    "approval function": lambda: Engine(Scripted([call("pay")]), tools=[pay]),
    "subscriber": lambda: Engine(Scripted("Hi."), observers=Observers(subscribers=[fails_later])),
    "middleware": lambda: Engine(Scripted("Hi."), observers=Observers(middleware=[fails_on_exit])),
    "middleware on entry": lambda: Engine(Scripted("Hi."), observers=Observers(middleware=[fails_on_entry])),
    "deps": lambda: Engine(Scripted("Hi."), deps=fails_later),
    "deps at their end": lambda: Engine(Scripted("Hi."), deps=deps_that_fail_at_the_end),
    "system prompt function": lambda: Engine(Scripted("Hi."), system=fails),
    "check": lambda: Engine(Scripted("Hi."), until=Until(fails)),
    "a run ended by an error": lambda: Engine(
        Scripted(PLAN, "Hi."),
        tools=[work],
        policy=Policy(guards=("odd",)),
        hooks=Hooks(rules=[Rule("guard", "odd", "Odd.", (), lambda facts, policy: fails() if facts.steps else None)]),
    ),
}


async def end_of(engine: Engine[Any, Any]) -> None:
    with suppress(Bug, DepsFailed):
        await engine.run("go")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bug_is_logged_with_a_traceback_that_begins_in_the_users_code(
    kind: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    await end_of(KINDS[kind]())
    bugs = [record for record in caplog.records if record.exc_info]
    assert len(bugs) == 1, caplog.text
    (record,) = bugs
    assert record.levelno == logging.WARNING
    assert record.name == "endstop.engine"
    assert kind.startswith(record.event.removesuffix(" raised"))  # type: ignore[attr-defined]
    assert record.pathname == __file__
    text = logging.Formatter().format(record)
    assert "Bug: mine" in text
    files = [line for line in text.splitlines() if line.lstrip().startswith("File ")]
    assert __file__ in files[0]
    assert __file__ in files[-1]
    assert record.run_id.startswith("run_")  # type: ignore[attr-defined]
    assert capfd.readouterr().out == ""


async def test_the_same_line_is_logged_once_a_run_and_counted_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def two(line: int) -> str:
        """Fail in one of two lines."""
        if line == 1:
            raise Bug("one")
        raise Bug("two")

    steps = [[call("two", line=line)] for line in (1, 1, 2, 1)]
    engine = Engine(Scripted(*steps, DONE, *steps, DONE), tools=[two])
    for _ in range(2):
        caplog.clear()
        await engine.run("go")
        assert [record.event for record in caplog.records] == [  # type: ignore[attr-defined]
            "tool raised",
            "tool raised",
            "tool raised again 2 times",
        ]


def forgets(*arguments: Any) -> None:
    """Return nothing."""


@pytest.mark.parametrize("role", ["gates", "judge", "evaluate"])
async def test_a_hook_that_forgets_to_return_is_named_once(role: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(
        Scripted(*[PLAN] * 3, *[DONE] * 4),
        tools=[work],
        policy=Policy(max_inner_steps=1),
        hooks=Hooks(**{role: [forgets] if role == "gates" else forgets}),  # type: ignore[arg-type]
    )
    await engine.run("go")
    first = caplog.records[0].getMessage()
    assert "gave no usable answer" in first
    assert f"{__name__}:forgets" in first
    assert [record.event.partition(" again ")[0] for record in caplog.records[1:]] in (  # type: ignore[attr-defined]
        [],
        [caplog.records[0].event],  # type: ignore[attr-defined]
    )


async def test_a_gate_that_forgets_to_return_has_failed_and_the_model_and_the_log_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Scripted(DONE, "Well.")
    outcome = await Engine(model, hooks=Hooks(gates=[forgets])).run("go")
    assert outcome.accepted_by != f"{__name__}:forgets"
    assert "a gate answers Accept() or Reject(reason), not None" in str(model.requests[1].messages)
    assert "Accept" in caplog.text


async def test_a_hook_that_misses_its_deadline_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()

    async def slow(*arguments: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    engine = Engine(Scripted("Hi."), hooks=Hooks(prompt_handlers=[slow]), runtime=Runtime(clock=clock))
    async with engine.start("go") as run:
        await asyncio.wait_for(asked.wait(), 10)
        await clock.advance(3600)
        await run.wait()
    assert "prompt handler gave no usable answer" in caplog.text
    assert "no answer within" in caplog.text


async def test_what_a_tool_tells_the_model_is_no_bug(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    @tool
    def page(number: int) -> str:
        """Fetch a page."""
        raise InvalidArguments("there are 9 pages")

    ours = [call("read_file", path="missing"), call("page", number=10), call("page", number="x")]
    await Engine(Scripted(ours, "Hi."), tools=[page, *workspace_tools(tmp_path)]).run("go")
    assert caplog.records == []


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_would_end_the_process_is_logged_where_it_was_raised(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def leave() -> str:
        """Leave."""
        raise error

    await Engine(Scripted([call("leave")], "Hi."), tools=[leave]).run("go")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert "raise error" in caplog.text


async def test_a_cause_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def look() -> str:
        """Look."""
        try:
            return str({}["a"])
        except KeyError as error:
            raise Bug("no a") from error

    await Engine(Scripted([call("look")], "Hi."), tools=[look]).run("go")
    assert "KeyError: 'a'" in caplog.text
    assert "direct cause" in caplog.text


async def test_frames_of_ours_at_the_end_are_cut_too(caplog: pytest.LogCaptureFixture) -> None:
    async def judge(run: Any) -> Any:
        Engine(None)  # type: ignore[arg-type]

    await one_round(hooks=Hooks(judge=judge)).run("go")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], WrongUse)
    assert "validation.py" not in caplog.text


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MY_API_KEY", "sesame-open-12345678")
    return "sesame-open-12345678"


async def test_secrets_of_the_environment_are_masked_in_message_fields_and_traceback(
    secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def ask() -> str:
        """Ask."""
        raise Bug(f"401 for key {secret}")

    await Engine(Scripted([call("ask")], "Hi."), tools=[ask]).run("go")
    (record,) = caplog.records
    assert secret not in caplog.text + str(vars(record))
    assert "Traceback" in caplog.text
    assert "401 for key [redacted:" in caplog.text


def hides_mine(text: str) -> str:
    return text.replace("mine", "***")


@pytest.mark.parametrize("redact", [hides_mine, lambda text: 1 / 0 if "mine" in text else text])
async def test_the_users_redaction_is_applied_even_if_it_fails(redact: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(Scripted([call("broken")], "Hi."), tools=[broken], record_options=RecordOptions(redact=redact))
    await engine.run("go")
    assert "tool raised" in caplog.text
    assert "Bug: mine" not in caplog.text


class Pixels:
    """Something that no model can read."""


@pytest.mark.parametrize("value", [Pixels(), b"bytes", {"at": Pixels()}, len], ids=lambda value: type(value).__name__)
async def test_a_result_that_cannot_be_shown_to_the_model_is_logged(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    def draw() -> object:
        """Draw."""
        return value

    model = Scripted([call("draw")], [call("draw")], "It did not work.")
    await Engine(model, tools=[Tool(draw)]).run("Draw.")
    first, again = [record.getMessage() for record in caplog.records]
    assert "tool gave no usable answer" in first
    assert model.requests[1].messages[-1].content in first.replace("\\'", "'") or "cannot be shown" in first
    assert "again 1 time" in again


async def makes_nothing(ctx: Any) -> None:
    """Return nothing."""


@pytest.mark.parametrize(
    ("options", "said"),
    [({"until": forgets}, "check gave no usable answer"), ({"deps": makes_nothing}, "deps gave no usable answer")],
)
async def test_a_check_or_a_factory_that_forgets_to_return_is_logged(
    options: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    await Engine(Scripted("Hi.", "Hi."), **options).run("go")
    assert caplog.records[0].event == said  # type: ignore[attr-defined]


async def test_half_a_character_in_an_error_is_logged_as_a_replacement_so_that_any_handler_can_write_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    async def read() -> str:
        """Read."""
        raise ValueError("half: \ud83d")

    await Engine(Scripted([call("read")], "No."), tools=[read]).run("Read.")
    (record,) = caplog.records
    for text in (caplog.text, record.__dict__["error"], record.exc_text or ""):
        text.encode()
        assert "half: \ufffd" in text


class Broken(BaseModel):
    """A type whose validator has a bug."""

    city: str

    @field_validator("city")
    @classmethod
    def check(cls, value: str) -> str:
        return {}[value]  # type: ignore[no-any-return]


@dataclass
class BrokenToo:
    """The same in a dataclass."""

    city: str

    def __post_init__(self) -> None:
        self.city.uper()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Broken, BrokenToo])
async def test_a_bug_in_a_validator_of_an_argument_is_told_to_the_model_and_logged(
    kind: type, caplog: pytest.LogCaptureFixture
) -> None:
    def look(at: Any) -> str:
        """Look."""
        return "seen"

    look.__annotations__["at"] = kind
    model = Scripted([call("look", at={"city": "Rome"})], "I cannot.")
    outcome = await Engine(model, tools=[tool(look)]).run("Look.")
    assert outcome.status == "completed"
    assert "Error" in model.requests[1].messages[-1].content
    (record,) = caplog.records
    assert "look" in record.getMessage()
    assert __file__ in caplog.text


@pytest.mark.parametrize("kind", [Broken, BrokenToo])
async def test_a_bug_in_a_validator_of_the_output_is_logged(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    model = Scripted(*[[call("final_result", city="Rome")]] * 9)
    await Engine(model, output=kind).run("Where?")
    first = caplog.records[0]
    assert first.exc_info is not None
    assert __file__ in caplog.text


@dataclass
class Strict:
    """A type that refuses a value."""

    city: str

    def __post_init__(self) -> None:
        if self.city != "Rome":
            raise ValueError("only Rome")


async def test_a_value_that_a_validator_refuses_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    model = Scripted([call("final_result", city="Paris")], [call("final_result", city="Rome")])
    outcome = await Engine(model, output=Strict).run("Where?")
    assert outcome.output == Strict("Rome")
    assert caplog.records == []


async def test_a_tool_that_forgets_to_return_what_it_promises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def price(item: str) -> float:
        """Return a price."""
        float(len(item))  # type: ignore[return]

    @tool
    def note(text: str) -> str | None:
        """Note a text."""
        return None

    @tool
    def remember(text: str):  # type: ignore[no-untyped-def]
        """Remember a text."""

    calls = [call("price", item="a")], [call("note", text="a")], [call("remember", text="a")]
    await Engine(Scripted(*calls, "Done."), tools=[price, note, remember]).run("Go.")
    (record,) = caplog.records
    assert "price" in record.getMessage()
    assert "annotated -> float and returned None: a `return` is missing" in record.getMessage()


class Forgetful(BaseModel):
    """A type whose validator forgets to return."""

    city: str

    @model_validator(mode="after")
    def check(self) -> Any:
        self.city.strip()


async def test_a_validator_of_the_output_that_forgets_to_return_is_told_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Scripted(*[[call("final_result", city="Rome")]] * 9)
    outcome = await Engine(model, output=Forgetful).run("Where?")
    assert outcome.status != "completed"
    assert "returned None: return the value" in caplog.text


def tells(*arguments: Any) -> Any:
    raise InvalidArguments("2 pages are missing")


async def tells_later(*arguments: Any) -> Any:
    await asyncio.sleep(0)
    raise InvalidArguments("2 pages are missing")


@tool(kind="completion")
def finish(summary: str) -> str:
    """Finish."""
    if summary == "done":
        raise InvalidArguments("2 pages are missing")
    return summary


@tool
async def reports() -> AsyncIterator[str]:
    """Report."""
    yield "begun"
    raise InvalidArguments("2 pages are missing")


TELLING: dict[str, Callable[[Scripted], Engine[Any, Any]]] = {
    "gate": lambda model: Engine(model, hooks=Hooks(gates=[tells])),
    "async gate": lambda model: Engine(model, hooks=Hooks(gates=[tells_later])),
    "gate of an output": lambda model: Engine(model, output=Strict, hooks=Hooks(gates=[tells_later])),
    "check of until": lambda model: Engine(model, until=tells),
    "async check of until": lambda model: Engine(model, until=Until(tells_later)),
    "tool": lambda model: Engine(model, tools=[tool(name="work")(tells_no_arguments)]),
    "tool that reports progress": lambda model: Engine(model, tools=[reports.renamed("work")]),
    "completion tool": lambda model: Engine(model, tools=[finish], presets=()),
}
CALLS = {
    "gate of an output": [call("final_result", city="Rome")],
    "completion tool": [call("finish", summary="done")],
    "tool": PLAN,
    "tool that reports progress": PLAN,
}


def tells_no_arguments() -> str:
    """Work."""
    raise InvalidArguments("2 pages are missing")


@pytest.mark.parametrize("kind", TELLING)
async def test_what_is_told_to_the_model_with_invalid_arguments_is_no_bug(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Scripted(CALLS.get(kind, DONE), *["I cannot, and that is all."] * 9)
    await TELLING[kind](model).run("go")
    told = str(model.requests[1].messages[-1])
    assert "2 pages are missing" in told
    assert "InvalidArguments" not in told
    assert "failed:" not in told
    assert caplog.records == []


async def test_a_gate_that_raises_invalid_arguments_rejects_as_in_its_record_and_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    model = Scripted(*[DONE] * 9)
    outcome = await Engine(model, hooks=Hooks(gates=[tells])).run("go", record=path)
    assert outcome.stop_reason == "completion_rejected"
    said = [event for event in read_record(path).runs[0].events if isinstance(event, VerdictGiven)]
    assert {(event.said, event.detail) for event in said} == {("reject", "2 pages are missing")}
    assert (await replay(path)).same


async def test_a_gate_that_raises_it_without_a_text_still_names_it(caplog: pytest.LogCaptureFixture) -> None:
    def gate(completion: Any, run: Any) -> Any:
        raise InvalidArguments

    model = Scripted(DONE, "Well.")
    await Engine(model, hooks=Hooks(gates=[gate])).run("go")
    assert "InvalidArguments" in str(model.requests[1].messages)


@pytest.mark.parametrize("role", ["text_rule", "judge", "prompt_handlers", "evaluate"])
async def test_where_no_model_reads_it_it_is_a_bug(role: str, caplog: pytest.LogCaptureFixture) -> None:
    given = [tells] if role == "prompt_handlers" else tells
    await one_round(hooks=Hooks(**{role: given})).run("go")  # type: ignore[arg-type]
    assert "raised" in caplog.records[0].getMessage()
    assert "Traceback" in caplog.text
