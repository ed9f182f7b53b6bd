"""Tools of another deploy: one of those that sessions began with is gone."""

from __future__ import annotations

from endstop import tool


@tool(reads=True)
async def look(who: str, step: int, seconds: float, held: bool = False, gives: str = "text") -> str:
    """Look at something."""
    raise AssertionError(f"{who} must not go on here")
