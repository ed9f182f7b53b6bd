"""Finds the sessions in files of other loops, in any of the formats in `FORMATS`, packed or not.

A format reads decoded JSON (`file_values.py` finds it in a file), and may read files and folders in its own form
through a `store`. What cannot be read is reported with its place, and the rest is still read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import replace

from ..decision import AssistantMessage
from ..decision.errors import error_text
from ..decision.events import SessionSource
from ..decision.wrong_calls import CheckedStruct, ExplainedStruct, explained
from . import (
    anthropic,
    atif,
    claude_code,
    cline,
    cline_cli,
    codex,
    continue_cli,
    copilot_cli,
    cursor,
    gemini_cli,
    gptme,
    inspect_log,
    kimi_cli,
    langchain_messages,
    mini_swe_agent,
    openai,
    openai_agents,
    opencode,
    openhands,
    openhands_sdk,
    otlp_spans,
    pi,
    pydantic_messages,
    qwen_code,
    sharegpt,
    swe_agent,
    tau2_bench,
    tau_bench,
    trae,
)
from .file_values import MESSAGES, TOO_DEEP, FileValue, is_session_part, read_values
from .imported_session import ImportedSession, Unreadable
from .known_formats import KnownFormat, describe_database, find_known
from .packed_files import MAX_NESTING, Allowance, is_packed, plain_name, unpack
from .sqlite_files import is_database, table_names

AUTO = "auto"
"""Value used instead of a format's name: the format of each value is detected."""
FEW, SHORT = 4, 100
"""Most fields of a small object, and most characters of a text in it."""


class Format(CheckedStruct, frozen=True):
    """A format that can be imported, with functions that read its sessions and recognise its data."""

    name: str
    sessions: Callable[[Any], Iterator[ImportedSession]]
    """Yields the sessions in decoded JSON. Raises Unreadable if there are none, or a broken one."""
    matches: Callable[[Any], bool]
    description: str
    """Description for help texts."""
    is_part: Callable[[Any], bool] | None = None
    """Whether this is one of many parts of a session, such as a line of a transcript. Consecutive lines, or the
    elements of an array, are then read as one list. A line that no format knows stays in the list."""
    store: Callable[[Path], Iterator[FileValue] | None] | None = None
    """Yields the values in a file or folder that the format reads itself, such as a database or a session in several
    files, each with its place or an error, for `sessions`. None if the path is something else; no values if it belongs
    to a session that is read elsewhere. Asked for each folder before its files, so it must say no quickly. Nothing else
    is searched below a folder that it reads."""


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("cline", cline.sessions, cline.matches, "recorded HTTP replies of chat endpoints"),
        Format("tau2-bench", tau2_bench.sessions, tau2_bench.matches, "results of tau2-bench"),
        Format("tau-bench", tau_bench.sessions, tau_bench.matches, "results of tau-bench"),
        Format("atif", atif.sessions, atif.matches, "trajectories in ATIF, the Agent Trajectory Interchange Format"),
        Format("inspect", inspect_log.sessions, inspect_log.matches, "logs of Inspect", store=inspect_log.read_store),
        Format(
            "mini-swe-agent",
            mini_swe_agent.sessions,
            mini_swe_agent.matches,
            "trajectories of mini-SWE-agent (.traj.json)",
        ),
        Format(
            "openhands-sdk",
            openhands_sdk.sessions,
            openhands_sdk.matches,
            "conversations of the OpenHands SDK",
            openhands_sdk.is_line,
            openhands_sdk.read_store,
        ),
        Format(
            "openhands",
            openhands.sessions,
            openhands.matches,
            "events of OpenHands before its SDK, and rows of its evaluations",
            openhands.is_line,
            openhands.read_store,
        ),
        Format("trae", trae.sessions, trae.matches, "trajectories of Trae Agent"),
        Format("swe-agent", swe_agent.sessions, swe_agent.matches, "trajectories of SWE-agent (.traj)"),
        Format("gemini-cli", gemini_cli.sessions, gemini_cli.matches, "sessions of Gemini CLI", gemini_cli.is_line),
        Format("qwen-code", qwen_code.sessions, qwen_code.matches, "transcripts of Qwen Code", qwen_code.is_line),
        Format(
            "claude-code", claude_code.sessions, claude_code.matches, "transcripts of Claude Code", claude_code.is_line
        ),
        Format(
            "copilot-cli", copilot_cli.sessions, copilot_cli.matches, "sessions of Copilot CLI", copilot_cli.is_line
        ),
        Format("kimi-cli", kimi_cli.sessions, kimi_cli.matches, "sessions of Kimi CLI", kimi_cli.is_line),
        Format("gptme", gptme.sessions, gptme.matches, "conversations of gptme"),
        Format("cursor", cursor.sessions, cursor.matches, "conversations of Cursor", cursor.is_line, cursor.read_store),
        Format("opencode", opencode.sessions, opencode.matches, "sessions of OpenCode", store=opencode.read_store),
        Format("pi", pi.sessions, pi.matches, "sessions of pi", pi.is_line),
        Format("cline-cli", cline_cli.sessions, cline_cli.matches, "sessions of cline"),
        Format("continue-cli", continue_cli.sessions, continue_cli.matches, "sessions of Continue"),
        Format("codex", codex.sessions, codex.matches, "rollouts of Codex", codex.is_line),
        Format(
            "openai-agents",
            openai_agents.sessions,
            openai_agents.matches,
            "databases of the OpenAI Agents SDK",
            store=openai_agents.read_store,
        ),
        Format(
            "pydantic-ai",
            pydantic_messages.sessions,
            pydantic_messages.matches,
            "messages of Pydantic AI",
            pydantic_messages.is_line,
        ),
        Format(
            "langchain",
            langchain_messages.sessions,
            langchain_messages.matches,
            "messages of LangChain and LangGraph",
            langchain_messages.is_line,
        ),
        Format("otlp", otlp_spans.sessions, otlp_spans.matches, "OpenTelemetry spans (OTLP/JSON)", otlp_spans.is_line),
        Format("sharegpt", sharegpt.sessions, sharegpt.matches, "conversations in ShareGPT's form"),
        Format("anthropic", anthropic.sessions, anthropic.matches, "Anthropic messages"),
        Format("openai", openai.sessions, openai.matches, "OpenAI messages"),
    )
}
"""Formats that can be imported, by name, in the order in which they are tried: the most specific first."""
GENERIC = frozenset({"anthropic", "openai"})
"""Formats that read anything that looks like messages, except data that `find_known` recognises."""


class FoundSession(ExplainedStruct, frozen=True, kw_only=True):
    """A session in a file."""

    session: ImportedSession
    format: str
    id: str
    """The session's id; derived from the file's name if it has none, or one that is unique only in its file."""
    source: str
    """Path of the file it came from."""
    place: str
    """Where in the file the session is, such as `line 3`; empty if it is the whole file."""


class SkippedSession(ExplainedStruct, frozen=True, kw_only=True):
    """Something that was not imported, with the reason."""

    source: str
    place: str
    why: str
    known: bool = False
    """Whether a record of it already exists."""
    aside: bool = False
    """Whether it is a file of a folder that has no sessions, which is not an error."""


Found = FoundSession | SkippedSession
Store = tuple[str, Iterator[FileValue]]
"""Name of a format that reads a file or folder itself, and the values that it reads there."""


@explained
def find_sessions(
    path: str | os.PathLike[str], format: str = AUTO, progress: Callable[[int, int], None] | None = None
) -> Iterator[Found]:
    """Find the sessions of a file, or of all files below a folder.

    progress: called before each file with the number of finished files and of all files.
    """
    place = Path(path)
    files = list_files(place, format)
    for number, (file, store) in enumerate(files):
        if progress is not None:
            progress(number, len(files))
        yield from find_sessions_below(place, file, format, store)


def find_sessions_below(searched: Path, file: Path, format: str, store: Store | str | None = None) -> Iterator[Found]:
    """Find the sessions of one of the files returned by `list_files(searched)`.

    store: its entry in that list; looked up if it is a folder.
    """
    folder = searched if searched.is_dir() else searched.parent
    below = SearchedFile(source=str(file), file=_path_below(file, folder), format=format, inside=searched != file)
    if file.is_dir():
        yield from below.read_folder(file, store)
    elif file.is_file():
        yield from below.read_file(file)
    else:
        yield from _find_in_device(file, format)


def _find_in_device(path: Path, format: str) -> Iterator[Found]:
    """Yield the sessions of a pipe, or the reason why it cannot be opened."""
    try:
        opened = open(path, "rb")  # noqa: SIM115  closed below
    except OSError as error:
        yield SkippedSession(source=str(path), place="", why=f"cannot be read: {error.strerror}")
        return
    with opened:
        yield from find_sessions_in_stream(opened, format, str(path))


def find_sessions_in_stream(stream: IO[bytes], format: str = AUTO, source: str = "-") -> Iterator[Found]:
    """Find the sessions of a stream, which is copied to a temporary file first."""
    with _temporary_copy(stream) as path:
        yield from SearchedFile(source=source, file="stdin", format=format, inside=False).read_file(path)


@explained
def detect_format(data: Any) -> str | None:
    """Return the name of the format of this decoded JSON; None if it is none of `FORMATS`."""
    return _identify(data)[0]


def _identify(data: Any) -> tuple[str | None, KnownFormat | None]:
    """Return the name of the format, as `detect_format` does, and the format of `KNOWN` if it is one of those."""
    if isinstance(data, dict) and len(data) <= FEW and all(map(_is_short, data.values())):
        return _identify_fields(tuple((name, type(value), value) for name, value in data.items()))
    return _look_at(data)


def _is_short(value: Any) -> bool:
    return len(value) <= SHORT if isinstance(value, str) else value is None or isinstance(value, int | float)


@lru_cache(maxsize=256)
def _identify_fields(fields: tuple[tuple[str, type, Any], ...]) -> tuple[str | None, KnownFormat | None]:
    """Do it for a small object, of which a file may hold a hundred thousand that are the same."""
    return _look_at({name: value for name, _, value in fields})


def _look_at(data: Any) -> tuple[str | None, KnownFormat | None]:
    name = next((format.name for format in FORMATS.values() if format.matches(data)), None)
    known = find_known(data) if name is None or name in GENERIC else None
    return (None if known is not None else name), known


def explain_error(error: Exception) -> str:
    """Return why a session could not be read."""
    match error:
        case Unreadable():
            return str(error)
        case RecursionError():
            return TOO_DEEP
        case _:
            return f"it does not follow its format: {error_text(error)}"


def part_owner(data: Any, before: str) -> str:
    """Return the format that has such parts of sessions (see `Format.is_part`); `MESSAGES` for those of no program.

    before: owner of the previous part, which is tried first.
    """
    known = FORMATS.get(before)
    if known is not None and known.is_part is not None and known.is_part(data):
        return before
    for format in FORMATS.values():
        if format.is_part is not None and format.is_part(data):
            return format.name
    return MESSAGES if is_session_part(data) else ""


class SearchedFile(Struct, frozen=True, kw_only=True):
    """A file that is searched for sessions, possibly packed in another file."""

    source: str
    """Path of the file, for people."""
    file: str
    """Path below the searched folder, for records."""
    format: str
    inside: bool
    """Whether it is one of many files, some of which have no sessions."""
    member: str = ""
    """Path in an archive; empty if it is not in one."""
    depth: int = 0
    """Number of unpacked layers."""

    def read_file(self, path: Path, allowance: Allowance | None = None) -> Iterator[Found]:
        """Yield the sessions of a file, which may be packed, or a store."""
        try:
            with open(path, "rb") as file:
                head = file.read(8)
            store = _find_store(path, self.format)
            if isinstance(store, str):
                yield self._skip(store, aside=False)
            elif store is not None:
                yield from self.read_store(*store)
            elif is_packed(head):
                yield from self._read_packed(path, allowance or Allowance())
            elif is_database(path):
                yield self._skip(_describe_database(path, self.format), aside=False)
            else:
                with open(path, "rb") as file:
                    yield from self._read_values(read_values(file, part_owner), self.format)
        except Unreadable as error:
            yield self._skip(str(error), aside=self.inside)
        except OSError as error:
            yield self._skip(f"cannot be read: {error.strerror}", aside=False)

    def read_folder(self, path: Path, store: Store | str | None = None) -> Iterator[Found]:
        """Yield the sessions of a folder that a format reads itself, or the reason why it cannot be read.

        store: what `list_files` found there; looked up if it is None.
        """
        store = store or _find_store(path, self.format)
        if isinstance(store, str):
            yield self._skip(store, aside=False)
        elif store is not None:
            yield from self.read_store(*store)

    def read_store(self, name: str, values: Iterator[FileValue]) -> Iterator[Found]:
        """Yield the sessions of values that a format read itself."""
        try:
            yield from self._read_values(values, name)
        except Exception as error:
            yield self._skip(explain_error(error), aside=False)

    def _read_packed(self, path: Path, allowance: Allowance) -> Iterator[Found]:
        if self.depth >= MAX_NESTING:
            raise Unreadable(f"packed {self.depth + 1} times: unpack it first")
        for unpacked in unpack(path, allowance):
            inner = self._inner(unpacked.name)
            if not unpacked.error or unpacked.path.stat().st_size:
                yield from inner.read_file(unpacked.path, allowance)
            if unpacked.error:
                yield inner._skip(unpacked.error, aside=False)

    def _inner(self, name: str) -> SearchedFile:
        """Return the file packed here under this name; the name is empty if it was packed alone."""
        member = "/".join(part for part in (self.member, name) if part)
        return replace(self, member=member, inside=self.inside or bool(name), depth=self.depth + 1)

    def _skip(self, why: str, *, aside: bool, place: str = "") -> SkippedSession:
        return SkippedSession(source=self.source, place=self._place(place), why=why, aside=aside)

    def _place(self, place: str) -> str:
        return ", ".join(part for part in (self.member, place) if part)

    # ---- values

    def _read_values(self, values: Iterator[FileValue], format: str) -> Iterator[Found]:
        """Yield the sessions of all values. Values in no format, or in one that is not read, are reported once."""
        named: dict[str, SkippedSession] = {}
        unknown, others = 0, False
        for value in values:
            name = format if value.error or format != AUTO else detect_format(value.data)
            if name is not None:
                others = True
                yield from self._read_value(value, name)
                continue
            known = _identify(value.data)[1]
            unknown += known is None
            kind = "" if known is None else known.name
            if kind not in named:
                named[kind] = self._name_unread(value, known)
        if len(named) > 1:
            named.pop("", None)  # lines of the given format
        if "" in named:
            first = named[""]
            more = f", nor are {unknown - 1:,} more values of the file" if unknown > 1 else ""
            named[""] = replace(first, why=first.why + more, aside=self.inside and not others)
        yield from named.values()

    def _name_unread(self, value: FileValue, known: KnownFormat | None) -> SkippedSession:
        if known is None:
            return self._skip(f"in none of the formats {', '.join(FORMATS)}", aside=False, place=value.place)
        aside = self.inside and not known.sessions
        return self._skip(known.describe(value.data), aside=aside, place=value.place)

    def _read_value(self, value: FileValue, format: str) -> Iterator[Found]:
        """Yield the sessions of a value. After the first unreadable one, the rest of the value is skipped."""
        try:
            if value.error:
                raise Unreadable(value.error)
            for session in FORMATS[format].sessions(value.data):
                yield self._found(session, value, format)
        except Exception as error:
            why = explain_error(error) + _hint(value, self.format)
            yield self._skip(why, aside=False, place=value.place)

    def _found(self, session: ImportedSession, value: FileValue, format: str) -> FoundSession:
        """Return where a session was found. Raises Unreadable if it has no response."""
        if not any(isinstance(imported.message, AssistantMessage) for imported in session.messages):
            raise Unreadable(_no_response(session))
        place = self._place(value.place)
        id = _session_id(session, file_stem(self.member or plain_name(self.file)), value.number)
        session.torn = value.torn
        session.source = SessionSource(file=self.file, place=place, id=id)
        return FoundSession(session=session, format=format, id=id, source=self.source, place=place)


def _find_store(path: Path, format: str) -> Store | str | None:
    """Return the format that reads this file or folder itself, with what it reads there; None if no format does.

    If no format does and one of them failed when asked, return why it failed.
    """
    failed = None
    for one in FORMATS.values() if format == AUTO else (FORMATS[format],):
        if one.store is None:
            continue
        try:
            values = one.store(path)
        except Exception as error:
            why = explain_error(error)
            failed = failed or (why if isinstance(error, Unreadable) else f"{one.name} cannot read it: {why}")
            continue
        if values is not None:
            return one.name, values
    return failed


def _describe_database(path: Path, format: str) -> str:
    """Return why a database is not read: no format reads it, or not the requested one."""
    other = _find_store(path, AUTO) if format != AUTO else None
    if isinstance(other, tuple):
        return f"an SQLite database that {format} does not read (it looks like {other[0]})"
    tables = table_names(path)
    what = describe_database(tables)
    if what is None:
        return f"an SQLite database that no format reads (tables: {', '.join(sorted(tables)[:8]) or 'none'})"
    return f"this is {what}, which endstop does not read yet"


def _no_response(session: ImportedSession) -> str:
    """Return why the session cannot be imported, with the names of unsupported roles and fields."""
    unread = [kind.partition(": ")[2] for kind in session.losses if kind.startswith(("role: ", "message field: "))]
    if not unread:
        return "it contains no response of a model"
    return f"it contains no response of a model in a supported form (not supported: {', '.join(sorted(unread)[:8])})"


def _hint(value: FileValue, format: str) -> str:
    guessed = None if value.error or format == AUTO else detect_format(value.data)
    return f" (it looks like {guessed})" if guessed is not None and guessed != format else ""


def _session_id(session: ImportedSession, stem: str, number: int) -> str:
    if session.id and not session.within_file:
        return session.id
    own: Any = session.id or number or ""
    return f"{stem}.{own}" if own else stem


def _path_below(file: Path, folder: Path) -> str:
    """Return the path of a file starting with this folder's name. Nothing above it is written into records."""
    above = os.path.dirname(os.path.abspath(folder))
    return Path(os.path.relpath(os.path.abspath(file), above)).as_posix()


def file_stem(path: str) -> str:
    """Return the name of a file without its folder and its extension."""
    name = plain_name(path.rpartition("/")[2])
    return name.rsplit(".", 1)[0] if "." in name.strip(".") else name


@contextmanager
def _temporary_copy(stream: IO[bytes]) -> Iterator[Path]:
    with TemporaryDirectory(prefix="endstop-") as folder:
        path = Path(folder, "stdin")
        with open(path, "wb") as file:
            copyfileobj(stream, file, 1024 * 1024)
        yield path


# ---- the files of a folder


def list_files(path: Path, format: str = AUTO) -> list[tuple[Path, Store | str | None]]:
    """Return the file itself or, for a folder, the files and the folders that a format reads itself, sorted by name.

    A folder that a format could not examine is listed with the reason, and its contents are listed, too. Hidden files
    and folders below the folder are left out.
    """
    return list(_walk(path, format)) if path.is_dir() else [(path, None)]


def _walk(folder: Path, format: str) -> Iterator[tuple[Path, Store | str | None]]:
    store = _find_store(folder, format)
    if store is not None:
        yield folder, store
    if isinstance(store, tuple):
        return
    for entry in _visible_entries(folder):
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, format)
        elif entry.is_file():
            yield entry, None


def _visible_entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:  # no permission to read it
        return []
