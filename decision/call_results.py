"""What the result of a tool call says: that the call failed, with which error, or that a check passed.

Tools report failure in many shapes: a status, an exit code in a field or a sentence, a message in the first line, an
exception at the end. Only the first and the last `EDGE` characters of a result are read, so that a result of any
length costs the same. An exit code says more than words, for output that was read may speak of errors.
"""

from __future__ import annotations

import re

from .call_verbs import Effect

EDGE = 2_000
"""Characters that are read at each end of a result."""
MAX_SIGNATURE = 160
"""Length of an error signature in characters."""
FAILED: frozenset[str] = frozenset({"error", "invalid", "truncated", "unknown", "rejected", "cancelled"})
"""Statuses of results that say by themselves that the call failed."""
_NEAR = 300
"""Characters at each end in which an exit code stands; further inside it is part of the output."""

_EXIT_CODE = re.compile(
    r"(?:\bexit(?:ed|s)?[ _-]?(?:with[ _]?)?(?:exit[ _])?(?:code|status)|\breturn[ _-]?code|<returncode)"
    r"[\"'`)]{0,2}\s{0,4}[:=>]?\s{0,4}(-?[0-9]{1,10})\b",
    re.IGNORECASE,
)
_KILLED = re.compile(
    r"\bkilled by signal|\bexited with signal|\btimed out after|^command timed out|\bcore dumped",
    re.IGNORECASE | re.MULTILINE,
)
_EMPTY = re.compile(
    r"\"exit_?code\": ?\d+|\"duration_seconds\": ?[\d.]+|<returncode>-?\d+</returncode>"
    r"|</?output>|\(?no (?:new )?output\)?|\(?(?:command"
    r"|process)? ?exited with code \d+\.?"
    r"|\[?exit code:? ?\d+\]?|exit code \d+|[\s{}\[\]\"',:()]|output|stdout|stderr|exit_?code|returncode"
    r"|metadata|null",
    re.IGNORECASE,
)
_BAD_JSON = re.compile(
    r'"(?:is_?error|isError)"\s{0,4}:\s{0,4}true|"(?:success|ok)"\s{0,4}:\s{0,4}false'
    r'|"status"\s{0,4}:\s{0,4}"(?:error|failed|failure)"'
    r'|^\s{0,8}\{\s{0,8}"error"\s{0,4}:\s{0,4}+(?!null|""|false|\{\}|\[\])'
)
_JSON_ERROR = re.compile(r'"(?:error|message|stderr|detail)"\s{0,4}:\s{0,4}\{?(?:"message": )?"([^"\n]{1,400})')
_SAYS_DONE = (
    "[File: ", "File updated", "The file ", "Successfully ", "Here's the result of running `cat -n`", "Replaced ",
    "Created ", "diff --git",
)  # fmt: skip
_FIRST_WORDS = re.compile(
    r"(?:STDERR:\s{0,4}|<error>|<tool_use_error>|\[?stderr\]?:?\s{0,4}|⎿\s{0,4})?(?:"
    r"(?:fatal |internal |execution |parse |syntax |tool |runtime |api |http |\w{0,40}|[\w.]{1,60}\.\w{1,40})"
    r"(?:error|exception)\b(?:\[\w+\])?(?: \w{1,30}){0,5} ?[:(]"
    r"|error (?:executing|calling|running|while|in|invoking|reading|occurred)\b|error\b[!.]|fatal: |usage: "
    r"|traceback \("
    r"|failed to |failure: |failed:|invalid |unable to |cannot |can't |could not |couldn't |unknown (?:tool"
    r"|command|option)"
    r"|no such (?:file|tool|command)|command not found|permission denied|access denied|not found\b|file not found"
    r"|(?:the )?(?:file|directory|path|tool|folder) [^\n]{1,200} (?:not found|does not exist|was not found)\b"
    r"|<tool_use_error>|your proposed edit has introduced|your edit was not applied|your command "
    r"|no replacement was performed|tool call failed"
    r"|transaction failed|request failed|timed? ?out\b|string to replace not found|old_str(?:ing)? (?:not|did not)"
    r"|no matches? for old|missing required|exec preflight)",
    re.IGNORECASE,
)
"""How a result begins that is an error and nothing else."""
_COMPLAINT = re.compile(
    r": (?:command not found|not found\b|No such file or directory|[Pp]ermission denied|io error:|cannot access"
    r"|Is a directory|Not a directory|syntax error|unexpected EOF|invalid option|unrecognized option|cannot stat"
    r"|event not found)"
)
"""What a shell or a program complains of, after its name."""
_QUOTED = re.compile(r"[\s\"#(]|\d+[:\t]")
"""How a line begins that was read from a file, or that a search found."""
_ERROR_LINE = re.compile(
    r"^(?:E: |ERROR\b|\[ERROR\]|FATAL|fatal: |error(?:\[\w{1,12}\])?: |Error: |npm ERR!|FAILURE: |panic: "
    r"|make(?:\[\d{1,4}\])?: \*\*\*|Traceback \(most recent call last\)|Exception in thread"
    r"|[\w./+-]{1,200}:\d{1,9}:(?:\d{1,9}:)? (?:fatal )?error:|\[javac\] [^\n]{1,200} error:"
    r"|BUILD FAIL|Unhandled exception|Segmentation fault|Command not found|Uncaught )",
    re.MULTILINE,
)
"""A line that an error begins with, anywhere in what a program prints."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,119}+(?=:|$)")
_EXCEPTIONS = ("Error", "Exception", "Exit", "Interrupt", "NotFound", "Timeout", "Failed", "Failure", "Violation")
"""How the names of exceptions end that a program prints last."""
_GATE = re.compile(
    r"[Ee]rror|xception|[Nn]ot |[Ff]ail|FAIL|[Nn]o such|enied|sage:|nvalid|raceback|annot|ould|n't|ERR|fatal"
    r"|FATAL|anic"
    r"|nable|roposed|EOF|option|issing|nknown|imed|imeout|reflight|Fault|fault|our command|io error|directory|E: "
)
"""One of these stands in every text that the patterns for errors match."""
_IN_ERROR = re.compile(r"0x[0-9a-fA-F]{1,32}|\b[0-9a-f]{12,64}\b|\d+")
_SPACES = re.compile(r"\s+")


def has_failed(content: str, status: str | None = None, effect: Effect = "unknown") -> bool:
    """Whether a result says that its call failed. Never raises.

    `status` is that of the result, None where nothing gives one; any in `FAILED` decides. `effect` is what the call
    does (`call_effects.effect_of`): for calls that read, lines inside of the result are what was read, and say nothing.
    """
    if status in FAILED:
        return True
    head, tail = content[:EDGE], content[-EDGE:] if len(content) > EDGE else ""
    code = exit_code(content)
    if code is not None:
        return code != 0 and not (code == 1 and len(content) < _NEAR and not _EMPTY.sub("", content))
    if content.startswith("{"):
        return bool(_BAD_JSON.search(head))
    if not (_GATE.search(head) or (tail and _GATE.search(tail))):
        return False
    return _looks_failed(head, tail, effect)


def exit_code(content: str) -> int | None:
    """The exit code at the beginning or the end of a result; -1 for a killed process, None without one."""
    first = content[:_NEAR]
    last = content[-_NEAR:] if len(content) > _NEAR else ""
    for part in (last, first):
        if "od" not in part and "OD" not in part and "tatus" not in part and "ignal" not in part:
            continue
        codes = _EXIT_CODE.findall(part)
        if codes:
            return int(codes[-1] if part is last else codes[0])
        if "ignal" in part and _KILLED.search(part):
            return -1
    return None


def error_signature(content: str) -> str:
    """The first line that reports an error, without what differs from one time to the next; empty if there is none.

    Numbers, addresses and hashes are replaced by `#`, white space by single blanks, and the line is cut to
    `MAX_SIGNATURE` characters: two failures with the same signature failed for the same reason.
    """
    head, tail = content[:EDGE], content[-EDGE:] if len(content) > EDGE else ""
    line = _error_line(head) or (_error_line(tail) if tail else "")
    if not line:
        code = exit_code(content)
        return f"exit code {code}" if code else ""
    return _SPACES.sub(" ", _IN_ERROR.sub("#", line[: 2 * MAX_SIGNATURE])).strip()[:MAX_SIGNATURE]


def _error_line(text: str) -> str:
    """The line with the error. Of a Python traceback it is the last one, which names the exception."""
    begins = len(text) - len(text.lstrip())
    if text.startswith("{", begins):
        field = _JSON_ERROR.search(text)
        bad = _BAD_JSON.search(text)
        return field[1] if field else bad[0] if bad else ""
    if _FIRST_WORDS.match(text, begins) and not text.startswith("Traceback", begins):
        return _line_at(text, begins)
    last = _exception_line(text)
    if last:
        return last
    error = _ERROR_LINE.search(text)
    found = [start for start in (_complaint(text), error.start() if error else -1) if start >= 0]
    return _line_at(text, min(found)) if found else ""


def _complaint(text: str) -> int:
    """Where the first line begins in which a shell or a program complains; -1 if there is none."""
    for match in _COMPLAINT.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if match.start() - start < 250 and not _QUOTED.match(text, start):
            return start
    return -1


def _line_at(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[at : end if end >= 0 else len(text)]


def _looks_failed(head: str, tail: str, effect: Effect) -> bool:
    begins = head.lstrip()
    if begins.startswith(_SAYS_DONE):
        return False
    if _FIRST_WORDS.match(begins):
        return True
    if effect == "reads":
        return _complaint(begins) >= 0 and begins.count("\n") <= 3
    if effect == "checks":
        passed = has_passed(head + "\n" + tail if tail else head)
        if passed is not None:
            return not passed
    if any(_ERROR_LINE.search(part) or _complaint(part) >= 0 for part in (head, tail)):
        return True
    return bool(_exception_line(tail or head))


def _exception_line(text: str) -> str:
    """The last line of a text if it names an exception; else empty."""
    line = text.rstrip().rpartition("\n")[2]
    name = _EXCEPTION.match(line)
    return line[:400] if name and name[0].endswith(_EXCEPTIONS) else ""


_FAILED_CHECK = re.compile(
    r"\b[1-9]\d{0,8} (?:tests? )?(?:failed|failing|failures?|errors?|problems?)\b(?! allowed)|^FAILED\b"
    r"|\bBUILD FAIL(?:URE|ED)\b|^FAIL\b|^ {0,9}--- FAIL|test result: FAILED|(?:Failures|Errors): [1-9]"
    r"|(?:failures|errors)=[1-9]|^error(?:\[\w{1,12}\])?: "
    r"|\berror TS\d|: (?:fatal )?error: |\bFAILURES!|npm ERR!|^make(?:\[\d{1,4}\])?: \*\*\*|COMPILATION ERROR|^E   "
    r"|command not found|No such file or directory|No module named|^Traceback \(|Tests failed|[^\w]not ok \d",
    re.MULTILINE,
)
_PASSED_CHECK = re.compile(
    r"\b[1-9]\d{0,8} (?:tests? )?(?:passed|passing|successful|succeeded)\b|\bBUILD SUCCESS|^OK\b"
    r"|^ok[ \t]{1,9}\S{1,200}[ \t]{1,9}(?:[\d.]{1,12}s|\(cached\))|test result: ok"
    r"|\bTests run: [1-9]\d{0,8}, Failures: 0, Errors: 0|100% tests passed|All checks passed|^PASS\b|^--- PASS"
    r"|no issues found|^ {0,9}Finished `?\w{1,30}`? (?:\[|profile|target)|All tests passed"
    r"|\b[1-9]\d{0,8} examples?, 0 failures"
    r"|Build succeeded|\bno problems found|# fail 0\b|rated at 10",
    re.MULTILINE,
)
_NOTHING_RAN = re.compile(
    r"\bno tests ran|Ran 0 tests|collected 0 items|no tests? (?:found|to run|files)|\b0 passed\b|Nothing to be done"
)


def has_passed(content: str, status: str | None = None) -> bool | None:
    """Whether the result of a check says that it passed; None if it does not say.

    A failure that is reported counts before an exit code of 0, which may be that of the last command in a pipe.
    """
    if status in FAILED:
        return False
    text = content if len(content) <= 2 * EDGE else content[:EDGE] + "\n" + content[-EDGE:]
    code = exit_code(content)
    if code:
        return False
    if _FAILED_CHECK.search(text):
        return False
    if _PASSED_CHECK.search(text):
        return True
    if _NOTHING_RAN.search(text):
        return None
    return True if code == 0 else None
