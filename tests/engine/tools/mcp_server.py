"""An MCP server for the tests, over stdio or HTTP: `python mcp_server.py [PORT]`. Notes what happens in `NOTES`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import Field

server = MCPServer("tests", log_level="CRITICAL")
READS = ToolAnnotations(read_only_hint=True)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def note(what: str) -> None:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{what}\n")


@server.tool(annotations=READS, structured_output=False)
def add(a: int, b: Annotated[int, Field(description="What is added.")] = 1) -> str:
    """Add two integers."""
    return str(a + b)


@server.tool(structured_output=False)
async def write(text: str) -> str:
    """Write a text down."""
    note(f"wrote {text}")
    return "written"


@server.tool(annotations=ToolAnnotations(destructive_hint=False), structured_output=False)
def append(text: str) -> str:
    """Add a line."""
    note(f"appended {text}")
    return "appended"


@server.tool(annotations=READS, structured_output=False)
async def hang(name: str) -> str:
    """Wait for ever."""
    note(f"{name} began")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        note(f"{name} cancelled")
        raise
    return ""


@server.tool(annotations=READS, structured_output=False)
async def meet(name: str) -> str:
    """Wait until three have come, and say who they were."""
    note(f"{name} came")
    while len(came := [line for line in Path(os.environ["NOTES"]).read_text().splitlines() if "came" in line]) < 3:
        await anyio.sleep(0.01)
    return f"{name} met {len(came)}"


@server.tool(structured_output=False)
async def bake(loaves: int, ctx: Context) -> str:
    """Bake loaves of bread."""
    for number in range(1, loaves + 1):
        await ctx.report_progress(number, loaves, f"loaf {number}")
    return f"{loaves} loaves"


@server.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@server.tool()
def structured() -> CallToolResult:
    """Give structured content alone."""
    return CallToolResult(content=[], structured_content={"sum": 3})


@server.tool()
def everything() -> CallToolResult:
    """Give every kind of content."""
    return CallToolResult(
        content=[
            TextContent(text="first"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            AudioContent(data="AAAA", mime_type="audio/wav"),
            ResourceLink(uri="file:///a.txt", name="a", description="the first"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///b.txt", text="inside b")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///c.png", blob=PIXEL, mime_type="image/png")),
            EmbeddedResource(
                resource=BlobResourceContents(uri="file:///d.bin", blob="AAAA", mime_type="application/octet-stream")
            ),
        ]
    )


@server.tool(structured_output=False)
def die() -> str:
    """End the server at once."""
    os._exit(3)


@server.tool(structured_output=False)
def task_done(summary: str) -> str:
    """Report the result."""
    return summary


@server.tool(structured_output=False)
def hand_over(summary: str) -> str:
    """[COMPLETION SIGNAL] Hand the result over."""
    return summary


@server.tool(structured_output=False)
def submit(summary: str) -> str:
    """Hand the work in."""
    return f"handed in: {summary}"


@server.tool(name="odd/name.x", structured_output=False)
def odd(function: str, self_: str = "") -> str:
    """Take an argument called function."""
    return function


@server.tool(structured_output=False)
def header(context: Context[Any, Any]) -> str:
    """Tell the request's header `x-who`."""
    return (context.headers or {}).get("x-who", "nobody")


if __name__ == "__main__":
    note("started")
    Path(os.environ["NOTES"] + ".pid").write_text(str(os.getpid()), encoding="utf-8")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
