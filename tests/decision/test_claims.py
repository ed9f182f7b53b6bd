"""Steps that report the work as done and go on: the model does not know that it has finished."""

from __future__ import annotations

import pytest
from endstop.decision import Stop, ToolCall, ToolResult
from endstop.decision.text_kinds import reports_done
from endstop.follow import Follower

DONE = "Done. The task is complete."


def follow(*steps: tuple[str, str, str]) -> list[int]:
    """The steps of another loop, as (text, command, result), each of which got a Stop."""
    follower = Follower()
    follower.prompt("Write one into one.txt.")
    stopped = []
    for number, (text, command, result) in enumerate(steps, 1):
        call = ToolCall(f"c{number}", "bash", f'{{"command": "{command}"}}')
        decision = follower.step(text, [call], [ToolResult(call.id, "bash", result)])
        if isinstance(decision, Stop):
            assert decision.reason == "stuck"
            stopped.append(number)
    return stopped


def test_done_again_and_again_with_other_calls_is_stopped_at_the_sixth() -> None:
    assert follow(*[(DONE, f"echo verified {n}", f"verified {n}") for n in range(6)]) == [6]


def test_the_words_may_differ() -> None:
    texts = (
        DONE, "All tests pass.", "I've updated the file.", "The fix is complete.", "Everything is in place.",
        "The file has been created successfully.",
    )  # fmt: skip
    assert follow(*[(text, f"cat part{n}.txt", f"part {n}: {text}") for n, text in enumerate(texts)]) == [6]


@pytest.mark.parametrize(
    ("texts", "commands"),
    [
        pytest.param([DONE] * 9, [f"echo {n} > f{n}.txt" for n in range(9)], id="each step changes the work"),
        pytest.param(["The build is still running."] * 9, ["sleep 30; gh run view"] * 9, id="it waits for something"),
        pytest.param(["I will look at the next file."] * 9, [f"cat f{n}.txt" for n in range(9)], id="it announces"),
        pytest.param([""] * 9, [f"cat f{n}.txt" for n in range(9)], id="it says nothing"),
        pytest.param(
            [DONE if n % 4 else "The test fails: line 7 is wrong." for n in range(9)],
            [f"cat f{n}.txt" for n in range(9)],
            id="it finds more to do",
        ),
    ],
)
def test_healthy_work_is_not_stopped(texts: list[str], commands: list[str]) -> None:
    steps = zip(texts, commands, [f"line {n} of something else" for n in range(9)], strict=True)
    assert follow(*steps) == []


@pytest.mark.parametrize(
    ("text", "done"),
    [
        (DONE, True),
        ("I have fixed the bug. All tests pass.", True),
        ("完成了。", True),
        ("", False),
        (" \n", False),
        ("Let me check once more.", False),
        ("The first part is done. Next, I will do the second.", False),
        ("Which of the two files shall I change?", False),
        ("The server answers with 404.", False),
    ],
)
def test_a_report_is_told_from_other_texts(text: str, done: bool) -> None:
    assert reports_done(text) is done
