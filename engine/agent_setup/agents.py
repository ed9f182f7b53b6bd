"""The agents that can be set up: `agents.toml` as data, with paths and values filled in."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

Syntax = Literal["json", "jsonc", "toml", "yaml", "whole"]
"""How a file is written; `whole`: it is endstop's own, with a text from this package."""
MODEL = "gpt-5.5"
"""The model where a configuration has to name one, as in `docs/guides/coding_agents.md`; `--model` gives another."""
PROXY_URL = "http://127.0.0.1:8643"
"""Where `endstop proxy` listens by default."""


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """A value at a path of a document, from the top."""

    path: tuple[str, ...]
    value: Any


class HookFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an agent is told of hooks, by which events, and in which form: see `agents.toml`."""

    file: str
    syntax: Syntax
    unit: Literal["s", "ms"]
    prompt: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    entry: dict[str, Any] = {}
    tool_entry: dict[str, Any] = {}
    default: tuple[Setting, ...] = ()
    whole: str = ""
    behind_command: str = ""
    tried: bool = True
    why: str = ""


class ProxyFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an agent is told of its provider's address: see `agents.toml`."""

    upstream: str
    file: str = ""
    or_file: str = ""
    project_file: str = ""
    syntax: Syntax = "json"
    put: tuple[Setting, ...] = ()
    default: tuple[Setting, ...] = ()
    add: tuple[Setting, ...] = ()
    say: tuple[str, ...] = ()
    why: str = ""


class SetupAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """A coding agent, its folders, and what may be put into them."""

    name: str
    title: str
    programs: tuple[str, ...]
    folder: str
    folder_variable: str = ""
    below_variable: str = ""
    project_folder: str = ""
    hook: HookFile | None = None
    proxy: ProxyFile | None = None

    def home(self, environment: Mapping[str, str]) -> Path:
        """Return the folder of the person's own configuration."""
        moved = environment.get(self.folder_variable, "") if self.folder_variable else ""
        if os.path.isabs(moved):
            return Path(moved) / self.below_variable
        return Path(environment.get("HOME") or Path.home(), self.folder.removeprefix("~/"))

    def place(self, part: HookFile | ProxyFile, environment: Mapping[str, str], project: Path | None) -> Path:
        """Return the file of a part. project: the project's folder, for its file in place of the person's own."""
        folder = self.home(environment) if project is None else project / self.project_folder
        name = part.file
        if isinstance(part, ProxyFile):
            if part.or_file and not (folder / name).exists() and (folder / part.or_file).exists():
                name = part.or_file
            if project is not None and part.project_file:
                name = part.project_file
        return Path(os.path.normpath(folder / name))


@cache
def agents() -> dict[str, SetupAgent]:
    """Return the agents by name, in the order of the table."""
    table = tomllib.loads(Path(__file__).with_name("agents.toml").read_text("utf-8"))
    return {agent.name: agent for agent in convert(table["agent"], list[SetupAgent])}


def filled(value: Any, given: Mapping[str, Any]) -> Any:
    """Return a value of the table with its placeholders replaced. One that stands alone becomes the value itself."""
    if isinstance(value, str):
        if value[:1] == "{" and value[1:-1] in given:
            return given[value[1:-1]]
        for name, text in given.items():
            value = value.replace(f"{{{name}}}", str(text))
        return value
    if isinstance(value, Mapping):
        return {filled(name, given): filled(one, given) for name, one in value.items()}
    return [filled(one, given) for one in value] if isinstance(value, Sequence) else value
