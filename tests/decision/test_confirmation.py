"""Row F4: what a reply to a confirmation says, on labelled replies in six languages."""

import pytest
from endstop.decision.confirmation import Reply, parse_reply
from hypothesis import given
from hypothesis import strategies as st

from .labelled import Labelled, labelled

REPLIES = labelled("replies.tsv")
HELD_OUT = REPLIES[::3]
TUNED_ON = [reply for number, reply in enumerate(REPLIES) if number % 3]


@pytest.mark.parametrize("part", [HELD_OUT, TUNED_ON], ids=["held out", "tuned on"])
def test_F4_98_percent_of_labelled_replies_are_read_right(part: list[Labelled]) -> None:
    wrong = [(reply, parse_reply(reply.text)) for reply in part if parse_reply(reply.text) != reply.label]
    assert len(wrong) <= 0.02 * len(part), wrong


def test_F4_the_labelled_set_is_large_and_has_six_languages_and_three_answers() -> None:
    assert len(REPLIES) >= 200
    assert {reply.language for reply in REPLIES} == {"en", "zh", "es", "de", "fr", "ja"}
    for language in ("en", "zh", "es", "de", "fr", "ja"):
        assert {r.label for r in REPLIES if r.language == language} == {"yes", "no", "unclear"}
    assert len({(reply.language, reply.text) for reply in REPLIES}) == len(REPLIES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *[
            (text, "yes")
            for text in ("好的", "确认", "是的", "可以", "同意", "没问题", "sure", "go ahead", "yes please")
        ],
        *[
            (text, "yes")
            for text in (
                "yes, I confirm",
                "no problem, go ahead",
                "YES!!",
                "\uff59\uff45\uff53",
                "好的。",
                "👍🏿",
                "Sí",
            )
        ],
        *[
            (text, "no")
            for text in ("不可以", "yes, but change the port first", "可以，但是先改端口", "not ok", "isn’t ok")
        ],
        *[(text, "unclear") for text in ("", " ", "?", "hmm", "8080", "yes and no", "可以吗", "was wurde geändert?")],
    ],
)
def test_F4_replies_of_the_row_are_read_as_what_they_say(text: str, says: Reply) -> None:
    assert parse_reply(text) == says


@given(st.sampled_from([reply.text for reply in REPLIES]), st.sampled_from(["c2", "42", "{amount: 1}", "xyzzy"]))
def test_a_plain_reply_with_an_unknown_word_is_never_a_yes_and_plain_turns_nothing_into_one(
    text: str, more: str
) -> None:
    assert parse_reply(f"{text} {more}", plain=True) != "yes"
    assert parse_reply(text, plain=True) in (parse_reply(text), "unclear")


def test_95_percent_of_the_labelled_yes_are_plain_ones() -> None:
    says_yes = [reply.text for reply in REPLIES if reply.label == "yes"]
    assert sum(parse_reply(text, plain=True) == "yes" for text in says_yes) >= 0.95 * len(says_yes)


@given(st.text(max_size=200))
def test_F4_any_text_is_read_without_an_error_and_the_same_in_capitals_and_between_spaces(text: str) -> None:
    assert parse_reply(text) in ("yes", "no", "unclear")
    assert parse_reply(f"  {text}\t") == parse_reply(text)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.text)
def test_F4_case_and_full_width_change_nothing(reply: Labelled) -> None:
    wide = "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in reply.text)
    assert parse_reply(reply.text.upper()) == parse_reply(wide) == parse_reply(reply.text)
