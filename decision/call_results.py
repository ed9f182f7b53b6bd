"""What the result of a tool call says: how the call ended, or that a check passed.

Tools report failure in many forms: a status, an exit code in a field or a sentence, a message in the first line, an
exception at the end. Only the first and the last `EDGE` characters of a result are read, so a result of any length
costs the same. An exit code outweighs words, because output that was read may mention errors; only a traceback with
which a program ends outweighs an exit code of 0, which may be that of the last command in a pipe.
"""

from __future__ import annotations

import re
from typing import Literal

from .call_verbs import Effect
from .deferred_patterns import deferred
from .failures import FAILED_STATUSES

EDGE = 2_000
"""Number of characters that are read at each end of a result."""
_NEAR = 300
"""Number of characters at each end in which an exit code counts; further inside it is part of the output."""

CallEnd = Literal["succeeded", "failed", "nothing_found", "unknown"]
"""How a call ended, according to its result.

- `succeeded`: an exit code of 0, a field or a sentence says so, or a check passed;
- `failed`: an exit code, a field, an error message or a traceback says so;
- `nothing_found`: exit code 1 and nothing else, as from a search that found nothing;
- `unknown`: the result says neither.
"""
_NUMBER = r"[\"'`)>]{0,2}[ \t]{0,4}[:=]?[ \t]{0,4}(-?[0-9]{1,10})\b"
_EXIT_CODE = deferred(r"exit(?:ed|s)?[ _-]?(?:with[ _]?)?(?:exit[ _])?(?:code|status)" + _NUMBER)
_RETURN_CODES = {
    words: deferred(words + _NUMBER) for words in ("returncode", "return code", "return_code", "return-code")
}
"""Patterns by the words they begin with. Searching for the words costs less than searching with a pattern."""
_CODE_LINE = deferred(
    r"[\s(\[<*-]{0,8}(?:the )?(?:process|command|program|shell|tool)?[\s:]{0,2}(?:was |has )?"
    r"(?:exit(?:ed|s)?[ _-]?(?:with )?(?:code|status|signal|exit)|return[ _-]?code|terminated with|killed by)"
    r"[^\n]{0,40}$"
)
"""A line in lower case that says an exit code and nothing else."""
_KILLED = ("killed by signal", "exited with signal")
_EMPTY = deferred(
    r"\"exit_?code\": ?\d+|\"duration_seconds\": ?[\d.]+|<returncode>-?\d+</returncode>|</?output>"
    r"|\(?no (?:new )?output\)?|\(?(?:command|process)? ?exited with code \d+\.?|\[?exit code:? ?\d+\]?"
    r"|[\s{}\[\]\"',:()]|output|stdout|stderr|metadata|null",
    re.IGNORECASE,
)
"""Parts of a result that say no more than an exit code."""
_BAD_FIELD = deferred(
    r'"(?:(?:is_?error|isError)"\s{0,4}:\s{0,4}true|(?:success|ok)"\s{0,4}:\s{0,4}false'
    r'|status"\s{0,4}:\s{0,4}"(?:error|failed|failure)")'
)
"""A field that reports an error. All begin with one quote, because searching a text for that is fast."""
_GOOD_FIELD = deferred(
    r'"(?:(?:is_?error|isError)"\s{0,4}:\s{0,4}false|(?:success|ok)"\s{0,4}:\s{0,4}true'
    r'|status"\s{0,4}:\s{0,4}"(?:success|succeeded|ok)")'
)
"""A field that reports a success."""
_FIRST_FIELD_ERROR = deferred(r'\{\s{0,8}"error"\s{0,4}:\s{0,4}+(?!null|""|false|\{\}|\[\])')
_SAYS_DONE = deferred(
    r"\[File: |File (?:updated|created|written|saved|edited|deleted)\b|Successfully |diff --git"
    r"|Here's the result of running `cat -n`|(?P<claim>Replaced |Created |Your command ran successfully)"
    r"|(?:The |Your )?(?:[Ff]iles?|[Ee]dits?|[Cc]ontent|[Cc]hanges?|[Dd]irectory|[Tt]odos?|[Nn]otebook|[Cc]ell)"
    r" [^\n]{0,300}?(?:has been|have been|was|were) (?:successfully )?"
    r"(?:edited|updated|created|written|saved|overwritten|replaced|applied|deleted|removed|moved|renamed|modified)\b"
)
"""Beginnings of results with which a tool says that it did its work. Any program may print the
`claim`, and SWE-agent says the last one of every command without output, also of one that failed."""
_FIRST_WORDS = deferred(
    r"(?:STDERR:\s{0,4}|<error>|\[?stderr\]?:?\s{0,4})?(?:"
    r"(?:(?:fatal|internal|execution|parse|syntax|tool|runtime|api|http) |[\w.]{0,80})"
    r"(?:error|exception)\b(?:\[\w{1,12}\])?(?: \w{1,30}){0,5} ?[:(]"
    r"|error (?:executing|calling|running|while|in|invoking|reading|occurred)\b|error\b[!.]|fatal: "
    r"|usage: |traceback \("
    r"|failed to |failure: |failed:|invalid |unable to |cannot |can't |could not |couldn't |<tool_use_error>"
    r"|unknown (?:tool|command|option)|no such (?:file|tool|command)|no session found|command not found"
    r"|permission denied|access denied|not found\b|file not found"
    r"|(?:the )?(?:file|directory|path|tool|folder) [^\n]{1,200} (?:not found|does not exist|was not found)\b"
    r"|your proposed edit has introduced|your edit was not applied|your command (?!ran successfully)"
    r"|no replacement was performed"
    r"|tool call failed|transaction failed|request failed|(?:execution )?timed? ?out\b|string to replace not found"
    r"|old_str(?:ing)? (?:not|did not)|no matches? for old|missing required|exec preflight|validation failed\b"
    r"|please always provide exactly one|the last command <command>[^\n]{0,400} timed out"
    r"|\[?(?:the )?command timed out)",
    re.IGNORECASE,
)
"""Beginnings of results that are an error and nothing else."""
_ERROR_LINE = deferred(
    r"\n(?:E: |ERROR\b|\[ERROR\]|FATAL\b|fatal: |error(?:\[\w{1,12}\])?: |Error: |npm ERR!|FAILURE: |panic: "
    r"|make: \*\*\* |Traceback \(most recent call last\)|Exception in thread|BUILD FAIL|Unhandled exception"
    r"|Segmentation fault|Command not found|Uncaught |FAIL\t|--- FAIL)"
)
"""Beginnings of lines that report an error, anywhere in the output of a program."""
_COMPLAINT = deferred(
    r": (?:command not found|not found|No such file or directory|[Pp]ermission denied|io error:|cannot access"
    r"|Is a directory|Not a directory|syntax error|unexpected EOF|invalid option|unrecognized option|cannot stat"
    r"|event not found|error: |fatal error: |\*\*\* )"
)
"""Complaints of a shell or a program, after its name."""
_QUOTED = deferred(r"[\s\"#(]|\d+[:\t]|[^\s:]{1,200}:\d{1,9}:[^:\n]{0,200}: (?!error:|fatal error:)")
"""Beginnings of lines that were read from a file or found by a search."""
_EXCEPTION = deferred(r"[A-Za-z_][\w.]{0,119}+(?=:|$)")
_EXCEPTIONS = ("Error", "Exception", "Exit", "Interrupt", "NotFound", "Timeout", "Failed", "Failure", "Violation")
"""Endings of the exception names that a program prints last."""
_CLOSING = deferred(
    r"\s*|\s{0,9}(?:</\w{1,20}>|```|[(\[]?(?:Command |Process )?[Ee]xit(?:ed)?[ _](?:with )?code[^\n]{0,20})\s{0,9}"
)
"""A line with which a tool closes a result."""
_OWN_FRAME = deferred(r'  File "<(?:string|stdin)>"')
"""Stack frame of a program text that was given with the call."""
_COLOURS = deferred(r"\x1b\[[0-9;]{0,20}[A-Za-z]")


def call_end(content: str, status: str | None = None, effect: Effect = "unknown") -> CallEnd:
    """Return how a call ended, according to its result. Never raises.

    `status` is the status of the result, or None if nothing gives one; those in `failures.FAILED_STATUSES` decide.
    `effect` is what the call does (`call_effects.effect_of`): for calls that read, the lines within the result are what
    was read and say nothing about the call.
    """
    if status in FAILED_STATUSES:
        return "failed"
    code = exit_code(content, alone=effect == "reads")
    if code:
        nothing = code == 1 and len(content) < _NEAR and not _EMPTY.sub("", content)
        return "nothing_found" if nothing else "failed"
    if _ends_with_traceback(content, effect):
        return "failed"
    if code == 0:
        return "succeeded"
    text = _cleaned_edges(content)
    if text.startswith("{"):
        return "failed" if _is_bad_json(text) else "succeeded" if _GOOD_FIELD.search(text[:_NEAR]) else "unknown"
    if done := _SAYS_DONE.match(text):
        return "unknown" if done["claim"] or (effect != "reads" and _reports_error(text)) else "succeeded"
    if _FIRST_WORDS.match(text):
        return "failed"
    if effect == "reads":
        return "failed" if text.count("\n", 0, EDGE) <= 4 and _complains(text) else "unknown"
    if effect == "checks" and (passed := _report(text)) is not None:
        nothing = any(words in text for words in _NOTHING_RAN)
        return "failed" if not passed else "unknown" if nothing else "succeeded"
    return "failed" if _reports_error(text) else "unknown"


def has_failed(content: str, status: str | None = None, effect: Effect = "unknown") -> bool:
    """Return whether a result says that its call failed (see `call_end`). Finding nothing is not a failure."""
    return call_end(content, status, effect) == "failed"


_OUT_OF_TIME = deferred(r"timed out|out of time|(?:has been|was|must be) restarted", re.IGNORECASE)
_RESTARTED = deferred(r"\W{0,8}(?:the )?[\w ]{1,30} (?:has been|was) restarted", re.IGNORECASE)


def ran_out_of_time(content: str, failed: bool) -> bool:
    """Return whether a short result only says that the tool ran out of time or was restarted.

    It then tells nothing about the call itself. failed: whether the result says that the call failed (`has_failed`).
    """
    if len(content) > _NEAR:
        return False
    return bool(_OUT_OF_TIME.search(content) if failed else _RESTARTED.match(content))


_STILL_RUNS = deferred(
    r"\W{0,8}(?:the )?(?:command|process|task|job|program)\b[^\n]{0,60} (?:running|in the background)", re.I
)


def still_runs(content: str) -> bool:
    """Return whether a result says that the program continues in the background, so that its end is unknown."""
    return bool(_STILL_RUNS.match(content))


def exit_code(content: str, *, alone: bool = False) -> int | None:
    """Return the exit code at the beginning or the end of a result; -1 for a killed process, None if there is none.

    alone: the exit code must have a line to itself, because a result that was read may mention others.
    """
    last = content[-_NEAR:].lower() if len(content) > _NEAR else ""
    first = content[:_NEAR].lower()
    edges = first + last
    if "exit" not in edges and "return" not in edges and "killed" not in edges:
        return None  # the usual case, found without looking for whole words
    if alone and not content.lstrip().startswith("{"):
        first, last = _lines_of_codes(first), _lines_of_codes(last)
    codes = _codes_in(last)
    if codes:
        return int(codes[-1])
    codes = _codes_in(first)
    if codes:
        return int(codes[0])
    return -1 if any(words in part for words in _KILLED for part in (first, last)) else None


def _lines_of_codes(part: str) -> str:
    """Return the lines of a text in lower case that say an exit code and nothing else."""
    return "\n".join(line for line in part.split("\n") if _CODE_LINE.match(line))


def _codes_in(part: str) -> list[str]:
    """Return the exit codes that a text in lower case names."""
    codes: list[str] = _EXIT_CODE.findall(part) if "exit" in part else []
    if "return" in part:
        for words, pattern in _RETURN_CODES.items():
            if words in part:
                codes += pattern.findall(part)
    return codes


def edges(content: str) -> str:
    """Return the first and the last `EDGE` characters of a result; the whole result if it is short."""
    return content if len(content) <= 2 * EDGE else content[:EDGE] + "\n" + content[-EDGE:]


def _cleaned_edges(content: str) -> str:
    """Return the edges of a result, without colours and leading white space."""
    text = edges(content)
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return text.lstrip()


def _is_bad_json(text: str) -> bool:
    """Return whether a text that begins with a brace is JSON that reports an error."""
    return bool(_FIRST_FIELD_ERROR.match(text) or _BAD_FIELD.search(text))


def _reports_error(text: str) -> bool:
    """Return whether a line of a text reports an error, or its last line names an exception."""
    return bool(_ERROR_LINE.search("\n" + text)) or _complains(text) or _ends_with_exception(text)


def _complains(text: str) -> bool:
    """Return whether a line of a text is a complaint of a shell or a program."""
    for found in _COMPLAINT.finditer(text):
        start = text.rfind("\n", 0, found.start()) + 1
        if found.start() - start < 250 and not _QUOTED.match(text, start):
            return True
    return False


def _ends_with_exception(text: str) -> bool:
    """Return whether the last line of a text names an exception."""
    name = _EXCEPTION.match(_last_lines(text)[-1])
    return name is not None and name[0].endswith(_EXCEPTIONS)


def _ends_with_traceback(content: str, effect: Effect) -> bool:
    """Return whether a result ends with a Python traceback; for a call that reads, of program text given with it."""
    if '  File "' not in content[-EDGE:]:
        return False
    lines = _last_lines(content)
    at = next((place for place in range(len(lines) - 2, -1, -1) if lines[place].startswith('  File "')), None)
    if at is None or (effect == "reads" and not any(_OWN_FRAME.match(line) for line in lines)):
        return False
    inside = (line.startswith(("    ", "  [Previous line repeated")) for line in lines[at + 1 : -1])
    return all(inside) and _EXCEPTION.match(lines[-1]) is not None


def _last_lines(text: str) -> list[str]:
    """Return the last lines of a text, without those with which a tool closes a result; at least one."""
    lines = text[-EDGE:].rstrip().split("\n")
    while len(lines) > 1 and _CLOSING.fullmatch(lines[-1]):
        lines.pop()
    return lines


_COUNT = deferred(
    r"[1-9]\d{0,8} (?:tests? )?(?:(failed|failing|failures?|errors?|problems?)\b(?! allowed)"
    r"|passed\b|passing\b|successful\b|succeeded\b|examples?, 0 failures)"
)
"""Number of tests that failed (with a group) or passed."""
_REPORT_LINE = deferred(
    r"\n(?:(FAILED\b|FAIL\b| {0,9}--- FAIL|error(?:\[\w{1,12}\])?: "
    r"|make(?:\[\d{1,4}\])?: \*\*\*|not ok \d|npm ERR!)|OK\b)"
)
"""A line that says that a check failed (with a group) or passed."""
_SAYS_FAILED = (
    "BUILD FAIL", "test result: FAILED", "error TS", ": error: ", ": fatal error: ", "FAILURES!", "COMPILATION ERROR",
    "Tests failed",
)  # fmt: skip
_SUMMARY = deferred(r"[FEfe](?:ailures|rrors)(?:: |=)[1-9]")
_SAYS_PASSED = (
    "BUILD SUCCESS", "test result: ok", "100% tests passed", "All checks passed", "no issues found", "All tests passed",
    "Build succeeded", "no problems found", "# fail 0", "rated at 10", ", Failures: 0, Errors: 0",
)  # fmt: skip
_NOTHING_RAN = ("no tests ran", "Ran 0 tests", "collected 0 items", "no tests ", "no test ", "Nothing to be done")
_BROKEN_LINE = deferred(r"\n(?:Traceback \(|ERROR\b|FATAL\b|E   )")
_BROKEN = ("command not found", "No such file or directory", "No module named", "timed out and has been killed")
"""Signs that a check could not run."""
_PASSED_LINE = deferred(
    r"\n(?:ok[ \t]{1,9}\S{1,200}[ \t]{1,9}(?:[\d.]{1,12}s|\(cached\))|PASS\b|--- PASS"
    r"| {0,9}Finished `?\w{1,30}`? (?:\[|profile|target))"
)


def has_passed(content: str, status: str | None = None) -> bool | None:
    """Return whether the result of a check says that it passed; None if it does not say, or nothing was checked.

    A reported failure outweighs an exit code of 0, which may be that of the last command in a pipe.
    """
    code = exit_code(content)
    if code or status in FAILED_STATUSES:
        return False
    text = _cleaned_edges(content)
    passed = _report(text)
    if passed is not None:
        return passed
    if any(words in text for words in _NOTHING_RAN):
        return None
    if text.startswith("{") and _is_bad_json(text):
        return False
    if _FIRST_WORDS.match(text) or any(words in text for words in _BROKEN) or _BROKEN_LINE.search("\n" + text):
        return False
    return True if code == 0 or _PASSED_LINE.search("\n" + text) else None


def _report(text: str) -> bool | None:
    """Return what a check itself reports: True for passed, False if anything failed, None if it reports neither."""
    if any(words in text for words in _SAYS_FAILED) or _SUMMARY.search(text):
        return False
    passed = any(words in text for words in _SAYS_PASSED)
    for found in (_REPORT_LINE.match("\n" + text[:40]), *_COUNT.finditer(text), *_REPORT_LINE.finditer(text)):
        if found:
            if found[1]:
                return False
            passed = True
    return passed or None
