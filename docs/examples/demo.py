"""What `make demo` shows: a recorded model sets the port in a real file, and the engine stops it.

The model's chunks come from a record of a real one (docs/real_model.md). Everything else happens now: the tools work
on a real file in a temporary folder, the completion call is recognised, the response is cut, the stop is decided, and
each decision is compared with the record's.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from endstop import read_record
from endstop.cli.views.text import savings_of
from endstop.records.format import DrainedChunk

RECORDS = Path(__file__).resolve().parents[2] / "tests" / "records"


def main(name: str = "port_write") -> int:
    """Play one golden record on a real folder, and show what it did."""
    record = RECORDS / f"{name}.jsonl"
    task = json.loads((RECORDS / "tasks.json").read_text(encoding="utf-8"))[name]
    with tempfile.TemporaryDirectory(prefix="endstop-demo-") as folder:
        workspace = Path(folder)
        for path, text in task["before"].items():
            (workspace / path).write_text(text, encoding="utf-8")
        print(f"A file in {workspace}, before:\n")
        print(_indented(_read_all(workspace)), flush=True)
        played = subprocess.run(
            [
                *(sys.executable, "-m", "endstop.cli.main"),
                *("replay", str(record), "--live-tools", "--workspace", folder, "--explain"),
            ],
            check=False,
        )
        print("\nWhat it changed:\n")
        print(_indented(_difference(task["before"], workspace)))
    print(_rest(read_record(record).runs[-1].after_cut))
    return played.returncode


def _read_all(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path.relative_to(folder)}:\n{path.read_text(encoding='utf-8')}" for path in files)


def _difference(before: dict[str, str], folder: Path) -> str:
    lines: list[str] = []
    for path, text in before.items():
        now = (folder / path).read_text(encoding="utf-8")
        lines += difflib.unified_diff(
            text.splitlines(), now.splitlines(), f"{path}, before", f"{path}, after", "", "", 1, ""
        )
    return "\n".join(lines)


def _rest(rest: list[DrainedChunk]) -> str:
    """What came after the cut: it was read into the record once, so that this can be said."""
    saved = str(savings_of(line.chunk for line in rest))
    if not saved:
        return "The model fell silent after its completion call: the rest of the response was its end and its bill."
    return f"It stopped inside the response, at the completion call. The rest would have cost {saved}."


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
