"""What this process is called and where it runs, and whether a process of the same machine is gone.

A lease tells that a process is dead once it is over. On the same machine that is known at once: a process number
together with the time at which the kernel started it belongs to one process only, until the next boot.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from .._version import __version__
from .enrolled import Process

LEASE = 15.0
"""Seconds for which a process that is not heard of is believed to be alive."""
_START = 19
"""Place of the start time (field 22) behind the name of a process, which may hold anything but ends with a `)`."""


def this_process(kind: str, *, lease_seconds: float = LEASE) -> Process:
    """Name this process anew. `kind`: `service`, `serve` or `worker`."""
    host = socket.gethostname()
    about = {"boot": _boot(), "namespace": _namespace(), "start": _state(os.getpid())[1]}
    return Process(
        id=f"process_{uuid4().hex[:12]}",
        kind=kind,
        host=host,
        pid=os.getpid(),
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        lease_seconds=lease_seconds,
        version=__version__,
        about={name: value for name, value in about.items() if value},
    )


def is_gone(process: Process) -> bool:
    """Whether it ran where this process runs, and is certainly there no more. False in any doubt.

    proc(5) says what is read here, and pid_namespaces(7) when numbers can be compared.
    """
    here = (socket.gethostname(), _boot(), _namespace())
    start = process.about.get("start", "")
    there = (process.host, process.about.get("boot", ""), process.about.get("namespace", ""))
    if there != here or not all(there) or not start or process.pid <= 0:
        return False
    state, started = _state(process.pid)
    if started:
        return started != start or state in "ZX"
    return not _can_be_there(process.pid)


def _boot() -> str:
    return _read(Path("/proc/sys/kernel/random/boot_id")).strip()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state(pid: int) -> tuple[str, str]:
    """State and start time; both empty if they cannot be read."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (fields[0], fields[_START]) if len(fields) > _START else ("", "")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _can_be_there(pid: int) -> bool:
    """`/proc` may hide the processes of others; the kernel tells of them nevertheless."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
