"""Which sessions are shown of many."""

from __future__ import annotations

from endstop.analysis.sampling import REASONS, SessionSampler
from endstop.analysis.scoring import LabelledRun, label_run
from endstop.analysis.summary import ResourceUse, RunSummary
from endstop.decision.outcome import Status


def run(steps: int, *, rating: float | None = None, status: Status = "completed", reason: str = "completed",
        done: int | None = None, repeated: int = 0) -> LabelledRun:  # fmt: skip
    point = None if status != "completed" else ResourceUse(steps=done if done is not None else steps)
    digest = RunSummary(
        run_id="r", session_id="s", status=status, stop_reason=reason, end=ResourceUse(steps=steps), done=point,
        repeated_steps=repeated,
    )  # fmt: skip
    return label_run(digest, rating=rating)


def chosen(most: int, *sessions: list[LabelledRun]) -> list[tuple[int, tuple[str, ...]]]:
    telling = SessionSampler(most)
    for session in sessions:
        telling.add("x.jsonl", session)
    return [(one.number, one.reasons) for one in telling.sampled()]


def test_where_there_is_room_for_all_the_most_telling_come_first() -> None:
    good, wrong, late = [run(9)], [run(3, rating=0.0)], [run(8, done=4)]
    assert chosen(3, good, wrong, late) == [(2, ("not good",)), (3, ("after done",)), (1, ())]


def test_the_reasons_take_turns_and_each_gives_its_worst() -> None:
    wrong = [[run(steps, rating=0.0)] for steps in (5, 5, 5)]
    late = [[run(20, done=done)] for done in (18, 3, 10)]
    stuck = [[run(6, status="exhausted", reason="stuck", repeated=many)] for many in (2, 5)]
    fine = [[run(steps)] for steps in (2, 40)]
    found = dict(chosen(6, *wrong, *late, *stuck, *fine))
    assert found[1] == ("not good",), "of equal ones the first"
    assert found[5] == ("after done",)
    assert found[8] == ("repeats", "limit")
    assert {9, 10} <= set(found), "the shortest and the longest that went well"
    assert len(found) == 6


def test_a_session_counts_with_all_its_runs() -> None:
    assert chosen(5, [run(3), run(3, rating=0.0), run(9, status="failed", reason="provider_error")]) == [
        (1, ("not good", "broken off"))
    ]


def test_none_is_kept_where_none_is_wanted_and_no_more_than_wanted_of_many() -> None:
    many = [[run(steps % 50 + 1, rating=steps % 3 / 2)] for steps in range(2000)]
    assert chosen(0, *many) == []
    assert len(chosen(10, *many)) == 10
    assert len(REASONS) >= 9
