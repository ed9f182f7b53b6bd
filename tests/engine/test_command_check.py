"""`CommandCheck`: how exit code and output of a command become an answer, with its score and its failing lines."""

import sys
from pathlib import Path
from typing import Any

import pytest
from endstop import Met, NotMet, WrongUse
from endstop.command_check import MOST_DETAIL, CommandCheck, check_shell, failing_lines


async def said(command: str, folder: Path, **options: Any) -> Any:
    check = CommandCheck(command, **options)
    return check.read(*await check.execute(str(folder)))


async def test_exit_code_0_meets_it_125_cannot_tell_and_any_other_does_not(tmp_path: Path) -> None:
    assert await said("true", tmp_path) == Met()
    assert await said("exit 125", tmp_path) is None
    assert await said("exit 3", tmp_path) == NotMet("`exit 3` failed with exit code 3, and printed nothing")


PYTEST = r"(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed"
"""The summary of pytest names what failed first."""
SCORES = [
    (r"(\d+) passed", "12 passed in 0.1s", 12, None),
    (r"(\d+) passed", "5 failed, 12 passed", 12, None),
    (r"(\d+) ok, (\d+) not ok", "3 ok, 1 not ok", 3, 4),
    (r"(\d+) ok, (\d+) not ok", "1 ok, 3 not ok\n2 ok, 2 not ok", 2, 4),  # the last one counts
    (r"(\d+) ok(?:.*?(\d+) not ok)?", "3 ok\nand then it broke off", 3, None),  # what failed is unknown
    (PYTEST, "5 failed, 12 passed in 0.03s", 12, 17),
    (PYTEST, "12 passed, 1 error in 0.03s", 12, None),
    (PYTEST, "17 failed in 0.03s", None, None),
    (r"coverage: ([\d.]+)%", "coverage: 81.5% of statements", 81.5, None),
    (r"score (\S+)", "score nothing", None, None),
    (r"(?P<passed>\d+) of \d+", "3 of 4", 3, None),
    (None, "12 passed", None, None),
]


def test_the_score_is_what_the_groups_find_in_the_output_and_what_they_do_not_find_is_unknown() -> None:
    read: list[Any] = [CommandCheck("true", score=score).read(1, output) for score, output, *_ in SCORES]
    found = [(answer.score, answer.of) for answer in read]
    assert found == [(score, of) for *_, score, of in SCORES]


@pytest.mark.parametrize(
    "score", ["passed", r"(\d)(\d)(\d)", "(", r"(?P<good>\d+)", r"(?P<failed>\d+)", r"(?P<passed>\d+) (\d+)"]
)
def test_a_score_without_one_or_two_groups_that_can_be_told_apart_is_refused(score: str) -> None:
    with pytest.raises(WrongUse, match="score"):
        CommandCheck("true", score=score)


async def test_a_long_output_is_cut_to_its_failing_lines_and_its_end(tmp_path: Path) -> None:
    lines = [f"noise {n}" for n in range(2_000)]
    lines[3] = "FAILED tests/test_a.py::test_one - assert 1 == 2"
    (tmp_path / "out").write_text("\n".join([*lines, "1 failed"]))
    answer = await said("cat out; exit 1", tmp_path)
    head, first, *_ = answer.reason.splitlines()
    assert "exit code 1" in head
    assert first == lines[3]
    assert answer.reason.endswith("1 failed")
    assert len(answer.reason) < MOST_DETAIL + 200


async def test_a_command_sees_no_key_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgres://here")
    answer = await said("env; exit 1", tmp_path, env=["DATABASE_URL"])
    assert "sk-secret" not in answer.reason
    assert "postgres://here" in answer.reason


async def test_a_command_inside_another_one_is_its_last_argument(tmp_path: Path) -> None:
    wrapper = tmp_path / "box"
    wrapper.write_text('#!/bin/sh\necho "in the box: $#"\nexec "$@"\n')
    wrapper.chmod(0o755)
    answer = await said("echo 'it is'; exit 4", tmp_path, inside="./box")
    assert "exit code 4" in answer.reason
    assert "in the box: 3\nit is" in answer.reason


@pytest.mark.parametrize("command", ["pytest -q '", "there-is-no-such-program -q"])
def test_a_command_that_no_shell_can_run_is_refused(command: str) -> None:
    with pytest.raises(WrongUse, match="--until"):
        check_shell(command, "--until")


@pytest.mark.parametrize("command", ["./check.sh", "sub/check.sh --all"])
def test_a_program_of_the_folder_has_to_be_there_and_executable(command: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="missing"):
        CommandCheck(command).verify(str(tmp_path))
    program = tmp_path / command.split()[0]
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    CommandCheck(command).verify(str(tmp_path))
    CommandCheck(f"{sys.executable} -m pytest").verify(str(tmp_path))


def test_the_lines_that_name_a_failure_are_found_in_the_output_of_many_runners() -> None:
    output = """
        FAILED tests/test_a.py::test_one - assert 1 == 2
        --- FAIL: TestAdd (0.00s)
        not ok 3 - adds
        error[E0308]: mismatched types
        thread 'main' panicked at src/lib.rs:4
        ✕ adds (3 ms)
        src/a.ts(3,5): error: Cannot find name
        E   assert 1 == 2
        AssertionError: 1 != 2
        all is well here, and no errand fails to end
    """
    assert len(failing_lines(output)) == 9
