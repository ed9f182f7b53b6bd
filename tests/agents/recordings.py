"""What agents send, kept as fixtures: histories and headers, without keys and without their vendors' long prompts.

A recording is made without the proxy, so that it holds what an agent sends when nothing stops it. Texts of the system
and descriptions of tools are cut short: they are others' words, and most of the bytes.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec import json as codec
from msgspec.structs import replace

from .agents import HERE, KEY, Agent
from .drive import drive, place_of
from .scenarios import COMPACTION, Scenario
from .tap import Exchange, passed_on
from .wires import wire_of

FOLDER = HERE / "recorded"
RECORDED = {"a": 100, "c": 10, "d": 10, "i": 110, COMPACTION.name: 20}
"""The scenarios that are recorded, and how many requests of each."""
LONGEST = 300
"""Characters that are kept of texts which are not the conversation."""
_UNWANTED = ("authorization", "api-key", "cookie", "-os", "-arch", "runtime", "device", "machine", "account")
"""Parts of the names of headers that hold a key, or say on which machine it was."""


class Sent(Struct, kw_only=True):
    """A request as an agent sent it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: str
    left: bool = False
    """Whether the agent closed the connection before the end of the stream."""


Recording = dict[str, list[Sent]]
"""The requests of each scenario."""


async def record(agent: Agent, scenarios: list[Scenario]) -> None:
    """Drive an agent through those of the scenarios that are recorded, and keep what it sends beside the others."""
    recording = read(agent.name) if path_of(agent.name).exists() else {}
    for scenario in scenarios:
        if most := RECORDED.get(scenario.name):
            seen = await drive(agent, scenario, direct=True)
            home = str(place_of(agent, scenario, direct=True))
            recording[scenario.name] = [_sent(one, home) for one in seen.far if one.method == "POST"][:most]
    FOLDER.mkdir(exist_ok=True)
    path_of(agent.name).write_bytes(lzma.compress(codec.encode(recording), preset=9 | lzma.PRESET_EXTREME))


def path_of(name: str) -> Path:
    """Return the file of an agent's recording."""
    return FOLDER / f"{name}.json.xz"


def read(name: str) -> Recording:
    """Return what was recorded of an agent."""
    return codec.decode(lzma.decompress(path_of(name).read_bytes()), type=Recording)


def asked_whole(recording: Recording) -> Recording:
    """Return the same requests, none of which asks for a stream."""
    return {name: [_asked_whole(one) for one in requests] for name, requests in recording.items()}


def _asked_whole(sent: Sent) -> Sent:
    if wire_of(sent.path) is None:
        return sent
    body = json.loads(sent.body)
    for name in ("stream", "stream_options"):
        body.pop(name, None)
    path = sent.path.replace(":streamGenerateContent?alt=sse", ":generateContent")
    return replace(sent, path=path, body=json.dumps(body, ensure_ascii=False), left=False)


def _sent(exchange: Exchange, home: str) -> Sent:
    headers = [one for one in passed_on(exchange.headers) if not any(part in one[0] for part in _UNWANTED)]
    body = _shortened(exchange).replace(home, "/home/somebody").replace(KEY, "")
    return Sent(method=exchange.method, path=exchange.path, headers=headers, body=body, left=not exchange.whole)


def _shortened(exchange: Exchange) -> str:
    """Return a request's body with only the beginnings of what is no conversation."""
    if wire_of(exchange.path) is None:
        return exchange.body.decode(errors="replace")
    body = json.loads(exchange.body)
    for name in ("system", "instructions", "systemInstruction", "tools"):
        if name in body:
            body[name] = _short(body[name])
    for message in (*body.get("messages", ()), *(body["input"] if isinstance(body.get("input"), list) else ())):
        if message.get("role") in ("system", "developer"):
            message.update(_short(message))
    return json.dumps(body, ensure_ascii=False)


def _short(value: Any) -> Any:
    match value:
        case dict():
            return {name: _short(one) for name, one in value.items()}
        case list():
            return [_short(one) for one in value]
        case str() if len(value) > LONGEST:
            return value[:LONGEST] + " ..."
        case _:
            return value
