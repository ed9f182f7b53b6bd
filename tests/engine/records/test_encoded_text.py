"""Secrets that are encoded: each key is drawn anew, and no part of what stands for it may remain."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from functools import partial

import pytest
from endstop.records.redaction import Redaction

from tests.growth.measure import seconds

Encode = Callable[[str], str]
LETTERS = string.ascii_letters + string.digits


def key(seed: str, length: int = 36) -> str:
    return "".join(random.Random(seed).choices(LETTERS, k=length))


def each(form: str, joint: str = "") -> Encode:
    """Writes each character of a text in this form, in which `{0}` is its code and `{0:x}` that in hexadecimal."""
    return lambda text: joint.join(form.format(ord(letter)) for letter in text)


@pytest.mark.parametrize(
    "encode",
    [
        each("\\x{0:02x}"),
        each("\\x{{{0:x}}}"),
        each("\\u{{{0:x}}}"),
        each("\\U{0:08x}"),
        each("%u{0:04x}"),
        each("\\{0:03o}"),
        each("\\0{0:o}"),
        each("\\o{{{0:o}}}"),
        each("\\{0:06x}"),
        each("\\{0}"),
        each("&#{0};"),
        each("&#{0}"),
        each("&#x{0:x};"),
        each("chr({0})", "."),
        each("Chr({0})", " & "),
        each("CHR({0})", "||"),
        each("(byte) 0x{0:02x}", ", "),
        each("0x{0:x}", ","),
        each("{0}", ", "),
        each("{0}", " "),
        each("{0:08b}", " "),
        each("{0:02x}", "-"),
        each("{0:02X}", ":"),
        each("{0:02x}", ",\\\n  "),
        lambda text: ", ".join(f"'{letter}'" for letter in text),
        " ".join,
        lambda text: "".join(f"{letter}\x08{letter}" for letter in text),
        lambda text: "".join(
            chr(ord(letter) + (0x1D41A - 97 if letter.islower() else 0x1D400 - 65)) if letter.isalpha() else letter
            for letter in text
        ),
        lambda text: base64.b32encode(text.encode()).decode().lower().rstrip("="),
        lambda text: base64.a85encode(text.encode(), adobe=True).decode(),
        lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
        lambda text: base64.b64encode(text.encode()).decode().encode().hex(),
    ],
)
def test_a_key_is_found_in_any_notation_of_its_characters(encode: Encode) -> None:
    for seed in range(5):
        encoded = encode("ghp_" + key(f"notation {seed}"))
        assert encoded[len(encoded) // 3 : len(encoded) // 2] not in Redaction()(f'x = "{encoded}";'), encoded


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD: &[u8] = &[@@];",
        "byte[] password = new byte[] { @@ };",
        "INSERT INTO accounts (login, password) VALUES ('ann', @@);",
        "wifi password (decimal): @@",
    ],
)
def test_what_is_encoded_belongs_to_the_label_before_it(text: str) -> None:
    for seed in range(5):
        value = key(f"label {seed}", 11) + "!7"
        for encoded in (", ".join(f"{ord(letter)}" for letter in value), "0x" + value.encode().hex()):
            assert encoded[8:20] not in Redaction()(text.replace("@@", encoded))


@pytest.mark.parametrize(
    "text",
    [
        "grep -rn 'SG\\.@@\\.{rest}' src",
        "db.password=@@\\={rest}\\:x\n",
        "- **password**: @@\\~{rest}\\_x",
        "set PASSWORD=@@^|{rest}",
        '$password = "@@`"{rest}"',
        "password: @@\\&{rest}",
    ],
)
def test_a_sign_of_escape_before_punctuation_does_not_end_a_value(text: str) -> None:
    for seed in range(5):
        value, rest = key(f"begin {seed}", 20) + "7", key(f"rest {seed}", 40)
        assert rest not in Redaction()(text.replace("@@", value).replace("{rest}", rest))


@pytest.mark.parametrize("place", ["GET /ctx/@@/edit", "https://a.example/v#@@", "/x/y/@@", "state=@@&a=1", "a.@@.b"])
def test_base64_is_found_wherever_it_stands(place: str) -> None:
    for seed in range(5):
        plain = f'{{"share":"~~?","password":"{key(f"place {seed}", 14)}7","note":"??>>"}}'
        encoded = base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")
        assert encoded not in Redaction()(place.replace("@@", encoded))


@pytest.mark.parametrize(
    "joint",
    ["\n  ", "\n> ", "\n# ", "\n11\t", " │\n│ ", "<br>", "</b><b>", "**", '" & "', '" .. "', '" || "', '" \\\n  "'],
)
def test_a_key_is_found_across_what_stands_between_its_lines(joint: str) -> None:
    for seed in range(5):
        first, rest = key(f"first {seed}", 18), key(f"rest {seed}", 18)
        assert rest not in Redaction()(f'"ghp_{first}{joint}{rest}"')


@pytest.mark.parametrize(
    "text",
    [
        "a b c d e f g h i j k l",
        "[12, 45, 78, 101, 110, 99, 87, 66, 120, 44]",
        "bytes: 72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100",
        "10 20 30 40 50 60 70 80 90 100 110",
        "^[a-z0-9]+(?:\\.[a-z0-9]+)*$ and foo\\_bar\\_baz2",
        '{"id":"ch_3SbocI6OqXvsWUMn55eXXJdf","customer":"cus_sEanIG2sTHWNdU"}',
        "Ihr Passwort l=C3=A4uft in 14 Tagen ab.",
    ],
)
def test_what_is_no_secret_when_decoded_stays(text: str) -> None:
    assert Redaction()(text) == text


@pytest.mark.parametrize(
    "unit",
    ["QUJDREVGR0hJSktM/", "/QUJDREVGR0hJSktM-", " a", "103, ", "'a', ", "a\\.", "\x08a", "<~aaaaaaaa", "01100111 "],
)
def test_decoding_takes_time_in_the_length_of_the_text(unit: str) -> None:
    redact = Redaction()
    redact(unit * 10)
    took = [seconds(partial(redact, unit * (size // len(unit)) + "\x01")) for size in (8_000, 64_000)]
    assert took[1] < 20 * took[0], took
