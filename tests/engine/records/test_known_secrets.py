"""What is known to be secret is found however it is written, and ordinary words are not."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from html import escape
from itertools import product
from time import process_time
from urllib.parse import quote

import pytest
from endstop.records.known_secrets import CERTAIN, MOST_SECRETS, KnownSecrets, environment_secrets, names_secret
from hypothesis import given
from hypothesis import strategies as st

KEY = 'sk-CANARY/12"3456abcdefXYZ'
WAYS = {
    "as it is": KEY,
    "JSON": KEY.replace('"', '\\"'),
    "JSON with slashes": KEY.replace('"', '\\"').replace("/", "\\/"),
    "JSON's numbers": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "JSON in JSON": "".join(f"\\\\u{ord(letter):04X}" for letter in KEY),
    "a URL": "".join(f"%{ord(letter):02X}" for letter in KEY),
    "HTML": "".join(f"&#{ord(letter)};" for letter in KEY),
    "hexadecimal HTML": "".join(f"&#x{ord(letter):02x};" for letter in KEY),
    "a string of C": "".join(f"\\x{ord(letter):02x}" for letter in KEY),
    "partly": KEY[:9] + "".join(f"\\u{ord(letter):04x}" for letter in KEY[9:]),
    "a URL in a URL": quote(quote(KEY, safe=""), safe=""),
    "HTML, by names": escape(KEY),
    "HTML in HTML": escape(escape(KEY)),
    "over two lines": f"{KEY[:9]}\r\n{KEY[9:]}",
    "over two lines, in JSON": f"{KEY[:9]}\\n{KEY[9:]}".replace('"', '\\"'),
    "hexadecimal digits": KEY.encode().hex(),
    "capital ones": KEY.encode().hex().upper(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_hidden_however_it_is_written(way: str) -> None:
    secrets = KnownSecrets([KEY])
    mark = secrets(KEY)
    assert mark.startswith("[redacted:known:")
    assert secrets(f"it is {WAYS[way]}, twice: {WAYS[way]}.") == f"it is {mark}, twice: {mark}."


SECRETS = [
    KEY,
    "schl\u00fcssel-\u4e2d-12345678",
    "ab\\cd\"ef'12345678/GH+xy==",
    "nvapi-1234567890abcdefXYZ",
    "r8_1234567890",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_base64_of_a_login_shows_no_secret(secret: str) -> None:
    hide = KnownSecrets([secret])
    for before, encode in product(("", "u:", "us:", "user:", "Bearer "), (b64encode, urlsafe_b64encode)):
        whole = encode(f"{before}{secret}\n".encode()).decode()
        lines = "\n".join(whole[at : at + 20] for at in range(0, len(whole), 20))
        for text in (whole, lines, quote(whole, safe=""), json.dumps({"a": json.dumps(lines)})):
            hidden = hide(f"it is {text}.")
            assert "[redacted:known:" in hidden
            assert len(hidden) < len(f"it is [redacted:known:123456]{before}.") + 40
            rest = "".join(re.sub(r"\[.*?\]", "", hidden).split())
            assert whole[4:20] not in rest or before == "Bearer "


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_of_any_signs_is_found_in_json_in_json_and_in_a_url(secret: str) -> None:
    hide = KnownSecrets([secret])
    for written in (secret, quote(secret), quote(quote(secret, safe=""), safe="")):
        text = written
        for _ in range(3):
            text = json.dumps({"a": f"it is\n{text}"})
            assert hide(text).count("[redacted:known:") == 1


def test_a_thousand_secrets_are_looked_for_at_once() -> None:
    """Which is to say: what is done for a text does not grow with them."""
    text, counts = ("some words of a text and 17 numbers\n" * 3_000).encode(), []
    for number in (1, 1_000):
        secrets = KnownSecrets(f"{at:05}-another-secret-of-somebody" for at in range(number))
        begun = process_time()
        for _ in range(20):
            assert not secrets.occur_in(text)
        counts.append(process_time() - begun)
    assert counts[1] < 20 * counts[0]


@given(st.text(alphabet='sk-1a\\u00"%&#;x\n', max_size=20), st.sampled_from(SECRETS))
def test_a_part_that_may_be_written_has_no_beginning_of_a_secret(text: str, secret: str) -> None:
    secrets = KnownSecrets([secret])
    for size in range(1, CERTAIN):
        for form in (secret, secret.encode().hex(), b64encode(secret.encode()).decode()):
            data = (text + form[:size]).encode()
            assert secrets.may_begin_at_end_of(data) or secrets.occur_in(data)
    assert not secrets.may_begin_at_end_of(b"a whole sentence. ")


def test_a_secret_that_was_cut_off_is_hidden_and_another_of_its_kind_is_not() -> None:
    secrets = KnownSecrets(["sk-ant-api03-abcdefgh12345678"])
    mark = secrets("sk-ant-api03-abcdefgh12345678")
    assert secrets("it is sk-ant-api03-abcdefg") == f"it is {mark}"
    assert secrets("it is sk-ant-api03-abcdefgh...") == f"it is {mark}..."
    assert secrets("sk-ant-api03-zyxw and sk-ant-api03-") == "sk-ant-api03-zyxw and sk-ant-api03-"


@pytest.mark.parametrize(
    "word", ["", "x", "dummy", "sk-local", "EMPTY", "not-needed", "password", "20261124", "gpt-4o"]
)
def test_what_might_be_an_ordinary_word_is_not_hidden(word: str) -> None:
    assert KnownSecrets([word])(f"a {word} b") == f"a {word} b"


@given(st.text(alphabet='sk-1a\\u00"%&#;x', max_size=60), st.text(alphabet='sk-1a"\\', min_size=16, max_size=20))
def test_a_secret_is_nowhere_in_what_is_left_of_a_text_around_it(text: str, secret: str) -> None:
    assert secret not in KnownSecrets([secret])(f"{text}{secret}{text}")


def test_the_secret_that_was_seen_longest_ago_is_forgotten_first() -> None:
    secrets = KnownSecrets(["first-secret-0001"])
    for number in range(MOST_SECRETS - 1):
        secrets.add(f"{number:05}-other-secret")
    secrets.add("first-secret-0001")
    secrets.add("last-secret-00001")
    assert secrets("first-secret-0001") != "first-secret-0001"
    assert secrets("00000-other-secret") == "00000-other-secret"


def test_secrets_of_the_environment_are_keys_tokens_and_passwords_in_urls() -> None:
    given = {
        "OPENAI_API_KEY": "key-1", "ANTHROPIC_AUTH_TOKEN": "token-1", "HTTPS_PROXY": "http://me:word-1@proxy:3128",
        "KEYBOARD": "de", "SSH_KEY": "/home/me/.ssh/key", "HOME": "/home/me", "PWD": "/tmp",
    }  # fmt: skip
    assert set(environment_secrets(given)) == {"key-1", "token-1", "word-1"}


def test_headers_that_hold_secrets_are_known_by_their_names() -> None:
    held = ["Authorization", "x-api-key", "api-key", "X-Goog-Api-Key", "key", "x-endstop-token", "Helicone-Auth"]
    assert all(map(names_secret, held))
    assert not any(map(names_secret, ["host", "content-type", "x-endstop-session", "user-agent", "anthropic-version"]))
