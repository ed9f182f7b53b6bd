"""What the runs of a session used before a follower was told to go on with it: its record is read once."""

from __future__ import annotations

from os import PathLike

from ..decision import Facts, WrongUse, fold
from ..decision.events import Carried, RunStarted, ToolCallStart
from ..decision.facts import add_usage, usage_of
from ..records.scan import Scan


def earlier_runs(path: str | PathLike[str], session_id: str) -> tuple[Carried, set[str]]:
    """Return what the runs of this session in a record used in all, and the ids of their calls.

    Both are empty where the record holds no run of the session.
    """
    used, ids = Carried(), set[str]()
    facts: Facts | None = None
    try:
        for event in Scan(path, parts=True):
            if type(event) is RunStarted:
                if facts is not None and event.continues is None:
                    used = add_usage(used, usage_of(facts))
                facts = Facts() if event.session_id == session_id else None
            if facts is not None:
                facts = fold(facts, event)
                if type(event) is ToolCallStart:
                    ids.add(event.call_id)
    except WrongUse:
        pass  # its process was killed before a run began
    return used if facts is None else add_usage(used, usage_of(facts)), ids
