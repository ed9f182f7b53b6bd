"""Labels of sessions: a file in which another program or a person wrote which sessions were good.

A label finds its session by an id that may be

- the id of a run, or of the session;
- for an imported session, its own id or the name of the file that it came from, as far as its record keeps them;
- the name of the record;

each with or without the folders before it and the suffix after it. Ids that several models share are told apart by the
label's `model`, or by a path such as `MODEL/ID`: it is compared with the session's model and with the folders of its
file and record. A label with a session's id applies to its last run.

Nothing is guessed: WrongUse is raised for labels that contradict each other or the record, and for a label that finds
two sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from ..base.sanitize import one_line
from ..decision import EvaluationVerdict, WrongUse
from ..decision.events import RunStarted, SessionSource
from ..records.files import RECORD_SUFFIXES
from .label_files import GOOD_NUMBER, Label, read_label_file
from .rows import FilePath
from .summary import RunSummary

SHOWN = 5
"""Maximum number of ids that an error or a warning lists."""
SOURCE_SUFFIXES = (".json", ".jsonl", ".traj")
"""Suffixes of session files. Several may follow one another (`task_1.traj.json`)."""


class RunNames(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The keys by which a label finds a run, and the verdict in the run's record."""

    run_id: str
    session_id: str
    model: str = ""
    source: SessionSource | None = None
    """Where an imported session was found; None for any other."""
    verdict: EvaluationVerdict = "not_run"
    """The record's verdict on the work: from an evaluation, or from a reward of 0 or less, or 1 or more."""

    @classmethod
    def of(cls, run: RunSummary | RunStarted) -> RunNames:
        """Return the names of a run. A fork of an imported session is not that session, so it has no source."""
        return cls(
            run_id=run.run_id,
            session_id=run.session_id,
            model=run.model,
            source=run.source if run.origin is None else None,
            verdict=_recorded_verdict(run) if isinstance(run, RunSummary) else "not_run",
        )


def _recorded_verdict(run: RunSummary) -> EvaluationVerdict:
    if run.verdict != "not_run" or run.reward is None or 0 < run.reward < GOOD_NUMBER:
        return run.verdict
    return "passed" if run.reward >= GOOD_NUMBER else "failed"


class LabelStatistics(Struct, frozen=True, kw_only=True):
    """How many labels found a session, and how many sessions have none."""

    file: str
    given: int
    used: int
    unmatched: tuple[str, ...]
    """Ids of the labels that found no session, in the order of the file."""
    sessions: int
    """Number of sessions that were looked up."""
    unlabelled: int
    """Number of sessions that no label found, whose verdict is the record's own or unknown."""


class Labels:
    """The labels of one file. Keeps track of those that found a session, and of the sessions that were looked up."""

    def __init__(self, labels: Iterable[Label], file: str = "") -> None:
        self.file = file
        self._labels = tuple(labels)
        self._order = {label: number for number, label in enumerate(self._labels)}
        self._by_id: dict[str, list[Label]] = {}
        for label in self._labels:
            self._by_id.setdefault(_plain(label.id), []).append(label)
        self._sessions: dict[str, bool] = {}
        """Whether a label found a session, by the path of its record or another identifier."""
        self._found: dict[Label, str] = {}
        """The session that a label found."""

    @classmethod
    def read(cls, path: FilePath) -> Labels:
        """Read the labels of a file in any of the forms of `label_files.py`.

        Raises WrongUse that says what is wrong.
        """
        return cls(read_label_file(path), str(path))

    def __len__(self) -> int:
        return len(self._labels)

    def verdict_for(self, run: RunSummary | RunStarted | RunNames, path: FilePath) -> bool | None:
        """Return whether the session in the record `path` was good, by the label for it or for this run, its last one.

        None without a label. Raises WrongUse if two labels for it contradict each other, if its label also matches
        another session, or if the record's verdict on the run differs.
        """
        label = self.label_for(run, path)
        return None if label is None else label.good

    def label_for(
        self, run: RunSummary | RunStarted | RunNames, path: FilePath, session: str | None = None
    ) -> Label | None:
        """Return the label that `verdict_for` uses.

        session: identifier of the session if `path` is not a record of it alone, but a file of many.
        """
        names = run if isinstance(run, RunNames) else RunNames.of(run)
        return self._only(self._candidates(names, path), names, session or str(path))

    def verdicts_of(self, runs: Sequence[RunSummary | RunNames], path: FilePath) -> tuple[bool | None, ...]:
        """Return the verdicts on all runs of a session.

        Each comes from a label for the run; for the last run, also from a label for the session. Raises WrongUse as
        `verdict_for` does.
        """
        every = [run if isinstance(run, RunNames) else RunNames.of(run) for run in runs]
        earlier = [self._only(self._by_id.get(run.run_id, []), run, str(path)) for run in every[:-1]]
        labels = [*earlier, *(self.label_for(run, path) for run in every[-1:])]
        return tuple(None if label is None else label.good for label in labels)

    @property
    def statistics(self) -> LabelStatistics:
        """The labels and sessions that were counted so far."""
        return LabelStatistics(
            file=self.file,
            given=len(self),
            used=len(self._found),
            unmatched=tuple(label.id for label in self._labels if label not in self._found),
            sessions=len(self._sessions),
            unlabelled=sum(not found for found in self._sessions.values()),
        )

    def check_used(self) -> None:
        """Raise WrongUse if no label found a session. Call it after all sessions were looked up."""
        if self._found or not self._sessions:
            return
        sessions = ", ".join(list(self._sessions)[:3])
        raise WrongUse(
            f"{self.file}: none of its {len(self):,} labels matches a session. Labels are for {_listed(self._ids())}; "
            f"the sessions are {sessions}{', ...' if len(self._sessions) > 3 else ''}. An id must be that of a run or "
            "a session, or the name of its file, and a `model` the session's model or one of its folders"
        )

    def _ids(self) -> list[str]:
        return [f"{label.id} ({label.model})" if label.model else label.id for label in self._labels]

    def _candidates(self, names: RunNames, path: FilePath) -> list[Label]:
        """Return the labels for this run or session, told apart by model, in the order of the file."""
        qualifiers = _qualifiers(names, path)
        named = {label for name in _names_of(names, path, qualifiers) for label in self._by_id.get(name, ())}
        fitting = [label for label in named if not label.model or label.model in qualifiers]
        return sorted(fitting, key=self._order.__getitem__)

    def _only(self, labels: Sequence[Label], run: RunNames, session: str) -> Label | None:
        """Return the label that counts among these. Raises WrongUse if they contradict each other or the record."""
        self._sessions[session] = self._sessions.get(session, False) or bool(labels)
        for label in labels:
            if label.good != labels[0].good:
                raise WrongUse(
                    f"{session} has two labels that contradict each other: {_said(labels[0])}, and {_said(label)}: "
                    "remove one of them, or name the model of each"
                )
            if self._found.setdefault(label, session) != session:
                raise WrongUse(
                    f"the label {_said(label)} matches two sessions: {self._found[label]} and {session}: write an "
                    "id that only one of them has, such as FOLDER/ID, or name the model"
                )
            if run.verdict != "not_run" and (run.verdict == "passed") != label.good:
                raise WrongUse(
                    f"{session} {run.verdict} its evaluation, but {_said(label)}: correct the label, or leave the "
                    "session out"
                )
        return labels[0] if labels else None


def unmatched_warning(statistics: LabelStatistics) -> str | None:
    """Return a line about labels that found no session; None if all did."""
    many = len(statistics.unmatched)
    if not many:
        return None
    matches = "matches" if many == 1 else "match"
    counted = f"{many:,} of {statistics.given:,} labels {matches} no session"
    return f"{statistics.file}: {counted}: {_listed(statistics.unmatched)}"


def _said(label: Label) -> str:
    model = f" ({one_line(label.model, 80)})" if label.model else ""
    return f"{one_line(label.id, 200)}{model} is {'good' if label.good else 'bad'} in {label.where}"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(one_line(id, 120) for id in ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")


# ---- names of a session


def _names_of(names: RunNames, path: FilePath, qualifiers: frozenset[str]) -> set[str]:
    """Return all ids by which a label may name this run or its session."""
    whole = {names.run_id, names.session_id, *_path_names(str(path), RECORD_SUFFIXES)}
    own = {names.session_id, *_path_names(PurePath(path).name, RECORD_SUFFIXES)}
    source = names.source
    if source is not None:
        ids = {source.id, source.id.removeprefix(f"{_without_suffix(source.file)}.")}
        files = () if source.place else tuple(_path_names(source.file, SOURCE_SUFFIXES))
        whole |= {*ids, *files}
        own |= {*ids, *(name for name in files if "/" not in name)}
    return {_plain(name) for name in whole | {f"{one}/{name}" for one in qualifiers for name in own}} - {""}


def _qualifiers(names: RunNames, path: FilePath) -> frozenset[str]:
    """Return what can tell sessions of the same id apart: the model, with and without its provider, and the folders."""
    folders = [*PurePath(path).parts[:-1], *(names.source.file.split("/")[:-1] if names.source is not None else ())]
    return frozenset({names.model, names.model.rpartition("/")[2], *folders}) - {"", "/", "."}


def _path_names(path: str, suffixes: Sequence[str]) -> Iterator[str]:
    """Yield the path from each of its folders on, with its suffix, without it, and without all known suffixes."""
    parts = PurePath(path).as_posix().split("/")
    last = {parts[-1], _without_suffix(parts[-1]), _without_suffixes(parts[-1], suffixes)}
    for start in range(len(parts)):
        for name in last:
            yield "/".join([*parts[start:-1], name])


def _without_suffix(path: str) -> str:
    return PurePath(path).stem


def _without_suffixes(name: str, suffixes: Sequence[str]) -> str:
    while ending := next((one for one in suffixes if name.endswith(one) and name != one), None):
        name = name.removesuffix(ending)
    return name


def _plain(id: str) -> str:
    """Return an id in the form in which ids are compared.

    A path has `/` and no leading `./`; a pull request has the name that files have for it.
    """
    plain = id.replace("\\", "/").removeprefix("./")
    return _PULL_REQUEST.sub(r"\1__\2-\3", plain) if ":pr-" in plain else plain


_PULL_REQUEST = re.compile(r"(?<![^/:\s])([^/:\s]++)/([^/:\s]++):pr-(\d+)\b")
"""Instance names in the reports of Multi-SWE-bench; its files are named like those of SWE-bench."""
