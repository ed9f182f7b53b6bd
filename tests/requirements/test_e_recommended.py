"""Row E8: recommended limits by kind of task, as named presets, checked against records."""

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from endstop import Engine, tool
from endstop.decision import RECOMMENDED, Policy, WrongUse, policy_from
from endstop.providers import Scripted, call

from .. import scripts
from ..shared_data import ABSENT


@pytest.mark.parametrize(
    ("task", "soft", "hard"),
    [("look_up", 10, 20), ("data_and_files", 50, 100), ("many_systems", 100, 200), ("open_search", 200, 400)],
)
def test_E8_each_kind_of_task_has_its_recommended_soft_and_hard_limit(task: str, soft: int, hard: int) -> None:
    assert (RECOMMENDED[task].soft_steps, RECOMMENDED[task].steps) == (soft, hard)
    assert set(RECOMMENDED) == {"look_up", "data_and_files", "many_systems", "open_search"}


async def test_E8_a_run_over_the_soft_limit_is_flagged_reminded_once_and_can_still_complete() -> None:
    @tool
    async def look(at: int) -> str:
        "Look."
        return f"nothing at {at}"

    provider = Scripted(*[[call("look", at=n)] for n in range(11)], [call("finish_task", summary="There it is.")])
    outcome = await Engine(provider, tools=[look], policy=Policy(limits=RECOMMENDED["look_up"])).run("Where is it?")
    assert (outcome.stop_reason, outcome.exceeded_limit, outcome.steps) == ("completed", True, 12)
    assert (outcome.limits["soft_steps"].used, outcome.limits["soft_steps"].allowed) == (12, 10)
    assert [bool(request.ephemeral) for request in provider.requests] == [False] * 10 + [True, False]


async def test_E8_the_hard_limit_ends_a_run_as_exhausted_with_used_and_allowed() -> None:
    @tool
    async def look(at: int) -> str:
        "Look."
        return f"nothing at {at}"

    provider = Scripted(*[[call("look", at=n)] for n in range(30)])
    outcome = await Engine(provider, tools=[look], policy=Policy(limits=RECOMMENDED["look_up"])).run("Where is it?")
    assert (outcome.status, outcome.stop_reason) == ("exhausted", "step_limit")
    assert (outcome.limits["steps"].used, outcome.limits["steps"].allowed) == (20, 20)


def test_E8_a_policy_file_names_the_kind_of_task_and_its_own_limits_are_laid_over() -> None:
    policy = policy_from({"base": "strict", "recommended": "many_systems", "limits": {"cost_usd": 2.0}})
    assert (policy.limits.soft_steps, policy.limits.steps, policy.limits.cost_usd) == (100, 200, 2.0)
    with pytest.raises(WrongUse, match=r"unknown kind of task in recommended: 'lookup' \(did you mean 'look_up'\?\)"):
        policy_from({"recommended": "lookup"})


def _steps() -> ModuleType:
    return scripts.load(scripts.DOCS / "steps.py")


def test_E8_every_golden_record_that_ended_by_itself_is_within_the_soft_limit_of_its_kind() -> None:
    found = list(_steps().golden())
    assert {one.kind for one in found} == {"look_up", "data_and_files"}
    assert [one.name for one in found if one.cut] == ["loop"]
    over = [one.name for one in found if not one.cut and one.steps > (RECOMMENDED[one.kind].soft_steps or 0)]
    assert (len(found) >= 14, over) == (True, [])


@ABSENT
def test_E8_every_foreign_session_that_ended_by_itself_is_within_the_soft_limit_of_its_kind() -> None:
    found = list(_steps().foreign())
    assert Counter(one.source for one in found) == {"tau-bench": 100, "swe-agent": 3, "cline": 9}
    assert [one.steps for one in found if one.cut] == [30, 30], "the benchmark's own limit"
    over = [one.name for one in found if not one.cut and one.steps > (RECOMMENDED[one.kind].soft_steps or 0)]
    assert over == []


def test_E8_where_no_foreign_sessions_are_there_is_no_table_of_them(tmp_path: Path) -> None:
    steps = _steps()
    assert steps.table(steps.foreign(tmp_path)) == ""
