"""Values beside a label, in whatever notation; columns of tables; dumps of bytes. Each value is drawn anew."""

from __future__ import annotations

import random
import string

import pytest
from endstop.records.entropy import looks_random
from endstop.records.redaction import Redaction
from endstop.records.secret_labels import kind_of_label
from hypothesis import given
from hypothesis import strategies as st

LETTERS = string.ascii_letters + string.digits


def value(seed: str) -> str:
    chance = random.Random(seed)
    return "Kq" + "".join(chance.choices(LETTERS, k=6)) + "7" + "".join(chance.choices(LETTERS, k=3))


@pytest.mark.parametrize(
    "place",
    [
        '{:dbtype "pg" :user "ann" :password "@@"}',
        '(setq smtp-auth-password "@@")',
        '<property name="db.password">@@</property>',
        "<key>WiFiPassword</key>\n\t<string>@@</string>",
        "<Password><Value>@@</Value></Password>",
        "- value: @@\n  name: ADMIN_PASSWORD",
        '{"ParameterKey": "MasterPassword", "ParameterValue": "@@"}',
        'env {\n  name  = "ADMIN_PASSWORD"\n  value = "@@"\n}',
        '#define MQTT_PASS   "@@"',
        "dbPasswordProd: @@",
        "Driver={ODBC Driver 18};UID=sa;PWD={@@};Encrypt=yes",
        "ALTER ROLE web WITH PASSWORD 'a''@@';",
        "requirepass @@",
        "neighbor 10.1.1.1 password @@",
        "K 8\npassword\nV 12\n@@\nEND",
        "user,password\nbob,x\nann,@@",
        "| user | password | role |\n|---|---|---|\n| bob | @@ | admin |",
        "INSERT INTO users (name, password) VALUES ('a, b', 'x'), ('bob', '@@');",
        "COPY users (id, password) FROM stdin;\n1\tx\n2\t@@\n\\.\n",
        'DriverManager.getConnection(url, "app", "@@")',
        "[smtp.acme.example]:587 ann:@@",
        "The password for the staging box is @@.",
        "Please use @@ as the admin password.",
        "@@ is the root password",
        "Das Passwort für den Server lautet @@, bitte ändern",
        "La contraseña del servidor es @@",
        "Пароль от сервера: @@",
        "服务器密码是@@",
        "비밀번호는 @@ 입니다",
    ],
)
def test_a_value_beside_its_label_is_found(place: str) -> None:
    secret = value(place)
    assert secret not in Redaction()(place.replace("@@", secret))


@pytest.mark.parametrize("joint", " -_.+~")
def test_a_passphrase_is_found_whole(joint: str) -> None:
    phrase = joint.join(("kestrel", "upland", "wombat", "quarry"))
    for text in (
        f'passphrase: "{phrase}"',
        f'gpg --passphrase "{phrase}" -d f',
        f"<key>Password</key><string>{phrase}</string>",
    ):
        assert not any(word in Redaction()(text) for word in phrase.split(joint)), text


@pytest.mark.parametrize(
    "text",
    [
        "secretName: my-tls",
        '"password": {"type": "string", "minLength": 8}',
        "PASSWORD_RESET_TIMEOUT = 259200",
        "Das Passwort muss mindestens acht Zeichen lang sein",
        "パスワードは8文字以上で入力してください",
        '<label for="password">Choose a strong one</label>',
        "   1\tdef pass_\n   2\tab12cd34EF",
        "| parameter | password |\n|---|---|\n| type | string |",
        "apt-get install -y passwd python3-keyring",
        'connect("db9.local", "127.0.0.1", "utf8mb4")',
        '"POST /password/reset HTTP/1.1" 302 0 "-" "Mozilla/5.0"',
        "guild 239155231745710010 joined",
        "00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............",
    ],
)
def test_what_only_speaks_of_a_secret_stays(text: str) -> None:
    assert Redaction()(text) == text


@given(
    st.lists(st.sampled_from(("my", "db", "prod", "App", "x2")), max_size=3),
    st.sampled_from(("password", "api key", "client-secret", "AUTH_TOKEN", "pass")),
    st.lists(st.sampled_from(("PROD", "value", "base64", "1")), max_size=3),
    st.sampled_from("_-. "),
)
def test_a_label_is_known_in_any_spelling_until_a_word_makes_it_another(
    before: list[str], name: str, after: list[str], joint: str
) -> None:
    label = joint.join([*before, name, *after])
    assert kind_of_label(label), label
    for other in ("hint", "policy", "length", "name", "type", "url"):
        assert not kind_of_label(joint.join([label, other])), label


def dumps(content: bytes) -> list[str]:
    rows = [(at, content[at : at + 16]) for at in range(0, len(content), 16)]
    printed = [(at, row, row.hex(" "), "".join(chr(byte) for byte in row)) for at, row in rows]
    return [
        "\n".join(f"{at:08x}: {row.hex(' ', 2):<39}  {text}" for at, row, _, text in printed),
        "\n".join(f"{at:08x}  {digits:<48} |{text}|" for at, _, digits, text in printed),
        "\n".join(f"{at:07o} {digits}" for at, _, digits, _ in printed),
        "\n".join(f"{at:07o}" + "".join(f"   {sign}" for sign in text) for at, _, _, text in printed),
        ", ".join(str(byte) for byte in content),
    ]


@pytest.mark.parametrize("form", range(5))
def test_the_lines_of_a_dump_that_hold_a_secret_are_hidden(form: int) -> None:
    dump = dumps(f"x=1234567; DB_PASSWORD={value('dump')}{value('more')};tail".encode())[form]
    shown = Redaction()(dump)
    assert "redacted" in shown
    lines = dump.split("\n")
    assert len(lines) == 1 or lines[2] not in shown


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x0c", "\u00ad", "\x1b[m", "\x1b[38:2::1:2:3m", "^[[31m"])
def test_both_halves_of_a_key_are_hidden_whatever_stands_between_them(sign: str) -> None:
    halves = ("ghp_" + value("a") + "aB3", value("b") + value("c"))
    shown = Redaction()(f"token {sign.join(halves)} end")
    assert not any(half in shown for half in halves)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Unseal Key 1", "secret"),
        ("DD-APPLICATION-KEY", "secret"),
        ("X-Honeycomb-Team-Key", "key"),
        ("VAULT_UNSEAL", "secret"),
        ("rootpw", "password"),
        ("PHPSESSID", "session"),
        ("_gh_sess", "session"),
        ("connect.sid", "session"),
        ("remember_user_token", "secret"),
        (".ASPXAUTH", "session"),
        ("primary key", ""),
        ("cache-key", ""),
        ("hashed_secret", ""),
        ("token_hash", ""),
        ("PublicKeyToken", ""),
        ("assess", ""),
        ("inside", ""),
    ],
)
def test_a_name_counts_by_its_words(name: str, kind: str) -> None:
    assert kind_of_label(name) == kind


@pytest.mark.parametrize(
    "place",
    [
        "Unseal Key 3: @@",
        "db_password: !unsafe '@@'",
        "<member><name>password</name><value><string>@@</string></value></member>",
        "<password><![CDATA[@@]]></password>",
        'new AuthenticationHeaderValue("Bearer", "@@@@");',
        "Please use the following password to proceed:\n\n@@\n\nDone",
        '{"name":"db_password","type":"string","value":"@@"}',
        "Bonjour, mot de passe « @@ ».",
        "host      user     password      note\ndb1       root     @@  prod\n",
        "- **password**: @@",
        "Set-Cookie: PHPSESSID=@@@@; path=/",
        "snmpwalk -v3 -u mon -a SHA -A other12345 -x AES -X @@ 10.4.4.1",
        '["curl", "-u", "ann:@@", "https://a.example"]',
        'curl_easy_setopt(c, CURLOPT_USERPWD, "ann:@@");',
        "sqlcmd -S db1 -U sa -P @@ -Q x",
        "b2 account authorize 00490e3cc71df8b2eed68abc3 @@@@",
        "vault operator unseal @@@@",
        "echo '@@' | wrangler secret put X",
        "WIFI:T:WPA;S:net;P:@@;;",
        "rootdn cn=admin\nrootpw @@",
    ],
)
def test_a_value_is_found_whatever_stands_between_it_and_its_label(place: str) -> None:
    for seed in range(20):
        secret = value(f"{place} {seed}")
        assert secret not in Redaction()(place.replace("@@", secret))


@pytest.mark.parametrize(
    "text",
    [
        '"hashed_secret": "42c1cbcc95f52f4c17f14bf444a29f996712eb11"',
        "user.signingkey=F688C59D3DE283F4",
        '"ARN":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/db-Ab1xYz"',
        "DB_PASS=projects/kiwi-31/secrets/db-pass:latest",
        "ED25519 key fingerprint is SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDUfvVoqP1TtoKmXA8.",
        "Cache restored from key: Linux-node-44b273598171db20350ff46dddf45dc3",
        '{"type":"thinking","signature":"EqQBy4g72Q9QUbWsqnos5FS7n4WXCo4jFkOydixOyRQilDp6M7C85kV3z5KQ"}',
        '<div class="Login_password__OM2T0 css-xl9h9v">',
        "diff --git a/token.go b/token.go\nindex d4d9195619..1cdd5c4dd1 100644",
        "docker run -p 127.0.0.1:5432:5432 -e TZ=UTC postgres:16",
        "ssh -p 2222 deploy@10.0.0.5 uptime",
    ],
)
def test_hashes_resources_and_public_keys_stay(text: str) -> None:
    assert Redaction(kinds=["api_key", "token", "password"])(text) == text


def test_random_small_letters_and_digits_are_told_from_words_with_numbers() -> None:
    chance = random.Random(4)
    drawn = ["".join(chance.choices(string.ascii_lowercase + string.digits, k=26)) for _ in range(300)]
    assert sum(map(looks_random, drawn)) >= 270
    words = "utf8 version4 sha256sum python311 http2server base64url release2024 amd64linux ipv4address oauth2".split()
    assert not any(looks_random(f"{one}-{two}") for one in words for two in words)
