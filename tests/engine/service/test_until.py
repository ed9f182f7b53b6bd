"""Sessions that bring their own check."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Until
from endstop.decision import WrongUse
from endstop.providers import Scripted, call
from endstop.service.errors import Forbidden
from endstop.service.service import Service
from endstop.tools import workspace_tools

from ..temporary_store import TemporaryStore

CLAIM = [call("finish_task", summary="The port is 8080.")]
WRITE = [call("write_file", path="server.conf", content="port = 8080\n")]
CHECK = "grep -q 8080 server.conf"


def service_in(folder: Path, *responses: Any, **options: Any) -> Service:
    (folder / "server.conf").write_text("port = 80\n")
    engine = Engine(Scripted(*responses), tools=workspace_tools(folder))
    return Service(engine, **{"store": TemporaryStore(), "grace": 0, "allow_until": True, **options})


async def test_a_session_ends_when_the_check_of_its_client_is_met(tmp_path: Path) -> None:
    async with service_in(tmp_path, CLAIM, WRITE, CLAIM) as service:
        session = await service.start("Set the port", until=CHECK, metadata={"user": 7})
        outcome = await service.outcome(str(session.run_id), wait=30)
        session = await service.session(session.id)
    assert (outcome.stop_reason, outcome.work, outcome.checked_by) == ("until_met", "checked", CHECK)
    assert session.metadata == {"user": 7, "endstop.until": {"commands": [CHECK]}}


async def test_without_the_operators_word_no_command_of_a_client_runs(tmp_path: Path) -> None:
    async with service_in(tmp_path, CLAIM, allow_until=False) as service:
        with pytest.raises(Forbidden, match="--allow-until") as refused:
            await service.start("Set the port", until="touch ran")
        assert refused.value.code == "until"
        assert (await service.sessions())[0] == []
    assert not (tmp_path / "ran").exists()


HOSTILE = ["true\0", ["true " + "x" * 20_000], "echo '", {"commands": "true", "guard": ["../*"]}]


@pytest.mark.parametrize("until", ["", ["  "], {"commands": "true", "inside": "sh"}, "no_such_program --x", *HOSTILE])
async def test_a_check_that_cannot_work_starts_no_session(tmp_path: Path, until: Any) -> None:
    async with service_in(tmp_path, CLAIM) as service:
        with pytest.raises(WrongUse):
            await service.start("Set the port", until=until)
        assert (await service.sessions())[0] == []
        assert service.running == 0


async def test_a_check_that_can_no_longer_work_once_the_session_is_admitted_leaves_none_running(tmp_path: Path) -> None:
    async with service_in(tmp_path, CLAIM, CLAIM) as service:
        admit = service._admission.admit

        def admit_late(*given: Any) -> Any:
            (tmp_path / "server.conf").unlink(missing_ok=True)
            return admit(*given)

        service._admission.admit = admit_late  # type: ignore[method-assign]
        with pytest.raises(WrongUse, match="fits no file"):
            await service.start("Set the port", until={"commands": CHECK, "guard": ["*.conf"]}, session_id="mine")
        assert service.running == 0
        assert (await service.start("Set the port", session_id="mine")).id == "mine"


async def test_the_event_loop_goes_on_while_guarded_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    verify = Until.verify

    def seen(until: Until, tools: Any) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        verify(until, tools)

    monkeypatch.setattr(Until, "verify", seen)
    async with service_in(tmp_path, CLAIM, WRITE, CLAIM) as service:
        session = await service.start("Set the port", until={"commands": CHECK, "guard": ["*.conf"]})
        await service.outcome(str(session.run_id), wait=30)
    assert threads
    assert not any(threads)


async def test_the_next_run_of_a_session_has_its_check_in_another_process_too(tmp_path: Path) -> None:
    store = TemporaryStore()
    async with service_in(tmp_path, WRITE, CLAIM, store=store) as service:
        first = await service.start("Set the port", until={"commands": CHECK, "from_failing": False})
        await service.outcome(str(first.run_id), wait=30)
    async with service_in(tmp_path, CLAIM, CLAIM, WRITE, CLAIM, store=store) as service:
        second = await service.start_run(first.id, "Somebody set it back: once more")
        outcome = await service.outcome(str(second.run_id), wait=30)
    assert (outcome.stop_reason, outcome.checked_by) == ("until_met", CHECK)


async def test_a_process_without_the_operators_word_does_not_continue_a_session_with_a_check(tmp_path: Path) -> None:
    store = TemporaryStore()
    async with service_in(tmp_path, WRITE, store=store) as service:
        first = await service.start("Set the port", until=CHECK)
        await service.outcome(str(first.run_id), wait=30)
    async with service_in(tmp_path, CLAIM, store=store, allow_until=False) as service:
        with pytest.raises(Forbidden, match="--allow-until"):
            await service.start_run(first.id, "Once more")


async def test_the_operator_can_say_where_the_commands_of_clients_run(tmp_path: Path) -> None:
    def in_a_box(settings: Any) -> Any:
        return type(settings)(commands=settings.commands, inside="env BOX=1").build()

    async with service_in(tmp_path, WRITE, CLAIM, allow_until=in_a_box) as service:
        session = await service.start("Set the port", until='test "$BOX" = 1 && ' + CHECK)
        outcome = await service.outcome(str(session.run_id), wait=30)
    assert outcome.stop_reason == "until_met"
