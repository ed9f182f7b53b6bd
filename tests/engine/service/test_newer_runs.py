"""Runs that a newer version has begun beside this one, with settings that are not known here."""

from __future__ import annotations

import pytest
from endstop import Engine
from endstop.providers import Scripted
from endstop.service.history import NewerRun, load_runs
from endstop.service.service import Service
from endstop.store.leases import this_process
from msgspec.structs import replace

from ..temporary_store import TemporaryStore, opened

ADD = """UPDATE endstop_pages
    SET lines = CAST(replace(CAST(lines AS TEXT), '"policy":{', '"policy":{"new_setting":1,') AS BLOB)"""


async def test_a_run_whose_begin_cannot_be_read_is_not_gone_on_with_and_the_error_says_why() -> None:
    store, engine = TemporaryStore(), Engine(Scripted("One."))
    async with opened(store):
        await store.join(replace(this_process("worker"), about={}))  # pages are not compressed beside an older one
    async with Service(engine, store=store.copy(), grace=0) as service:
        session = await service.start("Hi")
        await service.outcome(session.run_id or "", wait=5)
        written = service.store.copy()
    async with opened(written):
        assert (await load_runs(engine.session(session.id), written)).transcript.messages
        written.execute(ADD)
        with pytest.raises(NewerRun, match=rf"{session.run_id} was begun by a newer endstop.*upgrade this process"):
            await load_runs(engine.session(session.id), written)
