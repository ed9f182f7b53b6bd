"""`endstop replay`: what differs, from where on it is shown, and what is wrong with a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Runtime, read_record, tool
from endstop.cli.views.replay import divergence_lines
from endstop.cli.views.styled_lines import display_width, plain_text, wrap
from endstop.decision import GoOn, Stop, TraceEntry
from endstop.decision.events import ResponseFinished, ToolCallResult
from endstop.decision.messages import AssistantMessage, ToolCall
from endstop.providers import Scripted, call, say
from endstop.records.recorder import RecordWriter
from endstop.replay.diff import Divergence, EventDifference
from endstop.testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from ...console import endstop
from ...handmade import FINISH, READ, finished, started, step, steps, stopped, write, write_whole
from .terminal import in_terminal

GOLDEN = Path(__file__).parents[2] / "records"

LIVE = """
from endstop import tool

@tool(kind="completion")
def submit(report: str) -> str:
    "Submit."
    return "continue"

@tool
def look(place: int) -> str:
    "Look."
    return "nothing there"
"""


@tool(kind="completion")
async def submit(report: str) -> str:
    """Submit."""
    return "accepted"


@tool
async def look(place: int) -> str:
    """Look."""
    return f"found {place}"


async def recorded(path: Path, runs: int = 1) -> Path:
    """Runs of two steps each."""
    script = [[say("I will look around. ", 4), call("look", place=1)], [call("submit", report="x")]] * runs
    session = Engine(Scripted(*script), tools=[submit, look], runtime=Runtime(clock=FakeClock())).session(record=path)
    for number in range(runs):
        assert (await session.run(f"Task {number}")).status == "completed"
    return path


# ---- the first divergence, with both traces


async def test_a_divergence_shows_both_traces_side_by_side_and_what_differed_before_them(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (tmp_path / "live.py").write_text(LIVE)
    done = await endstop("replay", record, "--live-tools", "--tools", tmp_path / "live.py")
    run_id = read_record(record).runs[0].started.run_id
    (seq,) = [e.seq for e in read_record(record).runs[0].events if isinstance(e, ToolCallResult) and e.name == "look"]
    assert done.code == 1
    lines = done.out.splitlines()
    said = "round 1: the record says stop(completed), the replay go on (completion handed back)"
    assert lines[0] == f"{run_id}: diverges: {said}"
    assert lines[1] == f"    first differed: event {seq}, TOOL_CALL_RESULT of look (content)"
    assert [line.split() for line in lines[2:4]] == [["was", "found", "1"], ["is", "nothing", "there"]]
    assert lines[4].split("  ")[-1].strip() == "the replay"
    assert "the record" in lines[4]
    (marked,) = [line for line in lines if "▸" in line]
    assert marked.split("▸")[1].split() == [
        *["P0.5", "control_flow", "stop(completed)", "go", "on", "(completion", "handed", "back)"]
    ]
    assert lines[-1] == "NOT the same"
    assert all(len(line) <= 100 for line in lines[1:])


async def test_in_few_columns_the_two_stand_one_under_the_other(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (tmp_path / "live.py").write_text(LIVE)
    arguments = ("replay", record, "--live-tools", "--tools", tmp_path / "live.py", "--quiet")
    done = await endstop(*arguments, env={"COLUMNS": "60"})
    lines = done.out.splitlines()
    assert (done.code, done.err) == (1, "")
    assert all(len(line) <= 60 for line in lines[1:])
    place = next(number for number, line in enumerate(lines) if "▸ P0.5 control_flow" in line)
    assert lines[place + 1].split() == ["record", "stop(completed)"]
    replayed = next(line for line in lines[place:] if line.startswith("      replay"))
    assert replayed.split() == ["replay", "go", "on", "(completion", "handed", "back)"]


async def test_in_json_a_divergence_has_both_whole_traces_and_both_events(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (tmp_path / "live.py").write_text(LIVE)
    done = await endstop("replay", record, "--live-tools", "--tools", tmp_path / "live.py", "--json")
    assert (done.code, done.json["same"]) == (1, False)
    divergence = done.json["runs"][0]["divergence"]
    for side, said in (("recorded", "stop(completed)"), ("replayed", "go on (completion handed back)")):
        trace = divergence[side]["trace"]
        assert [one["rule"] for one in trace][:2] == ["P0 compaction", "P0.5 control_flow"]
        assert trace[1]["said"] == said
        assert set(trace[1]["saw"]) == {
            "accepted",
            "handled",
            "questions",
            "rejection",
            "rejections",
            "rejections_in_vain",
        }
    before = divergence["before"]
    assert [before[side]["content"] for side in ("recorded", "replayed")] == ["found 1", "nothing there"]
    assert (before["recorded"]["type"], before["fields"]) == ("TOOL_CALL_RESULT", ["content"])
    assert before["recorded"]["seq"] == before["replayed"]["seq"]


async def test_a_response_that_was_changed_is_named_as_what_differed_first(tmp_path: Path) -> None:
    record = write_whole(await recorded(tmp_path / "r.jsonl"))
    lines = record.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        event = json.loads(line)
        if event["type"] in ("TOOL_CALL_START", "TOOL_CALL_ARGS") and event["attempt"] == "1.1":
            lines[number] = line.replace('"look"', '"submit"').replace("place", "report")
    record.write_text("".join(lines))
    done = await endstop("replay", record)
    assert done.code == 1
    assert "diverges: the engine stops at step 1 by control_flow; the record went on to step 2\n" in done.out
    assert "RESPONSE_FINISHED of step 1 (message)\n      was  I will look around. · look {" in done.out
    assert "      is   I will look around. · submit {" in done.out


async def test_other_results_of_live_tools_are_told_though_the_decisions_are_the_same(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (tmp_path / "live.py").write_text(LIVE.replace('return "continue"', 'return "accepted"'))
    done = await endstop("replay", record, "--live-tools", "--tools", tmp_path / "live.py")
    assert done.code == 0
    assert "1 decision the same\n    first differed: event" in done.out
    assert "is   nothing there" in done.out


async def test_the_plain_view_tells_a_divergence_where_it_happens(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=2)
    text = record.read_text()
    record.write_text(text.replace('"reason":"completed"', '"reason":"text_final"', 1))
    done = await endstop("replay", record)
    assert done.code == 1
    places = [done.err.index(word) for word in ("step 2 of", "≠ diverges: round 1", "Reported as done: ", "Task 1")]
    assert places == sorted(places)
    assert done.err.count("≠ diverges") == 1
    assert "▸ decision" in done.out, "no rule says anything else, so the decision itself is marked"


def considered(rule: str, said: str = "", **saw: Any) -> TraceEntry:
    return TraceEntry(rule, saw, said)


def a_divergence(**fields: Any) -> Divergence:
    one, other = considered("P0 one", t=1, usage={"a": 1}), considered("P1 two", "go on (x)", t=1)
    recorded = GoOn(rule="two", why="x", trace=(one, other))
    replayed = Stop(rule="one", reason="stuck", trace=(considered("P0 one", "stop(stuck)", t=2, usage={"a": 1}),))
    return Divergence(**{"round": 1, "step": 2, "recorded": recorded, "replayed": replayed, "what": "w", **fields})


@pytest.mark.parametrize("width", [40, 60, 89, 90, 100, 140])
def test_a_divergence_fits_and_marks_the_first_rule_whose_words_differ_and_the_facts_that_do(width: int) -> None:
    lines = list(divergence_lines(a_divergence(), width))
    assert all(display_width(plain_text(line)) <= width for line in lines)
    assert [plain_text(line).split("▸")[1].split()[:2] for line in lines if "▸" in plain_text(line)] == [["P0", "one"]]
    shaded = {text.strip() for line in lines for text, shade in line if shade == "warning" and text.strip()}
    assert shaded == {"t=1", "t=2", "stop(stuck)", "go on (x)"}
    assert sum("not asked" in plain_text(line) for line in lines) == 1
    beside = any("go on (x)" in plain_text(line) and "not asked" in plain_text(line) for line in lines)
    assert beside == (width >= 90)


@pytest.mark.parametrize("side", ["recorded", "replayed"])
def test_where_only_one_side_decided_its_trace_stands_alone(side: str) -> None:
    lines = [plain_text(line) for line in divergence_lines(a_divergence(**{side: None}), 80)]
    assert any("no decision here" in line for line in lines)
    assert any("P0 one" in line for line in lines)


def test_an_event_that_one_side_lacks_is_told_as_not_there() -> None:
    call = ToolCall("c", "look", '{"place": 1}')
    event = ResponseFinished(seq=7, step=2, message=AssistantMessage("Hm", (call,)), finish="tool_calls")
    for before in (EventDifference(recorded=event, replayed=None), EventDifference(recorded=None, replayed=event)):
        told = "\n".join(plain_text(line) for line in divergence_lines(a_divergence(before=before), 80))
        assert "RESPONSE_FINISHED of step 2" in told
        assert "not there" in told
        assert 'Hm · look {"place": 1}' in told


@given(st.text(), st.integers(8, 60))
def test_folded_text_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    rows = wrap(text, width)
    assert all(display_width(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace("\n", "").replace(" ", "")


# ---- records from elsewhere


async def test_a_record_from_elsewhere_that_went_on_says_where_this_engine_stops(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        started(),
        step(1, READ),
        step(2, FINISH),
        steps(3, 9),
        finished("custom:max", "exhausted", 9),
    )
    done = await endstop("replay", path)
    said = "run_a: diverges: the engine stops at step 2 by control_flow; the record went on to step 9\n"
    assert (done.code, done.out.startswith(said)) == (1, True)


async def test_a_record_from_elsewhere_that_ended_early_is_shown_to_end_there(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", started(), steps(1, 3), finished("custom:user_left", "cancelled", 3))
    done = await endstop("replay", path)
    assert done.code == 1
    assert "step 3: the record ends as custom:user_left, the replay says go on" in done.out
    assert "internal" not in done.err


# ---- from some event on


async def test_from_an_event_on_the_plain_view_begins_within_the_step(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    events = read_record(record).runs[0].events
    third = [event.seq for event in events if type(event).__name__ == "TextMessageContent"][2]
    whole, part = await endstop("replay", record), await endstop("replay", record, "--from", third)
    assert (whole.code, part.code) == (0, 0)
    assert part.out == whole.out
    assert part.err.splitlines() == whole.err.splitlines(), "a line of text that had begun is shown whole"
    result = next(event.seq for event in events if isinstance(event, ToolCallResult))
    part = await endstop("replay", record, "--from", result)
    assert part.err.splitlines()[:4] == [*whole.err.splitlines()[:3], "  look place=1 -> ok (0 ms)"]


async def test_from_an_event_of_a_later_run_shows_nothing_of_the_earlier_ones(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=3)
    ids = [run.started.run_id for run in read_record(record).runs]
    for place in (f"{ids[1]}:1", "2:1", f"{ids[1]}:4", "2:9"):
        done = await endstop("replay", record, "--from", place)
        assert done.code == 0
        assert ["Task 0" in done.err, "Task 1" in done.err, "Task 2" in done.err] == [False, True, True]
        assert "3 decisions in 3 runs" in done.out, "what is not shown is compared all the same"


WRONG_PLACES = {
    "no number": ("x", "give the number of an event"),
    "nothing": ("", "give the number of an event"),
    "zero": ("2:0", "{1} has events 1 to {last}"),
    "behind the end": ("{1}:9999", "{1} has events 1 to {last}"),
    "no run": ("5", "the record holds 3 runs, so give one as RUN_ID:SEQ: {0} has events 1 to {last}; {1} has"),
    "another run": ("run_x:5", "has no run run_x: {0} has events 1 to {last}"),
    "a run too many": ("4:5", "has no run 4"),
    "a number that is none": ("2:²", "give the number of an event"),
}


@pytest.mark.parametrize("case", WRONG_PLACES)
async def test_an_event_that_the_record_does_not_have_is_refused_with_the_range(case: str, tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=3)
    runs = read_record(record).runs
    ids, last = [run.started.run_id for run in runs], len(runs[0].events)
    place, told = WRONG_PLACES[case]
    done = await endstop("replay", record, "--from", place.format(*ids))
    assert (done.code, done.out) == (2, "")
    assert told.format(*ids, last=last) in done.err


async def test_an_event_that_the_replay_does_not_reach_is_said_not_to_be(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", started(), step(1, FINISH), steps(2, 9), finished("custom:max", "exhausted", 9))
    done = await endstop("replay", path, "--from", "30")
    assert (done.code, done.err) == (1, "")
    assert "event run_a:30 was not reached: the replay ended before it" in done.out


# ---- keys need a terminal


async def test_to_walk_without_a_terminal_is_wrong_use(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    done = await endstop("replay", record, "--step")
    assert (done.code, done.out) == (2, "")
    assert "stdin and stderr are not" in done.err
    done = await endstop("replay", record, "--step", "--quiet")
    assert (done.code, "leave out one of them" in done.err) == (2, True)


# ---- records that are none


def _header(**fields: Any) -> str:
    return (
        json.dumps({"type": "HEADER", "format": "endstop-record", "version": "1.0", "session_id": "s", **fields}) + "\n"
    )


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not an endstop record"),
    "text": (b"hello\n", "is not an endstop record"),
    "binary": (bytes(range(256)) * 40, "is not an endstop record"),
    "another JSON": (b'{"messages": []}\n', "is not an endstop record"),
    "deep JSON": (b"[" * 60_000 + b"]" * 5, "is not an endstop record"),
    "a deep header": (
        _header(x=1).encode().replace(b"1}", b"[" * 60_000 + b"]" * 60_000 + b"}"),
        "is not an endstop record",
    ),
    "newer": (_header(version="4.0").encode(), "upgrade endstop"),
    "a version that is none": (_header(version="new").encode(), "is damaged"),
    "a header alone": (_header().encode(), "holds no run"),
    "an event too early": (
        _header().encode() + b'{"type":"STEP_STARTED","step":1,"round":1}\n',
        "before any RUN_STARTED",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_no_record_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    content, word = BAD[case]
    (tmp_path / "r.jsonl").write_bytes(content)
    done = await endstop("replay", tmp_path / "r.jsonl")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("endstop: ")
    assert word in done.err
    assert done.err.count("\n") == 1


async def test_a_folder_is_refused_in_one_line_and_a_pipe_is_read(tmp_path: Path) -> None:
    done = await endstop("replay", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "Is a directory" in done.err
    record = await recorded(tmp_path / "r.jsonl")
    done = await endstop("replay", "/dev/stdin", stdin=record.read_bytes())
    assert (done.code, "the same: 1 decision in 1 run" in done.out) == (0, True)


@pytest.mark.parametrize("terminal", [False, True])
async def test_names_in_a_record_cannot_command_a_terminal(tmp_path: Path, terminal: bool) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jx\x9b2J\u202e"
    decision = stopped(
        f"custom:{evil}", status="completed", rule=evil, trace=[{"rule": evil, "saw": {evil: evil}, "said": evil}]
    )
    first = step(1, (evil, {evil: evil}), text=evil)
    end = finished(f"custom:{evil}", "completed", 2, evil, answer=evil)
    write(
        tmp_path / "r.jsonl",
        started(evil, prompt=evil, model=evil, policy={"name": evil}),
        first,
        step(2, FINISH),
        decision,
        end,
    )
    shown: list[str] = []
    for arguments in ((), ("--explain", "--from", "9"), ("--from", "99"), ("--from", f"{evil}:99")):
        if terminal:
            async with in_terminal("replay", tmp_path / "r.jsonl", *arguments, columns=120) as (screen, _):
                await screen.closed()
            shown.append(screen.raw.replace(evil, "") if "99" in "".join(arguments) else screen.raw)
        else:
            done = await endstop("replay", tmp_path / "r.jsonl", *arguments)
            shown.append((done.out + done.err).replace(evil, ""))  # what was typed may come back as it was
    for text in shown:
        assert [bad for bad in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\x07") if bad in text] == []


async def test_a_torn_last_line_costs_that_line_only(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    record.write_bytes(record.read_bytes()[:-40])
    done = await endstop("replay", record)
    assert done.code == 0
    assert "1 line of the record could not be read" in done.out
    assert "the last run was killed" in done.out


@pytest.mark.parametrize("scratch", [b"\x00\xff" * 20, b"[" * 5000, b'{"type":"STEP_STARTED"}'])
async def test_a_damaged_line_in_the_middle_is_refused_with_its_number(tmp_path: Path, scratch: bytes) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join([*lines[:6], scratch + b"\n", *lines[7:]]))
    done = await endstop("replay", record)
    assert (done.code, done.out) == (2, "")
    assert "damaged line 7" in done.err


async def test_a_policy_with_rules_of_somebodys_own_is_refused_by_their_name(tmp_path: Path) -> None:
    done = await endstop("replay", GOLDEN / "before" / "A1.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "rules of your own, which a record cannot hold: 'ask_again'; pass them in Python" in done.err


async def test_a_live_tool_that_is_missing_is_wrong_use(tmp_path: Path) -> None:
    done = await endstop("replay", await recorded(tmp_path / "r.jsonl"), "--live-tools")
    assert (done.code, done.out) == (2, "")
    assert "look" in done.err
    assert "pass the tools that the record uses" in done.err


async def test_a_record_that_is_being_written_is_played_as_far_as_it_goes_and_said_to_be(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    whole = record.read_bytes()
    record.write_bytes(whole[: whole.index(b'"DECISION_MADE"')])
    writer = RecordWriter(record, "s", "", "")
    record.write_bytes(whole[: whole.index(b'"DECISION_MADE"')])  # without the line feed that mends a torn line
    told = "another process is writing to the record: this is the result for what it held when it was read"
    try:
        done = await endstop("replay", record, "--json")
        assert (done.code, done.json["same"], done.json["being_written"]) == (0, True, True)
        done = await endstop("replay", record)
        assert told in done.out
        assert "--resume" not in done.out, "who goes on from it would write beside the other"
        assert "could not be read" not in done.out
    finally:
        writer.close()
    assert (await endstop("replay", record, "--json")).json["being_written"] is False
