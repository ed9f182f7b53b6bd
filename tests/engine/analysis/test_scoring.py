"""Ratings from files that people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.analysis.scoring import Rating, read_ratings
from endstop.decision import WrongUse


def file_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "ratings"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "session_id,rating,kind\na,good,look_up\nb,0.2,\n",
        "\ufeffRun ID;Rating;Kind\r\na;pass;look_up\r\n\r\nb;0.2;\r\n",
        "note\tid\trating\tkind\nfirst\ta\tYES\tlook_up\nsecond\tb\t0.2\t\n",
        '\n{"session_id": "a", "rating": true, "kind": "look_up"}\n\n{"id": "b", "rating": 0.2}\n',
    ],
)
def test_csv_and_json_lines_are_told_apart_by_what_they_hold(tmp_path: Path, text: str) -> None:
    ratings = read_ratings(file_of(tmp_path, text))
    assert ratings.rating_of("a") == Rating(rating=1.0, kind="look_up")
    assert ratings.rating_of("b") == Rating(rating=0.2)
    assert ratings.rating_of("c") == Rating()


def test_ids_that_nobody_asked_for_are_known(tmp_path: Path) -> None:
    ratings = read_ratings(file_of(tmp_path, "id,rating\na,good\nb,bad\nc,bad\n"))
    ratings.rating_of("b")
    assert (len(ratings), ratings.used, ratings.unmatched) == (3, 1, ("a", "c"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,rating\na,good\nb,splendid\n", r"line 3: rating is 'splendid': write good, bad"),
        ("id,rating\na,1.5\n", r"line 2: rating is '1.5'"),
        ("id,rating\na,nan\n", r"line 2: rating is 'nan'"),
        ("id,rating\n,good\n", r"line 2: no id"),
        ("id,rating\na,good,look_up\n", r"line 2: 3 cells, but the header has 2"),
        ("id,rating\na,good\na,bad\n", r"line 3: a has another rating in line 2"),
        ("name,stars\na,5\n", r"the first line must be a header with an id column"),
        ("id,rating,kind\na,,\n", r"line 2: neither a rating nor a kind"),
        ('{"id": "a", "rating": "good"}\n{"id": "b", \n', r"line 2 is not valid JSON"),
        ('{"id": "a", "rating": [1]}\n', r"line 1: rating is \[1\]"),
        ('{"id": "a", "rating": 1}\n[1]\n', r"line 2 is not a JSON object"),
        ('[{"id": "a"}]', r"is a JSON array: write one object per line"),
        ("id,rating\n", r"holds no rating"),
        ("", r"holds no rating"),
        (b"id,rating\na,\xff\n", r"is not UTF-8 text \(at byte 12\)"),
    ],
)
def test_a_bad_line_is_named_with_what_should_stand_there(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        read_ratings(file_of(tmp_path, text))


def test_a_file_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="cannot read the ratings"):
        read_ratings(tmp_path / "nowhere.csv")
    with pytest.raises(WrongUse, match="cannot read the ratings"):
        read_ratings(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "session_id,rating\na,4.5/5\nb,2 / 10\n",
        "session_id,rating,scale\na,4.5,5\nb,2,10\n",
        '{"session_id": "a", "rating": 4.5, "scale": 5}\n{"id": "b", "rating": "2/10", "scale": "10"}\n',
        '{"session_id": "a", "rating": "90/100"}\n{"id": "b", "rating": 0.2}\n',
    ],
)
def test_F11_a_rating_is_taken_with_its_scale(tmp_path: Path, text: str) -> None:
    ratings = read_ratings(file_of(tmp_path, text))
    assert ratings.rating_of("a") == Rating(rating=0.9)
    assert ratings.rating_of("b") == Rating(rating=0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,rating\na,4.5/0\n", r"line 2: scale is '0': write the best possible rating, a number above 0 such as 5"),
        ("id,rating\na,4.5/-5\n", r"line 2: scale is '-5'"),
        ("id,rating\na,4.5/five\n", r"line 2: scale is 'five'"),
        ("id,rating\na,4.5/\n", r"line 2: scale is ''"),
        ("id,rating,scale\na,4.5,nan\n", r"line 2: scale is 'nan'"),
        ("id,rating,scale\na,4.5/5,10\n", r"line 2: rating is '4.5/5', but scale is '10': give one scale"),
        ("id,rating,scale\na,6,5\n", r"line 2: rating is '6': .* a number from 0 to 5"),
        ("id,rating\na,6/5\n", r"line 2: rating is '6/5'"),
        ("id,rating\na,-1/5\n", r"line 2: rating is '-1/5'"),
        ("id,rating\na,4.5\n", r"line 2: rating is '4.5': .* or one with its scale, such as 4.5/5"),
        ('{"id": "a", "rating": 1, "scale": true}\n', r"line 1: scale is 'True'"),
        ('{"id": "a", "rating": 1, "scale": [5]}\n', r"line 1: scale is '\[5\]'"),
    ],
)
def test_F11_a_bad_scale_is_named_with_what_should_stand_there(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        read_ratings(file_of(tmp_path, text))


def test_F11_mean_and_spread_are_those_of_the_ratings_that_were_used(tmp_path: Path) -> None:
    ratings = read_ratings(file_of(tmp_path, "id,rating,kind\na,5/5,\nb,4/5,\nc,3/5,\nd,,look_up\nx,0/5,\n"))
    for id in "abcd":
        ratings.rating_of(id)
    figures = ratings.statistics
    assert (figures.given, figures.used, figures.rated, figures.unmatched) == (5, 4, 3, ("x",))
    assert figures.mean == pytest.approx(0.8)
    assert figures.deviation == pytest.approx(0.2)
    assert (figures.lowest, figures.highest) == (0.6, 1.0)
