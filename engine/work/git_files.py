"""Asks git which files of a folder are work and which folders it ignores, without running what the folder names.

The folder may be a model's to write, `.git/config` and `PATH` among it. So git is looked up outside the folder, sees a
short environment, takes no lock, writes nothing, and is told to use no hook, no file system monitor and no transport.
`ls-files` and `check-ignore` compare no contents, so no filter is run either.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from ..tools.child_process import child_environment

SECONDS = 10.0
"""Seconds that git may take. A fifo in the place of a `.gitignore` would keep it for ever."""

_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_LISTED = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")


class GitFiles:
    """What git says about the files of one folder, which may lie below the root of its repository.

    folder: an absolute path without links. own_repository: use only a repository whose root the folder is, not one
    around it. All paths that come back are relative to the folder and separated by `/`; names that are not UTF-8 are
    decoded as by `os.fsdecode`.
    """

    def __init__(self, folder: str, *, own_repository: bool = False) -> None:
        path = os.pathsep.join(_outside(folder, os.environ.get("PATH", os.defpath)))
        self._program = shutil.which("git", path=path) if path else None
        self._environment = child_environment() | {
            "PATH": path,
            "LC_ALL": "C",
            "GIT_ALLOW_PROTOCOL": "",  # a partial clone fetches what is missing, through a helper that its config names
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        if own_repository:
            self._environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(folder)
        self._folder = folder
        if self._run("check-ignore", "--quiet", ".") is not None:
            self._program = None  # a repository around the folder ignores it, and would list nothing

    def listed(self) -> bytes | None:
        """Return the tracked and the untracked files, without those that git ignores, as `ls-files -z` prints them.

        A repository in the folder is one entry: a submodule `lib`, another one `lib/`. Returns None where git is
        missing, fails or takes longer than `SECONDS`, where there is no repository, or one that ignores the folder.
        """
        return self._run(*_LISTED)

    def ignored_folders(self) -> frozenset[str] | None:
        """Return the topmost folders that git ignores and in which nothing is tracked; None as for `listed`."""
        printed = self._run(*_IGNORED)
        if printed is None:
            return None
        return frozenset(path[:-1] for path in os.fsdecode(printed).split("\0") if path.endswith("/"))

    def _run(self, *arguments: str) -> bytes | None:
        """Return what a command of git prints; None if it fails."""
        if self._program is None:
            return None
        try:
            done = subprocess.run(
                [self._program, *_OPTIONS, *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            self._program = None  # it would hang each time
            return None
        except OSError:
            return None
        return done.stdout if done.returncode == 0 else None


def _outside(folder: str, path: str) -> list[str]:
    """Return the folders of a search path that are absolute and not inside `folder`."""
    found = []
    for place in path.split(os.pathsep):
        real = os.path.realpath(place)
        if os.path.isabs(place) and real != folder and not real.startswith(folder.rstrip(os.sep) + os.sep):
            found.append(place)
    return found
