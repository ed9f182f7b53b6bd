"""A search for many phrases finds what one expression of them all finds, and knows which words a phrase needs."""

import re

import pytest
from endstop.decision import text_kinds
from endstop.decision.phrases import Phrases, needed_words, split_alternatives
from endstop.decision.word_tables import word_tables
from hypothesis import given
from hypothesis import strategies as st

AT_AN_EDGE = {
    "error",
    "echo",
    "here",
    "own_words",
    "afterthought",
    "open_state",
    "done_state",
    "unit",
    "worked",
    "numbers",
}
"""Tables with which something begins, or of which it consists: they are no phrases that a text is searched for."""
TABLES = {name: text_kinds._phrases(name)._expression for name in word_tables("text_kinds") if name not in AT_AN_EDGE}
SEARCHES = {name: Phrases(table) for name, table in TABLES.items()}
"""Made once, as in `text_kinds`: to take a table apart takes longer than a hundred searches."""
PIECES = sorted({piece for table in TABLES.values() for piece in re.findall(r"[\w' ]{2,}", table)})


def first(expression: str, text: str) -> int:
    match = re.search(expression, text)
    return -1 if match is None else match.start()


@pytest.mark.parametrize("name", TABLES)
@given(st.lists(st.sampled_from(PIECES) | st.sampled_from([" ", ", ", ". ", "?", "x", "é", "我"]), max_size=12))
def test_the_tables_of_text_kinds_are_searched_as_one_expression(name: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert SEARCHES[name].find(text) == first(TABLES[name], text)


@pytest.mark.parametrize("name", TABLES)
def test_each_phrase_of_the_tables_has_words_that_it_needs(name: str) -> None:
    assert [phrase for phrase in split_alternatives(TABLES[name]) if not needed_words(phrase)] == []


LETTERS = ["a", "b", "c", " ", "é", r"\.", r"\w", "[ab]", "[^a]", "."]
ZERO_WIDTH = [r"\b", "^", "$", "(?!a)", "(?<=b)"]
atoms = st.sampled_from([*LETTERS, *ZERO_WIDTH])
quantifiers = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,1}", "{1,2}", "{,2}", "*?", "+?"])


def quantified(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds("({})".format, inside) | st.builds("(?:{})".format, inside)
    repeated = st.builds("{}{}".format, st.sampled_from(LETTERS) | groups, quantifiers)
    sequence = st.builds("".join, st.lists(repeated | st.sampled_from(ZERO_WIDTH), min_size=1, max_size=4))
    return st.builds("|".join, st.lists(sequence, min_size=1, max_size=3))


expressions = st.recursive(atoms, quantified, max_leaves=8)


@given(expressions, st.text("abcé .", max_size=12))
def test_any_expression_finds_what_re_finds(expression: str, text: str) -> None:
    assert Phrases(expression).find(text) == first(expression, text)


@pytest.mark.parametrize(
    ("phrase", "words"),
    [
        ("please,? (also )?(provide|confirm)", {"provide", "confirm"}),
        ("(tell|give) me", {"tell", "give"}),
        ("let me(?! know)", {"let me"}),
        ("colou?r", {"colo"}),
        ("ab{0,2}cde", {"cde"}),
        ("ab{2}", {"ab"}),
        (r"\(a\)", {"(a)"}),
        (r"\w+ing", {"ing"}),
        ("(a|)b", {"b"}),
        ("(a|[bc])", set()),
        ("我(们)?", {"我"}),
    ],
)
def test_the_words_that_a_phrase_needs(phrase: str, words: set[str]) -> None:
    assert needed_words(phrase) == words
