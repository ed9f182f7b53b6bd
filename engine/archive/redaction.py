r"""A ready-made redaction: keys, tokens, e-mail addresses, card numbers, and what you add.

    engine = Engine(provider, redact=Redaction(words=["Jane Doe"], patterns={"ticket": r"\bT-\d{4,}\b"}))

It finds what has a form of its own. It does not find names, streets or a password without any: for these there are
`words`, or a function of your own in its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b

from ...decision import WrongUse
from ...decision.errors import nearest

# A word begins where no letter or digit stands before it, or an escape of JSON does. Each pattern takes time in
# proportion to the text at most: runs are taken whole (`++`), and what may follow them is bounded.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]))"

KINDS: dict[str, str] = {
    "private_key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    "credentials": r"(?<=://)[^\s/@:\"']{1,200}:[^\s/@\"']{1,200}(?=@)",
    "token": (
        r"(?i:\b(?:bearer|(?:basic|token)(?=[ \t]{1,4}\S{0,200}\d))[ \t]{1,4})(?P<secret>[A-Za-z0-9._~+/=-]{16,}+)"
        rf"|{_START}eyJ[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{8,}}+"
    ),
    "api_key": (
        rf"{_START}(?:"
        r"sk-[A-Za-z0-9_-]{16,}+"
        r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
        r"|gh[pousr]_[A-Za-z0-9]{30,}+|github_pat_[A-Za-z0-9_]{30,}+"
        r"|glpat-[A-Za-z0-9_-]{20,}+"
        r"|xox[abeprs]-[A-Za-z0-9-]{10,}+"
        r"|AIza[A-Za-z0-9_-]{35}"
        r"|hf_[A-Za-z0-9]{30,}+"
        r"|npm_[A-Za-z0-9]{30,}+"
        r")"
    ),
    "email": (r"(?:(?<![\w.%+\\-])|(?<=\\[nrtbf]))[\w.%+-]++@(?:\w(?:[\w-]{0,61}\w)?\.){1,8}[^\W\d_]{2,63}"),
    "card": r"(?<![\d.])\d(?:[ -]?\d){12,}+",
    "phone": r"(?<![\w.-])(?!\d{4}-\d\d-\d\d)(?:\+|00)?\(?\d(?:[ ().\-/]{0,2}\d){7,14}(?!\w)",
}
"""What is looked for, by name. Cards by their first digits and their check digit, too (ISO/IEC 7812)."""
DEFAULT = ("private_key", "credentials", "token", "api_key", "email", "card")
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
        return text

    def _marked(self, name: str, found: re.Match[str]) -> str:
        whole = found[0]
        if name == "card":
            return self._without_cards(whole)
        secret = found["secret"] if "secret" in found.re.groupindex and found["secret"] else whole
        return whole.replace(secret, self._mark(name, secret))

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
