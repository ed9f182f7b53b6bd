"""The check of the work that agents in these tests do, and what the record says of it (fixture `work`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Until, read_record
from endstop.decision import POLICIES, Outcome
from endstop.decision.until_rules import policy_for_until
from msgspec.structs import replace

from .vendors import WIRES

GOAL = 3
CHECK = f"""n=$(wc -l < work.txt); echo "$n passed, $(({GOAL} - n)) failed"; test "$n" -ge {GOAL}"""
POLICY = replace(policy_for_until(POLICIES["agent"]), question="as_text")
ON_WIRES = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
STREAMS = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


def until(work: Path, command: str = CHECK) -> Until:
    return Until(command, folder=work.parent, score=r"(\d+) passed, (-?\d+) failed", from_failing=False)


def recorded(folder: Path) -> tuple[list[Any], Outcome]:
    (record,) = folder.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    return list(run.events), run.finished.outcome
