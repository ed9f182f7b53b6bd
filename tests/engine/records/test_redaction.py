"""What the ready-made redaction finds, and what it leaves alone."""

from __future__ import annotations

import random
import time

import pytest
from endstop.decision import WrongUse
from endstop.records.redaction import DEFAULT_KINDS, KINDS, Redaction, is_card_number
from hypothesis import given
from hypothesis import strategies as st

KEY = b"a key of sixteen"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    ("api_key", "sk-" + "aB3" * 16),
    ("api_key", "sk-ant-api03-" + "Ab3_" * 20),
    ("api_key", "sk-proj-" + "x7" * 20),
    ("api_key", "AKIA" + "ABCDEFGH23456789"),
    ("api_key", "ghp_" + "a1B2" * 9),
    ("api_key", "github_pat_" + "11ABCDEFG0" * 6),
    ("api_key", "glpat-" + "abcdefghij0123456789"),
    ("api_key", "xoxb-" + "123456789012-abcdefgh"),
    ("api_key", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
    ("api_key", "hf_" + "abcdefghijklmnopqrstuvwxyz0123456789"),
    ("api_key", "sk_live_" + "abcdefghijklmnop1234"),
    ("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.SflKxwRJSMeKKF2QT4"),
    ("email", "jane.doe+work@mail.example.co.uk"),
    ("email", "jürgen@müller.example"),
    ("card", "4111 1111 1111 1111"),
    ("card", "5500-0055-5555-5559"),
    ("card", "378282246310005"),
    ("private_key", PEM),
    ("private_key", PEM.replace("\n", "\\n")),
]
PLAIN = [
    "task-abcdefghijklmnopqrstuvwxyz",
    "user@host and pytest@8.3 and @decorator",
    "4111 1111 1111 1112",
    "1700000000000 and 20261121094512 and 0.4111111111111111",
    "2026-11-21 09:45:12.123456",
    "the basic authentication module takes a token of the bearer",
    "https://example.com/path?x=1",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "run_e7062439b794 of session_d9d45fa002ed",
    "AKIA is how they begin",
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[f"{k}-{s[:12]!r}" for k, s in SECRETS])
def test_a_secret_is_found_whatever_stands_around_it(kind: str, secret: str) -> None:
    redact = Redaction(key=KEY)
    for around in ("{}", "It is {}, I think.", 'key="{}"', "\\n{}", "({})", "x: {}\nnext", "a,{};b"):
        redacted = redact(around.format(secret))
        assert secret not in redacted
        before, after = around.split("{}")
        assert redacted.startswith(f"{before}[redacted:{kind}:")
        assert redacted.endswith(f"]{after}")


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redaction()(text) == text


def test_what_stands_before_a_token_and_around_a_password_stays() -> None:
    redaction = Redaction(key=KEY)
    assert redaction("Authorization: Bearer abcDEF0123456789xyz").startswith("Authorization: Bearer [redacted:token:")
    assert redaction("postgres://bob:hunter2@db.example.com/x").startswith("postgres://[redacted:credentials:")
    assert redaction("postgres://bob:hunter2@db.example.com/x").endswith("]@db.example.com/x")


def test_a_private_key_that_breaks_off_is_a_secret_to_its_last_letter() -> None:
    assert Redaction(key=KEY)(f"see {PEM[:60]}").startswith("see [redacted:private_key:")
    assert "MIIE" not in Redaction()(PEM[:60])


def test_telephone_numbers_are_looked_for_only_if_asked() -> None:
    text = "Call +49 170 1234567 or (030) 901820-0."
    assert Redaction()(text) == text
    redacted = Redaction(kinds=[*DEFAULT_KINDS, "phone"])(text)
    assert redacted.count("[redacted:phone:") == 2
    assert "1234567" not in redacted


def test_own_words_and_patterns() -> None:
    redaction = Redaction(kinds=(), words=["Jane Doe", "Jane"], patterns={"ticket": r"T-(?P<secret>\d+)"}, key=KEY)
    redacted = redaction("jane doe asked JANE about T-1234. Janeway did not.")
    assert redacted.count("[redacted:word:") == 2
    assert "T-[redacted:ticket:" in redacted
    assert "Janeway did not." in redacted


@given(st.text(), st.text())
def test_a_mark_is_the_same_for_the_same_text_and_another_for_another(one: str, other: str) -> None:
    word = Redaction(kinds=(), patterns={"all": r"(?s)\A.+\Z"}, key=KEY)
    assert (word(one) == word(other)) == (one == other)


def test_marks_say_nothing_about_what_was_there_without_the_key() -> None:
    mail = "jane@example.com"
    assert Redaction()(mail) != Redaction()(mail)
    assert Redaction(key=KEY)(mail) == Redaction(key=KEY)(mail)


@given(st.lists(st.sampled_from([secret for _, secret in SECRETS] + PLAIN + [" ", "\n", "1", "@", "sk-", "a"])))
def test_what_is_redacted_stays_as_it_is(parts: list[str]) -> None:
    redaction = Redaction(key=KEY)
    once = redaction(" ".join(parts))
    assert redaction(once) == once
    assert not [secret for _, secret in SECRETS if secret in once]


@given(st.integers(0, 10**14 - 1))
def test_a_card_has_the_right_check_digit(number: int) -> None:
    digits = f"4{number:014}"
    right = [digit for digit in range(10) if is_card_number(f"{digits}{digit}")]
    assert len(right) == 1


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1 ",
        "4 ",
        "a@",
        "a@a.",
        "sk-",
        "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "://a:b",
        "bearer ",
        "1-",
        "(",
    ],
)
def test_time_goes_with_the_length_of_the_text_and_never_with_its_square(unit: str) -> None:
    redaction = Redaction(kinds=KINDS)

    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        began = time.process_time()
        redaction(text)
        return time.process_time() - began

    # 20 times as long; its square would be 400. Once is enough: the garbage collector may take a second in between.
    assert any(seconds(80_000) < 40 * max(seconds(4_000), 0.001) for _ in range(3))


def test_random_text_has_nothing_to_redact() -> None:
    words = ["the", "port", "is", "8080", "in", "config.ini", "line", "12,", "since", "2026.", "ok?", "v1.2.3", "#4"]
    chance = random.Random(1)
    text = " ".join(chance.choice(words) for _ in range(20_000))
    assert Redaction()(text) == text


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(WrongUse, match="unknown kind of secret 'mail'"):
        Redaction(kinds=["mail"])
    with pytest.raises(WrongUse, match="the pattern 'x' is not a valid regular expression"):
        Redaction(patterns={"x": "("})
    with pytest.raises(WrongUse, match="must have 16 to 64 bytes, not 3"):
        Redaction(key=b"abc")
