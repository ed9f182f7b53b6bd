"""The narrator: every event is narrated, or left out on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from endstop.cli.views.narrator import NARRATED, NOT_NARRATED, NOTE, EventNarrator
from endstop.cli.views.run_view import Call, Kind, ViewSnapshot
from endstop.cli.views.styled_lines import Shade
from endstop.decision import AssistantMessage, Event, Reasoning, ToolCall
from endstop.decision import events as ev

from ...other_loops import ENDS, events_of_calls


def test_every_event_is_told_or_left_out_on_purpose() -> None:
    assert set(Event.__args__) == NARRATED | NOT_NARRATED
    assert not NARRATED & NOT_NARRATED


def test_the_progress_of_a_call_is_what_the_run_is_doing_until_its_result() -> None:
    narrator = EventNarrator(ViewSnapshot(), explain=False)
    said = []
    for event in (
        ev.ToolProgress(call_id="c", name="index", text="files\x1b[2J\nread", progress=3, total=7),
        ev.ToolProgress(call_id="c", name="index", text="x" * 10_000),
        ev.ToolProgress(call_id="c", name="index", progress=0.5),
        ev.ToolCallResult(call_id="c", name="index", content="done"),
    ):
        narrator.feed(event)
        said.append(narrator.activity)
    assert said[0].startswith("index: 3 of 7 files")
    assert "\x1b" not in said[0]
    assert "\n" not in said[0]
    assert len(said[1]) <= NOTE
    assert said[2:] == ["index: 0.5", "running tools"]


def test_a_response_that_was_not_streamed_is_shown_once_it_is_whole() -> None:
    class Seen(ViewSnapshot):
        written: ClassVar[list[tuple[str, str]]] = []

        def write(self, kind: Kind, delta: str) -> None:
            self.written.append((kind, delta))

    narrator = EventNarrator(Seen(), explain=False)
    message = AssistantMessage("Look.", (ToolCall("c", "read", "{}"),), (Reasoning("Hm."),))
    whole = ev.ResponseFinished(step=1, attempt="1.1", message=message, finish="tool_calls")
    for _ in range(2):
        narrator.feed(ev.AttemptStarted(attempt="1.1"))
        narrator.feed(whole)
        assert Seen.written == [("reasoning", "Hm."), ("text", "Look.")]
        assert narrator.calls["c"].arguments == "{}"
        narrator.feed(ev.AttemptStarted(attempt="1.2"))
        narrator.feed(ev.TextMessageContent(attempt="1.2", delta="Look."))
        narrator.feed(whole)
        assert Seen.written[2:] == [("text", "Look.")], "and not twice"
        Seen.written.clear()


def test_of_a_call_of_another_loop_no_more_is_shown_than_its_result_says() -> None:
    class Seen(ViewSnapshot):
        calls: ClassVar[list[str]] = []

        def call(self, call: Call) -> None:
            self.calls.append(call.shown_status)

    narrator = EventNarrator(Seen(), explain=False)
    for event in events_of_calls():
        narrator.feed(event)
    shown = {"succeeded": "ok", "failed": "error", "nothing_found": "error", "unknown": "returned"}
    assert Seen.calls == [shown[end] for end in ENDS]
    assert len(narrator.actions) == 4, "what only reads is no action"
    assert sum(action.endswith("(failed)") for action in narrator.actions) == 2


def test_what_a_check_printed_is_not_shown_again_with_the_text_for_the_model() -> None:
    class Seen(ViewSnapshot):
        notes: ClassVar[list[str]] = []

        def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
            self.notes.append(text)

    narrator = EventNarrator(Seen(), explain=False)
    detail = "`pytest -q` failed with exit code 1:\nE assert 1 == 2\n1 failed"
    narrator.feed(ev.CheckStarted(step=0, place="start", name="pytest -q"))
    narrator.feed(ev.CheckEnded(step=0, place="start", said="not_met", detail=detail, score=3, of=4))
    narrator.feed(ev.MessageAdded(text=f"It says:\n{detail}\nTry another way.", origin="nudge"))
    narrator.feed(ev.MessageAdded(text="Go on.", origin="nudge"))
    assert Seen.notes == [
        "◔ check 1: 3 of 4 pass",
        "▸ nudge: It says: `pytest -q` failed with exit code 1: … Try another way.",
        "▸ nudge: Go on.",
    ]


def test_a_check_shows_its_score_the_change_since_the_last_one_and_the_files_that_were_put_back() -> None:
    class Seen(ViewSnapshot):
        notes: ClassVar[list[str]] = []

        def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
            self.notes.append(text)

    narrator = EventNarrator(Seen(), explain=False)
    narrator.feed(ev.CheckStarted(step=0, place="start", name="pytest -q"))
    for answer in (
        ev.CheckEnded(step=0, place="start", said="not_met", score=39, of=44),
        ev.CheckEnded(step=1, place="step", said="not_met", score=41, of=44),
        ev.CheckEnded(step=2, place="step", said="unknown", detail="no network"),
        ev.CheckEnded(step=3, place="step", said="not_met", score=40, of=44, guard_changed=("tests/a.py",)),
        ev.CheckEnded(step=4, place="step", said="not_met"),
        ev.CheckEnded(step=5, place="response", said="met"),
    ):
        narrator.feed(answer)
    assert Seen.notes == [
        "◔ check 1: 39 of 44 pass",
        "◔ check 2: 41 of 44 pass, +2",
        "○ check: no answer: no network",
        "◔ check 3: 40 of 44 pass, -1, with the original tests/a.py",
        "◔ check 4: fails",
        "✔ check 5: `pytest -q` passes",
    ]
