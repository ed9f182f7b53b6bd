"""Each check of an agent with a hook finds what it is there to find: a good run, changed in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ..engine.agent_hook.hooked_agents import HookedAgent, settings_in
from .drive import Observation
from .hook_checks import DENIED, PROXY_LINE, TOLD, denied_calls, problems_with_hook
from .scenarios import CHECK, MISSING, PROMPT, SCENARIOS
from .scripted_provider import Answered
from .tap import Exchange
from .wires import Tokens

OURS = Exchange("POST", "/v1/messages", [], b"", 0.0, status=400, reply_headers=[("x-endstop", "stopped")])


def _asked(step: int, body: str = "") -> Answered:
    return Answered("Messages", step, side=False, tokens=Tokens(1, 1), late=0.0, streamed=True, counted=True, body=body)


def _circle(requests: int, *, first_denied: int) -> list[Answered]:
    """Requests of a circle that is told after three calls; each holds what came before."""
    found = []
    for step in range(requests):
        told = TOLD if step >= 3 else ""
        denied = max(0, step - first_denied + 1)
        found.append(_asked(step, f"{told} {DENIED * denied} {PROXY_LINE if denied > 1 else ''}"))
    return found


def _work(steps: int) -> list[Answered]:
    return [_asked(step) for step in range(steps)]


GOOD: dict[str, list[Answered]] = {
    "hook-u": [_asked(0), *(_asked(step, MISSING) for step in range(3))],
    "hook-v": [_asked(0), _asked(0, MISSING)],
    "hook-c": _circle(8, first_denied=7),
    "hook-i": _work(101),
    "hook-plugin": _work(3),
    "hook-proxy": _circle(6, first_denied=99),
}
CHECKS = {"hook-u": 2, "hook-v": 1}


def _good(name: str, place: Path) -> Observation:
    """Return a run as it must be, with a record that a hook has written."""
    agent = HookedAgent("claude", settings_in(place), place)
    agent.prompt(PROMPT)
    agent.ask("Stop", last_assistant_message="Done.")
    seen = Observation(SCENARIOS[name], answered=list(GOOD[name]), exit_code=0, checks=CHECKS.get(name, 0))
    seen.hook_records = [agent.record]
    if name == "hook-proxy":
        seen.near = [OURS]
    return seen


@pytest.mark.parametrize("name", GOOD)
def test_a_good_run_has_no_problems(name: str, tmp_path: Path) -> None:
    assert problems_with_hook(_good(name, tmp_path)) == []


def test_an_agent_that_cannot_be_ended_is_denied_from_the_seventh_call_on(tmp_path: Path) -> None:
    seen = replace(_good("hook-c", tmp_path), answered=_circle(21, first_denied=7), ends_by_hook=False)
    assert problems_with_hook(seen) == []
    assert denied_calls(seen) == 14


def _runs_on(seen: Observation) -> None:
    seen.exit_code = None


def _fails(seen: Observation) -> None:
    seen.exit_code = 3


def _has_no_record(seen: Observation) -> None:
    seen.hook_records = []


def _has_two_records(seen: Observation) -> None:
    seen.hook_records *= 2


def _replays_otherwise(seen: Observation) -> None:
    seen.replays = {"session.jsonl": "run 1 diverges at step 2"}


def _logs(seen: Observation) -> None:
    seen.hook_log = "2026-11-29T15:00:00 nothing was answered: OSError: no space\n"


def _checks_again(seen: Observation) -> None:
    seen.checks += 1


def _is_not_told(seen: Observation) -> None:
    seen.answered = [replace(one, body="") for one in seen.answered]


def _is_told_twice(seen: Observation) -> None:
    seen.answered[-1] = replace(seen.answered[-1], body=MISSING * 2)


def _goes_on(seen: Observation) -> None:
    seen.answered.append(replace(seen.answered[-1], step=seen.answered[-1].step + 1))


def _is_denied(seen: Observation) -> None:
    seen.answered[-1] = replace(seen.answered[-1], body=DENIED)


def _is_not_denied(seen: Observation) -> None:
    seen.answered = _circle(8, first_denied=99)


def _is_not_denied_at_all(seen: Observation) -> None:
    seen.answered, seen.ends_by_hook = _circle(21, first_denied=99), False


def _is_denied_late(seen: Observation) -> None:
    seen.answered, seen.ends_by_hook = _circle(21, first_denied=9), False


def _is_denied_in_part(seen: Observation) -> None:
    circle = [replace(one, body=one.body.replace(DENIED, "", 3)) for one in _circle(21, first_denied=7)]
    circle[7] = _circle(8, first_denied=7)[7]
    seen.answered, seen.ends_by_hook = circle, False


def _does_not_name_the_proxy(seen: Observation) -> None:
    circle = [replace(one, body=one.body.replace(PROXY_LINE, "")) for one in _circle(21, first_denied=7)]
    seen.answered, seen.ends_by_hook = circle, False


def _is_not_stopped_by_the_proxy(seen: Observation) -> None:
    seen.near = []


CHANGES: list[tuple[str, Callable[[Observation], None], str]] = [
    ("hook-v", _runs_on, "the agent was still running"),
    ("hook-v", _fails, "exit code 3"),
    ("hook-i", _has_no_record, "0 records with 0 runs for one prompt"),
    ("hook-i", _has_two_records, "2 records with 2 runs for one prompt"),
    ("hook-c", _replays_otherwise, "session.jsonl replays otherwise: run 1 diverges at step 2"),
    ("hook-c", _logs, "the hook has 1 lines in its log: 2026-11-29T15:00:00 nothing was answered"),
    ("hook-u", _checks_again, "3 checks, where the work changed once"),
    ("hook-u", _is_not_told, "the model was not told what the check says"),
    ("hook-u", _goes_on, "5 requests, where 4 do the work"),
    ("hook-v", _checks_again, "2 checks of work that never changed"),
    ("hook-v", _is_told_twice, "the model was told 2 times"),
    ("hook-v", _goes_on, "3 requests, and not 2"),
    ("hook-c", _goes_on, "9 requests reached the provider"),
    ("hook-c", _is_not_told, "the model was told after no calls"),
    ("hook-c", _is_not_denied, "no call was denied before the end"),
    ("hook-c", _is_not_denied_at_all, "no call was denied"),
    ("hook-c", _is_denied_late, "the first denial came at call 9"),
    ("hook-c", _is_denied_in_part, "9 calls of the circle ran, and 6 may"),
    ("hook-c", _does_not_name_the_proxy, "the proxy, which can end this agent, was named 0 times"),
    ("hook-i", _goes_on, "102 of 101 requests were made"),
    ("hook-i", _is_denied, "1 calls were denied"),
    ("hook-plugin", _fails, "exit code 3"),
    ("hook-proxy", _is_not_stopped_by_the_proxy, "the proxy has not stopped the circle"),
    ("hook-proxy", _is_denied, "the hook denied 1 calls, too"),
]


@pytest.mark.parametrize(("name", "change", "said"), CHANGES, ids=lambda one: getattr(one, "__name__", None))
def test_what_is_not_as_it_must_be_is_said(
    name: str, change: Callable[[Observation], None], said: str, tmp_path: Path
) -> None:
    seen = _good(name, tmp_path)
    change(seen)
    assert any(said in one for one in problems_with_hook(seen)), problems_with_hook(seen)


def test_the_check_prints_what_is_missing_and_does_not_name_it() -> None:
    assert MISSING not in CHECK
