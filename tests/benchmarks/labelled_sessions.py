"""Recorded sessions of other agents, most of them with a known end, for judgement.py and harm.py.

They are in `swe_java.tar.xz`, `known_ends.tar.xz` and `unseen_agents.tar.xz`, and in a folder `sessions`, all in one
folder that is no part of the project; docs/explanation/evidence.md names their sources. They are imported like
`endstop import` does. What comes of that is kept in a folder for temporary files, and read from there until the
sessions or the code that imports them change.
"""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

import endstop.decision
import endstop.formats
import msgspec
from endstop.decision import AssistantMessage, Event
from endstop.decision.events import ResponseFinished, RunStarted, StepStarted
from endstop.formats import ImportOptions, events_of, find_sessions
from endstop.formats.session_files import FoundSession
from msgspec import Struct

ARCHIVES = ("swe_java", "known_ends", "unseen_agents")
FOLDERS = ("tau-bench", "cline", "swe-agent")
"""What is read of the folder `sessions`."""
AGENTS = {
    "mini_gemini3": ("mini-SWE-agent", "gemini-3-pro"),
    "bashkit_claude": ("bash agent", ""),
    "bashkit_gpt": ("bash agent", ""),
    "openclaw_swe": ("OpenClaw, SWE-bench", "glm-5"),
    "openclaw_tb2": ("OpenClaw, Terminal-Bench", "glm-5"),
    "cc_tau2": ("Claude Code, tau2", ""),
    "tau2_gemini": ("tau2 agent", "gemini-2.5-flash"),
    "swe_gpt4": ("SWE-agent, SWE-bench", "gpt-4"),
    "trae_gpt5": ("TRAE", "gpt-5"),
    "intercode_sql_gpt4": ("SQL agent", "gpt-4"),
    "intercode_sql_gpt35": ("SQL agent", "gpt-3.5"),
    "tau-bench": ("tau-bench agent", "gpt-4o"),
    "cline": ("cline", ""),
    "swe-agent": ("SWE-agent, its own", "not known"),
}
"""The agent and the model of a set, as its source says. Empty: the sessions or the names of their files tell."""


class LabelledSession(Struct, frozen=True, kw_only=True):
    """A recorded session, who made it, and whether it ended well."""

    group: str
    """The archive, or the folder in `sessions`, that it is from."""
    agent: str
    model: str
    task: str
    """What was to be done: the same for all models that tried it."""
    name: str
    """Its file within the group; with the session's id if the file holds several."""
    good: bool | None
    """Whether tests, a reward or the benchmark's own check say that the work was done; None if nothing says."""
    events: list[Event]


VERSIONS = 4
"""How many versions of the imported sessions are kept, each of the code at some time."""
_decode = msgspec.msgpack.Decoder(list[LabelledSession]).decode


def read_sessions(data: Path, cache: Path | None = None) -> list[LabelledSession]:
    """All sessions in this folder, in the order of their files. What is absent is skipped, and a line says so."""
    cache = cache or Path(tempfile.gettempdir()) / f"endstop-sessions-{os.getuid()}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    code = _digest(_sources())
    sessions: list[LabelledSession] = []
    for group in (*ARCHIVES, *FOLDERS):
        archive, folder = data / f"{group}.tar.xz", data / "sessions" / group
        files = [archive] if archive.is_file() else sorted(folder.glob("*"))
        if not files:
            print(f"{group}: skipped, there is neither {archive} nor {folder}")
            continue
        kept = cache / f"{group}-{_digest(files, code)}.msgpack"
        if not kept.is_file():
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(msgspec.msgpack.encode(_imported(group, archive, folder)))
            part.replace(kept)
            known = sorted(cache.glob(f"{group}-{'?' * 24}.msgpack"), key=lambda file: file.stat().st_mtime)
            for old in known[:-VERSIONS]:
                old.unlink(missing_ok=True)
        sessions += _decode(kept.read_bytes())
    return sessions


def runs_of(events: Iterable[Event]) -> list[list[AssistantMessage]]:
    """For each run, the response of each of its steps; an empty one if there was none."""
    runs: list[list[AssistantMessage]] = []
    for event in events:
        if isinstance(event, RunStarted):
            runs.append([])
        elif isinstance(event, StepStarted):
            runs[-1].append(AssistantMessage())
        elif isinstance(event, ResponseFinished):
            runs[-1][-1] = event.message
    return runs


def _sources() -> list[Path]:
    """The code by which sessions become events."""
    packages = (endstop.formats, endstop.decision)
    return [Path(__file__), *sorted(file for one in packages for file in Path(one.__path__[0]).glob("*.py"))]


def _digest(files: Iterable[Path], key: str = "") -> str:
    digest = blake2b(key=key.encode(), digest_size=12)
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


# ---- importing


def _imported(group: str, archive: Path, folder: Path) -> list[LabelledSession]:
    if not archive.is_file():
        return _import_folder(group, folder, folder)
    with tempfile.TemporaryDirectory(prefix="endstop-sessions-") as place:
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        root = Path(place) / group
        parts = [(group, root, part) for part in sorted(root.iterdir()) if part.is_dir()]
        with get_context("fork").Pool() as pool:
            return [session for imported in pool.starmap(_import_folder, parts, 1) for session in imported]


def _import_folder(group: str, root: Path, folder: Path) -> list[LabelledSession]:
    labels = root / "labels.json"
    resolved = msgspec.json.decode(labels.read_bytes()) if labels.is_file() else {}
    found = [one for one in find_sessions(folder) if isinstance(one, FoundSession)]
    return [_session(group, Path(one.source).relative_to(root), one, resolved) for one in found]


def _session(group: str, file: Path, found: FoundSession, resolved: dict[str, dict[str, bool]]) -> LabelledSession:
    verdict = found.session.verdict
    stem = re.sub(r"\.(json|jsonl|traj)$", "", file.name)
    if group == "swe_java":
        agent, model = "SWE-agent, Java", file.parts[0]
        task, good = stem, resolved[str(file.with_suffix(""))]["resolved"]
    elif group in ARCHIVES:
        part = file.parts[0]
        agent, model = AGENTS[part]
        task, good = f"{part}/{_task(part, stem)}", file.parts[1] == "good"
        model = model or found.session.model or _model_in(stem)
    else:
        agent, model = AGENTS[group]
        task, good = f"{group}/{found.id.split('.trial-')[0]}", None if verdict is None else verdict.passed
        model = model or found.session.model
    return LabelledSession(
        group=group,
        agent=agent,
        model=re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", model.rpartition("/")[2]),
        task=task,
        name=f"{file}, {found.place}" if found.place else str(file),
        good=good,
        events=events_of(found.session, found.id, found.format, ImportOptions()),
    )


def _model_in(name: str) -> str:
    """The model in the name of a file, without its date."""
    if name.startswith(("haiku", "sonnet")):
        return {"h": "claude-haiku-4-5", "s": "claude-sonnet-4-6"}[name[0]]
    found = re.search(r"-((?:claude|gpt)-.+?)(?:-\d{8})?-20\d\d-\d\d-\d\d", name)
    return found[1] if found else "not known"


def _task(part: str, name: str) -> str:
    if part.startswith("bashkit"):
        return name.rsplit("__", 1)[1]
    if part == "cc_tau2":
        return name.split("task_")[-1]
    if part == "swe_gpt4":
        return re.sub(r"^cost_2_\d_", "", name)
    if part == "openclaw_swe":
        found = re.search(r"([A-Za-z0-9.-]+__[A-Za-z0-9._-]+?)(?:_[0-9a-f]{6,}.*|__.*)$", name)
        return found[1] if found else name
    if part == "openclaw_tb2":
        return re.sub(r"^.*2\.0_", "", name).rsplit("__", 1)[0]
    return name.rsplit("__", 1)[1] if part in ("trae_gpt5", "intercode_sql_gpt4", "intercode_sql_gpt35") else name
