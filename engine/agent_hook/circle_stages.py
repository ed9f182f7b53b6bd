"""What is done about an agent that goes in a circle: it is told, then denied, then ended.

Noticed: the model is told, as context beside a result. Goes on, to where a run of ours would be stopped: a call that
continues the circle is denied, with what was tried. Goes on after that: the agent is ended where it can be, and else
the person is told, with the line that starts a proxy. A call that does something else is never denied, and once
something new has come of one, it all begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..decision import GoOn, Stop, ToolCall
from ..decision.call_effects import effect_of
from ..decision.outcome import STATUS_OF
from ..decision.repetition import call_mark_of
from ..decision.step_history import PROGRESS, StepKind
from ..follow.end_text import what_happened
from ..follow.follower import Follower
from .accepted_answers import HookAnswer, can
from .agent_session import Stage
from .payloads import Agent, HookEvent

NEW: frozenset[StepKind] = PROGRESS | {"acted", "answered", "same_call_news"}
"""Kinds of steps after which a circle has been left."""
NOTHING = HookAnswer()
_UPSTREAMS: Mapping[Agent, str] = {
    "claude": "https://api.anthropic.com",
    "codex": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
}


def after_step(event: HookEvent, follower: Follower, stage: Stage, circle: bool) -> tuple[Stage, HookAnswer]:
    """Return the stage after a step, and what the agent is answered.

    event: that of the agent which has ended the step. follower: has been told of the step, and has not decided on it.
    stage: that before the step. circle: whether one of the step's calls is among those that are repeated.

    A decision to go on is carried out. One that stops the run is not: the calls to come are denied, and the run goes on
    if they change. If the hook only watches (`speaks` of the follower is false), the answer is returned all the same,
    and nothing of it is recorded.
    """
    decision = follower.preview()
    if stage.why and follower.facts.brought in NEW and not circle:
        stage = Stage()
    if not (isinstance(decision, Stop) and STATUS_OF.get(decision.reason) == "exhausted"):
        decided = follower.decide()
        if stage.ended and circle:
            return stage, _end(follower, stage)
        if isinstance(decided, GoOn):
            return stage, HookAnswer(tell="\n\n".join(filter(None, (decided.say, decided.remind))))
        return stage, NOTHING
    if not stage.why:
        return Stage(why=what_happened(decision, follower), circle=_circle(decision, follower)), NOTHING
    if stage.denied and (stage.ended or not stage.circle):
        return _go_further(event, follower, stage)
    return stage, NOTHING


def before_call(event: HookEvent, call: ToolCall, follower: Follower, stage: Stage) -> tuple[Stage, HookAnswer]:
    """Return the stage after the agent has said which call it is about to make, and what it is answered."""
    if not stage.why or not _continues(call, stage):
        return stage, NOTHING
    if stage.denied and can(event.agent, "end", event.kind):
        return replace(stage, ended=True), HookAnswer(end=_end_text(stage))
    say = _message(event.agent, stage) if stage.denied and not stage.said else ""
    deny = " ".join(filter(None, (_denial(stage), say)))  # Codex and Qwen Code show messages in a terminal only
    if follower.speaks:
        follower.said(deny)
    return replace(stage, denied=stage.denied + 1, said=bool(say) or stage.said), HookAnswer(deny=deny, say=say)


def _go_further(event: HookEvent, follower: Follower, stage: Stage) -> tuple[Stage, HookAnswer]:
    """Return the end of an agent that went on after a denial, or what the person is told once if it has none."""
    if can(event.agent, "end", event.kind):
        return replace(stage, ended=True), _end(follower, stage)
    if stage.said:
        return stage, NOTHING
    return replace(stage, said=True), HookAnswer(say=_message(event.agent, stage))


def _end(follower: Follower, stage: Stage) -> HookAnswer:
    if follower.speaks:
        follower.end()
    return HookAnswer(end=_end_text(stage))


def _circle(decision: Stop, follower: Follower) -> tuple[int, ...]:
    """Return the marks of the calls that are repeated; empty if that is not what the run is stopped for."""
    facts, settings = follower.facts, follower.policy.repetition
    times = facts.repetitions.times(settings.longest_cycle, settings.by)
    if decision.reason != "stuck" or times < 2:
        return ()
    return tuple(sorted(frozenset[int]().union(*(step.marks for step in follower.recent.cycle(times)))))


def _continues(call: ToolCall, stage: Stage) -> bool:
    """Return whether a call goes on with the circle; where that is not known, the first one that changes nothing."""
    if stage.circle:
        return call_mark_of(call) in stage.circle
    return stage.denied == 0 and effect_of(call.name, call.arguments) != "changes"


def _denial(stage: Stage) -> str:
    first = "This call would go on with it" if stage.circle else "This call was not made"
    return (
        f"endstop denied this call: {stage.why}. {first}. Do something else: use what you know, try another way, or "
        "finish and say what is missing."
    )


def _end_text(stage: Stage) -> str:
    return f"endstop ended this run: {stage.why}, also after a denial. Say in a new prompt what to do differently."


def _message(agent: Agent, stage: Stage) -> str:
    upstream = _UPSTREAMS.get(agent, "URL")
    return (
        f"endstop: {stage.why}, and it goes on although it is denied. A hook cannot end this agent; interrupt it, or "
        f"put a proxy before it, which can: endstop proxy --upstream {upstream}"
    )
