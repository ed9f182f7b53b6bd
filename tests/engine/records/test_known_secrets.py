"""What is known to be secret is found however it is written, and ordinary words are not."""

from __future__ import annotations

import pytest
from endstop.records.known_secrets import MOST_SECRETS, KnownSecrets, environment_secrets, names_secret
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
}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_hidden_however_it_is_written(way: str) -> None:
    secrets = KnownSecrets([KEY])
    mark = secrets(KEY)
    assert mark.startswith("[redacted:known:")
    assert secrets(f"it is {WAYS[way]}, twice: {WAYS[way]}.") == f"it is {mark}, twice: {mark}."


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
