"""What holds in each framework alike, with its real package, before a model that never stops."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from endstop import Limits, Policy

from . import loops, records
from .endless_model import ANNOUNCED, CLOSED, EndlessModel, serving
from .frameworks import skip_without
from .proxied import proxied

TOOLS: dict[str, Any] = dict.fromkeys(("work", "finish_task"), lambda call_id, arguments: ("ok", False))
MOST = 12
"""Requests after which a framework gives up."""
WARNS = {"google_adk": [pytest.mark.filterwarnings("ignore")]}
"""Its models are reached through litellm, which warns of its own types."""
ON_EACH = pytest.mark.parametrize("framework", [pytest.param(one, marks=WARNS.get(one, [])) for one in loops.LOOPS])
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@STREAMS
@ON_EACH
def test_a_limit_behind_the_proxy_ends_an_agent_with_the_models_closing_words(framework: str, stream: bool) -> None:
    skip_without(framework)
    with serving(EndlessModel()) as model, proxied(model.url, ("finish_task",), Policy(limits=Limits(steps=3))) as url:
        ended = loops.run(framework, loops.Play(url, "worker", TOOLS, "go", MOST, stream), None)
    assert ended == CLOSED
    assert len(model.requests) == 4
    assert _tools(model.requests[3]) == _tools(model.requests[2]) != []


def _tools(body: dict[str, Any]) -> list[Any]:
    return body.get("tools", [])


@STREAMS
@ON_EACH
def test_an_agent_that_only_announces_is_nudged_and_then_ends_by_itself(
    framework: str, stream: bool, tmp_path: Path
) -> None:
    """The loop takes a text for the end. The record says what it amounts to, and nothing is put in its place."""
    skip_without(framework)
    endstop = import_module(f"endstop.adapters.{framework}").Endstop(completion=("finish_task",), record=tmp_path)
    with serving(EndlessModel()) as model:
        ended = loops.run(framework, loops.Play(model.url, "announcer", TOOLS, "go", MOST, stream), endstop)
        endstop.runs.close()
    assert ended.replace(ANNOUNCED, "", 2).strip() == ""
    assert ANNOUNCED in ended
    nudged = framework != "openai"  # whose loop is not asked again after a text
    assert records.ends(tmp_path) == ([("no_answer", 3)] if nudged else [("text_final", 2)])
