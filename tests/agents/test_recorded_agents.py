"""What ten agents sent, sent again through a real proxy: the checks of the matrix, without node and the agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from .agents import agents
from .checks import problems
from .playback import play
from .recordings import path_of, read
from .scenarios import SCENARIOS

PLAYED = [name for name in SCENARIOS if name != "g"]
"""g takes its time."""


@pytest.mark.parametrize("scenario", PLAYED)
@pytest.mark.parametrize("agent", agents())
async def test_what_an_agent_sent_is_followed_as_it_must_be(agent: str, scenario: str, tmp_path: Path) -> None:
    seen = await play(agents()[agent], read(agent), SCENARIOS[scenario], tmp_path)
    assert problems(seen) == []


def test_each_agent_is_recorded() -> None:
    assert sorted(path_of(name).name for name in agents()) == sorted(path.name for path in path_of("").parent.iterdir())
