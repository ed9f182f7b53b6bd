"""docs/reference/stop_signals.md, read and played: each row says what comes out of the providers."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from endstop.decision import FinishReason, ProviderToolReport

from ..shared_data import ABSENT, replies_in, streams
from .played import Heard, heard
from .voices import MODELS, direct, through_litellm

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", [str(DOCS), *sys.path])
        return importlib.import_module("stop_signals")


SCRIPT = _script()
TEXT = (DOCS / "reference" / "stop_signals.md").read_text(encoding="utf-8")
ROWS = SCRIPT.rows_of(TEXT)
ENDS = {*get_args(FinishReason), "error"}


CHAT = streams("openai-chat")
READ = {*CHAT, *streams("anthropic")}
"""What test_recorded_streams.py plays whole, too: what came out of it is judged there and here."""


async def play(path: Path) -> Any:
    """The row of a recording."""
    ends_first = SCRIPT.reply_of(path).pieces == replies_in(path)[0].pieces
    same_model = SCRIPT.MODELS[path.parent.name] == (MODELS.get(path.parent.name), {})
    if not (path in READ and ends_first and same_model):
        return await SCRIPT.play(path)
    straight = signals_of(await heard(path, direct))[1] if path in CHAT else SCRIPT.Signals(SCRIPT.ERROR)
    return SCRIPT.row(path, SCRIPT.recorded(path), straight, *signals_of(await heard(path, through_litellm)))


def signals_of(whole: Heard) -> Any:
    return SCRIPT.signals_of(whole.assembler, sum(isinstance(chunk, ProviderToolReport) for chunk in whole.chunks))


@ABSENT
@pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves
@pytest.mark.parametrize("row", ROWS, ids=[row.recording for row in ROWS])
async def test_a_recording_comes_out_as_its_row_says(row: Any) -> None:
    played = await play(SCRIPT.STREAMS / f"{row.recording}.chunks.txt")
    if f"through litellm {version('litellm')}." not in TEXT:  # its own word differs between versions
        played = played._replace(litellm=row.litellm)
    assert played == row


@ABSENT
def test_every_recording_has_its_row() -> None:
    here = [f"{path.parent.name}/{path.name[:-11]}" for path in sorted(SCRIPT.STREAMS.glob("*/*.chunks.txt"))]
    assert [row.recording for row in ROWS] == here


def test_a_finish_is_one_of_ours_and_what_is_wrong_has_a_reason() -> None:
    for row in ROWS:
        assert row.ours in ENDS, row
        assert row.direct in {*ENDS, SCRIPT.OTHER}, row
        assert row.wrong in {"", *SCRIPT.REASONS.values()}, row
        assert all(number.isdigit() for number in (row.calls, row.tools, row.heard, row.shown)), row
        right = SCRIPT.right_finish(SCRIPT.Signals(row.raw, (("a call", ""),) * int(row.calls)))
        if not row.wrong:
            assert row.ours == right, row
            assert (row.heard, row.shown) == (row.calls, row.tools) or row.ours == "error", row
        if row.direct != SCRIPT.OTHER:
            assert row.direct == right, row


def test_nothing_that_the_provider_ran_is_executed() -> None:
    assert [row.recording for row in ROWS if int(row.heard) > int(row.calls)] == []


def test_the_summary_counts_the_rows() -> None:
    assert SCRIPT.rendered(TEXT, ROWS) == TEXT


def test_every_kind_of_fault_that_the_script_knows_stands_in_the_table() -> None:
    assert {row.wrong for row in ROWS} == {"", *SCRIPT.REASONS.values()}
