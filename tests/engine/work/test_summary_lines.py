"""What the last lines of the runners say."""

from __future__ import annotations

from endstop.work.summary_lines import HEAD, TAIL, RunnerSummary, read_summary
from hypothesis import given
from hypothesis import strategies as st

PASSING = {
    "===== 45 passed, 192 warnings in 3.53s =====": (45, 0),
    "20 passed in 0.5s": (20, 0),
    "== 1 passed, 2 skipped, 3 xfailed in 62.10s (0:01:02) ==": (1, 0),
    "Ran 10 tests in 0.005s\n\nOK": (10, 0),
    "Ran 25 tests in 0.122s\n\nOK (skipped=4)": (21, 0),
    "OK\nDestroying test database for alias 'default'...": (None, None),
    "test result: ok. 14 passed; 0 failed; 0 ignored; 0 measured; 192 filtered out; finished in 0.00s": (14, 0),
    "ok  \tpkg\t0.1s\nok  \tpkg/b\t(cached)": (None, None),
    "Tests:       3 passed, 3 total": (3, 0),
    " Test Files  1 passed (1)\n      Tests  7 passed (7)": (7, 0),
    "  27 passing (83ms)": (27, 0),
    "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 1\n[INFO] BUILD SUCCESS": (4, 0),
    "BUILD SUCCESSFUL in 3s": (None, None),
    "100% tests passed, 0 tests failed out of 5": (None, 0),
    "5 examples, 0 failures": (5, 0),
    "OK (5 tests, 10 assertions)": (5, 0),
    "Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5": (5, 0),
    "= tests finished: 54 passed, 29 skipped, in 0.30 seconds =": (54, 0),
    "# tests 3\n# pass 3\n# fail 0": (3, 0),
    "[  PASSED  ] 12 tests.": (12, 0),
    "  congratulations :)": (None, None),
    "\x1b[32m2 passed\x1b[0m in 0.1s": (2, 0),
}
FAILING = (
    "3 failed, 20 passed in 0.5s", "== 1 error in 0.1s ==", "!!!! Interrupted: 1 error during collection !!!!",
    "ImportError while loading conftest '/a/conftest.py'.", "FAILED (failures=2)",
    "FAILED (failures=1, errors=2, skipped=4)",
    "test result: FAILED. 4 passed; 1 failed; 0 ignored", "error: could not compile `a` (lib test) due to 4 errors",
    "--- FAIL: TestA (0.00s)", "FAIL\tpkg [build failed]", "ok  \ta\t0.1s\nFAIL\tb\t0.2s\nFAIL",
    "Tests: 1 failed, 3 passed, 4 total",
    "  2 passing (1s)\n  1 failing", "Tests run: 5, Failures: 1, Errors: 0, Skipped: 0\nBUILD FAILURE",
    "[INFO] BUILD FAILURE",
    "BUILD FAILED in 2s", "12 tests completed, 3 failed", "npm ERR! Test failed.",
    "make: *** [Makefile:3: test] Error 1",
    "50% tests passed, 2 tests failed out of 4", "5 examples, 1 failure", "FAILURES!", "not ok 2 - adds",
    "Failed!  - Failed:     1, Passed:     5", "= tests finished: 1 passed, 2 failed, in 0.01 seconds =",
    "DO *NOT* COMMIT!",
    "[  FAILED  ] 1 test, listed below:",
)  # fmt: skip
SILENT = (
    "",
    "ok",
    "it passed",
    "All done",
    "FAILURE: not reproduced",
    "error",
    "SUCCESS",
    "10 files changed",
    "passed",
    "3 problems",
)


def test_each_runner_that_passes_is_understood_with_its_counts() -> None:
    found = {text: (read := read_summary(text)) and (read.verdict, read.passed, read.failed) for text in PASSING}
    assert {text: one for text, one in found.items() if one != (True, *PASSING[text])} == {}


def test_each_runner_that_fails_is_understood() -> None:
    assert [text for text in FAILING if read_summary(text).verdict is not False] == []


def test_words_that_no_runner_writes_say_nothing() -> None:
    assert [text for text in SILENT if read_summary(text) != RunnerSummary()] == []


def test_a_run_without_a_test_has_not_passed() -> None:
    nothing = (
        "no tests ran in 0.01s", "collected 0 items", "Ran 0 tests in 0.000s\n\nOK",
        "testing: warning: no tests to run\nPASS",
        "ok  \tpkg\t0.006s [no tests to run]", "test result: ok. 0 passed; 0 failed; 0 ignored",
        "No tests found, exiting",
    )  # fmt: skip
    assert [
        text for text in nothing if (found := read_summary(text)).verdict is not None or not found.nothing_ran
    ] == []


def test_of_several_summaries_one_failure_decides_and_counts_are_added() -> None:
    found = read_summary(
        "test result: ok. 5 passed; 0 failed; 0 ignored\ntest result: FAILED. 1 passed; 2 failed; 0 ignored"
    )
    assert (found.verdict, found.passed, found.failed) == (False, 6, 2)


def test_an_output_that_was_cut_before_its_summary_says_nothing() -> None:
    assert read_summary("collecting ...\ntests/test_a.py ......").verdict is None


def test_of_a_long_output_the_ends_are_read_and_long_lines_are_not() -> None:
    assert read_summary("x\n" * (HEAD + TAIL) + "3 passed in 0.1s").verdict is True
    assert read_summary("y" * 1000 + " 3 failed in 0.1s").verdict is None


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    found = read_summary(text)
    assert found.nothing_ran is False or found.verdict is None
    assert (found.passed or 0) >= 0
