"""`KnownSecrets`: hides texts that are known to be secret, as the key is that stands in a header of a request.

What a redaction finds by its form (`redaction.py`) is found here because it is known, whatever its form is: as it
stands, with the escapes of JSON, URLs and HTML, in base64 or hexadecimal digits, with line ends inside, or only its
beginning where a text was cut in its middle.

A text is read once: its escapes become what they mean, and its backslashes and line ends are left out. Secrets are read
in the same way, so a secret is found if its bytes, or those of its base64, stand in what was read. Whether one may is
told by every eighth byte of a text: eight bytes from there are looked up among those of all secrets at once.
"""

from __future__ import annotations

import os
import re
import sys
from base64 import b64encode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from ..providers.endpoint_url import split_credentials
from .format import REDACTION_MARK

SHORTEST = 8
"""Characters of the shortest secret that is hidden: less would hide ordinary words."""
CERTAIN = 16
"""Characters from which a text is hidden whatever it consists of, and with which it is known by its beginning."""
MOST_SECRETS = 2_000
"""Secrets that are known at once; beyond that the one that was seen longest ago is forgotten."""
_WINDOW = 8
"""Bytes that are looked up at once."""
_ESCAPE = re.compile(
    rb"\\\\{0,7}(?:u(?P<u>[0-9A-Fa-f]{4})|x(?P<x>[0-9A-Fa-f]{2})|[nr])?"
    rb"|%(?:25){0,8}(?P<percent>[0-9A-Fa-f]{2})"
    rb"|&(?:amp;){0,4}(?:#[xX]0{0,4}(?P<hex>[0-9A-Fa-f]{2,5})|#0{0,4}(?P<decimal>[0-9]{2,5})"
    rb"|(?P<name>quot|amp|lt|gt|apos));"
    rb"|\r|\n"
)
"""A character as JSON, URLs and HTML may write it, also several times over; or a line end."""
_LEFT_OUT = re.compile(rb"\\\\{0,7}[nr]?|\r|\n")
"""What is read as nothing, where no escape means another character."""
_ENTITIES = {b"quot": b'"', b"amp": b"&", b"lt": b"<", b"gt": b">", b"apos": b"'"}
_LONGEST_ESCAPE = 32
"""Bytes of the longest `_ESCAPE`, which is a character of HTML."""

_NAMES = re.compile(r"(?:auth|authorization|key|token|secret|password|passwd|credentials?)\Z", re.IGNORECASE)


class _Form(NamedTuple):
    """A way to write a secret, in bytes as they are read."""

    begin: bytes
    """By which it is found: that of its first `CERTAIN` bytes."""
    whole: bytes
    mark: str
    """What replaces it."""


class KnownSecrets:
    """A function that returns a text with the known secrets replaced.

    secrets: those that are known from the start. Each becomes a mark such as `[redacted:known:3f9a1c]`; equal secrets
    have equal marks, in this process. What is too short, or might be an ordinary word, is not hidden (`is_telling`).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._key = os.urandom(32)
        self._forms: OrderedDict[str, tuple[_Form, ...]] = OrderedDict()
        """How each secret may be written; the one that was seen last is at the end."""
        self._windows: dict[int, set[_Form]] = {}
        """The forms with these eight bytes in what they are found by. One is in each text with the form, wherever that
        begins."""
        self._short: set[_Form] = set()
        """Forms that are too short for that."""
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide this text from now on, if it is telling."""
        if secret in self._forms:
            self._forms.move_to_end(secret)
        elif is_telling(secret):
            digest = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
            self._forms[secret] = forms = _forms_of(secret, f"{REDACTION_MARK}known:{digest.hexdigest()}]")
            for form in forms:
                for window in _windows_of(form):
                    self._windows.setdefault(window, set()).add(form)
                if not _windows_of(form):
                    self._short.add(form)
            if len(self._forms) > MOST_SECRETS:
                self._forget(self._forms.popitem(last=False)[1])

    def _forget(self, forms: tuple[_Form, ...]) -> None:
        self._short.difference_update(forms)
        for form in forms:
            for window in _windows_of(form):
                holders = self._windows[window]
                holders.discard(form)
                if not holders:
                    del self._windows[window]

    def occur_in(self, data: bytes) -> bool:
        """Whether something in a text may be replaced. data: the text in UTF-8. It costs little for a long text, too."""
        return bool(self._forms) and any(map(self._stand_in, _readings(data)))

    def _stand_in(self, plain: bytes) -> bool:
        if any(form.begin in plain for form in self._short):
            return True
        if self._windows.keys().isdisjoint(_every_eighth(plain)):
            return False
        return any(form.begin in plain for form in self._candidates(plain))

    def _candidates(self, plain: bytes) -> set[_Form]:
        """The forms that may be in a text."""
        found = (self._windows.get(window) for window in _every_eighth(plain))
        return self._short.union(*filter(None, found))

    def may_begin_at_end_of(self, data: bytes) -> bool:
        """Whether a text ends with what may be the beginning of a secret. data: the text in UTF-8."""
        end = data[-_LONGEST_ESCAPE:]
        if any(sign in end for sign in (b"\\", b"%", b"&")):
            return True  # perhaps half of an escape
        end = _plain(data[-4 * CERTAIN :])
        return any(_overlap(end, form.begin) for forms in self._forms.values() for form in forms)

    def __call__(self, text: str) -> str:
        """The text with its secrets replaced."""
        data = text.encode("utf-8", "surrogatepass")
        if not self.occur_in(data):
            return text
        found = [(*place, form.mark) for form in self._candidates(data) for place in _places_of(form, data)]
        plain, begins, ends = _read(data)
        found += [
            (begins[at], ends[end - 1], form.mark)
            for form in self._candidates(plain)
            for at, end in _places_of(form, plain)
        ]
        parts: list[bytes] = []
        done = 0
        for begin, end, mark in sorted(found):
            if begin >= done:
                parts += [data[done:begin], mark.encode()]
            done = max(done, end)
        return b"".join([*parts, data[done:]]).decode("utf-8", "replace")


def is_telling(secret: str) -> bool:
    """Whether a text can be hidden without hiding ordinary words and numbers.

    It can from 16 characters on, and from 8 on if it has both letters and digits: `x`, `dummy` and `sk-local` stay.
    """
    if len(secret) >= CERTAIN:
        return True
    return len(secret) >= SHORTEST and any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))


@lru_cache(maxsize=1_000)
def names_secret(name: str) -> bool:
    """Whether a header, a parameter or a variable of this name holds a secret, such as `x-api-key`."""
    return _NAMES.search(name) is not None


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """The secrets in variables: keys and tokens by their names, and the passwords in URLs."""
    for name, value in environment.items():
        if names_secret(name) and not value.startswith(("/", "~", ".")):  # or it is the path of a file
            yield value.strip()
        elif "://" in value:
            yield split_credentials(value)[1].partition(":")[2]


# ---- how a secret may be written


def _forms_of(secret: str, mark: str) -> tuple[_Form, ...]:
    """The forms of a secret: as it stands and as it is read, in hexadecimal digits, and in base64 (RFC 4648)."""
    whole = secret.encode("utf-8", "surrogatepass")
    certain = whole[:CERTAIN]
    plain = _plain(whole)
    forms = {_Form(certain, whole, mark), _Form(plain[: len(_plain(certain))], plain, mark)}
    if plain.startswith((b"n", b"r")):  # behind a backslash it is read as a line end
        forms.add(_Form(plain[1 : len(certain)], plain[1:], mark))
    for digits in ("%02x", "%02X"):
        begin, hexadecimal = ("".join(digits % byte for byte in text).encode() for text in (certain, whole))
        forms.add(_Form(begin, hexadecimal, mark))
    for encode in (b64encode, urlsafe_b64encode):
        for before in range(3):
            begin, encoded = (_within_base64(text, before, encode) for text in (certain, whole))
            forms.add(_Form(begin, encoded, mark))
    return tuple(form for form in forms if len(form.begin) >= SHORTEST)


def _within_base64(text: bytes, before: int, encode: Callable[[bytes], bytes]) -> bytes:
    """The characters that base64 has for these bytes, if so many stand before them, and whatever follows them."""
    encoded = encode(bytes(before) + text)
    return encoded[-(-8 * before // 6) : 8 * (before + len(text)) // 6]


def _windows_of(form: _Form) -> list[int]:
    """Eight bytes from each of the first eight places in what a form is found by; none if it is too short for that."""
    if len(form.begin) < 2 * _WINDOW - 1:
        return []
    return [int.from_bytes(form.begin[at : at + _WINDOW], sys.byteorder) for at in range(_WINDOW)]


def _every_eighth(data: bytes) -> memoryview[int]:
    """The bytes of a text, eight at a time, as `_windows_of` has them."""
    return memoryview(data)[: len(data) // _WINDOW * _WINDOW].cast("Q")


# ---- how a text is read


def _plain(data: bytes) -> bytes:
    """A text with what its escapes mean, without backslashes and line ends."""
    return _readings(data)[0]


def _readings(data: bytes) -> tuple[bytes, ...]:
    """How a text may be read: as `_ESCAPE` says; and as it stands, where something in it might be no escape."""
    simple = data.replace(b"\\n", b"").replace(b'\\"', b'"')
    coded = b"%" in simple or b"&" in simple
    if b"\\" in simple:
        if coded or b"\\u" in simple or b"\\x" in simple:
            return _ESCAPE.sub(_meaning, data), data
        return (_LEFT_OUT.sub(b"", data),)
    simple = simple.translate(None, b"\r\n")
    return (_ESCAPE.sub(_meaning, simple), data) if coded else (simple,)


def _meaning(escape: re.Match[bytes]) -> bytes:
    match escape.lastgroup:
        case "u" | "hex":
            return chr(int(escape[escape.lastgroup], 16)).encode("utf-8", "surrogatepass")
        case "x" | "percent":
            return bytes([int(escape[escape.lastgroup], 16)])
        case "decimal":
            return chr(int(escape["decimal"])).encode("utf-8", "surrogatepass")
        case "name":
            return _ENTITIES[escape["name"]]
        case _:
            return b""


def _read(data: bytes) -> tuple[bytes, list[int], list[int]]:
    """As `_plain`, and where what each of its bytes was read from begins and ends."""
    parts: list[bytes] = []
    begins: list[int] = []
    ends: list[int] = []
    done = 0
    for escape in _ESCAPE.finditer(data):
        meaning, begin = _meaning(escape), escape.start()
        parts += [data[done:begin], meaning]
        begins += [*range(done, begin), *[begin] * len(meaning)]
        ends += [*range(done + 1, begin + 1), *[escape.end()] * len(meaning)]
        done = escape.end()
    rest = range(done, len(data))
    return b"".join([*parts, data[done:]]), [*begins, *rest], [*ends, *(place + 1 for place in rest)]


def _places_of(form: _Form, plain: bytes) -> Iterator[tuple[int, int]]:
    """Where a form begins and ends in a text, each time up to where the text goes on otherwise."""
    at = plain.find(form.begin)
    while at >= 0:
        end = at + len(form.begin)
        while end - at < len(form.whole) and plain[end : end + 1] == form.whole[end - at : end - at + 1]:
            end += 1
        yield at, end
        at = plain.find(form.begin, end)


def _overlap(end: bytes, begin: bytes) -> bool:
    """Whether a text that ends so may go on as what begins so."""
    last, at = end[-1:], -1
    while last and 0 <= (at := begin.find(last, at + 1)) < len(begin) - 1:
        if end.endswith(begin[: at + 1]):
            return True
    return False
