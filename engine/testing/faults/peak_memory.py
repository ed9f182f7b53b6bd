"""Measures the peak growth of the process's memory, as counted by the operating system."""

from __future__ import annotations

import sys
from contextlib import suppress


class PeakMemory:
    """Growth of the process's largest resident memory since this object was created, in bytes.

    On Linux, the peak is reset for each object. On other systems, a peak counts only if it exceeds all earlier ones; on
    Windows it is not known and `grown` is 0.
    """

    def __init__(self) -> None:
        with suppress(OSError), open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")  # Linux, proc(5): resets the peak to what is resident now
        self._before = _peak()

    @property
    def grown(self) -> int:
        """Growth in bytes."""
        return max(0, _peak() - self._before)


def _peak() -> int:
    """Return the largest resident memory of the process so far, in bytes; 0 if it is not known."""
    if sys.platform == "win32":
        return 0
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as status:
        line = next((line for line in status if line.startswith(b"VmHWM")), b"VmHWM: 0 kB")
        return int(line.split()[1]) * 1024
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
