r"""Secrets that are found by a label: a name that says what its value is, in whatever notation the two stand together.

`kind_of_label` judges a name by its words: `dbPasswordProd` labels a password, `passwordHint` does not. Where such a
name stands, `find_labelled` tries the notations that put the value after the name (an element, a pair, a call, a
default, a line of configuration, a sentence) and those that put it before. `KEY=value` is found by `redaction.py`.

Every repetition in a pattern is bounded, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from string import ascii_letters
from typing import Literal, NamedTuple

from .entropy import is_passphrase, looks_generated, looks_random
from .secret_columns import ColumnName, find_in_columns, may_be_column
from .secret_keywords import BARE, COVER, EOL, QUOTE, SPACED, SecretTest, compiled
from .secret_rules import Span, find_all

Kind = Literal["password", "secret", "key", "session", "pin", ""]
"""What a label announces: a password, a random token, a key of whatever kind, the id of a session, a short number, or
none of these."""

PHRASE = (
    rf"(?:{SPACED}|[A-Za-z][a-z]{{2,11}}(?P<joint>[-_.+~*!#%^&@=,])[A-Za-z][a-z]{{2,11}}"
    r"(?:(?P=joint)[A-Za-z][a-z]{2,11}){1,9})"
)
"""Three words or more with the same sign between them, or spaces: a passphrase, a name, or prose."""

# ---- labels

_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "pwd")
_KEY_QUALIFIERS = (
    "api access secret private auth account encryption decryption signing validation machine master client app "
    "application service shared storage license admin deploy session subscription webhook role anon unseal recovery"
)
"""What stands before "key" where the key is a secret, also if it consists of small letters and digits."""
_OTHER_KEYS = frozenset(
    "public pub primary foreign partition sort sorting cache row object index hash range unique natural composite "
    "surrogate lookup map dict json idempotency dedup dedupe routing message group translation i18n locale shortcut "
    "hot arrow enter react query state bucket blob file image img asset manifest chunk module registry config setting "
    "option menu nav tab column field label title order compare cursor page prev start last first max min host known "
    "authorized fingerprint jwk gpg pgp verify verification trust the a this each every by from with for using of in "
    "to and or no is ed rsa ecdsa dsa".split()
)
"""The same, where it is none."""
_SECRETS = (
    "secret",
    "token",
    "credential",
    "credentials",
    "connectionstring",
    "keybase",
    "keydata",
    "authsalt",
    "passkey",
    "privatekeyid",
    *(f"{word}key" for word in _KEY_QUALIFIERS.split()),
)
_SECRET_WORDS = frozenset("pat salt pepper seed mnemonic jwt auth creds pkey apikey private unseal fernet".split())
"""Words that count only as whole words, because other words end like them."""
_SESSION = re.compile(
    r".*sess(?:ion)?(?:id)?(?<!assess)(?<!obsess)|(?:php|j|asp)?.*sessionid|.*(?<!in)(?<!re)(?<!pre)(?<!be)(?<!a)sid"
    r"|.*(?:auth|jwt|csrf|xsrf)(?<!oauth)|remember(?:me|token|usertoken)?"
)
"""The last word of the name of a cookie that stands for a login, whatever is before it."""
_NOT_PASS = frozenset("bypass compass encompass surpass trespass underpass overpass".split())
_HASHED = frozenset("hash hashed digest fingerprint checksum sha sha256 md5 thumbprint policy file path url".split())
"""Words of a name whose value is not the secret itself."""
_NEUTRAL = frozenset(
    "base value val values string plain plaintext cleartext text default prod production dev development test "
    "testing staging stage live old new current previous confirm confirmation again raw data env main primary "
    "secondary here b".split()
)
"""Words at the end of a name that leave it what it is: `PASSWORD_PROD`, `secret_key_base`."""
_WORD_OF_NAME = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_NAME_SIGNS = "_.- " + "".join(map(chr, (*range(48, 58), *range(65, 91), *range(97, 123))))
NAME_CHARS = 40
"""The name before a value is looked for in this many characters."""


def kind_of_label(name: str) -> Kind:
    """What a name in any spelling (`db-password`, `dbPassword`, `DB PASSWORD_1`) says that its value is."""
    return _kind_of_name(name[len(name.rstrip(_NAME_SIGNS)) :])


@lru_cache(1000)
def _kind_of_name(name: str) -> Kind:
    words = [word.lower() for word in _WORD_OF_NAME.findall(name)]
    while words:
        kind = _kind_of_words(words)
        if kind or words[-1] not in _NEUTRAL:
            return kind
        words.pop()
    return ""


def _kind_of_words(words: list[str]) -> Kind:
    last, joined = words[-1], "".join(words[-4:])
    if "hashed" in words or "public" in words:
        return ""
    if joined.endswith(_PASSWORDS) or (last.endswith(("pass", "pw", "psk")) and last not in _NOT_PASS):
        return "password"
    if joined.endswith(_SECRETS) or last in _SECRET_WORDS:
        return "secret"
    if last == "key" and len(words) > 1 and words[-2] not in _OTHER_KEYS:
        return "key"
    if _SESSION.fullmatch(last) or words[-2:] == ["session", "id"] or words[:1] == ["remember"]:
        return "session"
    return "pin" if last in ("pin", "pincode") else ""


# ---- notations


def _quoted(group: str, least: int = 4) -> str:
    """A regular expression of a value in quotes, in this group. A quote inside is doubled, as in SQL."""
    sign = r"[^\s\"'\\]"
    counted = rf"(?=(?:{sign}|''){{{least}}}){sign}{{0,200}}+(?:''{sign}{{0,100}}+){{0,3}}"
    return rf"(?P<{group}>{SPACED}|{counted})"


_IS = r"(?:is|was|to|ist|lautet|est|es|è|é|sarà|será|är|er|je|jest|on|adalah)"
"""What stands between a label and its value in a sentence."""
_QUOTES = "\\\"'`«»“”„‘’‚\u00a0\u202f"
_NOTATIONS = (
    (
        f"{_QUOTES} \t>",
        rf"(?:{QUOTE})?(?:[ \t][^<>\n]{{0,60}}|(?<=[\"'])[^<>\n]{{0,60}})?>\s{{0,40}}(?:<[\w:]{{1,20}}>\s{{0,40}})?"
        rf"(?:(?P<element>{SPACED}|[^<>\s\"\\]{{4,400}})</"  # <password>…</, <property name="password">…</
        r"|<!\[CDATA\[(?P<cdata>[^\s\]]{4,400})\]\]>)",
    ),
    (
        "<",
        r"</[\w:]{1,30}>(?:\s{0,40}</?[\w:]{1,30}(?:[ \t][^<>\n]{0,40})?>){1,5}\s{0,40}"
        rf"(?P<next>{SPACED}|[^<>\s\"\\]{{4,400}})</",  # <key>password</key><string>…</string>
    ),
    (
        " \t:*`().,",
        rf"[^\n<>=]{{0,80}}:[ \t]{{0,4}}(?:{EOL}[ \t>|*`-]{{0,12}}){{1,3}}"
        rf"(?P<below>{BARE}{{8,400}})(?=`{{0,3}}[ \t]{{0,4}}(?:{EOL}|\Z))",  # the following password …:, and it alone
    ),
    (
        _QUOTES,
        rf"{QUOTE}\)?[ \t]{{0,4}},[ \t]{{0,4}}{QUOTE}{_quoted('pair', 6)}{QUOTE}(?![ \t]?:)",  # define('PASSWORD', '…')
    ),
    ("(", rf"\([ \t]?N?{QUOTE}{_quoted('call', 6)}{QUOTE}"),  # setPassword("…")
    (_QUOTES, rf"{QUOTE}[^<>\n]{{0,80}}?\bvalue={QUOTE}{_quoted('value')}{QUOTE}"),  # name="password" value="…"
    (
        " \t:=",
        rf"(?:[ \t]{{0,4}}:[ \t]{{0,4}}[&\w.\[\]|?]{{1,40}})?[ \t]{{0,8}}=[ \t]{{0,4}}[@$&A-Za-z]{{0,2}}[\[({{]{{0,2}}"
        rf"{QUOTE}{_quoted('typed')}{QUOTE}",  # password: &str = "…"
    ),
    (f"{_QUOTES} \t", rf"{QUOTE}?[ \t]{{1,8}}(?:\.[ \t])?N?{QUOTE}{_quoted('text')}{QUOTE}"),  # #define PASSWORD "…"
    (
        " \t",
        rf"(?:[ \t][^\n.!?:;=<>\"`(){{}}]{{1,60}}?)?[ \t]{{1,4}}{_IS}[ :]{{1,3}}"
        rf"{QUOTE}?(?P<prose>{SPACED}(?={QUOTE})|{BARE}{{6,200}})",  # the password for … is …
    ),
    (" \t：＝", rf"[ \t]{{0,4}}[：＝][ \t]{{0,4}}{QUOTE}?(?P<wide>{BARE}{{6,200}})"),
    (
        _QUOTES,
        rf"{QUOTE}[ \t]{{0,4}}\{{[^{{}}]{{0,200}}?\bdefault[ \t]{{0,8}}=[ \t]{{0,4}}"
        rf"{QUOTE}{_quoted('default')}",  # variable "password" {{ default = "…" }}
    ),
    (
        " \t-→|—–",
        rf"[ \t]{{0,4}}(?:->|→|\||—|–)[ \t]{{0,4}}{QUOTE}?(?P<arrow>{BARE}{{6,200}})",  # password -> …, | password | …
    ),
    (
        f"{_QUOTES}, \t\r\n",
        rf"(?:(?:{QUOTE})?,?\s{{0,30}}{QUOTE}(?:type|ephemeral|scope|secure|secret){QUOTE}[ ]?:[ ]?{QUOTE}?\w{{1,20}})"
        rf"{{0,2}}(?:{QUOTE})?,?\s{{0,30}}(?:{QUOTE})?\w{{0,20}}value(?:{QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}"
        rf"(?:{QUOTE}{_quoted('entry')}{QUOTE}|(?P<bare_entry>{BARE}{{6,200}}))",  # name: password, value: …
    ),
    ('"', rf"\"\s{{2,6}}(?P<part>{BARE}{{6,200}})"),  # a part of a form: name="password", an empty line, …
    ("\r\n\\", rf"{EOL}V[ ]\d{{1,3}}{EOL}(?P<counted>[^\s\\]{{4,200}})"),  # Subversion: K 8, password, V 12, …
    (" \t", r"[ \t]51:b:(?P<typed_bytes>[A-Za-z0-9+/=]{8,400})"),  # a file of Remote Desktop
    (
        " \t",
        rf"[ \t]{{1,4}}(?P<option>[^\W_]{BARE}{{5,200}})(?=[\s\"'`,;&|<>)}}\]\\]|\Z)",  # --password …, setx TOKEN …
    ),
    (
        " \t:=",
        rf"[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:[|>][-+0-9]{{0,2}}|[\"']{{3}}"
        rf"|\$\([ \t]?cat[ \t]?<<-?[ \t]?[\"'\\]{{0,2}}\w{{1,30}}[\"']?|\\)"
        rf"[ \t]{{0,4}}{EOL}[ \t]{{0,40}}(?P<block>{BARE}{{6,500}}(?:{EOL}[ \t]{{1,40}}{BARE}{{6,500}}(?=[ \t]?"
        rf"(?:{EOL}|\Z))){{0,30}})",
    ),
    (
        "_.-\"' \t<",
        rf"[\w.-]{{0,20}}[\"']?[ \t]{{0,4}}<<-?[ \t]?[\"'\\]{{0,2}}\w{{1,30}}[\"']?[ \t]{{0,4}}{EOL}[ \t]{{0,40}}"
        rf"(?P<heredoc>{BARE}{{6,500}})",
    ),
)
"""The notations that put a value behind a label: the characters that they begin with, and what stands from the end of
the name to the end of the value; the group is named after the notation."""


@cache
def _notations(sign: str) -> re.Pattern[str] | None:
    """The notations that begin with this character."""
    either = "|".join(regex for signs, regex in _NOTATIONS if sign in signs)
    return re.compile(either, re.IGNORECASE) if either else None


_WEAK = frozenset(("pair", "call", "prose", "text", "arrow", "part", "below"))
"""Notations that often have something other than a secret, so that the value must look generated."""
_VARIABLE = (
    r"(?:^|[\s\"'`(])--?(?!no-)[\w-]{0,30}\Z"
    r"|\b(?i:setx?|env|export|arg|configure set|config set)[ \t]{1,4}(?:\S{0,60}[:.])?"
    r"(?:-\w{1,8}[ \t]{1,4}){0,2}\w{0,40}\Z"
)
"""What precedes a name whose value follows a space: the dashes of an option, or a command that sets variables."""
_LINE = r"(?:^|\n|\\n)[ \t]{0,20}(?:[a-z0-9./-]{1,30}[ ]){0,6}[\w-]*\Z"
_DIRECTIVE = r"(?:^|\n|\\n)[ \t]{0,20}(?:[a-z0-9./-]{1,30}[ ])?[\w-]*\Z"
"""The beginning of a line of configuration: nothing, or words of small letters."""
_END_OF_LINE = r"[ \t]{0,20}(?:\r?\n|\\n|\Z)"
_STATED = (
    r"(?:[ (]:[\w-]*|#[ \t]*define[ \t]{1,8}\w*|\b(?:const|final|set|with|encrypted|identified by)[ \t]{1,4}\w*"
    r"|(?:put|set|add|append|header|define|property|setdefault|env|insert)\w{0,20}\([\"'][\w.-]*)\Z"
)
"""What precedes the name where a text after it can only be its value."""
_PROSE_BEFORE = r"(?i:\b(?:use|using|with|my|new)[ ](?:the[ ])?)\Z"
_LABEL_ATTRIBUTE = r"(?:name|key|id)=[\"'][\w.:-]*\Z"
_NAMED_BEFORE = r"(?:name|key)(?:\\{0,4}[\"'])?[ \t]{0,8}[:=][ \t]{0,8}(?:\\{0,4}[\"'])?[\w.-]*\Z"
_VALUE_BEFORE = (
    rf"value(?:{QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?:{QUOTE}{_quoted('quoted')}{QUOTE}"
    rf"|(?P<v>{BARE}{{6,200}})),?\s{{0,30}}(?:{QUOTE}|-[ ])?\w{{0,20}}{_NAMED_BEFORE}"
)
"""A value that precedes its name: `value: …, name: PASSWORD`."""
_SAID = frozenset("as is ist als est es è é comme como come".split())
_SAID_SIGNS = f" _-{ascii_letters}"
"""What the known part of a name may follow in a sentence."""
_STEMS = (
    "pass pwd pw psk kennwort secret token cred key private unseal fernet salt pepper seed mnemonic sess _pat "
    ".sid \"sid 'sid"
).split()
"""What every name has in it that `kind_of_label` knows; with a sign before it where other words have it, too."""
_NAME_REST = re.compile(r"(?:[_-]?[A-Za-z0-9]){0,24}+(?!_?[A-Za-z0-9])")


def find_labelled(text: str, lowered: str, is_secret: SecretTest) -> Iterator[Span]:
    """Find secrets by the label that stands before or after them: the begin and end of each.

    lowered: the text in lower case, of the same length. is_secret: says whether a value looks like a secret.
    """
    labels = _labels(text, lowered)
    begins = [label.begin for label in labels] + [len(text)] * _REACH
    for number, label in enumerate(labels, 1):
        after = list(_after(label, begins[number + _REACH - 1], is_secret))
        yield from after or _near(label, begins[number])
        yield from _before(label, is_secret)
    columns = [ColumnName(label.begin, label.end, label.kind) for label in labels if label.may_be_column]
    yield from find_in_columns(text, columns, is_secret)


_REACH = 3
"""The value of a label begins and ends before the label that is so many labels behind it."""


def _labels(text: str, lowered: str) -> list[_Label]:
    """The labels in a text, in order."""
    labels: dict[int, _Label] = {}
    for stem in _STEMS:
        for at in find_all(stem, lowered):
            at += text[at] in "\"'."
            rest = _NAME_REST.match(text, at)
            if rest is not None and rest.end() not in labels:
                kind = kind_of_label(text[max(0, at - NAME_CHARS) : rest.end()])
                if kind and kind != "key":
                    labels[rest.end()] = _Label(text, at, rest.end(), kind)
    return [labels[end] for end in sorted(labels)]


class _Label(NamedTuple):
    """A name of a secret in a text."""

    text: str
    begin: int
    """Where the part of the name begins that is known; more of it may stand before."""
    end: int
    kind: Kind

    def follows(self, regex: str) -> bool:
        """Whether the regex matches up to the known part of the name."""
        return compiled(regex).search(self.text, max(0, self.begin - 80), self.begin) is not None

    @property
    def is_glued(self) -> bool:
        """Whether the known part of the name goes on a word, as in `tiktoken`."""
        return self.begin > 0 and self.text[self.begin - 1].isalpha() and self.text[self.begin].islower()

    @property
    def goes_on(self) -> bool:
        """Whether the name goes on behind its known part, as in the classes of style sheets."""
        return self.text[self.end : self.end + 1] in ("_", "-")

    @property
    def may_be_column(self) -> bool:
        """Whether the name stands as the name of a column does."""
        return may_be_column(self.text, self.begin, self.end)

    @property
    def is_identifier(self) -> bool:
        """Whether the name is one of a program or a file, and not a word of a sentence."""
        return "_" in self.text[max(0, self.begin - 1) : self.end] or self.text[self.begin : self.end].isupper()


def _after(label: _Label, limit: int, is_secret: SecretTest) -> Iterator[Span]:
    text = label.text
    notations = _notations(text[label.end]) if label.end < limit else None
    found = notations.match(text, label.end, limit) if notations else None
    notation = found.lastgroup if found else None
    if found is None or notation is None or COVER in found[0]:
        return
    begin, end = found.span(notation)
    if notation in ("prose", "wide"):
        end = begin + len(text[begin:end].rstrip(".!?:"))
    value = text[begin:end]
    if _is_secret_of(label.kind, value, is_secret) and _may_follow(label, notation, value, end):
        yield begin, end


_NEAR = 60
"""Characters behind a label, in its line and the next one, in which a generated value is taken for its value."""
_VALUE_NEAR = re.compile(r"(?<![^\s\"'`=:(>])[^\s\"'`=:,;()<>{}\[\]\\]{8,200}(?![^\s\"'`;,)<])")
_NO_VALUE = re.compile(
    r"(?:0x)?[0-9a-fA-F.-]+|.*/.*|.*\$[\w{(].*|[^@]+@[\w-]+\.[\w.-]+|[\w-]+(?:\.[\w-]+)+|.*%[A-Za-z(].*", re.DOTALL
)
"""Hashes, ids, paths, addresses and names with a dot, which stand beside words of secrets without being any."""
_OTHER_NAME = re.compile(r"[,{};&][\s\"'{]*[\w.-]{1,40}[\"']?[ \t]*[:=]")
"""What shows that a value belongs to another name than the label before it."""


def _near(label: _Label, limit: int) -> Iterator[Span]:
    """The first generated value behind a label, in whatever notation, unless it is the form of something else.

    limit: where the next label begins, whose value is looked for behind it.
    """
    if label.kind == "pin" or label.goes_on or (label.kind == "secret" and label.is_glued):
        return
    for found in _VALUE_NEAR.finditer(label.text, label.end, min(label.end + _NEAR + 40, limit)):
        value = found[0]
        if found.start() - label.end > _NEAR or COVER in value:
            return
        if looks_random(value) and not (_NO_VALUE.fullmatch(value) or _DATE.fullmatch(value)):
            enough = len(value) >= 20 or label.kind != "session"
            if enough and not _OTHER_NAME.search(label.text, label.end, found.start()):
                yield found.span()
            return


def _may_follow(label: _Label, notation: str, value: str, end: int) -> bool:
    """Whether what stands after a label in this notation is its value."""
    text = label.text
    if notation == "option" and not label.follows(_VARIABLE):
        random = looks_generated(value)
        in_line = compiled(_END_OF_LINE).match(text, end) and label.follows(_LINE if random else _DIRECTIVE)
        return bool(in_line) or (random and label.kind == "password" and label.follows(_PROSE_BEFORE))
    if notation == "element" and text[label.end : label.end + 1] in "\"'":
        return label.follows(_LABEL_ATTRIBUTE)
    if notation in _WEAK and not (label.is_identifier or label.follows(_STATED) or label.follows(_VARIABLE)):
        quoted = notation == "prose" and text[end : end + 1] in ("'", '"', "`")
        return (looks_generated(value) or quoted) and not (label.is_glued and label.kind == "secret")
    return True


def _before(label: _Label, is_secret: SecretTest) -> Iterator[Span]:
    """What stands before the label and is its value."""
    near = label.text[max(0, label.begin - 80) : label.begin].lower()
    if ("name" in near or "key" in near) and label.follows(_NAMED_BEFORE):
        found = compiled(_VALUE_BEFORE, ignore_case=True).search(label.text, max(0, label.begin - 300), label.begin)
        if found is None or COVER in found[0]:
            return
        group = "v" if found["v"] else "quoted"
        if _is_secret_of(label.kind, found[group], is_secret):
            yield found.span(group)
    else:
        yield from _said_before(label, is_secret)


def _said_before(label: _Label, is_secret: SecretTest) -> Iterator[Span]:
    """A value that precedes its name in a sentence: `use … as the root password`."""
    if label.text[label.begin - 1 : label.begin] not in _SAID_SIGNS:
        return
    first = max(0, label.begin - 120)
    words = label.text[first : label.begin].split(" ")
    at = next((at for at in range(len(words) - 2, max(0, len(words) - 6), -1) if words[at].lower() in _SAID), 0)
    if not at:
        return
    word = words[at - 1].rsplit("\n", 1)[-1].rsplit("\t", 1)[-1]
    value = word.strip("\"'`")
    end = first + sum(map(len, words[:at])) + at - 1 - (len(word) - len(word.rstrip("\"'`")))
    is_value = 6 <= len(value) <= 60 and COVER not in value and (value != word or looks_generated(value))
    if is_value and _is_secret_of(label.kind, value, is_secret):
        yield end - len(value), end


_DATE = re.compile(r"\d{1,4}-\w{2,9}-\d{1,4}(?:T[\d:.Z+-]{2,30})?")


def _is_secret_of(kind: Kind, value: str, is_secret: SecretTest) -> bool:
    if _DATE.fullmatch(value):
        return False
    return kind == "password" and is_passphrase(value) if " " in value else is_secret(kind, value)
