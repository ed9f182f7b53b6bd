"""Records of the library: to `endstop.<part>`, at the user's levels, with fields in the message and on the record."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from endstop import Engine, Hooks, Observers, tool
from endstop.observers import log_run
from endstop.process.daemon import log_to_stderr
from endstop.providers import RateLimited, Scripted, call
from endstop.providers._logging import CodeLine, log, log_warning
from hypothesis import given
from hypothesis import strategies as st

MISTAKES = """
import asyncio, logging, threading
from endstop import Engine, Hooks, Observers, tool
from endstop.observers import log_run
from endstop.providers import Scripted, call
from endstop.tools import loop_watchdog
loop_watchdog.BLOCKED_SECONDS = 0.05
named = threading.Event()

class Names(logging.Filter):
    def filter(self, record):
        if "blocks the event loop" in record.getMessage():
            named.set()
        return True

logging.getLogger("endstop.tools").addFilter(Names())

@tool
async def blocks() -> str:
    "Block the loop."
    assert named.wait(30)
    raise KeyError("a")

def fails(*given):
    raise ValueError("mine")

hooks = Hooks(gates=[fails], prompt_handlers=[fails], evaluate=fails)
done = [[call("finish_task", summary="x")]] * 9
engine = Engine(Scripted([call("blocks")], *done), tools=[blocks], hooks=hooks,
                observers=Observers(subscribers=[fails, log_run]))
asyncio.run(engine.run("go"))
"""


@tool
def broken() -> str:
    """Fail."""
    raise KeyError("a")


def run_with_warnings() -> Engine[Any, Any]:
    model = Scripted([call("broken", id="c1")], RateLimited("slow"))
    return Engine(model, tools=[broken], observers=Observers(subscribers=[log_run]))


def test_a_program_with_warnings_of_many_kinds_prints_nothing_on_stdout_and_loses_none() -> None:
    done = subprocess.run([sys.executable, "-c", MISTAKES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    for said in ("blocks the event loop", "tool raised", "gate raised", "handler raised", "evaluator raised"):
        assert said in done.stderr


async def test_all_records_are_those_of_loggers_of_endstop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await run_with_warnings().run("go")
    names = {record.name for record in caplog.records if record.name != "asyncio"}
    assert names == {"endstop.engine", "endstop.observers"}
    assert [record.levelname for record in caplog.records if record.name == "endstop.engine"] == ["WARNING"]


@pytest.mark.parametrize(("name", "left"), [("endstop", set()), ("endstop.engine", {"endstop.observers"})])
async def test_a_level_silences_all_of_it_or_one_part(
    name: str, left: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger(name).setLevel(logging.ERROR)
    try:
        await run_with_warnings().run("go")
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)
    assert {record.name for record in caplog.records} == left


async def test_a_formatter_finds_the_fields_on_the_record(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await run_with_warnings().run("go")
    (record,) = [record for record in caplog.records if record.name == "endstop.engine"]
    fields = json.loads(json.dumps(vars(record), default=str))
    assert (fields["event"], fields["run_id"], fields["call_id"]) == ("tool raised", outcome.run_id, "c1")
    assert record.getMessage().startswith(f"tool raised function={__name__}:broken error=\"KeyError: 'a'\" run_id=")


def test_a_record_points_at_its_caller_or_at_a_given_line(caplog: pytest.LogCaptureFixture) -> None:
    namespace = {"__name__": "endstop.tools.mine", "__package__": "endstop.tools", "log_warning": log_warning}
    exec(compile("def warn():\n    log_warning('odd', tool='x')\nwarn()", "mine.py", "exec"), namespace)
    log(logging.WARNING, "odd", {}, place=CodeLine("theirs.py", 7, "f"))
    assert [(record.name, record.filename, record.lineno, record.funcName) for record in caplog.records] == [
        ("endstop.tools", "mine.py", 2, "warn"),
        ("tests.providers", "theirs.py", 7, "f"),
    ]


@pytest.mark.parametrize("name", ["name", "msg", "args", "module", "process", "thread", "message", "asctime", "event"])
def test_a_field_with_the_name_of_an_attribute_of_every_record_collides_with_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_warning("odd", **{name: "mine"})
    (record,) = caplog.records
    assert getattr(record, f"{name}_") == "mine"
    assert record.getMessage() == f"odd {name}=mine"


@given(st.text())
def test_no_text_looks_like_another_field_or_line(text: str) -> None:
    kept: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = kept.append  # type: ignore[method-assign]
    logger = logging.getLogger("tests.providers")
    logger.addHandler(handler)
    try:
        log_warning("odd", text=text, last=1)
    finally:
        logger.removeHandler(handler)
    said = kept[0].getMessage()
    assert said.isprintable()
    assert said.endswith(" last=1")
    assert " " not in said.removesuffix(" last=1").removeprefix("odd text=") or said.startswith(
        ("odd text='", 'odd text="')
    )


def test_a_percent_sign_is_no_format(caplog: pytest.LogCaptureFixture) -> None:
    log_warning("100 %s of it", share="%d")
    assert caplog.records[0].getMessage() == "100 %s of it share=%d"


async def test_our_programs_write_one_line_a_record_to_stderr_and_then_no_more(
    capfd: pytest.CaptureFixture[str],
) -> None:
    engine = Engine(Scripted([call("broken")], "Hi."), tools=[broken], hooks=Hooks())
    with log_to_stderr(lambda text: text.replace("KeyError", "***")):
        await engine.run("go")
    await Engine(Scripted([call("broken")], "Hi."), tools=[broken]).run("go")
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("timestamp=")
    assert ' level=warning event="tool raised" function=' in line
    assert 'exception="Traceback (most recent call last):' in line
    assert "KeyError" not in line
    assert logging.getLogger("endstop").handlers == []
