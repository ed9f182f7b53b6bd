"""Records that several threads read at once, in a process that has read none before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECORD = Path(__file__).parent.parent.parent / "records" / "port.jsonl"
READS = """
import sys, threading
from endstop.records.format import decode_line

lines = open(sys.argv[1], "rb").read().splitlines()
first = {line[:24]: line for line in lines}  # one of each type
start, read = threading.Barrier(len(first)), []

def work(line):
    start.wait()
    for _ in range(50):
        decode_line(line)
    read.append(line)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(line,)) for line in first.values()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(read) == len(first), read
"""


@pytest.mark.parametrize("number", range(3))
def test_threads_that_read_their_first_record_at_once_do_not_crash(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS, RECORD], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
