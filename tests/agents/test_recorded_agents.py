"""What the agents sent, sent again through a real proxy: the checks of the matrix, without node and the agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from .agents import agents
from .checks import problems
from .playback import play
from .recordings import path_of, read
from .scenarios import BEHIND_PROXY, SCENARIOS

PLAYED = [name for name in BEHIND_PROXY if name != "g"]
"""g takes its time."""
RED: dict[str, str] = {"smolagents": "afh"}
"""What is not as it must be yet; docs/reference/agents.md says why. What turns green fails here until it is struck."""
CELLS = [
    pytest.param(
        *(agent, scenario),
        id=f"{agent}-{scenario}",
        marks=[pytest.mark.xfail(reason="red in the matrix", strict=True)] if scenario in RED.get(agent, "") else [],
    )
    for agent in agents()
    for scenario in PLAYED
]


@pytest.mark.parametrize(("agent", "scenario"), CELLS)
async def test_what_an_agent_sent_is_followed_as_it_must_be(agent: str, scenario: str, tmp_path: Path) -> None:
    seen = await play(agents()[agent], read(agent), SCENARIOS[scenario], tmp_path)
    assert not problems(seen), "\n".join(problems(seen))


def test_each_agent_is_recorded() -> None:
    assert sorted(path_of(name).name for name in agents()) == sorted(path.name for path in path_of("").parent.iterdir())
