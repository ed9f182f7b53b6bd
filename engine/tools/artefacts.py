"""What checks leave behind in a folder: caches and reports, which are no work, told by their names or a tag in them."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

ARTEFACTS = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache", ".tox", ".nox"),
        *(".coverage", "htmlcov", ".nyc_output", ".eslintcache", ".phpunit.result.cache", ".gradle"),
    }
)
"""Names of files and folders that checks write. `build`, `coverage`, `dist` and `target` may be the work itself."""
ARTEFACT_PATTERNS = ("*.pyc", ".coverage.*")
ARTEFACT_FOLDERS = ("node_modules/.cache", "node_modules/.vite")
"""Folders that are artefacts only within another one."""
CACHE_TAG = "CACHEDIR.TAG"
"""A file by which a folder says that all in it is a cache: cargo, uv and pytest write it (bford.info/cachedir)."""
_TAG_BEGINS = b"Signature: 8a477f597d28d172789f06886806bc55"
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})
"""Names of folders in which version control keeps its own files."""


def is_cache(folder: str) -> bool:
    """Return whether a folder has a valid `CACHEDIR.TAG`."""
    path = os.path.join(folder, CACHE_TAG)
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_TAG_BEGINS)) == _TAG_BEGINS
    except OSError:
        return False


def is_artefact(path: str) -> bool:
    """Return whether a relative path, of a file or a folder, is what a check writes or is in it, by its names."""
    parts = path.rstrip("/").split("/")
    if not ARTEFACTS.isdisjoint(parts) or any(fnmatchcase(parts[-1], pattern) for pattern in ARTEFACT_PATTERNS):
        return True
    return any(f"/{folder}/" in f"/{path}" for folder in ARTEFACT_FOLDERS)
