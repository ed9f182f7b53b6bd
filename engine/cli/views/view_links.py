"""Links from report pages into `endstop view`, and what a reader needs for them to work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from ...decision import WrongUse

DEFAULT_VIEW = "http://127.0.0.1:8644/"
"""The default address of `endstop view`."""
MAX_LINK = 60_000
"""Characters of a link above which it is left out: a viewer takes no more than 64 KiB in a request's first line."""


class ViewLinks:
    """The viewer that a page's links lead to. The forms of the links are those of `engine/web/page/address.js`."""

    def __init__(self, base: str = DEFAULT_VIEW, records: str = "RECORDS") -> None:
        """Set the viewer's address as `base`; `./` on a page that the viewer itself serves.

        records: the arguments with which to start `endstop view`, as text for a shell. Raises WrongUse for another kind
        of address.
        """
        if base != "./" and not base.startswith(("http://", "https://")):
            raise WrongUse(f"--view {base} is not the address of a viewer: write one like {DEFAULT_VIEW}")
        self._base = base.partition("#")[0].partition("?")[0]
        if not self._base.endswith("/"):
            self._base += "/"
        self.records = records

    @property
    def must_run(self) -> str:
        """What a reader must do for the links to work, in sentences; empty on a page that the viewer itself serves."""
        if self._base == "./":
            return ""
        return f"Links lead to `endstop view` at {self._base}, which must be running: `endstop view {self.records}`."

    @property
    def base(self) -> str:
        """The address of the viewer."""
        return self._base


class GroupLinks:
    """Links of figures to the sessions that they count, as a list in the viewer.

    With ratings or labels a viewer does not know what a report counts. Then a link names the sessions themselves, if
    the report knows all of them and they are few enough for an address.
    """

    def __init__(self, named: Mapping[str, Mapping[str, Sequence[str]]] | None = None, *, judged: bool = False) -> None:
        """judged: whether there are ratings or labels. named: ids of sessions, by the filter and its value."""
        self._named, self._judged = named or {}, judged

    def to(self, name: str, value: str) -> str:
        """Return the link to the sessions that match a filter, such as `tool` and the tool's name; empty if none is."""
        if not self._judged or name not in ("work", "trouble", "reached", "kind"):
            return f"?{name}={_part(value)}"
        return sessions_link(self._named.get(name, {}).get(value, ()))


def sessions_link(ids: Iterable[str]) -> str:
    """Return the link to the list of these sessions; empty if there are none, or too many for an address."""
    link = f"?ids={_part(','.join(map(_part, ids)))}"
    return link if len("?ids=") < len(link) <= MAX_LINK else ""


def session_link(id: str) -> str:
    """Return the link to a session."""
    return f"#s/{_part(id)}"


def _part(text: str) -> str:
    return quote(text, safe="", errors="replace")
