r"""Secrets that are found by a keyword: a vendor's key prefix, a command option, an XML element, a phrase.

A pattern is tried only where its keyword occurs, which `str.find` finds: a text without the keyword costs next to
nothing. Every repetition in a pattern is bounded, so the time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from .entropy import entropy, looks_generated
from .secret_rules import find_all

SecretTest = Callable[[str, str], bool]
"""Takes the kind of a value (`password`, `secret`) and the value; says whether it is a secret."""
Span = tuple[int, int]

_KEY_CHAR = r"[A-Za-z0-9_-]"
PREFIXES: dict[str, str] = {
    # prefix of a key, and a pattern of the rest, from the vendors' documentation and from keys that they issue
    "AAAA": rf"{_KEY_CHAR}{{7}}:APA91b{_KEY_CHAR}{{100,300}}",  # Firebase Cloud Messaging
    "AKID": r"[A-Za-z0-9]{28,36}",  # Tencent Cloud
    "ATBB": r"[A-Za-z0-9]{32}",  # Bitbucket
    "CCIPAT_": r"[A-Za-z0-9_]{40,90}",  # CircleCI
    "CCIPRJ_": r"[A-Za-z0-9_]{40,90}",
    "CFPAT-": rf"{_KEY_CHAR}{{40,50}}",  # Contentful
    "NRAK-": r"[A-Z0-9]{27}",  # New Relic
    "NRII-": rf"{_KEY_CHAR}{{32}}",
    "access_token$": r"(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}",  # PayPal
    "apify_api_": r"[A-Za-z0-9]{30,50}",
    "bkua_": r"[a-f0-9]{40}",  # Buildkite
    "cio": r"[A-Za-z0-9]{32}",  # crates.io
    "csk-": r"[a-z0-9]{40,60}",  # Cerebras
    "dckr_oat_": rf"{_KEY_CHAR}{{20,60}}",
    "dp.": r"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",  # Doppler
    "e2b_": r"[a-f0-9]{40}",
    "fc-": r"[a-f0-9]{32}",  # Firecrawl
    "figd_": rf"{_KEY_CHAR}{{30,60}}",  # Figma
    "fw_": r"[A-Za-z0-9]{22,40}",  # Fireworks
    "jina_": r"[A-Za-z0-9_-]{50,80}",
    "lsv2_": r"(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",  # LangSmith
    "mdb_sa_sk_": rf"{_KEY_CHAR}{{30,60}}",  # MongoDB Atlas
    "napi_": r"[a-z0-9]{50,80}",  # Neon
    "nfp_": r"[A-Za-z0-9]{30,50}",  # Netlify
    "ntn_": r"[A-Za-z0-9]{40,60}",  # Notion
    "nvapi-": rf"{_KEY_CHAR}{{50,80}}",  # NVIDIA
    "pa-": rf"{_KEY_CHAR}{{43}}",  # Voyage
    "pat": r"[A-Za-z0-9]{14}\.[a-f0-9]{64}",  # Airtable
    "pat-": r"(?:na|eu|ap)\d-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",  # HubSpot
    "pcsk_": r"[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,80}",  # Pinecone
    "phx_": r"[A-Za-z0-9]{40,60}",  # PostHog
    "re_": r"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}",  # Resend
    "rnd_": r"[A-Za-z0-9]{28,40}",  # Render
    "rpa_": r"[A-Z0-9]{40,60}",  # RunPod
    "sb_secret_": rf"{_KEY_CHAR}{{20,60}}",  # Supabase
    "secret_": r"[A-Za-z0-9]{43}",  # Notion
    "sk_": r"[a-f0-9]{48}",  # ElevenLabs
    "sntrys_": r"[A-Za-z0-9+/=_-]{60,400}",  # Sentry
    "sntryu_": r"[a-f0-9]{64}",
    "sq0": rf"(?:atp|csp|idp)-{_KEY_CHAR}{{22,43}}",  # Square
    "tgp_v1_": rf"{_KEY_CHAR}{{40,60}}",  # Together
    "tskey-": r"(?:auth|api|client|webhook|scim)-[A-Za-z0-9]{8,30}-[A-Za-z0-9]{20,50}",  # Tailscale
    "tvly-": rf"(?:dev-|prod-)?{_KEY_CHAR}{{20,60}}",  # Tavily
    "xoxc-": r"[A-Za-z0-9-]{20,120}",  # Slack
    "xoxd-": r"[A-Za-z0-9%+/=-]{20,400}",
    # Asana: a version, one or two numbers, 32 hexadecimal digits
    "1/1": r"\d{12,18}:[a-f0-9]{32}",
    "2/1": r"\d{12,18}/\d{12,18}:[a-f0-9]{32}",
    # Discord: a number in base64, a time, a signature
    **dict.fromkeys(
        "MD MT Mj Mz ND NT Nj Nz OD OT".split(), rf"{_KEY_CHAR}{{20,30}}\.{_KEY_CHAR}{{6}}\.{_KEY_CHAR}{{27,40}}"
    ),
}

_QUOTE = r"\\{0,4}[\"'`]"
_BARE = r"[^\s\"'`,;&|<>(){}\[\]\\]"
_VALUE = rf"(?:{_QUOTE})?(?P<v>{_BARE}{{4,200}})"
_SAME_LINE = r"[^\n|;&]{0,200}?"

NAMES = (
    "password passwd passphrase passcode pwd token secret credential credentials "
    + " ".join(
        f"{word}{joint}key"
        for word in "api access secret private auth account encryption signing".split()
        for joint in ("", "_", "-")
    )
).split()
"""Names of secrets. A value follows a name in one of the forms of `_AFTER_NAME`."""

_AFTER_NAME = (
    r"\d{0,3}(?:"
    rf"(?:[ \t][^<>\n]{{0,60}})?>(?P<element>[^<>\s\"\\]{{4,200}})</"  # <password>…</password>
    rf"|{_QUOTE}\)?[ \t]{{0,4}},[ \t]{{0,4}}{_QUOTE}(?P<pair>[^\s\"'\\]{{6,200}}){_QUOTE}"  # define('PASSWORD', '…')
    rf"|\([ \t]?{_QUOTE}(?P<call>[^\s\"'\\]{{6,200}}){_QUOTE}"  # setPassword("…")
    rf"|{_QUOTE}[^<>\n]{{0,80}}?\bvalue={_QUOTE}(?P<value>[^\s\"'\\]{{4,200}}){_QUOTE}"  # type="password" value="…"
    rf"|(?:[ \t]{{0,4}}:[ \t]{{0,4}}[&\w.\[\]|?]{{1,40}})?[ \t]{{0,8}}=[ \t]{{0,4}}[@$A-Za-z]{{0,2}}"
    rf"{_QUOTE}(?P<typed>[^\s\"'\\]{{4,200}}){_QUOTE}"  # password: &str = "…"
    rf"|{_QUOTE}?[ \t]{{1,8}}{_QUOTE}(?P<text>[^\s\"'\\]{{4,200}}){_QUOTE}"  # #define PASSWORD "…", PASSWORD '…'
    rf"|[ \t]{{1,4}}(?:is|was|ist|est|es|è|é)[ :]{{1,3}}{_QUOTE}?(?P<prose>{_BARE}{{6,200}})"  # the password is …
    rf"|[ \t]{{0,4}}[：＝][ \t]{{0,4}}{_QUOTE}?(?P<wide>{_BARE}{{6,200}})"
    rf"|{_QUOTE}[ \t]{{0,4}}\{{[^{{}}]{{0,200}}?\bdefault[ \t]{{0,8}}=[ \t]{{0,4}}"
    rf"{_QUOTE}(?P<default>[^\s\"'\\]{{4,200}})"  # variable "password" { default = "…" }
    rf"|[ \t]{{0,4}}(?:->|→|\|)[ \t]{{0,4}}{_QUOTE}?(?P<arrow>{_BARE}{{6,200}})"  # password -> …, | password | … |
    rf"|(?:{_QUOTE})?,?\s{{0,30}}(?:{_QUOTE})?value(?:{_QUOTE})?[ \t]?:[ \t]?(?:{_QUOTE})?(?P<entry>{_BARE}{{6,200}})"
    rf"|\"\s{{2,6}}(?P<part>{_BARE}{{6,200}})"  # a part of a form: name="password", an empty line, …
    rf"|[ \t]{{1,4}}(?P<option>[^\W_]{_BARE}{{5,200}})(?=[\s\"'`,;&|<>)}}\]\\]|\Z)"  # --password …, setx TOKEN …
    r")"
)
_OPTION = (
    r"(?:^|[\s\"'`(])--?(?!no-)[\w-]{0,30}\Z"
    r"|\b(?i:setx?|env)[ \t]{1,4}(?:-\w{1,8}[ \t]{1,4}){0,2}\w{0,40}\Z"
)
"""What precedes a name whose value follows a space: the dashes of an option, or a command that sets variables."""


@dataclass(frozen=True)
class KeywordPattern:
    """A pattern for a secret near one of several keywords."""

    words: tuple[str, ...]
    """The keywords, in lower case. The pattern begins where one of them does, or up to `back` characters before."""
    regex: str
    """The regular expression, whose group `v` is the secret."""
    kind: str = "password"
    """How a match is checked. `password` and `secret` (which must look random): by the caller's `SecretTest`. `login`:
    it must be `user:password` in base64. `form`: not at all, because only secrets have this form."""
    back: int = 0


_ASSIGNED = r"[ \t]{0,4}(?:[:=：＝]|是[:：]?|[为為はè]|(?:ist|lautet|est|es|é|is)(?=[ ]))[ \t]{0,4}"
KEYWORD_PATTERNS = (
    KeywordPattern(("storepass", "keypass"), rf"(?:store|key)pass[ \t]{_VALUE}"),
    KeywordPattern(("http ", "https "), rf"https?[ \t]{_SAME_LINE}(?<=[ \t])-a[ \t][^\s:]{{1,60}}:{_VALUE}"),
    KeywordPattern((".login(",), rf"\.login\([^()\n]{{1,80}}?,[ ]?{_QUOTE}(?P<v>[^\s\"'\\]{{6,200}}){_QUOTE}"),
    KeywordPattern(
        ("auth=(",), rf"auth=\({_QUOTE}[^\s\"'\\]{{1,80}}{_QUOTE},[ ]?{_QUOTE}(?P<v>[^\s\"'\\]{{6,200}}){_QUOTE}"
    ),
    KeywordPattern(
        ("jwt.",),
        rf"jwt\.(?:sign|verify|encode|decode)\([^()\n]{{1,80}}?,[ ]?{_QUOTE}(?P<v>[^\s\"'\\]{{16,200}})",
        "secret",
    ),
    KeywordPattern(("mysql", "mariadb"), rf"(?:mysql|mariadb)[\w-]{{0,12}}{_SAME_LINE}[ \t]-p{_VALUE}"),
    KeywordPattern(("sshpass",), rf"sshpass{_SAME_LINE}[ \t]-p[ \t]?{_VALUE}"),
    KeywordPattern(("mongo",), rf"mongo(?:sh|dump|restore|export|import)?[ \t]{_SAME_LINE}[ \t]?-p[ \t]{_VALUE}"),
    KeywordPattern((" login",), rf"[ \t]login[ \t]{_SAME_LINE}(?<=[ \t])-p[ \t=]?{_VALUE}"),
    KeywordPattern((" login ",), rf"[ \t]login[ \t](?:--?\S{{1,30}}[ \t]){{0,3}}(?P<v>{_BARE}{{20,200}})", "secret"),
    KeywordPattern(("redis-cli",), rf"redis-cli{_SAME_LINE}[ \t]-a[ \t]{_VALUE}"),
    KeywordPattern(
        ("ldap",),
        rf"ldap\w{{3,9}}{_SAME_LINE}[ \t]-w[ \t]?{_VALUE}",
    ),
    KeywordPattern(("7z", "unrar"), rf"(?:7za?|unrar)[ \t]{_SAME_LINE}[ \t]-p{_VALUE}"),
    KeywordPattern(("zip ",), rf"zip[ \t]{_SAME_LINE}-P[ \t]?{_VALUE}"),
    KeywordPattern(
        ("htpasswd",), rf"htpasswd[ \t]-\w{{0,6}}b\w{{0,6}}[ \t]{_SAME_LINE}\S{{1,100}}[ \t]\S{{1,60}}[ \t]{_VALUE}"
    ),
    KeywordPattern(("smbclient", "rpcclient"), rf"(?:smb|rpc)client{_SAME_LINE}[ \t]-U[ \t]?\S{{1,60}}?%{_VALUE}"),
    KeywordPattern(("/user:",), rf"/user:\S{{1,60}}[ \t]{_VALUE}"),
    KeywordPattern(
        ("echo ",),
        rf"echo[ \t](?:-n[ \t])?[\"']?[\w.-]{{1,60}}:(?P<v>{_BARE}{{4,200}})[\"']?[ \t]?"
        r"\|[ \t]?\S{0,30}(?:[ \t]\S{0,30})?chpasswd",
    ),
    KeywordPattern(
        ("echo ",), rf"echo[ \t](?:-n[ \t])?{_VALUE}[\"']?[ \t]?\|[^\n]{{0,100}}?(?:-stdin\b|\bsudo[ \t]-S)"
    ),
    KeywordPattern(("identified ",), rf"identified[ \t](?:with[ \t]\S{{1,40}}[ \t])?by[ \t](?:password[ \t])?{_VALUE}"),
    KeywordPattern(
        ("convertto-securestring",), rf"convertto-securestring[^\n]{{0,40}}?[ \t]{_QUOTE}(?P<v>[^\s\"'\\]{{4,200}})"
    ),
    KeywordPattern(
        ("@tcp(", "@unix(", "@udp("), r"(?<![\w.-])[\w.-]{1,60}:(?P<v>[^\s:\"'`\\]{3,100})@(?:tcp|unix|udp)\(", back=162
    ),
    KeywordPattern((":thin:",), r":thin:[\w$]{1,60}/(?P<v>[^\s@\"'\\]{3,100})@"),
    KeywordPattern(('auth"', "auth\\", "_auth"), rf"auth(?:{_QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}{_VALUE}", "login"),
    KeywordPattern(("_auth",), rf"_auth[ \t]{{0,4}}=[ \t]{{0,4}}{_VALUE}", "login"),
    KeywordPattern(('response="',), r'response="(?P<v>[a-f0-9]{32,64})"', "form"),
    KeywordPattern(("?code=", "&code="), r"[?&]code=(?P<v>[^\s\"'`&#\\]{20,400})", "secret"),
    KeywordPattern(("ssws ",), rf"ssws[ \t]{{1,4}}(?P<v>{_KEY_CHAR}{{20,80}})", "form"),
    KeywordPattern(("$apr1$",), r"\$apr1\$[./A-Za-z0-9]{1,8}\$(?P<v>[./A-Za-z0-9]{22})", "form"),
    KeywordPattern(
        ("pbkdf2",), r"pbkdf2[\w:.-]{0,20}\$[\w=,]{1,20}\$[^\s$]{4,100}\$(?P<v>[A-Za-z0-9+/=._-]{20,200})", "form"
    ),
    KeywordPattern(("scrypt:",), r"scrypt:[\d:]{3,30}\$[^\s$]{4,100}\$(?P<v>[A-Za-z0-9+/=._-]{20,200})", "form"),
    KeywordPattern(("{ssha", "{sha", "{smd5"), r"\{(?:ssha|sha|smd5)\d{0,3}\}(?P<v>[A-Za-z0-9+/=]{20,200})", "form"),
    KeywordPattern(
        ("authapikey(", "client("), rf"(?:authapikey|client)\({_QUOTE}(?P<v>[A-Za-z0-9_-]{{30,100}}){_QUOTE}", "secret"
    ),
    KeywordPattern(
        (
            "passwort",
            "kennwort",
            "mot de passe",
            "contrase",
            "senha",
            "palavra-passe",
            "parola d'ordine",
            "wachtwoord",
            "heslo",
            "salasana",
            "adgangskode",
            "hasło",
            "lösenord",
            "şifre",
            "mật khẩu",
            "пароль",
            "密码",
            "密碼",
            "口令",
            "秘密",
            "密钥",
            "密鑰",
            "パスワード",
            "暗号",
            "비밀번호",
            "암호",
            "كلمة المرور",
            "סיסמה",
        ),
        rf"[^\W_](?:[\w' -]){{1,14}}?{_ASSIGNED}{_VALUE}",
    ),
)
"""The last pattern has the words for "password" in other languages; between such a word and its value stands one of the
signs or words of `_ASSIGNED`."""

_PROSE_BEFORE = re.compile(r"(?i:\b(?:use|using|with|my|new)[ ](?:the[ ])?)\Z")
_AMBIGUOUS_FORMS = ("pair", "call", "prose", "text", "arrow", "part")
"""Forms that are often followed by something other than a secret, so that the value must look generated."""
_STEMS = {stem: [name for name in NAMES if stem in name] for stem in "pass pwd token secret credential key".split()}
_BY_WORD = {
    word: [pattern for pattern in KEYWORD_PATTERNS if word in pattern.words]
    for pattern in KEYWORD_PATTERNS
    for word in pattern.words
}
_FOREIGN = "[\u00df-\u02ff\u0370-\u1fff\u3040-\uffef]"


@cache
def _compiled(regex: str, *, ignore_case: bool) -> re.Pattern[str]:
    """Compile a regex when it is first used: most never are, and compiling all would make the import 5 ms slower."""
    return re.compile(regex, re.IGNORECASE if ignore_case else 0)


def find_prefixed_keys(text: str) -> list[Span]:
    """Find keys that begin with one of `PREFIXES`: the begin and end of each."""
    long = "\n".join(word for word in text.split() if len(word) >= 20)
    spans: list[Span] = []
    for prefix, rest in PREFIXES.items():
        if prefix not in long:
            continue
        for at in find_all(prefix, text):
            if at and text[at - 1].isalnum() and text[at - 1].isascii() and text[at - 2 : at - 1] != "\\":
                continue
            found = _compiled(rf"{rest}(?![A-Za-z0-9_-])", ignore_case=False).match(text, at + len(prefix))
            if found and any(map(str.isdigit, found[0])) and entropy(found[0]) >= 3:
                spans.append((at, found.end()))
    return _without_overlaps(spans)


def find_keyword_secrets(text: str, is_secret: SecretTest, mark: str) -> list[Span]:
    """Find secrets by `KEYWORD_PATTERNS`, and after one of `NAMES`: the begin and end of each.

    is_secret: says whether a value looks like a secret. mark: the beginning of what replaces a secret; a match that
    contains it is skipped.
    """
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    spans = list(_after_names(text, lowered, is_secret, mark))
    foreign = not text.isascii() and _compiled(_FOREIGN, ignore_case=False).search(text) is not None
    for word, patterns in _BY_WORD.items():
        if (not foreign and not word.isascii()) or word not in lowered:
            continue
        for at in find_all(word, lowered):
            for pattern in patterns:
                regex = _compiled(pattern.regex, ignore_case=True)
                begin = max(0, at - pattern.back)
                found = regex.search(text, begin, at + 20) if pattern.back else regex.match(text, at)
                if found and mark not in found[0] and _is_kind(pattern.kind, found["v"], is_secret):
                    spans.append(found.span("v"))
    return _without_overlaps(spans)


def _after_names(text: str, lowered: str, is_secret: SecretTest, mark: str) -> Iterator[Span]:
    for stem in _STEMS:
        if stem in lowered:
            yield from _after_names_with(stem, text, lowered, is_secret, mark)


def _after_names_with(stem: str, text: str, lowered: str, is_secret: SecretTest, mark: str) -> Iterator[Span]:
    after = _compiled(_AFTER_NAME, ignore_case=True)
    for name in _STEMS[stem]:
        kind = "password" if name.startswith(("pass", "pwd")) else "secret"
        for at in find_all(name, lowered):
            if text.endswith(mark, 0, at):
                continue
            found = after.match(text, at + len(name))
            way = found.lastgroup if found else None
            if found is None or way is None or mark in found[0]:
                continue
            begin, end = found.span(way)
            if way in ("prose", "wide"):
                end = begin + len(text[begin:end].rstrip(".!?:"))
            value = text[begin:end]
            before = text[max(0, at - 60) : at]
            said = kind == "password" and looks_generated(value) and _PROSE_BEFORE.search(before)
            if way == "option" and not (said or _compiled(_OPTION, ignore_case=False).search(before)):
                continue
            glued = at > 0 and text[at - 1].isalpha() and text[at].islower()  # `tiktoken("…")`
            if way in _AMBIGUOUS_FORMS and (not looks_generated(value) or (glued and kind == "secret")):
                continue
            if is_secret(kind, value):
                yield begin, end


def _is_kind(kind: str, value: str, is_secret: SecretTest) -> bool:
    if kind == "login":
        try:
            return b":" in base64.b64decode(value, validate=True)[1:-1]
        except binascii.Error:
            return False
    return kind == "form" or is_secret(kind, value)


def _without_overlaps(spans: list[Span]) -> list[Span]:
    """The spans in order, without those that overlap an earlier one."""
    kept: list[Span] = []
    for begin, end in sorted(spans):
        if not kept or begin >= kept[-1][1]:
            kept.append((begin, end))
    return kept
