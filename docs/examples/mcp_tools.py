"""An MCP server's tools, over stdio and over HTTP: two shelves of notes, and an agent that moves a note.

    python docs/examples/mcp_tools.py                    a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python ... a real one

The server is this same file (`--serve`), so that the example needs nothing but `pip install "endstop[mcp]"`. One shelf
is a process that we start and speak to over stdio; the other is reached over HTTP, on loopback. Both have the same
tools, so each gets a prefix. `done` is the server's own tool; we say that a call of it completes the task.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from endstop import Engine, Stdio, mcp_tools
from endstop.providers import LiteLLM, Provider, Scripted, call

PROMPT = "Move the note about milk from the old shelf to the new one."


def serve(name: str, port: int | None) -> None:
    """The server: a shelf of notes."""
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer(name, log_level="ERROR")
    notes = ["buy milk", "call Jane"] if name == "old" else ["mend the bicycle"]

    @server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    def list_notes() -> str:
        """List the notes on this shelf."""
        return "\n".join(notes)

    @server.tool(structured_output=False)
    def add_note(text: str) -> str:
        """Put a note on this shelf."""
        notes.append(text)
        return f"There are {len(notes)} notes now."

    @server.tool(structured_output=False)
    def remove_note(text: str) -> str:
        """Take a note off this shelf."""
        notes.remove(text)
        return f"There are {len(notes)} notes now."

    @server.tool(structured_output=False)
    def done(summary: str) -> str:
        """Call this once, when the notes are where they belong; say in the summary what was moved."""
        return summary

    if port is None:
        server.run()
    else:
        server.run("streamable-http", port=port)


@asynccontextmanager
async def over_http(name: str) -> AsyncIterator[str]:
    """The server as a process that listens on loopback; gives its URL."""
    held = socket.socket()  # as long as it is open, nobody else is given its port; the server may listen on it
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "--serve", name, str(port))
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()
        held.close()


def provider() -> Provider:
    """The model that the environment names, or a script that does what a model would."""
    if model := os.environ.get("ENDSTOP_MODEL"):
        return LiteLLM(model)
    return Scripted(
        [call("old_list_notes"), call("new_list_notes")],
        [call("new_add_note", text="buy milk"), call("old_remove_note", text="buy milk")],
        [call("old_list_notes"), call("new_list_notes")],
        [call("new_done", summary="The note 'buy milk' is on the new shelf.")],
    )


async def main() -> None:
    old = Stdio(sys.executable, __file__, "--serve", "old")
    async with (
        over_http("new") as url,
        mcp_tools(old, prefix="old_", only=["list_notes", "remove_note"]) as old_shelf,
        mcp_tools(
            url, prefix="new_", only=["list_notes", "add_note", "done"], kinds={"done": "completion"}
        ) as new_shelf,
    ):
        engine = Engine(provider(), tools=[*old_shelf, *new_shelf])
        async with engine.start(PROMPT) as run:
            async for event in run:
                if type(event).__name__ == "ToolCallResult":
                    print(f"{event.name}: {', '.join(event.content.splitlines())}")
    print(f"\n{run.outcome.stop_reason}: {run.outcome.answer}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
    else:
        asyncio.run(main())
