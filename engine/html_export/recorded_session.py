"""What a page contains of a record: its session's summary, its events, and those of its sub-agents' records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ..analysis.report import RecordDigest, digest_record
from ..analysis.sampling import partly_read
from ..decision import POLICIES, Policy
from ..decision.call_judgement import CallJudgement, SessionJudge
from ..decision.events import SubagentStarted
from ..records.format import encode_line
from ..records.recorder import is_being_written
from ..records.scan import scan
from ..viewer.catalog import REDACTED, CatalogEntry
from ..viewer.session_detail import detailed_session, record_verdict
from ..viewer.session_list import SessionRows
from .request_table import RequestTableBuilder
from .session_html import EmbeddedSession

_decode = msgspec.msgpack.Decoder(RecordDigest).decode


def embed_record(path: Path, source: Path, policies: Sequence[Policy] = tuple(POLICIES.values())) -> EmbeddedSession:
    """Return the session of a record, with its unreadable parts as its `notices`. Raises WrongUse as a scan does.

    path: the record, which may be a copy. source: the file known to people, whose name and time are shown. policies:
    those that the verdict compares.
    """
    digest = _decode(digest_record(path))
    record = scan(path, parts=True, attachments=True)
    events: list[bytes] = []
    requests, judge = RequestTableBuilder(), SessionJudge()
    judged: dict[int, CallJudgement] = {}
    for event in record:
        if (known := judge.feed(event)) is not None:
            judged[len(events)] = known
        events.append(encode_line(event))
        requests.feed(event)
    notices = []
    if (partly := partly_read("", record.damaged_lines, record.lost, "exported")) is not None:
        notices.append(partly.why)
    if record.incomplete:
        notices.append(f"part of the text of {record.incomplete} of its responses is missing")
    if record.missing:
        notices.append(
            f"{len(record.missing)} of its attachments were not found: those results have only their beginning"
        )
    if record.redacted:
        notices.append(REDACTED)
    if is_being_written(source):
        notices.append("it was still being written when it was exported")
    entry = CatalogEntry(
        path=path,
        file=source.name.encode("utf-8", "replace").decode(),
        id=digest.runs[0].session_id,
        runs=digest.runs,
        trouble="; ".join(notices) or None,
        changed=source.stat().st_mtime,
        is_written=False,
    )
    summary = detailed_session(entry, SessionRows().row(entry))
    return EmbeddedSession(
        summary=summary,
        verdict=record_verdict(path, policies, file=entry.file, is_written=False),
        header=record.header,
        events=events,
        judged=judged,
        notices=notices,
        requests=requests.table(),
    )


def subagent_records(path: Path) -> Iterator[Path]:
    """Yield the records of the sub-agents of a record and of their sub-agents, each once, as far as they exist here."""
    seen = {path.resolve()}
    waiting = [path]
    while waiting:
        here = waiting.pop(0)
        for event in scan(here):
            if isinstance(event, SubagentStarted) and event.record:
                found = here.parent / event.record
                if found.is_file() and found.resolve() not in seen:
                    seen.add(found.resolve())
                    waiting.append(found)
                    yield found
