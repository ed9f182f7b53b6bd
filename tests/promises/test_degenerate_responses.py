"""Row A1: a response that repeats itself is cut while it streams, tried once more, and then the run ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Engine, RecordOptions, Redaction, Tool, read_record
from endstop.analysis.policy_simulation import backtest
from endstop.decision import (
    Degeneration,
    Limits,
    Policy,
    ReasoningDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
    policy_from,
)
from endstop.decision import events as ev
from endstop.decision.cost import Price
from endstop.providers import (
    Fallback,
    Hedge,
    Interrupted,
    Prices,
    Race,
    RateLimit,
    Record,
    Replay,
    Retry,
    Scripted,
    Timeouts,
    call,
    say,
)
from endstop.replay import replay
from endstop.testing import FakeClock, MemorySteps, check_transcript
from endstop.tools import finish_task
from msgspec.structs import replace

from ..console import endstop as console

LEAD = "The port is 80. "
ENDLESS = [say(LEAD), *[say("court ")] * 5000]
"""As `endings.py` R1 has it: one token 5,000 times."""
DONE = [call("finish_task", summary="The port is 80.")]
CHANGED: list[str] = []


async def change(path: str) -> str:
    CHANGED.append(path)
    return "changed"


PLAIN = Policy(closing=False)
"""Without the closing step, so that requests can be counted."""
TOOLS = [Tool(change, description="Change."), finish_task]


@pytest.fixture(autouse=True)
def nothing_changed() -> None:
    CHANGED.clear()


def engine(provider: Any, **options: Any) -> Engine:
    options.setdefault("policy", PLAIN)
    return Engine(provider, tools=TOOLS, presets=(), **options)


async def events_of(
    provider: Any, path: Path | None = None, steps: MemorySteps | None = None, **options: Any
) -> tuple[list[Any], Any]:
    session = engine(provider, **options).session(record=path)
    if steps is not None:
        session.steps = steps
    with anyio.fail_after(60):
        async with session.start("Which port?") as run:
            events = [event async for event in run]
    check_transcript(session.transcript.messages)
    return events, run.outcome


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_A1_a_response_that_repeats_itself_is_cut_tried_again_and_ends_the_run(tmp_path: Path) -> None:
    provider = Scripted(ENDLESS, ENDLESS, DONE)
    events, outcome = await events_of(provider, tmp_path / "r.jsonl")
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "degenerate")
    assert outcome.answer == LEAD.strip()
    assert (outcome.steps, outcome.requests) == (1, 2)
    assert max(provider.sent) < 900, "of 5,001 chunks"
    failed = of(events, ev.AttemptFailed)
    assert [(e.attempt, e.kind, e.after_output, e.text) for e in failed] == [
        ("1.1", "degenerate", True, LEAD.strip()),
        ("1.2", "degenerate", True, LEAD.strip()),
    ]
    assert [(e.attempt, e.by) for e in of(events, ev.AttemptRetracted)] == [("1.1", "1.2")]
    assert not of(events, ev.ResponseFinished)
    assert "repeated 'court '" in outcome.detail
    assert "attempt 1.2" in outcome.detail
    assert read_record(tmp_path / "r.jsonl").runs[0].finished.outcome == outcome  # type: ignore[union-attr]


async def test_A1_what_a_void_attempt_used_counts_and_is_marked() -> None:
    prices = Prices({"scripted": Price(input=1.0, output=2.0)}, listed=False)
    events, outcome = await events_of(Scripted(ENDLESS, DONE), prices=prices)
    (failed,) = of(events, ev.AttemptFailed)
    assert failed.usage.estimated
    assert 900 < failed.usage.output_tokens < 1300, "four characters a token, up to the cut"
    assert failed.usage.input_tokens > 0
    (response,) = of(events, ev.ResponseFinished)
    assert outcome.usage.output_tokens == failed.usage.output_tokens + response.usage.output_tokens
    assert outcome.usage.cost_usd == pytest.approx(failed.usage.cost_usd + response.usage.cost_usd)
    assert outcome.usage.estimated


async def test_A1_input_tokens_that_the_stream_had_stated_are_kept() -> None:
    stated = UsageReport(Usage(input_tokens=1234, cached_tokens=1000, output_tokens=1))
    events, _ = await events_of(Scripted([stated, *ENDLESS], DONE))
    (failed,) = of(events, ev.AttemptFailed)
    assert (failed.usage.input_tokens, failed.usage.cached_tokens, failed.usage.estimated) == (1234, 1000, True)
    assert failed.usage.output_tokens > 900


async def test_A1_the_new_attempt_is_asked_the_same() -> None:
    provider = Scripted(ENDLESS, DONE)
    _, outcome = await events_of(provider)
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "The port is 80.", 1)
    first, second = provider.requests
    assert (first.attempt, second.attempt) == ("1.1", "1.2")
    assert list(first.messages) == list(second.messages)
    assert (first.tools, first.tool_choice, first.ephemeral) == (second.tools, second.tool_choice, second.ephemeral)


@pytest.mark.parametrize("attempts", [0, 1, 3])
async def test_A1_how_many_attempts_are_made_is_a_setting(attempts: int) -> None:
    policy = replace(PLAIN, degeneration=Degeneration(attempts=attempts))
    events, outcome = await events_of(Scripted(*[ENDLESS] * 9), policy=policy)
    assert outcome.stop_reason == "degenerate"
    assert outcome.requests == attempts + 1 == len(of(events, ev.AttemptStarted))
    assert len(of(events, ev.AttemptRetracted)) == attempts


async def test_A1_each_step_has_its_own_attempt() -> None:
    steps = [[call("change", path="a")], ENDLESS, [call("change", path="b")], ENDLESS, DONE]
    _, outcome = await events_of(Scripted(*steps))
    assert (outcome.stop_reason, outcome.steps, outcome.requests, CHANGED) == ("completed", 3, 5, ["a", "b"])


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))


REASONING = [
    ReasoningDelta("I look at the port. "),
    *[ReasoningDelta("Wait, let me check that again. ")] * 2000,
]
ARGUMENTS = [
    say(LEAD),
    ToolCallDelta(0, "c1", "change", '{"path": "'),
    *[ToolCallDelta(0, arguments=piece) for piece in _pieces("0" * 60_000, 12)],
]


@pytest.mark.parametrize(
    ("response", "says", "answer"),
    [
        (REASONING, "the reasoning repeated 'Wait, let me check that again. '", ""),
        (ARGUMENTS, "the arguments of change repeated '0'", LEAD),
        ([say(LEAD), *[say(f"Step {n}: checking... ") for n in range(3000)]], "with a counter", LEAD.strip()),
        ([say(LEAD + "court " * 5000)], "the text repeated", LEAD.strip()),
    ],
    ids=["reasoning", "arguments", "a counter", "in one piece"],
)
async def test_A1_every_part_is_watched(response: Any, says: str, answer: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    events, outcome = await events_of(Scripted(response, response), path)
    assert (outcome.stop_reason, outcome.answer, CHANGED) == ("degenerate", answer, [])
    assert all(says in e.message for e in of(events, ev.AttemptFailed))
    assert (await replay(path)).same


async def test_A1_a_file_of_zeros_is_written() -> None:
    for zeros in (["0"] * 19_000, ["0" * 60_000]):  # the second is whole in one chunk: it has an end
        response = [ToolCallDelta(0, "c1", "change", '{"path": "'), *[ToolCallDelta(0, arguments=z) for z in zeros]]
        if len(zeros) == 1:
            response = [ToolCallDelta(0, "c1", "change", json.dumps({"path": zeros[0]}))]
        else:
            response.append(ToolCallDelta(0, arguments='"}'))
        _, outcome = await events_of(Scripted(response, DONE))
        assert outcome.stop_reason == "completed"
        assert CHANGED.pop() == "".join(zeros)


async def test_A1_a_tool_may_be_left_out() -> None:
    policy = Policy(degeneration=Degeneration(unwatched=("change",)))
    _, outcome = await events_of(Scripted([*ARGUMENTS, ToolCallDelta(0, arguments='"}')], DONE), policy=policy)
    assert (outcome.stop_reason, outcome.requests, len(CHANGED[0])) == ("completed", 2, 60_000)


async def test_A1_what_a_void_attempt_began_is_given_up_and_nothing_is_done_twice(tmp_path: Path) -> None:
    given_up: list[str] = []
    written: list[str] = []

    async def look(path: str) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            given_up.append(path)
        raise AssertionError("it never ends by itself")

    async def write(path: str) -> str:
        written.append(path)
        return "written"

    tools = [Tool(look, description="Look.", reads=True), Tool(write, description="Write."), finish_task]
    void = [call("look", path="a"), call("write", path="a"), *ENDLESS]
    path = tmp_path / "r.jsonl"
    with anyio.fail_after(60):
        outcome = await Engine(Scripted(void, void), tools=tools, presets=(), policy=PLAIN).run("go", record=path)
    assert (outcome.stop_reason, written) == ("degenerate", [])
    assert len(given_up) <= 2, "as often as it had begun"
    assert (await replay(path)).same


# ---- the same in a replay and in a backtest


@pytest.mark.parametrize("responses", [(ENDLESS, ENDLESS), (ENDLESS, DONE), (REASONING, "Port 80.")])
async def test_A1_a_replay_cuts_where_the_record_did_and_looks_for_nothing_itself(
    responses: Any, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    _, outcome = await events_of(Scripted(*responses), path)
    report = await replay(path)
    assert report.same
    assert report.runs[0].outcome == msgspec.structs.replace(outcome, duration_ms=report.runs[0].outcome.duration_ms), (
        "to the text and the tokens"
    )
    # Whatever the numbers in the policy, and so whatever a later version makes of them, the record says where.
    lines = path.read_bytes()
    for other in (b'"text":null,"reasoning":null,"arguments":null', b'"text":1000,"reasoning":1000,"arguments":1000'):
        changed = lines.replace(b'"text":4000,"reasoning":4000,"arguments":20000', other)
        assert changed != lines
        path.write_bytes(changed)
        assert (await replay(path)).same


async def test_A1_a_record_that_does_not_name_the_setting_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    off = Policy(degeneration=Degeneration(text=None, reasoning=None, arguments=None))
    _, outcome = await events_of(Scripted(ENDLESS), path, policy=off)
    assert (outcome.stop_reason, len(outcome.answer)) == ("text_final", len(LEAD) + 30_000)
    lines = path.read_bytes().splitlines(keepends=True)
    started = json.loads(lines[1])
    assert started["policy"].pop("degeneration")["text"] is None
    path.write_bytes(b"".join([lines[0], json.dumps(started).encode() + b"\n", *lines[2:]]))
    assert (await replay(path)).same
    assert read_record(path).runs[0].started.policy.degeneration.text is None


@pytest.mark.parametrize(
    ("response", "says"),
    [
        ([*ENDLESS], "the text repeated"),
        ([*REASONING, say("Port 80.")], "the reasoning repeated"),
        ([*ARGUMENTS, ToolCallDelta(0, arguments='"}')], "the arguments of change repeated"),
    ],
)
async def test_A1_a_backtest_says_where_a_policy_would_have_cut(response: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    off = Policy(degeneration=Degeneration(text=None, reasoning=None, arguments=None))
    await events_of(Scripted([call("change", path="a")], response, DONE), path, policy=off)
    (run,) = read_record(path).runs
    (tested,) = backtest(run.events, [PLAIN, off])
    on, same = tested.findings
    assert (on.parting, on.step) == ("diverges", 2)
    assert on.why.startswith(f"it would have cut the response: {says}")
    assert same.parting == "same"


async def test_A1_a_backtest_of_a_cut_is_the_same_or_says_that_it_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await events_of(Scripted([call("change", path="a")], ENDLESS, ENDLESS), path)
    (run,) = read_record(path).runs
    (tested,) = backtest(run.events, [PLAIN, replace(PLAIN, degeneration=Degeneration(text=None))])
    same, off = tested.findings
    assert (same.parting, same.stop_reason, same.rule) == ("same", "degenerate", "finish_reason")
    assert (off.parting, off.step) == ("diverges", 2)
    assert tested.digest.stop_reason == "degenerate"
    assert tested.digest.retries == 2


# ---- over any provider, and with whatever else may come


def _leaf(*responses: Any) -> Scripted:
    return Scripted(*responses, model="m")


WRAPPERS: dict[str, Callable[[Any, FakeClock], Any]] = {
    "retry": lambda a, clock: Retry(a, clock=clock),
    "fallback": lambda a, clock: Fallback(a, Scripted("never asked")),
    "race": lambda a, clock: Race(a, Scripted(anyio.Event())),
    "hedge": lambda a, clock: Hedge(a, Scripted("never asked"), after=60),
    "limit": lambda a, clock: RateLimit(a, streams=1, adapt=False),
    "timeouts": lambda a, clock: Timeouts(a, total=60),
    "record": lambda a, clock: Record(a, lambda exchange: None),
    "all": lambda a, clock: Retry(Fallback(RateLimit(Timeouts(a, total=60), streams=1, adapt=False)), clock=clock),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("second", ["endless", "done"])
async def test_A1_it_is_the_same_over_any_provider(wrapper: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    leaf = _leaf(ENDLESS, ENDLESS if second == "endless" else DONE, "too many requests")
    events, outcome = await events_of(WRAPPERS[wrapper](leaf, FakeClock()), path)
    assert outcome.stop_reason == ("degenerate" if second == "endless" else "completed")
    assert len(leaf.requests) == 2
    assert [e.kind for e in of(events, ev.AttemptFailed) if not e.beside] == ["degenerate"] * (
        1 + (second == "endless")
    )
    assert (await replay(path)).same


async def test_A1_an_error_and_a_repetition_have_attempts_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    broken = [say("Well, "), Interrupted("broke off")]
    provider = Retry(Scripted(broken, ENDLESS, broken, DONE), first_wait=0, longest_wait=0)
    events, outcome = await events_of(provider, path)
    assert [e.kind for e in of(events, ev.AttemptFailed)] == ["interrupted", "degenerate", "interrupted"]
    assert [e.attempt for e in of(events, ev.AttemptStarted)] == ["1.1", "1.2", "1.3", "1.4"]
    assert (outcome.stop_reason, outcome.requests) == ("completed", 4)
    assert (await replay(path)).same


async def test_A1_where_the_new_attempt_fails_the_first_cause_stands_and_both_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    _, outcome = await events_of(Scripted(ENDLESS, Interrupted("broke off")), path)
    assert (outcome.stop_reason, outcome.answer, outcome.requests) == ("degenerate", LEAD.strip(), 2)
    assert outcome.detail.startswith("attempt 1.1 of scripted was cut: the text repeated")
    assert outcome.detail.endswith("; then attempt 1.2 of scripted: interrupted: broke off")
    assert (await replay(path)).same


async def test_A1_recorded_exchanges_are_cut_again() -> None:
    kept: list[Any] = []
    await events_of(Record(Scripted(ENDLESS, DONE), kept.append))
    assert [exchange.ended for exchange in kept] == ["cut", "cut"]
    _, outcome = await events_of(Replay(kept))
    assert (outcome.stop_reason, outcome.requests) == ("completed", 2)


async def test_A1_a_closing_step_that_repeats_itself_leaves_what_it_had_said(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    policy = Policy(limits=Limits(steps=1), closing=True)
    _, outcome = await events_of(Scripted([call("change", path="a")], ENDLESS, ENDLESS), path, policy=policy)
    assert (outcome.stop_reason, outcome.answer, outcome.requests) == ("step_limit", LEAD.strip(), 3)
    assert (await replay(path)).same


async def test_A1_the_session_goes_on_after_it() -> None:
    session = engine(Scripted(ENDLESS, ENDLESS, "Port 80.")).session()
    assert (await session.run("Which port?")).stop_reason == "degenerate"
    outcome = await session.run("Once more.")
    assert (outcome.stop_reason, outcome.answer) == ("text_final", "Port 80.")
    check_transcript(session.transcript.messages)


# ---- a process that dies, and durable engines


async def _killed_after(path: Path, lines: list[bytes], *left: Any, steps: MemorySteps | None = None) -> Any:
    """Go on from these lines in a fresh session."""
    path.write_bytes(b"".join(lines))
    record = read_record(path)
    session = engine(Scripted(*left)).session(record.header.session_id, record=path)
    session.load(record.runs)
    session.steps = steps
    with anyio.fail_after(60):
        async with session.start_resumed() as run:
            outcome = await run.wait()
    check_transcript(session.transcript.messages)
    return outcome


async def test_A1_a_process_may_die_anywhere_around_a_cut(tmp_path: Path) -> None:
    path, killed = tmp_path / "r.jsonl", tmp_path / "killed.jsonl"
    responses = [[call("change", path="a")], ENDLESS, DONE]
    await events_of(Scripted(*responses), path)
    lines = path.read_bytes().splitlines(keepends=True)
    streamed = [n for n, line in enumerate(lines, 1) if b'"type":"TEXT_MESSAGE_CONTENT"' in line]
    places = sorted({*range(3, len(lines)), *streamed[::200], streamed[-1]} - set(streamed[1:-1]))
    for place in places:
        whole = sum(b'"type":"RESPONSE_FINISHED"' in line for line in lines[:place])
        outcome = await _killed_after(killed, lines[:place], *[responses[0], DONE][whole:])
        assert (outcome.stop_reason, outcome.steps) == ("completed", 2), place
        assert (await replay(killed)).same, place


async def test_A1_a_process_that_dies_in_the_new_attempt_asks_once_more_and_once_again(tmp_path: Path) -> None:
    path, killed = tmp_path / "r.jsonl", tmp_path / "killed.jsonl"
    await events_of(Scripted(ENDLESS, ENDLESS), path)
    lines = path.read_bytes().splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines, 1) if b'"attempt":"1.2"' in line and b"ATTEMPT_STARTED" in line)
    outcome = await _killed_after(killed, lines[: second + 1], ENDLESS, ENDLESS)
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("degenerate", LEAD.strip(), 1)
    assert (await replay(killed)).same


async def test_A1_a_durable_engine_keeps_the_response_that_took_its_place(tmp_path: Path) -> None:
    path, killed = tmp_path / "r.jsonl", tmp_path / "killed.jsonl"
    steps = MemorySteps()
    events, outcome = await events_of(Scripted(ENDLESS, DONE), path, steps=steps)
    lines = path.read_bytes().splitlines(keepends=True)
    before = next(n for n, line in enumerate(lines) if b'"type":"ATTEMPT_STARTED"' in line)
    again = await _killed_after(killed, lines[:before], steps=MemorySteps(steps.kept))
    assert (again.stop_reason, again.usage, again.requests) == ("completed", outcome.usage, 2)
    told = read_record(killed).runs[0].events
    for kind in (ev.AttemptFailed, ev.AttemptRetracted):
        plain = [[msgspec.structs.replace(e, seq=0, t=0) for e in of(list(them), kind)] for them in (events, told)]
        assert plain[0] == plain[1]
    assert (await replay(killed)).same


async def test_A1_a_durable_engine_ends_as_degenerate_too() -> None:
    steps = MemorySteps()
    _, outcome = await events_of(Scripted(ENDLESS, ENDLESS), steps=steps)
    assert (outcome.stop_reason, outcome.answer) == ("degenerate", LEAD.strip())
    assert not steps.kept, "there was no response to keep"


# ---- what is shown of it, and what is not


async def test_A1_the_text_that_is_kept_is_redacted_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    provider = Scripted([say(f"The key is {secret}. "), *[say("court ")] * 2000], DONE)
    await engine(provider, record_options=RecordOptions(redact=Redaction())).run("go", record=path)
    assert secret not in path.read_text()
    assert secret[:20] not in path.read_text()
    (failed,) = [e for e in read_record(path).runs[0].events if isinstance(e, ev.AttemptFailed)]
    assert failed.text.startswith("The key is [redacted")


async def test_A1_people_are_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await events_of(Scripted(ENDLESS, ENDLESS), path)
    for command in (["audit", str(path)], ["replay", str(path)]):
        done = await console(*command)
        assert done.code == 0, done.err
        told = " ".join(done.out.split())
        assert "the response was cut" in told or "degenerate" in told
        assert "the request failed" not in told


def test_A1_the_settings_stand_in_a_file_too() -> None:
    policy = policy_from({"degeneration": {"text": "off", "arguments": 50_000, "unwatched": ["write_file"]}})
    assert policy.degeneration == Degeneration(text=None, arguments=50_000, unwatched=("write_file",))


@pytest.mark.parametrize("tokens", [300, 1_000, 1_500])
async def test_A1_a_limit_that_is_reached_first_ends_the_run(tokens: int, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    policy = Policy(limits=Limits(output_tokens=tokens), closing=False)
    provider = Scripted(ENDLESS, ENDLESS)
    events, outcome = await events_of(provider, path, policy=policy)
    assert (outcome.stop_reason, outcome.exceeded_limit) == ("token_limit", True)
    assert outcome.usage.output_tokens <= tokens + 60
    assert len(of(events, ev.AttemptStarted)) == (2 if tokens == 1_500 else 1)
    assert (await replay(path)).same


async def test_A1_a_backtest_of_an_imported_session_says_where_it_would_have_been_cut(tmp_path: Path) -> None:
    session = tmp_path / "session.json"
    messages = [{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": LEAD + "court " * 5000}]
    session.write_text(json.dumps(messages))
    assert (await console("import", "openai", session, "-o", tmp_path / "records")).code == 0
    (path,) = (tmp_path / "records").rglob("*.jsonl")
    assert (await replay(path)).same
    (run,) = read_record(path).runs
    ((finding,),) = [tested.findings for tested in backtest(run.events, [PLAIN])]
    assert finding.why.startswith("it would have cut the response: the text repeated")


@pytest.mark.parametrize("size", [1, 7, 1_000, 50_000])
async def test_A1_the_chunks_do_not_matter(size: int) -> None:
    whole = LEAD + "court " * 5000
    events, outcome = await events_of(Scripted(*[[say(piece) for piece in _pieces(whole, size)]] * 2))
    assert outcome.stop_reason == "degenerate"
    told = "the text repeated 'court ' 680 times, for 4,081 characters"
    assert [(e.message, e.text) for e in of(events, ev.AttemptFailed)] == [(told, LEAD.strip())] * 2
