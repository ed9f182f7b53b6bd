"""How long the fingerprint of a folder takes, with git and without, and what else `until` does with a folder.

The first fingerprint, and those of unchanged work; a comparison of guarded files, all of them guarded; a copy.

    python tests/benchmarks/work_folder.py [--files 10000] [--times 20]

The folder is made in the system's temporary directory: a hundred files in each of its folders, of a few hundred bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from endstop.work.file_states import RACY_NS
from endstop.work.folder_copy import copy_of
from endstop.work.guarded_files import GuardedFiles
from endstop.work.work_fingerprint import WorkFingerprint


def make_files(folder: Path, files: int) -> None:
    """Fill a folder."""
    for number in range(files):
        path = folder / f"package_{number // 100}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"number = {number}\n" * 20)


def commit(folder: Path) -> None:
    """Make a repository of a folder, with all its files in one commit."""
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "all")):
        author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        subprocess.run(["git", *author, *arguments], cwd=folder, check=True)


def seconds_of(act: Callable[[], object]) -> float:
    """Call a function, and return how long that took."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def row(name: str, act: Callable[[], object], times: int) -> None:
    """Print how long a function takes, the first time and after that."""
    first = seconds_of(act)
    again = [seconds_of(act) for _ in range(times)]
    print(f"{name:26}{first * 1000:8.0f}{median(again) * 1000:15.1f}{max(again) * 1000:8.1f}", flush=True)


def copy_and_remove(folder: Path) -> None:
    """Make a copy of a folder, and remove it."""
    with copy_of(folder):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20, help="how often each is done again, on unchanged work")
    given = parser.parse_args()
    print(f"{given.files} files, milliseconds\n{'':26}{'first':>8}{'again, median':>15}{'worst':>8}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_files(folder, given.files)
        time.sleep(RACY_NS / 1e9 + 0.1)  # until their last change lies outside what one time may stand for
        row("fingerprint without git", WorkFingerprint(folder).take, given.times)
        commit(folder)
        row("fingerprint with git", WorkFingerprint(folder).take, given.times)
        with GuardedFiles(folder, ["*.py"]) as guarded:
            row("guarded files compared", guarded.changed, given.times)
        row("copy made and removed", partial(copy_and_remove, folder), given.times)


if __name__ == "__main__":
    main()
