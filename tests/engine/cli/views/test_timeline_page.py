"""The strip of a session's steps in the report's page."""

from __future__ import annotations

from endstop.cli.views.timeline_page import STRIP_PARTS, colour_stretches


def test_equal_colours_side_by_side_are_one_stretch() -> None:
    assert colour_stretches(["a", "a", "b", "a"]) == [("a", 2), ("b", 1), ("a", 1)]


def test_a_strip_of_many_stretches_shows_the_whole_session_with_what_is_rare_in_it() -> None:
    colours = ["a", "b", "a"] * 100 + ["c"] * 300
    stretches = colour_stretches(colours)
    assert len(stretches) <= STRIP_PARTS // 2 * 3  # two colours in the first half
    for colour in ("a", "b", "c"):
        assert sum(length for name, length in stretches if name == colour) == colours.count(colour)
    assert {colour for colour, _ in stretches[: len(stretches) // 2]} == {"a", "b"}
    assert stretches[-1][0] == "c"
