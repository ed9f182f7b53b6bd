"""The list of sessions over HTTP: filters, order, pages, facets, and files that cannot be read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from endstop.records.files import find_records

from .viewing import RECORDS, viewing


async def _pages(site: Any, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = ""
    while True:
        page = await site.get(f"/sessions?limit=5&{query}{before}")
        found += page["sessions"]
        assert page["total"] >= len(found)
        if page["next"] is None:
            assert page["total"] == len(found)
            return found
        before = f"&before={quote(page['next'])}"


async def test_all_records_of_a_folder_are_listed_newest_first_a_page_at_a_time() -> None:
    async with viewing(RECORDS) as site:
        found = await _pages(site, "")
    assert len(found) == len({one["id"] for one in found}) == len(find_records([RECORDS]))
    times = [one["created_at"] for one in found]
    assert times == sorted(times, reverse=True)
    loop = next(one for one in found if one["file"] == "loop.jsonl")
    assert (loop["status"], loop["stop_reason"], loop["steps"]) == ("exhausted", "step_limit", 12)
    assert loop["tools"] == ["list_files"]
    assert loop["model"] == "local"
    assert loop["trouble"] is None


@pytest.mark.parametrize(
    "name", ["steps", "tokens", "cost", "duration", "errors", "title", "agent", "newest", "oldest"]
)
@pytest.mark.parametrize("sign", ["", "-"])
async def test_every_order_lists_each_session_once_and_a_minus_turns_it_round(name: str, sign: str) -> None:
    async with viewing(RECORDS) as site:
        found = await _pages(site, f"sort={sign}{name}")
        other = await _pages(site, f"sort={'' if sign else '-'}{name}")
    field = {"cost": "cost_usd", "duration": "duration_ms", "newest": "created_at", "oldest": "created_at"}
    values = [
        (one[field.get(name, name)] or None) if name in ("newest", "oldest") else one[field.get(name, name)]
        for one in found
    ]
    assert len({one["id"] for one in found}) == len(found) == len(other)
    known = [value.casefold() if name in ("title", "agent") else value for value in values if value is not None]
    descending = (name not in ("oldest", "title", "agent", "ending")) != bool(sign)
    assert known == sorted(known, reverse=descending)
    assert values[len(known) :] == [None] * (len(values) - len(known))


async def test_filters_narrow_the_list_and_facets_count_their_values() -> None:
    async with viewing(RECORDS) as site:
        everything = await _pages(site, "")
        facets = await site.get("/facets")
        exhausted = await _pages(site, "status=exhausted&tool=list_files")
        failed = await _pages(site, "errors=1")
        waiting = await _pages(site, "status=awaiting_input&reason=awaiting_input&agent=endstop&model=local")
        none = await site.get("/sessions?tool=no_such_tool")
        limited = await _pages(site, f"ending={quote('limit of steps')}&check=unknown")
    assert {one["ending"] for one in limited} == {"limit of steps"}
    assert len(limited) == sum((one["ending"], one["check"]) == ("limit of steps", "unknown") for one in everything)
    assert sum(facets["ending"].values()) == sum(facets["check"].values()) == len(everything)
    assert {one["status"] for one in exhausted} == {"exhausted"}
    assert all("list_files" in one["tools"] for one in exhausted)
    assert exhausted
    assert failed == [one for one in everything if one["errors"]]
    assert facets["status"]["awaiting_input"] == len(waiting) > 0
    assert facets["tool"]["edit_file"] == sum("edit_file" in one["tools"] for one in everything)
    assert sum(facets["model"].values()) == len(everything)
    assert (none["sessions"], none["total"], none["next"]) == ([], 0, None)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("sort=size", "sort"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=a", "limit"),
        ("colour=red", "colour"),
        ("errors=2", "errors"),
        ("before=nonsense", "before"),
        ("status=a&status=b", "status"),
    ],
)
async def test_what_the_list_does_not_know_is_refused_with_its_name(query: str, word: str) -> None:
    async with viewing(RECORDS / "add.jsonl") as site:
        problem = await site.get(f"/sessions?{query}", 400)
    assert word in problem["detail"]
    assert problem["status"] == 400


async def test_the_place_in_one_order_is_no_place_in_another() -> None:
    async with viewing(RECORDS) as site:
        page = await site.get("/sessions?limit=2&sort=steps")
        problem = await site.get(f"/sessions?limit=2&sort=title&before={quote(page['next'])}", 400)
    assert "before" in problem["detail"]


async def test_files_that_cannot_be_read_are_listed_with_why(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text('{"role":"user"}\n')
    (tmp_path / "empty.jsonl").write_bytes(b"")
    newer = (RECORDS / "add.jsonl").read_text().replace('"version":"', '"version":"9', 1)
    (tmp_path / "newer.jsonl").write_text(newer)
    whole = (RECORDS / "add.jsonl").read_bytes()
    (tmp_path / "torn.jsonl").write_bytes(whole[:-30])
    shutil.copy(RECORDS / "add.jsonl", tmp_path / "add.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path)
    async with viewing(tmp_path) as site:
        found = {one["file"]: one for one in (await site.get("/sessions"))["sessions"]}
        notes = await site.get(f"/sessions/{quote(found['notes.jsonl']['id'])}")
        refused = await site.get(f"/sessions/{quote(found['notes.jsonl']['id'])}/events", 422)
    assert set(found) == {"notes.jsonl", "empty.jsonl", "newer.jsonl", "torn.jsonl", "add.jsonl"}
    assert "is not an endstop record" in found["notes.jsonl"]["trouble"]
    assert {found[name]["status"] for name in ("notes.jsonl", "empty.jsonl", "newer.jsonl")} == {"unreadable"}
    assert "upgrade endstop" in found["newer.jsonl"]["trouble"]
    assert "1 of its lines cannot be read" in found["torn.jsonl"]["trouble"]
    assert found["torn.jsonl"]["status"] == "interrupted"
    assert {found["torn.jsonl"]["id"], found["add.jsonl"]["id"]} == {
        found["add.jsonl"]["id"],
        f"{found['add.jsonl']['id']}~2",
    }
    assert notes["runs"] == []
    assert refused["code"] == "unreadable"
