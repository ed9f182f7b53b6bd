"""Takes this process, and all that it starts from then on, into a network in which there is nothing but loopback."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_FLAGS, _UP = 0x8914, 0x1
"""SIOCSIFFLAGS and IFF_UP of Linux."""


def leave_network() -> bool:
    """Leave it; return whether the system allows it. Who is not root becomes the only user of a namespace for that."""
    user, group = os.geteuid(), os.getegid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_NETWORK | (_NEW_USER if user else 0)):
            return False
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
    except (AttributeError, OSError):
        return False
    return True
