"""Workers that freeze, wake, are asked to leave, or die as children of the server."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from .checked import check_record, resumptions
from .fleet import Fleet, Member, until
from .freezing import check_woken
from .script import Script

LONG = 120.0
"""A lease, in seconds, that no test outlives: what happens before it is over did not happen because it was over."""


async def test_a_worker_that_freezes_past_its_lease_repeats_nothing_and_works_on(ships: Fleet, tmp_path: Path) -> None:
    _, frozen = await asyncio.gather(ships.serve(), ships.worker())
    scripts = [Script(who=f"frozen-{number}", steps=16, hold=5 + number) for number in range(6)]
    ids = [await ships.start(script) for script in scripts]
    await until(lambda: all(len(ships.side.of(s.who).requests) == s.hold for s in scripts), "all are in a response")
    frozen.send(signal.SIGSTOP)
    for script in scripts:
        ships.model.open_gate(script.who)
    other = await ships.worker()
    for id in ids:
        await ships.reached(id, "completed")
    records = [(await ships.record(id, tmp_path)).read_bytes() for id in ids]
    woken = time.monotonic_ns()
    frozen.send(signal.SIGCONT)
    await until(lambda: "taken for dead" in frozen.said, "it finds out")
    last = Script(who="after", steps=5)
    await other.kill()
    id = await ships.start(last)
    await ships.reached(id, "completed")
    assert ships.side.of("after").askers == [frozen.name], "it works on"
    for script, session, record in zip(scripts, ids, records, strict=True):
        path = await ships.record(session, tmp_path)
        assert path.read_bytes() == record, "who woke wrote nothing"
        assert resumptions(await check_record(path, script)) == 1
        check_woken(ships.side.of(script.who), script, frozen=frozen, woken=woken, other=other)


async def test_a_worker_that_is_stopped_hands_its_sessions_over_within_seconds(ships: Fleet, tmp_path: Path) -> None:
    _, leaving = await asyncio.gather(ships.serve(), ships.worker("--grace", 0.2, lease=LONG))
    script = Script(who="handed", steps=16, hold=8)  # it waits there for the other, however long that takes to start
    id = await ships.start(script)
    await until(lambda: len(ships.side.of("handed").requests) == 8, "it is under way")
    other = await ships.worker(lease=LONG)
    began = time.monotonic()
    assert await leaving.stop() == 0
    left = time.monotonic() - began
    await until(lambda: ships.side.of("handed").requests[-1]["by"] == other.name, "it goes on")
    went_on = time.monotonic() - began
    ships.model.open_gate("handed")
    await ships.reached(id, "completed")
    assert ships.side.of("handed").faults(script) == []
    assert ships.side.of("handed").repeated_calls == 0
    assert resumptions(await check_record(await ships.record(id, tmp_path), script)) == 1
    assert max(left, went_on) < LONG, "long before its lease was over: it was handed over, and not taken for dead"


async def test_a_run_that_ends_within_the_grace_is_not_handed_over(ships: Fleet, tmp_path: Path) -> None:
    _, leaving = await asyncio.gather(ships.serve(), ships.worker("--grace", 30))
    script = Script(who="graced", steps=20)
    id = await ships.start(script)
    await until(lambda: len(ships.side.of("graced").requests) >= 3, "it is under way")
    assert await leaving.stop() == 0
    assert (await ships.session(id))["status"] == "completed"
    assert resumptions(await check_record(await ships.record(id, tmp_path), script)) == 0


async def test_a_child_of_the_server_that_dies_is_replaced_its_sessions_go_on_and_all_leave_when_the_server_is_killed(
    ships: Fleet, tmp_path: Path
) -> None:
    server = await ships.serve(workers=2, lease=LONG)
    scripts = [Script(who=f"child-{number}", steps=16, hold=5 + number) for number in range(4)]
    ids = [await ships.start(script) for script in scripts]
    await until(lambda: all(len(ships.side.of(s.who).requests) == s.hold for s in scripts), "all are in a response")
    victim = ships.side.of("child-0").calls[-1]["pid"]
    before = children(server)
    assert victim in before
    os.kill(victim, signal.SIGKILL)
    struck = time.monotonic_ns()
    hit = [s for s in scripts if ships.side.of(s.who).calls[-1]["pid"] == victim]
    for script in scripts:
        ships.model.open_gate(script.who)

    def gone_on() -> list[float] | None:
        later = [[c["t"] for c in ships.side.of(s.who).calls if c["pid"] != victim] for s in hit]
        return [(min(times) - struck) / 1e9 for times in later] if all(later) else None

    seconds = await until(gone_on, "its sessions go on in the other child")
    await until(lambda: len([pid for pid in children(server) if pid not in before]) >= 1, "it is replaced")
    for script, id in zip(scripts, ids, strict=True):
        await ships.reached(id, "completed")
        assert ships.side.of(script.who).faults(script) == []
        await check_record(await ships.record(id, tmp_path), script)
    assert max(seconds) < LONG, "long before its lease was over: that it died was noticed"
    both = children(server)
    assert len(both) == 2
    await server.kill()
    await until(lambda: not any(alive(child) for child in both), "the children have left")


def children(server: Member) -> list[int]:
    """The workers that a server has started."""
    tasks = Path(f"/proc/{server.pid}/task")
    pids = {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    return sorted(pid for pid in pids if alive(pid) and b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())


def alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
