"""What must hold for an agent in each scenario, as sentences about what was seen that does not.

Tokens of the scripted provider follow from the bytes of the request, so they also tell the responses apart: a step that
misses, that is there twice or that was never made shows in them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from endstop import read_record
from endstop.decision.events import AttemptFailed, ContextCompacted, ResponseFinished
from endstop.records.reader import RecordedRun

from .drive import Observation
from .scenarios import COMPACTION, PROMPT
from .scripted_provider import Answered
from .tap import Exchange, passed_on
from .wires import Tokens

STOPPED_BY = 8
"""The request at which a circle must have been stopped."""
MOST_ANSWERS = 2
"""Answers of the proxy that an agent may need until it ends."""
SECONDS_TO_END = 20.0
"""Seconds that it may need for that."""
OWN = ("answered", "closing", "stopped", "error")
"""What the header `x-endstop` says of a response that is the proxy's own."""
_AFTER_THE_END = re.compile(rb"step\d+n\d+_1\d|check 2 9")
"""The id of a call that comes after the completion, or on a wire without ids the last of these calls."""
FIRST_BYTE = 0.05
"""Seconds that the proxy may keep the first byte of a response."""
_BY_DESIGN = ("accept-encoding", "x-endstop-session", "x-endstop-via")
"""Headers that the proxy changes or adds: it has to read what comes back, says which run it is, and knows its own."""

Check = Callable[[Observation, Observation | None], Iterator[str]]
"""From what was seen behind the proxy, and without it where that was tried, to what is wrong."""


def problems(seen: Observation, direct: Observation | None = None) -> list[str]:
    """Return what is wrong; nothing if all is as it must be."""
    checks = (*_ALWAYS, *_OF_SCENARIO[seen.scenario.name])
    return [said for check in checks for said in check(seen, direct)]


# ---- the agent


def loop_requests(seen: Observation) -> list[Answered]:
    """Return the requests of the agent's loop that reached the provider."""
    return [one for one in seen.answered if not one.side]


def own_answers(near: list[Exchange]) -> list[Exchange]:
    """Return the exchanges that the proxy answered by itself."""
    return [one for one in near if one.header("x-endstop") in OWN]


def _process_ended(seen: Observation, direct: Observation | None) -> Iterator[str]:
    if seen.exit_code is None and (direct is None or direct.exit_code is not None):
        yield f"the agent was still running after {seen.seconds:.0f} s"


def _succeeded(seen: Observation, direct: Observation | None) -> Iterator[str]:
    if seen.exit_code:
        yield f"the agent ended with exit code {seen.exit_code}"


def _all_answered(seen: Observation, direct: Observation | None) -> Iterator[str]:
    expected, made = seen.scenario.steps, len(loop_requests(seen))
    if made != expected:
        yield f"{made} of {expected} requests reached the provider"
    if ours := own_answers(seen.near):
        yield f"the proxy answered {len(ours)} requests itself: {_said(ours[0])}"


def _stopped_in_time(seen: Observation, direct: Observation | None) -> Iterator[str]:
    made, ours = len(loop_requests(seen)), own_answers(seen.near)
    if made > STOPPED_BY:
        yield f"{made} requests reached the provider"
    if len(ours) > MOST_ANSWERS:
        yield f"the proxy answered {len(ours)} times until the agent ended ({_statuses(ours)})"
    if ours and seen.ended - ours[0].ended > SECONDS_TO_END:
        yield f"the agent ended {seen.ended - ours[0].ended:.0f} s after it was stopped"


def _cut_at_the_completion(seen: Observation, direct: Observation | None) -> Iterator[str]:
    made = len(loop_requests(seen))
    if made > seen.scenario.useful:
        yield f"{made} requests reached the provider, of which {seen.scenario.useful} were of use"
    if any(_AFTER_THE_END.search(one.reply) for one in seen.near):
        yield "the agent got the calls after the completion"
    if len(own_answers(seen.near)) > MOST_ANSWERS:
        yield f"the proxy answered {len(own_answers(seen.near))} times until the agent ended"


def _as_without_proxy(seen: Observation, direct: Observation | None) -> Iterator[str]:
    if direct is None:
        return
    if seen.exit_code != direct.exit_code:
        yield f"exit code {seen.exit_code}, and {direct.exit_code} without the proxy"
    here, there = _asking(seen.near), _asking(direct.far)
    if len(here) != len(there) and direct.exit_code is not None:  # of two that were killed, the number is chance
        yield f"{len(here)} requests ({_statuses(here)}), and {len(there)} without the proxy ({_statuses(there)})"


def _asking(exchanges: list[Exchange]) -> list[Exchange]:
    return [one for one in exchanges if one.method == "POST"]


def _statuses(exchanges: list[Exchange]) -> str:
    return ", ".join(f"{times} of {status}" for status, times in Counter(one.status for one in exchanges).items())


def _said(exchange: Exchange) -> str:
    return f"{exchange.status} {exchange.reply[:200].decode(errors='replace')}"


# ---- the bytes


def _identical(seen: Observation, direct: Observation | None) -> Iterator[str]:
    """Requests may overtake each other, so each is looked for by its bytes."""
    there = list(seen.far)
    for number, near in enumerate(seen.near, 1):
        far = next((one for one in there if _request(one) == _request(near)), None)
        if far is None:
            yield f"request {number} did not reach the provider as it was: {_closest(near, there)}"
            continue
        there.remove(far)
        if different := _reply_difference(near, far):
            yield f"response {number} did not reach the agent as it was: {different}"
    if there and len(seen.far) > len(seen.near):
        yield f"{len(seen.far) - len(seen.near)} requests are the proxy's own"


def _request(exchange: Exchange) -> object:
    return exchange.method, exchange.path, exchange.body, _headers(exchange.headers)


def _headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [one for one in passed_on(headers) if one[0] not in _BY_DESIGN]


def _closest(near: Exchange, there: list[Exchange]) -> str:
    for far in there:
        if (near.method, near.path, near.body) == (far.method, far.path, far.body):
            return f"headers {_difference(_headers(near.headers), _headers(far.headers))}"
    bodies = [far for far in there if (near.method, near.path) == (far.method, far.path)]
    return f"{len(near.body)} bytes became {len(bodies[0].body)}" if bodies else "it is not there"


def _reply_difference(near: Exchange, far: Exchange) -> str:
    if near.status != far.status:
        return f"status {far.status} became {near.status}"
    if _headers(near.reply_headers) != _headers(far.reply_headers):
        return f"headers {_difference(_headers(far.reply_headers), _headers(near.reply_headers))}"
    if near.reply != (far.reply if near.whole else far.reply[: len(near.reply)]):
        return f"{len(far.reply)} bytes became {len(near.reply)}"
    return "it was whole" if far.whole and not near.whole and near.reply != far.reply else ""


def _difference(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> str:
    lost, new = [one for one in before if one not in after], [one for one in after if one not in before]
    return f"lost {lost}, new {new}"


def _first_byte_in_time(seen: Observation, direct: Observation | None) -> Iterator[str]:
    there = list(seen.far)
    for number, near in enumerate(seen.near, 1):
        far = next((one for one in there if one.body == near.body), None)
        if far is None:
            continue
        there.remove(far)
        if far.reply and near.begun - far.begun > FIRST_BYTE:
            yield f"the first byte of response {number} came {(near.begun - far.begun) * 1000:.0f} ms later"


# ---- records and metrics


class Recorded(NamedTuple):
    """A run in the records, and what its responses cost."""

    run: RecordedRun
    responses: list[Tokens]
    estimated: int
    """Responses whose tokens nobody reported."""


def recorded(seen: Observation) -> list[Recorded]:
    """Return all runs of all records, without those that a fork copied."""
    found = []
    for path in seen.records:
        for run in read_record(path).runs:
            usages = [one.usage for one in run.events if isinstance(one, ResponseFinished)]
            told = [Tokens(one.input_tokens, one.output_tokens) for one in usages if not one.estimated]
            found.append(Recorded(run, told, len(usages) - len(told)))
    return found


def _recorded_once(seen: Observation, direct: Observation | None) -> Iterator[str]:
    """Check that each response to the agent's loop is recorded exactly once, and any other response at most once.

    A response that the proxy cuts at the completion is left out, because the provider never reports its tokens.
    """
    runs = recorded(seen)
    held = Counter(tokens for one in runs for tokens in one.responses)
    loop = Counter(one.tokens for one in _counted(loop_requests(seen)))
    every = Counter(one.tokens for one in _counted(seen.answered))
    cut = _cuts(seen)
    missing = loop - held
    if missing.total() > cut:
        late = Counter(f"{one.late * 1000:.0f} ms" for one in loop_requests(seen) if one.tokens in missing)
        share = ", ".join(f"{times} that ended {name} late" for name, times in sorted(late.items()))
        yield f"{missing.total()} of {loop.total()} responses are not recorded with their tokens ({share})"
    if more := held - every:
        yield f"{more.total()} recorded responses were never sent, or are recorded twice"
    uncounted = sum(not one.counted for one in seen.answered)
    broken = sum(one.ended != "whole" for one in seen.answered)
    estimated = sum(one.estimated for one in runs)
    if estimated > uncounted + broken + cut:
        yield f"the tokens of {estimated} responses are estimated, and {uncounted} came without"


def _cuts(seen: Observation) -> int:
    """Return how many responses the proxy has cut in a scenario that asks for it."""
    return int(seen.metrics.get("cut_responses_total", 0)) if seen.scenario.useful else 0


def _counted(answered: list[Answered]) -> list[Answered]:
    return [one for one in answered if one.status == 200 and one.ended == "whole" and one.counted]


def _one_run(seen: Observation, direct: Observation | None) -> Iterator[str]:
    loop = {one.tokens for one in loop_requests(seen)}
    runs = [one for one in recorded(seen) if loop & set(one.responses) or one.estimated]
    if len(runs) != 1 and loop:
        yield f"{len(runs)} runs were recorded for one prompt"
    for one in runs:
        if (prompt := typed(one.run.started.prompt)) != PROMPT:
            yield f"the prompt was recorded as {prompt[:80]!r}"
            break


def typed(prompt: str | None) -> str:
    """Return a prompt without the quotation marks that opencode puts around it."""
    return (prompt or "").strip().strip('"')


def _counted_in_metrics(seen: Observation, direct: Observation | None) -> Iterator[str]:
    sent = [one for one in seen.answered if one.status == 200]
    if _cuts(seen) or not all(one.counted and one.ended == "whole" for one in sent):
        return
    for name in ("input", "output"):
        total = sum(getattr(one.tokens, name) for one in sent)
        if (shown := seen.metrics.get(f"{name}_tokens_total", 0)) != total:
            yield f"the metrics show {shown:,.0f} {name} tokens of {total:,}"


def _replays(seen: Observation, direct: Observation | None) -> Iterator[str]:
    different = [said for said in seen.replays.values() if said]
    if different:
        said = " ".join(different[0].split())[:200]
        yield f"{len(different)} of {len(seen.replays)} records replay otherwise: {said}"


def _failed_once(seen: Observation, direct: Observation | None) -> Iterator[str]:
    failed = [event for one in recorded(seen) for event in one.run.events if isinstance(event, AttemptFailed)]
    if len(failed) != 1:
        yield f"{len(failed)} failed attempts were recorded for one"


def _compacted_once(seen: Observation, direct: Observation | None) -> Iterator[str]:
    compacted = [event for one in recorded(seen) for event in one.run.events if isinstance(event, ContextCompacted)]
    if len(compacted) != 1:
        yield f"{len(compacted)} compactions were recorded for one"


def _audited(seen: Observation, direct: Observation | None) -> Iterator[str]:
    if seen.audit is None:
        if seen.leaves_session:
            yield "`endstop audit --last` finds no session"
        return
    runs = json.loads(seen.audit)["runs"]
    prompts = [typed(run["prompt"]) for run in runs]
    if prompts != [PROMPT]:
        yield f"`endstop audit --last` shows {len(runs)} runs of {', '.join(repr(one[:60]) for one in prompts[:3])}"


_ALWAYS: tuple[Check, ...] = (_process_ended, _recorded_once, _one_run, _counted_in_metrics, _replays)
_OF_SCENARIO: dict[str, tuple[Check, ...]] = {
    "a": (_succeeded, _all_answered, _identical, _audited),
    "b": (_cut_at_the_completion,),
    "c": (_stopped_in_time, _audited),
    "d": (_stopped_in_time,),
    "e": (_as_without_proxy, _failed_once),
    "f": (_as_without_proxy, _identical),
    "g": (_succeeded, _all_answered, _identical, _first_byte_in_time),
    "h": (_as_without_proxy, _identical),
    "i": (_succeeded, _all_answered, _audited),
    COMPACTION.name: (_succeeded, _all_answered, _compacted_once),
}
COMPARED = "efh"
"""Scenarios that are also tried without the proxy."""
