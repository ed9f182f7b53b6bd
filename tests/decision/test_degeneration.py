"""Responses that repeat themselves are noticed; what repeats a little, and is meant, is not."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from endstop.decision import POLICIES, AssistantMessage, Degeneration, Policy, Reasoning, ToolCall, WrongUse
from endstop.decision import events as ev
from endstop.decision.degeneration import (
    LONGEST_PERIOD,
    MAX_REMEMBERED,
    STRIDE,
    Part,
    RepeatedText,
    RepetitionDetector,
    find_repetition,
    find_repetition_in_message,
)
from endstop.decision.settings import settings_from_record
from hypothesis import given
from hypothesis import strategies as st

from .harmless import harmless

ON = Degeneration()
HARMLESS = harmless()
LEAD = "I read the file and changed the port. Now I run the tests.\n\n"
SENTENCE = (
    "I should double-check whether the configuration that is loaded at startup is really the one that the worker "
    "uses, because otherwise the change of the port would have no effect whatsoever on the process that answers the "
    "requests; so let me look at the configuration file once more, and at the place where it is read. "
)
CIRCLE = (
    "Wait, maybe the path is wrong. ",
    "Let me check the path again. ",
    "Actually, the path looks right. ",
    "But then the test should pass. ",
    "Hmm, the test does not pass. ",
)


def _circling(times: int) -> str:
    chosen = random.Random(3)
    return "".join(chosen.choice(CIRCLE) for _ in range(times))


ENDLESS: dict[str, tuple[str, int]] = {
    "one token": ("court " * 5000, 1),
    "one letter": ("a" * 5000, 1),
    "one digit": ("0" * 5000, 1),
    "digits": ("0123456789" * 600, 1),
    "decimals": ("3." + "142857" * 1000, 1),
    "spaces": (" " * 5000, 1),
    "newlines": ("\n" * 5000, 1),
    "tabs and newlines": ("\t\n" * 3000, 1),
    "dots": (". " * 3000, 1),
    "a closing tag": ("</div>\n" * 1500, 1),
    "one line": ("Let me check the file again.\n" * 500, 1),
    "a sentence of 300 characters": (SENTENCE * 60, 1),
    "two sentences": ((SENTENCE + LEAD) * 40, 1),
    "a character of CJK": ("的" * 5000, 1),
    "a phrase in Chinese": ("好的，我明白了。" * 1500, 1),
    "a paragraph in Japanese": ("もう一度ファイルを確認します。それからテストを実行します。" * 300, 1),
    "an emoji": ("🙂" * 5000, 1),
    "a long row": ("0, " * 6000, 1),
    "rows of zeros without end": (("0 " * 50 + "\n") * 1000, 4),
    "a counter": ("".join(f"Step {n}: checking... " for n in range(17, 1500)), 3),
    "a counter in lines": ("".join(f"Attempt {n} failed, trying attempt {n + 1}.\n" for n in range(1, 900)), 3),
    "a counter in Chinese": ("".join(f"第{n}步：检查文件。" for n in range(1, 5000)), 3),
    "counting": (" ".join(map(str, range(9000))), 3),
    "a clock": ("".join(f"[12:{n // 60 % 60:02}:{n % 60:02}] still waiting\n" for n in range(2000)), 3),
    "a number without end": ("".join(f"{random.Random(n).randint(0, 99):02}" for n in range(10_000)), 3),
    "a circle of sentences": (_circling(1200), 3),
    "a circle with small changes": (
        "".join(SENTENCE.replace("port", w) for w in ["port", "host", "path", "name"] * 30),
        3,
    ),
}


LATER = {  # a counter is known by numbers of one length, and begins with shorter ones
    "a counter": 2_500,
    "a counter in lines": 4_000,
    "a counter in Chinese": 11_500,
    "counting": 4_500,
    "a circle of sentences": 17_000,
    "a circle with small changes": 4_000,
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("part", ["text", "reasoning"])
def test_A1_what_repeats_without_end_is_noticed_soon(name: str, part: Part) -> None:
    endless, factor = ENDLESS[name]
    found = find_repetition(part, LEAD + endless, ON)
    assert found is not None
    assert found.part == part
    assert found.end <= len(LEAD) + max(factor * 4_000, 20 * len(found.period)) + LATER.get(name, 2 * STRIDE)
    assert found.end < len(LEAD + endless)
    assert str(found).startswith(f"the {part} ")


@pytest.mark.parametrize("name", [name for name in ENDLESS if name != "two sentences"])
def test_A1_what_came_before_the_repetition_stays(name: str) -> None:
    endless, _ = ENDLESS[name]
    found = find_repetition("text", LEAD + endless, ON)
    assert found is not None
    kept = found.before(LEAD + endless)
    assert kept.startswith(LEAD.rstrip())
    assert len(kept) <= len(LEAD) + 3 * LONGEST_PERIOD
    assert not (kept[-1].isalnum() and (LEAD + endless)[len(kept)].isalnum()) or len(found.period) == 1


@pytest.mark.parametrize("name", ["one token", "a counter", "counting", "a phrase in Chinese", "newlines"])
def test_A1_nothing_of_the_repetition_stays(name: str) -> None:
    found = find_repetition("text", LEAD + ENDLESS[name][0], ON)
    assert found is not None
    assert found.before(LEAD + ENDLESS[name][0]) == LEAD.rstrip()


def test_A1_where_nothing_came_before_the_first_time_stays() -> None:
    for endless, once in (("court " * 5000, "court"), ("".join(f"Step {n}: ok. " for n in range(3000)), "Step 0: ok.")):
        found = find_repetition("text", endless, ON)
        assert found is not None
        assert once in found.before(endless)
        assert len(found.before(endless)) < len(once) + 5


def test_A1_no_word_is_cut_in_two() -> None:
    text = "This is the report " + "court " * 5000
    found = find_repetition("text", text, ON)
    assert found is not None
    assert found.before(text) == "This is the report"


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("part", ["text", "reasoning", "arguments"])
def test_A1_harmless_texts_are_not_cut(name: str, part: Part) -> None:
    assert find_repetition(part, HARMLESS[name], ON) is None


def test_A1_harmless_texts_one_after_another_are_not_cut() -> None:
    texts = list(HARMLESS.values())
    random.Random(1).shuffle(texts)
    assert find_repetition("text", "\n\n".join(texts), ON) is None


@pytest.mark.parametrize("piece", ["0", "0\\n", "court ", "A" * 76 + "\\n", SENTENCE])
def test_A1_call_arguments_may_repeat_up_to_20_000_characters(piece: str) -> None:
    below = '{"content": "' + (piece * 20_000)[:19_900]
    assert find_repetition("arguments", below, ON, "write_file") is None
    found = find_repetition("arguments", '{"content": "' + (piece * 90_000)[:90_000], ON, "write_file")
    assert found is not None
    assert found.end - found.start >= 20_000
    assert "the arguments of write_file" in str(found)


def test_A1_arguments_that_never_end_are_noticed_whatever_they_repeat() -> None:
    for endless in (" " * 30_000, "\n\t" * 20_000, '{"a": ' * 9_000, "".join(f'"k{n}": {n}, ' for n in range(9_000))):
        assert find_repetition("arguments", '{"a": 1' + endless, ON) is not None


def test_A1_a_tool_can_be_left_out() -> None:
    zeros = '{"content": "' + "0" * 100_000
    settings = Degeneration(unwatched=("write_file",))
    assert find_repetition("arguments", zeros, settings, "write_file") is None
    assert find_repetition("arguments", zeros, settings, "other") is not None
    watch = RepetitionDetector(settings)
    watch.feed(ev.ToolCallStart(attempt="1.1", call_id="a", name="write_file"))
    assert watch.feed(ev.ToolCallArgs(attempt="1.1", call_id="a", delta=zeros)) is None
    watch.feed(ev.ToolCallStart(attempt="1.1", call_id="b", name="other"))
    found = watch.feed(ev.ToolCallArgs(attempt="1.1", call_id="b", delta=zeros))
    assert found is not None
    assert found.tool == "other"


@pytest.mark.parametrize("part", ["text", "reasoning", "arguments"])
def test_A1_each_part_has_a_setting_of_its_own(part: Part) -> None:
    endless = "court " * 10_000
    off = Degeneration(**{part: None})
    assert find_repetition(part, endless, off) is None
    assert find_repetition(part, endless, ON) is not None
    others = [other for other in ("text", "reasoning", "arguments") if other != part]
    assert all(find_repetition(other, endless, off) for other in others)  # type: ignore[arg-type]
    assert find_repetition(part, endless, Degeneration(**{part: 50_000})).end > 50_000  # type: ignore[union-attr]


def test_A1_a_minimum_of_periods_is_asked_for_too() -> None:
    assert find_repetition("text", SENTENCE * 18, ON) is None
    assert find_repetition("text", SENTENCE * 18, Degeneration(periods=10)) is not None


def test_A1_parts_are_watched_apart() -> None:
    watch = RepetitionDetector(ON)
    for _ in range(600):  # 3,600 characters of each
        assert watch.feed(ev.TextMessageContent(attempt="1.1", delta="court ")) is None
        assert watch.feed(ev.ReasoningMessageContent(attempt="1.1", delta="court ")) is None


def test_A1_a_whole_response_is_judged_as_its_stream_is() -> None:
    endless = "court " * 5000
    found = find_repetition_in_message(AssistantMessage(endless), ON)
    assert found == find_repetition("text", endless, ON)
    blocks = (Reasoning(endless[:15_000]), Reasoning(endless[15_000:]))
    assert find_repetition_in_message(AssistantMessage("", (), blocks), ON) == find_repetition("reasoning", endless, ON)
    call = ToolCall("a", "work", endless)
    assert find_repetition_in_message(AssistantMessage("", (call,)), ON) == find_repetition(
        "arguments", endless, ON, "work"
    )
    assert find_repetition_in_message(AssistantMessage("Done."), ON) is None


def test_A1_it_is_on_in_new_policies_and_off_where_a_record_does_not_name_it() -> None:
    assert all(policy.degeneration == Degeneration() for policy in POLICIES.values())
    old = settings_from_record(Policy, {"name": "agent"}).degeneration
    assert (old.text, old.reasoning, old.arguments) == (None, None, None)
    with pytest.raises(WrongUse, match=r"degeneration\.text is 10"):
        Degeneration(text=10)
    with pytest.raises(WrongUse, match=r"degeneration\.periods is 1"):
        Degeneration(periods=1)


# ---- whatever the chunks


PIECES = st.sampled_from(["a", "court ", "0 ", "好的。", "Step 7: ok. ", "x1y22\n", "-" * 40 + "\n", SENTENCE, ". "])


@st.composite
def responses(draw: st.DrawFn) -> str:
    """Something, then something again and again or counting, then something else."""
    lead = draw(st.text(alphabet="ab c1\n好", max_size=800))
    piece, times = draw(PIECES), draw(st.integers(1, 6000))
    counting = draw(st.booleans())
    body = "".join(f"{piece}{n}" for n in range(times % 900)) if counting else piece * max(1, times // len(piece))
    return lead + body + draw(st.text(alphabet="ab c1\n好", max_size=800))


def _taken(text: str, cuts: list[int]) -> RepeatedText | None:
    watch = RepetitionDetector(Degeneration(text=1_000, periods=5))
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for begin, end in pairwise(places):
        if begin < end:
            found = watch.feed(ev.TextMessageContent(attempt="1.1", delta=text[begin:end]))
            if found is not None:
                return found
    return None


@given(responses(), st.lists(st.integers(0, 8000), max_size=60), st.integers(1, 30))
def test_A1_what_is_noticed_does_not_depend_on_the_chunks(text: str, cuts: list[int], size: int) -> None:
    whole = _taken(text, [])
    assert _taken(text, cuts) == whole
    assert _taken(text, list(range(0, len(text), size))) == whole


@given(responses())
def test_A1_what_is_noticed_repeats(text: str) -> None:
    found = _taken(text, [])
    if found is not None:
        assert found.end - found.start >= 1_000
        assert found.end % STRIDE == 0
        assert found.end <= len(text)
        if found.how == "same":
            period = found.period
            length = found.end - found.start
            assert text[found.start : found.end] == (period * (length // len(period) + 1))[:length]


@given(st.integers(1, LONGEST_PERIOD), st.text(alphabet="abc ", max_size=2000), st.integers(0, 10**6))
def test_A1_every_period_is_noticed_from_its_length_on(period: int, lead: str, seed: int) -> None:
    chosen = random.Random(seed)
    piece = "".join(chosen.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(period))
    text = lead + piece * (max(4_000, 20 * period) // period + 2 * STRIDE // period + 2)
    assert find_repetition("text", text, Degeneration(periods=20)) is not None or len(set(piece)) <= 10 <= period


# ---- the cost


def _held(watch: RepetitionDetector) -> int:
    watched = watch._text
    assert watched is not None
    return sum(
        len(value) if isinstance(value, str) else sum(map(len, value)) for value in (watched._pieces, watched._blocks)
    )


@pytest.mark.parametrize("endless", ["court ", "".join(HARMLESS.values())])
def test_A1_memory_is_bounded(endless: str) -> None:
    watch = RepetitionDetector(Degeneration(text=10**9))
    text = (endless * (400_000 // len(endless) + 1))[:400_000]
    most = 0
    for begin in range(0, len(text), 7):
        watch.feed(ev.TextMessageContent(attempt="1.1", delta=text[begin : begin + 7]))
        most = max(most, _held(watch))
    assert most <= MAX_REMEMBERED
