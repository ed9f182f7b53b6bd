"""Texts that look like secrets but are not, which a redaction must leave unchanged.

Talk of passwords, code that handles keys, placeholders, hashes, ids, images, minified scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from .secret_shapes import HEX, LOW, Draw

_NAMES = "password token secret api_key passphrase credentials".split()
_TEMPLATES = """
  --{0} {1}   the {0} to log in with
  --{0}-file PATH   read the {0} from a file
Usage: tool [--{0} <{0}>] [--user USER] FILE...
tool --{0} "$APP_{1}" --verbose
tool --{0}-stdin < /run/{0}.txt
-p, --{0} string   {0} of the registry (default "")
{0}: <your {0}>
{0}: changeme
{0}: ********
{1}=your_{0}_here
{1}=
{0} = ""
<{0}>${{app.{0}}}</{0}>
<{0}></{0}>
<label for="{0}">{0}</label><input type="{0}" name="{0}" value="">
def login(user: str, {0}: str = "") -> None:
{0}: Optional[str] = Field(default=None, description="The {0}.")
{0}?: string | undefined;
private final String {0};
set{0}(this.{0});
user.set_{0}("{0}")
define('{1}', getenv('{1}'));
fields = ("name", "{0}", "created_at2", "utf8mb4")
"{0}.title": "Enter your {0}",
"error.{0}.length": "The {0} has fewer than 12 characters"
The {0} is case-sensitive and is 8 to 64 characters long.
The {0} was reset on 2026-11-22T10:00:00Z by admin.
the {0} is stored in AWS Secrets Manager under prod/app/{0}
if the {0} is wrong, the server answers 401
variable "{0}" {{ type = string sensitive = true }}
#define {1}_MAX_LENGTH 128
#define {1} "{0}"
setx {1} %{1}%
$env:{1} = $null
ALTER USER app WITH {1} :new_{0};
export {1}="$(cat /run/secrets/{0})"
      - {1}_FILE=/run/secrets/{0}
{0}: ${{{{ secrets.{1} }}}}
test_{0}_is_rejected_after_3_attempts PASSED
The {0} ends after 3600s; see RFC 6749, section 5.1.
{0}_url: https://example.com/reset
sed -i 's/{0}=.*/{0}=XXX/' app.conf
INFO auth2.server: {0} ok for user 42 from 10.0.0.7
SELECT {0}_hash, salt FROM users WHERE id = 12345678
logger.debug("%s {0} %s", key, self.{0}.upper())
"""
_SENTENCES = """
sk-xxxxxxxxxxxxxxxxxxxxxxxx and pk_test_your_key_here stand for keys
OPENAI_API_KEY=sk-your-key-here
api_key="test-key"
mysql -u root -p shop < dump.sql
mysql --protocol=tcp -P 3306 -h 127.0.0.1
docker login -u me --password-stdin
docker run -p 8080:80 -p 8443:443 nginx
mongosh --port 27017 -p
ssh -p 2222 me@host
sshpass -e ssh host
cp -p config2.bak config2
mkdir -p /srv/app1/data2
7z x backup.7z -pdf
tar -xzpf x.tgz; zip -r out.zip dir1 dir2
echo hello123 | tee out1.txt
kubectl create secret generic x --from-literal=a=b
CREATE USER app IDENTIFIED BY ?;
root:@tcp(127.0.0.1:3306)/shop
user:password@tcp(host)/db
Passwort: vergessen?
Das Passwort ist zu kurz.
mot de passe : obligatoire
contraseña: mínimo 8 caracteres
密码：不能为空
密码长度必须至少为8位
パスワード: 8文字以上
пароль: не менее 8 символов
senha: obrigatória
passwd: files systemd sss
figd_ is what keys of Figma begin with
the prefix glsa_ or glc_
pat-tern matching, re_compile, fw_version_2, pa-rameter
secret_santa_list_2026
dp.pt is a prefix
"auth": {"type": "none"}
"auth": "basic"
_auth = None
{"private_key_id": null}
Authorization: SSWS <token>
GET /cb?code=200&state=ok
https://example.com/?code=EXAMPLE
client("http://localhost:8080")
htpasswd -c .htpasswd alice
$apr1$ is MD5 of Apache
pbkdf2_sha256 with 600000 rounds
{SSHA} and {SHA}
const KEY = 'Enter';
tiktoken.get_encoding("cl100k_base")
"""
_WORDS = (
    "the a port server password token secret key login user value config file error test build run deploy line of is "
    "set reset change your please enter forgotten expired rotate session cookie bearer basic private public api"
).split()


def _sentence(d: Draw) -> str:
    return " ".join(d.chance.choice(_WORDS) for _ in range(d.chance.randint(5, 25))) + "."


def _code(d: Draw) -> str:
    name = d.chance.choice(["password", "token", "secret", "api_key", "auth_key", "credentials", "access_key"])
    return d.chance.choice(
        [
            "{0} = os.environ['{1}']",
            "{0} = config.get('{0}')",
            "def check_{0}({0}: str) -> bool:",
            "{0}: str | None = None",
            "self.{0} = {0}",
            "if not {0}: raise ValueError('{0} is missing')",
            "const {{ {0} }} = this.props;",
            "{0} = getpass.getpass()",
            '<input type="{0}" name="{0}" />',
            "{0}={{{{ .Values.{0} }}}}",
            "{0}: ${{{1}}}",
            "{1}=${{{1}}}",
            "'{0}': request.form['{0}'],",
            "{0} = await fetch_{0}(user)",
            "assert {0} is not None",
            '"{0}": "string",',
            '"{0}": {{"type": "string"}}',
            "{0}: your-{0}-here",
            '{0} = "changeme"',
            "{1}=<your {0}>",
            "return {0} ?? undefined;",
            "{0}s = [{0} for {0} in {0}s if {0}.valid]",
            "logger.info('{0}: %s', mask({0}))",
            "function(e,t){{return e.{0}===t.{0}&&n({0})}}",
            "let {0}=e.{0},r=t.{0}||null;",
            "{0}: process.env.{1},",
        ]
    ).format(name, name.upper())


def _number(d: Draw) -> str:
    texts: list[Callable[[], str]] = [
        lambda: f"commit {d.letters(40, HEX)}",
        lambda: d.uuid(),
        lambda: f"sha256:{d.letters(64, HEX)}",
        lambda: f'"integrity": "sha512-{d.base64(64)}"',
        lambda: f"{d.letters(7, HEX)}..{d.letters(7, HEX)}",
        lambda: f"{d.chance.randrange(10**12, 2 * 10**12)}",
        lambda: f"{d.chance.randrange(10**18, 2 * 10**18)}",
        lambda: f"0.{d.chance.randrange(10**15, 10**16)}",
        lambda: f'{{"id": {d.chance.randrange(10**15, 10**16)}}}',
        lambda: f"index {d.letters(10, HEX)}..{d.letters(10, HEX)} 100644",
        lambda: f'etag: "{d.letters(32, HEX)}"',
        lambda: f"data:image/png;base64,{d.base64(d.chance.randint(60, 300))}",
        lambda: (
            f'resolved "https://index.example/{d.letters(8, LOW)}/-/{d.letters(6, LOW)}-1.2.3.tgz#{d.letters(40, HEX)}"'
        ),
        lambda: f"tests/test_{d.letters(6).lower()}.py::test_{d.letters(8).lower()} PASSED",
        lambda: f"run_{d.letters(12, HEX)}",
        lambda: f"{d.chance.randint(1, 28)}.11.2026 {d.chance.randint(0, 23)}:15:09.{d.chance.randint(100, 999)}",
        lambda: f"10.{d.chance.randint(0, 255)}.3.{d.chance.randint(0, 255)}:8080",
        lambda: f"v{d.chance.randint(0, 9)}.12.0-rc.1",
        lambda: f"docker.io/library/redis@sha256:{d.letters(64, HEX)}",
        lambda: f"call_{d.letters(24)}",
        lambda: f"toolu_{d.letters(24)}",
        lambda: f"max_tokens: {d.chance.randint(1, 9999)}, total_tokens={d.chance.randint(1, 99999)}",
        lambda: f"chatcmpl-{d.letters(29)}",
        lambda: f"npm_config_registry_{d.letters(6).lower()}=true",
        lambda: f"git@github.com:{d.letters(5).lower()}/{d.letters(6).lower()}.git",
        lambda: f"@app.route('/{d.letters(5).lower()}')",
        lambda: f"<div class='sk-{d.letters(8, 'abcdefgh')}-wrapper'>",
        lambda: f"id={d.chance.randrange(4 * 10**15, 5 * 10**15)}",
    ]
    return d.chance.choice(texts)()


def _minified(d: Draw) -> str:
    """Return a piece of a minified script, in the form written by a bundler."""
    short = [d.letters(d.chance.randint(1, 2), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ_$") for _ in range(12)]

    def one() -> str:
        return d.chance.choice(short)

    pieces = (
        lambda: f"function {one()}({one()},{one()}){{return {one()}.{one()}({one()})}}",
        lambda: f"var {one()}={one()}[{d.chance.randrange(99)}]||{{}};",
        lambda: f"{one()}.exports={{key:{one()},token:{one()},secret:!1}};",
        lambda: f"const{{password:{one()}}}={one()}(0x{d.letters(6, HEX)});",
        lambda: f'{one()}("{d.letters(8, HEX)}",({one()},{one()})=>{one()}!=={one()}?1e3:void 0),',
    )
    return "".join(d.chance.choice(pieces)() for _ in range(d.chance.randint(10, 60)))


def _drawn() -> Iterator[str]:
    """Yield texts drawn at random with a fixed seed."""
    d = Draw(Random(15))
    for make, times in ((_sentence, 250), (_code, 200), (_number, 300), (_minified, 40)):
        yield from (make(d) for _ in range(times))


HARMLESS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *(line.format(name, name.upper()) for line in _TEMPLATES.strip("\n").splitlines() for name in _NAMES),
            *_SENTENCES.strip("\n").splitlines(),
            *_drawn(),
        )
    )
)
"""Texts that look like secrets but are not, each once, and the same each time."""
