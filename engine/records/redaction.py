r"""`Redaction`: find and replace keys, tokens, passwords, e-mail addresses, card numbers, and what you add.

    redact = Redaction(words=["Jane Doe"], patterns={"ticket": r"\bT-\d{4,}\b"})
    engine = Engine(provider, record_options=RecordOptions(redact=redact))

It finds secrets that have a known form (`secret_rules.py`), values where a secret is expected, as after `PASSWORD=` and
`"token":`, in URLs, headers, commands, dialogues and key files (`secret_keywords.py`), and both in what is encoded
(`encoded_text.py`). It does not find names, addresses, or a password anywhere else: use `words`, `patterns`, or a
function of your own. `event_redaction.py` applies it to a record.

Each kind of secret is looked for in turn. What was found is covered for the next kind by a sign of the same length that
no pattern takes for a part of a value, so that all places are those of the original text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from ..decision import WrongUse
from ..decision.errors import did_you_mean
from ..decision.wrong_calls import checked
from .encoded_text import DecodedText, decoded_views, joined_lines
from .entropy import entropy, has_many_humps, is_passphrase, looks_random
from .format import REDACTION_MARK
from .secret_keywords import COVER, KEYWORDS, TOKEN_KEYWORDS, find_by_keywords, find_in_commands
from .secret_labels import NAME_CHARS, PHRASE, find_labelled, kind_of_label
from .secret_rules import JUDGED_CHARS, Span, begins_key, find_json_web_tokens, find_known_forms, lower_case

# Every pattern takes time linear in the length of the text: repetitions are possessive (`++`) or bounded, and none is
# tried again inside a run that it has seen the end of.

KINDS: dict[str, str] = {
    "private_key": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        r"|PuTTY-User-Key-File-\d:(?s:.*?)(?:Private-MAC:[^\n]{0,200}|\Z)"
    ),
    "credentials": (
        r"://(?P<login>[^\s/@:\"'<>]{0,100}:[^\s/@\"'<>]{1,200}(?:@[^\s/@\"'<>]{1,100}){0,2}(?=@)"
        r"|[A-Za-z0-9_.~-]{20,200}(?=@)"
        r"|(?<=[a-z]://)(?<!http://)(?<!https://)[^\s/@:\"'<>]{1,100}:[^\s@\"'<>]{1,200}(?=@[\w.-]))"
    ),
    "token": "",
    "api_key": (
        r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}+"
        r"|(?<=/api/webhooks/)\d{15,20}/[A-Za-z0-9_-]{40,}+"
        r"|(?<=\.webhook\.office\.com/)[^\s\"'<>\\]{40,400}"
    ),
    "password": (
        r"\$(?:1|2[abxy]|5|6|y|7|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,}+"
        r"|(?m:^)[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<pgpass>[^\s:\"',\\]{6,100})(?m:$)"
    ),
    "email": (
        r"(?:(?<![\w.%+\\/:-])|(?<=mailto:)|(?<=\\[nrtbf]))[\w.%+-]++@(?:\w(?:[\w-]{0,61}\w)?\.){1,8}[^\W\d_]{2,63}"
        r"(?!\w|:[\w/~])"
    ),
    "card": r"\d(?:(?<![\w.].)|(?<=\\[nrtbf].))(?:[ -]?\d){12,}+",
    "iban": r"[A-Z](?<![A-Za-z0-9].)[A-Z]\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])",
    "ssn": r"\d(?<![\w.-].)(?<!9)\d{2}(?<!000)(?<!666)-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])",
    "phone": r"(?<![\w.-])(?!\d{4}-\d\d-\d\d)(?:\+|00)?\(?\d(?:[ ().\-/]{0,2}\d){7,14}(?!\w)",
}
"""The kinds of secrets, each with its pattern, if it has one. Some are found by more than that: a card number must have
a known issuer and a correct check digit (ISO/IEC 7812), an IBAN correct check digits (ISO 13616); `token` is JSON
Web Tokens and the `TOKEN_PATTERNS` of `secret_keywords.py`; `api_key` includes the forms of `secret_rules.toml`;
`password` includes values after a name (`KEY=value`, `"password":`) and by the `KEYWORD_PATTERNS`, if they look like a
secret."""
DEFAULT_KINDS = ("private_key", "credentials", "token", "api_key", "password", "email", "card", "iban", "ssn")
"""All kinds but telephone numbers, which look like too many other numbers."""
_NEEDED = {"credentials": "://", "email": "@", "ssn": "-", "private_key": "-"}
"""What every match of a pattern contains: a text without it need not be searched."""
_GROUPS = re.compile(r"\d+|[ -]")
_LEAST_GROUP = 3
"""Digits in a group of a card number, except in the last: groups of two are a dump of bytes."""
_ISSUERS = re.compile(r"3[0-9]|4|5[0-9]|6[0-9]|2[2-7]|81|82")
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"  # Mastercard
    r"|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11,16}"  # American Express, Diners Club
    r"|35\d{14,17}|220[0-4]\d{12,15}"  # JCB, Mir
    r"|(?:50|5[6-9]|6\d|8[12])\d{11,17}"  # Maestro, Discover, UnionPay, RuPay and others
)
"""The issuers' prefixes with their lengths, as ISO/IEC 7812 and the schemes publish them."""
_ONCE = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED = bytes.maketrans(b"0123456789", bytes(sum(divmod(2 * digit, 10)) for digit in range(10)))
"""From a digit to what it adds to the sum of a card number, and every other digit."""
_NAMED = re.compile(
    r"(?:passw(?:or)?[dt]|pass[_ -](?:word|phrase|key)|passphrase|passcode|pwd|secret|token|cred(?:ential)?s?"
    r"|connection[_ -]?string|key(?:[_ -]?(?:base|data|id))?|pass|pw|psk|pat|private|unseal|fernet|salt|pepper|seed"
    r"|mnemonic|auth|jwt|pin|pincode|sid|sess(?:ion)?(?:[_ -]?id)?)[0-9_a-z-]{0,16}"
    r"(?:[ ]\d{1,2}|[ ]?\([^()\n]{1,20}\))?[\"'\\\]*_ \t]{0,4}(?:\[[\w*]{0,20}\][ \t]?)?"
    r"(?P<separator>=>|:=|[=:])"
)
"""A name that may be one of a secret, in lower case, and a separator."""
_VALUE = re.compile(
    r"[ \t*_]{0,8}(?:(?:Bearer|Basic|Token)[ \t]{1,4}|![\w!:./-]{1,30}[ ]|&\w{1,30}[ ]|\\[a-z]{2,12}(?=\{))?"
    r"(?:(?P<quote>[\"'`])(?P<quoted>(?:[^\"'`\\\s]|(?!(?P=quote))[\"'`]|\\[^\s]|''){4,499}+)(?P=quote)"
    r"|\\{1,4}[\"'`](?P<escaped>[^\"'`\\\s]{4,499}+)\\{1,4}[\"'`]"
    r"|\{(?P<braced>[^{}\s]{4,200}+)\}"
    r"|(?:\\{0,4}[\"'`])?(?P<long>[^\s\"'`,;&|<>(){}\[\]\\]{500})"
    r"|(?P<whole>(?![^\s]{0,200}[&;,|]\w{1,40}=)[^\s\"'`,;(){}\[\]\\]{6,499}+)(?=;{0,2}[ \t]{0,4}(?:\r?\n|\\n|\Z))"
    r"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\]{6,499}+)(?=[\s\"'`,;&|<>)}\]\\]|\Z))",
    re.IGNORECASE,
)
"""A value after a separator: in quotes, or up to the end of the word."""
_PHRASE_VALUE = re.compile(
    rf"[ \t]{{0,8}}(?:[|>][-+]?(?:\n|\\n)[ \t]{{1,20}})?(?:\\{{0,4}}[\"'`])?(?P<phrase>{PHRASE})(?=[ \t]{{0,4}}"
    rf"(?:\\{{0,4}}[\"'`]|\r?\n|\\[rn]|\Z))"
)
"""A passphrase up to the closing quote or the end of the line."""
_REST_OF_VALUE = re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\]*+")
_PLACEHOLDER = re.compile(
    r"x+|\*+|\.+|•+|.*(?:<[^<>]*>|\{[^{}]*\}|\$[({]).*|<.*|\{.*|\$[a-z_][\w.:>\[\]'-]*|%\w+%|%[(\d]?\w+[)]?s?|[#&]\w+|.*\.\.\."
    r"|(?:your|my|some|the|new|old|user|test|example|dummy|fake|sample)[-_ ]?.*"
    r"|change[-_]?me.*|none|null|nil|true|false|undefined|string|str|bytes|integer|number|boolean|object|array|any"
    r"|required|optional|todo|placeholder|redacted|hidden|password|passwd|secret|token|process\.env.*|os\.environ.*"
    r"|import\.meta.*|env[:.].*|vault:.*|arn:.*|file:.*|[a-z]+://.*|[~.]{1,3}/.*|/[\w.-]{0,30}(?:/.*)?|self\..*|this\..*",
    re.IGNORECASE | re.DOTALL,
)
_DIGIT = re.compile(r"[0-9]")
_OPENPGP_ID = re.compile(r"[0-9A-F]{16}|[0-9A-F]{40}")
_UUID = re.compile(r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_ONE_PHRASE = re.compile(PHRASE)
_SIGNS = re.compile(r"[!@#%^&*?+~]")
_CODE = re.compile(r"[\s(){}\[\];$<>.]|\w[&|=]|::|\?\?")
_WORDS = re.compile(r"[A-Za-z_$]+(?:[-_.:/$ ]+[A-Za-z_$]+)*[!?.:]?")
_ASSIGNED_ID = re.compile(
    r"(?i:(?:^|[^A-Za-z])\w{0,30}(?:id|number|seq|nonce|timestamp|size|offset|no))[\"']?[ ]{0,4}[:=#][ ]{0,4}[\"']?\Z"
    r"|(?i:\b(?:order|invoice|ticket|tracking|parcel|issue|build|run|job)(?:[ ](?:no\.?|number|id))?[ ]{1,2}#?)\Z"
)


@checked
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
        chosen = {kind: KINDS[kind] for kind in KINDS if kind in kinds}
        self._finders: list[tuple[str, Finder]] = []
        for name, pattern in {**chosen, **(patterns or {})}.items():
            compiled = _compile(name, pattern)
            if pattern:
                self._finders.append((name, partial(_find_pattern, name, compiled)))
            self._finders += [(name, finder) for finder in _FINDERS.get(name, ())]
        listed = sorted({word for word in words if word.strip()}, key=len, reverse=True)
        if listed:
            either = "|".join(map(re.escape, listed))
            word = rf"(?:(?<!\w)|(?<=\\[nrtbf]))(?:{either})(?!\w)"
            self._finders.append(("word", partial(_find_pattern, "word", re.compile(word, re.IGNORECASE))))

    def __call__(self, text: str) -> str:
        """The text with its secrets replaced."""
        parts: list[str] = []
        done = 0
        for found in _without_overlaps(self._find(text)):
            parts += [text[done : found.begin], self._mark(found.kind, found.secret)]
            done = found.end
        return "".join([*parts, text[done:]]) if parts else text

    def _find(self, text: str, depth: int = 0) -> list[Found]:
        """The secrets in a text, and in what is encoded in it."""
        text = _covered(text, [found.span() for found in _MARK.finditer(text)])
        finds = self._find_plain(text, self._finders)
        if depth == _MOST_ENCODINGS:
            return finds
        for view in decoded_views(text):
            finds += _in_source(view, self._find(view.text, depth + 1))
        forms = [(kind, finder) for kind, finder in self._finders if finder in _FORM_FINDERS]
        keys = [found[:2] for found in self._find_plain(text, forms)] if finds else []
        joined = joined_lines(_covered(text, keys), begins_key) if forms else None
        if joined is not None:
            finds += _in_source(joined, self._find_plain(joined.text, forms))
            for view in decoded_views(joined.text):
                finds += _in_source(joined, _in_source(view, self._find_plain(view.text, self._finders)))
        return finds

    @staticmethod
    def _find_plain(text: str, finders: Sequence[tuple[str, Finder]]) -> list[Found]:
        finds: list[Found] = []
        for kind, finder in finders:
            if spans := list(finder(text)):
                finds += [Found(begin, end, kind, text[begin:end]) for begin, end in spans]
                text = _covered(text, spans)
        return finds

    def _mark(self, name: str, secret: str) -> str:
        mark = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3).hexdigest()
        return f"{REDACTION_MARK}{name}:{mark}]"


class Found(NamedTuple):
    """A secret that was found."""

    begin: int
    end: int
    """Where it stands in the text, as it is written there."""
    kind: str
    secret: str
    """The secret itself, decoded."""


Finder = Callable[[str], Iterable[Span]]
"""Returns the begin and end of each secret of one kind in a text."""
_MOST_ENCODINGS = 2
"""How many encodings may be put one into the other."""
_MARK = re.compile(rf"{re.escape(REDACTION_MARK)}[^\s:\[\]]{{1,60}}:[0-9a-f]{{6}}\]")


def _in_source(view: DecodedText, finds: Iterable[Found]) -> Iterator[Found]:
    """What was found in a decoded text, with the places in the text that it comes from."""
    for found in finds:
        yield found._replace(begin=(span := view.source(found.begin, found.end))[0], end=span[1])


def _covered(text: str, spans: Sequence[Span]) -> str:
    """The text with these parts covered, each by a text of the same length, in brackets as a mark is."""
    parts: list[str] = []
    done = 0
    for begin, end in sorted(spans):
        if end <= done:
            continue
        begin = max(begin, done)
        parts += [text[done:begin], f"[{COVER * (end - begin - 2)}]" if end - begin > 2 else COVER * (end - begin)]
        done = end
    return "".join([*parts, text[done:]]) if parts else text


def _without_overlaps(finds: list[Found]) -> list[Found]:
    """The finds in order. Those that overlap become one, which is named after the first of the longest."""
    kept: list[Found] = []
    for found in sorted(finds, key=lambda found: (found.begin, -found.end)):
        if kept and found.begin < kept[-1].end:
            if found.end > kept[-1].end:
                kept[-1] = kept[-1]._replace(end=found.end, secret=kept[-1].secret + found.secret)
        elif found.end > found.begin:
            kept.append(found)
    return kept


# ---- what finds the secrets of a kind


def _find_pattern(name: str, pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    if _NEEDED.get(name, "") not in text:
        return
    plausible = _PLAUSIBLE.get(name)
    for found in pattern.finditer(text):
        if name == "card":
            yield from () if _is_other_number(found) else _cards_in(found)
            continue
        group = next((key for key, value in found.groupdict().items() if key != "name" and value), None)
        span = found.span(group) if group is not None else found.span()
        if plausible is None or (COVER not in found[0] and plausible(found, group, text[slice(*span)])):
            yield span


def _find_key_ends(text: str) -> Iterator[Span]:
    """The lines before the end of a private key whose beginning is not there."""
    done = 0
    for end in _KEY_END.finditer(text):
        before = text[done : end.start()]
        begin = len(before)
        for line in reversed(list(_KEY_LINE.finditer(before, len(before.rstrip(_KEY_CHARS))))):
            if len(line[0]) < _LEAST_KEY_LINE and begin < len(before):
                break
            begin = line.start()
        if begin < len(before):
            yield done + begin, end.end()
        done = end.end()


def _find_keys(text: str) -> list[Span]:
    return find_known_forms(text, lower_case(text))


def _find_tokens(text: str) -> list[Span]:
    return find_by_keywords(TOKEN_KEYWORDS, text, lower_case(text), _is_value)


def _find_by_keywords(text: str) -> list[Span]:
    lowered = lower_case(text)
    return [
        *find_by_keywords(KEYWORDS, text, lowered, _is_value),
        *find_in_commands(text, lowered, _is_value),
    ]


def _find_labelled(text: str) -> list[Span]:
    return list(find_labelled(text, lower_case(text), _is_value))


def _find_named_values(text: str) -> Iterator[Span]:
    """Values whose name says that they are a password, a token or a key."""
    done = 0
    for named in _NAMED.finditer(lower_case(text)):
        begin = named.start("separator")
        kind = _kind_of_name(text[max(done, begin - NAME_CHARS) : begin]) if begin >= done else ""
        if not kind:
            continue
        phrase = _PHRASE_VALUE.match(text, named.end())
        if phrase and is_passphrase(phrase["phrase"]):
            done = phrase.end("phrase")
            yield phrase.span("phrase")
            continue
        found = _VALUE.match(text, named.end())
        if found is None:
            continue
        group = found.lastgroup or ""
        value = found[group][:JUDGED_CHARS]
        if COVER not in value and _is_secret(kind, value, quoted=group not in ("bare", "whole", "long")):
            done = found.end(group)
            if group == "long":
                done = _REST_OF_VALUE.match(text, done).end()  # type: ignore[union-attr]
            yield found.start(group), done
        elif group == "long":
            done = found.end(group) - JUDGED_CHARS  # so long a run is judged once


def _cards_in(run: re.Match[str]) -> Iterator[Span]:
    """The card numbers in a run of digit groups. A card number is one group, or several in a row."""
    groups = _GROUPS.findall(run[0])
    at, begin = 0, run.start()
    while at < len(groups):
        end = _end_of_card(groups, at) if groups[at].isdigit() else 0
        length = sum(map(len, groups[at : end or at + 1]))
        if end:
            yield begin, begin + length
        begin += length
        at = end or at + 1


_DEFAULT = re.compile(r"(?:\[[\w*]{0,20}\]|\((?!pub|id\b|hash)[^()\n]{1,20}\)[ *_]{0,3})[ \t]?\Z")
"""What stands between a name and its colon: `Secret Access Key [None]:`, `key (hex):`."""


_RESOURCES = (":secret", ":Secret")
"""The kind of a resource, which its name follows: `arn:aws:secretsmanager:eu-west-1:123456789012:secret:…`."""


def _kind_of_name(before: str) -> str:
    """What the name at the end of this text announces, as `kind_of_label` says it."""
    if before.rstrip(" *_").endswith(("]", ")")):
        before = _DEFAULT.sub("", before)
    name = before.rstrip(" \t\"'\\]*_")
    return "" if name.endswith(_RESOURCES) else kind_of_label(name)


def _is_secret(kind: str, value: str, *, quoted: bool) -> bool:
    """Whether a value in the position of a secret is one, and not a word, a placeholder or a piece of code."""
    if kind == "pin":
        return value.isdigit() and 4 <= len(value) <= 12
    if kind == "session":
        return len(value) >= 20 and not _UUID.fullmatch(value) and _is_secret("secret", value, quoted=quoted)
    if kind == "key":
        mixed = not value.islower() and not value.isupper() and len(value) >= 20
        return mixed and _is_secret("secret", value, quoted=quoted)
    if kind == "password" and _ONE_PHRASE.fullmatch(value):
        return not _PLACEHOLDER.fullmatch(value) and is_passphrase(value)
    if _DIGIT.search(value) is None and (value.islower() or value.isupper()):
        return False
    if _PLACEHOLDER.fullmatch(value):
        return False
    if value.count("/") > 1 and not looks_random(value):
        return False
    if kind == "secret":
        if _OPENPGP_ID.fullmatch(value):
            return False
        digits = sum(map(str.isdigit, value))
        enough = digits >= 3 or (digits and has_many_humps(_DIGIT.sub("", value)))
        drawn = len(value) >= 32 and value.isalnum() and entropy(value) >= 3.8 and enough
        return bool(drawn) or (len(value) >= 10 and (looks_random(value) or has_many_humps(value)))
    if _WORDS.fullmatch(value):
        return looks_random(value) or has_many_humps(value)
    if not quoted and len(value) < 8:
        return False
    return (_DIGIT.search(value) is not None and not value.isdigit()) or looks_random(value) or _is_signed(value)


def _is_signed(value: str) -> bool:
    """Whether small letters, capitals and signs are mixed, as in a password without digits."""
    signs = len(_SIGNS.findall(value[:-1]))
    return signs > 0 and not value.islower() and not value.isupper() and len(value) >= 8 and not _CODE.search(value)


def _is_value(kind: str, value: str) -> bool:
    if kind == "phrase":
        return is_passphrase(value)
    if kind == "argument":
        return not _PLACEHOLDER.fullmatch(value) and not _WORDS.fullmatch(value)
    return _is_secret(kind, value[:JUDGED_CHARS], quoted=False)


def _is_password(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether the password argument of a command, or the password field of a file, is one."""
    if group is None:
        return True  # the hash of a password, which has its own form
    return not _PLACEHOLDER.fullmatch(value) and not _WORDS.fullmatch(value)


def _is_login(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what precedes the host of a URL is a login: `user:password`, or a token."""
    colon, password = value.partition(":")[1:]
    if not colon:
        return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if re.fullmatch(r"(?:[A-Z]{1,20}_){0,3}(?:PASSWORD|PASSWD|PASS|PWD|TOKEN|SECRET|KEY)", password):
        return False  # a placeholder
    return (
        len(password) >= 3 and not re.match(r"\d{1,5}(?:/|\Z)", password) and not password.startswith(("$", "{", "%("))
    )


def _is_iban(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether the check digits are right (ISO 13616)."""
    plain = value.replace(" ", "")
    digits = "".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(digits) % 97 == 1


_PLAUSIBLE: dict[str, Callable[[re.Match[str], str | None, str], bool]] = {
    "password": _is_password,
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
        if at > begin and len(groups[at - 2]) < _LEAST_GROUP:
            break
        if len(digits) > 19 or (len(digits) > 1 and not _ISSUERS.match(_ascii_digits(digits[:2]))):
            break
        if len(digits) >= 13 and is_card_number(digits):
            end = at + 1
    return end


def is_card_number(text: str) -> bool:
    """Whether these digits can be a card number: 13 to 19, a known issuer, a correct check digit (ISO/IEC 7812)."""
    digits = _ascii_digits(text)
    if not _CARD.fullmatch(digits):
        return False
    values = digits.encode()
    return (sum(values[-1::-2].translate(_ONCE)) + sum(values[-2::-2].translate(_DOUBLED))) % 10 == 0


def _ascii_digits(text: str) -> str:
    """The digits in a text, also those of other scripts, as ASCII digits."""
    if text.isascii() and text.isdigit():
        return text
    return "".join(str(int(letter)) for letter in text if letter.isdigit())


_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_CHARS = "".join(map(chr, (*range(48, 58), *range(65, 91), *range(97, 123)))) + "+/=\r\n\t \\"
_KEY_LINE = re.compile(r"(?:(?<=\\n))?[A-Za-z0-9+/=]+")
_LEAST_KEY_LINE = 16
"""Characters in a line of a key, except in its last line."""

_FINDERS: dict[str, tuple[Finder, ...]] = {
    "private_key": (_find_key_ends,),
    "token": (find_json_web_tokens, _find_tokens),
    "api_key": (_find_keys,),
    "password": (_find_named_values, _find_labelled, _find_by_keywords),
}
"""What finds the secrets of a kind, beside its pattern."""
_FORM_FINDERS = (find_json_web_tokens, _find_keys)
"""Those that look at nothing but the secret itself."""


def _compile(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongUse(f"the pattern {name!r} is not a valid regular expression: {error}") from None
