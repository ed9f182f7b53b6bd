"""The text search over HTTP: which sessions are found, where the text stands, and an index that follows its files."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from endstop import Engine, Tool
from endstop.decision import Policy
from endstop.providers import Scripted, call
from endstop.tools import finish_task
from endstop.viewer import catalog, text_index
from endstop.viewer.text_index import find_excerpt, match_expression

from .viewing import RECORDS, WAIT_SECONDS, viewing


async def look(what: str) -> str:
    return f"line one\nthe {what} stands in the zebra_crossing.py file, Grüße, 東京都に住んでいます\n" + "x " * 500


async def record(path: Path, prompt: str, *looks: str) -> str:
    """Record a session that looks for these things, one a step; returns its id."""
    script = [[f"I look for {one}.", call("look", what=one)] for one in looks]
    engine = Engine(
        Scripted(*script, call("finish_task", summary="seen")),
        tools=[Tool(look, description="Look."), finish_task],
        policy=Policy(),
    )
    session = engine.session(record=path)
    await session.run(prompt)
    return str(session.id)


async def found(site: Any, text: str, more: str = "") -> list[dict[str, Any]]:
    page = await site.get(f"/sessions?q={quote(text)}{more}")
    assert page["total"] == len(page["sessions"])
    assert page["searching"] is None
    sessions: list[dict[str, Any]] = page["sessions"]
    return sessions


async def test_words_are_found_in_prompts_answers_arguments_and_results_with_their_place(tmp_path: Path) -> None:
    one = await record(tmp_path / "one.jsonl", "Where is the marmalade?", "first", "aardvark")
    two = await record(tmp_path / "two.jsonl", "Hello", "second")
    async with viewing(tmp_path) as site:
        await site.built()
        (prompt,) = await found(site, "marmalade")
        (result,) = await found(site, "aardvark stands")
        both = await found(site, "zebra_crossing.py")
        part = await found(site, "zebra_cro")
        phrase = await found(site, '"stands in the zebra"')
        turned = await found(site, '"zebra stands"')
        apart = await found(site, "zebra stands")
        none = await found(site, "marmalade aardvark")
        events = dict(await site.events(one, 30))
    assert (prompt["id"], prompt["match"]["run"], prompt["match"]["step"]) == (one, 1, 0)
    assert prompt["match"]["excerpt"] == "Where is the marmalade?"
    assert (result["id"], result["match"]["step"]) == (one, 2)
    place = events[f"{result['run_id']}:{result['match']['seq']}"]
    assert place["type"] == "TOOL_CALL_RESULT"
    assert "the aardvark stands in the" in result["match"]["excerpt"]
    assert "\n" not in result["match"]["excerpt"]
    assert [{one["id"] for one in each} for each in (both, part, phrase, apart)] == [{one, two}] * 4
    assert turned == none == []


@pytest.mark.parametrize(("text", "count"), [("grüße", 1), ("GRÜSSE", 0), ("東京", 1), ("京都に", 1), ("京東", 0)])
async def test_words_of_other_languages_are_found(tmp_path: Path, text: str, count: int) -> None:
    await record(tmp_path / "one.jsonl", "Hello", "first")
    async with viewing(tmp_path) as site:
        await site.built()
        assert len(await found(site, text)) == count


@pytest.mark.parametrize(
    "text", ['"', '" OR *', "NEAR(a b)", "a AND", "-", "text:one", "^x", "'; DROP TABLE steps;", "*"]
)
async def test_no_text_is_a_query_of_another_kind(text: str) -> None:
    async with viewing(RECORDS) as site:
        await site.built()
        page = await site.get(f"/sessions?q={quote(text)}")
        again = await site.get("/sessions?q=port")
    assert page["total"] <= 40
    assert again["total"] > 0


async def test_a_search_goes_together_with_filters_orders_and_pages() -> None:
    async with viewing(RECORDS) as site:
        await site.built()
        everything = await found(site, "file", "&limit=200&sort=steps")
        first = await site.get("/sessions?q=file&limit=2&sort=steps")
        second = await site.get(f"/sessions?q=file&limit=2&sort=steps&before={quote(first['next'])}")
        limited = await found(site, "file", "&status=exhausted&sort=steps")
    assert first["sessions"] + second["sessions"] == everything[:4]
    assert first["total"] == len(everything)
    assert limited == [one for one in everything if one["status"] == "exhausted"] != []
    assert all(one["match"]["excerpt"] for one in everything)


async def test_the_index_is_kept_and_follows_files_that_change_and_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(catalog, "REFRESH_SECONDS", 0.01)
    records, place = tmp_path / "records", tmp_path / "texts.sqlite"
    records.mkdir()
    await record(records / "one.jsonl", "Hello", "aardvark")
    await record(records / "two.jsonl", "Hello", "buffalo")
    async with viewing(records, texts=place) as site:
        await site.built()
        assert len(await found(site, "aardvark")) == 1
    kept = _files(place)
    async with viewing(records, texts=place) as site:
        await site.built()
        assert _files(place) == kept
        (records / "one.jsonl").unlink()
        await record(records / "one.jsonl", "Hello", "capybara")
        await site.until("/sessions?q=capybara", lambda page: page["total"] == 1)
        assert await found(site, "aardvark") == []
        (records / "two.jsonl").unlink()
        await site.until("/sessions?q=buffalo", lambda page: page["total"] == 0)
        await site.until("/sessions", lambda page: page["total"] == 1)
        async with asyncio.timeout(WAIT_SECONDS):
            while len(_files(place)) > 1:
                await asyncio.sleep(0.02)
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        (left,) = database.execute("SELECT count(*) FROM words WHERE words MATCH 'buffalo OR aardvark'").fetchone()
    assert left == 0, "the words of a deleted record are not kept"


def _files(place: Path) -> list[Any]:
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        return sorted(database.execute("SELECT id, path, size, changed FROM files").fetchall())


@pytest.mark.parametrize("content", [b"no database at all, but longer than its header is" * 40, None])
async def test_without_a_usable_index_everything_but_the_search_works(tmp_path: Path, content: bytes | None) -> None:
    shutil.copy(RECORDS / "loop.jsonl", tmp_path / "loop.jsonl")
    place = tmp_path / "texts.sqlite"
    if content is None:
        place.mkdir()
    else:
        place.write_bytes(content)
    async with viewing(tmp_path / "loop.jsonl", texts=place) as site:
        await site.built()
        problem = await site.get("/sessions?q=file", 503)
        assert (await site.get("/sessions"))["total"] == 1
    assert problem["code"] == "search"
    assert str(place) in problem["detail"]


def test_the_excerpt_shows_the_place_at_the_beginning_of_a_word_first() -> None:
    texts = [(3, "nothing"), (4, "misreport, report and\x1b[31m a Reporter"), (5, "the report")]
    seq, excerpt = find_excerpt(texts, "report")
    assert seq == 4
    assert "\x1b" not in excerpt
    long = [(1, "a" * 500 + " İ needle " + "b" * 500)]
    assert find_excerpt(long, "needle")[1].startswith("…")
    assert "needle" in find_excerpt(long, "needle")[1]


def test_a_word_that_may_go_on_is_the_last_one_of_at_least_three_letters() -> None:
    assert match_expression("edit_fi") == '"edit_fi"'
    assert match_expression("edit_fil") == '"edit_fil" *'
    assert match_expression("the fil ") == '"the" AND "fil"'
    assert match_expression('"the file"') == '"the file"'
    assert match_expression("--- ***") == ""
