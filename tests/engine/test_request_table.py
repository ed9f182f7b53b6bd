"""The requests of all steps of a session in one table: each can be made again, and it grows with the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine
from endstop.decision import Compaction, Limits, Patience, Policy
from endstop.html_export.request_table import RequestTable, RequestTableBuilder
from endstop.model_request import find_request
from endstop.providers import Scripted
from endstop.records.format import encode_line
from endstop.records.scan import scan
from endstop.tools import finish_task

from .test_model_request import FETCH, responses


async def recorded(path: Path, steps: int, compaction: Compaction | None = None) -> Path:
    """A record of one run of so many steps, each with a result of 4,000 characters."""
    policy = Policy(
        limits=Limits(steps=steps + 9), patience=Patience(compactions=9), compaction=compaction or Compaction()
    )
    engine = Engine(Scripted(responses(steps)), tools=[FETCH, finish_task], policy=policy)
    await engine.run("Fetch.", record=path)
    return path


def table_of(record: Path) -> RequestTable:
    builder = RequestTableBuilder()
    for event in scan(record, attachments=True):
        builder.feed(event)
    return builder.table()


def requests_in(table: RequestTable) -> list[dict[str, Any]]:
    """Each request of a table, as `embedded.js` makes it again."""
    values = [msgspec.json.decode(value) for value in table.values]
    messages: list[int] = []
    found = []
    for row in table.requests:
        messages = [*messages[: row.kept], *row.added]
        named = {name: values[getattr(row, name)] for name in ("system", "tools", "settings")}
        plain = {name: getattr(row, name) for name in ("run", "step", "model", "tool_choice", "source", "redacted")}
        found.append({**plain, **named, "messages": [values[place] for place in messages]})
    return found


@pytest.mark.parametrize("strategy", [None, "shorten_results", "drop_oldest", "summarise"])
async def test_every_request_can_be_made_again(strategy: Any, tmp_path: Path) -> None:
    compaction = (
        None if strategy is None else Compaction(window=5000, strategies=(strategy,), keep_results=1, keep_messages=3)
    )
    record = await recorded(tmp_path / "run.jsonl", 8, compaction)
    events = list(scan(record, attachments=True))
    requests = requests_in(table_of(record))
    assert len(requests) == 9
    for request in requests:
        found = find_request(events, request["run"], request["step"])
        assert request == msgspec.json.decode(encode_line(found))


async def test_it_grows_with_the_messages_and_not_with_their_square(tmp_path: Path) -> None:
    few, many = [table_of(await recorded(tmp_path / f"{steps}.jsonl", steps)) for steps in (20, 80)]
    assert len(many.requests) == 81
    assert len(encode_line(many)) < 4.5 * len(encode_line(few))
