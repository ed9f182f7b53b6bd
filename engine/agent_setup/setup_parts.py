"""What is asked for, as entries for files: the hook and the base URL of one agent."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from .agents import MODEL, PROXY_URL, HookFile, ProxyFile, Setting, SetupAgent, Syntax, filled
from .document_edits import Entry

TOOL_SECONDS = 10
"""Seconds that an agent waits for the hook at a tool or a prompt; a call takes less than a tenth of one."""
CHECK_MARGIN = 30
"""Seconds that an agent waits for longer than the check may take, so that it is the check that ends in time."""
OWN_MARK = "// Written by `endstop setup`; `endstop setup opencode --undo` removes it. Checksum: "
"""The beginning of a file that is endstop's own. The checksum of the rest follows, which tells whether it is edited."""

PartName = Literal["hook", "proxy", "plugin"]


class HookOptions(Struct, frozen=True):
    """What `endstop hook` is started with. check_seconds: how long the check may take."""

    until: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    check_seconds: float = 600.0
    own_timeout: bool = False
    """Whether `check_seconds` was chosen, so the hook has to be told."""
    act: bool = False
    proxy: str = ""


class ProxyAddress(Struct, frozen=True):
    """Where the proxy listens, and the model that is named where one has to be."""

    url: str = PROXY_URL
    model: str = MODEL


class SetupPart(Struct, frozen=True):
    """One file of one agent, and what it has to hold.

    whole: the content of a file that is endstop's own; empty otherwise.
    """

    name: PartName
    agent: str
    path: Path
    syntax: Syntax
    entries: tuple[Entry, ...] = ()
    whole: str = ""


def own_program() -> tuple[str, ...]:
    """Return the words that start this endstop, whatever the PATH of whoever starts it."""
    started = sys.argv[0]
    if os.path.basename(started) == "endstop":
        found = started if os.path.dirname(started) else shutil.which(started) or started
        return (os.path.abspath(found),)
    return (sys.executable, "-m", "endstop.cli.main")


def hook_part(
    agent: SetupAgent,
    options: HookOptions,
    environment: Mapping[str, str],
    project: Path | None = None,
    program: Sequence[str] | None = None,
) -> SetupPart | None:
    """Return the agent's hook; None if it has none. program: the words that start endstop, by default this one."""
    hook = agent.hook
    if hook is None:
        return None
    words = [*(own_program() if program is None else program), "hook"]
    path = agent.place(hook, environment, project)
    if hook.whole:
        return SetupPart("hook", agent.name, path, hook.syntax, whole=_plugin_text(hook, words, options))
    entries = [Entry("default", setting.path, setting.value) for setting in hook.default]
    for event in (*hook.prompt, *hook.tool, *hook.end):
        seconds = end_seconds(options) if event in hook.end else TOOL_SECONDS
        command = (
            shlex.join([*words, *hook_words(options, seconds if event in hook.end else None)]) + hook.behind_command
        )
        timeout = seconds * 1000 if hook.unit == "ms" else seconds
        form = hook.tool_entry if event in hook.tool and hook.tool_entry else hook.entry
        entries.append(Entry("add", ("hooks", event), filled(form, {"command": command, "timeout": timeout})))
    return SetupPart("hook", agent.name, path, hook.syntax, tuple(entries))


def proxy_part(
    agent: SetupAgent, options: ProxyAddress, environment: Mapping[str, str], project: Path | None = None
) -> SetupPart | None:
    """Return the agent's base URL in its file; None if it takes it from elsewhere."""
    proxy = agent.proxy
    if proxy is None or not proxy.file:
        return None
    given = proxy_values(options)

    def entries(kind: Literal["put", "default", "add"], settings: Sequence[Setting]) -> list[Entry]:
        return [Entry(kind, tuple(filled(one.path, given)), filled(one.value, given)) for one in settings]

    filled_in = [*entries("default", proxy.default), *entries("put", proxy.put), *entries("add", proxy.add)]
    return SetupPart("proxy", agent.name, agent.place(proxy, environment, project), proxy.syntax, tuple(filled_in))


def proxy_values(options: ProxyAddress) -> dict[str, Any]:
    """Return what the placeholders of a proxy's entries stand for."""
    url = options.url.rstrip("/")
    return {"url": url, "url_v1": f"{url}/v1", "model": options.model}


def proxy_lines(proxy: ProxyFile, options: ProxyAddress) -> list[str]:
    """Return the lines of a shell that give the agent its base URL, where no file does."""
    return [filled(line, proxy_values(options)) for line in proxy.say]


def end_seconds(options: HookOptions) -> int:
    """Return for how long an agent waits for the hook at its end, in seconds."""
    return int(options.check_seconds) + CHECK_MARGIN if options.until else TOOL_SECONDS


def hook_words(options: HookOptions, seconds: int | None) -> list[str]:
    """Return the options of `endstop hook`. seconds: the agent's timeout at its end; None for other events."""
    words: list[str] = []
    for command in options.until:
        words += ["--until", command]
    for pattern in options.guard:
        words += ["--guard", pattern]
    if options.until and options.own_timeout:
        words += ["--until-timeout", f"{options.check_seconds:g}"]
    if options.until and seconds is not None:
        words += ["--timeout", f"{seconds}"]
    if options.proxy:
        words += ["--proxy", options.proxy]
    return words if options.act else [*words, "--watch"]


def _plugin_text(hook: HookFile, words: Sequence[str], options: HookOptions) -> str:
    text = (files(__package__) / hook.whole).read_text("utf-8")
    seconds = end_seconds(options)
    for name, value in (
        ("HOOK", [*words, *hook_words(options, None)]),
        ("HOOK_AT_END", [*words, *hook_words(options, seconds)]),
        ("SECONDS", TOOL_SECONDS),
        ("SECONDS_AT_END", seconds),
    ):
        text = text.replace(f"__{name}__", json.dumps(value, ensure_ascii=False))
    return f"{OWN_MARK}{_checksum(text.encode())}\n{text}"


def is_as_made(content: bytes) -> bool:
    """Return whether a file with `OWN_MARK` is as some endstop has made it, with whatever options."""
    mark, _, text = content.partition(b"\n")
    return mark == f"{OWN_MARK}{_checksum(text)}".encode()


def _checksum(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
