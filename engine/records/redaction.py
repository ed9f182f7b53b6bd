r"""`Redaction`: find and replace keys, tokens, passwords, e-mail addresses, card numbers, and what you add.

    redact = Redaction(words=["Jane Doe"], patterns={"ticket": r"\bT-\d{4,}\b"})
    engine = Engine(provider, record_options=RecordOptions(redact=redact))

It finds secrets that have a recognisable form (many by the rules of gitleaks, `secret_rules.py`), and values where a
secret is expected: after `PASSWORD=` and `"token":`, in URLs, headers, commands and connection strings
(`secret_keywords.py`). It does not find names, addresses, or a password anywhere else: use `words`, `patterns`, or a
function of your own. `event_redaction.py` applies it to a record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Literal

from ..decision import WrongUse
from ..decision.errors import did_you_mean
from .entropy import entropy, has_many_humps, looks_random
from .format import REDACTION_MARK
from .secret_keywords import Span, find_keyword_secrets, find_prefixed_keys
from .secret_rules import SecretRule, secret_rules

# Every pattern takes time linear in the length of the text: repetitions are possessive (`++`) or bounded.

# A word begins after anything but a letter or digit, or after a JSON escape such as `\n`.
_WORD_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"

KINDS: dict[str, str] = {
    "private_key": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        r"|PuTTY-User-Key-File-\d:(?s:.*?)(?:Private-MAC:[^\n]{0,200}|\Z)"
    ),
    "credentials": (
        r"(?<=://)(?:[^\s/@:\"'<>]{0,100}:[^\s/@\"'<>]{1,200}(?:@[^\s/@\"'<>]{1,100}){0,2}(?=@)"
        r"|[A-Za-z0-9_.~-]{20,200}(?=@))"
        r"|(?<=[a-z]://)(?<!http://)(?<!https://)[^\s/@:\"'<>]{1,100}:[^\s@\"'<>]{1,200}(?=@[\w.-])"
    ),
    "token": (
        r"(?i:\b(?:bearer|(?:basic|token)(?=[ \t]{1,4}\S{0,200}\d))[ \t]{1,4})(?P<secret>[A-Za-z0-9._~+/=-]{16,}+)"
        rf"|{_WORD_START}eyJ[A-Za-z0-9_-]{{8,}}+(?:\.|%2E)[A-Za-z0-9_-]{{8,}}+(?:(?:\.|%2E)[A-Za-z0-9_-]{{8,}}+)?"
        r"|(?i:\b(?:set-)?cookie[\"']?:[ \t]{0,4})[\"']?(?P<cookie>[^\r\n\"'\\]{8,4000}+)"
    ),
    "api_key": (
        rf"{_WORD_START}(?:"
        r"sk-(?=[a-z_-]{0,100}[0-9A-Z])[A-Za-z0-9_-]{16,}+"
        r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
        r"|gh[pousr]_[A-Za-z0-9]{30,}+|github_pat_[A-Za-z0-9_]{30,}+"
        r"|gl(?:pat|rt|dt|cbt|ptt|ft|soat|imt|agent)-[A-Za-z0-9_-]{20,}+"
        r"|xox[abeprs]-[A-Za-z0-9-]{10,}+|xapp-\d-[A-Za-z0-9-]{20,}+"
        r"|AIza[A-Za-z0-9_-]{35}"
        r"|hf_[A-Za-z0-9]{30,}+"
        r"|npm_[A-Za-z0-9]{30,}+"
        r"|ya29\.[A-Za-z0-9_-]{20,}+|GOCSPX-[A-Za-z0-9_-]{20,}+"
        r"|gsk_[A-Za-z0-9]{30,}+|xai-[A-Za-z0-9]{30,}+|r8_[A-Za-z0-9]{30,}+|pplx-[A-Za-z0-9]{30,}+|whsec_[A-Za-z0-9+/=]{20,}+"
        r"|sbp_[a-f0-9]{30,}+|dop_v1_[a-f0-9]{40,}+|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}+|dckr_pat_[A-Za-z0-9_-]{20,}+"
        r"|hv[sb]\.[A-Za-z0-9_-]{20,}+|lin_(?:api|oauth)_[A-Za-z0-9]{30,}+|HRKU-[A-Za-z0-9_-]{30,}+|dapi[a-f0-9]{32}"
        r"|pypi-[A-Za-z0-9_-]{50,}+|SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{30,}+"
        r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}+|key-[a-f0-9]{32}(?![A-Za-z0-9])|SK[a-f0-9]{32}(?![A-Za-z0-9])"
        r"|\d{8,10}:AA[A-Za-z0-9_-]{32,}+"
        r")"
        r"|(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}+"
        r"|(?<=/api/webhooks/)\d{15,20}/[A-Za-z0-9_-]{40,}+"
        r"|(?<=\.webhook\.office\.com/)[^\s\"'<>\\]{40,400}"
    ),
    "password": (
        r"\bcurl\b[^\n]{0,200}?[ \t](?:-u|--user)[ \t=]{1,3}[\"']?[^\s:\"']{1,60}:(?P<curl>[^\s\"']{3,100})"
        r"|\blogin[ \t]{1,4}\S{1,100}[ \t]{1,4}password[ \t]{1,4}(?P<netrc>[^\s\"',\\]{3,200})"
        r"|\$(?:1|2[abxy]|5|6|y|7|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,}+"
        r"|(?m:^)[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<pgpass>[^\s:\"',\\]{6,100})(?m:$)"
    ),
    "email": (
        r"(?:(?<![\w.%+\\/:-])|(?<=mailto:)|(?<=\\[nrtbf]))[\w.%+-]++@(?:\w(?:[\w-]{0,61}\w)?\.){1,8}[^\W\d_]{2,63}(?!\w|:[\w/~])"
    ),
    "card": r"(?:(?<![\w.])|(?<=\\[nrtbf]))\d(?:[ -]?\d){12,}+",
    "iban": r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])",
    "ssn": r"(?<![\w.-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])",
    "phone": r"(?<![\w.-])(?!\d{4}-\d\d-\d\d)(?:\+|00)?\(?\d(?:[ ().\-/]{0,2}\d){7,14}(?!\w)",
}
"""The kinds of secrets, each with its pattern. Some are found by more than the pattern: a card number must have a known
issuer and a correct check digit (ISO/IEC 7812), an IBAN correct check digits (ISO 13616); `api_key` includes the rules
of `secret_rules.toml` and the prefixes of `secret_keywords.py`; `password` includes values after a name (`KEY=value`,
`"password":`) and after the keywords of `secret_keywords.py`, if they look like a secret."""
DEFAULT_KINDS = ("private_key", "credentials", "token", "api_key", "password", "email", "card", "iban", "ssn")
"""All kinds but telephone numbers, which look like too many other numbers."""
_GROUPS = re.compile(r"\d+|[ -]")
_ISSUERS = re.compile(r"3[0-9]|4|5[0-9]|6[0-9]|2[2-7]|81|82")
_ONCE = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED = bytes.maketrans(b"0123456789", bytes(sum(divmod(2 * digit, 10)) for digit in range(10)))
"""From a digit to what it adds to the sum of a card number, and every other digit."""
_SEPARATOR = re.compile(r"=>|:=|[=:]")
_VALUE = re.compile(
    r"[ \t]{0,8}(?:(?:Bearer|Basic|Token)[ \t]{1,4})?"
    r"(?:\\{0,4}[\"'`](?P<quoted>[^\"'`\\\s]{4,500})\\{0,4}[\"'`]"
    r"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\]{6,500})(?=[\s\"'`,;&|<>)}\]\\]|\Z))",
    re.IGNORECASE,
)
"""A value after a separator: in quotes, or up to the end of the word."""
_PASSWORD_ENDINGS = ("password", "passwd", "passphrase", "pwd")
_KEY_QUALIFIERS = (
    "api access secret private auth account encryption signing master client app service shared storage license admin "
    "deploy session subscription webhook role anon"
)
_SECRET_ENDINGS = (
    "secret",
    "token",
    "credential",
    "credentials",
    "connectionstring",
    "keybase",
    "keydata",
    "privatekeyid",
    *(f"{word}key" for word in _KEY_QUALIFIERS.split()),
)
_WHOLE_NAMES = ("pass", "psk", "pat", "sig", "signature")
"""Names that count only as whole words, because other words end like them."""
_NAME_CHARS = 40
"""The name before a separator is looked for in this many characters."""
_PLACEHOLDER = re.compile(
    r"x+|\*+|\.+|•+|[<$%{#&].*|.*[{}<>].*|.*\.\.\."
    r"|(?:your|my|some|the|new|old|user|test|example|dummy|fake|sample)[-_ ]?.*"
    r"|change[-_]?me.*|none|null|nil|true|false|undefined|string|str|bytes|integer|number|boolean|object|array|any"
    r"|required|optional|todo|placeholder|redacted|hidden|password|passwd|secret|token|process\.env.*|os\.environ.*"
    r"|import\.meta.*|env[:.].*|vault:.*|arn:.*|file:.*|[a-z]+://.*|[~./]{0,3}/.*|self\..*|this\..*",
    re.IGNORECASE | re.DOTALL,
)
_WORDS = re.compile(r"[A-Za-z_$]+(?:[-_.:/$ ]+[A-Za-z_$]+)*[!?.:]?")
_ASSIGNED_ID = re.compile(
    r"(?i:(?:^|[^A-Za-z])\w{0,30}(?:id|number|seq|nonce|timestamp|size|offset|no))[\"']?[ ]{0,4}[:=#][ ]{0,4}[\"']?\Z"
    r"|(?i:\b(?:order|invoice|ticket|tracking|parcel|issue|build|run|job)(?:[ ](?:no\.?|number|id))?[ ]{1,2}#?)\Z"
)


class Redaction:
    """A function that returns a text with its secrets replaced.

    kinds: which of `KINDS` to look for.
    patterns: additional regular expressions, by name. If one has a group `secret`, only that group is replaced.
    words: texts to replace wherever they occur as whole words, ignoring case.
    key: 16 to 64 bytes from which the marks are computed, if they should be equal in all processes; random if left out.

    A secret becomes its kind and a mark, such as `[redacted:email:3f9a1c]`. Equal secrets have equal marks, so a reader
    can still tell which are the same; without the key a mark reveals nothing. Raises WrongUse for an unknown kind, an
    invalid pattern, or a key of another length.
    """

    def __init__(
        self,
        *,
        kinds: Collection[str] = DEFAULT_KINDS,
        patterns: Mapping[str, str] | None = None,
        words: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        for name, several in (("kinds", kinds), ("words", words)):
            if isinstance(several, str):
                raise WrongUse(f"{name} must be a list of texts: write {name}=[{several!r}]")
        for kind in kinds:
            if kind not in KINDS:
                raise WrongUse(f"unknown kind of secret {kind!r}{did_you_mean(kind, KINDS)}")
        if key is not None and not 16 <= len(key) <= 64:
            raise WrongUse(f"the key of a redaction must have 16 to 64 bytes, not {len(key)}")
        self._key = os.urandom(32) if key is None else key
        self._by_rules, self._by_names = "api_key" in kinds, "password" in kinds
        chosen = {kind: KINDS[kind] for kind in KINDS if kind in kinds}
        self._patterns = [(name, _compile(name, text)) for name, text in {**chosen, **(patterns or {})}.items()]
        listed = sorted({word for word in words if word.strip()}, key=len, reverse=True)
        if listed:
            either = "|".join(map(re.escape, listed))
            word = rf"(?:(?<!\w)|(?<=\\[nrtbf]))(?:{either})(?!\w)"
            self._patterns.append(("word", re.compile(word, re.IGNORECASE)))

    def __call__(self, text: str) -> str:
        """The text with its secrets replaced."""
        for name, pattern in self._patterns:
            text = pattern.sub(lambda found, name=name: self._replace(name, found), text)  # type: ignore[misc]
            if name == "api_key" and self._by_rules:
                text = self._replace_spans("api_key", self._replace_by_rules(text), find_prefixed_keys)
            elif name == "password" and self._by_names:
                text = self._replace_spans("password", self._replace_named_values(text), _keyword_spans)
        return text

    def _replace_by_rules(self, text: str) -> str:
        lowered = text.lower()
        for rule in secret_rules():
            if any(keyword in lowered for keyword in rule.keywords):
                if rule.at_start and not any(rule.matches_at_keywords(text, lowered)):
                    continue
                text = rule.pattern.sub(lambda found, rule=rule: self._replace_match(rule, found), text)  # type: ignore[misc]
        return text

    def _replace_spans(self, name: str, text: str, spans: Callable[[str], Sequence[Span]]) -> str:
        parts: list[str] = []
        done = 0
        for begin, end in spans(text):
            parts += [text[done:begin], self._mark(name, text[begin:end])]
            done = end
        return "".join([*parts, text[done:]]) if parts else text

    def _replace_named_values(self, text: str) -> str:
        """Replace values whose name says that they are a password, a token or a key."""
        parts: list[str] = []
        done = 0
        for separator in _SEPARATOR.finditer(text):
            begin = separator.start()
            kind = _kind_of_name(text[max(done, begin - _NAME_CHARS) : begin]) if begin >= done else ""
            found = _VALUE.match(text, separator.end()) if kind else None
            if found is None:
                continue
            group = "quoted" if found["quoted"] else "bare"
            value = found[group]
            if REDACTION_MARK not in value and _is_secret(kind, value, quoted=group == "quoted"):
                parts += [text[done : found.start(group)], self._mark("password", value)]
                done = found.end(group)
        return "".join([*parts, text[done:]]) if parts else text

    def _replace_match(self, rule: SecretRule, found: re.Match[str]) -> str:
        secret = rule.secret(found)
        if REDACTION_MARK in found[0] or not rule.is_random_enough(found):
            return found[0]
        return found[0].replace(secret, self._mark("api_key", secret))

    def _replace(self, name: str, found: re.Match[str]) -> str:
        whole = found[0]
        if name == "card":
            return whole if _is_other_number(found) else self._replace_cards(whole)
        group = next((key for key, value in found.groupdict().items() if key != "name" and value), None)
        secret = found[group] if group is not None else whole
        if name in _PLAUSIBLE and (REDACTION_MARK in whole or not _PLAUSIBLE[name](found, group, secret)):
            return whole
        before, _, after = whole.rpartition(secret)
        return f"{before}{self._mark(name, secret)}{after}"

    def _mark(self, name: str, secret: str) -> str:
        mark = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3).hexdigest()
        return f"{REDACTION_MARK}{name}:{mark}]"

    def _replace_cards(self, run: str) -> str:
        """Replace the card numbers in a run of digit groups. A card number is one group, or several in a row."""
        groups = _GROUPS.findall(run)
        left: list[str] = []
        at = 0
        while at < len(groups):
            end = _end_of_card(groups, at) if groups[at].isdigit() else 0
            left.append(self._mark("card", "".join(groups[at:end])) if end else groups[at])
            at = end or at + 1
        return "".join(left)


def _kind_of_name(before: str) -> Literal["password", "secret", ""]:
    """Whether the name at the end of this text announces a password or another secret; empty for neither."""
    word = before.rstrip(" \t\"'\\]").rstrip("0123456789").lower()
    for ending in ("_base", "_base64", "_value", "_hash", "_string"):
        if word.endswith(ending) and not word.endswith("connection_string"):
            word = word.removesuffix(ending)
    word = word.replace("_", "").replace("-", "").replace(" ", "") if word[-1:].isalpha() else word.rstrip("_-")
    if word.endswith(_PASSWORD_ENDINGS):
        return "password"
    if word.endswith(_SECRET_ENDINGS):
        return "secret"
    alone = re.search(r"[A-Za-z]*\Z", before.rstrip(" \t\"'\\]"))
    if alone is not None and alone[0].lower() in _WHOLE_NAMES:
        return "password" if alone[0].lower() in ("pass", "psk") else "secret"
    return ""


def _is_secret(kind: str, value: str, *, quoted: bool) -> bool:
    """Whether a value in the position of a secret is one, and not a word, a placeholder or a piece of code."""
    if _PLACEHOLDER.fullmatch(value):
        return False
    if kind == "secret":
        drawn = len(value) >= 32 and value.isalnum() and entropy(value) >= 3.8 and sum(map(str.isdigit, value)) >= 3
        return drawn or (len(value) >= 10 and (looks_random(value) or has_many_humps(value)))
    if _WORDS.fullmatch(value):
        return looks_random(value) or has_many_humps(value)
    return any(c.isdigit() for c in value) and not value.isdigit() and (quoted or len(value) >= 8)


def _keyword_spans(text: str) -> Sequence[Span]:
    return find_keyword_secrets(text, lambda kind, value: _is_secret(kind, value, quoted=False), REDACTION_MARK)


def _is_password(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether the password argument of a command, or the password field of a file, is one."""
    if group is None:
        return True  # the hash of a password, which has its own form
    return not _PLACEHOLDER.fullmatch(value) and not _WORDS.fullmatch(value)


def _is_token(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what follows `bearer` or `cookie:` looks generated."""
    if group == "cookie":
        return any(looks_random(part.partition("=")[2] or part) for part in value.split(";"))
    if group is None:
        return True
    if value.startswith("/") or (value.count("/") > 1 and not looks_random(value)):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_login(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what precedes the host of a URL is a login: `user:password`, or a token."""
    colon, password = value.partition(":")[1:]
    if not colon:
        return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if re.fullmatch(r"(?:[A-Z]{1,20}_){0,3}(?:PASSWORD|PASSWD|PASS|PWD|TOKEN|SECRET|KEY)", password):
        return False  # a placeholder
    return len(password) >= 3 and not re.match(r"\d{1,5}(?:/|\Z)", password) and not password.startswith(("$", "{"))


def _is_iban(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether the check digits are right (ISO 13616)."""
    plain = value.replace(" ", "")
    digits = "".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(digits) % 97 == 1


_PLAUSIBLE: dict[str, Callable[[re.Match[str], str | None, str], bool]] = {
    "password": _is_password,
    "token": _is_token,
    "credentials": _is_login,
    "iban": _is_iban,
}


def _is_other_number(found: re.Match[str]) -> bool:
    """Whether the word before a number says that it is an id, a time, a size or the like."""
    return bool(_ASSIGNED_ID.search(found.string[max(0, found.start() - 40) : found.start()]))


def _end_of_card(groups: Sequence[str], begin: int) -> int:
    """The index after the longest card number that begins with this group; 0 if there is none."""
    digits, end = "", 0
    for at in range(begin, len(groups), 2):
        digits += groups[at]
        if len(digits) > 19 or (len(digits) > 1 and not _ISSUERS.match(_ascii_digits(digits[:2]))):
            break
        if len(digits) >= 13 and is_card_number(digits):
            end = at + 1
    return end


def is_card_number(text: str) -> bool:
    """Whether these digits can be a card number: 13 to 19, a known issuer, a correct check digit (ISO/IEC 7812)."""
    digits = _ascii_digits(text)
    if not 13 <= len(digits) <= 19 or not _ISSUERS.match(digits):
        return False
    values = digits.encode()
    return (sum(values[-1::-2].translate(_ONCE)) + sum(values[-2::-2].translate(_DOUBLED))) % 10 == 0


def _ascii_digits(text: str) -> str:
    """The digits in a text, also those of other scripts, as ASCII digits."""
    if text.isascii() and text.isdigit():
        return text
    return "".join(str(int(letter)) for letter in text if letter.isdigit())


def _compile(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongUse(f"the pattern {name!r} is not a valid regular expression: {error}") from None
