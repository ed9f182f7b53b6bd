"""The narrator: every event is narrated, or left out on purpose."""

from __future__ import annotations

from typing import ClassVar

from endstop.cli.views.narrator import NARRATED, NOT_NARRATED, NOTE, EventNarrator
from endstop.cli.views.run_view import Call, Kind, ViewSnapshot
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
