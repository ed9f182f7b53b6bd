"""The verdict on a session: its sentence, its places, its strip, its policies, and what helps next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, Hooks
from endstop.analysis.audit import audit
from endstop.analysis.endings import ENDINGS
from endstop.analysis.verdict import MAX_CELLS, SessionVerdict, short_name, verdict_of
from endstop.decision import STATUS_OF, Limits, Policy
from endstop.decision.policy import POLICIES
from endstop.decision.text_kinds import TEXT_KINDS
from endstop.formats import FORMATS, ImportOptions, events_of
from endstop.providers import Scripted, call
from endstop.records.scan import scan
from endstop.tools import ask_user, finish_task
from hypothesis import given
from hypothesis import strategies as st

from ..other_loops import events_of_calls
from .scenes import run_tests, save

RECORDS = Path(__file__).parents[2] / "records"
THREE = tuple(POLICIES.values())
RAW = re.compile(r"[a-z]_[a-z]|custom:|text final|control flow|finish reason|exhausted|awaiting input")
"""Words of the code, which no reader should meet."""


async def verdict(*script: Any, record: str = "run.jsonl", **options: Any) -> SessionVerdict:
    """The verdict on a run of our own loop."""
    engine = Engine(Scripted(*script), tools=[save, run_tests, finish_task, ask_user], **options)
    async with engine.start("go") as run:
        events = [event async for event in run]
    return verdict_of(audit(events, THREE), record=record)


def imported(*messages: dict[str, Any], policies: Sequence[Policy] = THREE) -> SessionVerdict:
    """The verdict on a session of another agent."""
    (session,) = FORMATS["openai"].sessions([{"role": "user", "content": "Mend it"}, *messages])
    return verdict_of(audit(events_of(session, "s", "openai", ImportOptions()), policies), record="s.jsonl")


def calls(name: str, result: str, id: str = "c", **arguments: Any) -> list[dict[str, Any]]:
    """Messages of a step with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function}]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]


def places(found: SessionVerdict) -> list[str]:
    """The words of the anchors."""
    return [anchor.words for anchor in found.anchors]


# ---- the sentence


async def test_what_was_only_said_is_not_checked_and_has_no_advice() -> None:
    found = await verdict(call("save", path="a"), call("finish_task", summary="done"))
    assert found.sentence == "It said it was done at step 2; not checked."
    assert (found.known, found.next) == ("said", None)
    assert places(found) == ["Said done: step 2", "Last change: step 1", "Last check that passed: never"]


@pytest.mark.parametrize(("passes", "known"), [(True, "passed"), (False, "failed")])
async def test_what_was_checked_is_told_with_who_checked_it(passes: bool, known: str) -> None:
    def benchmark(looked_at: object) -> bool:
        return passes

    found = await verdict(call("finish_task", summary="done"), hooks=Hooks(evaluate=benchmark))
    assert found.sentence.endswith(f"benchmark {known}.")
    assert found.known == known
    assert (found.next is not None) == (not passes), "a check would have told before the end"


async def test_a_limit_is_told_with_what_was_used_and_how_to_go_on() -> None:
    steps = [call("save", path=str(number)) for number in range(3)]
    found = await verdict(*steps, policy=Policy(limits=Limits(steps=3, extend=None), closing=False))
    assert found.sentence == "It was stopped at its limit of steps, 3 of 3; not checked."
    assert found.next is not None
    assert found.next.command == 'endstop run --resume run.jsonl "Go on." --max-steps 6'


async def test_a_question_waits_for_an_answer() -> None:
    found = await verdict(call("ask_user", question="Which port?"), record="my records/a.jsonl")
    assert found.sentence == "It waits for an answer to its question, at step 1; not checked."
    assert found.next is not None
    assert found.next.command == "endstop run --resume 'my records/a.jsonl' --answer \"ANSWER\""


def test_an_empty_last_response_of_another_agent_is_neither_a_failure_nor_a_claim() -> None:
    work = calls("edit_file", "The file a.py has been edited.", path="a.py")
    found = imported(*work, {"role": "assistant", "content": ""})
    assert found.sentence == "Its last response, at step 2, was empty; not checked."
    assert (found.known, found.next) == ("unknown", None)
    assert places(found)[:2] == ["Said done: never", "Last change: step 1"]


def test_a_question_a_refusal_and_a_recording_that_ends_are_different_sentences() -> None:
    ends = ["Shall I commit it?", "I cannot help with that.", "Done: the port is 8080."]
    told = [imported({"role": "assistant", "content": text}).sentence for text in ends]
    told.append(imported(*calls("look", "a")).sentence)
    assert len(set(told)) == 4
    assert "question" in told[0]
    assert "declined" in told[1]
    assert told[3] == "The recording ends at step 1, and does not say why; not checked."


def test_each_stop_reason_and_each_kind_of_text_has_a_sentence_without_words_of_the_code() -> None:
    assert STATUS_OF.keys() - {"text_final"} <= ENDINGS.keys()
    assert {f"text:{kind}" for kind in TEXT_KINDS} <= ENDINGS.keys()
    filled = [one.sentence.format(step=1, of=", 1 of 1", name="a rule") for one in ENDINGS.values()]
    assert [words for words in filled if RAW.search(words)] == []
    assert len(set(filled)) == len(filled)


def test_the_ending_of_a_users_rule_or_of_an_unknown_program_is_told_in_plain_words() -> None:
    events = events_of_calls()
    last = events[-1]
    outcome = msgspec.structs.replace(last.outcome, stop_reason="custom:out_of_patience", status="exhausted")  # type: ignore[union-attr]
    found = verdict_of(audit([*events[:-1], msgspec.structs.replace(last, outcome=outcome)], ()))  # type: ignore[arg-type]
    assert found.sentence == "It ended at step 9 as “out of patience”; not checked."


def test_a_run_that_went_on_after_it_was_done_says_for_how_long() -> None:
    found = verdict_of(audit(scan(RECORDS / "before" / "A1.jsonl"), THREE))
    assert "limit of steps, 30 of 30, 27 steps after it said it was done" in found.sentence
    assert [run.after_done for run in found.strip] == [27]
    assert all(place.words.split(": ")[1].startswith("step 3, perhaps 27 steps saved") for place in found.policies)


def test_a_session_that_runs_has_no_policies_and_no_advice() -> None:
    events = list(scan(RECORDS / "before" / "A1.jsonl"))[:-1]
    found = verdict_of(audit(events, THREE), record="a.jsonl", state="running")
    assert found.sentence.startswith("It is running, at step ")
    assert (found.policies, found.next) == ([], None)
    killed = verdict_of(audit(events, THREE), record="a.jsonl")
    assert killed.sentence.startswith("The recording ends within step ")


# ---- facts, anchors, policies


def test_what_the_recording_lacks_is_called_unknown() -> None:
    found = imported({"role": "assistant", "content": "It is 8080."})
    assert found.facts == "1 step, time unknown, cost unknown"
    assert (found.ms, found.cost_usd) == (None, None)


def test_a_program_whose_effect_nobody_knows_makes_the_last_change_unknown() -> None:
    assert places(imported(*calls("bash", "ok", command="python3 b.py")))[1] == "Last change: unknown"
    assert places(imported(*calls("bash", "a.py", command="ls")))[1] == "Last change: never"


async def test_the_last_check_that_passed_is_named_even_if_a_change_came_after_it() -> None:
    found = await verdict(
        call("save", path="a"), call("run_tests", path="t"), call("save", path="b"), call("finish_task", summary="done")
    )
    assert places(found) == ["Said done: step 4", "Last change: step 3", "Last check that passed: step 2"]


def test_a_policy_says_where_it_would_have_stopped_and_what_that_would_have_done() -> None:
    said = {"role": "assistant", "content": "The port is 8080."}
    work = calls("edit_file", "The file a.py has been edited.", path="a.py")
    found = imported(said, {"role": "user", "content": "<system-reminder>go on</system-reminder>"}, *work, said)
    words = {place.name: place.words for place in found.policies}
    assert words["strict"] == "strict: cannot be used"
    assert set(words) == {"chat", "agent", "strict"}


# ---- the strip


def test_the_strip_marks_changes_and_calls_with_an_error() -> None:
    found = verdict_of(audit(events_of_calls(), ()))
    (run,) = found.strip
    assert [cell.step for cell in run.cells if cell.changed] == [6, 8]
    assert [cell.step for cell in run.cells if cell.failed] == [3, 4, 7]
    assert [cell.step for cell in run.cells if cell.rejected] == [4]
    assert "2 changed something, 3 had a call with an error" in run.words


@pytest.mark.parametrize("steps", [0, MAX_CELLS - 1, MAX_CELLS, 3 * MAX_CELLS + 7])
def test_a_strip_has_a_bounded_number_of_cells_that_hold_every_step_once(steps: int) -> None:
    messages = [message for number in range(steps) for message in calls("look", f"a{number}", id=f"c{number}")]
    found = imported(*messages, {"role": "assistant", "content": "It is 8080."}, policies=())
    (run,) = found.strip
    assert len(run.cells) <= MAX_CELLS
    covered = [step for cell in run.cells for step in range(cell.step, (cell.last or cell.step) + 1)]
    assert covered == list(range(1, steps + 2))


# ---- texts of others


@given(st.text(max_size=60))
def test_texts_of_others_stay_on_one_line_and_bring_no_words_of_the_code(text: str) -> None:
    found = imported(*calls("bash", "1 failed", command=text), {"role": "assistant", "content": "It is 8080."})
    assert all("\n" not in one for one in (found.sentence, found.facts, *places(found)))
    assert RAW.search(found.sentence) is None


def test_a_qualified_name_is_shortened_and_a_command_kept() -> None:
    assert short_name("checks:benchmark") == "benchmark"
    assert short_name("endstop.gates:CommandGate('pytest -q')") == "`pytest -q`"


def test_the_document_is_plain_json() -> None:
    found = verdict_of(audit(events_of_calls(), THREE), record="a.jsonl")
    assert msgspec.json.decode(msgspec.json.encode(found), type=SessionVerdict) == found
