"""Each check of the matrix finds what it is there to find: a good run, changed in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import pytest_asyncio

from .agents import agents
from .checks import problems
from .drive import Observation
from .playback import play
from .recordings import read
from .scenarios import SCENARIOS
from .wires import Tokens


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def good(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """What pi sends in scenario a, as it must be."""
    return await play(agents()["pi"], read("pi"), SCENARIOS["a"], tmp_path_factory.mktemp("records"))


def test_a_good_run_has_no_problems(good: Observation) -> None:
    assert problems(good) == []


def _changed_body(seen: Observation) -> None:
    seen.far[1] = replace(seen.far[1], body=seen.far[1].body + b" ")


def _changed_header(seen: Observation) -> None:
    seen.far[1] = replace(seen.far[1], headers=[*seen.far[1].headers, ("x-more", "1")])


def _changed_reply(seen: Observation) -> None:
    seen.near[1] = replace(seen.near[1], reply=seen.near[1].reply[:-1])


def _changed_status(seen: Observation) -> None:
    seen.near[1] = replace(seen.near[1], status=500)


def _own_request(seen: Observation) -> None:
    seen.far.append(seen.far[0])


def _own_answer(seen: Observation) -> None:
    seen.near[2] = replace(seen.near[2], reply_headers=[("x-endstop", "stopped")])


def _unrecorded(seen: Observation) -> None:
    seen.answered.append(replace(seen.answered[0], tokens=Tokens(1, 2)))


def _invented(seen: Observation) -> None:
    seen.answered[0] = replace(seen.answered[0], side=True, tokens=Tokens(1, 2))


def _no_record(seen: Observation) -> None:
    seen.records = []


def _uncounted(seen: Observation) -> None:
    seen.metrics = {**seen.metrics, "input_tokens_total": 1}


def _diverges(seen: Observation) -> None:
    seen.replays = {"session.jsonl": "run 1 diverges at step 2"}


def _runs_on(seen: Observation) -> None:
    seen.exit_code = None


def _fails(seen: Observation) -> None:
    seen.exit_code = 3


def _is_not_found(seen: Observation) -> None:
    seen.leaves_session = True


def _is_found_as_two(seen: Observation) -> None:
    seen.audit = '{"runs": [{"prompt": "Write"}, {"prompt": null}]}'


CHANGES: dict[Callable[[Observation], None], str] = {
    _changed_body: "request 2 did not reach the provider as it was",
    _changed_header: "new [('x-more', '1')]",
    _changed_reply: "response 2 did not reach the agent as it was",
    _changed_status: "status 200 became 500",
    _own_request: "1 requests are the proxy's own",
    _own_answer: "the proxy answered 1 requests itself",
    _unrecorded: "1 of 4 responses are not recorded with their tokens",
    _invented: "1 recorded responses were never sent",
    _no_record: "0 runs were recorded for one prompt",
    _uncounted: "the metrics show 1 input tokens of",
    _diverges: "1 of 1 records replay otherwise: run 1 diverges at step 2",
    _runs_on: "the agent was still running",
    _fails: "exit code 3",
    _is_not_found: "finds no session",
    _is_found_as_two: "shows 2 runs of 'Write', ''",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_not_as_it_must_be_is_said(good: Observation, change: Callable[[Observation], None]) -> None:
    seen = replace(good, near=list(good.near), far=list(good.far), answered=list(good.answered))
    change(seen)
    assert any(CHANGES[change] in said for said in problems(seen)), problems(seen)


def test_a_circle_must_end_by_request_eight_after_two_answers_within_20_s(good: Observation) -> None:
    stopped = [replace(good.near[0], reply_headers=[("x-endstop", "stopped")], status=400, ended=10.0)] * 3
    answered = [replace(good.answered[0], tokens=Tokens(number, 1)) for number in range(9)]
    seen = replace(good, scenario=SCENARIOS["c"], near=stopped, answered=answered, ended=31.0)
    said = problems(seen)
    assert "9 requests reached the provider" in said
    assert "the proxy answered 3 times until the agent ended (3 of 400)" in said
    assert "the agent ended 21 s after it was stopped" in said


def test_an_agent_must_do_what_it_does_without_the_proxy(good: Observation) -> None:
    seen = replace(good, scenario=SCENARIOS["h"])
    assert problems(seen, replace(good)) == []
    direct = replace(good, far=good.far[:2], exit_code=1)
    assert problems(seen, direct) == [
        "exit code 0, and 1 without the proxy",
        "3 requests (3 of 200), and 2 without the proxy (2 of 200)",
    ]


def test_an_agent_that_runs_on_without_the_proxy_may_run_on_behind_it(good: Observation) -> None:
    seen, direct = replace(good, scenario=SCENARIOS["h"], exit_code=None), replace(good, exit_code=None)
    assert problems(seen, replace(direct, far=good.far[:2])) == []
    assert problems(seen, replace(good)) == [
        f"the agent was still running after {seen.seconds:.0f} s",
        "exit code None, and 0 without the proxy",
    ]


def test_a_first_byte_must_not_wait(good: Observation) -> None:
    slow = [replace(one, begun=one.begun + 0.2) for one in good.near]
    said = problems(replace(good, scenario=SCENARIOS["g"], near=slow))
    assert len(said) == 3
    assert all("the first byte of response" in one for one in said)
