"""Checks of the work (`until`) for tests that end a run by each of their answers."""

from __future__ import annotations

from endstop import Impossible
from endstop.hooks import Progress


async def passes_later(run: Progress) -> bool:
    """Pass after the first step."""
    return bool(run.facts.steps)


async def never_passes(run: Progress) -> bool:
    """Fail, whatever was done."""
    return False


async def cannot_pass(run: Progress) -> bool | Impossible:
    """Say after the first step that the work cannot be done."""
    return Impossible("there is no disk") if run.facts.steps else False
