"""Effect of program text in Python, JavaScript, Ruby or Perl: whether it writes a file or runs tests."""

from __future__ import annotations

import re

from .call_verbs import CallEffect
from .deferred_patterns import deferred
from .written_files import files_in_code

MAX_LENGTH = 16_384
"""Number of characters of a program text that are read."""
_WRITING_CODE = deferred(
    r"""open\([^()\n]{0,200}(?:\([^()\n]{0,100}\)[^()\n]{0,100})?,\s{0,9}(?:mode\s?=\s?)?r?["'](?:[wax][bt+]{0,2}|r[bt]?\+b?)["']
    |\.write_(?:text|bytes)\(|\.writelines\(
    |\bos\.(?:remove|unlink|rename|replace|rmdir|removedirs|makedirs|mkdir|chmod|symlink|truncate)\(
    |\bshutil\.(?:copy\w*|move|rmtree|make_archive)\(
    |\.(?:unlink|rename|mkdir|touch|rmdir)\(|\.to_(?:csv|json|excel|parquet|pickle|sql)\(\s{0,99}["'\w]
    |\b(?:json|pickle|yaml|toml|joblib|torch)\.(?:dump|safe_dump|save)\(|\bnp\.save\w*\(|\.savefig\(|\.save\(\s*f?["']
    |\.(?:write|append|copy|rename|unlink|rm|mkdir|cp|truncate|outputFile|outputJson)(?:File)?(?:Sync)?\(
    |\bcreateWriteStream\(|\bFile\.(?:write|open\([^()\n]{1,200},\s{0,9}["'][wa])|\bFileUtils\.
    |\b(?:INSERT INTO|UPDATE \w{1,60} SET|DELETE FROM|CREATE TABLE|DROP TABLE|ALTER TABLE)\b""",
    re.VERBOSE,
)
_RUNS_TESTS = deferred(r"\b(?:unittest\.main|pytest\.main|doctest\.testmod|run_tests?)\(")
_RUNS_PROGRAMS = deferred(
    r"\bsubprocess\b|\bos\.(?:system|popen|exec|spawn)|\bPopen\(|child_process|\bexecSync\(|\b(?:spawn|system|exec|eval)\("
    r"|\brequests\.(?:post|put|delete|patch)\(|\burlopen\(|\bcall_command\(|\bmain\(|\bruncode\(|\brunpy\b"
)
_APPEND = deferred(r"\.append\(|\.copy\(|\.rename\(")


def code_effect(code: str) -> CallEffect:
    """Return the effect of program text: a change if it writes a file, a check if it runs tests.

    It is unknown if the text runs a program. Text that does none of these counts as reading, because its only visible
    effect is its output. Functions that it imports may do more.
    """
    code = code[:MAX_LENGTH]
    for hit in _WRITING_CODE.finditer(code):
        if _APPEND.match(hit[0]):  # methods of lists and tables
            continue
        if ".write(" in hit[0] and _to_console(code, hit.start()):
            continue
        return CallEffect("changes", files=files_in_code(code))
    if _RUNS_TESTS.search(code):
        return CallEffect("checks", checks=True)
    return CallEffect("unknown" if _RUNS_PROGRAMS.search(code) else "reads")


def _to_console(code: str, at: int) -> bool:
    """Return whether the object before `at` is the console, or a buffer in memory."""
    return code[max(0, at - 8) : at].endswith(("stdout", "stderr", "buffer", "buf", "io", "out"))
