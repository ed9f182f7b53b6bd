"""Where a run comes from, if it is not simply begun with a prompt: a fork, an import, an earlier run, another one."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .messages import Usage
from .outcome import CutSavings, Question, SubagentUse


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


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State that a run takes over from earlier ones: what they had used, and their open questions."""

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
    phases: tuple[dict[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()
    """Questions that are still open; the run starts with the answer to one of them."""
    context_tokens: int = 0
    """Size of the context in tokens; if it is too large, it is compacted before the next request."""


IMPORT_PREFIX = "import:"
"""How `RunStarted.engine` begins in a record that was imported; the name of the format follows."""


def is_imported(engine: str) -> bool:
    """Whether a record was imported from another program's. engine: `RunStarted.engine` of its runs."""
    return engine.startswith(IMPORT_PREFIX)
