"""Claude Code, as the Claude Agent SDK brings it along, kept to a model on loopback and to a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

NOT_OURS = ("CLAUDE", "ANTHROPIC")
"""Variables of the machine that would tell it of another model, or of somebody's account."""


def environment(url: str, home: Path) -> dict[str, str]:
    """Variables with which it asks only this URL, with a key that is none, and reads and writes only this folder."""
    return {
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
    }


def foreign_variables() -> list[str]:
    """The machine's own variables that must not reach it."""
    return [name for name in os.environ if name.startswith(NOT_OURS)]
