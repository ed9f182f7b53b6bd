"""Builds the source distribution and the wheel, checks both, and uses each as one who installs it does.

    python tests/build_dist.py          (or `make dist`; needs `build`, `setuptools` and `twine`)

Each is built twice, in two folders and with two seeds of hashes, and must be the same bytes: what is published can then
be built again from the commit and compared. The times in them are those of the commit (SOURCE_DATE_EPOCH), and the
permissions are those under umask 022, since a wheel keeps them.
Afterwards each is installed into an empty environment, where the demo and a few commands run from it. The index of
packages is asked for what endstop needs, nothing is uploaded.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PARTS = ("decision", "providers", "engine", "pyproject.toml", "README.md", "LICENSE")
COMMANDS = (
    "--version",
    "demo",
    "replay session.jsonl",
    "audit session.jsonl",
    "report session.jsonl",
    "export html session.jsonl",
    "completion bash",
)
"""What runs from an install, in a folder with one record."""


def main() -> int:
    """Build, check and try. Raises SystemExit with what is wrong."""
    version = _version()
    epoch = _commit_time()
    with TemporaryDirectory() as place:
        first, second = (_built(Path(place, name), epoch) for name in ("1", "2"))
        _compare(first, second)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        files = [Path(shutil.copy(path, DIST)) for path in first]
    _run([sys.executable, "-m", "twine", "check", "--strict", *files])
    print("metadata and README: as an index of packages wants them")
    for file in files:
        with TemporaryDirectory() as place:
            _try_install(file, Path(place), version)
    for file in files:
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  dist/{file.name}")
    return 0


def _version() -> str:
    """The version, which CHANGELOG.md must have a section of."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "engine" / "base" / "version.py").read_text(encoding="utf-8"))
    assert found is not None
    if not re.search(
        rf"^## {re.escape(found[1])}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    ):
        raise SystemExit(f"CHANGELOG.md has no section of version {found[1]} (engine/base/version.py): write one")
    return found[1]


def _commit_time() -> str:
    """Seconds since 1970 of the last commit; of SOURCE_DATE_EPOCH where that is given."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _run(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()


def _built(place: Path, epoch: str) -> list[Path]:
    """The source distribution and the wheel made of it, as they are published."""
    source, out = place / "source", place / "out"
    for name in _run(["git", "ls-files", "--", *PARTS], cwd=ROOT).splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": place.name}
    _run([*build, "--sdist", source], env=environment)
    (archive,) = out.glob("*.tar.gz")
    archive.write_bytes(_normalized(archive.read_bytes(), int(epoch)))
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    _run([*build, "--wheel", place / archive.name.removesuffix(".tar.gz")], env=environment)
    return [archive, *out.glob("*.whl")]


def _normalized(data: bytes, epoch: int) -> bytes:
    """A source distribution with sorted entries, one time and no user: setuptools writes those of the machine."""
    packed = BytesIO()
    with (
        tarfile.open(fileobj=BytesIO(data)) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda one: one.name):
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = 0o755 if entry.isdir() else 0o644
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def _compare(first: Sequence[Path], second: Sequence[Path]) -> None:
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise SystemExit(f"{one.name} has other bytes when it is built again: compare {one} and {other}")
        print(f"{one.name}: {one.stat().st_size:,} bytes, the same twice")


def _try_install(file: Path, place: Path, version: str) -> None:
    """Install into an empty environment, and run what a new user runs."""
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
    _run([*pip, "install", "-qq", "--constraint", ROOT / "constraints.txt", file])
    _run([*pip, "check"])
    shutil.copyfile(ROOT / "tests" / "records" / "port_server.jsonl", place / "session.jsonl")
    told = {line: _run([python.parent / "endstop", *line.split()], cwd=place) for line in COMMANDS}
    if told["--version"].split() != ["endstop", version]:
        raise SystemExit(f"{file.name} says that it is {told['--version']!r}, and is {version}")
    readme = (ROOT / "README.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    (example,) = (one for one in examples if "Scripted" in one)  # the one that needs no model
    _run([python, "-c", example], cwd=place)
    print(f"{file.name}: installed, and {len(COMMANDS)} commands and README's program run from it")


def _run(command: Sequence[object], **options: object) -> str:
    """What a command prints. Raises SystemExit with what it said if it fails."""
    done = subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        umask=0o022,
        **options,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\nended with {done.returncode}")
    return str(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
