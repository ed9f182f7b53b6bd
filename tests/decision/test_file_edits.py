"""What a call did to each file, and the texts of it, taken from where they stand among the arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from endstop.decision import events as ev
from endstop.decision.call_judgement import CallJudgement, SessionJudge
from endstop.decision.file_edits import TextPlace, file_edits, file_looked_at
from endstop.decision.messages import AssistantMessage, ToolCall
from endstop.decision.policy import Policy
from hypothesis import given
from hypothesis import strategies as st

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch"
GIT = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
SHOWN = "[File: /r/a.py (3 lines total)]\n1:x"


def judged(name: str, arguments: dict[str, Any] | str, content: str = "") -> CallJudgement:
    """What a session's judge says of this call in another program's loop."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    message = AssistantMessage(calls=(ToolCall("c", name, text),))
    judge = SessionJudge()
    judge.feed(ev.RunStarted(run_id="r", session_id="s", policy=Policy(), engine="import:test"))
    judge.feed(ev.ResponseFinished(step=1, message=message, finish="tool_calls"))
    found = judge.feed(ev.ToolCallResult(call_id="c", name=name, content=content))
    assert found is not None
    return found


def text_at(place: TextPlace | None, arguments: dict[str, Any] | str) -> str | None:
    """The text at a place, cut as JavaScript cuts it."""
    if place is None:
        return None
    value: Any = arguments
    for name in place.argument:
        value = value[name]
    units = value.encode("utf-16-le")
    return units[2 * place.start : None if place.end is None else 2 * place.end].decode("utf-16-le")


def heredoc(program: str, text: str = "é😀\ny = 1") -> str:
    return f"cd /r && {program} <<'EOF'\n{text}\nEOF\nls"


BASH = "bash"
FAILED = "KeyError: 1\nExit code: 1"
CASES: list[tuple[str, dict[str, Any] | str, str, list[tuple[str, str, str | None, str | None]]]] = [
    (BASH, {"command": heredoc("cat > x.py")}, "", [("x.py", "write", None, "é😀\ny = 1\n")]),
    (BASH, {"command": heredoc("cat >> x.py")}, "", [("x.py", "insert", None, "é😀\ny = 1\n")]),
    (BASH, {"command": "é😀; " + heredoc("tee x.py")}, "", [("x.py", "write", None, "é😀\ny = 1\n")]),
    ("shell", {"command": ["bash", "-lc", heredoc("cat > x.py")]}, "", [("x.py", "write", None, "é😀\ny = 1\n")]),
    (BASH, {"command": "sed -i s/x/y/ a.py"}, "", [("a.py", "other", None, None)]),
    (
        BASH,
        {"command": "rm a.py && git checkout -- b.py"},
        "",
        [("b.py", "other", None, None), ("a.py", "other", None, None)],
    ),
    (BASH, {"command": "grep x a.py | head"}, "x", []),
    (
        "str_replace_editor",
        {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"},
        "The file a.py has been edited.",
        [("a.py", "replace", "x", "y")],
    ),
    ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, "", [("a.py", "write", None, "x")]),
    ("str_replace_editor", {"command": "view", "path": "a.py", "old_str": "", "new_str": ""}, "", []),
    ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": ""}, "", [("a.py", "replace", "x", "")]),
    ("Write", {"file_path": "a.py", "content": "x"}, "", [("a.py", "write", None, "x")]),
    (
        "multi_edit",
        {
            "file_path": "a.py",
            "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "1", "new_string": "2"}],
        },
        "",
        [("a.py", "replace", "x", "y"), ("a.py", "replace", "1", "2")],
    ),
    ("edit", {"command": "edit 3:4\nx = 1\nend_of_edit"}, SHOWN, [("/r/a.py", "insert", None, "x = 1")]),
    ("edit", {"command": "edit 3:4\nx = 1\nend_of_edit"}, "Your proposed edit has introduced new syntax error(s).", []),
    ("create", {"command": "create a.py"}, SHOWN, [("a.py", "other", None, None)]),
    (
        "apply_patch",
        {"input": PATCH},
        "",
        [
            ("a.py", "patch", None, "*** Update File: a.py\n@@\n-x\n+y"),
            ("b.py", "patch", None, "*** Add File: b.py\n+z\n*** End Patch"),
        ],
    ),
    (
        "shell",
        {"command": ["apply_patch", PATCH]},
        "",
        [
            ("a.py", "patch", None, "*** Update File: a.py\n@@\n-x\n+y"),
            ("b.py", "patch", None, "*** Add File: b.py\n+z\n*** End Patch"),
        ],
    ),
    (BASH, {"command": heredoc("git apply", GIT)}, "", [("a.py", "patch", None, GIT.rstrip())]),
    (
        BASH,
        {"command": heredoc("python3 -", "p = 'a.py'\nopen(p, 'w').write('x')")},
        "",
        [("a.py", "other", None, None)],
    ),
    # the write came before what failed
    (
        BASH,
        {"command": heredoc("cat > x.py") + "; python3 x.py"},
        "Exit code: 1",
        [("x.py", "write", None, "é😀\ny = 1\n")],
    ),
    (BASH, {"command": "sed -i s/x/y/ a.py; python3 x.py"}, FAILED, []),
    (BASH, {"command": heredoc("cat > x/x.py")}, "bash: x/x.py: No such file or directory\nExit code: 1", []),
]


def test_each_change_of_a_file_is_found_with_its_texts() -> None:
    wrong = []
    for name, arguments, content, wanted in CASES:
        found = judged(name, arguments, content)
        edits = [(one.path, one.how, text_at(one.old, arguments), text_at(one.new, arguments)) for one in found.edits]
        if edits != wanted or found.files != tuple(dict.fromkeys(path for path, *_ in wanted)):
            wrong.append((name, arguments, edits))
    assert wrong == []


def test_the_lines_of_an_edit_are_those_that_the_call_names() -> None:
    (edit,) = judged("edit", {"command": "edit 3:4\nx = 1\nend_of_edit"}, SHOWN).edits
    assert edit.at == "3:4"


@pytest.mark.parametrize(
    ("name", "arguments", "content", "file"),
    [
        ("read_file", {"path": "a.py"}, "x", "a.py"),
        ("bash", {"command": "sed -n 1,9p src/a.py"}, "x", "src/a.py"),
        ("bash", {"command": "cd /r && cat a.py | head -3"}, "x", "a.py"),
        ("bash", {"command": "cat a.py b.py"}, "x", ""),
        ("bash", {"command": "ls"}, "x", ""),
        ("scroll_down", {}, SHOWN, "/r/a.py"),
    ],
)
def test_a_look_names_the_one_file_that_it_was_at(name: str, arguments: Any, content: str, file: str) -> None:
    assert file_looked_at(name, json.dumps(arguments), content) == file
    assert judged(name, arguments, content).looked_at == file


@given(
    st.sampled_from(["bash", "edit", "apply_patch", "f"]), st.text(max_size=200), st.text(max_size=100), st.booleans()
)
def test_no_text_is_too_odd(name: str, text: str, content: str, failed: bool) -> None:
    for arguments in (text, json.dumps({"command": text, "path": text}), json.dumps({"patch": text, "path": "a"})):
        for edit in file_edits(name, arguments, (), content, failed):
            assert edit.path
        file_looked_at(name, arguments, content)
