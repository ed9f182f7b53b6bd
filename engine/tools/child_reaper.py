"""A program of its own: runs one command and sees to it that nothing of it outlives it.

    python -I -S child_reaper.py LIFELINE COMMAND [ARGUMENT ...]

It stands between whoever starts a command and the command. All that the command starts is its descendant and stays so,
also what has left its session or was forked twice: this process is their subreaper (Linux, prctl(2)). When the command
ends, or LIFELINE (a descriptor whose other end the starter holds) is closed, be it because the starter died, all of
them are killed. It ends as the command did.

Descendants lose for good the capabilities by which root looks into the memory and the environment of other processes
(capabilities(7)): root's commands cannot do it to those that have them, as their starter has. It imports nothing of
endstop: it has to start quickly.
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
"""Capabilities by which one process looks into another one, or into the kernel."""
KILLING_SECONDS = 3.0
"""How long descendants that cannot be killed (another user's, stuck in the kernel) are waited for."""


def main() -> None:
    """Run the command that was given."""
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    adopting = adopt()
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)  # only the lifeline ends it, or the command
    command = start(sys.argv[2:])
    ended = wait(command, lifeline, reading)
    if adopting:
        kill_all()
    else:
        kill_group(command)
    leave_as(ended)


def adopt() -> bool:
    """Become the parent of all descendants that lose theirs, and take from them what looks into other processes."""
    if not sys.platform.startswith("linux"):
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in LOOKING.values():
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # of no effect unless we are root
    return bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def start(words: list[str]) -> int:
    """The command, in a session of its own."""
    child = os.fork()
    if child:
        for output in (1, 2):  # the command's alone: who reads it must see where it ends
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
    """How the command ended, as `waitpid` says it; None if the lifeline was closed before."""
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
    """Kill every descendant, and those that they start meanwhile."""
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
    """Kill what is left of the command's process group: all that can be known where there are no subreapers."""
    with suppress(OSError):
        os.killpg(command, signal.SIGKILL)


def descendants() -> list[int]:
    """The processes that come from this one, parents first: a dead shell says nothing of what it had started."""
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
    """End as the command did: with its exit code, or by the signal that killed it."""
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
