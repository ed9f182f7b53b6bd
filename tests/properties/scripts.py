"""Random model behaviour and random policies, for the property tests."""

from __future__ import annotations

from typing import Any

import anyio
from endstop import Completion, Continue, Engine, Tool, tool
from endstop.decision import Compaction, FinishReport, Limits, Patience, Policy, Prompts, ReasoningDelta, ToolCallDelta
from endstop.decision.limits import Extend, SessionLimits
from endstop.decision.policy import Echo, Repetition
from endstop.hooks import Accept, Progress, Reject
from endstop.providers import Chaos, Interrupted, RateLimited, Scripted, Unavailable, call, say
from endstop.tools import ask_user, finish_task, task_done, think
from hypothesis import strategies as st
from msgspec.structs import replace

from ..engine_options import grouped

WORDS = st.sampled_from(["", " ", "Done.", "I look into it", "äöü 漢字", "{}"])
IDS = st.sampled_from([None, None, None, "", "same", "c1"])


def _call(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.builds(
        lambda call_id, pieces, given: call(name, id=call_id, pieces=pieces, **given),
        IDS,
        st.integers(1, 4),
        st.fixed_dictionaries(arguments),
    )


ARGUMENTS = [
    "",
    "{}",
    "{",
    "[]",
    "null",
    '{"path": 3}',
    '{"other": "x"}',
    "}{",
    '{"path":"a"} x',
    '{"summary":"a"}',
    "x",
]
PIECES = ['{"path":', '"a"}', '{"path":"a"}', '{"path":"a"}{"pa', 'th":"a"}', '{"path":"a"}{"path":"a"}']

HANDMADE = 100
"""The lowest index of calls whose pieces stand in a script as the provider sends them."""
_broken = st.builds(
    lambda index, call_id, name, text: [ToolCallDelta(index, call_id, name, text)],
    st.integers(HANDMADE, HANDMADE + 3),
    st.sampled_from(["", "x"]),
    st.sampled_from(["look", "change", "finish_task", "", "nobody"]),
    st.sampled_from(ARGUMENTS + PIECES),
)

CALLS = st.one_of(
    _call("look", path=WORDS),
    _call("change", path=WORDS),
    _call("fail", path=WORDS),
    _call("think", thought=WORDS),
    _call("ask_user", question=WORDS),
    _call("finish_task", summary=WORDS),
    _call("submit", report=st.sampled_from(["good", "continue", "bad", "crash"])),
    _call("task_done", summary=WORDS, completion_percentage=st.sampled_from([30, 100])),
    _broken,
)
PARTS = st.one_of(
    st.builds(say, WORDS, st.integers(1, 3)),
    st.builds(lambda text: [ReasoningDelta(text)], WORDS),
    CALLS,
    CALLS,
    st.sampled_from(
        [
            FinishReport("stop", "stop"),
            FinishReport("tool_calls", "tool_calls"),
            FinishReport("length", "length"),
            FinishReport("content_filter", "content_filter"),
            FinishReport("other", "pause_turn"),
            FinishReport("error", "error"),
        ]
    ),
    st.sampled_from([RateLimited("slow down"), Unavailable("overloaded"), Interrupted("cut")]),
)
STEPS = st.one_of(
    st.lists(CALLS, min_size=1, max_size=4),
    st.lists(PARTS, max_size=5),
    st.lists(_broken, min_size=2, max_size=6),  # pieces for the same calls, also after they were whole
)
SCRIPTS = st.lists(STEPS, min_size=1, max_size=8).map(lambda script: [*script, *[[say("The end.")]] * 8])


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.none(), strategy)


LIMITS = st.builds(
    lambda soft, **hard: Limits(**hard, soft_steps=min(soft, hard["steps"]) if soft else None),
    soft=_maybe(st.integers(1, 6)),
    steps=st.integers(1, 6),
    rounds=_maybe(st.integers(1, 4)),
    tool_calls=_maybe(st.integers(1, 8)),
    input_tokens=_maybe(st.integers(1, 60)),
    output_tokens=_maybe(st.integers(1, 60)),
)
POLICIES = st.builds(
    Policy,
    limits=LIMITS,
    session_limits=st.builds(SessionLimits, steps=_maybe(st.integers(1, 6))),
    reminder=st.sampled_from([None, 0.5, 5 / 6]),
    closing=st.booleans(),
    text=st.sampled_from(["final", "nudge"]),
    mixed=st.sampled_from(["before", "all", "none"]),
    max_inner_steps=st.integers(1, 4),
    inner_cancel=st.booleans(),
    reject_after_failure=st.booleans(),
    patience=st.builds(
        Patience,
        empty_answers=st.integers(0, 2),
        truncated=st.integers(0, 2),
        refusals=st.integers(0, 2),
        invalid_calls=st.integers(0, 2),
        rejections=st.integers(0, 2),
        echoes=st.integers(0, 2),
        compactions=st.integers(0, 2),
    ),
    repetition=st.builds(
        Repetition,
        nudge_at=st.sampled_from([(), (2,), (2, 3)]),
        stop_at=st.sampled_from([None, 2, 3, 6]),
        monologue=_maybe(st.integers(2, 4)),
    ),
    echo=st.builds(
        Echo,
        phrases=st.sampled_from([(), ("done",), ("äöü", "漢字")]),
        shorter_than=st.sampled_from([0, 100]),
        announcements=st.sampled_from([(), ("I look",)]),
    ),
    compaction=st.builds(
        Compaction,
        window=_maybe(st.sampled_from([5, 15, 40])),
        strategies=st.sampled_from([(), ("shorten_results",), ("drop_oldest", "shorten_results")]),
        keep_results=st.integers(0, 2),
        keep_messages=st.integers(1, 4),
    ),
    prompts=st.builds(Prompts, next_step=st.sampled_from(["", "What is next?"])),
)


def with_extend(policy: Policy, extend: Extend | None) -> Policy:
    """The policy with this instead of its own `limits.extend`."""
    return replace(policy, limits=replace(policy.limits, extend=extend))


EXTENSIONS = st.sampled_from([Extend(by=1, most=2), Extend(by=3), Extend(by=2, when="ask")])
EXTENDED = st.builds(with_extend, POLICIES, EXTENSIONS)
"""Policies whose limit of steps is extended."""

FAULTS = st.fixed_dictionaries(
    {
        name: st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.2])
        for name in ("refuse", "fail", "cut", "lie", "shred", "bad_ids", "empty")
    }
)


def picky(completion: Completion, run: Progress) -> Accept | Reject:
    """A gate that rejects a blank answer, and raises ValueError at the answer `{}`."""
    if completion.answer == "{}":
        raise ValueError("the gate is broken")
    return Accept() if completion.answer.strip() else Reject("blank")


def braces(text: str, calls: Any) -> bool | None:
    """A text rule, as users write them: a response with the text `{}` ends the run. It leaves others to the policy."""
    return True if text == "{}" else None


async def _look(path: str) -> str:
    for _ in range(len(path) % 3):
        await anyio.lowlevel.checkpoint()
    return path


async def _change(path: str) -> str:
    return path


async def _fail(path: str) -> str:
    raise ValueError(path)


@tool(kind="completion")
async def submit(report: str) -> Any:
    """Hand in the report."""
    if report == "crash":
        raise RuntimeError("handler")
    return Continue("bad") if report == "bad" else report if report == "continue" else Completion(answer=report)


TOOLS = (
    Tool(_look, name="look", description="Look.", reads=True),
    Tool(_change, name="change", description="Change."),
    Tool(_fail, name="fail", description="Fail."),
    submit,
    finish_task,
    task_done,
    ask_user,
    think,
)
"""Made once: what a tool knows is the same for every engine, and to make one takes longer than a step."""


class World:
    """An engine that uses these tools."""

    def __init__(self, script: Any, policy: Policy, faults: dict[str, float] | None = None, **options: Any) -> None:
        self.engine = Engine(
            Chaos(Scripted(*script), seed=7, **(faults or {})),
            tools=TOOLS,
            policy=policy,
            presets=(),
            **grouped(gates=[picky], text_rule=braces, **options),
        )
