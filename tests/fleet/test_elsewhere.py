"""What a server is asked for sessions that run in other processes: they are read, steered, cancelled and answered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from endstop.records.format import encode_line

from ..console import endstop
from ..engine.web.ag_ui_reader import Reader as AgUiReader
from .checked import check_record
from .fleet import PATIENCE, Fleet, until
from .reading import Reader
from .script import Script

pytestmark = pytest.mark.long


async def test_a_reader_on_the_server_sees_each_event_once_over_a_workers_death(ships: Fleet, tmp_path: Path) -> None:
    _, one, two = await asyncio.gather(ships.serve(), ships.worker(), ships.worker())
    script = Script(who="read", steps=25, pace=0.005)
    id = await ships.start(script)
    run_id = (await ships.session(id))["run_id"]
    reading = asyncio.create_task(Reader(ships, run_id).read())
    ledger = await until(lambda: (found := ships.side.of("read")).lines and found, "the session begins")
    await until(lambda: len(ships.side.of("read").requests) >= 12, "step 12")
    await {one.name: one, two.name: two}[ledger.requests[0]["by"]].kill()
    reader = await reading
    record = await ships.record(id, tmp_path)
    run = await check_record(record, script)
    assert len(ships.side.of("read").askers) == 2, "it went on in the other worker"
    assert ships.side.of("read").faults(script) == []
    assert reader.numbers == list(range(1, len(run.events) + 1))
    assert [json.loads(line) for line in reader.lines] == [json.loads(encode_line(event)) for event in run.events]
    later = await Reader(ships, run_id).read()
    assert later.lines == reader.lines, "who comes later sees the same"
    replayed = await endstop("replay", record, "--json")
    assert replayed.code == 0, replayed


async def test_an_ag_ui_client_reads_a_legal_stream_over_a_workers_death(ships: Fleet, tmp_path: Path) -> None:
    _, *workers = await asyncio.gather(ships.serve(), ships.worker(), ships.worker())
    script = Script(who="chat", steps=16, pace=0.005)
    said = {"id": "m1", "role": "user", "content": script.prompt()}
    asked = {"threadId": "t", "runId": "r", "messages": [said], "tools": [], "context": [], "state": {}}
    reader = AgUiReader()

    async def read() -> None:
        async with ships.http.post(f"{ships.url}/ag-ui", json=asked) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                if line.startswith(b"data: "):
                    reader.read([line[6:-1]])

    reading = asyncio.create_task(read())
    await until(lambda: len(ships.side.of("chat").calls) >= 10, "it is under way")
    owner = ships.side.of("chat").askers[-1]
    await next(worker for worker in workers if worker.name == owner).kill()
    async with asyncio.timeout(PATIENCE):
        await reading
    assert len(ships.side.of("chat").askers) == 2, "it went on in the other worker"
    assert ships.side.of("chat").faults(script) == []
    assert len(reader.of("RUN_FINISHED")) == 1
    assert reader.events[-1].type == "RUN_FINISHED"
    assert len(reader.customs("endstop.run_resumed")) == 1


async def test_a_session_that_runs_elsewhere_hears_what_is_said_and_is_cancelled(ships: Fleet, tmp_path: Path) -> None:
    await asyncio.gather(ships.serve(), ships.worker())
    spoken, cancelled = Script(who="spoken", steps=8, hold_call=4), Script(who="cancelled", steps=8, hold=4)
    spoken_id, cancelled_id = await ships.start(spoken), await ships.start(cancelled)
    await until(lambda: [call for call in ships.side.of("spoken").calls if call["step"] == 4], "its call is held")
    await until(lambda: len(ships.side.of("cancelled").requests) == 4, "its response is held")
    await ships.ask("POST", f"/sessions/{spoken_id}/messages", {"text": "Mind the gap"}, status=202)
    await ships.ask("POST", f"/sessions/{cancelled_id}/cancel", {"cause": "enough"}, status=202)
    await ships.reached(cancelled_id, "cancelled")
    assert '"cause":"enough"' in (await ships.record(cancelled_id, tmp_path)).read_text()
    await until(lambda: ships.side.of("cancelled").lines[-1]["what"] == "lost", "the model's stream is closed")
    ships.model.open_gate("spoken")
    await ships.reached(spoken_id, "completed")
    heard = {line["step"]: line["heard"] for line in ships.side.of("spoken").requests}
    assert heard[4] == []
    assert heard[5] == heard[8] == ["Mind the gap"]
    assert ships.side.of("spoken").faults(spoken) == []
    assert len(ships.side.of("cancelled").requests) == 4


async def test_a_paused_run_is_answered_after_all_workers_were_replaced(ships: Fleet, tmp_path: Path) -> None:
    _, before = await asyncio.gather(ships.serve(), ships.worker())
    script = Script(who="asked", steps=8, ask=4)
    id = await ships.start(script)
    told = await ships.reached(id, "awaiting_input")
    assert told["question"]["text"] == "May asked go on?"
    assert await before.stop() == 0
    await ships.ask("POST", f"/sessions/{id}/answers", {"text": "Yes, go on."}, status=201)
    assert (await ships.session(id))["status"] == "queued", "nobody is there to take it"
    after = await ships.worker()
    await ships.reached(id, "completed")
    await check_record(await ships.record(id, tmp_path), script)
    ledger = ships.side.of("asked")
    assert ledger.askers == [before.name, after.name]
    assert ledger.faults(script) == []
    assert ledger.repeated_requests == ledger.repeated_calls == 0


async def test_a_session_goes_on_in_another_worker_with_its_next_prompt(ships: Fleet, tmp_path: Path) -> None:
    _, one = await asyncio.gather(ships.serve(), ships.worker())
    id = await ships.start(Script(who="first", steps=4))
    await ships.reached(id, "completed")
    await one.kill()
    await ships.worker()
    second = Script(who="second", steps=4)
    await ships.ask("POST", f"/sessions/{id}/runs", {"prompt": second.prompt()}, status=201)
    await ships.reached(id, "completed")
    told = await ships.session(id)
    assert [run["status"] for run in told["runs"]] == ["completed", "completed"]
    assert ships.side.of("second").faults(second) == []
