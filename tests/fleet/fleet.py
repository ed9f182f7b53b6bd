"""A fleet: workers and a server as processes, a model and a side log that outlive them, and what is done to them."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from ..console import environment, python_in_fork, started_in_fork
from ..forked import Started
from .ledger import SideLog
from .script import Script

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0
"""Seconds after which a wait has failed."""
LEASE = 2.0
"""Seconds: short, so that the tests are."""
TOGETHER = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
"""Words before a command that is to die with the tests, however they end."""


async def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait until it is true, and give it. Fails after so many seconds."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {patience:g} s in vain: {what}"
        await asyncio.sleep(0.005)
    return found


class Member:
    """A process of the fleet. `name` is what the model knows it by, unless it is a server with workers of its own."""

    def __init__(self, name: str, process: asyncio.subprocess.Process | Started, err: Path) -> None:
        self.name = name
        self.process = process
        self._err = err

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def said(self) -> str:
        """What it wrote to stderr."""
        return self._err.read_text()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash would."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def stop(self, patience: float = PATIENCE) -> int:
        """End it as a service manager would; its exit code."""
        self.send(signal.SIGTERM)
        async with asyncio.timeout(patience):
            return await self.process.wait()


class Model:
    """The model's process, for any number of fleets."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.side_log = folder / "side.log"
        self.host = host
        self.port = 0

    async def __aenter__(self) -> Model:
        with (self.side_log.parent / "model.err").open("wb") as stderr:
            self._process = await python_in_fork(HERE / "model.py", self.side_log, self.host, stderr=stderr)
        assert self._process.stdout is not None
        self.port = int(await self._process.stdout.readline())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._process.leave()

    def api_base(self, name: str, host: str | None = None) -> str:
        """Where somebody of this name asks."""
        return f"http://{host or '127.0.0.1'}:{self.port}/as/{name}/v1"

    def open_gate(self, who: str) -> None:
        """Let a session go on that its script holds."""
        (self.side_log.parent / f"go-{who}").touch()


class Fleet:
    """Starts processes on one store, and asks its server."""

    def __init__(
        self,
        stack: AsyncExitStack,
        folder: Path,
        store: str,
        model: Model,
        *,
        queue: str | None = None,
        tools: Path = HERE / "agent_tools.py",
    ) -> None:
        self._stack = stack
        self._folder = folder
        self.store = store
        self.model = model
        self.side = SideLog(model.side_log)
        self.queue = queue
        self.tools = tools
        self.members: list[Member] = []
        self.server: Member | None = None
        self.url = ""
        self._http: aiohttp.ClientSession | None = None
        self._count = 0

    # ---- processes

    async def worker(self, *options: object, name: str | None = None, **how: Any) -> Member:
        """Start a worker, and wait until it works."""
        member = await self.begin_worker(*options, name=name, **how)
        await self.ready(member)
        return member

    async def begin_worker(
        self,
        *options: object,
        name: str | None = None,
        lease: float = LEASE,
        tools: Path | None = None,
        before: Sequence[str] = (),
        model_host: str | None = None,
        store: str | None = None,
    ) -> Member:
        """Start a worker. `before`: words before its command, which run it somewhere else."""
        self._count += 1
        name = name or f"w{self._count}"
        command = ["worker", "--store", store or self.store, "--lease", str(lease)]
        command += self.agent(name, tools, model_host)
        return await self.begin(name, [*command, *map(str, options)], before=before)

    async def ready(self, member: Member) -> None:
        """Wait until a worker says that it works."""
        assert member.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await member.process.stdout.readline()).decode()
        assert line.startswith("endstop worker takes"), f"{line!r}: {member.said}"

    async def serve(self, *options: object, workers: int | None = 0, lease: float = LEASE) -> Member:
        """Start the server, and wait until it listens. workers: of its own; None: it runs the sessions itself."""
        command = ["serve", "--port", "0", "--store", self.store, "--rate", "0", "--quiet"]
        command += ["--lease", str(lease), *self.agent("serve")]
        command += [] if workers is None else ["--workers", str(workers)]
        self.server = await self.begin("serve", [*command, *map(str, options)])
        assert self.server.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.server.process.stdout.readline()).decode()
        assert "http://" in line, f"{line!r}: {self.server.said}"
        self.url = line[line.index("http://") :].split()[0].rstrip("/")
        return self.server

    def agent(self, name: str, tools: Path | None = None, model_host: str | None = None) -> list[str]:
        """The options that all must share, but for the model's address, which tells who asks."""
        words = ["--model", "scripted", "--api-base", self.model.api_base(name, model_host), "--max-steps", "100"]
        words += ["--tools", str(tools or self.tools)]
        return words + (["--queue", self.queue] if self.queue else [])

    async def begin(self, name: str, words: Sequence[str], *, before: Sequence[str] = ()) -> Member:
        """Start `endstop` with these arguments: as a fork, or as a new process after the words `before`, if given."""
        err = self._folder / f"{len(self.members)}-{name}.err"
        env = {"ENDSTOP_SIDE_LOG": str(self.model.side_log)}
        with err.open("wb") as stderr:
            if before:
                command = [*TOGETHER, *before, sys.executable, "-m", "endstop.cli.main", *words]
                process: asyncio.subprocess.Process | Started = await asyncio.create_subprocess_exec(
                    *command, stdout=asyncio.subprocess.PIPE, stderr=stderr, env=environment(env)
                )
            else:
                process = await started_in_fork(*words, env=env, stderr=stderr)
        member = Member(name, process, err)
        self.members.append(member)
        self._stack.push_async_callback(_ended, member)
        return member

    # ---- sessions

    @property
    def http(self) -> aiohttp.ClientSession:
        """A client of the server."""
        assert self._http is not None
        return self._http

    async def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """One request; what it answers."""
        async with self.http.request(method, self.url + path, json=body) as response:
            text = await response.text()
            assert response.status == status, f"{method} {path}: {response.status} {text}"
            return json.loads(text) if text else None

    async def start(self, script: Script) -> str:
        """Start a session; its id."""
        return str((await self.ask("POST", "/sessions", {"prompt": script.prompt()}, status=201))["id"])

    async def session(self, id: str) -> dict[str, Any]:
        """One session with its runs."""
        told: dict[str, Any] = await self.ask("GET", f"/sessions/{id}")
        return told

    async def reached(self, id: str, *statuses: str, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait until a session has come to one of these."""
        deadline = time.monotonic() + patience
        while (told := await self.session(id))["status"] not in statuses:
            assert time.monotonic() < deadline, f"session {id} is {told['status']}, not {statuses}: {self.trouble()}"
            await asyncio.sleep(0.02)
        return told

    async def record(self, id: str, folder: Path) -> Path:
        """A session's record, as a file."""
        async with self.http.get(f"{self.url}/sessions/{id}/record") as response:
            assert response.status == 200
            path = folder / f"{id}.jsonl"
            path.write_bytes(await response.read())
            return path

    def trouble(self) -> str:
        """What the processes have said on stderr, for a test that fails."""
        return "\n".join(f"-- {member.name} ({member.pid}):\n{member.said[-1500:]}" for member in self.members)


@asynccontextmanager
async def fleet(folder: Path, store: str, model: Model, **how: Any) -> AsyncIterator[Fleet]:
    """A fleet without anybody in it yet; all that are started are ended with it."""
    folder.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        made = Fleet(stack, folder, store, model, **how)
        timeout = aiohttp.ClientTimeout(total=None, connect=PATIENCE)
        made._http = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        )
        yield made


async def _ended(member: Member) -> None:
    if member.process.returncode is None:
        member.send(signal.SIGCONT)
    await member.kill()
    if isinstance(member.process, Started):
        await member.process.leave()
