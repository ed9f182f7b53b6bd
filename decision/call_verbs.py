"""The effects that a call may have, and the effect that the verb in a tool's name tells, as in `get_user`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Effect = Literal["reads", "changes", "checks", "waits", "controls", "unknown"]
"""What a call does.

- `reads`: it gets information, and leaves everything as it was;
- `changes`: it writes, moves or deletes something, or has something done in the world;
- `checks`: it runs tests, a build, a compiler or a linter;
- `waits`: it waits, or asks for the progress of something that runs;
- `controls`: it does no work: a completion, a question to the user, a plan, a thought;
- `unknown`: the call does not show it, as `python script.py`.
"""
MAX_NAME = 200
"""Longer names say nothing; so the cache of names has at most 100 kB."""


MAX_FILES = 20
"""Files that are named of one call."""


class CallEffect(Struct, frozen=True):
    """What one call does."""

    effect: Effect
    checks: bool = False
    """Whether it checks, too: `cat > a.py <<EOF ...; pytest` changes and checks."""
    files: tuple[str, ...] = ()
    """For a change: the files that it writes, moves or deletes, as far as the arguments name them; at most `MAX_FILES`.
    A file that is only read is never among them."""
    scripts: tuple[str, ...] = ()
    """The scripts that it runs and of which the call does not show what they do, as in `python3 analyze.py`."""


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_READING_VERBS = frozenset(
    "get list read search find fetch view show describe query lookup calculate compute count compare inspect retrieve"
    " browse open grep glob cat ls head tail tree explore peek scan analyze analyse summarize summarise detect download"
    " load display print preview check validate verify resolve select filter sort think estimate measure monitor ping"
    " status info details history stat scroll goto locate outline diff screenshot snapshot observe look see recall"
    " lint weather is has exists".split()
)
_CHANGING_VERBS = frozenset(
    "write edit create apply patch replace insert delete remove book cancel update send modify exchange return set add"
    " put post save append move copy rename rm mkdir touch make upload push commit merge publish submit pay purchase"
    " buy order schedule reschedule refund transfer assign unassign close archive enable disable start stop restart"
    " install uninstall deploy release drop clear reset undo redo toggle approve reject grant revoke register"
    " subscribe unsubscribe invite notify reply forward email message comment draft upsert import sync store overwrite"
    " format refactor fix generate reserve confirm checkout change mark lock unlock trigger launch terminate kill"
    " charge credit debit deposit withdraw block unblock issue void".split()
)
_CHANGING_ANYWHERE = frozenset({"replace", "write", "patch", "edit", "delete", "insert"})


@lru_cache(maxsize=512)
def verb_effect(name: str) -> Effect:
    """Return the effect that a name's first known verb tells, as in `get_user`. Names over 200 characters tell none."""
    words = [word.lower() for word in _WORDS.findall(name)] if len(name) <= MAX_NAME else []
    for at, word in enumerate(words):
        if word in _READING_VERBS:
            return (
                "changes"
                if at + 1 < len(words) and _CHANGING_ANYWHERE.intersection(words[at + 1 : at + 3])
                else "reads"
            )
        if word in _CHANGING_VERBS:
            return "changes"
        if word in ("test", "tests", "build", "compile", "typecheck"):
            return "checks"
        if word in ("wait", "sleep", "poll"):
            return "waits"
    return "unknown"
