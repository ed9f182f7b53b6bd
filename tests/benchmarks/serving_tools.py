"""The tool of the load test, for `endstop serve --tools`."""

from __future__ import annotations

from endstop import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
