"""Folders in which agents keep their sessions, and the newest session in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from .session_files import AUTO, Found, FoundSession, find_sessions, list_files

_ENVIRONMENT_PLACES: tuple[tuple[str, str, str, str], ...] = (
    ("Claude Code", "CLAUDE_CONFIG_DIR", ".claude", "projects"),
    ("Codex", "CODEX_HOME", ".codex", "sessions"),
    ("OpenCode", "XDG_DATA_HOME", ".local/share", "opencode"),
    ("gptme", "XDG_DATA_HOME", ".local/share", "gptme/logs"),
    ("cline", "CLINE_DATA_DIR", ".cline/data", "sessions"),
    ("Continue", "CONTINUE_GLOBAL_DIR", ".continue", "sessions"),
    ("mini-SWE-agent", "MSWEA_GLOBAL_CONFIG_DIR", ".config/mini-swe-agent", "last_mini_run.traj.json"),
)
"""A program, the variable that may name its folder, that folder below the home folder, and the place of sessions in
it."""
_HOME_PLACES: tuple[tuple[str, str], ...] = (
    ("Gemini CLI", ".gemini/tmp"),
    ("Qwen Code", ".qwen/projects"),
    ("Copilot CLI", ".copilot/session-state"),
    ("Kimi CLI", ".kimi/sessions"),
    ("pi", ".pi/agent/sessions"),
)
NOT_LEFT: dict[str, str] = {
    "Continue": "a run of cn that failed or was killed",
    "mini-SWE-agent": "a run before the last one, unless -o named a file",
    "grok-cli": "any run of -p",
    "smolagents": "any run",
}
"""What programs leave no session of."""


def describe_not_left(programs: Collection[str] = NOT_LEFT.keys()) -> str:
    """Say of what these programs leave no session; empty if none of them is known for that."""
    left_out = [f"{program}: {what}" for program, what in NOT_LEFT.items() if program in programs]
    return f"no session is left of some runs ({'; '.join(left_out)}): `endstop proxy` records them" if left_out else ""


class Place(Struct, frozen=True):
    """A folder in which a program keeps its sessions, or one that the user names."""

    path: Path
    program: str = ""


class NewestSession(Struct, frozen=True, kw_only=True):
    """The newest session of some places."""

    found: FoundSession | None
    """The session; None if there is none."""
    searched: tuple[tuple[Place, int], ...]
    """The places in order, each with its number of files and stores."""


def known_places(home: Path, environment: Mapping[str, str]) -> list[Place]:
    """Return the places where known programs keep their sessions. Not all of them need to exist."""
    places = [
        Place(Path(environment.get(variable) or home / default) / inside, program)
        for program, variable, default, inside in _ENVIRONMENT_PLACES
    ]
    return [*places, *(Place(home / path, program) for program, path in _HOME_PLACES)]


def newest_session(places: Sequence[Place], format: str = AUTO) -> NewestSession:
    """Return the newest session below these places: the latest one of the most recently written file that has any."""
    files = [[file for file, _ in list_files(place.path, format)] if place.path.exists() else [] for place in places]
    newest_first = sorted({file for listed in files for file in listed}, key=_written_at, reverse=True)
    latest = (_latest(find_sessions(file, format)) for file in newest_first)
    found = next((one for one in latest if one is not None), None)
    return NewestSession(found=found, searched=tuple(zip(places, map(len, files), strict=True)))


def _latest(results: Iterable[Found]) -> FoundSession | None:
    sessions = [one for one in results if isinstance(one, FoundSession)]
    return max(enumerate(sessions), key=lambda pair: (_last_time(pair[1]), pair[0]))[1] if sessions else None


def _last_time(found: FoundSession) -> float:
    return max((one.t for one in found.session.messages if one.t is not None), default=0.0)


def _written_at(path: Path) -> float:
    """Return when a file, or the last file of a folder, was written; for a database, including its write-ahead log."""
    files: Iterator[Path] = path.rglob("*") if path.is_dir() else iter((path, path.with_name(f"{path.name}-wal")))
    return max(map(_modified, files), default=0.0)


def _modified(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
