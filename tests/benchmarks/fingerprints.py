"""How long the fingerprint of a folder takes, with git and without: the first one, and those of unchanged work.

    python tests/benchmarks/fingerprints.py [--files 10000] [--times 20]

The folder is made in the system's temporary directory: a hundred files in each of its folders, of a few hundred bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from endstop.file_states import RACY_NS
from endstop.work_fingerprint import WorkFingerprint


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


def seconds_of(fingerprint: WorkFingerprint) -> float:
    """Take a fingerprint, and return how long that took."""
    began = time.perf_counter()
    fingerprint.take()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20, help="how often the work is found unchanged")
    given = parser.parse_args()
    print(f"{given.files} files, milliseconds\n{'':14}{'first':>8}{'unchanged, median':>20}{'worst':>8}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_files(folder, given.files)
        time.sleep(RACY_NS / 1e9 + 0.1)  # until their last change lies outside what one time may stand for
        for name in ("without git", "with git"):
            if name == "with git":
                commit(folder)
            fingerprint = WorkFingerprint(folder)
            first = seconds_of(fingerprint)
            again = [seconds_of(fingerprint) for _ in range(given.times)]
            print(f"{name:14}{first * 1000:8.0f}{median(again) * 1000:20.1f}{max(again) * 1000:8.1f}", flush=True)


if __name__ == "__main__":
    main()
