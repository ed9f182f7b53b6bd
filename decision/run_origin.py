"""Origin of a run that does not begin with a prompt alone: a call of another run, an import, a fork, an earlier run."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .messages import Name, Text, Usage
from .outcome import CutSavings, Question, SubagentUse


class ParentCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The call of another run that started this run as a sub-agent."""

    session_id: str
    run_id: str = ""
    """Empty for an imported sub-agent: its files do not name an endstop run."""
    call_id: Name = ""
    """Empty for an imported sub-agent whose file does not name the call."""


class SessionSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """File and place in which an imported session was found. Labels that other programs made refer to these."""

    file: Text = ""
    """Path of the file, relative to the folder that was searched or that holds the file: `gpt-4o/task_3.traj`."""
    place: str = ""
    """Place of the session in the file, such as `line 3`; empty if it is the whole file."""
    id: Text = ""
    """Id that the session has in its file. It contains the file's name if the session has no id, or one that is unique
    only in that file."""


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run that a forked run was copied from. The events before `at` are copies: their cost counts in that run."""

    session_id: str
    run_id: str
    at: int
    """Number of the first event that is not a copy: the decision that the fork makes again, or, for an earlier run of
    the session that was copied whole, the number after its last event."""
    edited: tuple[Name, ...] = ()
    """Ids of the calls whose results were replaced in the copy."""
    changed: tuple[str, ...] = ()
    """Fields of RUN_STARTED that differ from the origin's, such as `policy`, `model` or `prompt`."""


class Grants(Struct, frozen=True, omit_defaults=True):
    """What a run was granted beyond its limit of steps."""

    steps: int = 0
    """Total number of steps of all grants."""
    times: int = 0
    """Number of grants."""
    at: int = 0
    """The step at which the latest grant was made."""
    refused: bool = False
    """Whether the user was asked for more steps and refused."""


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State that a run takes over from earlier runs: their usage and their open questions."""

    steps: int = 0
    rounds: int = 0
    requests: int = 0
    tool_calls: int = 0
    rejections: int = 0
    usage: Usage = Usage()
    subagents: SubagentUse | None = None
    saved: CutSavings | None = None
    elapsed_ms: int = 0
    reminded: tuple[str, ...] = ()
    grants: Grants = Grants()
    phases: tuple[dict[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()
    """Questions that are still open; the run starts with the answer to one of them."""
    context_tokens: int = 0
    """Size of the context in tokens; if it is too large, it is compacted before the next request."""


IMPORT_PREFIX = "import:"
"""Beginning of `RunStarted.engine` in an imported record; the name of the format follows it."""


FOLLOW_PREFIX = "follow:"
"""Beginning of `RunStarted.engine` in the record of a foreign loop that was followed live; the loop's name follows
it."""


def is_foreign(engine: str) -> bool:
    """Return whether a foreign loop, not endstop, made the run: nothing declares which of its tools only read."""
    return engine.startswith((IMPORT_PREFIX, FOLLOW_PREFIX))


def is_imported(engine: str) -> bool:
    """Return whether a record was imported from another program. engine: `RunStarted.engine` of its runs."""
    return engine.startswith(IMPORT_PREFIX)
