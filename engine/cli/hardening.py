"""Hardening of this process against the commands that it starts: its environment and memory hold API keys."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4


def harden_process() -> None:
    """Keep other processes of this user from reading the environment and memory of this one (Linux, prctl(2)).

    Only for processes of the command line, never for a program that imports endstop: the process leaves no core dump,
    and only root can attach a debugger. Root can still read it, except for the commands that `tools/child_reaper.py`
    starts. Other systems have no equivalent.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
