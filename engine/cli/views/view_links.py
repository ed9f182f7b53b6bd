"""Links from report pages into `endstop view`, and what a reader needs for them to work."""

from __future__ import annotations

from urllib.parse import quote

from ...decision import WrongUse

DEFAULT_VIEW = "http://127.0.0.1:8644/"
"""The default address of `endstop view`."""
MAX_CALL_ID = 200
"""A longer id of a call is left out of a link, which then leads to the call's step."""
WANTED = frozenset({"truncated", "unknown", "rejected"})
"""Statuses of results that a reader wants to see in full, in addition to those of failed calls."""


class ViewLinks:
    """The links of a page. The forms of the addresses are those of `engine/web/page/address.js`."""

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
    def is_elsewhere(self) -> bool:
        """Whether the viewer must be started for the links to work."""
        return self._base != "./"

    @property
    def base(self) -> str:
        """The address of the viewer."""
        return self._base

    def sessions(self, name: str, value: str) -> str:
        """Return the link to the list of sessions that match a filter, such as `tool` and the tool's name."""
        return f"{self._base}?{quote(name, safe='')}={_part(value)}"

    def session(self, id: str) -> str:
        """Return the link to a session."""
        return f"{self._base}#s/{_part(id)}"

    def step(self, id: str, run: int, step: int) -> str:
        """Return the link to a step of a session."""
        return f"{self.session(id)}/{run}/step/{step}"

    def call(self, id: str, run: int, step: int, call_id: str) -> str:
        """Return the link to a call with its whole output."""
        there = self.step(id, run, step)
        return f"{there}/call/{_part(call_id)}" if 0 < len(call_id) <= MAX_CALL_ID else there


def _part(text: str) -> str:
    return quote(text, safe="", errors="replace")
