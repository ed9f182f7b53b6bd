"""The agents of `agents.toml`, and what the guide says to set for each."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from .scenarios import BEHIND_PROXY, SCENARIOS, Scenario

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GUIDE = ROOT / "docs" / "guides" / "coding_agents.md"
PROXY = "http://127.0.0.1:8643"
"""Where the proxy is in the guide."""
KEY = "sk-nobody-0000"
"""The provider's key of every agent."""
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
_FILE = re.compile(r"In `~/([^`]+)`:$")


@dataclass(frozen=True)
class Setup:
    """What the guide says to set for an agent."""

    upstream: str
    """The provider behind the proxy."""
    shell: str
    """Lines for the agent's shell."""
    files: dict[str, str]
    """Files below the home folder."""
    hook: str = ""
    """The command that puts the hook into the agent; empty for one without."""

    def behind(self, proxy: str) -> Setup:
        """Return the same for a proxy at this URL."""
        files = {name: text.replace(PROXY, proxy) for name, text in self.files.items()}
        return replace(self, shell=self.shell.replace(PROXY, proxy), files=files)

    def hook_words(self, check: str) -> list[str]:
        """Return the words of the hook's command after `endstop`, with this check; without one if it is empty."""
        words = shlex.split(self.hook)[1:]
        at = words.index("--until")
        words[at : at + 2] = ["--until", check] if check else []
        return words

    def upstream_at(self, provider: str) -> str:
        """Return the same upstream at a provider on loopback."""
        return provider + urlsplit(self.upstream).path


@dataclass(frozen=True)
class Agent:
    """A program that is installed, and started with a prompt."""

    name: str
    title: str
    package: str
    version: str
    installer: str
    """`npm` or `pip`."""
    command: str
    key: str
    """The variable that holds the provider's key."""
    leaves_session: Literal["always", "on success", "never"] = "always"
    """Of which runs there is a session to audit."""
    compacts_at: int = 0
    """Tokens with which it compacts its conversation by itself, and with not many more gives up; 0: not tried."""
    stranger: bool = False
    """Whether it was chosen only when the proxy was made: its first try is kept."""
    hook_command: str = ""
    """What starts it with a hook, where a person would have to allow that first."""
    plugin: str = ""
    """What installs endstop's plugin from the folder PLUGIN; empty for one without plugins."""
    ends_by_hook: bool = True
    """Whether a hook can end it."""
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def setup(self) -> Setup:
        """What the guide says to set."""
        section = re.search(rf"^## {re.escape(self.title)}\n(.*?)(?=^## |\Z)", _guide(), re.DOTALL | re.MULTILINE)
        assert section, f"{GUIDE.name} has no section for {self.title}"
        upstream, shell, files, hook = "", "", {}, ""
        for block in _BLOCK.finditer(f"\n{section[1]}"):
            text = block["text"]
            if proxy := re.match(r"endstop proxy --upstream (\S+)", text):
                upstream = proxy[1]
            elif text.startswith("endstop setup "):
                hook = text.strip()
            elif file := _FILE.search(block["before"]):
                files[file[1]] = text
            else:
                assert block["language"] == "sh", f"{GUIDE.name} does not say where this goes: {text}"
                shell += text
        return Setup(upstream, shell, files, hook)

    @property
    def scenarios(self) -> dict[str, Scenario]:
        """The scenarios that it is driven through by default."""
        if not self.setup.hook:
            return BEHIND_PROXY
        return {name: one for name, one in SCENARIOS.items() if self.plugin or not one.plugin}


@cache
def _guide() -> str:
    return GUIDE.read_text(encoding="utf-8")


@cache
def agents() -> dict[str, Agent]:
    """Return all agents by their names."""
    listed = tomllib.loads((HERE / "agents.toml").read_text(encoding="utf-8"))["agent"]
    return {one["name"]: Agent(**one) for one in listed}
