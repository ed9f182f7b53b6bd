"""Detector of degenerate responses, which repeat themselves endlessly, while they stream.

Each part of a response (its text, its reasoning, the arguments of each call) is checked separately, every `STRIDE`
characters, so the result depends on the characters alone and not on how they were cut into chunks. Between two checks a
chunk costs one append. A check is O(1) in the length of the part: it compares the latest characters with the
`LONGEST_PERIOD` before them in whole slices, and no more than `MAX_REMEMBERED` characters are kept.

The thresholds are for what a person would call endless, not for a little repetition:

- *The same* text: at least `characters` of it, at least `periods` times.
- A drawing (a filled area, rows of zeros): a line of few different characters must be `DRAWING_FACTOR` times as long.
- *Counting*: the same except for digits, and the numbers change by the same amount each time ("Step 17: checking...
  Step 18: checking..."). `CHANGING_FACTOR` times as many characters. Text whose numbers change in another way is data,
  such as a table or a log, and is not cut; a single number that never ends is.
- *Circling*: passages come back with small changes or in another order, and at most `MAX_NEW_SHARE` of the latest
  characters are new. `CHANGING_FACTOR` times as many characters, and only if the text consists mostly of words.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import Literal

from msgspec import Struct

from . import events as ev
from .deferred_patterns import deferred
from .messages import AssistantMessage
from .policy import Degeneration

Part = Literal["text", "reasoning", "arguments"]

STRIDE = 512
"""Characters between two checks."""
LONGEST_PERIOD = 512
"""Characters of the longest repeated piece that is recognised."""
CHANGING_FACTOR = 3
"""How many times longer a repetition must be if it changes a little each time."""
DRAWING_FACTOR = 4
"""How many times longer a drawing of few different characters must be."""
MAX_NEW_SHARE = 0.1
"""Largest share of runs of `_GRAM` characters that occur for the first time in a circling text."""

_PROBE = 24
_GRAM = 32
_FEW = 10
_WINDOW = 2 * STRIDE + LONGEST_PERIOD
"""Number of characters in which a period is searched: a whole number of strides."""
_BLOCKS = 24
MAX_REMEMBERED = _BLOCKS * STRIDE + STRIDE
"""Maximum number of characters kept of each part, apart from a single longer chunk."""
_MISSED = 1
_EVEN = 0.9
_NUMBER = deferred(r"[0-9]{1,300}")
_DIGITS = deferred(r"[0-9]+")


class RepeatedText(Struct, frozen=True, kw_only=True):
    """Where and how a part of a response repeats itself."""

    part: Part
    how: Literal["same", "counting", "circling"]
    start: int
    """Index of the first repeated character in the part."""
    end: int
    """Number of characters of the part that had been read when the repetition was detected."""
    period: str = ""
    """The repeated text. Empty with `how="circling"`, where sentences return in changing order."""
    tool: str = ""
    """Name of the called tool, if `part` is a call's arguments."""

    def __str__(self) -> str:
        whose = f"the arguments of {self.tool or 'a call'}" if self.part == "arguments" else f"the {self.part}"
        length = self.end - self.start
        if self.how == "circling":
            return f"{whose} went round in circles for {length:,} characters"
        counting = " with a counter" if self.how == "counting" else ""
        closing = len(self.period) - len(self.period.lstrip(_CLOSING + " \t\n\r\v\f"))
        shown = self.period[closing:] + self.period[:closing]  # starts with a word or a sentence
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
        times = length // max(1, len(self.period))
        return f"{whose} repeated {shown!r}{counting} {times:,} times, for {length:,} characters"

    def before(self, whole: str) -> str:
        """Return the text of the part before the repetition, up to the end of a word or a sentence.

        If there is none, return the repeated text once, because its first occurrence was not a repetition.
        """
        start = self.start
        if self.how == "counting" and not self.period.isdigit():
            start = _first_counted(whole, start, len(self.period))
        end = start
        if start and whole[start - 1].isalnum():
            end = _BEHIND_WORD.match(whole, end).end()  # type: ignore[union-attr]
        end = _BEHIND_CLOSING.match(whole, end).end()  # type: ignore[union-attr]  # it matches everywhere
        before = whole[: end if end - start < (len(self.period) or _SHOWN) else start].rstrip()
        return before or whole[: start + len(self.period)].rstrip()


_SHOWN = 60
_CLOSING = ".,;:!?…)]}'\"»”’。，、；：！？）」"
_BEHIND_WORD = deferred(r"[^\W_]*+")
_BEHIND_CLOSING = deferred(rf"[\s{re.escape(_CLOSING)}]*+")


class RepetitionDetector:
    """Watches the stream of one attempt at a response. Feed it the stream's events in order."""

    __slots__ = ("_calls", "_reasoning", "_settings", "_text")

    def __init__(self, settings: Degeneration) -> None:
        self._settings = settings
        self._text = _part_detector("text", settings.text, settings)
        self._reasoning: _PartDetector | None = None
        self._calls: dict[str, _PartDetector] = {}

    def feed(self, event: ev.Event) -> RepeatedText | None:
        """Add one event and return the repetition if there is one by now."""
        if type(event) is ev.TextMessageContent:
            return None if self._text is None else self._text.feed(event.delta)
        if type(event) is ev.ToolCallArgs:
            call = self._calls.get(event.call_id)
            return None if call is None else call.feed(event.delta)
        if type(event) is ev.ReasoningMessageContent:
            if self._reasoning is None:  # most responses have none
                self._reasoning = _part_detector("reasoning", self._settings.reasoning, self._settings)
            return self._reasoning.feed(event.delta) if event.delta and self._reasoning is not None else None
        if type(event) is ev.ToolCallStart:
            self._begin(event)
        elif type(event) is ev.ToolCallEnd:
            self._calls.pop(event.call_id, None)
        return None

    def _begin(self, call: ev.ToolCallStart) -> None:
        if call.name not in self._settings.unwatched:
            watched = _part_detector("arguments", self._settings.arguments, self._settings, call.name)
            if watched is not None:
                self._calls[call.call_id] = watched


def find_repetition_in_message(message: AssistantMessage, settings: Degeneration) -> RepeatedText | None:
    """Find the repetition at which this response would have been cut while it streamed; None if there is none."""
    reasoning = "".join(block.text for block in message.reasoning)
    found = find_repetition("reasoning", reasoning, settings) or find_repetition("text", message.text, settings)
    if found is not None:
        return found
    calls = (find_repetition("arguments", call.arguments, settings, call.name) for call in message.calls)
    return next((found for found in calls if found is not None), None)


def find_repetition(part: Part, whole: str, settings: Degeneration, tool: str = "") -> RepeatedText | None:
    """Find the repetition at which this part of a response would have been cut; None if there is none."""
    characters: int | None = getattr(settings, part)
    if characters is None or len(whole) < characters or tool in settings.unwatched:
        return None
    return _PartDetector(part, characters, settings.periods, tool).feed(whole)


def _part_detector(part: Part, characters: int | None, settings: Degeneration, tool: str = "") -> _PartDetector | None:
    return None if characters is None else _PartDetector(part, characters, settings.periods, tool)


class _Period(Struct):
    """The period at which the latest characters repeat the ones before them."""

    period: int = 0
    """Period in characters; 0 if nothing is repeated."""
    start: int = 0
    """Index at which the repetition began."""

    def look(self, window: str, at: int) -> None:
        """Update for a window that ends with `STRIDE` new characters, at index `at` of the part."""
        latest = window[-STRIDE:]
        if self.period and latest == window[-STRIDE - self.period : -self.period]:
            return
        before = window.find(latest, max(0, len(window) - STRIDE - LONGEST_PERIOD), len(window) - 1)
        self.period = 0 if before < 0 else _shortest(window[before + STRIDE :])
        self.start = at - _repeating(window, self.period) if self.period else at


class _PartDetector:
    """Detects repetition in one part of a response."""

    __slots__ = (
        "_at",
        "_blocks",
        "_characters",
        "_counting",
        "_latest",
        "_left",
        "_near",
        "_near_from",
        "_near_wanted",
        "_part",
        "_periods",
        "_pieces",
        "_same",
        "_tool",
    )

    def __init__(self, part: Part, characters: int, periods: int, tool: str = "") -> None:
        self._part, self._tool = part, tool
        self._characters, self._periods = characters, periods
        self._pieces: list[str] = []
        self._left = STRIDE
        """Characters until the next check."""
        self._at = 0
        """Characters checked so far."""
        self._blocks: deque[str] = deque(maxlen=_BLOCKS)
        """The latest characters, in blocks of one stride."""
        self._latest = ""
        self._same = _Period()
        self._counting = _Period()
        """The period of the text with every digit replaced by 0."""
        self._near = 0
        """Characters in blocks that ended with repeated text, less those in blocks that did not; at least 0."""
        self._near_from = 0
        self._near_wanted = CHANGING_FACTOR * characters
        """Value of `_near` at which the share of new text is measured. Measuring is expensive, so after each
        measurement that finds no circling this value is doubled, up to four times its first value."""

    def feed(self, piece: str) -> RepeatedText | None:
        """Add a piece of the part and return the repetition if there is one by now."""
        self._pieces.append(piece)
        self._left -= len(piece)
        return None if self._left > 0 else self._look()

    def _look(self) -> RepeatedText | None:
        come = "".join(self._pieces)
        whole = len(come) - len(come) % STRIDE
        for begin in range(0, whole, STRIDE):
            found = self._look_at(come[begin : begin + STRIDE])
            if found is not None:
                return found
        self._pieces = [come[whole:]]
        self._left = STRIDE - len(come) + whole
        return None

    def _look_at(self, block: str) -> RepeatedText | None:
        self._at += STRIDE
        self._blocks.append(block)
        latest, self._latest = self._latest + block, block
        same, counting = self._same, self._counting
        if not _seen(_mask(latest) if _DIGITS.search(latest, len(latest) - _PROBE) else latest):  # the usual case
            same.period = counting.period = 0
            self._miss()
            return None
        window = "".join(islice(self._blocks, max(0, len(self._blocks) - _WINDOW // STRIDE), None))
        masked = _mask(window)
        again = _seen(latest)
        if again:
            same.look(window, self._at)
        else:
            same.period = 0
        counting.look(masked, self._at)
        found = (self._goes_on_the_same(window) if same.period else None) or (
            self._goes_on_counting(window, masked) if counting.period else None
        )
        if found is not None:
            return found
        if not again:
            self._miss()  # only the masked text repeats, which is not circling
            return None
        if not self._near:
            self._near_from = self._at - _PROBE
        self._near += STRIDE
        return self._circles() if self._near >= self._near_wanted else None

    def _miss(self) -> None:
        if self._near:
            self._near = max(0, self._near - _MISSED * STRIDE)

    def _goes_on_the_same(self, window: str) -> RepeatedText | None:
        start, period = self._same.start, self._same.period
        length = self._at - start
        if length < self._characters or length < self._periods * period:
            return None
        piece = window[-period:]
        if length < DRAWING_FACTOR * self._characters and _drawn(piece):
            return None
        over = -length % period
        return self._found("same", start, piece[over:] + piece[:over])  # rotated to start where the repetition does

    def _goes_on_counting(self, window: str, masked: str) -> RepeatedText | None:
        start, period = self._counting.start, self._counting.period
        length = self._at - start
        if length < CHANGING_FACTOR * self._characters or length < self._periods * period:
            return None
        piece = masked[-period:]
        if piece != "0" and not _counts("".join(self._blocks), piece):
            self._counting.start = self._at  # data; checked again after the same amount of further text
            return None
        return self._found("counting", start, window[-period:])

    def _circles(self) -> RepeatedText | None:
        latest = "".join(self._blocks)
        grams = len(latest) - _GRAM + 1
        new = len({latest[n : n + _GRAM] for n in range(grams)})
        if new <= MAX_NEW_SHARE * grams and _written(latest):
            return self._found("circling", self._near_from, "")
        self._near, self._near_wanted = 0, min(2 * self._near_wanted, 4 * CHANGING_FACTOR * self._characters)
        return None

    def _found(self, how: Literal["same", "counting", "circling"], start: int, period: str) -> RepeatedText:
        return RepeatedText(part=self._part, how=how, start=start, end=self._at, period=period, tool=self._tool)


def _seen(window: str) -> bool:
    """Return whether the last characters of the window occurred before, at most the longest period back."""
    return window.find(window[-_PROBE:], max(0, len(window) - _PROBE - LONGEST_PERIOD), len(window) - 1) >= 0


def _mask(text: str) -> str:
    """Replace every digit by 0. Nine plain replacements are faster than one with a pattern."""
    for digit in "123456789":
        text = text.replace(digit, "0")
    return text


def _repeating(text: str, period: int) -> int:
    """Return the number of characters at the end of the text that repeat with this period, including the first time."""
    least, most = 0, len(text) - period
    while least < most:
        middle = (least + most + 1) // 2
        if text[-middle:] == text[-middle - period : -period]:
            least = middle
        else:
            most = middle - 1
    return least + period


def _shortest(piece: str) -> int:
    """Return the shortest period of a piece that is repeated as a whole."""
    return (piece + piece).find(piece, 1)


def _drawn(piece: str) -> bool:
    """Return whether this looks like a line of a drawing or a row of a matrix: many characters, few different ones."""
    if len(set(piece)) > _FEW:
        return False
    return len(piece) >= 16 or (len(piece) > 2 and "\n" in piece and not any(map(str.isalpha, piece)))


def _written(text: str) -> bool:
    """Return whether the text consists mostly of words."""
    return len(set(text)) > _FEW and 2 * sum(map(str.isalpha, text)) > len(text)


def _counts(text: str, period: str) -> bool:
    """Return whether the numbers of a text that otherwise repeats with this period increase by constant amounts.

    They do if nearly all of them do, and at least one number of each period changes.
    """
    runs = len(_DIGITS.findall(period)) - (period[0] == "0" == period[-1])
    if runs < 1:
        return False
    numbers = [int(number) for number in _NUMBER.findall(text)][1:-1]
    steps = [
        (numbers[n + runs] - numbers[n], numbers[n + 2 * runs] - numbers[n + runs])
        for n in range(len(numbers) - 2 * runs)
    ]
    even = sum(one == next for one, next in steps)
    moving = sum(one == next != 0 for one, next in steps)
    return even >= _EVEN * len(steps) and moving * runs >= _EVEN * len(steps) > 0


def _first_counted(whole: str, start: int, period: int) -> int:
    """Return the index at which the counting really began, at or before `start`, where it was recognised.

    The first numbers may have fewer digits, so that the text with masked digits repeats only from a later point on.
    """
    while start < len(whole) and whole[start].isdigit():
        start += 1
    pattern = _DIGITS.sub("0", whole[start : start + period])
    at, place = start, 0
    while at and pattern:
        place -= 1
        wanted = pattern[place % len(pattern)]
        if wanted != "0":
            if whole[at - 1] != wanted:
                break
            at -= 1
        elif not whole[at - 1].isdigit():
            break
        else:
            while at and whole[at - 1].isdigit():
                at -= 1
    return at
