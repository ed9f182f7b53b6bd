"""What a text is: an answer, a question, an announcement or another kind, on labelled texts of many agents."""

import time
from collections import Counter

import pytest
from endstop import Engine, Tool
from endstop.decision.text_kinds import SEEN, classify_text
from endstop.providers import Scripted, call
from hypothesis import given
from hypothesis import strategies as st

from . import text_labels
from .labelled import Labelled as LabelledText
from .labelled import labelled_parts
from .text_labels import KINDS, Labelled, confusion, labels, own, recorded, right_and_all

here = pytest.mark.skipif(
    not text_labels.ARCHIVE.is_file(), reason=f"the recorded material is not here: no file {text_labels.ARCHIVE}"
)


def ends(part: str) -> list[Labelled]:
    return [one for one in recorded() if one.part == part and one.ends]


def test_at_least_300_turns_without_calls_are_labelled_and_none_twice() -> None:
    turns = [one for one in labels() if "sha256" in one]
    assert sum(one["ends"] for one in turns) >= 300
    assert len({one["sha256"] for one in turns}) == len(turns)
    assert not any("text" in one for one in turns), "text of the recorded material is not copied into the project"
    assert len({one["text"] for one in labels() if "text" in one}) == len(own())


def test_the_two_passes_agree_as_often_as_the_paragraph_says() -> None:
    turns = [one for one in labels() if "second" in one]
    agreed = [one for one in turns if one["first"] == one["second"]]
    assert (len(agreed), len(turns)) == (447, 448)
    assert all(one["kind"].removesuffix("_with_offer") == one["first"] for one in agreed)


@here
@pytest.mark.parametrize("part", ["fresh", "held", "fit"])
def test_marks_of_done_are_right_nine_times_in_ten_and_few_are_missed(part: str) -> None:
    (right, marks), (_, done) = right_and_all(confusion(ends(part)), "answer")
    assert right >= 0.9 * marks
    assert right >= 0.95 * done


@here
@pytest.mark.parametrize("source", ["tau-bench", "tau2_gemini"])
def test_marks_of_done_in_conversations_are_right_where_every_text_was_a_mark(source: str) -> None:
    texts = [one for one in recorded() if one.source == source and one.ends]
    (right, marks), (_, done) = right_and_all(confusion(texts), "answer")
    assert done < 0.35 * len(texts), "most texts of a conversation are no end"
    assert right >= 0.9 * marks
    assert right >= 0.95 * done


@here
@pytest.mark.parametrize("kind", ["question", "announcement"])
def test_questions_and_announcements_are_told_from_all_others(kind: str) -> None:
    held = [one for one in recorded() if one.part == "held"]
    (right, marks), (_, there) = right_and_all(confusion(held), kind)
    assert right >= 0.9 * marks
    assert right >= 0.9 * there


@pytest.mark.parametrize("part", ["held", "fit"])
def test_sentences_of_18_languages_are_told_apart(part: str) -> None:
    texts = [one for one in own() if one.part == part]
    wrong = [one for one in texts if classify_text(one.text) != one.kind]
    assert len(wrong) <= 0.06 * len(texts), wrong


KIND_TEXTS = labelled_parts("kind_texts.tsv")
ENDS = ("answer", "refusal")


@pytest.mark.parametrize(
    ("part", "share"),
    [
        ("tuned", 0.99),
        ("held", 0.98),
        ("second", 0.96),
        ("third", 0.96),
        ("fourth", 0.98),
        ("fifth", 0.91),
        ("sixth", 0.93),
    ],
)
def test_B1_kinds_of_text_in_six_languages_are_told_apart(part: str, share: float) -> None:
    wrong = [one for one in KIND_TEXTS[part] if kind_of(one) != one.label]
    assert len(wrong) <= (1 - share) * len(KIND_TEXTS[part]), wrong


@pytest.mark.parametrize(
    ("part", "precision", "recall"),
    [
        ("tuned", 0.98, 0.98),
        ("held", 0.95, 0.98),
        ("second", 0.92, 0.98),
        ("third", 0.94, 0.95),
        ("fourth", 0.94, 0.98),
        ("fifth", 0.9, 0.98),
        ("sixth", 0.9, 0.92),
    ],
)
def test_B1_marks_of_done_are_answers_and_firm_refusals(part: str, precision: float, recall: float) -> None:
    texts = KIND_TEXTS[part]
    marks = [one for one in texts if kind_of(one) in ENDS]
    right = [one for one in marks if one.label in ENDS]
    assert len(right) >= precision * len(marks), [one for one in marks if one not in right]
    assert len(right) >= recall * sum(one.label in ENDS for one in texts)


def kind_of(one: LabelledText) -> str:
    return classify_text(one.text.replace("\\n", "\n"))


ANNOUNCEMENTS = labelled_parts("announcement_texts.tsv")


@pytest.mark.parametrize(("part", "share"), [("held", 0.93), ("tuned", 1.0), ("own", 1.0)])
def test_B1_announcements_in_eight_languages_are_told_from_answers(part: str, share: float) -> None:
    announcements = [one for one in ANNOUNCEMENTS[part] if one.label == "announcement"]
    missed = [one for one in announcements if classify_text(one.text) != "announcement"]
    assert len(missed) <= (1 - share) * len(announcements), missed


@pytest.mark.parametrize("part", list(ANNOUNCEMENTS))
def test_B1_no_answer_is_taken_for_an_announcement(part: str) -> None:
    answers = [one for one in ANNOUNCEMENTS[part] if one.label == "answer"]
    assert [one for one in answers if classify_text(one.text) == "announcement"] == []


@pytest.mark.parametrize("text", ["我來執行測試。", "我来执行测试。", "好的，我馬上修改。", "好的，我马上修改。"])
async def test_B1_an_announcement_in_either_chinese_script_does_not_end_a_run(text: str) -> None:
    async def look() -> str:
        return "port=8080"

    script = Scripted([call("look")], text, "8080")
    outcome = await Engine(script, tools=[Tool(look, description="Look.")]).run("go")
    assert (outcome.answer, outcome.steps) == ("8080", 3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "answer"),
        ("我会直接回答：42。", "answer"),
        ("I will answer directly: 42.", "answer"),
        ("請問您的訂單編號是多少", "question"),
        ("請提供訂單編號。", "question"),
        ("抱歉，我無法推送到這個分支。", "refusal"),
        ("   \n", "answer"),
        ("👍", "answer"),
        ("```python\nprint('What is your name?')\n```", "answer"),
        ("The prompt of the program is below.\n```\nShall I go on?\n```", "answer"),
        ("What is your user id?", "question"),
        ("What is your user id？", "question"),
        ("Τι θέλετε;", "question"),
        ("I will now update the file and run the tests.", "announcement"),
        ("Thought: the file is missing.\n```bash\nls\n```", "announcement"),
        ("I'm sorry, I can't do that. Would you like me to book another one?", "refusal_with_offer"),
        ("This booking cannot be modified.", "refusal"),
        ("This file cannot be parsed. I can convert it first. Shall I?", "refusal_with_offer"),
        ("I have migrated 3 of 7 files. Would you like me to continue?", "question"),
        ("All tests pass. Shall I proceed with the deployment?", "question"),
        ("3 of 7 files migrated, remaining: a.py, b.py, c.py, d.py", "partial"),
        ("I updated 12 of the 40 files; the other 28 did not need a change.", "answer"),
        ("The order has not shipped yet. It was placed on May 3.", "answer"),
        ("- [x] parser\n- [ ] printer", "partial"),
        ("- [x] parser\n- [x] printer", "answer"),
        ('The tool returned: {"ok": true}', "echo"),
        ("`search` returned None for an empty query; it now raises ValueError.", "answer"),
        ("The tool returned 3 rows, so no order is open.", "answer"),
        ("get_rooms came back with two entries: blue, red", "echo"),
        ("Merged both files and saved the result to:\n- `/data/all.txt`", "answer"),
        ("Parser: done. Printer: in progress.", "partial"),
        ("Your order is booked. Hotel: confirmed, insurance: no.", "answer"),
        ("Nine of the twelve songs are mixed. The other three need new vocals.", "partial"),
        ("Nine of the twelve songs were edited; the other three need no changes.", "answer"),
        ("I can't open the safe. I could drill the lock, with your permission.", "refusal_with_offer"),
        ("I can't open the safe. I can only see that it is locked.", "refusal"),
        ("I can't change the seat. You can ask at the gate.", "refusal"),
        ("どちらにしますか。どちらでも対応できます。", "question"),
        ("The tool returned an error. Let me try another path.", "announcement"),
        ("API Error: 529 overloaded", "error"),
        ("All four tests pass. Is there anything else I can help with?", "answer"),
    ],
)
def test_texts_at_the_edges(text: str, kind: str) -> None:
    assert classify_text(text) == kind


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=3_000))
def test_every_text_has_a_kind(text: str) -> None:
    assert classify_text(text) in KINDS


@given(st.text(max_size=200), st.text(max_size=200), st.integers(min_value=0, max_value=50_000))
def test_what_stands_in_the_middle_does_not_count(first: str, last: str, more: int) -> None:
    opening, closing = first.ljust(SEEN, "a"), last.rjust(SEEN, "b")
    whole = opening + closing
    assert classify_text(opening + "x? " * more + closing) == classify_text(opening + "x? " + closing)
    assert classify_text(whole) in KINDS


@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "a",
        "?",
        "```",
        "please ",
        "I will ",
        "ich kann ",
        "- ",
        "1. ",
        "(",
        "error ",
        "现在",
        "ます",
        "\n",
        "՞",
        "i" * 50,
        "the tool ",
        "a_b",
        "3 of ",
        "- [ ] ",
        "step 1 of 2 ",
        "工具",
        "のうち",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    classify_text("warm")

    def seconds() -> float:
        started = time.process_time()
        classify_text(text)
        return time.process_time() - started

    # A few milliseconds are usual. Once is enough: the garbage collector may take a second in between.
    assert any(seconds() < 1.0 for _ in range(3))


def test_the_confusion_counts_what_it_says() -> None:
    texts = [Labelled("x", "fit", "answer", "Done.", True), Labelled("x", "fit", "refusal", "Done.", True)]
    assert confusion(texts) == Counter({("answer", "answer"): 1, ("refusal", "answer"): 1})
    assert right_and_all(confusion(texts), "answer") == ((1, 2), (1, 1))
