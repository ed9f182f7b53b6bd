"""Tools of an MCP server (modelcontextprotocol.io) as tools of ours, through the official `mcp` package.

    async with mcp_tools(Stdio("python", "server.py"), kinds={"submit": "completion"}) as tools:
        outcome = await Engine(provider, tools=tools).run("...")

    async with mcp_tools("http://127.0.0.1:9000/mcp", headers={"Authorization": "Bearer ..."}) as tools:
        ...

The tools are those that the server named when it was connected to; one that says later that its list has changed is
not listened to, because an engine's tools stand in its records and stay what they are.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

import msgspec

from ..decision import Image, ToolKind, WrongUse
from ..decision.errors import nearest
from .mcp_connection import McpConnection, Stdio
from .results import Settled
from .tool import TOOL_TIMEOUT, Function, Tool

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

LONGEST_NAME = 64
"""Characters of a tool's name that providers take; also, they take letters, digits, `_` and `-` only."""


@asynccontextmanager
async def mcp_tools(
    server: Stdio | str,
    *,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    only: Collection[str] | None = None,
    kinds: Mapping[str, ToolKind] | None = None,
    reads: Collection[str] | None = None,
    polls: Collection[str] = (),
    timeout: float | None = TOOL_TIMEOUT,
) -> AsyncIterator[list[Tool]]:
    """Connect to a server and give its tools; leaving the block closes the connection, and the server if it is ours.

    server: a program to start, or the URL of a server that speaks streamable HTTP.
    headers: sent with each request over HTTP.
    prefix: stands before each tool's name, for servers whose names clash.
    only: the tools that are taken, all if left out. Names here and below are the server's own.
    kinds: what a call means to the loop, by name; all others are ordinary.
    reads: the tools that change nothing and may run beside others. If left out, those that the server says so of
    (`readOnlyHint`): name them yourself if you do not trust it.
    polls: those that are made to be called again and again with the same result.
    timeout: seconds for one call, None for no limit.

    Any number of runs may use the tools at once. A run that is cancelled has its requests cancelled at the server. A
    connection that is lost gives that call an error as its result; the next call connects again.

    Raises WrongUse if `mcp` is not installed, the program cannot be started, or a name or a schema cannot be used, and
    ConnectionError if the server cannot be reached or does not speak MCP.
    """
    _check(server, headers)
    connection = McpConnection(server, headers, timeout)
    try:
        offered = {one.name: one for one in await connection.tools()}
        _check_names(offered, {"only": only or (), "kinds": kinds or (), "reads": reads or (), "polls": polls})
        yield [
            _tool(
                connection,
                one,
                name=_fit(prefix + one.name),
                kind=(kinds or {}).get(one.name, "ordinary"),
                reads=_asks(one, kinds) or (_reads(one) if reads is None else one.name in reads),
                polls=one.name in polls,
                timeout=timeout,
            )
            for one in offered.values()
            if only is None or one.name in only
        ]
    finally:
        await connection.close()


def _check(server: Any, headers: Any) -> None:
    if isinstance(server, Stdio):
        if headers:
            raise WrongUse(
                "mcp_tools: headers are for a server over HTTP; a program takes env=..., as in Stdio(..., env=...)"
            )
    elif not isinstance(server, str) or urlsplit(server).scheme not in ("http", "https"):
        raise WrongUse(f"mcp_tools: {server!r} is neither a URL nor a program: write Stdio('python', 'server.py')")


def _check_names(offered: Collection[str], given: Mapping[str, Iterable[str] | Mapping[str, str]]) -> None:
    for option, names in given.items():
        if isinstance(names, str):
            raise WrongUse(f"mcp_tools: {option} takes several names: write {option}=[{names!r}]")
        for name in names:
            if name not in offered:
                raise WrongUse(f"mcp_tools: {option} names {name!r}, which the server has not{nearest(name, offered)}")
            if isinstance(names, Mapping) and names[name] not in get_args(ToolKind):
                raise WrongUse(
                    f"mcp_tools: {name!r} is of kind {names[name]!r}: use one of {', '.join(get_args(ToolKind))}"
                )


def _fit(name: str) -> str:
    """The name as providers take it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_NAME]


def _reads(one: ServerTool) -> bool:
    return one.annotations is not None and one.annotations.read_only_hint is True


def _asks(one: ServerTool, kinds: Mapping[str, ToolKind] | None) -> bool:
    """Whether it is called for the text of a question: what the server does about it is nobody's business here."""
    return (kinds or {}).get(one.name) == "question"


def _tool(connection: McpConnection, one: ServerTool, **options: Any) -> Tool:
    try:
        return Tool(
            _function(connection, one.name),
            description=one.description or one.title or f"{one.name} (the server does not describe it)",
            parameters=one.input_schema,
            **options,
        )
    except WrongUse as error:
        raise WrongUse(f"{connection} has a tool that cannot be used: {error}; leave it out with only=[...]") from None


def _function(connection: McpConnection, name: str) -> Function:
    async def function(**arguments: Any) -> Any:
        return result_of(await connection.call(name, arguments))

    return function


def result_of(answered: CallToolResult) -> Any:
    """What a tool of ours would have returned. Structured content speaks where nothing else does."""
    parts = list(_parts(answered.content))
    if not parts and answered.structured_content is not None:
        parts = [msgspec.json.encode(answered.structured_content).decode()]
    pictures = tuple(part for part in parts if isinstance(part, Image))
    text = "\n".join(part for part in parts if isinstance(part, str))
    if answered.is_error:
        return Settled(content=text or "The tool failed without a word.", status="error", images=pictures)
    if pictures:
        return parts
    return text if parts else None


def _parts(content: Iterable[Any]) -> Iterator[str | Image]:
    """The blocks of a result; what is neither text nor picture is told in words."""
    for block in content:
        match block.type:
            case "text":
                yield block.text
            case "image":
                yield _picture(block.data, block.mime_type, "image")
            case "audio":
                yield f"[audio: {block.mime_type}, {len(block.data) * 3 // 4} bytes]"
            case "resource_link":
                about = f": {block.description}" if block.description else ""
                yield f"[resource {block.uri} ({block.name}){about}]"
            case "resource":
                yield from _resource(block.resource)
            case other:
                yield f"[{other}: not shown]"


def _resource(resource: Any) -> Iterator[str | Image]:
    text = getattr(resource, "text", None)
    kind = resource.mime_type or "unknown type"
    if text is not None:
        yield f"[resource {resource.uri}]\n{text}"
    elif kind.startswith("image/"):
        yield f"[resource {resource.uri}]"
        yield _picture(resource.blob, kind, str(resource.uri))
    else:
        yield f"[resource {resource.uri}: {kind}, {len(resource.blob) * 3 // 4} bytes]"


def _picture(data: str, kind: str, what: str) -> str | Image:
    try:
        return Image(base64.b64decode(data, validate=True), kind)
    except (binascii.Error, ValueError):
        return f"[{what}: {kind}, which is no base64]"
