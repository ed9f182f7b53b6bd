"""Which files a call writes: only those that it names, and never one that it only reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from endstop.decision.call_effects import call_effect
from endstop.decision.call_verbs import MAX_FILES
from endstop.decision.written_files import files_in_code, files_in_output
from hypothesis import given
from hypothesis import strategies as st

COMMANDS: dict[str, tuple[str, ...]] = {
    "cat a.txt > b.txt": ("b.txt",),
    "cat a.txt >> 'my file.txt' 2>/dev/null": ("my file.txt",),
    "ls > /dev/null 2>&1": (),
    "echo x > $OUT": (),
    "pytest > log.txt": (),
    "ls | tee a.txt b.txt": ("a.txt", "b.txt"),
    "sed -i -e 's/a/b/' -e 's/c/d/' x.py y.py": ("x.py", "y.py"),
    "sed -i.bak 's/a/b/' x.py": ("x.py",),
    "sed -i '' 's/a/b/' x.py": ("x.py",),
    "sed -n 1,9p x.py": (),
    "perl -pi -e 's/a/b/' x.py": ("x.py",),
    "perl -0pi -e 's/a/b/' x.py": ("x.py",),
    "rm -f a.pyc b.pyc": ("a.pyc", "b.pyc"),
    "rm -rf build dist/a.whl": ("dist/a.whl",),
    "mv a.py b.py": ("a.py", "b.py"),
    "cp -r a/x.py b/y.py c/": ("c/x.py", "c/y.py"),
    "cp a.py b.py": ("b.py",),
    "touch -d yesterday a.py": ("a.py",),
    "truncate -s 0 a.log": ("a.log",),
    "dd if=a.img of=b.img": ("b.img",),
    "curl -s -o a.tgz http://localhost/a.tgz": ("a.tgz",),
    "sort -u a.txt -o b.txt": ("b.txt",),
    "sort -u a.txt": (),
    "sudo tee /etc/a.conf < b.conf": ("/etc/a.conf",),
    "bash -c 'echo x > a.txt'": ("a.txt",),
    "python3 -c \"open('a.txt', 'w').write('x')\"": ("a.txt",),
    "python3 - <<'EOF'\nfrom pathlib import Path\nPath('a.txt').write_text(Path('b.txt').read_text())\nEOF": ("a.txt",),
    "mkdir -p a/b": (),
    "git commit -am x": (),
    "rm *.pyc ${X} a.py": ("a.py",),
    "tool -o json x": (),
    "tool -o 0.5 x": (),
    "tool --output - x": (),
    "node build.js --outdir dist": ("dist",),
}


@pytest.mark.parametrize(("command", "files"), COMMANDS.items())
def test_a_command_writes_the_files_that_it_names(command: str, files: tuple[str, ...]) -> None:
    assert call_effect("bash", json.dumps({"command": command})).files == files


@pytest.mark.parametrize(
    ("name", "arguments", "files"),
    [
        ("edit_file", {"path": "a.py"}, ("a.py",)),
        ("Edit", {"file_path": "/a b.py"}, ("/a b.py",)),
        ("Read", {"file_path": "/a.py"}, ()),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, ()),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.py"}, ("a.py",)),
        (
            "apply_patch",
            {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n"},
            ("a.py", "b.py"),
        ),
        ("apply_patch", {"patch": "--- a/x.c\n+++ b/x.c\n@@\n--- a/y.c\n+++ /dev/null\n"}, ("x.c",)),
        ("create_document", {"path": "a.md"}, ("a.md",)),
        ("upload_file", {"path": "a.md"}, ()),
        ("send_email", {"file": "a.md"}, ()),
    ],
)
def test_a_tool_writes_the_file_that_its_arguments_name(
    name: str, arguments: dict[str, Any], files: tuple[str, ...]
) -> None:
    assert call_effect(name, json.dumps(arguments)).files == files


def test_program_text_writes_what_it_opens_by_name_to_write() -> None:
    code = (
        "a = open('in.txt')\nb = open('out.txt', 'w')\nc = open(name, 'w')\ndf.to_csv('t.csv')\nopen(f'{x}.txt', 'w')"
    )
    assert files_in_code(code) == ("out.txt", "t.csv")


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("Saved to out/a.json", ("out/a.json",)),
        ("Results written to /app/answer.", ("/app/answer",)),
        ("✓ Wrote 12 rows to `t.csv`.", ("t.csv",)),
        ("[12:01] INFO: Generated report.html", ("report.html",)),
        ("Created: src/new_module.py", ("src/new_module.py",)),
        ("Nothing was written to a.txt", ()),
        ("It would be saved to a.txt", ()),
        ("Saved 3 of 5", ()),
        ("Created a new session", ()),
        ("rewritten by a.b", ()),
        ("Loaded config.yaml", ()),
    ],
)
def test_a_program_says_which_file_it_wrote(line: str, files: tuple[str, ...]) -> None:
    assert files_in_output(f"start\n{line}\nend", "{}") == files


def test_files_are_bounded_and_each_is_named_once() -> None:
    many = " ".join(f"{number}.txt" for number in range(MAX_FILES + 5))
    assert len(call_effect("bash", json.dumps({"command": f"touch {many}"})).files) == MAX_FILES
    assert call_effect("bash", json.dumps({"command": "touch a; rm a; echo > a"})).files == ("a",)


@given(st.text(), st.sampled_from(["Saved to ", "a.txt ", " ", "./", "wrote", "\n", "`"]))
def test_any_output_can_be_read(text: str, piece: str) -> None:
    assert files_in_output(text + piece * 3000 + text, "") is not None
