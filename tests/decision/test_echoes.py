"""Rows B3 and F5: short texts that only echo an instruction, on labelled texts, and in any script."""

import time
from collections.abc import Iterator

import pytest
from endstop import Engine
from endstop.decision.chinese_script import SIMPLIFIED, simplified
from endstop.decision.echoes import is_announcement, is_echo
from endstop.decision.policy import Echo, Policy
from endstop.decision.policy_files import policy_from
from endstop.decision.settings import settings_from_record
from endstop.providers import Scripted
from hypothesis import given
from hypothesis import strategies as st

from .labelled import Labelled, labelled, labelled_parts

TEXTS = labelled("short_texts.tsv")
HELD_OUT = TEXTS[::3]
TUNED_ON = [text for number, text in enumerate(TEXTS) if number % 3]
PARTS = labelled_parts("echo_texts.tsv")
PHRASES = {
    **dict.fromkeys(("en", "zh", "zh-Hans", "zh-Hant"), Echo().phrases),
    "ja": ("理解しました", "直接お答えします", "ツールが必要な場合"),
    "ko": ("알겠습니다", "이해했습니다", "직접 답변하겠습니다"),
    "es": ("entiendo", "responderé directamente", "si necesito herramientas"),
    "fr": ("j'ai compris", "je répondrai directement", "si j'ai besoin d'un outil"),
    "de": ("ich habe verstanden", "ich werde direkt antworten", "falls ich ein Werkzeug brauche"),
    "it": ("ho capito", "risponderò direttamente"),
    "pt": ("entendi", "vou responder diretamente"),
    "ru": ("я понял", "я отвечу напрямую"),
}
"""What a user would configure, by language; English and Chinese are the default."""


def held_back(texts: list[Labelled]) -> list[Labelled]:
    return [one for one in texts if is_echo(one.text, Echo(phrases=PHRASES[one.language]))]


def with_label(part: str, label: str) -> list[Labelled]:
    return [one for one in PARTS[part] if one.label == label]


@pytest.mark.parametrize(
    ("part", "share"), [("held", 0.80), ("tuned", 0.95), ("own", 0.95)], ids=["held out", "tuned on", "own"]
)
def test_B3_echoes_in_ten_languages_are_held_back(part: str, share: float) -> None:
    echoes = with_label(part, "echo")
    held = held_back(echoes)
    missed = [one for one in echoes if one not in held]
    assert len(missed) <= (1 - share) * len(echoes), missed


@pytest.mark.parametrize("part", list(PARTS))
def test_B3_no_answer_is_held_back(part: str) -> None:
    assert held_back(with_label(part, "answer")) == []


def test_B3_the_texts_of_another_writer_are_many_in_each_language_and_a_third_is_held_out() -> None:
    for language in PHRASES.keys() - {"zh"}:
        tuned, held = ([one for one in PARTS[part] if one.language == language] for part in ("tuned", "held"))
        assert len(tuned) + len(held) >= 16
        assert len(held) >= 0.3 * (len(tuned) + len(held))
    every = [one.text for part in PARTS.values() for one in part]
    assert len(set(every)) == len(every)


def answers_beside_a_phrase() -> Iterator[tuple[str, Echo]]:
    """Each answer after each phrase of its language; those of the other writer before it, too.

    Own answers are not put before: "I understand. Yes." is one, and "Yes, I understand." is none.
    """
    for part in PARTS:
        for one in with_label(part, "answer"):
            echo = Echo(phrases=PHRASES[one.language], shorter_than=300)
            for phrase in echo.phrases:
                yield f"{phrase}. {one.text}", echo
                if part != "own":
                    yield f"{one.text} {phrase}.", echo


def test_B3_one_more_phrase_beside_an_answer_does_not_make_an_echo_of_it() -> None:
    texts = list(answers_beside_a_phrase())
    assert len(texts) > 2_000
    assert [text for text, echo in texts if is_echo(text, echo)] == []


@pytest.mark.parametrize(
    "text",
    [
        "如果需要使用工具，我会调用它们。",
        "好的，我明白了，随时为您服务。",
        "好的，我明白了。对于简单的问题，我会直接回答。",
        "我會直接回答",
        "好的，我明白了，我會直接回答您的問題。",
        "Yes, I understand.",
        "I understand. I will not use any tools unless they are needed.",
    ],
)
def test_B3_a_promise_to_answer_is_held_back(text: str) -> None:
    assert is_echo(text, Echo())


@pytest.mark.parametrize(
    "text",
    [
        "好的，我明白了，端口是8080。",
        "我会直接回答：42。",
        "我明白了，原因是端口被占用。",
        "我明白了，可以。",
        "I understand. Yes.",
        "I understand. I will not answer that.",
        "I understand. Which port do you mean?",
        "I understand. I will call Anna.",
        "I will answer directly: use the tools.",
        "I understand. I will follow `docs/rules.md`.",
    ],
)
def test_B3_an_answer_beside_a_phrase_is_none(text: str) -> None:
    assert not is_echo(text, Echo())


@pytest.mark.parametrize(
    "text",
    [
        "네, 알겠습니다.",
        "はい、理解しました。",
        "Oui, j'ai compris.",
        "D'accord, j'ai compris.",
        "Sí, entiendo.",
        "Vale, entiendo.",
        "Sim, entendi.",
        "Certo, ho capito.",
        "Да, я понял.",
        "Хорошо, я понял.",
        "Gut, ich habe verstanden.",
        "Jawohl, ich habe verstanden.",
        "是的，我明白了。",
        "Evet, anladım.",
        "Tak, rozumiem to.",
        "जी हाँ, मैं समझ गया।",
        "نعم، فهمت.",
    ],
)
def test_B3_a_word_of_assent_before_a_users_own_phrase_is_known_in_many_languages(text: str) -> None:
    phrases = ("anladım", "rozumiem to", "मैं समझ गया", "فهمت")
    assert is_echo(text, Echo(phrases=sum(PHRASES.values(), phrases)))


def test_B3_simplified_and_traditional_texts_are_told_apart_alike() -> None:
    phrases = PHRASES["zh"]
    texts = [one.text for part in PARTS.values() for one in part if one.language.startswith("zh")]
    assert any(in_traditional(text) != text != simplified(text) for text in texts)
    for text in texts:
        expected = is_echo(text, Echo(phrases=phrases))
        assert is_echo(in_traditional(text), Echo(phrases=phrases)) == expected
        assert is_echo(text, Echo(phrases=tuple(map(in_traditional, phrases)))) == expected


def in_traditional(text: str) -> str:
    """Each character in a traditional form, if the table has one: no text that anybody would write."""
    return simplified(text).translate({short: long for long, short in SIMPLIFIED.items()})


@given(st.text())
def test_B3_the_simplified_form_of_a_text_is_as_long_and_stays_as_it_is(text: str) -> None:
    assert len(simplified(text)) == len(text)
    assert simplified(simplified(text)) == simplified(text)
    assert simplified(text) == text or not text.isascii()


async def test_B3_with_anything_beside_every_short_text_with_a_phrase_is_held_back() -> None:
    policy = policy_from({"echo": {"beside": "anything"}})
    assert policy.echo == Echo(beside="anything")
    outcome = await Engine(Scripted("好的，我明白了，端口是8080。", "8080"), policy=policy).run("go")
    assert (outcome.answer, outcome.steps) == ("8080", 2)
    assert is_echo("好的，我明白了，端口是8080。", policy.echo)
    assert is_echo("I understand: 42", policy.echo)
    assert not is_echo("42", policy.echo)
    assert not is_echo("I understand" + " 42" * 99, policy.echo)


def test_B3_an_announcement_of_ones_own_may_be_in_a_script_without_spaces_and_in_either_script() -> None:
    echo = Echo(announcements=("我现在", "Let me"))
    assert is_announcement("我現在就查。", echo)
    assert is_announcement("**Let me** look.", echo)
    assert not is_announcement("Letme", echo)
    assert not is_announcement("他说我现在", echo)


@pytest.mark.parametrize("phrase", ["I understand", "我明白了", "理解しました", "알겠습니다"])
@pytest.mark.parametrize(
    "piece", [" ", "a", "ok ", "i will ", "if ", "and ", "我", "不", "をます", "때 ", "-", "'", ",", "\n", "é"]
)
def test_B3_no_text_takes_long(phrase: str, piece: str) -> None:
    text = f"{phrase} {piece * (50_000 // len(piece))} x {phrase}"
    echo = Echo(phrases=(*Echo().phrases, "理解しました", "알겠습니다"), shorter_than=1_000_000)
    is_echo(f"{phrase}. Warm up: x", echo)

    def seconds() -> float:
        started = time.process_time()
        is_echo(text, echo)
        return time.process_time() - started

    # Some hundredths are usual. Once is enough: the garbage collector may take a second in between.
    assert any(seconds() < 1.0 for _ in range(3))


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


@given(st.text(max_size=99), st.sampled_from(["filler", "nothing", "anything"]))
def test_F5_a_text_without_a_phrase_is_never_an_echo(text: str, beside: str) -> None:
    assert not is_echo(text, Echo(phrases=("xyzzy plugh",), beside=beside)) or "xyzzy" in text.casefold()  # type: ignore[arg-type]
