"""Row B: a plain answer is an end."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, EvaluationInput, Hooks, Runtime, Session, Tool, read_record
from endstop.decision import (
    POLICIES,
    STATUS_OF,
    Compaction,
    FinishReport,
    Limits,
    Policy,
    Prompts,
    ReasoningDelta,
    SystemMessage,
    Usage,
    UsageReport,
    UserMessage,
    policy_from,
)
from endstop.decision import events as ev
from endstop.decision.limits import SessionLimits
from endstop.decision.policy import Echo, Patience, Repetition
from endstop.decision.settings import settings_from_record
from endstop.hooks import Answer, ModelJudge, Prepare, Progress, Reject, Verdict
from endstop.providers import Scripted, Unavailable, call, say
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools import ask_user, finish_task
from msgspec.structs import replace

from ..engine_options import grouped
from ..work_checks import cannot_pass, never_passes, passes_later


async def work(n: int = 1) -> str:
    return "ok"


WORK = Tool(work, description="Work.")


def greet(prompt: str, run: Progress) -> Answer | None:
    return Answer("Hello! How can I help?") if prompt == "hello" else None


@pytest.mark.parametrize("policy", [POLICIES["chat"], POLICIES["agent"]])
async def test_B1_plain_text_without_a_call_ends_the_run(policy: Policy) -> None:
    provider = Scripted("Paris is the capital of France.", "more")
    outcome = await Engine(provider, policy=policy).run("What is the capital of France?")
    assert (outcome.status, outcome.stop_reason) == ("completed", "text_final")
    assert outcome.answer == "Paris is the capital of France."
    assert len(provider.requests) == 1


@pytest.mark.parametrize("blank", ["", "  \n\t ", [ReasoningDelta("hm")]])
async def test_B1_blank_text_does_not_end_the_run_and_is_asked_for_again(blank: object) -> None:
    provider = Scripted(blank, "Now an answer.")
    outcome = await Engine(provider).run("go")
    assert outcome.answer == "Now an answer."
    assert outcome.steps == 2
    assert isinstance(provider.requests[1].messages[-1], UserMessage)


async def test_B1_a_model_that_stays_blank_ends_as_no_answer_and_not_as_completed() -> None:
    outcome = await Engine(Scripted(*[""] * 9)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("exhausted", "no_answer", "")
    assert outcome.steps == 6, "one answer and five more chances"


async def test_B1_under_strict_text_never_ends_the_run_and_only_a_completion_does() -> None:
    provider = Scripted("I am done.", "Really done.", [call("finish_task", summary="done")])
    outcome = await Engine(provider, policy=POLICIES["strict"]).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("completed", 3)


async def test_B1_under_strict_a_model_that_only_talks_ends_at_the_step_limit() -> None:
    policy = Policy(name="mine", text="nudge", completion="required", limits=Limits(steps=4))
    outcome = await Engine(Scripted(*["talk"] * 9), policy=policy).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 4)


# ---- B2


async def test_B2_a_users_own_text_rule_says_what_ends_the_run() -> None:
    seen: list[Any] = []

    def rule(text: str, calls: Any) -> bool | None:
        seen.append((text, [c.name for c in calls]))
        return {"Draft.": False, "Final.": True}.get(text)

    provider = Scripted([say("Look."), call("work")], "Draft.", "Final.", "never asked for")
    policy = Policy(text="nudge")
    outcome = await Engine(provider, tools=[WORK], policy=policy, hooks=Hooks(text_rule=rule)).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "Final.", 3)
    assert seen == [("Look.", ["work"]), ("Draft.", []), ("Final.", [])]


async def test_B2_a_rule_that_says_false_keeps_a_plain_answer_from_ending_the_run() -> None:
    provider = Scripted("Draft.", [call("finish_task", summary="done")])
    outcome = await Engine(provider, hooks=Hooks(text_rule=lambda text, calls: False)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("completed", 2)


async def test_B2_a_rule_that_says_none_leaves_it_to_the_policy() -> None:
    engine = Engine(Scripted("Paris."), hooks=Hooks(text_rule=lambda text, calls: None))
    assert (await engine.run("go")).stop_reason == "text_final"
    policy = Policy(text="nudge", limits=Limits(steps=2))
    engine = Engine(Scripted("Paris.", "Paris!"), policy=policy, hooks=Hooks(text_rule=lambda text, calls: None))
    assert (await engine.run("go")).stop_reason == "step_limit"


async def test_B2_a_rule_may_end_the_run_although_there_were_calls() -> None:
    provider = Scripted([say("Saved, and that was all."), call("work")], "never asked for")
    outcome = await Engine(provider, tools=[WORK], hooks=Hooks(text_rule=lambda text, calls: bool(calls))).run("go")
    assert (outcome.stop_reason, outcome.answer) == ("text_final", "Saved, and that was all.")


async def test_B2_each_agent_has_a_rule_of_its_own() -> None:
    def rule(text: str, calls: Any) -> bool:
        return text.endswith("!")

    provider = Scripted("Hm.", "Yes!", "Hm.")
    assert (await Engine(provider, hooks=Hooks(text_rule=rule)).run("go")).answer == "Yes!"
    assert (await Engine(provider).run("go")).answer == "Hm."


async def test_B2_a_rule_that_raises_or_hangs_is_recorded_and_the_policy_decides(tmp_path: Path) -> None:
    clock = FakeClock()

    async def rule(text: str, calls: Any) -> bool:
        if text == "one":
            raise ValueError("broken rule")
        await anyio.sleep_forever()
        return False

    path = tmp_path / "r.jsonl"
    engine = Engine(
        Scripted([say("one"), call("work")], "two"),
        tools=[WORK],
        hooks=Hooks(text_rule=rule),
        runtime=Runtime(clock=clock),
    )
    async with engine.start("go", record=path) as run:
        await clock.advance(11)
        outcome = await run.wait()
        verdicts = [event async for event in run if isinstance(event, ev.VerdictGiven)]
    assert (outcome.stop_reason, outcome.answer) == ("text_final", "two")
    assert [v.said for v in verdicts] == ["failed", "failed"]
    assert "broken rule" in verdicts[0].detail
    assert "10 seconds" in verdicts[1].detail
    assert (await replay(str(path))).same


# ---- B3


@pytest.mark.parametrize("answer", ["OK", "Yes.", "Sure.", "42", "Understood."])
async def test_B3_a_short_answer_is_an_answer(answer: str) -> None:
    assert (await Engine(Scripted(answer)).run("go")).stop_reason == "text_final"


@pytest.mark.parametrize(
    "echo",
    ["I understand, I will answer directly", "I understand.", "i  UNDERSTAND …"],
)
async def test_B3_a_short_text_that_only_echoes_an_instruction_is_no_answer(echo: str) -> None:
    provider = Scripted(echo, "The port is 8080.")
    outcome = await Engine(provider).run("Which port?")
    assert (outcome.answer, outcome.steps) == ("The port is 8080.", 2)


@pytest.mark.parametrize(
    "answer",
    [
        "I understand, and the port is 8080.",
        "Sure: 8080",
        "okra",
        "OK. " * 40,
        "!",
        "42",
        "👍",
    ],
)
async def test_B3_an_answer_that_says_more_or_is_long_ends_the_run(answer: str) -> None:
    outcome = await Engine(Scripted(answer, "more")).run("go")
    assert (outcome.stop_reason, outcome.steps, outcome.answer) == ("text_final", 1, answer)


@pytest.mark.parametrize(
    ("phrase", "echo"),
    [
        ("Ich habe verstanden", "Ich habe verstanden!"),
        ("我明白了", "我明白了。"),
        ("Понял", "понял…"),
        ("J'ai compris", "j'ai  compris!"),
        ("فهمت", "فهمت"),
    ],
)
async def test_B3_the_phrases_are_the_users_own_in_any_language(phrase: str, echo: str) -> None:
    policy = Policy(echo=Echo(phrases=(phrase,)))
    outcome = await Engine(Scripted(echo, "8080"), policy=policy).run("go")
    assert (outcome.answer, outcome.steps) == ("8080", 2)
    assert (await Engine(Scripted("I understand"), policy=policy).run("go")).answer == "I understand"


async def test_B3_a_model_that_only_echoes_ends_as_no_answer() -> None:
    outcome = await Engine(Scripted(*["I understand"] * 9)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "no_answer", 3)


async def test_B3_the_filter_can_be_switched_off_and_its_length_is_a_setting() -> None:
    off = Policy(echo=Echo(shorter_than=0))
    assert (await Engine(Scripted("I understand."), policy=off).run("go")).answer == "I understand."
    short = Policy(echo=Echo(shorter_than=5))
    assert (await Engine(Scripted("I understand."), policy=short).run("go")).answer == "I understand."


async def test_B3_an_announcement_is_no_answer_only_after_tools_and_only_if_wanted() -> None:
    def script() -> Scripted:
        return Scripted([call("work")], "I will now look.", "The port is 8080.")

    off = Patience(announcements=None)
    assert (await Engine(script(), tools=[WORK], policy=Policy(patience=off)).run("go")).answer == "I will now look."
    assert (await Engine(script(), tools=[WORK], policy=POLICIES["chat"]).run("go")).answer == "I will now look."
    assert (await Engine(script(), tools=[WORK]).run("go")).answer == "The port is 8080."
    policy = Policy(patience=off, echo=Echo(announcements=("I will now",)))
    assert (await Engine(script(), tools=[WORK], policy=policy).run("go")).answer == "The port is 8080."
    assert (await Engine(Scripted("I will now rest."), policy=policy).run("go")).answer == "I will now rest."
    assert (await Engine(Scripted("I will now rest.")).run("go")).answer == "I will now rest."


async def test_B3_a_model_that_announces_again_after_the_nudge_ends_as_no_answer() -> None:
    provider = Scripted([call("work")], "I will now update the file.", "Let me run the tests now.", "never asked for")
    outcome = await Engine(provider, tools=[WORK]).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "no_answer", 3)
    assert outcome.answer, "the last text is not lost"


async def test_B3_a_call_between_two_announcements_allows_another_nudge() -> None:
    script = [[call("work")], "Let me look.", [call("work", n=1)], "Now I'll run the tests.", "The port is 8080."]
    outcome = await Engine(Scripted(*script), tools=[WORK]).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "The port is 8080.", 5)


async def test_B3_under_strict_an_announcement_is_a_text_like_any_other() -> None:
    talk = ["I will now look.", "Let me check.", "I will now test."]
    provider = Scripted([call("work")], *talk, [call("finish_task", summary="done")])
    outcome = await Engine(provider, tools=[WORK], policy=POLICIES["strict"]).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("completed", 5)


PARTIAL = "3 of 7 files migrated, remaining: a.py, b.py, c.py, d.py."
ECHOED = 'The tool returned: {"port": 8080}'


@pytest.mark.parametrize(("text", "prompt"), [(PARTIAL, Prompts().partial), (ECHOED, Prompts().result_echo)])
async def test_B3_unfinished_work_and_a_repeated_result_are_handed_back_after_a_call(text: str, prompt: str) -> None:
    provider = Scripted([call("work")], text, "The port is 8080.")
    outcome = await Engine(provider, tools=[WORK]).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "The port is 8080.", 3)
    assert provider.requests[-1].messages[-1] == UserMessage(prompt)
    assert (await Engine(Scripted(text)).run("go")).answer == text, "no tool was called"
    assert (
        await Engine(Scripted([call("work")], text), tools=[WORK], policy=POLICIES["chat"]).run("go")
    ).answer == text


@pytest.mark.parametrize("text", [PARTIAL, ECHOED])
async def test_B3_such_texts_end_a_run_where_the_policy_or_an_old_record_says_so(text: str) -> None:
    then = settings_from_record(Policy, {"patience": {"echoes": 2}})
    assert (then.patience.partial_reports, then.patience.result_echoes) == (None, None)
    for policy in (then, Policy(patience=Patience(partial_reports=None, result_echoes=None))):
        outcome = await Engine(Scripted([call("work")], text), tools=[WORK], policy=policy).run("go")
        assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", text, 2)


async def test_B3_a_second_report_of_unfinished_work_in_a_row_ends_as_no_answer() -> None:
    provider = Scripted([call("work")], PARTIAL, "Still to do: the other four files.", "never asked for")
    outcome = await Engine(provider, tools=[WORK]).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "no_answer", 3)


@pytest.mark.parametrize("kind", ["partial", "echo"])
async def test_B3_a_text_rule_may_say_that_a_text_is_one_of_them(kind: str) -> None:
    hooks = Hooks(text_rule=lambda text, calls: kind if text == "Port 80." else None)  # type: ignore[arg-type,return-value]
    outcome = await Engine(Scripted([call("work")], "Port 80.", "Port 8080."), tools=[WORK], hooks=hooks).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "Port 8080.", 3)


async def test_B3_a_result_that_is_repeated_again_is_the_answer() -> None:
    outcome = await Engine(Scripted([call("work")], ECHOED, ECHOED), tools=[WORK]).run("What does it return?")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", ECHOED, 3)


def test_B3_a_record_that_does_not_name_the_setting_takes_an_announcement_as_an_answer() -> None:
    assert settings_from_record(Policy, {"patience": {"echoes": 2}}).patience.announcements is None
    assert settings_from_record(Policy, {}).question == "as_text"


# ---- a question to the user in a text


ASK = Policy(question="ask")
DECIDE = Policy(question="decide")


@pytest.mark.parametrize("text", ["Would you like me to continue?", "Which of the two files shall I change?"])
async def test_B3_where_nobody_is_there_the_model_is_told_to_decide(text: str) -> None:
    provider = Scripted(text, [call("work")], text, "Changed the first.")
    outcome = await Engine(provider, tools=[WORK], policy=DECIDE).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "Changed the first.", 4)
    assert provider.requests[1].messages[-1] == UserMessage(Prompts().decide)


async def test_B3_a_model_that_asks_on_where_nobody_is_there_waits_for_input_in_the_end() -> None:
    outcome = await Engine(Scripted(*["Which file?"] * 5), policy=DECIDE).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("awaiting_input", "awaiting_input", 3)
    policy = policy_from({"question": "decide", "patience": {"questions": 0}, "prompts": {"decide": "Choose."}})
    outcome = await Engine(Scripted(*["Which file?"] * 5), policy=policy).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("awaiting_input", 1)


@pytest.mark.parametrize("name", list(POLICIES))
def test_no_shipped_policy_ends_a_run_on_a_question_in_a_text(name: str) -> None:
    assert POLICIES[name].question == "as_text"


async def test_B1_a_question_ends_the_run_as_a_plain_answer_unless_the_policy_asks_the_user() -> None:
    outcome = await Engine(Scripted("What is your user id?")).run("go")
    assert (outcome.status, outcome.stop_reason) == ("completed", "text_final")
    outcome = await Engine(Scripted("What is your user id?"), policy=ASK).run("go")
    assert (outcome.status, outcome.stop_reason) == ("awaiting_input", "awaiting_input")
    assert (outcome.answer, outcome.answer_from, outcome.questions) == ("What is your user id?", "text", ())
    outcome = await Engine(Scripted("All done."), policy=ASK).run("go")
    assert outcome.status == "completed"


async def test_the_sessions_next_prompt_replies_to_a_question_in_a_text() -> None:
    provider = Scripted("What is your user id?", "Thank you, kim_1. Your flight is booked.")
    session = Engine(provider, policy=ASK).session()
    assert (await session.run("Book a flight.")).status == "awaiting_input"
    async with session.start("kim_1") as run:
        assert (await run.wait()).status == "completed"
    assert [m.text for m in provider.requests[1].messages if isinstance(m, UserMessage)] == ["Book a flight.", "kim_1"]


async def test_a_question_in_a_text_is_asked_under_strict_too_and_the_work_is_evaluated() -> None:
    looked: list[str] = []

    def evaluate(what: EvaluationInput) -> bool:
        looked.append(what.outcome.status)
        return True

    policy = replace(POLICIES["strict"], question="ask")
    provider = Scripted([call("work")], "Which of the two files shall I change?")
    outcome = await Engine(provider, tools=[WORK], policy=policy, hooks=Hooks(evaluate=evaluate)).run("go")
    assert (outcome.status, outcome.verdict, looked) == ("awaiting_input", "passed", ["awaiting_input"])


async def test_B2_the_users_text_rule_may_say_what_a_text_is() -> None:
    engine = Engine(Scripted("Kennung?!"), policy=ASK, hooks=Hooks(text_rule=lambda text, calls: "answer"))
    assert (await engine.run("go")).status == "completed"
    engine = Engine(Scripted("Tell me."), policy=ASK, hooks=Hooks(text_rule=lambda text, calls: "question"))
    assert (await engine.run("go")).status == "awaiting_input"
    script = Scripted([call("work")], "Soon.", "The port is 8080.")
    kinds = {"Soon.": "announcement"}
    engine = Engine(script, tools=[WORK], hooks=Hooks(text_rule=lambda text, calls: kinds.get(text)))
    assert (await engine.run("go")).answer == "The port is 8080."


# ---- B4


async def test_B4_a_thousand_rounds_add_the_next_step_prompt_once() -> None:
    policy = Policy(
        prompts=Prompts(next_step="What is the next step?"),
        max_inner_steps=1,
        limits=Limits(steps=1000),
        reminder=None,
        repetition=Repetition(nudge_at=(), stop_at=None),
    )
    session = Engine(Scripted(*[[call("work")]] * 1000), tools=[WORK], policy=policy).session()
    outcome = await session.run("go")
    assert outcome.rounds == 1000
    users = [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]
    assert users == ["go", "What is the next step?"]


def user_messages(session: Session) -> list[str]:
    return [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]


async def test_B4_it_never_comes_back_within_a_run_whatever_the_loop_says_in_between() -> None:
    policy = Policy(text="nudge", prompts=Prompts(next_step="Next?"), max_inner_steps=1, limits=Limits(steps=5))
    session = Engine(Scripted(*["talk"] * 5), policy=policy).session()
    await session.run("go")
    nudge = policy.prompts.text_is_no_end
    assert user_messages(session)[:6] == ["go", "Next?", nudge, nudge, nudge, nudge]


async def test_B4_each_prompt_of_a_session_gets_it_once() -> None:
    session = Engine(Scripted(*"abcde"), policy=Policy(prompts=Prompts(next_step="Next?"))).session()
    for prompt in "12345":
        await session.run(prompt)
    assert user_messages(session) == ["1", "Next?", "2", "Next?", "3", "Next?", "4", "Next?", "5", "Next?"]


@pytest.mark.parametrize("prompt", ["下一步是什么？", " 下一步是什么？\n"])
async def test_B4_it_is_not_added_where_it_is_the_latest_user_message_compared_stripped(prompt: str) -> None:
    policy = Policy(prompts=Prompts(next_step="下一步是什么？\n"), max_inner_steps=1)
    session = Engine(Scripted([call("work")], [call("work")], "a"), tools=[WORK], policy=policy).session()
    await session.run(prompt)
    assert [text.strip() for text in user_messages(session)] == ["下一步是什么？"]


async def test_B4_the_answer_to_a_question_is_no_prompt_and_gets_none() -> None:
    policy = Policy(prompts=Prompts(next_step="Next?"))
    provider = Scripted([call("ask_user", question="Which?", id="q")], "a")
    session = Engine(provider, presets=[ask_user], policy=policy).session()
    await session.run("go")
    await session.answer("q", "this one")
    assert user_messages(session) == ["go", "Next?"]


# ---- B5


async def test_B5_a_handler_answers_without_any_model_request(tmp_path: Path) -> None:
    provider = Scripted()
    session = Engine(provider, hooks=Hooks(prompt_handlers=[greet])).session(record=tmp_path / "r.jsonl")
    outcome = await session.run("hello")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("completed", "handled", "Hello! How can I help?")
    assert (outcome.steps, outcome.requests, provider.requests) == (0, 0, [])
    assert [type(m).__name__ for m in session.transcript.messages[1:]] == ["UserMessage", "AssistantMessage"]
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_B5_a_handler_prepares_something_that_the_model_then_knows(tmp_path: Path) -> None:
    async def load(prompt: str, run: Progress) -> Prepare | None:
        return Prepare(message="The document: ports are 8080.") if "document" in prompt else None

    provider = Scripted("8080", "Hi.")
    session = Engine(provider, hooks=Hooks(prompt_handlers=[load])).session(record=tmp_path / "r.jsonl")
    assert (await session.run("Which port, by the document?")).answer == "8080"
    assert provider.requests[0].messages[-1] == UserMessage("The document: ports are 8080.")
    await session.run("And hello")
    assert provider.requests[1].messages[-1] == UserMessage("And hello")
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_B5_a_handler_may_ask_for_no_next_step_prompt_in_this_run() -> None:
    def quiet(prompt: str, run: Progress) -> Prepare | None:
        return Prepare(next_step=False) if prompt == "quiet" else None

    policy = Policy(prompts=Prompts(next_step="Next?"))
    provider = Scripted("one", "two")
    session = Engine(provider, policy=policy, hooks=Hooks(prompt_handlers=[quiet])).session()
    await session.run("quiet")
    await session.run("loud")
    assert [UserMessage("Next?") in request.messages for request in provider.requests] == [False, True]


async def test_B5_a_handler_that_raises_or_hangs_is_passed_over_and_the_next_is_asked() -> None:
    clock, asked = FakeClock(), anyio.Event()

    def broken(prompt: str, run: Progress) -> Answer:
        raise RuntimeError("no index")

    async def hangs(prompt: str, run: Progress) -> Answer:
        asked.set()
        await anyio.sleep_forever()
        return Answer("too late")

    engine = Engine(Scripted(), hooks=Hooks(prompt_handlers=[broken, hangs, greet]), runtime=Runtime(clock=clock))
    async with engine.start("hello") as run:
        await asked.wait()
        await clock.advance(61)
        outcome = await run.wait()
        events = [event async for event in run]
    assert outcome.answer == "Hello! How can I help?"
    assert [e.said for e in events if isinstance(e, ev.VerdictGiven)] == ["failed", "failed", "answered"]
    (stage,) = [e for e in events if isinstance(e, ev.StageFinished) and e.stage == "prepare"]
    assert stage.status == "failed"
    assert "broken" in stage.detail


# ---- B6


@pytest.mark.parametrize("handled", [False, True])
async def test_B6_five_scenes_take_2_1_1_2_1_steps_and_4_6_8_12_14_messages(handled: bool, tmp_path: Path) -> None:
    script = [
        [call("load", path="guide.md")],
        "The guide is loaded.",
        "It says that the port is 8080.",
        "Paris is the capital of France.",
        [call("load", path="skill.md")],
        "The skill says: measure twice.",
        "Hello!",
    ]

    async def load(path: str) -> str:
        return f"the text of {path}"

    engine = Engine(
        Scripted(*script),
        tools=[Tool(load, description="Load a document.", reads=True)],
        hooks=Hooks(prompt_handlers=[greet] if handled else []),
    )
    session = engine.session(record=tmp_path / "r.jsonl")
    steps, messages = [], []
    for prompt in ("Load the guide", "Which port?", "Capital of France?", "What does the skill say?", "hello"):
        outcome = await session.run(prompt)
        assert outcome.status == "completed"
        steps.append(outcome.steps)
        messages.append(sum(not isinstance(m, SystemMessage) for m in session.transcript.messages))
    assert steps == [2, 1, 1, 2, 0 if handled else 1]
    assert messages == [4, 6, 8, 12, 14]
    assert (await replay(str(tmp_path / "r.jsonl"))).same


# ---- B7


async def test_B7_a_run_can_end_by_its_output_tokens() -> None:
    policy = Policy(limits=Limits(output_tokens=12), repetition=Repetition(stop_at=None), closing=False)
    outcome = await Engine(Scripted(*[[call("work")]] * 9), tools=[WORK], policy=policy).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "token_limit", 3)
    assert (outcome.limits["output_tokens"].used, outcome.limits["output_tokens"].allowed) == (15, 12)
    assert "15 of 12 output tokens used" in outcome.detail


async def test_B7_a_run_can_end_by_elapsed_time() -> None:
    clock = FakeClock()

    async def wait() -> str:
        await clock.sleep(40)
        return "ok"

    policy = Policy(limits=Limits(seconds=60))
    engine = Engine(
        Scripted(*[[call("wait")]] * 9),
        tools=[Tool(wait, description="Wait.")],
        policy=policy,
        runtime=Runtime(clock=clock),
    )
    async with engine.start("go") as run:
        await clock.advance(40)
        await clock.advance(40)
        outcome = await run.wait()
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "time_limit", 2)
    assert outcome.limits["seconds"].used == 80


async def test_B7_a_run_can_end_by_a_judge_whose_cost_is_counted(tmp_path: Path) -> None:
    judge_model = Scripted("NO, the port is missing.", "YES: all is done.")
    policy = Policy(max_inner_steps=1)
    provider = Scripted([say("Looking."), call("work")], [say("All is done."), call("work")], "never asked for")
    engine = Engine(provider, tools=[WORK], policy=policy, hooks=Hooks(judge=ModelJudge(judge_model)))
    outcome = await engine.run("go", record=tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("completed", "judged", "All is done.")
    assert (outcome.steps, outcome.usage.output_tokens) == (2, 20)
    assert len(judge_model.requests) == 2
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_B7_a_judge_that_raises_or_hangs_never_loses_the_run() -> None:
    clock = FakeClock()

    async def judge(run: Progress) -> Verdict:
        if run.facts.steps == 1:
            raise RuntimeError("the judge is ill")
        await anyio.sleep_forever()
        return Verdict("complete")

    policy = Policy(max_inner_steps=1)
    engine = Engine(
        Scripted([call("work")], [call("work", n=2)], "Done."),
        tools=[WORK],
        policy=policy,
        hooks=Hooks(judge=judge),
        runtime=Runtime(clock=clock),
    )
    async with engine.start("go") as run:
        await clock.advance(61)
        outcome = await run.wait()
        said = [event.said async for event in run if isinstance(event, ev.VerdictGiven)]
    assert (outcome.stop_reason, outcome.answer, said) == ("text_final", "Done.", ["failed", "failed"])


def test_B7_each_of_these_ends_is_off_by_default() -> None:
    limits = Policy().limits
    assert (limits.output_tokens, limits.seconds, limits.cost_usd, limits.tool_calls) == (None, None, None, None)
    assert (Policy().session_limits, Engine(Scripted()).config.hooks.judge) == (SessionLimits(), None)


# ---- B8


ENDINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "completed": ([call("finish_task", summary="done")], {}),
    "text_final": ("Paris.", {}),
    "judged": (
        [say("Done."), call("work")],
        {"judge": lambda run: Verdict("complete"), "policy": {"max_inner_steps": 1}},
    ),
    "handled": ("", {"prompt_handlers": [lambda prompt, run: Answer("hi")]}),
    "until_met": ([call("work")], {"until": passes_later}),
    "awaiting_input": ([call("ask_user", question="Which?")], {}),
    "step_limit": ([call("work")], {"policy": {"limits": Limits(steps=2)}}),
    "token_limit": ([call("work")], {"policy": {"limits": Limits(output_tokens=6)}}),
    "cost_limit": ([call("work"), UsageReport(Usage(cost_usd=0.4))], {"policy": {"limits": Limits(cost_usd=0.5)}}),
    "time_limit": ([call("work")], {"policy": {"limits": Limits(seconds=1e-9)}}),
    "tool_call_limit": ([call("work")], {"policy": {"limits": Limits(tool_calls=3)}}),
    "stuck": ([call("work")], {}),
    "degenerate": ("court " * 5000, {}),
    "compaction_stalled": ([call("work")], {"policy": {"compaction": Compaction(window=10)}}),
    "completion_rejected": ([call("finish_task", summary="x")], {"gates": [lambda completion, run: Reject("no")]}),
    "no_answer": ("", {}),
    "invalid_calls": ([call("nobody")], {}),
    "until_stalled": ([call("work")], {"until": never_passes, "policy": {"patience": Patience(checks=1)}}),
    "blocked": ([call("work")], {"until": cannot_pass}),
    "refusal": ([FinishReport("content_filter", "content_filter")], {}),
    "provider_error": (Unavailable("the model is overloaded"), {}),
    "internal_error": (3, {}),
}


@pytest.mark.parametrize("reason", [reason for reason in STATUS_OF if reason != "cancelled"])
async def test_B8_every_end_has_a_reason_that_a_person_and_a_program_can_read(reason: str, tmp_path: Path) -> None:
    response, options = ENDINGS[reason]
    given = dict(options)
    policy = Policy(**given.pop("policy", {}))
    clock = FakeClock()
    if reason == "time_limit":
        clock._now = 1.0
    provider = Scripted(lambda request: response)

    async def work() -> str:
        clock._now += 1
        return "ok"

    tools = [Tool(work, description="Work.")]
    engine = Engine(
        provider,
        tools=tools,
        presets=[finish_task, ask_user],
        policy=policy,
        until=given.pop("until", None),
        **grouped(clock=clock, **given),
    )
    path = tmp_path / "r.jsonl"
    async with engine.start("go", record=path) as run:
        outcome = await run.wait()
    assert outcome.stop_reason == reason, outcome.detail
    assert outcome.status == STATUS_OF[reason]
    assert len(outcome.detail) > 10, "a sentence for a person"
    recorded = read_record(path).runs[0]
    assert recorded.finished is not None
    assert recorded.finished.outcome.stop_reason == reason
    last = [e.decision for e in recorded.events if isinstance(e, ev.DecisionMade)][-1]
    assert getattr(last, "reason", "awaiting_input") == reason
    if reason != "internal_error":
        assert last.trace[-1].said == str(last)


async def test_B8_a_cancelled_run_says_who_cancelled_it() -> None:
    async with Engine(Scripted([say("a"), anyio.Event()])).start("go") as run:
        run.cancel("disconnect")
        outcome = await run.wait()
    assert (outcome.status, outcome.stop_reason) == ("cancelled", "cancelled")
    assert "disconnect" in outcome.detail
