"""Where a run comes from, if it is not simply begun with a prompt: a fork, an import, a call of another run."""

from __future__ import annotations

from msgspec import Struct


class ParentCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The call whose tool is a sub-agent."""

    session_id: str
    run_id: str
    call_id: str


class SessionSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an imported session was found, by which labels of other programs name it."""

    file: str = ""
    """Path of its file, beginning with the folder that was searched, or that the file is in: `gpt-4o/task_3.traj`."""
    place: str = ""
    """Where in the file it is, such as `line 3`; empty if it is the whole file."""
    id: str = ""
    """The session's own id; made with the file's name if it has none, or one that is unique only in its file."""


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a forked run comes from. The events before `at` are copies, and were paid for and counted there."""

    session_id: str
    run_id: str
    at: int
    """Number of the first event that is not a copy: the decision that the fork makes anew, or, for an earlier run of
    the session that was copied whole, the number after its last event."""
    edited: tuple[str, ...] = ()
    """Ids of the calls whose results were replaced in the copy."""
    changed: tuple[str, ...] = ()
    """Fields of RUN_STARTED that differ from the origin's, such as `policy`, `model` or `prompt`."""


IMPORT_PREFIX = "import:"
"""How `RunStarted.engine` begins in a record that was imported; the name of the format follows."""


def is_imported(engine: str) -> bool:
    """Whether a record was imported from another program's. engine: `RunStarted.engine` of its runs."""
    return engine.startswith(IMPORT_PREFIX)
