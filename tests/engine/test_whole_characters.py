"""Half a surrogate pair in what users, hooks and tools say: U+FFFD in the request and in the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool, read_record
from endstop.decision import FinishReport, TextDelta, ToolCallDelta
from endstop.providers import Request, Scripted

HALF = "a\ud83db"
WHOLE = "a\ufffdb"


async def look() -> str:
    """Look."""
    return HALF


async def fail() -> str:
    """Fail."""
    raise ValueError(HALF)


def said(request: Request) -> str:
    return repr((*request.messages, *request.ephemeral, *request.tools))


@pytest.mark.parametrize(
    ("prompt", "options", "calls"),
    [
        (HALF, {}, ""),
        ([HALF, "c"], {}, ""),
        ("go", {"system": HALF}, ""),
        ("go", {"system": lambda *given: HALF}, ""),
        ("go", {"tools": [Tool(look, description=HALF, reads=True)]}, ""),
        ("go", {"tools": [Tool(look, reads=True)]}, "look"),
        ("go", {"tools": [Tool(fail, reads=True)]}, "fail"),
    ],
    ids=["prompt", "parts", "system", "system function", "description", "result", "error"],
)
async def test_half_a_pair_that_enters_is_one_replacement_character(
    prompt: Any, options: dict[str, Any], calls: str, tmp_path: Path
) -> None:
    asks = [[ToolCallDelta(0, "c", calls, "{}"), FinishReport("tool_calls", "tool_calls")]] if calls else []
    provider = Scripted(*asks, [TextDelta("Done."), FinishReport("stop", "stop")])
    record = tmp_path / "run.jsonl"
    outcome = await Engine(provider, presets=(), **options).session(record=record).run(prompt)
    assert outcome.answer == "Done."
    last = said(provider.requests[-1])
    assert WHOLE in last
    assert "\\ud83d" not in last
    (run,) = read_record(record).runs
    assert WHOLE.encode() in record.read_bytes()
    assert run.events[-1].outcome == outcome
