"""Homes with configurations, and `endstop setup` run in them within this process."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from endstop.agent_setup.agents import agents
from endstop.agent_setup.document_edits import is_hook_command
from endstop.agent_setup.setup_changes import setup_changes, undo_changes
from endstop.agent_setup.setup_parts import (
    HookOptions,
    ProxyAddress,
    SetupPart,
    hook_part,
    proxy_part,
)

PROGRAM = ("/opt/with a space/endstop",)
SECRET = "sk-do-not-show-4711"


@dataclass
class Home:
    """A person's home folder, and the agent that is set up in it."""

    folder: Path
    agent: str
    part: str
    hook: HookOptions = field(default_factory=HookOptions)
    proxy: ProxyAddress = field(default_factory=ProxyAddress)

    def known(self, hook: HookOptions | None = None, proxy: ProxyAddress | None = None) -> list[SetupPart]:
        """All parts of the agent."""
        agent = agents()[self.agent]
        environment = {"HOME": str(self.folder)}
        found = [
            hook_part(agent, hook or self.hook, environment, program=PROGRAM),
            proxy_part(agent, proxy or self.proxy, environment),
        ]
        return [part for part in found if part is not None]

    @property
    def copies(self) -> Path:
        return self.folder / "state" / "setup"

    @property
    def path(self) -> Path:
        """The file of the part."""
        (part,) = (part for part in self.known() if part.name == self.part)
        return part.path

    def set_up(self, hook: HookOptions | None = None, proxy: ProxyAddress | None = None) -> bool:
        """Write the part, and return whether anything changed."""
        known = self.known(hook, proxy)
        changes = setup_changes([part for part in known if part.name == self.part], known, self.copies)
        changed = any(change.changes for change in changes)
        for change in changes:
            change.write()
        return changed

    def undo(self) -> bool:
        """Take the part out, and return whether anything changed."""
        known = self.known()
        changes = undo_changes([part for part in known if part.name == self.part], known, self.copies)
        changed = any(change.changes for change in changes)
        for change in changes:
            change.write()
        return changed


def tree(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """Every file, folder and link, with its mode and content; not endstop's own state."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.partition("/")[0] == "state":
            continue
        if path.is_symlink():
            found[name] = ("link", 0, os.fsencode(os.readlink(path)))
        else:
            content = path.read_bytes() if path.is_file() else b""
            found[name] = ("folder" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode), content)
    return found


def hook_commands(text: str) -> list[str]:
    """The commands of endstop in a configuration, by searching all strings of its data."""
    found: list[str] = []

    def walk(data: object) -> None:
        if isinstance(data, dict):
            for value in data.values():
                walk(value)
        elif isinstance(data, list):
            for value in data:
                walk(value)
        elif isinstance(data, str) and is_hook_command(data):
            found.append(data)

    walk(json.loads(text))
    return found
