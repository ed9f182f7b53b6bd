"""Patterns of paths as in a `.gitignore`, relative to one folder: `tests/**`, `*.ini`, `ci/`.

- A pattern without a slash, but for one at its end, fits at any depth; another one begins at the folder. `./name` fits
  only there.
- `*` and `?` stand for characters of one name, `[ab]` and `[!ab]` for one of some, `**` for any number of folders.
- A pattern that fits a folder fits all in it; with a slash at its end it fits only what is in a folder.

In two points it is not a `.gitignore`: nothing can be excluded again with `!`, and dependencies (`node_modules`, a
virtual environment) are searched only by a pattern that begins with their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..decision import WrongUse

_TOKEN = re.compile(
    r"(?P<stars>\*+)|(?P<any>\?)|(?P<class>\[(?P<negation>[!^]?+)(?P<inner>(?:\\.|[^\\])(?:\\.|[^\]\\])*)\])|(?P<open>\[)|\\?.",
    re.DOTALL,
)
_RANGE = re.compile(r"(?P<first>\\?.)(?:-(?P<last>\\?.))?", re.DOTALL)
_NEVER = "(?!)"
_FORBIDDEN = re.compile(r"(?:^|/)\.\.(?:/|$)|^[A-Za-z]:")


class PathPattern:
    """One pattern. Raises WrongUse for one that cannot fit a path below the folder."""

    def __init__(self, text: str) -> None:
        self.text = text
        if not isinstance(text, str) or not text.strip("./") or "\0" in text:
            raise WrongUse(f"pattern {text!r}: use a path relative to the folder, as in 'tests/**'")
        if text.startswith(("/", "~")) or _FORBIDDEN.search(text):
            raise WrongUse(f"pattern {text!r} leads out of the folder: use a path relative to it, as in 'tests/**'")
        if text.startswith("!"):
            raise WrongUse(f"pattern {text!r}: a pattern cannot exclude: name what is to be guarded (\\! is a plain !)")
        names = [name for name in text.split("/") if name not in ("", ".")]
        anchored = "/" in text.rstrip("/")
        self._names = names if anchored else ["**", *names]
        self._expressions = [None if name == "**" else re.compile(_name_expression(name)) for name in self._names]
        self._path = re.compile(_path_expression(self._names, inside="/.+" if text.endswith("/") else "(?:/.+)?"))

    def fits(self, path: str) -> bool:
        """Return whether a path matches the pattern. path: relative to the folder, with `/` as the separator."""
        return self._path.fullmatch(path) is not None

    def leads_into(self, folder: Sequence[str]) -> bool:
        """Return whether the pattern may match a path in a folder. folder: the names on the way to it."""
        return self._fits_begin(folder) is not False

    def begins_with(self, folder: Sequence[str]) -> bool:
        """Return whether the pattern names a folder, given as for `leads_into`, other than by a `**`."""
        return self._fits_begin(folder) is True

    def _fits_begin(self, folder: Sequence[str]) -> bool | None:
        """Compare name by name; None if a `**` comes before a name has failed to fit."""
        for name, expression in zip(folder, self._expressions, strict=False):
            if expression is None:
                return None
            if not expression.fullmatch(name):
                return False
        return True


def exact_pattern(path: str) -> str:
    """Return the pattern that fits only this path relative to the folder, and all in it if it is a folder."""
    return "./" + re.sub(r"([*?\[\\])", r"\\\1", path)


def _path_expression(names: Sequence[str], inside: str) -> str:
    """Return the regular expression of a path. inside: that of what may follow, in a folder of this name."""
    found = ""
    for at, name in enumerate(names):
        last = at == len(names) - 1
        if name == "**":
            found += ".+" + inside if last else "(?:.+/)?"
        else:
            found += _name_expression(name) + (inside if last else "/")
    return f"(?s:{found})"


def _name_expression(name: str) -> str:
    """Return the regular expression of one name of a path. A `[` that is not closed fits nothing, as in git."""
    found = ""
    for token in _TOKEN.finditer(name):
        match token.lastgroup:
            case "stars":
                found += "[^/]*"
            case "any":
                found += "[^/]"
            case "class":
                found += _class_expression(token["inner"], negated=token["negation"] != "")
            case "open":
                found += _NEVER
            case _:
                found += re.escape(token[0][-1])
    return found


def _class_expression(inner: str, *, negated: bool) -> str:
    """Return the regular expression of `[...]`, of which `inner` stands between the brackets.

    A range that runs backwards stands for its first character.
    """
    ranges = ""
    for item in _RANGE.finditer(inner):
        first = item["first"][-1]
        last = (item["last"] or first)[-1]
        ranges += f"{re.escape(first)}-{re.escape(max(first, last))}"
    return f"(?!/)[{'^' if negated else ''}{ranges}]"
