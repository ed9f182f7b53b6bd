"""A2: a response that the provider gave up, cut or paused is never the end of good work, whatever its text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endstop import Engine, Hooks, ModelOptions, read_record, tool
from endstop.decision import Compaction, FinishReport, Limits, Patience, Policy, UserMessage
from endstop.decision import events as ev
from endstop.decision.messages import FinishReason
from endstop.hooks import ModelJudge
from endstop.providers import Provider, Retry, Scripted, call, say
from endstop.replay import replay

from ..console import endstop
from ..servers import ChatServer, finish

GOOD = "Port 8080."


@tool
async def look(at: int) -> str:
    "Look."
    return f"nothing at {at}"


def ended(text: str, word: str, reason: FinishReason = "other") -> list[Any]:
    return [say(text), FinishReport(reason, word)]


# ---- what the loop does


async def test_A2_a_paused_response_goes_on_and_is_not_the_answer() -> None:
    model = Scripted(ended("I will search.", "pause_turn", "pause"), ended("Still.", "pause_turn", "pause"), GOOD)
    outcome = await Engine(model).run("Which port?")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", GOOD, 3)
    assert isinstance(model.requests[1].messages[-1], UserMessage), "no provider takes a request that ends otherwise"


async def test_A2_a_full_context_is_made_smaller_before_the_next_request() -> None:
    full = ended("The port", "model_context_window_exceeded", "context_full")
    model = Scripted([call("look", at=1)], [call("look", at=2)], full, GOOD)
    policy = Policy(compaction=Compaction(keep_results=0, keep_messages=1))
    engine = Engine(model, tools=[look], policy=policy)
    async with engine.start("Which port?") as run:
        events = [event async for event in run]
    assert run.outcome.answer == GOOD
    assert [event for event in events if isinstance(event, ev.ContextCompacted)]


async def test_A2_what_it_is_asked_once_more_can_be_set_and_switched_off() -> None:
    twice = Policy(patience=Patience(unfinished=2))
    outcome = await Engine(Scripted(*[ended(GOOD, "abort", "retry")] * 3), policy=twice).run("Which port?")
    assert (outcome.stop_reason, outcome.steps) == ("provider_error", 3)
    assert "3 responses in a row" in (outcome.detail or "")
    off = Policy(patience=Patience(unfinished=None))
    outcome = await Engine(Scripted(ended(GOOD, "abort", "retry")), policy=off).run("Which port?")
    assert (outcome.stop_reason, outcome.answer) == ("text_final", GOOD)


async def test_A2_with_P1_switched_off_the_shape_alone_does_not_make_a_success_of_it() -> None:
    rules = tuple(name for name in Policy().rules if name != "finish_reason")
    outcome = await Engine(Scripted(*[ended(GOOD, "weird")] * 2), policy=Policy(rules=rules)).run("Which port?")
    assert (outcome.stop_reason, outcome.steps) == ("provider_error", 2)


async def test_A2_an_accepted_completion_counts_whatever_the_word() -> None:
    for reason, word in (("other", "weird"), ("retry", "abort"), ("pause", "pause_turn"), ("error", "failed")):
        response = [call("finish_task", summary="done"), FinishReport(reason, word)]  # type: ignore[arg-type]
        outcome = await Engine(Scripted(response), policy=Policy(inner_cancel=False)).run("go")
        assert (outcome.stop_reason, outcome.answer) == ("completed", "done")


async def test_A2_an_empty_response_with_such_a_word_fails_by_the_word() -> None:
    outcome = await Engine(Scripted(*[ended("", "MALFORMED_FUNCTION_CALL", "retry")] * 2)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("provider_error", 2)
    assert "MALFORMED_FUNCTION_CALL" in (outcome.detail or "")
    assert "malformed call" in (outcome.detail or ""), "what the vendor means by it"


async def test_A2_a_wrapped_provider_and_the_engine_can_be_taught_a_word() -> None:
    model: Provider = Retry(Scripted(ended(GOOD, "weird")))
    outcome = await Engine(model, model_options=ModelOptions(finish_words={"weird": "stop"})).run("Which port?")
    assert (outcome.stop_reason, outcome.steps) == ("text_final", 1)


async def test_A2_a_judges_yes_that_broke_off_is_no_yes() -> None:
    judge = ModelJudge(Scripted(ended("YES, it", "network_error", "retry")))
    model = Scripted(*[[call("look", at=at)] for at in range(2)])
    policy = Policy(limits=Limits(steps=2))
    outcome = await Engine(model, tools=[look], hooks=Hooks(judge=judge), policy=policy).run("Which port?")
    assert outcome.stop_reason != "judged"


# ---- records


async def test_A2_what_a_word_was_taught_is_recorded_and_a_replay_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await Engine(Scripted(ended(GOOD, "weird")), model_options=ModelOptions(finish_words={"weird": "stop"})).run(
        "Which port?", record=path
    )
    (run,) = read_record(path).runs
    assert run.started.finish_words == {"weird": "stop"}
    assert (await replay(str(path))).same
    failed = tmp_path / "f.jsonl"
    await Engine(Scripted(*[ended(GOOD, "weird")] * 2)).run("Which port?", record=failed)
    assert (await replay(str(failed))).same


async def test_A2_a_record_from_before_the_table_replays_to_the_same_decisions(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    off = Policy(patience=Patience(unfinished=None))
    await Engine(Scripted(ended(GOOD, "pause_turn")), policy=off).run("Which port?", record=path)
    lines = path.read_text(encoding="utf-8").splitlines()
    old = "\n".join(line.replace('"unfinished":null,', "") for line in lines) + "\n"
    assert old != path.read_text(encoding="utf-8")
    path.write_text(old, encoding="utf-8")
    report = await replay(str(path))
    assert report.same
    assert report.runs[-1].outcome.stop_reason == "text_final", "as it was decided then"


# ---- the command line


async def test_A2_the_command_line_says_the_word_and_takes_what_it_means(tmp_path: Path) -> None:
    async with ChatServer([GOOD, finish("weird")], repeat=True) as at:
        model = ("--model", "m", "--api-base", at.url)
        failed = await endstop("run", "Which port?", *model)
        told = await endstop("run", "Which port?", *model, "--finish-word", "weird=stop", "--json")
        wrong = await endstop("run", "Which port?", *model, "--finish-word", "weird")
        wrong_meaning = await endstop("run", "Which port?", *model, "--finish-word", "weird=good")
    assert failed.code == 4
    assert "'weird'" in failed.err + failed.out
    assert told.code == 0
    assert [wrong.code, wrong_meaning.code] == [2, 2]
    assert "--finish-word weird: write WORD=MEANING" in wrong.err
    assert "use one of stop" in wrong_meaning.err
