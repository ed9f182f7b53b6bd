"""A process of this machine that is gone is known by its number and start time, and none is taken for it in doubt."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from endstop.store import leases
from endstop.store.leases import is_gone, this_process
from msgspec.structs import replace

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")


def test_this_process_is_there_under_a_new_name_each_time() -> None:
    one, two = this_process("serve"), this_process("worker", lease_seconds=3)
    assert (one.kind, one.pid, one.lease_seconds, two.kind, two.lease_seconds) == (
        "serve",
        os.getpid(),
        15,
        "worker",
        3,
    )
    assert one.id != two.id
    assert {"boot", "namespace", "start"} <= set(one.about)
    assert not is_gone(one)


def test_a_number_that_another_process_has_by_now_is_of_one_that_is_gone() -> None:
    me = this_process("serve")
    assert is_gone(replace(me, about={**me.about, "start": "1"}))


def test_a_process_that_ended_is_gone_also_while_it_is_a_zombie() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    me = this_process("serve")
    there = replace(me, pid=child.pid, about={**me.about, "start": leases._state(child.pid)[1]})
    assert not is_gone(there)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken note
    assert is_gone(there)
    child.wait()
    assert is_gone(there)


@pytest.mark.parametrize("what", ["host", "boot", "namespace"])
def test_a_process_elsewhere_is_never_gone(what: str) -> None:
    me = this_process("serve")
    gone = replace(me, about={**me.about, "start": "1"})
    assert not is_gone(
        replace(gone, host="other") if what == "host" else replace(gone, about={**gone.about, what: "x"})
    )
    empty = {name: value for name, value in gone.about.items() if name != what}
    assert not is_gone(replace(gone, host="") if what == "host" else replace(gone, about=empty))


def test_nothing_is_gone_where_nothing_can_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process("serve")
    assert not is_gone(replace(me, about={name: me.about[name] for name in ("boot", "namespace")}))
    assert not is_gone(replace(me, pid=0, about={**me.about, "start": "1"}))
    monkeypatch.setattr(leases, "_read", lambda path: me.about["boot"] if "boot_id" in str(path) else "")
    assert not is_gone(me)  # /proc hides it, and the kernel says that it is there
    monkeypatch.setattr(leases, "_read", lambda path: "")
    assert not is_gone(replace(me, about={**me.about, "start": "1"}))  # there is no /proc
    bare = this_process("serve")
    assert set(bare.about) == {"namespace", "pages"}
    assert not is_gone(bare)
