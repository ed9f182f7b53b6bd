"""The kept results of a run, as they are sent: all that is carried goes with each heartbeat."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...durability import NotKept, StepKey

LIMIT = 2_000_000
"""Bytes that one heartbeat may carry. The server's own limit is 2 MiB (`limit.blobSize.error`), and what goes beyond it
fails the run."""
CARRIED = 128_000
"""Bytes of results of older steps that are carried besides those of the latest two: whoever goes on has them in its
record, and each heartbeat would send them again."""
_RECENT = 2
_ENVELOPE = 64
"""Bytes that are sent around each result; they are 40 or so."""


@dataclass(frozen=True)
class _Entry:
    step: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data) + _ENVELOPE


class Results:
    """What is kept on the server, what is waiting to be, and which of it goes with the next heartbeat."""

    def __init__(self, kept: Iterable[bytes] = ()) -> None:
        """kept: what came with the run, as it was sent."""
        self._values: dict[str, Any] = {}
        self._kept: dict[str, _Entry] = {}
        self._waiting: dict[str, _Entry] = {}
        for data in kept:
            key, step, value = json.loads(data)
            self._values[key] = value
            self._kept[key] = _Entry(step, data)

    def __contains__(self, key: StepKey) -> bool:
        return str(key) in self._values

    def __getitem__(self, key: StepKey) -> Any:
        return self._values[str(key)]

    def waits(self, key: StepKey) -> bool:
        """Whether this result has yet to be sent."""
        return str(key) in self._waiting

    def put(self, key: StepKey, value: Any) -> None:
        """Have a result sent. Raises NotKept if it can never be."""
        text = json.dumps([str(key), key.step, value], ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")  # as `json.loads` reads it
        entry = _Entry(key.step, data)
        if entry.size > LIMIT:
            raise NotKept(f"the result of {key} has {entry.size:,} bytes, and Temporal keeps {LIMIT:,} at the most")
        self._values[str(key)] = value
        self._waiting[str(key)] = entry

    def next(self) -> dict[str, bytes]:
        """What the next heartbeat carries, the oldest first: what waits, as far as it fits, and what was kept."""
        chosen: dict[str, bytes] = {}
        room = LIMIT
        for key, entry in self._waiting.items():
            if entry.size > room:
                break
            chosen[key] = entry.data
            room -= entry.size
        carried: dict[str, bytes] = {}
        latest = max((entry.step for entry in [*self._kept.values(), *self._waiting.values()]), default=0)
        older = min(room, CARRIED)
        for key, entry in reversed(self._kept.items()):
            recent = entry.step > latest - _RECENT
            if entry.size > (room if recent else min(room, older)):
                continue
            carried[key] = entry.data
            room -= entry.size
            older -= 0 if recent else entry.size
        return {**dict(reversed(carried.items())), **chosen}

    def sent(self, sent: dict[str, bytes]) -> None:
        """The server has exactly this now."""
        known = {**self._kept, **self._waiting}
        self._kept = {key: known[key] for key in sent}
        for key in sent:
            self._waiting.pop(key, None)
        self._values = {key: self._values[key] for key in [*self._kept, *self._waiting]}
