"""Row F5: short texts that only echo an instruction, on labelled texts, and in any script."""

import pytest
from endstop import Engine
from endstop.decision.policy import Echo, Policy
from endstop.decision.rules import is_echo
from endstop.decision.settings import settings_from_record
from endstop.providers import Scripted
from hypothesis import given
from hypothesis import strategies as st

from .labelled import Labelled, labelled

TEXTS = labelled("short_texts.tsv")
HELD_OUT = TEXTS[::3]
TUNED_ON = [text for number, text in enumerate(TEXTS) if number % 3]


@pytest.mark.parametrize("part", [HELD_OUT, TUNED_ON], ids=["held out", "tuned on"])
def test_F5_98_percent_of_labelled_texts_are_told_apart_by_default(part: list[Labelled]) -> None:
    wrong = [one for one in part if is_echo(one.text, Echo()) != (one.label == "echo")]
    assert len(wrong) <= 0.02 * len(part), wrong


def test_F5_the_labelled_set_is_large_and_half_of_it_are_real_answers() -> None:
    assert len(TEXTS) >= 200
    assert 80 <= sum(one.label == "answer" for one in TEXTS) <= 120
    assert len({one.text for one in TEXTS}) == len(TEXTS)


@pytest.mark.parametrize("text", ["好的，我明白了我会直接回答", "Okay, I understand.", "如果需要使用工具"])
async def test_F5_a_text_that_contains_a_phrase_and_nothing_of_substance_does_not_end_a_run(text: str) -> None:
    outcome = await Engine(Scripted(text, "Yes, port 8080.")).run("Which port?")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "Yes, port 8080.", 2)


@pytest.mark.parametrize(
    ("phrases", "echo", "answer"),
    [
        (("好的，我明白了", "我会直接回答"), "好的，我明白了我会直接回答", "好的，我明白了端口是八零八零"),
        (("ฉันเข้าใจแล้ว", "ฉันจะตอบโดยตรง"), "ฉันเข้าใจแล้วฉันจะตอบโดยตรง", "ฉันเข้าใจแล้วพอร์ต"),
        (("理解しました", "直接お答えします"), "理解しました直接お答えします。", "理解しました。ポートです"),
        (("Я понял",), "Хорошо, я понял!", "Я понял причину"),
        (("이해했습니다",), "네, 이해했습니다.", "이해했습니다. 포트 8080"),
        (("فهمت",), "فهمت!", "فهمت السبب"),
        (("J'ai compris",), "D'accord, j’ai compris.", "J'ai compris l'erreur"),
        (("Ich habe verstanden",), "Gut, ich habe verstanden.", "Ich habe verstanden, Port 80"),
    ],
)
def test_F5_phrases_are_found_in_any_script(phrases: tuple[str, ...], echo: str, answer: str) -> None:
    assert is_echo(echo, Echo(phrases=phrases))
    assert not is_echo(answer, Echo(phrases=phrases))


def test_F5_a_record_that_does_not_name_the_setting_is_read_as_before() -> None:
    then = settings_from_record(Policy, {"echo": {"phrases": ["我明白了", "我会直接回答"]}}).echo
    assert then.beside == "nothing"
    assert not is_echo("我明白了我会直接回答", then)
    assert not is_echo("Okay, 我明白了", then)
    assert is_echo("我明白了，我会直接回答。", then)


@given(st.text(max_size=99), st.sampled_from(["filler", "nothing"]))
def test_F5_a_text_without_a_phrase_is_never_an_echo(text: str, beside: str) -> None:
    assert not is_echo(text, Echo(phrases=("xyzzy plugh",), beside=beside)) or "xyzzy" in text.casefold()  # type: ignore[arg-type]
