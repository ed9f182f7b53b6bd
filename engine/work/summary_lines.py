"""What a test runner says at the end of its output: whether the tests passed, and how many."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

HEAD, TAIL = 4_000, 40_000
"""Number of characters that are read at the beginning and at the end of an output."""
MAX_LINE = 400
"""Longer lines are not read."""


class RunnerSummary(Struct, frozen=True, kw_only=True):
    """What the summaries in one output say together."""

    verdict: bool | None = None
    """True if tests passed and none failed, False if any failed or could not be collected; None if nothing says it."""
    passed: int | None = None
    failed: int | None = None
    nothing_ran: bool = False
    """Whether a runner says that it ran no test, and none says otherwise."""


_FAILED = re.compile(
    r"FAILED \((?:failures|errors|unexpected successes|expected failures|skipped)=\d"  # unittest
    r"|!+ .{0,80}errors? during collection|(?:Error: )?ImportError while loading conftest"  # pytest
    r"|FAIL\t|FAIL$|FAIL \w|--- FAIL: |test result: FAILED|error: could not compile|error: test failed"  # Go, Rust
    r"|(?:\[\w{1,8}\] )?BUILD FAIL|\[ERROR\] COMPILATION ERROR|npm (?:ERR!|error) |FAILURES!$|ERRORS!$"
    r"|make(?:\[\d+\])?: \*\*\* |ninja: build stopped|ERROR: +\w[\w.-]*: commands failed|evaluation failed :\("
    r"|not ok \d|[ℹ#] fail [1-9]|Failed! +- Failed:|\[  FAILED  \] \d|Tests failed|Some tests failed|FAILED: "
    r"|DO \*NOT\* COMMIT!$"
)
_PASSED = re.compile(
    r"OK(?: \([^()]{0,100}\))?$|ok +\t\S|ok\t\S|PASS$|test result: ok\. |(?:\[\w{1,8}\] )?BUILD SUCCESS"
    r"|congratulations :\)|\S+: commands succeeded|100% tests passed|[ℹ#] fail 0$|Passed! +- Failed:"
    r"|\[  PASSED  \] [1-9]|(?:✅ )?All (?:\d+ )?tests (?:have )?passed"
)
_NOTHING = re.compile(
    r"no tests ran|Ran 0 tests|NO TESTS RAN|collected 0 items|No tests? (?:found|were found)"
    r"|.{0,80}\bno tests (?:ran|to run|found|collected)|ok +\t?\S+\t\S+ \[no tests to run\]|\[INFO\] No tests to run"
    r"|test result: ok\. 0 passed; 0 failed;"
)
_RAN = re.compile(r"ok +\t?\S+\t(?!.{0,80}\[no tests to run\])|--- PASS: ")
"""Lines of Go that say of one package or test that it ran: others may have no test."""
_COUNTED = re.compile(
    r"(?:\d+ [a-z]+,? ?){1,8}in \d[\d.:]*s?\b|FAILED \(|Ran \d+ tests? in |OK$|OK \("  # pytest, unittest
    r"|tests finished: |test result: \w+\. |Tests: +\d|Tests +\d+ \w|(?:\[\w+\] )?Tests run: \d+, "
    r"|\d+ (?:passing|failing)\b|\d+% tests passed, \d+ tests failed|\d+ tests completed, \d+ failed"
    r"|\d+ (?:examples?|tests?|runs|doctests?), (?:\d+ assertions, )?\d+ failures?|(?:Passed|Failed)! +- Failed:"
    r"|Executed \d+ tests?, with \d+ failures?|[ℹ#] (?:pass|fail|tests) \d|\[  (?:PASSED|FAILED)  \] \d"
)
"""Beginnings of lines that count tests."""
_NUMBER_FIRST = re.compile(
    r"(?<![\d.])(\d{1,9})(?: tests?,?)?"
    r" (passed|passing|failed|failing|failures?|errors?|examples?|tests?|runs|doctests?)\b"
)
_WORD_FIRST = re.compile(
    r"(?<![A-Za-z])(passed|pass|failed|fail|failures?|errors?|tests run|total|tests|ran|skipped|ok|executed)"
    r"(?::|=| \(| )\s{0,9}(\d{1,9})\b",
    re.IGNORECASE,
)
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_EDGE = " =\r\t"


def read_summary(output: str) -> RunnerSummary:
    """Return what the runners in an output say at its ends. Never raises."""
    failed = passed = nothing = ran = False
    counts: dict[str, int] = {}
    for line in _lines(output):
        if _NOTHING.match(line):
            nothing = True
            continue
        ran = ran or bool(_RAN.match(line))
        counted = _counts(line) if _COUNTED.match(line) else {}
        for name, many in counted.items():
            counts[name] = counts.get(name, 0) + many
        failed = failed or bool(counted.get("failed")) or bool(_FAILED.match(line))
        counts_no_failure = counted.get("failed") == 0 and bool(counted.get("total"))
        passed = passed or bool(counted.get("passed")) or counts_no_failure or bool(_PASSED.match(line))
    if "passed" not in counts and counts.get("total"):
        counts["passed"] = max(0, counts["total"] - counts.get("failed", 0) - counts.get("skipped", 0))
    nothing = nothing and not ran and not counts.get("passed")
    return RunnerSummary(
        verdict=False if failed else True if passed and not nothing else None,
        passed=counts.get("passed"),
        failed=counts.get("failed", 0 if "passed" in counts else None),
        nothing_ran=nothing and not failed,
    )


def _lines(output: str) -> Iterator[str]:
    if len(output) > HEAD + TAIL:
        output = output[:HEAD] + "\n" + output[-TAIL:]
    for line in output.split("\n"):
        if len(line) <= MAX_LINE and line:
            yield (_COLOURS.sub("", line) if "\x1b" in line else line).strip(_EDGE)


_NAMES = {
    **dict.fromkeys(("passed", "passing", "pass"), "passed"),
    **dict.fromkeys(("failed", "failing", "failure", "failures", "error", "errors", "fail"), "failed"),
    **dict.fromkeys(
        (*"total ran tests test executed ok example examples runs doctest doctests".split(), "tests run"), "total"
    ),
    "skipped": "skipped",
}


def _counts(line: str) -> dict[str, int]:
    """Return how many tests a line says passed, failed, were skipped and ran."""
    if "Time elapsed" in line:  # of one class; the total follows
        return {}
    counts: dict[str, int] = {}
    first = [(word, number) for number, word in _NUMBER_FIRST.findall(line)]
    for word, number in first or _WORD_FIRST.findall(line):
        name = _NAMES[word.lower()]
        counts[name] = counts.get(name, 0) + int(number)
    return counts
