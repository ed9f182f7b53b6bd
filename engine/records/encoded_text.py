"""Decode what is encoded in a text, and say where it stood, so that what is found in it can be hidden where it stands.

Two kinds: signs and escapes within a text, which `decoded_views` replaces by what they stand for (percent, HTML
entities, escapes of JSON and programming languages, quoted-printable; colours and invisible signs by nothing), and runs
that are a whole text (base64 in both alphabets, hexadecimal), which `decoded_views` replaces one by one. Each character
is decoded once in each way.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from .byte_dumps import Run, dumped_texts
from .secret_rules import Span

CONTEXT = 300
"""Characters on each side of an escape that are decoded with it: as far as a secret and its name reach."""
_GAP = "\n\n\n"
"""Stands for what is left out between two decoded parts."""


@dataclass
class DecodedText:
    """Parts of a text, decoded, with the places that they come from."""

    text: str = ""
    _edits: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Begin and end in `text`, begin and end in the source, of each piece that differs from the source."""

    def source(self, begin: int, end: int) -> Span:
        """Where this part of `text` stands in the source. A part that reaches over a gap ends at the gap."""
        first, last = self._before(begin), self._before(end - 1)
        for edit in self._edits[first + 1 : last + 1]:
            if self.text[edit[0] : edit[1]] == _GAP:
                return self._begin(begin, first), edit[2]
        return self._begin(begin, first), self._end(end - 1, last)

    def _before(self, at: int) -> int:
        return bisect_right(self._edits, (at, len(self.text), 0, 0)) - 1

    def _begin(self, at: int, number: int) -> int:
        if number < 0:
            return at
        _, decoded_end, source_begin, source_end = self._edits[number]
        return source_begin if at < decoded_end else source_end + at - decoded_end

    def _end(self, at: int, number: int) -> int:
        if number < 0:
            return at + 1
        _, decoded_end, _, source_end = self._edits[number]
        return source_end if at < decoded_end else source_end + at - decoded_end + 1


# ---- escapes and signs within a text

_INVISIBLE = (
    "\x0b\x0c\x1c-\x1e\x85\u2028\u2029"  # other ends of a line than the usual ones
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff\x00"
)
_COLOUR = (
    r"(?:\x1b\[|\x9b|\\(?:x1[bB]|u001[bB]|033|e)\[|\^\[\[)[0-9;:?]{0,40}[ -/]{0,4}[@-~]"  # ECMA-48: control sequences
    r"|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)|\x1b[()][0-9A-B]"
)
_ESCAPE = re.compile(
    rf"(?P<nothing>(?:[{_INVISIBLE}]++|\x08[^\n]|{_COLOUR}|\\\r?\n[ \t]*+){{1,100}}+)"
    r"|%(?:25){0,4}(?:(?P<percent>[0-9A-Fa-f]{2})|u(?P<percent_u>[0-9A-Fa-f]{4}))"
    r"|(?P<entity>&(?:#[0-9]{1,7}+;?|#[xX][0-9A-Fa-f]{1,6}+;?|[A-Za-z][A-Za-z0-9]{1,30};))"
    r"|\\{1,8}(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|x(?P<x>[0-9A-Fa-f]{2})"
    r"|[ux]\{(?P<braced>[0-9A-Fa-f]{1,6}(?: [0-9A-Fa-f]{1,6}){0,99})\}|o\{0?(?P<octal_braced>[0-7]{1,3})\}"
    r"|0000(?P<css>[0-9A-Fa-f]{2}) ?|0?(?P<octal>[01][0-7]{2}))"
    r"|\\{1,4}(?P<slash>/)(?=[A-Za-z0-9+/=])"
    r"|(?<=[A-Za-z0-9!$%&*+=_.:;,#@~^?-])(?:\\{1,4}(?P<sign>[!#$%&()*+,.:;<=>?@\[\]^_{|}~-])"
    r"|`(?P<tick>[$\"'`])|\^(?P<caret>[&|<>^%\"()]))(?=[A-Za-z0-9!$%&*+=_.:;,#@~^?\\-])"
    r"|(?P<wide>[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u24b6-\u24e9\U0001d400-\U0001d7ff]{1,20}+)"
)
_SIGNS = re.compile(
    rf"[\x08\x1b\x9b\\%&^`{_INVISIBLE}\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u24b6-\u24e9\U0001d400-\U0001d7ff]"
)
"""How an escape begins."""
_WEAK = re.compile(
    r"\\{1,8}(?P<weak>[nrt\"'/`\\])|\\(?P<short_octal>[0-7]{1,2})|%(?P<doubled>%)|(?P<wide_sign>[\uff01-\uff5e])"
)
"""Escapes that are decoded beside the others only: what looks for secrets knows them."""
_ESCAPED_SIGNS = frozenset(("weak", "slash", "sign", "tick", "caret", "doubled"))
"""Groups of escapes that consist of a sign of escape and the character itself."""
_OCTAL = frozenset(("octal", "octal_braced", "short_octal"))
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_QUOTED_PRINTABLE = re.compile(r"(?<=[!-~])=(?:\r?\n(?=[!-~])|(?:3D|5F|2[BDEF]|3[ABCF]|7E|5[BDE]|7[BCD])(?=[!-~]))")
"""RFC 2045, section 6.7: a soft line break, or a sign that is rarely written like that otherwise."""
_QUOTED_ANY = re.compile(r"=(?:(?P<soft>\r?\n)|(?P<quoted>[0-9A-F]{2}))")


def _plain_of(found: re.Match[str]) -> str:
    """What an escape stands for. What is no ASCII character by itself stays as it is."""
    group = found.lastgroup
    if group in ("nothing", "soft"):
        return ""
    value = found[group or 0]
    if group == "entity":
        return html.unescape(value)
    if group in ("wide", "wide_sign"):
        return unicodedata.normalize("NFKC", value)
    if group == "tick" and value in "\"'":
        return ""  # else it would seem to end the literal that it is in
    if group in _ESCAPED_SIGNS:
        return _CONTROLS.get(value, value)
    base = 8 if group in _OCTAL else 16
    codes = [int(code, base) for code in value.split(" ")]
    return "".join(map(chr, codes)) if max(codes) < 0x80 else found[0]


_BOTH = re.compile(f"{_ESCAPE.pattern}|{_WEAK.pattern}")


def decoded_views(text: str) -> Iterator[DecodedText]:
    """The parts of the text that are encoded, decoded, in each way that occurs. Nothing for a text without escapes."""
    quoted = (found.span() for found in _QUOTED_PRINTABLE.finditer(text)) if "=" in text else ()
    for strong, each in ((_escapes(text), _BOTH), (quoted, _QUOTED_ANY)):
        parts = list(_around(strong, len(text)))
        if parts:
            yield _decode(text, parts, _matches(text, parts, each, _plain_of))
    runs = sorted([*_base64_runs(text), *_hexadecimal_runs(text)])
    for found in (runs, *dumped_texts(text)):
        if found:
            yield _decode(text, list(_around((run[:2] for run in found), len(text))), _joined(found))


def _escapes(text: str) -> Iterator[Span]:
    done = 0
    for sign in _SIGNS.finditer(text):
        if sign.start() >= done and (found := _ESCAPE.match(text, sign.start())):
            done = found.end()
            yield found.span()


def _around(spans: Iterable[Span], length: int) -> Iterator[Span]:
    """What stands around these, in order; what overlaps is one."""
    begin = end = -1
    for first, last in spans:
        if first - CONTEXT > end:
            if end >= 0:
                yield begin, end
            begin = max(0, first - CONTEXT)
        end = min(length, last + CONTEXT)
    if end >= 0:
        yield begin, end


def _matches(
    text: str, parts: Iterable[Span], pattern: re.Pattern[str], plain_of: Callable[[re.Match[str]], str]
) -> Iterator[Run]:
    for begin, end in parts:
        for found in pattern.finditer(text, begin, end):
            instead = plain_of(found)
            if instead != found[0]:
                yield *found.span(), instead


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """These runs without what overlaps. Those of lines that follow each other are one text."""
    done = 0
    for begin, end, plain in runs:
        if begin >= done:
            yield done if begin == done + 1 else begin, end, plain
            done = end


def _decode(text: str, parts: Iterable[Span], runs: Iterable[Run]) -> DecodedText:
    """These parts of the text, with what the runs in them stand for."""
    pieces: list[str] = []
    edits: list[tuple[int, int, int, int]] = []
    length = done = 0
    runs = iter(runs)
    run = next(runs, None)
    for begin, end in parts:
        if begin > done:
            done_before, done = done, begin
            edits.append((length, length + len(_GAP), done_before, begin))
            pieces.append(_GAP)
            length += len(_GAP)
        while run is not None and run[0] < end:
            first, last, plain = run
            pieces += (text[done:first], plain)
            length += first - done
            edits.append((length, length + len(plain), first, last))
            length += len(plain)
            done = last
            run = next(runs, None)
        pieces.append(text[done:end])
        length += end - done
        done = end
    return DecodedText("".join(pieces), edits)


_BREAK = re.compile(r"[\"'\\<*│┃\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LINE_END = re.compile(
    r"(?!\"[ ]?,[ ]?\"[\w-]{1,60}\"[ ]?:)"  # a member of an object, and the name of the next one
    r"(?:\*\*|[ \t\u00a0]{0,4}[|│┃]?[ \t]{0,4}\\?(?:\r?\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\\r\\n|\\n)[ \t]{0,40}"
    r"(?:(?:[>#*|:│┃]|//|--|\d{1,5}(?=\t)|\d{1,5}[ \t]?[|:│→])[ \t]{1,4}){0,2}"
    r"|(?:</?[A-Za-z][^<>\s]{0,20}>){1,4}"
    r"|[\"'][ \t]{0,4}(?:[+,.&~]|\.\.|\|\||<>)?[ \t]{0,4}[\\_]?(?:\r?\n[ \t]{0,40})?"
    r"(?:[+.&~]|\.\.|\|\|)?[ \t]{0,4}[\"'])"
    r"(?=[A-Za-z0-9_+/=-])"
)
"""What stands between two parts of a word: a line end, or the quotes of two parts of a literal."""
_KEY_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-")
_PIECE = 6
"""Characters of the piece of a key, one of which is a digit, that stands before or after a line end inside it."""
_BEFORE = re.compile(rf"[A-Za-z0-9_+/=.-]{{{_PIECE}}}")
_AFTER = re.compile(rf"[A-Za-z0-9_+/=.-]{{{_PIECE},40}}")
_WORD_BEFORE = re.compile(r"(?<![A-Za-z0-9_+/=.-])[A-Za-z0-9_+/=.-]{6,40}\Z")
_DIGIT = re.compile(r"[0-9]")


def joined_lines(text: str, begins_key: Callable[[str, int], bool]) -> DecodedText | None:
    """What stands around line ends inside words, and quotes between parts of a literal, without these; None if nothing.

    Only words of which a part may be a part of a key are joined. begins_key: whether a key begins at an index of the
    text; the line end before one is kept.
    """
    ends = [found for found in _line_ends(text) if _joins(text, *found.span(), begins_key)]
    if not ends:
        return None
    kept = {found.start() for found in ends}
    parts = list(_around((found.span() for found in ends), len(text)))
    return _decode(
        text, parts, _matches(text, parts, _LINE_END, lambda found: "" if found.start() in kept else found[0])
    )


def _line_ends(text: str) -> Iterator[re.Match[str]]:
    done = 0
    for sign in _BREAK.finditer(text):
        at = sign.start()
        while at > done and text[at - 1] in " \t\u00a0" and sign.start() - at < 4:
            at -= 1
        if at > done and text[at - 1] in _KEY_SIGNS and (found := _LINE_END.match(text, at)):
            done = found.end()
            yield found


def _joins(text: str, begin: int, end: int, begins_key: Callable[[str, int], bool]) -> bool:
    before = begin >= _PIECE and _BEFORE.match(text, begin - _PIECE) and _DIGIT.search(text, max(0, begin - 40), begin)
    if not before:
        after = _AFTER.match(text, end)
        if after is None or (_DIGIT.search(after[0]) is None and not _begins_in_word(text, begin, begins_key)):
            return False
    return not begins_key(text, end)


def _begins_in_word(text: str, at: int, begins_key: Callable[[str, int], bool]) -> bool:
    """Whether the word that ends here begins as a key does."""
    word = _WORD_BEFORE.search(text, max(0, at - 40), at)
    return word is not None and begins_key(text, word.start())


# ---- runs that are a whole text

_BASE64 = re.compile(r"(?:\\[nrtbf]|(?m:^)[+-])?(?P<run>[A-Za-z0-9+/_-]{16,}+={0,2})")
_BASE64_MORE = re.compile(
    r"(?:\r?\n|\\r\\n|\\n)[ \t]{0,40}(?:[>#*][ \t]{0,4})?(?P<run>[A-Za-z0-9+/_-]{2,}+={0,2})(?=\s|\\|[\"'<]|\Z)"
)
_WRAPPED = 32
"""A run of base64 of so many characters, a multiple of four, may go on in the next line."""
_PART = re.compile(r"(?<=[/_-])[A-Za-z0-9]{16,}+")
"""The beginning of a part of a run that may be a text by itself, such as a segment of a path."""
_BASE32 = re.compile(r"(?:[A-Z2-7]{24,}+|[a-z2-7]{24,}+)={0,6}(?![A-Za-z0-9+/_-])")
_HEX = re.compile(
    r"[0-9A-Fa-f](?<![0-9A-WYZa-wyz].)[0-9A-Fa-f]"
    r"(?:(?:,(?:\\?\s{1,8})?|[ :-]\\?|\\|[ \t]{0,4}\\?\r?\n[ \t]{0,40})?(?:0x|\\x)?[0-9A-Fa-f]{2}){9,}+"
)
_NO_DIGIT = re.compile(r"0x|\\x|[^0-9A-Fa-f]")
_MOST_NULS = 2
"""NULs in a text: those of SASL PLAIN (RFC 4616)."""
_UNPRINTED = dict.fromkeys(map(ord, "\n\r\t\0\x1b\ufeff"))
"""What may stand in a text beside what is printed."""
_STANDARD = str.maketrans("-_", "+/")
_LOOKED_AT = 16
"""Characters of a run that are decoded first: nearly all runs are no text, and these show it."""


def _base64_runs(text: str) -> Iterator[Run]:
    done = 0
    for found in _BASE64.finditer(text):
        if found.start("run") < done:
            continue
        begin, end = found.span("run")
        if (found32 := _BASE32.match(text, begin)) and (
            plain := _text_of(_from_base32(found32[0].upper()))
        ) is not None:
            done = found32.end()
            yield begin, done, plain
            continue
        ends: tuple[int, ...] = (end,)
        for at in (begin, *(part.start() for part in _PART.finditer(text, begin + 1, end))):
            if at < done or not _may_be_base64(text, at):
                continue
            segment = text.find("/", at, end)
            for last in (*ends, segment if segment >= 0 else end):
                run, done = _with_more_lines(text, at, last)
                plain = _text_of(_from_base64(run))
                if plain is not None:
                    yield at, done, plain
                    break
            ends = ()  # so that the end of a long run is looked at once


def _with_more_lines(text: str, begin: int, end: int) -> tuple[str, int]:
    """A run of base64 with the lines in which it goes on, and where it ends."""
    run = [text[begin:end]]
    while len(run[-1]) >= _WRAPPED and not len(run[-1]) % 4 and (more := _BASE64_MORE.match(text, end)):
        run.append(more["run"])
        end = more.end()
    return "".join(run), end


def _may_be_base64(text: str, begin: int) -> bool:
    first = text[begin : begin + _LOOKED_AT]
    return not first.islower() and _text_of(_from_base64(first), partly=True) is not None


def _from_base32(run: str) -> bytes:
    plain = run.rstrip("=")
    plain = plain[: len(plain) - (len(plain) % 8 in (1, 3, 6))]
    return base64.b32decode(plain + "=" * (-len(plain) % 8))


def _hexadecimal_runs(text: str) -> Iterator[Run]:
    for found in _HEX.finditer(text):
        digits = _NO_DIGIT.sub("", found[0])
        if _text_of(bytes.fromhex(digits[:_LOOKED_AT]), partly=True) is not None:
            plain = _text_of(bytes.fromhex(digits))
            if plain is not None:
                begin = found.start() - 2 * (text[max(0, found.start() - 2) : found.start()] in ("0x", "0X"))
                literal = begin < found.start() and text[begin - 1 : begin] not in ("'", '"')
                yield begin, found.end(), f"'{plain}'" if literal else plain


def _from_base64(run: str) -> bytes:
    plain = run.rstrip("=").translate(_STANDARD)
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return b""


def _text_of(content: bytes, *, partly: bool = False) -> str | None:
    """These bytes as a text, UTF-8 or UTF-16; None if they are none. partly: they may end within a character."""
    if content[1::2].count(0) * 2 > len(content) - 4 > 0:
        encoding = "utf-16-le"
    elif content[::2].count(0) * 2 > len(content) - 4 > 0:
        encoding = "utf-16-be"
    else:
        encoding = "utf-8"
    text = content.decode(encoding, "ignore" if partly else "replace")
    if (
        not text
        or "\ufffd" in text
        or text.count("\0") > _MOST_NULS
        or (partly and len(text.encode(encoding)) < len(content) - 3)
    ):
        return None
    return text if text.translate(_UNPRINTED).isprintable() else None
