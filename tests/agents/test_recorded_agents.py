"""What the agents sent, sent again through the proxy: the checks of the matrix, without node and the agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .agents import agents
from .checks import problems
from .playback import play_in_simulated_time
from .recordings import asked_whole, path_of, read
from .scenarios import BEHIND_PROXY, compaction_at
from .scripted_provider import LATE

RED: dict[str, str] = {"smolagents": "afgh"}
"""What is not as it must be yet; docs/reference/agents.md says why. What turns green fails here until it is struck."""
UNTOUCHED = "afgh"
"""Scenarios in which no byte may change."""
AS_IT_CAME = ("--no-upstream-streaming",)
"""With it, the proxy asks for no stream where the agent asks for none."""


def cells(names: Iterable[str], *more: Any) -> list[Any]:
    """Each of these agents in each scenario, with each value of `more`."""
    red = [pytest.mark.xfail(reason="red in the matrix", strict=True)]
    return [
        pytest.param(agent, scenario, *one, marks=red if scenario in RED.get(agent, "") else [])
        for agent in names
        for scenario in BEHIND_PROXY
        for one in (more or ((),))
    ]


@pytest.mark.parametrize(("agent", "scenario"), cells(agents()))
def test_what_an_agent_sent_is_followed_as_it_must_be(agent: str, scenario: str, tmp_path: Path) -> None:
    seen = play_in_simulated_time(agents()[agent], read(agent), BEHIND_PROXY[scenario], tmp_path)
    assert not problems(seen), "\n".join(problems(seen))


@pytest.mark.long
@pytest.mark.parametrize(("agent", "scenario", "late"), cells(agents(), *((late,) for late in LATE)))
def test_it_is_so_however_late_all_streams_end(agent: str, scenario: str, late: float, tmp_path: Path) -> None:
    seen = play_in_simulated_time(agents()[agent], read(agent), BEHIND_PROXY[scenario], tmp_path, (late,))
    assert not problems(seen), "\n".join(problems(seen))


@pytest.mark.long
@pytest.mark.parametrize("scenario", BEHIND_PROXY)
@pytest.mark.parametrize("agent", agents())
def test_it_is_so_if_the_same_is_asked_for_whole(agent: str, scenario: str, tmp_path: Path) -> None:
    """Some agents can be set so; of the others, the histories are tried with whole responses of their wires."""
    asked = BEHIND_PROXY[scenario]
    options = AS_IT_CAME if scenario in UNTOUCHED else ()
    seen = play_in_simulated_time(
        agents()[agent],
        asked_whole(read(agent)),
        replace(asked, options=(*asked.options, *options)),
        tmp_path,
    )
    assert not any(one.streamed for one in seen.answered) or not options
    assert not problems(seen), "\n".join(problems(seen))


@pytest.mark.parametrize("scenario", UNTOUCHED)
def test_an_agent_that_asks_for_no_stream_gets_its_bytes_if_the_proxy_asks_for_none(
    scenario: str, tmp_path: Path
) -> None:
    asked = replace(BEHIND_PROXY[scenario], options=AS_IT_CAME)
    seen = play_in_simulated_time(agents()["smolagents"], read("smolagents"), asked, tmp_path)
    assert not problems(seen), "\n".join(problems(seen))


COMPACTING = [name for name, agent in agents().items() if agent.compacts_at]


@pytest.mark.parametrize("agent", COMPACTING)
def test_a_conversation_that_an_agent_compacts_goes_on_in_its_run(agent: str, tmp_path: Path) -> None:
    seen = play_in_simulated_time(
        agents()[agent], read(agent), compaction_at(agents()[agent].compacts_at), tmp_path, LATE
    )
    assert not problems(seen), "\n".join(problems(seen))


def test_each_agent_is_recorded() -> None:
    assert sorted(path_of(name).name for name in agents()) == sorted(path.name for path in path_of("").parent.iterdir())
