"""The narrator: every event is narrated, or left out on purpose."""

from __future__ import annotations

from endstop.cli.views.narrator import NARRATED, NOT_NARRATED
from endstop.decision import Event


def test_every_event_is_told_or_left_out_on_purpose() -> None:
    assert set(Event.__args__) == NARRATED | NOT_NARRATED
    assert not NARRATED & NOT_NARRATED
