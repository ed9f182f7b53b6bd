"""What must hold for an agent that starts `endstop hook`, as sentences about what was seen that does not.

What the hook said is read from the agent's own requests to the provider, not from the hook's record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from endstop import read_record

from .checks import STOPPED_BY, loop_requests, own_answers, typed
from .drive import Observation
from .scenarios import MISSING, PROMPT

Check = Callable[[Observation], Iterator[str]]
TOLD = "the same calls with the same results"
"""What a model is told that repeats itself."""
DENIED = "endstop denied this call"
TOLD_BY, DENIED_BY = 3, 7
"""The calls of a circle after which the model is told at the latest, and of which the first is denied."""
PROXY_LINE = "endstop proxy --upstream"
"""What a person is told where a hook cannot end the agent."""


def problems_with_hook(seen: Observation) -> list[str]:
    """Return what is wrong; nothing if all is as it must be."""
    return [said for check in (*_ALWAYS, *_OF_SCENARIO[seen.scenario.name]) for said in check(seen)]


def denied_calls(seen: Observation) -> int:
    """Return how many calls the hook has denied, as the model was told."""
    return max((one.body.count(DENIED) for one in loop_requests(seen)), default=0)


def _first_with(seen: Observation, text: str) -> int | None:
    """Return how many calls stood in the first request with a text; None if there is none."""
    return next((one.step for one in loop_requests(seen) if text in one.body), None)


# ---- always


def _ended(seen: Observation) -> Iterator[str]:
    if seen.exit_code is None:
        yield f"the agent was still running after {seen.seconds:.0f} s"


def _succeeded(seen: Observation) -> Iterator[str]:
    if seen.exit_code:
        yield f"the agent ended with exit code {seen.exit_code}"


def _one_record(seen: Observation) -> Iterator[str]:
    """Check that the hook has one record, with one run of the prompt that was typed."""
    runs = [run for path in seen.hook_records for run in read_record(path).runs]
    if len(seen.hook_records) != 1 or len(runs) != 1:
        yield f"{len(seen.hook_records)} records with {len(runs)} runs for one prompt"
    for run in runs:
        if (prompt := typed(run.started.prompt)) != PROMPT:
            yield f"the prompt was recorded as {prompt[:80]!r}"
            break


def _replays(seen: Observation) -> Iterator[str]:
    for record, said in seen.replays.items():
        if said:
            yield f"{record} replays otherwise: {' '.join(said.split())[:200]}"


def _nothing_failed(seen: Observation) -> Iterator[str]:
    if lines := seen.hook_log.splitlines():
        yield f"the hook has {len(lines)} lines in its log: {lines[0][:200]}"


# ---- the check at the end


def _told_and_worked(seen: Observation) -> Iterator[str]:
    made = len(loop_requests(seen))
    if seen.checks != 2:
        yield f"{seen.checks} checks, where the work changed once"
    if made != seen.scenario.steps:
        yield f"{made} requests, where {seen.scenario.steps} do the work"
    if _first_with(seen, MISSING) != 0:
        yield "the model was not told what the check says"


def _let_go(seen: Observation) -> Iterator[str]:
    made = len(loop_requests(seen))
    if seen.checks != 1:
        yield f"{seen.checks} checks of work that never changed"
    if made != seen.scenario.steps:
        yield f"{made} requests, and not {seen.scenario.steps}: one more after the model was told once"
    told = max((one.body.count(MISSING) for one in loop_requests(seen)), default=0)
    if told != 1:
        yield f"the model was told {told} times"


# ---- circles, and healthy work


def _told_then_denied(seen: Observation) -> Iterator[str]:
    """Check that the circle is told, denied and ended; where a hook cannot end the agent, that each call is denied."""
    made, told, denied = len(loop_requests(seen)), _first_with(seen, TOLD), _first_with(seen, DENIED)
    if told is None or told > TOLD_BY:
        yield f"the model was told after {told or 'no'} calls"
    if seen.ends_by_hook:
        if made > STOPPED_BY:
            yield f"{made} requests reached the provider"
        if made >= DENIED_BY + 1 and denied is None:
            yield "no call was denied before the end"
        return
    if denied is None or denied > DENIED_BY:
        yield f"the first denial came at call {denied}" if denied else "no call was denied"
        return
    if (ran := made - 1 - denied_calls(seen)) >= DENIED_BY:
        yield f"{ran} calls of the circle ran, and {DENIED_BY - 1} may"


def _said_once(seen: Observation) -> Iterator[str]:
    """Check that one denial names the proxy: without a terminal, these agents show a person no message of a hook."""
    said = max((one.body.count(PROXY_LINE) for one in loop_requests(seen)), default=0)
    if not seen.ends_by_hook and said != 1:
        yield f"the proxy, which can end this agent, was named {said} times"


def _all_made(seen: Observation) -> Iterator[str]:
    made = len(loop_requests(seen))
    if made != seen.scenario.steps:
        yield f"{made} of {seen.scenario.steps} requests were made"
    if denied := denied_calls(seen):
        yield f"{denied} calls were denied"


def _one_speaks(seen: Observation) -> Iterator[str]:
    """Check that the proxy stops the circle, and that the hook leaves it to the proxy."""
    made, ours = len(loop_requests(seen)), own_answers(seen.near)
    if made > STOPPED_BY:
        yield f"{made} requests reached the provider"
    if not ours:
        yield "the proxy has not stopped the circle"
    if denied := denied_calls(seen):
        yield f"the hook denied {denied} calls, too"


_ALWAYS: tuple[Check, ...] = (_ended, _one_record, _replays, _nothing_failed)
_OF_SCENARIO: dict[str, tuple[Check, ...]] = {
    "hook-u": (_succeeded, _told_and_worked),
    "hook-v": (_succeeded, _let_go),
    "hook-c": (_told_then_denied, _said_once),
    "hook-i": (_succeeded, _all_made),
    "hook-plugin": (_succeeded, _all_made),
    "hook-proxy": (_one_speaks,),
}
