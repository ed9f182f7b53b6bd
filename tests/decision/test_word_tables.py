"""Tables of words are read when they are needed, and hold what the modules beside them expect."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from endstop.decision.empty_clauses import Language
from endstop.decision.word_tables import by_word, expression, word_tables

DECISION = Path(__file__).parents[2] / "decision"
FILES = sorted(path.stem for path in DECISION.glob("*.toml"))


def strings(value: object) -> list[str]:
    """All strings in a table, however deep."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for one in value.values() for text in strings(one)]
        case list():
            return [text for one in value for text in strings(one)]
    return []


@pytest.mark.parametrize("name", FILES)
def test_a_table_stands_beside_the_module_that_reads_it(name: str) -> None:
    assert (DECISION / f"{name}.py").exists()
    assert word_tables(name) == tomllib.loads((DECISION / f"{name}.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_a_head_says_what_a_table_means_and_where_it_comes_from(name: str) -> None:
    head = (DECISION / f"{name}.toml").read_text("utf-8").split("\n[", 1)[0]
    assert head.startswith("# ")
    assert "source" in head.lower()


@pytest.mark.parametrize("name", ["confirmation", "echoes", "text_kinds"])
def test_no_line_of_phrases_is_empty_or_ends_or_begins_with_an_alternative_of_nothing(name: str) -> None:
    for text in strings(word_tables(name)):
        for line in text.strip("\n").split("\n") if "\n" in text else []:
            assert line == line.strip()
            assert not line.startswith("|")
            assert re.fullmatch(r".*[^|]", line)
            assert "||" not in line


@pytest.mark.parametrize("name", ["echoes", "text_kinds"])
def test_each_line_of_an_expression_can_be_compiled_by_itself(name: str) -> None:
    for text in strings(word_tables(name)):
        for line in text.strip("\n").split("\n") if "\n" in text else []:
            re.compile(line)


def test_each_language_of_echoes_is_described_whole() -> None:
    for words in word_tables("echoes").values():
        assert Language(**words).says_nothing("\0", [0], frozenset()) is False


def test_a_phrase_of_a_reply_stands_under_one_meaning_only_once() -> None:
    for languages in word_tables("confirmation").values():
        for lines in languages.values():
            phrases = expression(lines).split("|")
            assert sorted(set(phrases)) == sorted(phrases)


def test_lines_are_joined_to_one_expression() -> None:
    assert expression("a|b\nc d\n") == "a|b|c d"
    assert expression("") == ""


def test_each_word_has_the_key_of_its_line() -> None:
    assert by_word({"reads": "ls cat\nhead", "changes": "rm"}) == {
        "ls": "reads",
        "cat": "reads",
        "head": "reads",
        "rm": "changes",
    }


def test_importing_the_decision_reads_no_table() -> None:
    code = (
        "import sys, endstop.decision; from endstop.decision import word_tables;"
        "print(word_tables.word_tables.cache_info().currsize, 'tomllib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0", "False"]
