"""The folder in which endstop keeps what outlives a command, below the user's home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return `endstop` in `$XDG_STATE_HOME`, by default `~/.local/state`. It may not exist yet."""
    state = environment.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "endstop"
