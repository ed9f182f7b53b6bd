"""Stop rules of other projects, as policies that a backtest can compare with the user's.

Each policy is a project's rule alone, with the thresholds that it ships: an answer in plain text does not end a run, so
that all savings come from the rule. Rules that a limit can express are limits; the rest are guards that look at the
latest calls (`recent_calls`), written from what the source does, without any of its code. They run through the same
`decide` as the built-in rules, in a backtest only. `published_policies.toml` says what was read of each project, and
where.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..decision.decisions import Decision, GoOn, Pause, Stop
from ..decision.errors import WrongUse
from ..decision.facts import Facts
from ..decision.limits import Limits
from ..decision.policy import Degeneration, Patience, Policy
from ..decision.rules import Rule
from .recent_calls import CallFacts, RecentCall, RecentCalls, repeats_in_cycle

UNLIMITED = 10**9
"""Limit of steps of a policy that has no such limit."""


class PublishedPolicy(Struct, frozen=True, kw_only=True):
    """The rule of another project, and how it was read."""

    name: str
    """Its name on the command line and in tables."""
    project: str
    version: str
    repository: str = ""
    """`owner/name` on GitHub; empty for a package that was read as installed."""
    commit: str = ""
    sources: tuple[tuple[str, int], ...]
    """Files of the repository or the package, each with the line to look at."""
    says: str
    """What the rule does, in one sentence."""
    acts: Literal["stops", "asks", "tells, then stops"]
    """Whether it ends the run, asks the user whether to go on, or tells the model first."""
    settings: str = ""
    """Settings of endstop that do the same if each response has one call; empty if there are none."""
    missing: str = ""
    """Parts of the project's rules that are left out, and why."""
    policy: Policy

    @property
    def links(self) -> tuple[str, ...]:
        """Links to the lines; paths for a package."""
        if not self.repository:
            return tuple(f"{path}, line {line}" for path, line in self.sources)
        base = f"https://github.com/{self.repository}/blob/{self.commit}"
        return tuple(f"{base}/{path}#L{line}" for path, line in self.sources)


# ---- the rules


def _recent(facts: Facts) -> RecentCalls:
    if not isinstance(facts, CallFacts):
        raise WrongUse("it looks at single calls, which are remembered in a backtest only")
    return facts.recent


def _count_same(calls: tuple[RecentCall, ...]) -> int:
    """Return how many of the latest calls in a row have the same name and arguments as the last one."""
    count = 0
    while count < len(calls) and calls[-1 - count].call == calls[-1].call:
        count += 1
    return count


def _most_in_a_row(facts: Facts) -> int:
    """Return the highest count of the same call in a row that was reached in the latest step."""
    return max((_count_same(calls) for calls in _recent(facts).at_each_call()), default=0) if facts.calls else 0


def _stop(rule: str, detail: str) -> Stop:
    return Stop(rule=rule, reason="stuck", detail=detail)


def _tell(rule: str, count: int) -> GoOn:
    return GoOn(rule=rule, say=f"{rule}: the same call {count} times", why=f"the same call {count} times")


def _same_calls(rule: str, stop_at: int, tell_at: tuple[int, ...] = ()) -> Callable[[Facts, Policy], Decision | None]:
    def judge(facts: Facts, policy: Policy) -> Decision | None:
        count = _most_in_a_row(facts)
        if count >= stop_at:
            return _stop(rule, f"the same call {count} times in a row")
        return _tell(rule, count) if count in tell_at else None

    return judge


def _ask_at_same_calls(rule: str, ask_at: int) -> Callable[[Facts, Policy], Decision | None]:
    def judge(facts: Facts, policy: Policy) -> Decision | None:
        return Pause(rule=rule, questions=()) if _most_in_a_row(facts) >= ask_at else None

    return judge


def _opencode(facts: Facts, policy: Policy) -> Decision | None:
    recent = _recent(facts)
    for calls in recent.at_each_call() if facts.calls else ():
        if _count_same(tuple(call for call in calls if call.step == recent.steps)) >= 3:
            return Pause(rule="opencode_doom_loop", questions=())
    return None


def _gemini(facts: Facts, policy: Policy) -> Decision | None:
    rule = "gemini_cli_loop"
    recent = _recent(facts)
    if not facts.calls or not any(repeats_in_cycle(calls, 5, 5) for calls in recent.at_each_call()):
        return None
    if recent.loops > 1:
        return _stop(rule, "a cycle of up to 5 calls five times, for the second time")
    return GoOn(rule=rule, say=f"{rule}: a cycle of up to 5 calls five times", why="a cycle of calls five times")


def _mistakes(facts: Facts, policy: Policy) -> Decision | None:
    errors = _recent(facts).error_steps
    if not facts.calls or errors < 3:
        return None
    return _stop("cline_mistakes", f"{errors} steps in a row in which no call succeeded")


def _openhands(facts: Facts, policy: Policy) -> Decision | None:
    rule, calls = "openhands_stuck", _recent(facts).calls[-10:]
    if facts.monologue >= 3:
        return _stop(rule, f"{facts.monologue} messages in a row")
    if not facts.calls:
        return None
    errors = 0
    while errors < len(calls) and calls[-1 - errors].error and _same_action(calls[-1 - errors], calls[-1]):
        errors += 1
    if errors == 3:
        return _tell(rule, errors)
    if errors > 3:
        return _stop(rule, f"the same call failed {errors} times in a row")
    if len(calls) >= 4 and all(_same_outcome(call, calls[-1]) for call in calls[-4:]):
        return _stop(rule, "the same call with the same result 4 times in a row")
    if len(calls) >= 6 and all(_same_outcome(calls[-n], calls[-n - 2]) for n in range(1, 5)):
        return _stop(rule, "two calls with the same results by turns, 6 calls")
    return None


def _same_action(one: RecentCall, other: RecentCall) -> bool:
    return (one.call, one.text) == (other.call, other.text)


def _same_outcome(one: RecentCall, other: RecentCall) -> bool:
    return _same_action(one, other) and (one.result, one.error) == (other.result, other.error)


def _fuse(facts: Facts, policy: Policy) -> Decision | None:
    rule = "trajectory_fuse"
    for calls in _recent(facts).at_each_call() if facts.calls else ():
        if _count_same(calls) >= 3:
            return _stop(rule, "the same call 3 times in a row")
        if repeats_in_cycle(calls, longest=6, times=2, shortest=2):
            return _stop(rule, "a cycle of 2 to 6 calls twice")
        if calls[-1].failures >= 4 and calls[-1].alike >= 3:
            return _stop(rule, f"{calls[-1].failures} calls of {calls[-1].tool} failed nearly alike")
    return None


def _browser_use(facts: Facts, policy: Policy) -> Decision | None:
    rule, recent = "browser_use_loop", _recent(facts)
    if not facts.calls:
        return None
    if recent.error_steps >= 6:
        return _stop(rule, f"{recent.error_steps} steps in a row failed")
    marks = [call.call for call in recent.calls if call.tool not in ("wait", "done", "go_back")][-20:]
    most = max(map(marks.count, set(marks)), default=0)
    return _tell(rule, most) if most >= 5 else None


def _messages(facts: Facts, policy: Policy) -> Decision | None:
    messages = 2 + facts.steps + facts.tool_calls
    return Stop(rule="inspect_messages", reason="step_limit", detail=f"{messages} messages") if messages >= 50 else None


def _guard(name: str, says: str, judge: Callable[[Facts, Policy], Decision | None]) -> Rule:
    return Rule("guard", name, says, ("recent",), judge)


PUBLISHED_RULES: tuple[Rule, ...] = (
    _guard("opencode_doom_loop", "Three equal calls in a row in one response: asks.", _opencode),
    _guard(
        "opencode_documented",
        "Three equal calls in a row: asks.",
        _ask_at_same_calls("opencode_documented", 3),
    ),
    _guard("gemini_cli_loop", "A cycle of up to five calls five times: tells, then stops.", _gemini),
    _guard("qwen_code_loop", "Five equal calls in a row: stops.", _same_calls("qwen_code_loop", 5)),
    _guard("cline_loop", "Equal calls in a row: tells at 3, stops at 5.", _same_calls("cline_loop", 5, (3,))),
    _guard("cline_mistakes", "Three steps in a row without a call that succeeded: stops.", _mistakes),
    _guard("roo_code_repetition", "Four equal calls in a row: asks.", _ask_at_same_calls("roo_code_repetition", 4)),
    _guard("openhands_stuck", "Equal calls with equal results, errors or messages: stops.", _openhands),
    _guard(
        "kimi_cli_repeat",
        "Equal calls in a row: tells from 3, stops at 12.",
        _same_calls("kimi_cli_repeat", 12, tuple(range(3, 12))),
    ),
    _guard("browser_use_loop", "Equal calls among the latest 20: tells. Six failed steps: stops.", _browser_use),
    _guard("trajectory_fuse", "Three equal calls, a cycle twice, four failures alike: stops.", _fuse),
    Rule("guard", "inspect_messages", "Fifty messages: stops.", ("steps", "tool_calls"), _messages),
)
"""The guards that the policies below name, in addition to the built-in ones."""


def guards_alone(policy: Policy, name: str) -> Policy:
    """Return a policy with only the policy's guards.

    It has no limit on steps, and nothing else that ends a run or cuts a response.
    """
    return replace(
        policy,
        name=name,
        limits=replace(policy.limits, steps=UNLIMITED, soft_steps=None),
        degeneration=Degeneration(text=None, reasoning=None, arguments=None),
        reminder=None,
        closing=False,
        response_tokens=None,
        max_inner_steps=UNLIMITED,
        rules=("control_flow", "go_on"),
    )


def _published(
    *,
    name: str,
    sources: list[tuple[str, int]],
    guards: Sequence[str] = (),
    steps: int = UNLIMITED,
    cost_usd: float | None = None,
    patience: Mapping[str, Any] = MappingProxyType({}),
    **read: Any,
) -> PublishedPolicy:
    """Build a policy from a row of `published_policies.toml` that does only what its guards and limits say."""
    limits = [*(["step_limit"] if steps < UNLIMITED else []), *(["cost_limit"] if cost_usd is not None else [])]
    alone = guards_alone(Policy(guards=(*guards, *limits), patience=Patience(**patience)), name)
    policy = replace(alone, limits=Limits(steps=steps, cost_usd=cost_usd))
    return PublishedPolicy(name=name, sources=tuple((path, line) for path, line in sources), policy=policy, **read)


PUBLISHED: tuple[PublishedPolicy, ...] = tuple(
    _published(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["policies"]
)
"""All policies of other projects, those with rules first, then those with limits."""

BY_NAME: dict[str, PublishedPolicy] = {one.name: one for one in PUBLISHED}


def rules_of(guards: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules of other projects if one of these guards is among them, else none."""
    return PUBLISHED_RULES if any(rule.name in guards for rule in PUBLISHED_RULES) else ()
