"""Drives one agent through one scenario, behind the proxy or straight at the provider, with a hook or without one.

Each time the agent has a new home and a new folder to work in. Its environment leads every request but those to
127.0.0.1 to a proxy that refuses them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from ..engine.proxy.agents import listening
from .agents import KEY, Agent, Setup
from .install import binaries, cache
from .refusing_proxy import RefusingProxy
from .scenarios import CHECKS, PROMPT, Scenario
from .scripted_provider import LATE, Answered, ScriptedProvider
from .tap import Exchange, Tap

COMMAND = str(Path(sys.executable).with_name("endstop"))
_PATIENCE = 60.0
"""Seconds that a command of endstop may take."""
_KEPT = ("PATH", "LANG", "PYTHONPATH", "npm_config_registry")
"""Variables that agents and proxy get from who drives them."""
_SAMPLE = re.compile(r"^endstop_proxy_(\w+?)(?:\{\w+=\"(.*)\"\})? (\S+)$", re.MULTILINE)


@dataclass
class Observation:
    """What was seen of one agent in one scenario."""

    scenario: Scenario
    near: list[Exchange] = field(default_factory=list)
    """Between agent and proxy."""
    far: list[Exchange] = field(default_factory=list)
    """Between proxy and provider."""
    answered: list[Answered] = field(default_factory=list)
    exit_code: int | None = None
    """None if the agent had to be killed."""
    seconds: float = 0.0
    ended: float = 0.0
    """When the agent ended, on the clock of the exchanges: that of the event loop."""
    records: list[Path] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    """By name, and by name and label: `requests_total`, `requests_total stopped`."""
    replays: dict[str, str] = field(default_factory=dict)
    """By record: nothing if it replays the same, else what was said."""
    leaves_session: bool = True
    """Whether there is a session to audit: not where a recording was played, and not from each agent."""
    refused: list[str] = field(default_factory=list)
    """What the agent asked of other machines."""
    audit: str | None = None
    """What `endstop audit --last --json` printed; None if it found nothing."""
    checks: int = 0
    """How often the check at the agent's end was run, as it has counted itself."""
    hook_log: str = ""
    """What the hook has noted in its log."""
    output: str = ""
    """What the agent has printed."""
    ends_by_hook: bool = True
    """Whether a hook can end the agent."""
    hook_records: list[Path] = field(default_factory=list)
    """Those of `records` that the hook wrote."""


async def drive(
    agent: Agent, scenario: Scenario, *, direct: bool = False, late: tuple[float, ...] = LATE
) -> Observation:
    """Run an agent in a scenario.

    direct: without the proxy and without a hook. late: seconds from the last event of a stream to its end, in turn.
    """
    place = place_of(agent, scenario, direct=direct)
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("home", "work"):
        (place / folder).mkdir(parents=True)
    seen = Observation(scenario, ends_by_hook=agent.ends_by_hook)
    provider = ScriptedProvider(scenario, late)
    async with serving(provider) as url, Tap(url) as far, RefusingProxy() as elsewhere:
        setup = agent.setup
        if direct or not scenario.proxied:
            await _run(agent, setup.behind(far.url), place, elsewhere, seen, hooked=scenario.hooked and not direct)
        else:
            async with (
                proxy(setup.upstream_at(far.url), place, scenario.options, seen) as address,
                Tap(address) as near,
            ):
                await _run(agent, setup.behind(near.url), place, elsewhere, seen, hooked=scenario.hooked)
                await settle(address, seen)
            seen.near = near.exchanges()
        seen.far, seen.answered, seen.refused = far.exchanges(), provider.answered, elsewhere.refused
    if scenario.hooked and not direct:
        _read_hook(place, seen)
    if not direct:
        await judge_records(place, seen)
    return seen


def place_of(agent: Agent, scenario: Scenario, *, direct: bool) -> Path:
    """Return the folder of an agent's home, its work, the records and what it and the proxy said."""
    return cache() / "runs" / f"{agent.name}-{scenario.name}{'-direct' if direct else ''}"


@asynccontextmanager
async def serving(provider: ScriptedProvider) -> AsyncIterator[str]:
    """A server of this provider on loopback. Yields its URL."""
    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{path:.*}", provider.handle)
    async with listening(web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)) as url:
        yield url


@asynccontextmanager
async def proxy(upstream: str, place: Path, options: tuple[str, ...], seen: Observation) -> AsyncIterator[str]:
    """`endstop proxy` as a user starts it. Yields its URL; its records are read at its end."""
    records = place / "records"
    words = ("proxy", "--upstream", upstream, "--port", "0", "--record", str(records), "--grace", "2", *options)
    with (place / "proxy.txt").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=output, env=environment(place), cwd=place
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE):
                line = (await process.stdout.readline()).decode()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, f"the proxy did not start: {line or (place / 'proxy.txt').read_text(errors='replace')[-300:]}"
            yield found[0]
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(_PATIENCE):
                output.write((await process.communicate())[0])
    seen.records = sorted(records.rglob("*.jsonl*"))


def environment(place: Path) -> dict[str, str]:
    """Return the environment of all programs, with a home of their own."""
    home = place / "home"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    folders = {f"XDG_{name}_HOME": str(home / folder) for name, folder in _XDG.items()}
    loopback = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    return {**kept, **folders, **loopback, "HOME": str(home), "CI": "1", "TERM": "dumb", "NO_COLOR": "1"}


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_XDG = {"DATA": ".local/share", "CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}


def _write_files(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = place / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


async def _set_up_hook(agent: Agent, setup: Setup, place: Path, scenario: Scenario) -> str:
    """Put the hook into the agent as its user would; return what starts the agent then."""
    plugin = ("setup", "plugin", str(place / "plugin"), "--write")
    words = plugin if scenario.plugin else setup.hook_words(scenario.check or "")
    code, said = await _endstop(place, *words)
    (place / "setup.txt").write_text(said, encoding="utf-8")
    assert code == 0, f"`endstop {' '.join(words)}` failed: {said[-300:]}"
    command = f"exec {agent.hook_command or agent.command}"
    return f"{agent.plugin} || exit\n{command}" if scenario.plugin else command


def _read_hook(place: Path, seen: Observation) -> None:
    """Read what the hook and its check have left."""
    state = place / "home" / _XDG["STATE"] / "endstop" / "hook"
    seen.hook_records = sorted(state.rglob("*.jsonl*"))
    seen.records = [*seen.records, *seen.hook_records]
    log, counted = state / "hook.log", place / CHECKS
    seen.hook_log = log.read_text(encoding="utf-8") if log.exists() else ""
    seen.checks = len(counted.read_text().splitlines()) if counted.exists() else 0


async def _run(
    agent: Agent, setup: Setup, place: Path, elsewhere: RefusingProxy, seen: Observation, *, hooked: bool
) -> None:
    """Run the agent to its end, or kill it with all that it has started."""
    _write_files(place, {**agent.files, **setup.files})
    command = f"exec {agent.command}"
    if hooked:
        command = await _set_up_hook(agent, setup, place, seen.scenario)
    variables = environment(place) | agent.environment | {agent.key: KEY, "PROMPT": PROMPT}
    variables["PLUGIN"] = str(place / "plugin")
    variables |= {name: elsewhere.url for word in _PROXIES for name in (word, word.lower())}
    if agent.installer == "pip":  # its python would look into ours
        variables.pop("PYTHONPATH", None)
    variables["PATH"] = ":".join([*map(str, binaries(agent)), variables["PATH"], str(Path(COMMAND).parent)])
    now = asyncio.get_running_loop().time
    began = now()
    with (place / "output.txt").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", f"{setup.shell}\n{command}"),
            cwd=place / "work",
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(seen.scenario.seconds):
                seen.exit_code = await process.wait()
        seen.ended = now()
        seen.seconds = seen.ended - began
        succeeded = seen.exit_code == 0
        seen.leaves_session = agent.leaves_session == "always" or (agent.leaves_session == "on success" and succeeded)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    seen.output = (place / "output.txt").read_text(encoding="utf-8", errors="replace")


async def settle(address: str, seen: Observation) -> None:
    """Read the proxy's metrics once no request but this one is in progress."""
    async with aiohttp.ClientSession() as client:
        for _ in range(50):
            async with client.get(f"{address}/endstop/metrics") as response:
                seen.metrics = samples(await response.text())
            if seen.metrics.get("requests_in_progress", 0) <= 1:
                return
            await asyncio.sleep(0.1)


def samples(text: str) -> dict[str, float]:
    """Return the metrics of the proxy: each sample by name and label, and the sums of each name."""
    found: dict[str, float] = {}
    for name, label, value in _SAMPLE.findall(text):
        found[name] = found.get(name, 0) + float(value)
        if label:
            found[f"{name} {label}"] = float(value)
    return found


async def judge_records(place: Path, seen: Observation) -> None:
    """Replay each record, and look for the session as its user would."""
    for record in seen.records:
        code, said = await _endstop(place, "replay", "--quiet", str(record))
        seen.replays[record.name] = "" if code == 0 else said
    code, said = await _endstop(place, "audit", "--last", "--json")
    if code == 0:
        seen.audit = said


async def _endstop(place: Path, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(place),
        cwd=place,
    )
    async with asyncio.timeout(_PATIENCE):
        out, err = await process.communicate()
    return process.returncode or 0, (out or err).decode(errors="replace")
