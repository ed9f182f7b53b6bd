"""The record file of a session: read to go on in it, and compared with the session before a run writes to it.

A file holds one session, and a session that appends to it has read all of it. Otherwise whoever goes on from the file
would read runs that had not read each other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .decision import WrongUse
from .journal import Journal
from .records.compression import is_compressed
from .records.reader import SessionRecord, last_event, last_seq, read_record
from .records.recorder import is_being_written
from .validation import preview

if TYPE_CHECKING:
    from .resume_point import ResumePoint


def read_session_record(path: str | os.PathLike[str]) -> SessionRecord:
    """Read a record so that its session goes on in the same file.

    Raises WrongUse if it cannot be read, is compressed or being written, or is not the record of one session that goes
    on by itself, as that of a sub-agent.
    """
    if not isinstance(path, str | os.PathLike):
        raise WrongUse(f"record is {preview(path)}: write the path of a record, as in engine.resume('work.jsonl')")
    if is_being_written(path):
        raise WrongUse(
            f"{path} is being written by another run: wait for its end. To look at it meanwhile, use read_record"
        )
    record = read_record(path)
    if is_compressed(path):
        raise WrongUse(f"{path} is compressed and cannot be appended to: decompress it first")
    own, parent = record.header.session_id, record.runs[0].started.parent
    if parent is not None:
        raise WrongUse(
            f"{path} is the record of a sub-agent, which goes on when its caller does: resume the record of session "
            f"{parent.session_id}"
        )
    others = {run.started.session_id for run in record.runs} - {own}
    if others:
        raise WrongUse(
            f"{path} holds runs of several sessions ({', '.join([own, *sorted(others)])}), which had not read each "
            "other: resume a record of one session, or give its messages to a new one with history="
        )
    return record


def check_end(journal: Journal, point: ResumePoint) -> None:
    """Refuse to resume a run whose record was written to since it was read: another process has resumed it."""
    last = None if journal.path is None else last_seq(journal.path)
    if last is not None and last != point.last.seq:
        raise WrongUse(
            f"{journal.path} has changed since it was read: its last event is {last}, and the run was to go on after "
            f"event {point.last.seq}. Somebody else has resumed it: read the record again"
        )


def check_not_answered(journal: Journal, end: tuple[str, int]) -> None:
    """Refuse an answer if the record goes on after `end`: another process may have answered, and run the calls."""
    last = None if journal.path is None else last_event(journal.path)
    if last is not None and last != end:
        raise WrongUse(
            f"{journal.path} has changed since it was read: its last event is not the end of run {end[0]}. Somebody "
            "else may have answered: read the record again"
        )


def check_all_read(journal: Journal, end: tuple[str, int] | None) -> None:
    """Refuse a prompt if the record goes on after `end`, or if nothing of it was read.

    end: the latest run of the session, and its last event; None if it has none. A record that ends before that, because
    it could not be written, is accepted.
    """
    last = None if journal.path is None else last_event(journal.path)
    if last is None:
        return
    run_id, seq = last
    if end is None or run_id not in (None, end[0]) or seq > end[1]:
        known = "this session has not read it" if end is None else f"this session knows it up to run {end[0]}"
        raise WrongUse(
            f"{journal.path} holds more of its session, and {known}: go on in it with "
            f"`engine.resume({journal.path!r})`, or name another file"
        )
