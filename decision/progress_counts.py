"""Counts of work in a sentence: how much of how much is done, as in "step 2 of 5" and "3 of 12 files converted".

The words are those of `text_kinds.toml`. A count may also be written the other way round: "12 个文件中已处理 3 个".
"""

from __future__ import annotations

import re
from functools import cache

from .chinese_script import simplified
from .word_tables import expression, word_tables


def counts_a_part(sentence: str) -> bool:
    """Return whether a sentence counts a part of a whole, and the part is not all of it."""
    if not _has_number().search(sentence):
        return False
    for found in _count().finditer(sentence):
        part = found["done"] or found["part"] or found["some"]
        everything = found["all"] or found["whole"] or found["every"]
        if _number(part) < _number(everything):
            return True
    return False


def reports_a_count(sentence: str) -> bool:
    """Return whether a sentence with a count reports progress by the count alone."""
    return bool(_counted().search(sentence))


def _number(written: str) -> int:
    """Return the number that is written in digits or, up to twelve, in a word."""
    known = _numbers().get(written.strip())
    return int("".join(filter(str.isdigit, written)) or 0) if known is None else known


@cache
def _numbers() -> dict[str, int]:
    rows = word_tables("text_kinds")["numbers"].values()
    return {word: number for words in rows for number, word in enumerate(words.split(), 1)}


@cache
def _has_number() -> re.Pattern[str]:
    return re.compile(rf"\d|\b(?:{'|'.join(_numbers())})")


def _both_orders() -> tuple[str, str]:
    """Return the expressions of a count: one with the done part before the whole, and one with it after."""
    words = "|".join(sorted(_numbers(), key=len, reverse=True))
    number = rf"\d[\d.,' ]{{0,12}}?|(?:{words})(?![^\W\d_]) ?"
    return (
        rf"(?P<done>{number}) ?(?:[^\W\d_]{{2,20}} )?(?:/|of(?: the| all)?|out of(?: the)?|von(?: den| insgesamt)?|"
        rf"der|des|de(?: los| las)?|sur(?: les)?|di|"
        rf"из) ?(?P<all>\d[\d.,']{{0,12}}|(?:{words})\b)",
        r"(?:(?P<whole>\d[\d.,]{0,12}|[一两三四五六七八九十]{1,2}) ?[^\d\s。,]{1,8}(?:のうち|中的?|当中|"
        r"里)[^\d。]{0,10}"
        r"(?P<part>\d[\d.,]{0,12}|[一两三四五六七八九十]{1,2})|\b(?:von|of|de|sur)(?: den| the| los| las|"
        r" les)? (?P<every>\d{1,9}) [^\d.。]{1,60}\b(?P<some>\d{1,9})\b)",
    )


@cache
def _count() -> re.Pattern[str]:
    return re.compile("|".join(_both_orders()))


@cache
def _counted() -> re.Pattern[str]:
    """Return a pattern for a count that reports progress by itself."""
    part, of_all = (re.sub(r"\?P<\w+>", "?:", count) for count in _both_orders())
    unit, worked = (expression(word_tables("text_kinds")[name]["all"]) for name in ("unit", "worked"))
    return re.compile(
        simplified(
            rf"\b({unit})s? {part}|^\W*{part} (?:[^\W\d_]+ ){{0,4}}?(?:{worked})|完成了? ?{part}|"
            rf"\b(?:llev[oa]\w*|van|bisher|bislang|so far|hasta (?:ahora|el momento)|jusqu'ici|pour l'instant|"
            rf"up to now)\b[^.。]{{0,60}}?{part}|(?:目前|截至)[^。]{{0,30}}{part}|"
            rf"{of_all}[^。]{{0,12}}(?:完了|終わ|終え|済|完成|处理|翻译|迁移)"
        )
    )
