"""List of sessions: a row for each file of the catalog, filtered, sorted, and one page at a time."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct

from ..analysis.endings import short_ending
from ..analysis.programs import UNKNOWN_PROGRAM, program_name
from ..analysis.report import label_runs
from ..analysis.scoring import Ratings
from ..analysis.session_filters import filter_values
from ..analysis.summary import RunSummary
from ..analysis.task_titles import TaskTitles, session_name
from ..decision import Usage
from ..decision.outcome import Work
from ..formats.parsing import format_time, parse_time
from ..http.problems import HttpError
from ..http.session_schemas import SessionResponse
from .catalog import CatalogEntry, ReadingProgress

UNREADABLE = "unreadable"
"""Status of a file that cannot be read."""
Sort = Literal["newest", "oldest", "steps", "tokens", "cost", "duration", "errors", "title", "agent", "ending"]
Check = Literal["passed", "failed", "not checked", "unknown"]
FILTERS = (
    "status", "reason", "ending", "check", "tool", "agent", "model", "policy", "kind", "failed", "ended", "run_ending",
    "work", "trouble", "reached",
)  # fmt: skip
"""The filters by one value of several, which the list's menus offer."""
_SORTS = ("newest", "oldest", "steps", "tokens", "cost", "duration", "errors", "title", "agent", "ending")
_DESCENDING = frozenset({"newest", "steps", "tokens", "cost", "duration", "errors"})
CHECKS: dict[Work | None, Check] = {"checked": "passed", "wrong": "failed", "said": "not checked", None: "unknown"}
"""What is known of the work, in the words of the list."""
T = TypeVar("T")
Word = Annotated[str, Meta(min_length=1, max_length=500)]


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selection of the sessions to list."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    """`next` of the previous page."""
    sort: str = "newest"
    """One of `Sort`; a leading `-` reverses the order."""
    status: Word | None = None
    reason: Word | None = None
    """A stop reason."""
    ending: Word | None = None
    """How it ended, in the words of the list."""
    check: Check | None = None
    """What is known of the work."""
    tool: Word | None = None
    """A tool that was called."""
    agent: Word | None = None
    model: Word | None = None
    errors: Literal["1"] | None = None
    """Only sessions in which a call or a request failed."""
    policy: Word | None = None
    """Policy of one of its runs. The next ones, too, are about one of its runs (`analysis/session_filters.py`)."""
    kind: Word | None = None
    failed: Word | None = None
    """A tool of which a call failed."""
    ended: Word | None = None
    run_ending: Word | None = None
    work: Word | None = None
    trouble: Word | None = None
    reached: Word | None = None
    ids: Annotated[str, Meta(min_length=1, max_length=60_000)] | None = None
    """Only these sessions: their ids, each percent-encoded, with commas between them."""
    q: Word | None = None
    """A text that occurs in the session."""


class TextMatch(Struct, frozen=True, kw_only=True):
    """First place in a session where a text occurs."""

    run: int
    step: int
    """Number of the step; 0 for the prompt."""
    seq: int
    excerpt: str


class ListedSession(SessionResponse, frozen=True, kw_only=True):
    """A session in the list."""

    name: str
    """Name of its file, or its id."""
    ending: str
    """How the latest run ended, in a few words; that it cannot be read, or is running, if it did not end."""
    check: Check
    """What is known of the work. `not checked`: it was reported as done."""
    model: str
    """Model of the latest run; `unknown` if it is not recorded."""
    tokens: int
    """Input and output tokens of all runs."""
    cost_usd: float | None
    """Cost in US dollars; None if no price is known."""
    duration_ms: int
    tool_calls: int
    errors: int
    """Number of failed calls and requests."""
    tools: list[str]
    """Names of the tools that were called."""
    file: str
    """Path below the viewed folder."""
    groups: dict[str, list[str]]
    """What filters select it by, besides its other fields: values by the filter's name."""
    match: TextMatch | None = None
    """With a search: where the text occurs."""


class ListedSessions(Struct, frozen=True, kw_only=True):
    """One page of the list."""

    sessions: list[ListedSession]
    next: str | None
    """`before` of the next page; None if there is none."""
    total: int
    """Number of matching sessions."""
    reading: ReadingProgress | None
    """Progress of reading; None once all files are read. Before that, the list is partial."""
    searching: ReadingProgress | None = None
    """With a search: progress of the text index; None once it has all files."""


def decode_query(given: Iterable[tuple[str, str]], kind: type[T]) -> T:
    """Return the query of a request. A parameter without a value counts as omitted. Raises HttpError (400)."""
    values: dict[str, str] = {}
    for name, value in given:
        if name in values:
            raise HttpError(400, "invalid", f"the query has {name[:50]!r} twice")
        if value:
            values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HttpError(400, "invalid", f"the query is not valid: {error}") from None


def decode_list_query(given: Iterable[tuple[str, str]]) -> ListQuery:
    """Return the query of a request for the list. Raises HttpError (400)."""
    query = decode_query(given, ListQuery)
    if query.sort.removeprefix("-") not in _SORTS:
        known = f"use one of {', '.join(_SORTS)}, or one of them after a `-`"
        raise HttpError(400, "invalid", f"`sort` is {query.sort[:50]!r}: {known}")
    return query


class SessionRows:
    """The rows of the list. A row is made again when its file, or what its title must differ from, has changed."""

    def __init__(self) -> None:
        self._titles = TaskTitles()
        self._rows: dict[str, tuple[CatalogEntry, int, ListedSession]] = {}

    def rows(self, entries: Sequence[CatalogEntry]) -> list[ListedSession]:
        """Return the rows of all files that are listed."""
        for entry in entries:
            self._add(entry)
        if len(self._rows) > len(entries):
            self._rows = {entry.id: self._rows[entry.id] for entry in entries if entry.id in self._rows}
        return [self._row(entry) for entry in entries]

    def row(self, entry: CatalogEntry) -> ListedSession:
        """Return the row of a file, which may be one that is not listed."""
        self._add(entry)
        return self._row(entry)

    def _row(self, entry: CatalogEntry) -> ListedSession:
        version = self._titles.version(_task(entry).task)
        known = self._rows.get(entry.id)
        if known is None or known[0] is not entry or known[1] != version:
            known = entry, version, _listed_session(entry, self._titles)
            self._rows[entry.id] = known
        return known[2]

    def _add(self, entry: CatalogEntry) -> None:
        known = self._rows.get(entry.id)
        if known is None or known[0] is not entry:
            self._titles.add(_task(entry).task, _task(entry).task_key)


def _task(entry: CatalogEntry) -> RunSummary:
    """Return the run whose prompt is the session's task: the first that has one, as an agent may speak first."""
    return next((run for run in entry.runs if run.task), _NO_RUN)


_NO_RUN = RunSummary(run_id="", session_id="")


def _listed_session(entry: CatalogEntry, titles: TaskTitles) -> ListedSession:
    runs = _own(entry) or list(entry.runs)
    latest = entry.runs[-1] if entry.runs else None
    usage = sum((run.used.usage for run in runs), Usage())
    changed = format_time(entry.changed).replace("+00:00", "Z")
    status = _status(entry, latest)
    task, name = _task(entry), _name(entry)
    return ListedSession(
        id=entry.id,
        name=name,
        agent=UNKNOWN_PROGRAM if latest is None else program_name(latest.engine),
        title=titles.title(task.task, task.task_key, name),
        status=status,  # type: ignore[arg-type]  # `unreadable` besides
        ending=_ending(status, latest),
        check=CHECKS[latest.work if latest is not None else None],
        stop_reason=(latest.stop_reason or None) if latest else None,
        created_at=entry.runs[0].started_at if entry.runs else "",
        updated_at=changed,
        run_id=latest.run_id if latest else None,
        steps=sum(run.used.steps for run in runs),
        question=None,
        questions=[],
        usage=usage,
        can_resume=False,
        holder=None,
        trouble=entry.trouble,
        model=next((run.model for run in reversed(entry.runs) if run.model), "unknown"),
        tokens=usage.input_tokens + usage.output_tokens,
        cost_usd=usage.cost_usd,
        duration_ms=sum(run.used.ms for run in runs),
        tool_calls=sum(run.used.calls for run in runs),
        errors=sum(run.errors for run in runs),
        tools=sorted({name for run in entry.runs for name in run.tools}),
        file=entry.file,
        groups={name: sorted(values) for name, values in filter_values(label_runs(_own(entry), Ratings())).items()},
    )


def _own(entry: CatalogEntry) -> list[RunSummary]:
    """Return its runs without those that a fork copied."""
    return [run for run in entry.runs if not run.is_copy]


def _name(entry: CatalogEntry) -> str:
    source = entry.runs[0].source if entry.runs else None
    if source is not None and source.file:
        return session_name(source.file, not source.place, entry.id)
    return entry.id if entry.runs else entry.file


def _ending(status: str, run: RunSummary | None) -> str:
    if run is None:
        return "cannot be read"
    if run.ending:
        return short_ending(run.ending)
    return short_ending("running" if status == "running" else "cut_off")


def _status(entry: CatalogEntry, run: RunSummary | None) -> str:
    if run is None:
        return UNREADABLE
    return run.status or ("running" if entry.is_written else "interrupted")


# ---- filters, order, pages


def select_sessions(
    sessions: Iterable[ListedSession], query: ListQuery, matches: Mapping[str, Any] | None = None
) -> tuple[list[ListedSession], str | None, int]:
    """Return one page of the matching sessions, the `before` of the next page, and the number of matches.

    matches: with `q`, the ids of the sessions in which the text occurs. Raises HttpError (400) for a `before` that no
    page has returned.
    """
    named = None if query.ids is None else frozenset(map(unquote, query.ids.split(",")))
    found = [session for session in sessions if _matches(session, query, named, matches)]
    ordered = sorted(found, key=lambda session: _position(session, query.sort))
    begin = 0
    if query.before is not None:
        after = _read_cursor(query.before, query.sort)
        begin = next((i for i, one in enumerate(ordered) if _position(one, query.sort) > after), len(ordered))
    page = ordered[begin : begin + query.limit]
    more = begin + query.limit < len(ordered)
    return page, _write_cursor(query.sort, page[-1]) if more else None, len(ordered)


def _matches(
    session: ListedSession, query: ListQuery, named: Container[str] | None, matches: Container[str] | None
) -> bool:
    return (
        all(
            wanted is None or wanted in _values(session, name)
            for name, wanted in ((name, getattr(query, name)) for name in FILTERS)
        )
        and (query.errors is None or session.errors > 0)
        and (named is None or session.id in named)
        and (matches is None or session.id in matches)
    )


def _values(session: ListedSession, name: str) -> Sequence[str]:
    """Return the values of a session for one of `FILTERS`."""
    match name:
        case "status":
            return [session.status]
        case "reason":
            return [session.stop_reason] if session.stop_reason else []
        case "ending":
            return [session.ending]
        case "check":
            return [session.check]
        case "agent":
            return [session.agent]
        case _:
            return session.groups.get(name, [])


Position = tuple[bool, float | list[int], str]
"""Place in an order: whether there is no value to sort by, the value, and the id. Ascending."""


def _position(session: ListedSession, sort: str) -> Position:
    name = sort.removeprefix("-")
    descending = (name in _DESCENDING) != sort.startswith("-")
    value = _sort_value(session, name)
    if value is None:
        return True, 0.0, session.id
    if isinstance(value, str):
        codes = [ord(letter) for letter in value]
        return False, [*(-code for code in codes), 0] if descending else codes, session.id
    return False, -value if descending else value, session.id


def _sort_value(session: ListedSession, name: str) -> float | str | None:
    match name:
        case "newest" | "oldest":
            return parse_time(session.created_at)
        case "cost":
            return session.cost_usd
        case "duration":
            return session.duration_ms
        case "title":
            return session.title.casefold()[:200] or None
        case "agent":
            return f"{session.agent} {session.model}".casefold()[:200]
        case "ending":
            return f"{session.ending} {session.check}"[:200]
        case _:
            value: int = getattr(session, name)
            return value


def _write_cursor(sort: str, last: ListedSession) -> str:
    return urlsafe_b64encode(msgspec.json.encode((sort, _position(last, sort)))).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str) -> Position:
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        made_for, position = msgspec.json.decode(data, type=tuple[str, Position])
    except (ValueError, msgspec.MsgspecError):
        made_for = ""
    if made_for != sort:
        raise HttpError(400, "invalid", "`before` is not the `next` of a page in this order")
    return position


def facets(sessions: Sequence[ListedSession]) -> dict[str, dict[str, int]]:
    """Return, for each filter, its values with the number of sessions that have each, the most frequent first."""
    counted = {name: Counter(value for session in sessions for value in _values(session, name)) for name in FILTERS}
    return {name: dict(counts.most_common()) for name, counts in counted.items()}
