"""A worker on a host of its own, as far as the kernel is concerned: a network namespace with two cables.

One cable leads to the database, the other one to the model. The first can be cut as real ones are: nobody is told, no
connection is refused or reset, whatever is sent is gone. Needs root and `ip` (Debian's iproute2).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

NOBODY = "02:00:00:00:00:99"
"""A hardware address that no card has."""
_numbers = count(1)


class Host:
    """A namespace whose database is at `database` and whose model is at `model`."""

    def __init__(self) -> None:
        place = os.getpid() % 20_000 * 8 + next(_numbers)
        self.name = f"endstop-{place:x}"
        self._cards = {kind: (f"ef{kind}{place:x}", f"et{kind}{place:x}") for kind in ("d", "m")}
        third = place % 250
        self.database, self._there_database = f"10.213.{third}.1", f"10.213.{third}.2"
        self.model, self._there_model = f"10.214.{third}.1", f"10.214.{third}.2"
        self.before = ("ip", "netns", "exec", self.name)
        """Words before a command that is to run there."""

    def make(self) -> None:
        """Lay the cables. Raises subprocess.CalledProcessError where that is not allowed."""
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        places = {"d": (self.database, self._there_database), "m": (self.model, self._there_model)}
        for kind, (here, there) in self._cards.items():
            ours, theirs = places[kind]
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
            _ip("addr", "add", f"{ours}/24", "dev", here)
            _ip("link", "set", here, "up")
            _ip("-n", self.name, "addr", "add", f"{theirs}/24", "dev", there)
            _ip("-n", self.name, "link", "set", there, "up")

    def cut(self) -> None:
        """Cut the cable to the database: either side sends to a card that is not there."""
        here, there = self._cards["d"]
        _ip("neigh", "replace", self._there_database, "lladdr", NOBODY, "dev", here, "nud", "permanent")
        _ip("-n", self.name, "neigh", "replace", self.database, "lladdr", NOBODY, "dev", there, "nud", "permanent")

    def heal(self) -> None:
        """Mend it: both sides ask anew where the other one is."""
        here, there = self._cards["d"]
        _ip("neigh", "del", self._there_database, "dev", here)
        _ip("-n", self.name, "neigh", "del", self.database, "dev", there)

    def remove(self) -> None:
        """Take it all away."""
        for here, _ in self._cards.values():
            _ip("link", "del", here, check=False)
        _ip("netns", "del", self.name, check=False)


@contextmanager
def host() -> Iterator[Host]:
    """Another host, or a skipped test where none can be made."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` here: apt-get install iproute2")
    made = Host()
    try:
        made.make()
    except subprocess.CalledProcessError as refused:
        made.remove()
        pytest.skip(f"no network namespace can be made here (it takes root): {refused.stderr.strip()}")
    try:
        yield made
    finally:
        made.remove()


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True)
