r"""A ready-made redaction: keys, tokens, e-mail addresses, card numbers, and what you add.

    engine = Engine(provider, redact=Redaction(words=["Jane Doe"], patterns={"ticket": r"\bT-\d{4,}\b"}))

It finds what has a form of its own (many of them by gitleaks' rules) and what stands where a secret does: after
`PASSWORD=` and `"token":`, in URLs, headers and connection strings. It does not find names, streets or a password that
stands anywhere else: for these there are `words`, or a function of your own in its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..decision import Event, WrongUse
from ..decision import events as ev
from ..decision.chunks import ReasoningDelta, TextDelta, ToolCallDelta
from ..decision.errors import nearest
from ..decision.events import STREAM_PARTS, AttemptFailed, ResponseFinished, RunFinished, StepFinished, ToolCallResult
from .attachments import ABOVE, Attached, Attaching
from .compression import writing
from .files import batches
from .format import AfterCut, Header, encoded, header_in, read_line
from .secret_places import Span, placed, prefixed
from .secret_rules import SecretRule, entropy, looks_random, secret_rules
from .texts import Redact, Texts

# A word begins where no letter or digit stands before it, or an escape of JSON does. Each pattern takes time in
# proportion to the text at most: runs are taken whole (`++`), and what may follow them is bounded.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"

_SEPARATOR = re.compile(r"=>|:=|[=:]")
_VALUE = re.compile(
    r"[ \t]{0,8}(?:(?:Bearer|Basic|Token)[ \t]{1,4})?"
    r"(?:\\{0,4}[\"'`](?P<quoted>[^\"'`\\\s]{4,500})\\{0,4}[\"'`]"
    r"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\]{6,500})(?=[\s\"'`,;&|<>)}\]\\]|\Z))",
    re.IGNORECASE,
)
"""What is given to a name: in quotes, or up to what ends a word."""
_PASSWORDS = ("password", "passwd", "passphrase", "pwd")
_KEYS = (
    "api access secret private auth account encryption signing master client app service shared storage license admin "
    "deploy session subscription webhook role anon"
)
_SECRETS = (
    "secret",
    "token",
    "credential",
    "credentials",
    "connectionstring",
    "keybase",
    "keydata",
    "privatekeyid",
    *(f"{word}key" for word in _KEYS.split()),
)
_ALONE = ("pass", "psk", "pat", "sig", "signature")
"""Names that count only as whole words: many others end so."""
_NAME_ENDS = 40
"""Characters before a separator in which a name ends."""

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
        rf"|{_START}eyJ[A-Za-z0-9_-]{{8,}}+(?:\.|%2E)[A-Za-z0-9_-]{{8,}}+(?:(?:\.|%2E)[A-Za-z0-9_-]{{8,}}+)?"
        r"|(?i:\b(?:set-)?cookie[\"']?:[ \t]{0,4})[\"']?(?P<cookie>[^\r\n\"'\\]{8,4000}+)"
    ),
    "api_key": (
        rf"{_START}(?:"
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
"""What is looked for, by name. Cards by their first digits and their check digit, too (ISO/IEC 7812), account numbers
by theirs (IBAN, ISO 13616). `api_key` has the forms of `secret_rules.toml` and the prefixes of `secret_places.py`
besides, `password` is whatever stands where a secret does (`KEY=value`, `"password":`, `curl -u`, and the places of
`secret_places.py`) and looks like one."""
DEFAULT = ("private_key", "credentials", "token", "api_key", "password", "email", "card", "iban", "ssn")
"""All but telephone numbers, which too many other numbers look like."""
_GROUPS = re.compile(r"\d+|[ -]")
_ISSUERS = re.compile(r"3[0-9]|4|5[0-9]|6[0-9]|2[2-7]|81|82")


class Redaction:
    """A function from a text to the text without what is found in it.

    kinds: which of `KINDS`. patterns: more of them, by name; of a pattern with a group `secret` only that goes.
    words: texts that go wherever they stand as words, whatever their case. key: 16 to 64 bytes, for marks that are the
    same in every process.

    What is found becomes `[redacted:email:3f9a1c]`: its kind, and a mark that is the same for the same text and says
    nothing about it, so that a reader still sees what is the same. Raises WrongUse for an unknown kind or a pattern
    that is none.
    """

    def __init__(
        self,
        *,
        kinds: Collection[str] = DEFAULT,
        patterns: Mapping[str, str] | None = None,
        words: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        for name, several in (("kinds", kinds), ("words", words)):
            if isinstance(several, str):
                raise WrongUse(f"{name} takes several texts: write {name}=[{several!r}]")
        for kind in kinds:
            if kind not in KINDS:
                raise WrongUse(f"unknown kind of secret {kind!r}{nearest(kind, KINDS)}")
        if key is not None and not 16 <= len(key) <= 64:
            raise WrongUse(f"the key of a redaction has {len(key)} bytes: use 16 to 64")
        self._key = os.urandom(32) if key is None else key
        self._by_rules, self._by_names = "api_key" in kinds, "password" in kinds
        chosen = {kind: KINDS[kind] for kind in KINDS if kind in kinds}
        self._patterns = [(name, _compiled(name, text)) for name, text in {**chosen, **(patterns or {})}.items()]
        listed = sorted({word for word in words if word.strip()}, key=len, reverse=True)
        if listed:
            either = "|".join(map(re.escape, listed))
            word = rf"(?:(?<!\w)|(?<=\\[nrtbf]))(?:{either})(?!\w)"
            self._patterns.append(("word", re.compile(word, re.IGNORECASE)))

    def __call__(self, text: str) -> str:
        """The text, redacted."""
        for name, pattern in self._patterns:
            text = pattern.sub(lambda found, name=name: self._marked(name, found), text)  # type: ignore[misc]
            if name == "api_key" and self._by_rules:
                text = self._without_spans("api_key", self._without_known_forms(text), prefixed)
            elif name == "password" and self._by_names:
                text = self._without_spans("password", self._without_named(text), _placed)
        return text

    def _without_known_forms(self, text: str) -> str:
        lowered = text.lower()
        for rule in secret_rules():
            if any(keyword in lowered for keyword in rule.keywords):
                if rule.at_start and not any(rule.begins(text, lowered)):
                    continue
                text = rule.pattern.sub(lambda found, rule=rule: self._by(rule, found), text)  # type: ignore[misc]
        return text

    def _without_spans(self, name: str, text: str, spans: Callable[[str], Sequence[Span]]) -> str:
        parts: list[str] = []
        done = 0
        for begin, end in spans(text):
            parts += [text[done:begin], self._mark(name, text[begin:end])]
            done = end
        return "".join([*parts, text[done:]]) if parts else text

    def _without_named(self, text: str) -> str:
        """The text without values of things that are called a password, a token or a key."""
        parts: list[str] = []
        done = 0
        for separator in _SEPARATOR.finditer(text):
            begin = separator.start()
            kind = _named(text[max(done, begin - _NAME_ENDS) : begin]) if begin >= done else ""
            found = _VALUE.match(text, separator.end()) if kind else None
            if found is None:
                continue
            group = "quoted" if found["quoted"] else "bare"
            value = found[group]
            if MARKED not in value and _is_secret(kind, value, quoted=group == "quoted"):
                parts += [text[done : found.start(group)], self._mark("password", value)]
                done = found.end(group)
        return "".join([*parts, text[done:]]) if parts else text

    def _by(self, rule: SecretRule, found: re.Match[str]) -> str:
        secret = rule.secret(found)
        if MARKED in found[0] or not rule.holds(found):
            return found[0]
        return found[0].replace(secret, self._mark("api_key", secret))

    def _marked(self, name: str, found: re.Match[str]) -> str:
        whole = found[0]
        if name == "card":
            return whole if _is_numbered(found) else self._without_cards(whole)
        group = next((key for key, value in found.groupdict().items() if key != "name" and value), None)
        secret = found[group] if group is not None else whole
        if name in _PLAUSIBLE and (MARKED in whole or not _PLAUSIBLE[name](found, group, secret)):
            return whole
        before, _, after = whole.rpartition(secret)
        return f"{before}{self._mark(name, secret)}{after}"

    def _mark(self, name: str, secret: str) -> str:
        mark = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3).hexdigest()
        return f"[redacted:{name}:{mark}]"

    def _without_cards(self, run: str) -> str:
        """Numbers in a row without the cards among them: a card is one group of digits, or several."""
        groups = _GROUPS.findall(run)
        left: list[str] = []
        at = 0
        while at < len(groups):
            end = _end_of_card(groups, at) if groups[at].isdigit() else 0
            left.append(self._mark("card", "".join(groups[at:end])) if end else groups[at])
            at = end or at + 1
        return "".join(left)


MARKED = "[redacted:"
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


def _named(before: str) -> Literal["password", "secret", ""]:
    """What the name at the end of this text says of the value after it."""
    word = before.rstrip(" \t\"'\\]").rstrip("0123456789").lower()
    for ending in ("_base", "_base64", "_value", "_hash", "_string"):
        if word.endswith(ending) and not word.endswith("connection_string"):
            word = word.removesuffix(ending)
    word = word.replace("_", "").replace("-", "").replace(" ", "") if word[-1:].isalpha() else word.rstrip("_-")
    if word.endswith(_PASSWORDS):
        return "password"
    if word.endswith(_SECRETS):
        return "secret"
    alone = re.search(r"[A-Za-z]*\Z", before.rstrip(" \t\"'\\]"))
    if alone is not None and alone[0].lower() in _ALONE:
        return "password" if alone[0].lower() in ("pass", "psk") else "secret"
    return ""


def _is_secret(kind: str, value: str, *, quoted: bool) -> bool:
    """Whether what stands in the place of a secret is one: no word, no piece of code, no other thing's name."""
    if _PLACEHOLDER.fullmatch(value):
        return False
    if kind == "secret":
        drawn = len(value) >= 32 and value.isalnum() and entropy(value) >= 3.8 and sum(map(str.isdigit, value)) >= 3
        return drawn or (len(value) >= 10 and (looks_random(value) or _has_many_humps(value)))
    if _WORDS.fullmatch(value):
        return looks_random(value) or _has_many_humps(value)
    return any(c.isdigit() for c in value) and not value.isdigit() and (quoted or len(value) >= 8)


def _has_many_humps(value: str) -> bool:
    """Whether small and capital letters change more often than in a name like `parseNextLine`."""
    humps = _HUMPS.findall(value)
    return len(value) >= 10 and value.isalpha() and len(humps) >= 4 and len(value) / len(humps) <= 3.5


_HUMPS = re.compile(r"[A-Z]+[a-z]*|[a-z]+")


def _placed(text: str) -> Sequence[Span]:
    return placed(text, lambda kind, value: _is_secret(kind, value, quoted=False), MARKED)


def _is_password(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what stands where commands and files take a password is one."""
    if group is None:
        return True  # a hash of a password has a form of its own
    return not _PLACEHOLDER.fullmatch(value) and not _WORDS.fullmatch(value)


def _is_token(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what follows `bearer` and the like is drawn and not written."""
    if group == "cookie":
        return any(looks_random(part.partition("=")[2] or part) for part in value.split(";"))
    if group is None:
        return True
    if value.startswith("/") or (value.count("/") > 1 and not looks_random(value)):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_login(found: re.Match[str], group: str | None, value: str) -> bool:
    """Whether what stands before the host of a URL is a login: `user:password`, or a token."""
    colon, password = value.partition(":")[1:]
    if not colon:
        return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if re.fullmatch(r"(?:[A-Z]{1,20}_){0,3}(?:PASSWORD|PASSWD|PASS|PWD|TOKEN|SECRET|KEY)", password):
        return False  # stands for one
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


def _is_numbered(found: re.Match[str]) -> bool:
    """Whether a number is named as another thing's: an id, a time, a size."""
    return bool(_ASSIGNED_ID.search(found.string[max(0, found.start() - 40) : found.start()]))


def _end_of_card(groups: Sequence[str], begin: int) -> int:
    """Where the longest card ends that begins with this group; 0 if none does."""
    digits, end = 0, 0
    for at in range(begin, len(groups), 2):
        digits += len(groups[at])
        if digits > 19:
            break
        if digits >= 13 and is_card("".join(groups[begin : at + 1])):
            end = at + 1
    return end


def is_card(text: str) -> bool:
    """Whether these digits are a card's number: as many as one has, a known first digit, the right check digit."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    if not 13 <= len(digits) <= 19 or not _ISSUERS.match("".join(map(str, digits))):
        return False
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongUse(f"the pattern {name!r} is no regular expression: {error}") from None


# Redaction of what goes into a record: each text of a user, a model or a tool, by a function from text to text.
#
# What the model sees is never changed, only what is written. The deltas of a response are held back until it is
# whole, because a secret may be cut anywhere: then each text is redacted as a whole and dealt out over its deltas
# again, so that a record has the same events at the same times. A process that is killed in the middle of a response
# therefore loses the events of that response, which is asked for again anyway.

_CLOSING = (ResponseFinished, AttemptFailed, StepFinished, RunFinished)


class Redactor:
    """Takes the lines of a record in order, and gives those that may be written, redacted."""

    def __init__(self, redact: Redact) -> None:
        self._texts = Texts(redact)
        self._held: list[Event | AfterCut] = []
        """A response that is not whole yet, with all that has happened meanwhile."""

    def take(self, line: Event | AfterCut) -> Sequence[Event | AfterCut]:
        """What may be written now: this line, nothing yet, or a whole response."""
        if not self._held and type(line) not in STREAM_PARTS and type(line) is not AfterCut:
            return (self._texts.struct(line),)
        self._held.append(line)
        closes = isinstance(line, _CLOSING) and not (isinstance(line, AttemptFailed) and line.beside)
        return self.rest() if closes else ()

    def rest(self) -> Sequence[Event | AfterCut]:
        """What is still held back; nothing can be added to it any more."""
        held, self._held = self._held, []
        if not held:
            return ()
        dealt = Deltas(self._texts).dealt(held)
        return [dealt[number] if number in dealt else self._texts.struct(line) for number, line in enumerate(held)]


# The texts of a response that came in pieces.


class Deltas:
    """Puts the texts together, has them redacted, and deals them out again. For one response."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._pieces: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
        self._block: dict[tuple[Any, ...], int] = {}
        """The block of reasoning that is being written, by stream: a signature ends it."""

    def _add(self, number: int, event: Any) -> None:
        """One more event; all but deltas are passed over."""
        stream: tuple[Any, ...]
        match event:
            case ev.TextMessageContent():
                stream = ("text", event.attempt)
            case ev.ReasoningMessageContent():
                stream = self._reasoning(("reasoning", event.attempt), event)
            case ev.ToolCallArgs():
                stream = ("arguments", event.attempt, event.call_id)
            case AfterCut(chunk=TextDelta()):
                stream = ("text", event.attempt, "after")
            case AfterCut(chunk=ReasoningDelta() as chunk):
                stream = self._reasoning(("reasoning", event.attempt, "after"), chunk)
            case AfterCut(chunk=ToolCallDelta(index=index)):
                stream = ("arguments", event.attempt, "after", index)
            case _:
                return
        self._pieces.setdefault(stream, []).append((number, event))

    def _reasoning(self, stream: tuple[Any, ...], part: Any) -> tuple[Any, ...]:
        block = self._block.get(stream, 0)
        if part.signature or part.redacted:
            self._block[stream] = block + 1
        return (*stream, block)

    def dealt(self, lines: Iterable[Any]) -> dict[int, Any]:
        """The deltas among these lines, by their places: each with its share of the text that it is part of."""
        for number, line in enumerate(lines):
            self._add(number, line)
        dealt: dict[int, Any] = {}
        for (kind, *_), pieces in self._pieces.items():
            texts = [_delta_of(event) for _, event in pieces]
            whole = "".join(texts)
            redacted = self._texts.arguments(whole) if kind == "arguments" else self._texts.text(whole)
            if redacted == whole:
                dealt |= dict(pieces)
                continue
            shares = _shares(redacted, [len(text) for text in texts])
            dealt |= {number: _changed(event, share) for (number, event), share in zip(pieces, shares, strict=True)}
        return dealt


def _shares(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in as many pieces, of lengths in proportion; the last of them that is not empty ends it."""
    total, so_far, begin = sum(lengths), 0, 0
    shares = []
    for length in lengths:
        so_far += length
        end = len(text) * so_far // total
        shares.append(text[begin:end])
        begin = end
    return shares


def _delta_of(event: Any) -> str:
    match event:
        case AfterCut(chunk=ToolCallDelta(arguments=text)):
            return text
        case AfterCut(chunk=TextDelta(text) | ReasoningDelta(text)):
            return text
        case _:
            delta: str = event.delta
            return delta


def _changed(event: Any, text: str) -> Any:
    """The delta with another text; what signed the old one goes."""
    match event:
        case AfterCut(chunk=ToolCallDelta() as chunk):
            return replace(event, chunk=replace(chunk, arguments=text))
        case AfterCut(chunk=ReasoningDelta(redacted=False) as chunk):
            return replace(event, chunk=replace(chunk, text=text, signature=""))
        case AfterCut(chunk=TextDelta() | ReasoningDelta() as chunk):
            return replace(event, chunk=replace(chunk, text=text))
        case ev.ReasoningMessageContent(redacted=False):
            return replace(event, delta=text, signature="")
        case _:
            return replace(event, delta=text)


# A record again, redacted: for records that were written without.


class Rewritten(Struct, frozen=True, kw_only=True):
    """What became of a record."""

    lines: int
    """Events and chunks that were written."""
    left_out: int
    """Lines that could not be read, or are of a kind that this endstop does not know: nobody could redact them."""
    missing: int
    """Attachments that were not there."""


def redacted_copy(
    source: str | os.PathLike[str], target: str | os.PathLike[str], redact: Redact, attach_above: int | None = ABOVE
) -> Rewritten:
    """Write a record again, with its attachments, redacted; compressed if `target` ends in `.zst`.

    Memory does not depend on the record. Pictures are copied as they are. Raises WrongUse if the source is no record,
    or if there is a target already.
    """
    redactor, attached = Redactor(redact), Attached(source)
    attaching = Attaching(target, attach_above)
    lines = left_out = 0
    header: Header | None = None

    def written(ready: Iterable[Event | AfterCut]) -> bytes:
        return b"".join(
            encoded(attaching.put(line) if isinstance(line, ToolCallResult) else line) + b"\n" for line in ready
        )

    with writing(Path(target)) as file:
        for batch in batches(source):
            if header is None:
                header = header_in(source, batch[0])
                file.write(encoded(header) + b"\n")
            for line in batch:
                said = read_line(line)
                if isinstance(said, str):
                    left_out += said != "blank"
                elif not isinstance(said, Header):
                    whole = attached.back(said) if isinstance(said, ToolCallResult) else said
                    file.write(written(redactor.take(whole)))
                    lines += 1
        file.write(written(redactor.rest()))
        if header is None:
            header_in(source, b"")
    return Rewritten(lines=lines, left_out=left_out, missing=len(attached.missing))
