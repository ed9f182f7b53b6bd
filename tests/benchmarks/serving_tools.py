"""The tool of the load test, for `endstop serve --tools`."""

from __future__ import annotations

from endstop.engine import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
