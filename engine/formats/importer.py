"""Sessions of other loops in, records of ours out: one record for each, and word of each that came to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec import Struct

from ..decision import WrongUse
from .files import Found, Skipped, why
from .naming import Names
from .to_events import tell
from .transcript import Kinds
from .written import AlreadyThere, Folder


class Imported(Struct, frozen=True, kw_only=True):
    """One session that is a record now."""

    session_id: str
    record: str
    """Path of the record."""
    format: str
    source: str
    """The file it came from."""
    place: str
    """Where in the file; empty if it is all that the file holds."""
    runs: int
    steps: int
    lost: Counter[str]


class Importer:
    """Writes what was found into one folder."""

    def __init__(self, folder: Folder, kinds: Kinds = Kinds()) -> None:  # noqa: B008
        self._folder = folder
        self._kinds = kinds
        self._names = Names()
        self._now = datetime.now(UTC).timestamp()
        self.tools: set[str] = set()
        """Names of all tools that were offered or called so far."""

    def take(self, found: Iterable[Found | Skipped]) -> Iterator[Imported | Skipped]:
        """Import each. One that breaks is skipped, whatever breaks in it, and the rest goes on."""
        for one in found:
            if isinstance(one, Skipped):
                yield one
                continue
            try:
                result: Imported | Skipped = self._imported(one)
            except AlreadyThere as error:
                there = f"{self._folder.path} holds a record of it already: {error}"
                result = Skipped(source=one.source, place=one.place, why=there, known=True)
            except (WrongUse, OSError):
                raise  # the folder's trouble, not the session's
            except Exception as error:
                result = Skipped(source=one.source, place=one.place, why=why(error))
            yield result

    def _imported(self, one: Found) -> Imported:
        name = self._names.give(one.id)
        path, told = self._folder.write(
            name, self._now, lambda sink: tell(one.foreign, name, one.format, self._kinds, sink)
        )
        self.tools |= told.tools
        return Imported(
            session_id=name,
            record=str(path),
            format=one.format,
            source=one.source,
            place=one.place,
            runs=told.runs,
            steps=told.steps,
            lost=one.foreign.lost,
        )


def lost_in(results: Iterable[Imported | Skipped]) -> Counter[str]:
    """What was lost in all of them, by kind."""
    total: Counter[str] = Counter()
    for result in results:
        if isinstance(result, Imported):
            total.update(result.lost)
    return total
