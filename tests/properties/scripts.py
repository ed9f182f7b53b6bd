"""Random model behaviour and random policies, for the property tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import anyio
from endstop import Completion, Continue, Engine, Tool, tool
from endstop.decision import Compaction, FinishReport, Limits, Patience, Policy, Prompts, ReasoningDelta, ToolCallDelta
from endstop.decision.limits import SessionLimits
from endstop.decision.policy import Echo, Repetition
from endstop.hooks import Accept, Progress, Reject
from endstop.providers import Chaos, Interrupted, RateLimited, Scripted, Unavailable, call, say
from endstop.tools import ask_user, finish_task, task_done, think
from hypothesis import strategies as st

from ..engine_options import grouped

WORDS = ["", " ", "Done.", "I look into it", "äöü 漢字", "{}"]
IDS = [None, None, None, "", "same", "c1"]


class Options:
    """What `make` gives for one value of each option, at most 256 values each; an option may have options itself."""

    def __init__(self, make: Callable[..., Any], **options: Sequence[Any] | Options) -> None:
        self._make = make
        self._options = options
        self.count: int = sum(one.count if isinstance(one, Options) else 1 for one in options.values())

    def drawn(self) -> st.SearchStrategy[Any]:
        """One draw for 4 options: Hypothesis takes longer for a draw than the engine for an event.

        All draws have one size, so that Hypothesis can put what it drew for one in the place of another.
        """
        four = st.binary(min_size=4, max_size=4)
        return st.tuples(*[four] * -(-self.count // 4)).map(lambda drawn: self.chosen(chain.from_iterable(drawn)))

    def chosen(self, drawn: Iterator[int]) -> Any:
        """A byte for each option; zeros give the first values, the simplest."""
        given = {}
        for name, values in self._options.items():
            given[name] = values.chosen(drawn) if isinstance(values, Options) else values[next(drawn) % len(values)]
        return self._make(**given)


def _call(tool: str, **arguments: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return Options(partial(call, tool), id=IDS, pieces=range(1, 5), **arguments).drawn()


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
_broken = Options(
    lambda **given: [ToolCallDelta(**given)],
    index=range(HANDMADE, HANDMADE + 4),
    id=["", "x"],
    name=["look", "change", "finish_task", "", "nobody"],
    arguments=ARGUMENTS + PIECES,
).drawn()

CALLS = st.one_of(
    _call("look", path=WORDS),
    _call("change", path=WORDS),
    _call("fail", path=WORDS),
    _call("think", thought=WORDS),
    _call("ask_user", question=WORDS),
    _call("finish_task", summary=WORDS),
    _call("submit", report=["good", "continue", "bad", "crash"]),
    _call("task_done", summary=WORDS, completion_percentage=[30, 100]),
    _broken,
)
PARTS = st.one_of(
    Options(say, text=WORDS, pieces=range(1, 4)).drawn(),
    Options(lambda text: [ReasoningDelta(text)], text=WORDS).drawn(),
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


def _maybe(values: Sequence[Any]) -> list[Any]:
    """None in two of three."""
    return [None] * 2 * len(values) + list(values)


_limits = Options(
    lambda soft, **hard: Limits(**hard, soft_steps=min(soft, hard["steps"]) if soft else None),
    soft=_maybe(range(1, 7)),
    steps=range(1, 7),
    rounds=_maybe(range(1, 5)),
    tool_calls=_maybe(range(1, 9)),
    input_tokens=_maybe(range(1, 61)),
    output_tokens=_maybe(range(1, 61)),
)
POLICIES = Options(
    Policy,
    reminder=[None, 0.5, 5 / 6],
    closing=[False, True],
    text=["final", "nudge"],
    mixed=["before", "all", "none"],
    max_inner_steps=range(1, 5),
    inner_cancel=[False, True],
    reject_after_failure=[False, True],
    limits=_limits,
    session_limits=Options(SessionLimits, steps=_maybe(range(1, 7))),
    patience=Options(
        Patience,
        empty_answers=range(3),
        truncated=range(3),
        refusals=range(3),
        invalid_calls=range(3),
        rejections=range(3),
        echoes=range(3),
        compactions=range(3),
    ),
    repetition=Options(
        Repetition,
        nudge_at=[(), (2,), (2, 3)],
        stop_at=[None, 2, 3, 6],
        monologue=_maybe(range(2, 5)),
    ),
    echo=Options(
        Echo,
        phrases=[(), ("done",), ("äöü", "漢字")],
        shorter_than=[0, 100],
        announcements=[(), ("I look",)],
    ),
    compaction=Options(
        Compaction,
        window=_maybe([5, 15, 40]),
        strategies=[(), ("shorten_results",), ("drop_oldest", "shorten_results")],
        keep_results=range(3),
        keep_messages=range(1, 5),
    ),
    prompts=Options(Prompts, next_step=["", "What is next?"]),
).drawn()

FAULTS = Options(
    dict,
    **{name: [0.0, 0.0, 0.0, 0.0, 0.2] for name in ("refuse", "fail", "cut", "lie", "shred", "bad_ids", "empty")},
).drawn()


def picky(completion: Completion, run: Progress) -> Accept | Reject:
    """A gate that takes no blank answer, and breaks at some."""
    if completion.answer == "{}":
        raise ValueError("the gate is broken")
    return Accept() if completion.answer.strip() else Reject("blank")


async def braces(text: str, calls: Any) -> bool | None:
    """A text rule that takes braces for an answer. It is async and needs no thread, as the gate above does."""
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
