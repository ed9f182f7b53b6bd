"""Our own process, closed to what it starts: its environment and memory hold keys."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4


def harden_process() -> None:
    """Let no other process of this user read the environment and the memory of this one (Linux, prctl(2)).

    For processes of the command line alone, never for one that only imports us: such a process leaves no core dump,
    and no debugger but root's can be attached to it. What the platform cannot give: root may still look, but for the
    commands that `child_reaper.py` starts; systems other than Linux have nothing of the kind.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
