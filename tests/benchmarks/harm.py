"""Measures what policies as a whole stop in recorded sessions whose end is known: limits, texts and guards together.

    python tests/benchmarks/harm.py FOLDER_WITH_DATA [--why NAME]
    python tests/benchmarks/harm.py FOLDER_WITH_DATA --policy agent --policy mine.toml --leave-one-out

`labelled_sessions.py` says which sessions; judgement.py measures the guards alone, beside the rules of others. Each
policy is simulated along each session as `endstop backtest` does. All figures assume that the model goes on as
recorded, whatever the policy would have said to it.

A session is *cut* if the policy ends it, for whatever reason, before the last text or call of one of its runs. What
follows is lost, later runs too. A stop at the very step with which the recorded run ended does no harm. Steps are
responses, those without calls included. A cut has the name of the guard that made it or, if a rule did, of its stop
reason: `text_final` and `no_answer` are texts that were taken for an end. A response that `degeneration` would cut off
counts as a stop (`degenerate`).

Without --policy it measures `agent` as it is shipped; without its limit on steps; as it holds for a loop that is not
ours, without a limit of steps and an end by a text; and its guards alone. A policy is the name of a shipped or a
published one, a policy file, or an expression such as `16=with_setting(agent, "stagnation.stop_at", 16)`, with the
name of its rows before it. It can use the shipped policies, `replace`, `without_limit`, `followed`, `guards_alone` and
the names of the module `endstop.decision.policy`. The judgements of the steps are made anew, so a script that changes
how steps are judged and then calls `main` measures the change. It takes 10 s on two cores.

`followed` is a little stricter than a follower: where that goes on after a text it begins another run, whose points and
counts begin anew, and here they go on.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from endstop.analysis.foreign_loops import ends_without_calls, without_shipped_limit
from endstop.analysis.guarantee import exact_interval
from endstop.analysis.policy_simulation import BacktestResult, backtest
from endstop.analysis.published_policies import BY_NAME, guards_alone, rules_of
from endstop.decision import (
    POLICIES,
    AssistantMessage,
    Decision,
    Event,
    GoOn,
    Policy,
    Rule,
    StepJudge,
    fold,
    policy_from,
)
from endstop.decision import policy as policy_module
from endstop.decision.degeneration import find_repetition_in_message
from endstop.decision.events import ResponseFinished, RunStarted, StepFinished, ToolCallResult
from endstop.decision.facts import Facts
from endstop.decision.limits import STOP_REASONS
from endstop.decision.messages import is_blank
from endstop.decision.policy import Degeneration
from endstop.decision.policy_files import with_setting
from endstop.decision.rules import RULES as OWN_RULES
from endstop.follow.follower import followed_policy
from labelled_sessions import LabelledSession, read_sessions, runs_of
from msgspec.structs import replace
from run import say

WHOLE = "whole"
"""The variant that is the policy itself; the others have the name of the one guard that they leave, or `RULES`."""
RULES = "rules"
"""The variant without guards: what ends a run by a text, a completion or a question."""
SILENT = ("judged", "compaction_stalled", "repetition", "no_progress", "reminder")
"""Guards that end none of these sessions: those without a judge or a window here, and those that only speak."""
LONG = 30
"""Steps of the longest run of a session from which on it counts as long: the limit of `agent`."""
OVERALL, EACH = 0.005, 0.01
"""The shares of good sessions that may be cut: of all together, and of each agent, who may lose one in any case."""


# ---- policies


def without_limit(policy: Policy) -> Policy:
    """The policy without a limit on steps."""
    return replace(policy, guards=tuple(name for name in policy.guards if name != "step_limit"))


def named_policy(text: str) -> tuple[str, Policy]:
    """The policy of an argument, with the name that it has in the tables."""
    named = re.match(r"([^=(]+)=(?!=)", text)
    spec = text[named.end() :] if named else text
    name = named[1].strip() if named else spec
    if spec in POLICIES:
        return name, POLICIES[spec]
    if spec in BY_NAME:
        return name, BY_NAME[spec].policy
    if spec.endswith(".toml"):
        return name, policy_from(tomllib.loads(Path(spec).read_text("utf-8")), where=spec)
    known = {**vars(policy_module), **POLICIES, "replace": replace, "with_setting": with_setting}
    made = eval(spec, {**known, **HELPERS})
    if not isinstance(made, Policy):
        raise TypeError(f"{spec} is no policy, but {made!r}")
    return name, made


def followed(policy: Policy) -> Policy:
    """The policy as it holds for a loop that is not ours."""
    policy = without_shipped_limit(policy)
    place = policy.rules.index("finish_reason")
    return replace(policy, rules=(*policy.rules[:place], TEXT_GOES_ON.name, *policy.rules[place:]))


def _text_goes_on(facts: Facts, policy: Policy) -> Decision | None:
    said = next(filter(None, (rule.judge(facts, policy) for rule in ON_RESPONSES)), None)
    goes_on = said is not None and ends_without_calls(facts, said)
    return GoOn(rule=TEXT_GOES_ON.name, why="the agent may go on after this response") if goes_on else None


ON_RESPONSES = [rule for rule in OWN_RULES if rule.name in ("finish_reason", "message_shape")]
TEXT_GOES_ON = Rule("P0.9", "text_goes_on", "Goes on after a response without calls.", ("shape",), _text_goes_on)
HELPERS: dict[str, Any] = {one.__name__: one for one in (without_limit, followed, guards_alone)}
"""What an expression can use to change a policy, beside `replace` and `with_setting`."""


def shipped() -> dict[str, Policy]:
    """What is measured without --policy."""
    agent = POLICIES["agent"]
    no_limit = without_limit(agent)
    return {
        "agent": agent,
        "no limit": no_limit,
        "followed": followed(agent),
        "guards alone": guards_alone(agent, "guards alone"),
    }


def variants(policy: Policy) -> dict[str, Policy]:
    """The policy as a whole, its rules without guards, and each of its guards that stops, alone.

    A completion tool that it requires is not asked for: few of these sessions have one.
    """
    if policy.completion == "required":
        policy = replace(policy, completion="offered")
    unwatched = Degeneration(text=None, reasoning=None, arguments=None)
    quiet = replace(policy, degeneration=unwatched, rules=("control_flow", "go_on"))
    policy = replace(followed_policy(policy, speaks=False), limits=policy.limits)
    found = {WHOLE: policy, RULES: replace(policy, guards=())}
    for name in policy.guards:
        limits = [limit for limit, reason in STOP_REASONS.items() if reason == name]
        if name not in SILENT and (not limits or any(getattr(policy.limits, limit) is not None for limit in limits)):
            found[name] = replace(quiet, guards=(name,))
    return found


# ---- one session


@dataclass(frozen=True)
class End:
    """Where a policy ends a session."""

    by: str
    """The guard, or the stop reason of a rule."""
    step: int
    """Steps up to it, in all runs."""
    brought: str
    """What the last of them brought."""
    points: int
    """The points of stagnation after it."""
    cut: bool
    """Whether its run has a text or a call after it."""
    lost: int
    """Steps of the session after it."""
    lost_calls: int
    """Those among them that make calls."""
    before_change: bool
    """Whether it comes before the last change of the work."""


@dataclass(frozen=True)
class Course:
    """What the variants of the policies do to one session."""

    session: LabelledSession
    """Without its events."""
    steps: int
    longest: int
    """Steps of its longest run, up to the last that is not empty."""
    ends: dict[tuple[str, str], End]
    """By policy and variant; those that let it go on to its recorded end are left out."""


def simulate(session: LabelledSession, policies: dict[str, dict[str, Policy]]) -> Course:
    """Find where each variant of each policy ends this session."""
    events, judged = judged_anew(session.events)
    runs = runs_of(events)
    keys = [(name, variant) for name, made in policies.items() for variant in made]
    tested = [policies[name][variant] for name, variant in keys]
    rules = (*rules_of(tuple(name for one in tested for name in one.guards)), TEXT_GOES_ON)
    results = list(backtest(events, tested, rules))
    carried = [event.carried.steps if event.carried else 0 for event in events if isinstance(event, RunStarted)]
    repeats = {one.degeneration: [_first_repetition(run, one.degeneration) for run in runs] for one in tested}
    ends: dict[tuple[str, str], End] = {}
    for number, (key, policy) in enumerate(zip(keys, tested, strict=True)):
        before = 0
        for place, (run, result) in enumerate(zip(runs, results, strict=True)):
            found = _end(key[1], policy, number, result, repeats[policy.degeneration][place], carried[place])
            cut = found is not None and found[1] < _last_step(run)
            if found is not None and (cut or place + 1 == len(runs)):
                by, step, early = found
                later = [message for one in (run[step:], *runs[place + 1 :]) for message in one]
                changes = early or any(other.digest.changed is not None for other in results[place + 1 :])
                brought, points = judged[before + step - 1]
                calls = sum(bool(message.calls) for message in later)
                ends[key] = End(by, before + step, brought, points, cut, len(later), calls, changes)
                break
            before += len(run)
    longest = max((done + _last_step(run) for done, run in zip(carried, runs, strict=True)), default=0)
    return Course(replace(session, events=[]), sum(map(len, runs)), longest, ends)


def judged_anew(events: Iterable[Event]) -> tuple[list[Event], list[tuple[str, int]]]:
    """The events with each step judged once more, and what each step brought, with the points of its run after it."""
    facts, judge = Facts(), StepJudge()
    again: list[Event] = []
    judged: list[tuple[str, int]] = []
    for event in events:
        if isinstance(event, StepFinished):
            event = replace(event, judged=None)
        event = judge.feed(facts, event)
        facts = fold(facts, event)
        again.append(event)
        if isinstance(event, StepFinished):
            judged.append((facts.brought, facts.stalled))
    return again, judged


def _last_step(run: Sequence[AssistantMessage]) -> int:
    """The last step of a run whose response is not empty: some agents end with an empty one."""
    said = (number for number, message in enumerate(run, 1) if message.calls or not is_blank(message.text))
    return max(said, default=0)


def _first_repetition(run: Sequence[AssistantMessage], settings: Degeneration) -> int | None:
    """The first step of a run whose response would be cut because it repeats itself."""
    numbered = enumerate(run if settings.watches else (), 1)
    return next((number for number, message in numbered if find_repetition_in_message(message, settings)), None)


def _end(
    variant: str, policy: Policy, number: int, result: BacktestResult, repeats: int | None, carried: int
) -> tuple[str, int, bool] | None:
    """What ends the run, after which of its steps, and whether that is before its last change; None: nothing."""
    finding = result.findings[number]
    step = None if finding.stops is None else finding.stops.steps - carried
    if repeats is not None and (step is None or repeats <= step):
        changed = result.digest.changed
        return "degenerate", repeats, changed is not None and repeats + carried < changed.steps
    by = finding.rule if finding.rule in policy.guards else finding.stop_reason
    if step is None or (variant not in (WHOLE, RULES) and by != variant):
        return None
    return by, step, finding.before_change


# ---- figures


@dataclass
class Figures:
    """What a policy does to some sessions."""

    sessions: int = 0
    good: int = 0
    long: int = 0
    """Good sessions with a run of more than `LONG` steps."""
    long_finished: int = 0
    cut: int = 0
    """Good sessions that are cut."""
    cut_by_two: int = 0
    """Good sessions that lose two steps or more."""
    harmed: int = 0
    """Good sessions that are cut before the last change of their work."""
    cut_by: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    """Good sessions that are stopped at their last step, where they ended by themselves."""
    steps: int = 0
    saved: int = 0
    bad_steps: int = 0
    saved_of_bad: int = 0

    @classmethod
    def of(cls, courses: Iterable[Course], policy: str, variant: str = WHOLE, by: str = "") -> Figures:
        """The figures of a policy, or of one of its variants. by: count only what has this name."""
        figures = cls()
        for course in courses:
            end = course.ends.get((policy, variant))
            figures._add(course, end if end is None or by in ("", end.by) else None)
        return figures

    def _add(self, course: Course, end: End | None) -> None:
        lost = 0 if end is None else end.lost
        self.sessions += 1
        self.steps += course.steps
        self.saved += lost
        if course.session.good is False:
            self.bad_steps += course.steps
            self.saved_of_bad += lost
        if not course.session.good:
            return
        self.good += 1
        self.long += course.longest > LONG
        if end is None or not end.cut:
            self.ended += end is not None
            self.long_finished += course.longest > LONG
            return
        self.cut += 1
        self.cut_by[end.by] += 1
        self.cut_by_two += end.lost >= 2
        self.harmed += end.before_change

    @property
    def share(self) -> float:
        """The share of good sessions that are cut."""
        return self.cut / self.good if self.good else 0.0

    @property
    def allowed(self) -> bool:
        """Whether no more good sessions are cut than may be of one agent."""
        return self.cut <= max(1, EACH * self.good)

    def as_json(self) -> dict[str, Any]:
        """The figures by name."""
        return {**vars(self), "cut_by": dict(self.cut_by)}


def by_agent(courses: Iterable[Course], models: bool = True) -> dict[tuple[str, str], list[Course]]:
    """The courses of each agent, and of each of its models."""
    found: dict[tuple[str, str], list[Course]] = {}
    for course in courses:
        found.setdefault((course.session.agent, course.session.model if models else ""), []).append(course)
    return found


def worst(courses: Iterable[Course], policy: str) -> tuple[str, Figures]:
    """The agent of whose good sessions the largest share is cut, if it is more than the one that any may lose."""
    found = [(agent, Figures.of(some, policy)) for (agent, _), some in by_agent(courses, models=False).items()]
    return max(found, key=lambda one: (not one[1].allowed, one[1].share))


# ---- tables


def side_by_side(courses: Sequence[Course], policies: Iterable[str]) -> Iterator[str]:
    """One row for each policy."""
    java = [one for one in courses if one.session.group == "swe_java"]
    known = [one for one in courses if one.session.group != "unseen_agents"]
    unseen = [one for one in courses if one.session.group == "unseen_agents"]
    yield "\n## Policies\n"
    yield (
        "| policy | good cut | known agents | unseen agents | worst agent | long good ones that finish |"
        " saved of swe_java | resolved cut, harmed | saved of bad | of all |"
    )
    yield "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"
    for name in policies:
        all_, of_java = Figures.of(courses, name), Figures.of(java, name)
        agent, of_worst = worst(courses, name)
        cells = (
            _with_interval(all_),
            _cut(Figures.of(known, name)),
            _cut(Figures.of(unseen, name)),
            f"{agent}: {_cut(of_worst)}{'' if of_worst.allowed else ' **!**'}",
            f"{all_.long_finished} of {all_.long}",
            _percent(of_java.saved, of_java.steps),
            f"{of_java.cut}, {of_java.harmed} of {of_java.good}",
            _percent(all_.saved_of_bad, all_.bad_steps),
            _percent(all_.saved, all_.steps),
        )
        yield f"| {name} | {' | '.join(cells)} |"


def agents_table(courses: Sequence[Course], policy: str) -> Iterator[str]:
    """One row for each agent and model: what the policy as a whole does."""
    yield f"\n## {policy}: by agent\n"
    yield (
        f"| agent | model | sessions | good | of more than {LONG} steps | good cut | by two steps or more |"
        " before the last change | by | ended where they ended | saved of all | of bad |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|"
    rows = list(by_agent(courses).items())
    for agent, group in groupby(rows, key=lambda one: one[0][0]):
        some = list(group)
        for (_, model), of_model in some:
            yield _agent_row(agent, model, Figures.of(of_model, policy))
        if len(some) > 1:
            yield _agent_row(f"**{agent}**", "all", Figures.of((one for _, part in some for one in part), policy))
    yield _agent_row("**all**", "", Figures.of(courses, policy))


def _agent_row(agent: str, model: str, one: Figures) -> str:
    by = ", ".join(f"{name} {times}" for name, times in one.cut_by.most_common()) or "-"
    long = f"{one.long} ({one.long_finished} finish)" if one.long else "0"
    cells = (one.sessions, one.good, long, _cut(one), one.cut_by_two, one.harmed, by, one.ended)
    saved = _percent(one.saved, one.steps), _percent(one.saved_of_bad, one.bad_steps)
    return f"| {agent} | {model} | {' | '.join(map(str, (*cells, *saved)))} |"


def rules_alone(courses: Iterable[Course], policy: str, made: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Each guard of a policy that ends a session alone, and each stop reason of its rules: their variant and name."""
    reasons = {end.by for course in courses if (end := course.ends.get((policy, RULES))) is not None}
    guards = {variant: (variant, "") for variant in made if variant not in (WHOLE, RULES)}
    return guards | {reason: (RULES, reason) for reason in sorted(reasons)}


def rules_table(courses: Sequence[Course], policy: str, made: Iterable[str]) -> Iterator[str]:
    """One row for each rule alone: good sessions cut of each agent, and the steps saved."""
    agents = {agent: some for (agent, _), some in by_agent(courses, models=False).items()}
    java = [one for one in courses if one.session.group == "swe_java"]
    yield f"\n## {policy}: each rule alone, good sessions cut\n"
    yield f"| rule | all | {' | '.join(agents)} | saved of swe_java | of bad | of all |"
    yield f"|---|--:|{'--:|' * (len(agents) + 3)}"
    for rule, (variant, by) in {WHOLE: (WHOLE, ""), **rules_alone(courses, policy, made)}.items():
        figures, of_java = (Figures.of(some, policy, variant, by) for some in (courses, java))
        if figures.saved:
            cut = (Figures.of(some, policy, variant, by) for some in agents.values())
            saved = (
                _percent(of_java.saved, of_java.steps),
                _percent(figures.saved_of_bad, figures.bad_steps),
                _percent(figures.saved, figures.steps),
            )
            yield f"| {rule} | {' | '.join((str(figures.cut), *(f'{one.cut} of {one.good}' for one in cut), *saved))} |"


def leave_one_out(courses: Sequence[Course], policies: Sequence[str]) -> Iterator[str]:
    """For each agent, the policy that the others choose, and what that does to this one.

    They choose the one that saves most of the steps of their bad sessions, among those that cut no more of their good
    ones than may be; if there is none, the one that cuts fewest.
    """
    yield "\n## Leave one agent out\n"
    yield "| agent | chosen by the others | their good cut | its good cut | saved of its bad | of its steps |"
    yield "|---|---|--:|--:|--:|--:|"
    rows = []
    for (agent, _), some in by_agent(courses, models=False).items():
        others = [course for course in courses if course.session.agent != agent]
        chosen = _choose(others, policies)
        rows.append((agent, chosen, Figures.of(others, chosen), Figures.of(some, chosen)))
    for agent, chosen, of_others, one in sorted(rows, key=lambda row: (row[3].allowed, -row[3].share)):
        saved = _percent(one.saved_of_bad, one.bad_steps), _percent(one.saved, one.steps)
        yield f"| {agent} | {chosen} | {_cut(of_others)} | {_cut(one)} | {' | '.join(saved)} |"


def _choose(courses: Sequence[Course], policies: Sequence[str]) -> str:
    def merit(name: str) -> tuple[bool, float, int]:
        figures = Figures.of(courses, name)
        fine = figures.share <= OVERALL and worst(courses, name)[1].allowed
        return fine, 0.0 if fine else -figures.share, figures.saved_of_bad

    return max(policies, key=merit)


def cases(courses: Iterable[Course], policy: str) -> Iterator[str]:
    """Each good session that the policy cuts."""
    yield f"\n## {policy}: good sessions cut\n"
    for course in courses:
        end = course.ends.get((policy, WHOLE))
        if end is not None and end.cut and course.session.good:
            name = f"{course.session.group}/{course.session.name}"
            yield f"{name}: {end.step} of {course.steps}, {end.by}, {end.brought}, {end.points} points"


def _cut(figures: Figures) -> str:
    return f"{figures.cut} of {figures.good}" + (f" ({100 * figures.share:.1f} %)" if figures.cut else "")


def _with_interval(figures: Figures) -> str:
    share = exact_interval(figures.cut, figures.good)
    if share is None:
        return "-"
    value, low, high = (f"{100 * one:.2f}" for one in (share.value, share.low, share.high))
    return f"{figures.cut} of {figures.good}, {value} % ({low} to {high})"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


# ---- why


def trail(session: LabelledSession) -> Iterator[str]:
    """Each step of a session as it is judged, with the points of the run after it."""
    yield f"\n## {session.group}/{session.name}: {session.agent}, {session.model}, good: {session.good}"
    facts, said = Facts(), list[str]()
    for event in judged_anew(session.events)[0]:
        if isinstance(event, RunStarted):
            yield f"--- a run: {_line(event.prompt or '', 300)}"
        facts = fold(facts, event)
        if isinstance(event, ResponseFinished):
            said = [f"    text: {_line(event.message.text, 300)}"] if not is_blank(event.message.text) else []
            said += [f"    {call.name} {_line(call.arguments, 300)}" for call in event.message.calls]
        elif isinstance(event, ToolCallResult):
            said.append(f"      -> {event.status}, {len(event.content)}: {_line(event.content, 300)}")
        elif isinstance(event, StepFinished):
            text = f", a text: {facts.text_kind}" if facts.text_kind else ""
            yield f"{facts.steps}. {facts.brought}: {facts.stalled} points{text}"
            yield from said


def _line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2]} … {line[-most // 2 :]}"


# ---- all together


def measure(sessions: Sequence[LabelledSession], policies: dict[str, dict[str, Policy]]) -> list[Course]:
    """Simulate all policies along all sessions, in a process for each core."""
    _WORK[:] = [lambda number: simulate(sessions[number], policies)]
    with get_context("fork").Pool() as pool:
        return pool.map(_simulate_number, range(len(sessions)), chunksize=20)


_WORK: list[Callable[[int], Course]] = []
"""What the forked processes are to do: sessions and policies need not be sent to them."""


def _simulate_number(number: int) -> Course:
    return _WORK[0](number)


def as_json(courses: Sequence[Course], policies: dict[str, dict[str, Policy]]) -> list[dict[str, Any]]:
    """All figures, and the good sessions that are cut."""
    return [
        {
            "policy": name,
            **_figures(courses, name, made),
            "agents": [
                {"agent": agent, "model": model, **_figures(some, name, made)}
                for (agent, model), some in by_agent(courses).items()
            ],
            "cut": [
                {"session": f"{one.session.group}/{one.session.name}", "steps": one.steps, **vars(end)}
                for one in courses
                if (end := one.ends.get((name, WHOLE))) is not None and end.cut and one.session.good
            ],
        }
        for name, made in policies.items()
    ]


def _figures(courses: Sequence[Course], policy: str, made: Iterable[str]) -> dict[str, Any]:
    alone = rules_alone(courses, policy, made)
    return {
        "whole": Figures.of(courses, policy).as_json(),
        "rules": {rule: Figures.of(courses, policy, *found).as_json() for rule, found in alone.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder with the sessions")
    parser.add_argument("--policy", action="append", default=[], metavar="[NAME=]POLICY", help="a policy to measure")
    parser.add_argument("--no-limit", action="store_true", help="leave the limit on steps out of every policy")
    parser.add_argument("--without", action="append", default=[], metavar="AGENT", help="leave this agent out")
    parser.add_argument("--leave-one-out", action="store_true", help="let the others choose a policy for each agent")
    parser.add_argument("--brief", action="store_true", help="only compare the policies side by side")
    parser.add_argument("--cases", action="store_true", help="list the good sessions that are cut")
    parser.add_argument("--why", action="append", default=[], metavar="NAME", help="show the steps of such sessions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into a file")
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()
    sessions = [one for one in read_sessions(chosen.data) if one.agent not in chosen.without]
    for one in sessions:
        if any(name in f"{one.group}/{one.name}" for name in chosen.why):
            print("\n".join(trail(one)))
    if chosen.why:
        return
    given = dict(named_policy(text) for text in chosen.policy) or shipped()
    if chosen.no_limit:
        given = {name: without_limit(policy) for name, policy in given.items()}
    policies = {name: variants(policy) for name, policy in given.items()}
    courses = measure(sessions, policies)
    print("\n".join(side_by_side(courses, policies)))
    if chosen.leave_one_out:
        print("\n".join(leave_one_out(courses, list(policies))))
    for name, made in policies.items() if not chosen.brief else ():
        print("\n".join((*agents_table(courses, name), *rules_table(courses, name, made))))
    for name in policies if chosen.cases else ():
        print("\n".join(cases(courses, name)))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(as_json(courses, policies), indent=1))
    say(f"{len(sessions)} sessions, {len(policies)} policies, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
