"""One session of an agent, as its hooks know it: its record, its state, and a lock on both.

Each event of the agent is a process of its own. The record is appended to, as by any follower. What the next process
needs stands in the state beside it, which is replaced as a whole, so that each process costs the same at any length of
the session. The state is the truth about how far the record goes: what a killed process has written after it is cut
off, since the agent has got no answer to it. Without a state that can be read, it is read from the record.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from ..base.version import __version__
from ..decision import Policy, WrongUse
from ..follow.follower_snapshot import FollowerSnapshot, snapshot_of_record
from .payloads import HookEvent

try:
    import fcntl
except ImportError:  # not every platform has it
    _LOCKS = False
else:
    _LOCKS = True

LOCK_SECONDS = 2.0
"""Seconds for which a process waits for others of its session."""
LOCK_PAUSE = 0.005
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


class HookBusy(Exception):
    """Other processes of the session were at work for `LOCK_SECONDS`."""


class BegunCall(Struct, kw_only=True):
    """A call that the agent has said it begins."""

    tool: str
    arguments: str
    id: str = ""
    """The agent's; empty if it gives none."""
    result: str | None = None
    """None until it has ended; for ever if it was not run."""
    failed: bool = False


class Stage(Struct, kw_only=True):
    """How far it has come with a circle: nothing, denied, ended."""

    why: str = ""
    """What happens again and again; empty if nothing does."""
    circle: tuple[int, ...] = ()
    """The marks of the calls that are repeated; empty if it is not known which."""
    denied: int = 0
    """Number of calls that were denied."""
    ended: bool = False
    """Whether the agent was told to end."""
    said: bool = False
    """Whether the person was told."""


class CheckMemory(Struct, kw_only=True):
    """What is known of `--until` from one end of the agent to the next."""

    work: str = ""
    """Fingerprint of the work that was checked last."""
    at_prompt: str = ""
    """Fingerprint of the work at the latest prompt; empty if it was not taken."""
    sent_on: int = 0
    """Number of times in a row that the agent was sent on."""
    told: str = ""
    """With what it was sent on last."""


class HookState(Struct, kw_only=True):
    """What a process needs of those before it."""

    version: str = __version__
    record_bytes: int = 0
    """Length of the record, as far as this state knows it."""
    follower: FollowerSnapshot | None = None
    turn: str = ""
    """The agent's id of the prompt that it works on."""
    calls: int = 0
    """Number of calls in the record."""
    begun: list[BegunCall] = []
    """The calls of the step that is being made."""
    untold: str = ""
    """What the model is to be told beside its next result."""
    stage: Stage = msgspec.field(default_factory=Stage)
    check: CheckMemory = msgspec.field(default_factory=CheckMemory)
    proxy: str | None = None
    """What a proxy before the agent does: `acts`, `checks`, both, or nothing; None if nobody has asked."""


_DECODER = msgspec.json.Decoder(HookState)


class HookSession:
    """The files of one session, or of one of its sub-agents. Only inside `locked` may they be read or written."""

    def __init__(self, folder: Path, session: str, subagent: str = "") -> None:
        name = _file_name(session) + (f".{_file_name(subagent)}" if subagent else "")
        self.id = f"{session}.{subagent}" if subagent else session
        """The session's id in its record."""
        self.record = folder / f"{name}.jsonl"
        self.guarded = folder / f"{name}.guarded"
        """The originals of guarded files."""
        self._state_file = folder / f"{name}.state"
        self._lock_file = folder / f"{name}.lock"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes of the session waiting. Raises HookBusy."""
        with session_lock(self._lock_file, LOCK_SECONDS):
            yield

    def load(self, policy: Policy) -> HookState:
        """Return the state after the latest event. policy: for a session without one."""
        state, size = self._read_state(), self._record_bytes()
        if state is not None and state.version == __version__ and size >= state.record_bytes:
            if size > state.record_bytes:
                os.truncate(self.record, state.record_bytes)
            return state
        return self._rebuilt(policy) if size else HookState()

    def save(self, state: HookState) -> None:
        """Replace the state as a whole. Raises OSError."""
        state.record_bytes = self._record_bytes()
        new = self._state_file.with_suffix(".new")
        try:
            new.write_bytes(msgspec.json.encode(state))
            os.replace(new, self._state_file)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise

    def _read_state(self) -> HookState | None:
        try:
            return _DECODER.decode(self._state_file.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _rebuilt(self, policy: Policy) -> HookState:
        """Return the state as far as the record tells it. A file that is no record is put aside."""
        try:
            snapshot = snapshot_of_record(self.record, self.id, policy)
        except WrongUse:
            os.replace(self.record, self.record.with_suffix(".broken"))
            return HookState()
        calls = snapshot.facts.tool_calls + snapshot.before.tool_calls
        return HookState(follower=snapshot, calls=calls)

    def _record_bytes(self) -> int:
        try:
            return self.record.stat().st_size
        except FileNotFoundError:
            return 0


@contextmanager
def session_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a session's files. path: of the lock. Raises HookBusy if others hold it for so many seconds.

    Who holds it may delete the file; those who wait for it then take the lock of the new one.
    """
    ends = time.monotonic() + seconds
    while True:
        with open(path, "ab") as file:
            while _LOCKS and not _taken(file.fileno()):
                if time.monotonic() >= ends:
                    raise HookBusy(f"other hooks of session {path.stem} have worked for {seconds:g} seconds")
                time.sleep(LOCK_PAUSE)
            if not _LOCKS or _is_at(path, file.fileno()):
                yield
                return


def _is_at(path: Path, file: int) -> bool:
    """Return whether an open file still has this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False


def session_of(event: HookEvent, folder: Path) -> HookSession:
    """Return the session in which an event has happened."""
    return HookSession(folder, event.session, event.subagent)


def _file_name(id: str) -> str:
    """Return a name for files that no id can lead out of the folder."""
    return id if _PLAIN_NAME.match(id) else blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
