"""The libraries that the page brings along: which ones, unchanged, with their licences, and how heavy."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

VENDOR = Path(__file__).parents[3] / "engine" / "web" / "page" / "vendor"
KILOBYTES = 250
ROW = re.compile(r"^\| `([^`]+)` \| (\S+) ([\d.]+) \| `([^`]+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)
LISTED = {row[0]: row for row in ROW.findall((VENDOR / "README.md").read_text(encoding="utf-8"))}
THERE = {path.relative_to(VENDOR).as_posix(): path for path in VENDOR.rglob("*.min.js")}


def test_each_file_is_the_one_that_the_table_names() -> None:
    assert set(THERE) == set(LISTED)
    for name, path in THERE.items():
        assert sha256(path.read_bytes()).hexdigest() == LISTED[name][4], name


def test_each_library_has_its_licence_beside_it() -> None:
    for name in {name.split("/", 1)[0] for name in THERE}:
        assert "Copyright" in (VENDOR / name / "LICENSE").read_text(encoding="utf-8")
    bundled = sorted(path.name for path in (VENDOR / "markdown-it").glob("LICENSE.*"))
    assert bundled == [
        "LICENSE.entities",
        "LICENSE.linkify-it",
        "LICENSE.mdurl",
        "LICENSE.punycode.js",
        "LICENSE.uc.micro",
    ]


def test_they_are_bounded_and_make_no_code_of_text_and_ask_nobody() -> None:
    assert sum(path.stat().st_size for path in THERE.values()) < KILOBYTES * 1024
    for path in THERE.values():
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"\beval\(|new Function\b|\bfetch\(|XMLHttpRequest|importScripts|document\.write", text) == []
