"""Tools of an MCP server (modelcontextprotocol.io), through the official `mcp` package.

    async with mcp_tools(Stdio("python", "server.py"), kinds={"submit": "completion"}) as tools:
        outcome = await Engine(provider, tools=tools).run("...")

    async with mcp_tools("http://127.0.0.1:9000/mcp", headers={"Authorization": "Bearer ..."}) as tools:
        ...

The tools are those that the server listed when it was connected. Later notifications of a changed list are ignored,
because an engine's tools are stored in its records and must not change.

Many runs share a connection. `mcp` keeps a connection in task groups, which the same task must enter and leave, so each
connection has its own task. Calls are made from the tasks of runs: a cancelled call tells the server so and leaves the
connection open. Progress notifications of the server are reported like the progress of any tool. A broken connection is
retired: calls in progress may still end, and the next call opens a new one.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args
from urllib.parse import urlsplit

import msgspec

from ..decision import Image, ToolKind, WrongUse
from ..decision.errors import did_you_mean, missing_extra
from ..decision.wrong_calls import checked, explained
from ..providers._wrapper import wait_shielded
from ..providers.endpoint_url import public_url
from .call_progress import progress_reporter
from .child_process import child_environment
from .function_roles import ROLES, check_function
from .results import CallOutcome, ProgressUpdate
from .tool import TOOL_TIMEOUT, Approval, Function, Tool, default_kind
from .user_functions import UserFunctionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

ServerApproval = bool | Literal["destructive"] | Collection[str] | Callable[[str, Mapping[str, Any]], bool]
"""Type of the option that tells which calls of a server's tools need the user's approval; see `mcp_tools`."""
MAX_NAME_CHARACTERS = 64
"""Maximum length of a tool name that all providers accept. They accept only letters, digits, `_` and `-`."""
CONNECT_SECONDS = 30.0
"""Maximum seconds for a server to respond when it is connected."""
CLOSE_SECONDS = 10.0
"""Maximum seconds for closing: a stdio server is asked to end, then terminated, then killed."""
MAX_PAGES = 100
"""Maximum number of pages of tools that are read; a server with more is assumed to repeat itself endlessly."""
CLOSED = -32000
"""Error code of `mcp` for a closed connection."""
EFFECT_UNKNOWN = "and whether this call took effect is not known"


@checked
class Stdio:
    """A server that endstop starts as a child process and talks to over standard input and output.

    command, arguments: run without a shell. env: variables in addition to the allow-list of `child_process.py`, which
    has `PATH`, `HOME`, locale, proxies and toolchains, but no keys. cwd: its working directory. log: an open file for
    its standard error; endstop's own if left out. Raises WrongUse if the command is empty.
    """

    def __init__(
        self,
        command: str | os.PathLike[str],
        *arguments: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        log: TextIO | None = None,
    ) -> None:
        self.command = os.fspath(command)
        self.arguments = [os.fspath(argument) for argument in arguments]
        self.env = None if env is None else dict(env)
        self.cwd = None if cwd is None else os.fspath(cwd)
        self.log = log
        if not self.command:
            raise WrongUse("Stdio: the command is empty: name the program that is the server")

    def __str__(self) -> str:
        return " ".join([self.command, *self.arguments])

    def __repr__(self) -> str:
        return f"Stdio({str(self)!r})"  # env may hold keys


@explained
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
    approval: ServerApproval = False,
    timeout: float | None = TOOL_TIMEOUT,
) -> AsyncIterator[list[Tool]]:
    """Connect to a server and return its tools. Leaving the block closes the connection and ends a stdio server.

    server: a program to start, or the URL of a server that speaks streamable HTTP.
    headers: sent with each request over HTTP.
    prefix: put before each tool's name, for servers whose tool names clash.
    only: the tools to use; all if left out. Names here and below are the server's own.
    kinds: kinds of tools by name. Others are ordinary, unless their description has the mark `[COMPLETION SIGNAL]`; a
    tool with a usual completion name (`task_done`, `submit`) is logged when an engine is made with it.
    reads: the tools that change nothing and may run in parallel. If left out, those that the server marks
    (`readOnlyHint`); name them yourself if you do not trust it.
    polls: the tools that are meant to be called repeatedly with the same result.
    approval: which calls need the user's approval before they run: True for all tools; names of tools; a function of
    the tool's name and the arguments; "destructive" for tools that do not count as reading, unless the server says that
    they destroy nothing (`destructiveHint: false`). Only ordinary tools can need approval.
    timeout: seconds for one call, None for no limit.

    Any number of runs may use the tools at once. Cancelling a run cancels its requests at the server. If the connection
    is lost, the call's result is an error, and the next call connects again.

    Raises WrongUse if `mcp` is not installed, the program cannot be started, or a name or a schema cannot be used, and
    ConnectionError if the server cannot be reached or does not speak MCP.
    """
    _check(server, headers)
    connection = McpConnection(server, headers, timeout)
    try:
        offered = {one.name: one for one in await connection.tools()}
        _check_names(offered, {"only": only or (), "kinds": kinds or (), "reads": reads or (), "polls": polls})
        _check_approval(offered, approval)
        yield [
            _make_tool(
                connection,
                one,
                name=_valid_name(prefix + one.name),
                kind=given,
                reads=changes_nothing,
                polls=one.name in polls,
                approval=_approval_of(one, approval, kind, changes_nothing),
                timeout=timeout,
            )
            for one in offered.values()
            if only is None or one.name in only
            for given in [(kinds or {}).get(one.name)]
            for kind in [given or default_kind(one.description or "")]
            for changes_nothing in [kind == "question" or (_reads(one) if reads is None else one.name in reads)]
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
            raise WrongUse(f"mcp_tools: {option} takes a list of names: write {option}=[{names!r}]")
        for name in names:
            if name not in offered:
                raise WrongUse(
                    f"mcp_tools: {option} names {name!r}, which the server does not have{did_you_mean(name, offered)}"
                )
            if isinstance(names, Mapping) and names[name] not in get_args(ToolKind):
                raise WrongUse(
                    f"mcp_tools: {name!r} is of kind {names[name]!r}: use one of {', '.join(get_args(ToolKind))}"
                )


class McpTool(Tool):
    """A tool of a server. Its name is not the user's choice, so a completion tool's name is logged and not refused."""

    def __init__(self, function: Function, name_at_server: str, **options: Any) -> None:
        super().__init__(function, **options)
        self.kind_advice = f"write kinds={{{name_at_server!r}: 'completion'}}, or 'ordinary' if it does not"
        self._name_at_server = name_at_server

    def _check_missing_kind(self) -> None:
        pass

    @property
    def _usual_name(self) -> str:
        return self._name_at_server


def _make_tool(connection: McpConnection, one: ServerTool, **options: Any) -> Tool:
    try:
        return McpTool(
            _call_function(connection, one.name),
            one.name,
            description=one.description or one.title or f"{one.name} (the server does not describe it)",
            parameters=one.input_schema,
            **options,
        )
    except WrongUse as error:
        raise WrongUse(f"{connection} has a tool that cannot be used: {error}; leave it out with only=[...]") from None


def _valid_name(name: str) -> str:
    """Return the name in a form that providers accept."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME_CHARACTERS]


def _reads(one: ServerTool) -> bool:
    return one.annotations is not None and one.annotations.read_only_hint is True


def _check_approval(offered: Collection[str], approval: Any) -> None:
    if isinstance(approval, str) and approval != "destructive":
        raise WrongUse(f"mcp_tools: approval is {approval!r}: write approval=[{approval!r}], or 'destructive'")
    if callable(approval):
        check_function("mcp_tools: approval", approval, ROLES["server_approval"])
    elif isinstance(approval, Collection) and not isinstance(approval, str):
        _check_names(offered, {"approval": approval})
    elif not isinstance(approval, bool | str):
        raise WrongUse(
            f"mcp_tools: approval is {approval!r}: use True, False, 'destructive', names of tools, or a function of "
            "a tool's name and its arguments"
        )


def _approval_of(one: ServerTool, approval: ServerApproval, kind: ToolKind, reads: bool) -> Approval:
    """Return the `approval` of a tool. `Tool` refuses one for a named tool that is not ordinary."""
    if isinstance(approval, Collection) and not isinstance(approval, str):
        return one.name in approval
    if kind != "ordinary":
        return False
    if callable(approval):
        return _with_name(approval, one.name)
    return approval is True or (approval == "destructive" and not reads and not _is_harmless(one))


def _with_name(approval: Callable[[str, Mapping[str, Any]], bool], name: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return the user's function as a function of the arguments only; records have it under its own name."""

    @wraps(approval)
    def function(arguments: Mapping[str, Any]) -> bool:
        return approval(name, arguments)

    return function


def _is_harmless(one: ServerTool) -> bool:
    """Return whether the server says that the tool destroys nothing. By the protocol's default it may."""
    return one.annotations is not None and one.annotations.destructive_hint is False


def _call_function(connection: McpConnection, name: str) -> Function:
    async def function(**arguments: Any) -> Any:
        return result_of(await connection.call(name, arguments, progress_reporter()))

    return function


def result_of(answered: CallToolResult) -> Any:
    """Return the result as a tool function would. Structured content is used only if there is no other content."""
    parts = list(_parts(answered.content))
    if not parts and answered.structured_content is not None:
        parts = [msgspec.json.encode(answered.structured_content).decode()]
    pictures = tuple(part for part in parts if isinstance(part, Image))
    text = "\n".join(part for part in parts if isinstance(part, str))
    if answered.is_error:
        return CallOutcome(content=text or "The tool failed without a word.", status="error", images=pictures)
    if pictures:
        return parts
    return text if parts else None


def _parts(content: Iterable[Any]) -> Iterator[str | Image]:
    """Yield the blocks of a result. A block that is neither text nor image becomes a short description."""
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
        return f"[{what}: {kind}, which is not base64]"


@dataclass(eq=False)
class _OpenConnection:
    """One open connection. `task` entered it and leaves it once `leave` is set; `calls` counts calls in progress."""

    task: asyncio.Task[None]
    client: Client
    leave: asyncio.Event
    calls: int = 0
    retired: bool = False

    def retire(self) -> None:
        """Accept no more calls, and close once the calls in progress have ended."""
        self.retired = True
        if self.calls == 0:
            self.leave.set()


class _SessionLost(Exception):
    """A server over HTTP does not know our session, because it was restarted or the session expired.

    Servers use different codes for this, but all of their messages contain the word "session".
    """


class McpConnection:
    """Manager of connections to one server, opened as needed. `mcp_tools` creates and closes it."""

    def __init__(self, server: Stdio | str, headers: Mapping[str, str] | None, timeout: float | None) -> None:
        try:
            import mcp

            mcp.Client  # noqa: B018  1.x has none
        except (ImportError, AttributeError) as error:
            raise missing_extra("mcp_tools: mcp 2 or newer is not installed", "mcp", error) from None
        self._mcp = mcp
        self._server = server
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._context = copy_context()
        self._link: _OpenConnection | None = None
        self._links: set[_OpenConnection] = set()
        self._opening = asyncio.Lock()
        self._closed = False

    def __str__(self) -> str:
        return f"the MCP server {self._server if isinstance(self._server, Stdio) else public_url(self._server)}"

    async def tools(self) -> list[ServerTool]:
        """Return the server's tools. Raises WrongUse if it cannot be started, ConnectionError if not reached."""
        link = await self._open_link()
        tools: list[ServerTool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for _ in range(MAX_PAGES):
                    page = await link.client.list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        return tools
        except TimeoutError:
            raise ConnectionError(f"{self} did not list its tools within {CONNECT_SECONDS:g} s") from None
        except Exception as error:
            raise ConnectionError(f"{self} did not list its tools: {_describe(error)}") from error
        raise ConnectionError(f"{self} lists its tools on more than {MAX_PAGES} pages")

    async def call(self, name: str, arguments: Mapping[str, Any], report: Callable[[Any], None]) -> CallToolResult:
        """Call a tool, and report its progress. Raises UserFunctionError with a text for the model."""

        async def notified(progress: float, total: float | None, message: str | None) -> None:
            report(ProgressUpdate(message or "", progress, total))

        try:
            return await self._call_once(name, arguments, notified)
        except _SessionLost:  # the call did not run; a new session does not know the old one
            with suppress(_SessionLost):
                return await self._call_once(name, arguments, notified)
            raise UserFunctionError(f"The tool did not run: {self} knows none of its own sessions") from None

    async def _call_once(self, name: str, arguments: Mapping[str, Any], notified: ProgressFnT) -> CallToolResult:
        try:
            link = await self._open_link()
        except (WrongUse, OSError) as error:
            raise UserFunctionError(f"The tool did not run: {error}") from error
        link.calls += 1
        try:
            return await link.client.call_tool(name, dict(arguments), progress_callback=notified)
        except self._mcp.MCPError as error:
            raise self._failed(link, error) from error
        except Exception as error:
            link.retire()
            raise UserFunctionError(f"{self} failed in this call, {EFFECT_UNKNOWN}: {_describe(error)}") from error
        finally:
            link.calls -= 1
            if link.retired:
                link.retire()

    def _failed(self, link: _OpenConnection, error: Any) -> Exception:
        if isinstance(self._server, str) and "session" in str(error).lower():
            link.retire()
            return _SessionLost()
        if error.code != CLOSED:
            return UserFunctionError(f"{self} answered with an error: {error} ({error.code})")
        link.retire()
        return UserFunctionError(
            f"The connection to {self} was lost, {EFFECT_UNKNOWN} ({error}). The next call connects to it again."
        )

    async def close(self) -> None:
        """Close all open connections."""
        self._closed = True
        for link in self._links:
            link.leave.set()
        for link in tuple(self._links):
            await wait_shielded(link.task, CLOSE_SECONDS)

    # ---- links

    async def _open_link(self) -> _OpenConnection:
        async with self._opening:
            if self._closed:
                raise ConnectionError(
                    f"the connection to {self} was closed: use its tools inside `async with mcp_tools`"
                )
            if self._link is None or self._link.retired or self._link.task.done():
                self._link = await self._connect()
            return self._link

    async def _connect(self) -> _OpenConnection:
        """Open a connection in its own task, in the context in which this object was created."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()
        task = asyncio.create_task(self._hold(ready, leave), name=f"endstop: {self}", context=self._context.copy())
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                client = await asyncio.shield(ready)
        except BaseException as error:
            task.cancel()
            await wait_shielded(task, CLOSE_SECONDS)
            if isinstance(error, TimeoutError):
                raise ConnectionError(f"{self} did not respond within {CONNECT_SECONDS:g} s") from None
            raise
        link = _OpenConnection(task, client, leave)
        self._links.add(link)
        task.add_done_callback(lambda _: self._links.discard(link))
        return link

    async def _hold(self, ready: asyncio.Future[Client], leave: asyncio.Event) -> None:
        """Enter and leave one connection. An error before it is open is set on `ready`."""
        try:
            async with self._client() as client:
                if not ready.done():
                    ready.set_result(client)
                await leave.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(self._not_open(_first_cause(error)))
            # Later, nobody waits for `ready`: the calls in progress get the error of the broken connection.

    def _not_open(self, error: BaseException) -> Exception:
        if isinstance(self._server, Stdio) and isinstance(error, OSError | ValueError):
            return WrongUse(f"mcp_tools: {self._server.command!r} cannot be started: {error}")
        return ConnectionError(f"{self} cannot be reached, or is not an MCP server: {_describe(error)}")

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        async with AsyncExitStack() as stack:
            transport = self._stdio() if isinstance(self._server, Stdio) else await self._http(self._server, stack)
            yield await stack.enter_async_context(self._mcp.Client(transport, cache=None))

    def _stdio(self) -> Any:
        assert isinstance(self._server, Stdio)
        named = self._mcp.StdioServerParameters(
            command=self._server.command,
            args=self._server.arguments,
            env=child_environment() | (self._server.env or {}),
            cwd=self._server.cwd,
        )
        return self._mcp.stdio_client(named, errlog=self._server.log or sys.stderr)

    async def _http(self, url: str, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # No bytes arrive while a tool is busy, so only the tool's own timeout limits the read.
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=self._timeout and self._timeout + CONNECT_SECONDS)
        client = httpx2.AsyncClient(headers=self._headers, timeout=timeout)
        return streamable_http_client(url, http_client=await stack.enter_async_context(client))


def _first_cause(error: BaseException) -> BaseException:
    """Return the first error inside the exception groups of task groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _describe(error: BaseException) -> str:
    error = _first_cause(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
