"""A script in a fork, for whoever can only start a program: `python -IS fork_client.py NAME SCRIPT ARGUMENTS`.

NAME is that of `forked.Forks`. The fork has the streams, the environment and the folder of this process, which ends as
the fork does. To be started it needs a hundredth of what a new interpreter needs to import, say, mcp. SIGTERM kills
the fork.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> int:
    """Have the script run, and return its exit code; that of a signal is negative."""
    name, script, *arguments = sys.argv[1:]
    told, tells = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forks:
        forks.connect(b"\0endstop-" + name.encode())
        request = {"arguments": arguments, "env": dict(os.environ), "cwd": os.getcwd(), "script": script}
        request["dies_with_the_tests"] = True
        socket.send_fds(forks, [json.dumps(request).encode()], [0, 1, 2, tells])
    os.close(tells)
    with open(told) as says:
        pid = int(says.readline())
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
        return int(says.readline())


if __name__ == "__main__":
    sys.exit(main())
