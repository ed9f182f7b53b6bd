"""HTML pages, rendered from the Jinja2 templates in `templates/` and written to files.

Every value of a template is escaped, and control characters are removed from it, unless it is `Markup`. Jinja2 is
imported when the first page is rendered: most commands write none.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from ...analysis.charts import bar, interval, range_of
from ...base.sanitize import one_line, sanitize
from ...base.version import __version__
from ...decision import WrongUse
from .document import Bar, IntervalBar
from .text import counted, duration

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: object) -> str:
    """Render this template with the values. Raises `jinja2.UndefinedError` for a missing value."""
    return environment().get_template(template).render(values)


def isolated(text: str, longest: int = 0) -> Markup:
    """Isolate text of a model, tool or user, so that its writing direction does not affect the text around it.

    longest: characters that are shown, on one line; 0 for all of them.
    """
    shown = one_line(text, longest) if longest else sanitize(text)
    return Markup("<bdi>{}</bdi>").format(shown) if shown else Markup()


@cache
def environment() -> Environment:
    """Make the environment of all templates: their filters and globals, and how values are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        autoescape=True,
        finalize=_clean,
        loader=FileSystemLoader(TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals |= {"asset": _asset, "version": __version__}
    made.filters |= {
        "bdi": isolated,
        "counted": counted,
        "csp_source": _csp_source,
        "drawn": _drawn,
        "duration": duration,
        "grouped": "{:,}".format,
        "range_of": range_of,
    }
    return made


def _clean(value: object) -> object:
    return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawn(cell: str | Bar | IntervalBar) -> str:
    """Return a cell as it stands on a page: a bar as a picture."""
    match cell:
        case Bar():
            return bar(*cell)
        case IntervalBar():
            return interval(*cell)
        case str():
            return cell


def _asset(name: str) -> Markup:
    """Return a file from the templates folder, inserted into a page unchanged."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _csp_source(script: str) -> Markup:
    """Return the `script-src` of the page's Content-Security-Policy: the hash of this script, or none."""
    return Markup(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'")


# ---- files


def check_writable(place: str, records: Sequence[Path]) -> None:
    """Raise WrongUse if `--html` names a file that cannot be written, or one of the records."""
    path = Path(place)
    if path.is_dir():
        raise WrongUse(f"--html {place} is a folder: name a file")
    with suppress(OSError):
        if any(path.samefile(record) for record in records):
            raise WrongUse(f"--html {place} is one of the records: name another file")
    existed = path.exists()
    try:
        with open(path, "ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None


def write_page(place: str, page: str) -> str:
    """Write the page, whole or not at all; returns its place and size in words. Raises WrongUse if that fails."""
    whole = page.encode("utf-8", "replace")
    path = Path(place)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(whole)
        part.replace(path)
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return f"The page is {place} ({len(whole) / 1e6:.1f} MB)"
