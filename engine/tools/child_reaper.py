"""Separate program that runs one command and kills all its descendants when it ends.

    python -I -S child_reaper.py LIFELINE COMMAND [ARGUMENT ...]

It runs between endstop and the command. On Linux it is the subreaper of the command (PR_SET_CHILD_SUBREAPER, prctl(2)),
so that every descendant stays below it, even one that left its session or forked twice. It kills them all when the
command ends, or when LIFELINE is closed, a descriptor whose other end endstop holds: also if endstop dies. It exits
with the command's status.

It drops the capabilities with which root may read the memory and environment of other processes (capabilities(7)), so
that a command run by root cannot read endstop's keys. It does not import endstop, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 24, 36
LOOKING = {"SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39}
"""Capabilities that let a process read another process, or the kernel. The numbers are those of linux/capability.h."""
KILLING_SECONDS = 3.0
"""Maximum seconds to wait for descendants that cannot be killed (another user's, or stuck in the kernel)."""


def main() -> None:
    """Run the command of the command line."""
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    adopting = adopt()
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)  # only the lifeline or the command ends it
    command = start(sys.argv[2:])
    ended = wait(command, lifeline, reading)
    if adopting:
        kill_all()
    else:
        kill_group(command)
    leave_as(ended)


def adopt() -> bool:
    """Become the subreaper of all descendants, and drop the capabilities to read other processes.

    Returns whether this process is now a subreaper, which is only possible on Linux.
    """
    if not sys.platform.startswith("linux"):
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in LOOKING.values():
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # has no effect unless we are root
    return bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def start(words: list[str]) -> int:
    """Start the command in a new session, and return its process id."""
    child = os.fork()
    if child:
        for output in (1, 2):  # only the command keeps it open, so that its reader sees the end
            os.dup2(os.open(os.devnull, os.O_RDWR), output)
        return child
    try:
        os.setsid()
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                with suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def wait(command: int, lifeline: int, woken: int) -> int | None:
    """Return the command's exit status as `waitpid` returns it; None if the lifeline was closed before it ended."""
    while True:
        try:
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if child == command:
                    return status
                if child == 0:
                    break
        except ChildProcessError:
            return None
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            return None
        try:
            while os.read(woken, 4096):
                pass
        except BlockingIOError:
            pass


def kill_all() -> None:
    """Kill every descendant, including those started meanwhile. Gives up after `KILLING_SECONDS`."""
    until = time.monotonic() + KILLING_SECONDS
    while time.monotonic() < until:
        for process in descendants():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def kill_group(command: int) -> None:
    """Kill the rest of the command's process group: the best that is possible without subreapers."""
    with suppress(OSError):
        os.killpg(command, signal.SIGKILL)


def descendants() -> list[int]:
    """Return the ids of all living descendants of this process, parents first."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                parents.setdefault(int(fields[1]), []).append(int(name))
    found = [os.getpid()]
    for process in found:
        found += parents.get(process, [])
    return found[1:]


def leave_as(status: int | None) -> None:
    """Exit with the command's exit code, or by the signal that killed it."""
    if status is None:
        os._exit(137)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()
