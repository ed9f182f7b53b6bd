"""Outcomes: what they say as plain data."""

import json
from datetime import date
from typing import Any

import msgspec
import pytest
from endstop import Engine
from endstop.decision import Asker, Limits, Outcome, Policy, Question, Usage, WrongUse
from endstop.decision.outcome import CutSavings, LimitUse, ask_again, derive_work
from endstop.providers import Scripted, call
from endstop.tools import ask_user


def outcome(**given: object) -> Outcome:
    return Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed", **given)  # type: ignore[arg-type]


async def test_the_outcome_of_a_run_is_plain_json_data_and_can_be_read_back() -> None:
    engine = Engine(
        Scripted([call("ask_user", question="Which port?")]), tools=[ask_user], policy=Policy(limits=Limits(steps=7))
    )
    ended = await engine.run("Set the port")
    data = ended.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["status"] == "awaiting_input"
    assert data["questions"][0]["text"] == "Which port?"
    assert data["limits"]["steps"] == {"used": 1, "allowed": 7, "soft": False}
    assert data["usage"]["input_tokens"] == ended.usage.input_tokens
    assert msgspec.convert(data, Outcome) == ended


def test_nested_values_become_lists_and_objects() -> None:
    data = outcome(
        usage=Usage(input_tokens=3, cost_usd=0.5),
        limits={"cost_usd": LimitUse(used=0.5, allowed=1.0, soft=True)},
        questions=(Question("c", "Sure?", pending_issues=("one",)),),
        phases=({"percentage": 40},),
    ).to_dict()
    assert data["usage"]["cost_usd"] == 0.5
    assert data["limits"] == {"cost_usd": {"used": 0.5, "allowed": 1.0, "soft": True}}
    assert data["questions"][0]["pending_issues"] == ["one"]
    assert data["phases"] == [{"percentage": 40}]


def test_what_json_cannot_express_does_not_keep_it_from_being_json() -> None:
    data = outcome(answer="a\ud800", evaluation={"seen": {1, 2}, 3: object, "score": float("nan")}).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["evaluation"]["seen"] == [1, 2]
    assert data["evaluation"]["3"] == "<class 'object'>"
    assert data["evaluation"]["score"] is None
    assert outcome(evaluation={date(2026, 1, 2): 1}).to_dict()["evaluation"] == {"2026-01-02": 1}


@pytest.mark.parametrize(
    ("status", "verdict", "work"),
    [
        ("completed", "not_run", "said"),
        ("completed", "passed", "checked"),
        ("completed", "failed", "wrong"),
        ("exhausted", "not_run", None),
        ("exhausted", "passed", "checked"),
        ("failed", "failed", "wrong"),
        (None, "not_run", None),
    ],
)
def test_what_is_known_of_the_work_follows_from_status_and_verdict(status: Any, verdict: Any, work: str | None) -> None:
    assert derive_work(status, verdict) == work


def test_what_is_given_as_known_of_the_work_does_not_count() -> None:
    assert outcome(work="wrong").work == "said"
    assert outcome(verdict="passed").work == "checked"


def test_savings_are_added_field_by_field() -> None:
    one = CutSavings(cuts=1, measured=2, output_tokens=3, calls=4, priced=5, measured_priced=6, cost_usd=7.0)
    other = CutSavings(cuts=10, measured=20, output_tokens=30, calls=40, priced=50, measured_priced=60, cost_usd=70.0)
    assert one + other == CutSavings(
        cuts=11, measured=22, output_tokens=33, calls=44, priced=55, measured_priced=66, cost_usd=77.0
    )
    assert one + None is one


@pytest.mark.parametrize(
    ("saved", "tokens", "cost", "words"),
    [
        (CutSavings(), 0, None, "0"),
        (CutSavings(cuts=2), None, None, "? (2 cut)"),
        (CutSavings(cuts=2, measured=2, output_tokens=1500), 1500, None, "1,500"),
        (CutSavings(cuts=4, measured=2, output_tokens=1500), 3000, None, "about 3,000"),
        (
            CutSavings(cuts=2, measured=2, output_tokens=10, priced=2, measured_priced=2, cost_usd=0.5),
            10,
            0.5,
            "10 ($0.5000)",
        ),
        (
            CutSavings(cuts=4, measured=2, output_tokens=10, priced=3, measured_priced=1, cost_usd=0.5),
            20,
            1.5,
            "about 20 ($1.5000+)",
        ),
    ],
)
def test_savings_of_cuts_that_were_not_measured_are_estimated(
    saved: CutSavings, tokens: int | None, cost: float | None, words: str
) -> None:
    assert (saved.estimated_tokens, saved.estimated_cost_usd, str(saved)) == (tokens, cost, words)


@pytest.mark.parametrize(
    ("question", "yes_or_no", "about_limit", "waiting", "runs"),
    [
        (Question("q", "?"), False, False, "q", False),
        (Question("q", "?", confirms=""), True, False, "q", False),
        (Question("q", "?", tool="edit"), True, False, "q", True),
        (Question("q", "?", extends=1), True, True, "q", False),
        (
            Question("q", "?", extends=1, asker=Asker(call_id="c", session_id="s", run_id="r", names=())),
            True,
            False,
            "c",
            True,
        ),
    ],
)
def test_a_question_says_what_waits_for_its_answer(
    question: Question, yes_or_no: bool, about_limit: bool, waiting: str, runs: bool
) -> None:
    assert question.wants_yes_or_no is yes_or_no
    assert question.is_about_limit is about_limit
    assert question.waiting_call == waiting
    assert question.lets_call_run is runs


def test_a_question_is_asked_again_with_the_hint_before_it_once() -> None:
    once = ask_again(Question("q", "Sure?"), "What?")
    assert (once.text, once.unclear) == ("What? Sure?", 1)
    assert (ask_again(once, "What?").text, ask_again(once, "What?").unclear) == ("What? Sure?", 2)
    assert ask_again(Question("q", "Sure?"), "").text == "Sure?"


def test_the_output_is_read_from_the_answer_once() -> None:
    reads: list[str] = []

    def read(answer: str) -> list[int]:
        reads.append(answer)
        return [1]

    ended = outcome(answer="[1]")
    assert ended.output == "[1]"
    typed = ended.reading_output(read)
    assert typed == ended
    assert typed.output is typed.output == [1]
    assert reads == ["[1]"]
    assert typed.to_dict()["output"] == [1]
    assert "output" not in ended.to_dict()
    assert "output" not in ended.reading_output(lambda answer: answer).to_dict()


def test_there_is_no_output_of_a_run_that_has_not_completed_or_whose_answer_cannot_be_read() -> None:
    stuck = Outcome(run_id="r", session_id="s", status="exhausted", stop_reason="stuck", answer="[1]")
    says = (
        r"^run r is exhausted \(stuck\) and has no output: look at `outcome\.status` first; `outcome\.answer` has what "
        r"the model wrote$"
    )
    with pytest.raises(WrongUse, match=says):
        stuck.output  # noqa: B018
    assert "output" not in stuck.reading_output(json.loads).to_dict()

    def unreadable(answer: str) -> object:
        raise WrongUse("no")

    assert "output" not in outcome(answer="x").reading_output(unreadable).to_dict()
