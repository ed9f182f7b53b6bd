"""Import of sessions from many files in several processes, with the same records as in one process.

The name of a record depends on the files before it: the second session with an id is `x-2`. So each file is imported
into a separate folder as if it were the only one, and its records are taken from there in the order of the files. A
file whose sessions get other names than that is imported once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from ..decision import WrongUse
from ..records.parallel import FileFailure, count_workers, map_files
from .imported_session import ImportOptions
from .importer import Complete, ImportedRecord, Importer, RecordExists, RecordFolder, RecordNames
from .session_files import AUTO, SkippedSession, find_sessions, find_sessions_below, list_files

Progress = Callable[[int, int], None]
Result = ImportedRecord | SkippedSession


class ImportPlan(Struct, frozen=True, kw_only=True):
    """What to import, into which folder, and how."""

    folder: RecordFolder
    options: ImportOptions
    format: str = AUTO
    complete: Complete | None = None
    """As for `Importer`. It is pickled for other processes."""


def import_files(
    plan: ImportPlan, searched: Sequence[Path], *, processes: int | None = None, progress: Progress | None = None
) -> tuple[list[Result], set[str]]:
    """Import files and folders, and return the result for each session and the names of all tools.

    processes: as for `map_files`. A file whose process died is skipped, with the reason. Files that can be read only
        once, such as pipes, and files that are named twice are read in this process.

    Raises WrongUse or OSError if the folder cannot be written.
    """
    files = [(file, place) for place in searched for file, _ in list_files(place, plan.format)]
    places = {str(file): place for file, place in files}
    paths = [file for file, _ in files]
    many = count_workers(paths, processes)
    if many > 1 and len(places) == len(files) and all(file.is_file() or file.is_dir() for file in paths):
        return _import_in_processes(plan, places, many, progress)
    importer = Importer(plan.folder, plan.options, plan.complete)
    found = (one for place in searched for one in find_sessions(place, plan.format, progress))
    return list(importer.import_all(found)), importer.tool_names


def _import_in_processes(
    plan: ImportPlan, places: dict[str, Path], many: int, progress: Progress | None
) -> tuple[list[Result], set[str]]:
    results: list[Result] = []
    tool_names: set[str] = set()
    names = RecordNames()
    now = datetime.now(UTC).timestamp()
    paths = [Path(path) for path in places]
    with TemporaryDirectory(prefix=".import-", dir=plan.folder.path, ignore_cleanup_errors=True) as staging:
        folders = {path: f"{staging}/{number}" for number, path in enumerate(places)}
        work = _ImportStaged(plan, places, folders, now)
        with closing(map_files(work, paths, processes=many, progress=progress)) as files:
            for path, done in files:
                if isinstance(done, FileFailure):
                    results.append(SkippedSession(source=str(path), place="", why=done.message))
                    continue
                if isinstance(done, Exception):
                    raise done
                given = [names.assign(id) for id in done.ids]
                if given == done.names:
                    results += [_take_in(plan.folder, result) for result in done.results]
                else:
                    assign = _in_order(given)
                    results += _import_file(plan, plan.folder, places[str(path)], path, now, assign).results
                tool_names |= done.tool_names
    return results, tool_names


def _in_order(names: list[str]) -> Callable[[str], str]:
    """Return a function that returns the next of these names at each call."""
    left = iter(names)

    def assign(id: str) -> str:
        name = next(left, None)
        if name is None:
            raise ValueError("the file was changed while it was imported: import it again")
        return name

    return assign


def _take_in(folder: RecordFolder, result: Result) -> Result:
    """Move a record here from the folder in which a worker wrote it."""
    if isinstance(result, SkippedSession):
        return result
    try:
        return replace(result, record=str(folder.take_in(Path(result.record))))
    except RecordExists as error:
        there = f"{folder.target} already has a record of it: {error}"
        return SkippedSession(source=result.source, place=result.place, why=there, known=True)


class _ImportedFile(Struct, frozen=True):
    """Results for the sessions of a file."""

    results: list[Result]
    tool_names: set[str]
    ids: list[str]
    """Ids of the sessions, in parallel with the names of their records."""
    names: list[str]


def _import_file(
    plan: ImportPlan, folder: RecordFolder, searched: Path, path: Path, now: float, assign: Callable[[str], str]
) -> _ImportedFile:
    ids: list[str] = []
    names: list[str] = []

    def assign_name(id: str) -> str:
        name = assign(id)
        ids.append(id)
        names.append(name)
        return name

    importer = Importer(folder, plan.options, plan.complete, assign_name, now)
    results = list(importer.import_all(find_sessions_below(searched, path, plan.format)))
    return _ImportedFile(results, importer.tool_names, ids, names)


class _ImportStaged(Struct, frozen=True):
    """Function that imports a file into a separate folder, as if it were the only one."""

    plan: ImportPlan
    places: dict[str, Path]
    folders: dict[str, str]
    now: float

    def __call__(self, path: Path) -> _ImportedFile | Exception:
        """Return the results for the sessions, or the error if the folder cannot be written."""
        try:
            folder = self.plan.folder.staged(Path(self.folders[str(path)]))
            return _import_file(self.plan, folder, self.places[str(path)], path, self.now, RecordNames().assign)
        except (WrongUse, OSError) as error:
            return error
