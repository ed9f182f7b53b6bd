"""The plugin: a folder with a marketplace of one plugin, which Claude Code and Codex install by their own commands.

Its hooks ask the `endstop` of the PATH. Where that is not installed, the shell ends with 127, which blocks nothing.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..base.version import __version__
from .agents import agents
from .setup_parts import HookOptions, SetupPart, hook_part

DESCRIPTION = (
    "Keeps an agent from ending while your check fails, notices when it goes round in circles, and records what it "
    "did. Needs the endstop command: pipx install endstop. Without it, nothing is changed in how the agent works."
)
_TEXTS = {
    ".claude-plugin/marketplace.json": "claude_marketplace.json",
    ".agents/plugins/marketplace.json": "codex_marketplace.json",
    "plugins/endstop/.claude-plugin/plugin.json": "claude_plugin.json",
    "plugins/endstop/.codex-plugin/plugin.json": "codex_plugin.json",
    "plugins/endstop/skills/endstop/SKILL.md": "SKILL.md",
}
"""The files of the folder, and the texts of this package that they are made from."""


def plugin_parts(folder: Path, options: HookOptions) -> list[SetupPart]:
    """Return the files of the plugin's folder. options: what its hooks start `endstop hook` with."""
    return [
        SetupPart("plugin", "plugin", folder / name, "whole", whole=text)
        for name, text in plugin_files(options).items()
    ]


def plugin_files(options: HookOptions) -> dict[str, str]:
    """Return the text of each file by its path in the folder, with this version of endstop."""
    source = files(__package__) / "plugin"
    texts = {name: (source / text).read_text("utf-8") for name, text in _TEXTS.items()}
    for name, text in texts.items():
        texts[name] = text.replace("__VERSION__", __version__).replace("__DESCRIPTION__", DESCRIPTION)
    claude, codex = (_hooks(name, options) for name in ("claude", "codex"))
    texts["plugins/endstop/hooks/hooks.json"] = _written(codex)  # read by both: Claude Code knows Codex's events
    rest = {event: groups for event, groups in claude.items() if event not in codex}
    texts["plugins/endstop/hooks/claude_code.json"] = _written(rest)
    return texts


def _hooks(agent: str, options: HookOptions) -> dict[str, list[Any]]:
    part = hook_part(agents()[agent], options, {}, program=("endstop",))
    assert part is not None
    hooks: dict[str, list[Any]] = {}
    for entry in part.entries:
        hooks.setdefault(entry.path[-1], []).append(entry.value)
    return hooks


def _written(hooks: dict[str, list[Any]]) -> str:
    return json.dumps({"hooks": hooks}, indent=2, ensure_ascii=False) + "\n"
