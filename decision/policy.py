"""Policies: when a run continues, pauses and stops, as the user configured it.

A policy is data. Each record holds the run's whole policy with every default written out, so a later change of a
default does not change an old record. The docstring of a setting gives its range; `None` is written as "off" in a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from msgspec.structs import replace

from .compared_results import ComparedResult
from .errors import WrongUse, did_you_mean
from .limits import Limits, SessionLimits, require_at_least
from .messages import Name, Text
from .repetition import LONGEST_CYCLE, CompareBy
from .settings import Settings

REMEMBERED_POINTS = 8
"""Number of steps of which the facts remember the points."""

_Group = TypeVar("_Group", bound=Settings)


class Patience(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the model may retry after a bad response, in a row unless a setting says otherwise; 0: not at all.

    After that the run stops, with the stop reason that the setting names after "then".
    """

    section: ClassVar[str] = "patience."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {
        "empty_answers": 2,
        "unfinished": None,
        "announcements": None,
        "partial_reports": None,
        "result_echoes": None,
        "rejections_counted": "all",
    }

    empty_answers: int = 5
    """Responses with neither text nor calls; then `no_answer`."""
    truncated: int = 2
    """Responses cut off by the provider's own length limit; then `no_answer`."""
    refusals: int = 1
    """Responses ended by a content filter; then `refusal`."""
    unfinished: int | None = 1
    """Responses without calls whose finish word reports a failure, or is not in the table of finish words; then
    `provider_error`. None: their text counts as if they had ended normally."""
    invalid_calls: int = 3
    """Steps in which every call was invalid; then `invalid_calls`."""
    rejections: int = 3
    """Rejected completions; then `completion_rejected`."""
    rejections_counted: Literal["in_vain", "all"] = "in_vain"
    """Which rejections count: those in a row between which no step changed the work or brought news, or all of the
    run."""
    echoes: int = 2
    """Texts in a row that only repeat an instruction, or begin with one of `echo.announcements`; then `no_answer`."""
    announcements: int | None = 1
    """Texts in a row that only announce what comes next, in a run that called a tool, where a text would end the run;
    then `no_answer`. None: such a text is an answer."""
    partial_reports: int | None = 1
    """The same for texts that report one part of the work as done and another as left; then `no_answer`. None: such a
    text ends the run."""
    result_echoes: int | None = 1
    """The same for texts that only repeat the result of a tool; if the model says nothing more after that, the text
    ends the run. None: the first such text ends it."""
    questions: int = 2
    """Texts in a row that ask the user for something, with `question = "decide"`; then `awaiting_input`."""
    compactions: int = 2
    """Compactions in a row that left the context over its threshold; then `compaction_stalled`."""
    checks: int | None = 15
    """With `until`: changes in a row after which the check is no better than before; then `until_stalled`. None: any
    number."""
    checks_untold: int | None = 5
    """With `until`: changes in a row after which the check is no better and the model is told what it says, once, 1 or
    more; None: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            if name != "rejections_counted":
                require_at_least(f"patience.{name}", getattr(self, name), 1 if name == "checks_untold" else 0)


class Repetition(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when the model repeatedly makes the same calls or says the same text."""

    section: ClassVar[str] = "repetition."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {
        "longest_cycle": 4,
        "by": "calls_and_results",
        "results": "text",
        "same_text": None,
        "claims": None,
    }

    nudge_at: tuple[int, ...] = (3, 5)
    """Repetitions at which the model is told to try something else, each 2 or more."""
    stop_at: int | None = 6
    """Repetition at which the run stops as `stuck`, 2 to 16; None: never."""
    by: CompareBy = "calls_and_results"
    """Whether only calls with the same results count as the same, or all calls with the same arguments."""
    results: ComparedResult = "said"
    """What of a result is compared with earlier ones, here and for stagnation: what the tool said, without the words
    that an agent puts around it and the durations of a test runner (`said`), or its whole text (`text`). It is compared
    when it is recorded, so a backtest with another value changes nothing."""
    longest_cycle: int = LONGEST_CYCLE
    """Steps of the longest cycle that counts as repetition, 1 to 12; 1: only identical steps."""
    same_text: int | None = 6
    """Number of times that the model gives the same text, in steps without any call, after which the run stops as
    `stuck`, 2 or more; None: never. The text is the outcome's answer, marked as not accepted."""
    claims: int | None = 6
    """Steps in a row that report the work as done and go on with calls that change nothing, after which the run stops
    as `stuck`, 2 or more; None: never."""
    monologue: int | None = None
    """Steps in a row without any call after which the run stops as `stuck`, 2 or more; None: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for number in self.nudge_at:
            require_at_least("repetition.nudge_at", number, 2)
        require_at_least("repetition.stop_at", self.stop_at, 2)
        require_at_least("repetition.monologue", self.monologue, 2)
        require_at_least("repetition.same_text", self.same_text, 2)
        require_at_least("repetition.claims", self.claims, 2)
        if not 1 <= self.longest_cycle <= LONGEST_CYCLE:
            raise WrongUse(f"repetition.longest_cycle is {self.longest_cycle}: use 1 to {LONGEST_CYCLE}")
        if self.stop_at is not None and self.stop_at > 16:
            raise WrongUse(f"repetition.stop_at is {self.stop_at}: use 16 or less")


class Stagnation(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when steps make no progress: calls fail, results are known already, changes are repeated.

    Each such step adds 1 to 3 points, something new subtracts 2, and a change of the work resets them
    (`step_history.POINTS`). If `repetition.stop_at` is off, this never stops a run; if `repetition.nudge_at` is empty,
    the model is not told.
    """

    section: ClassVar[str] = "stagnation."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {
        "nudge_at": None,
        "stop_at": None,
        "same_results": None,
        "after_nudge": 0,
        "least_steps": 0,
    }

    nudge_at: int | None = 5
    """Points at which the model is told to try something else, 1 or more; None: never."""
    stop_at: int | None = 9
    """Points at which the run stops as `stuck`, 2 or more; None: never."""
    after_nudge: int = 2
    """Steps that a run may still make after its points reached `nudge_at`, 0 to 7, before it is stopped."""
    least_steps: int = 8
    """Steps before which no run is stopped, 0 or more, because a run looks around first."""
    same_results: int | None = 100
    """Steps in a row in which the same tools gave the same results, whatever their arguments were, after which the run
    stops as `stuck`, 2 or more; None: never. Changes by a foreign loop's tools, recognised by their names, do not
    count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("stagnation.nudge_at", self.nudge_at, 1)
        require_at_least("stagnation.stop_at", self.stop_at, 2)
        require_at_least("stagnation.least_steps", self.least_steps, 0)
        if not 0 <= self.after_nudge < REMEMBERED_POINTS:
            raise WrongUse(f"stagnation.after_nudge is {self.after_nudge}: use 0 to {REMEMBERED_POINTS - 1}")
        require_at_least("stagnation.same_results", self.same_results, 2)


class Degeneration(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to cut a streaming response that repeats itself.

    A new attempt is made; if that is cut as well, the run ends as `degenerate`. Text that changes a little with each
    repetition (a counter, a word) must be three times as long, a drawing of few different characters four times.
    """

    section: ClassVar[str] = "degeneration."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"text": None, "reasoning": None, "arguments": None}

    text: int | None = 4_000
    """Characters of repetition in the text at which it is cut, 1,000 or more; None: the text is not watched."""
    reasoning: int | None = 4_000
    """Characters of repetition in the reasoning at which it is cut, 1,000 or more; None: the reasoning is not
    watched."""
    arguments: int | None = 20_000
    """Characters of repetition in the arguments of one call at which they are cut, 1,000 or more; None: they are not
    watched. Higher than for text, because a file of zeros is a legitimate argument."""
    unwatched: tuple[str, ...] = ()
    """Names of the tools whose arguments are not watched."""
    periods: int = 20
    """Minimum number of repetitions, 3 or more, whatever the length of the repeated piece."""
    attempts: int = 1
    """New attempts per step after a response was cut; then `degenerate`. 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("text", "reasoning", "arguments"):
            require_at_least(f"degeneration.{name}", getattr(self, name), 1_000)
        require_at_least("degeneration.periods", self.periods, 3)
        require_at_least("degeneration.attempts", self.attempts, 0)

    @property
    def watches(self) -> bool:
        """Whether any part of a response is watched."""
        return (self.text, self.reasoning, self.arguments) != (None, None, None)


class Echo(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter for short texts that are not answers: they only echo an instruction, or only announce what comes next."""

    section: ClassVar[str] = "echo."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"beside": "nothing"}

    phrases: tuple[Text, ...] = (
        "I understand",
        "I will answer directly",
        "I will answer the question directly",
        "I will now answer",
        "好的，我明白了",
        "我明白了",
        "我会直接回答",
        "如果需要使用工具",
    )
    """A text with one of these and nothing of substance is an echo, in any language. Case, white space, punctuation and
    full-width forms do not count; simplified and traditional Chinese characters are the same."""
    beside: Literal["filler", "nothing", "anything"] = "filler"
    """What an echo may contain apart from the phrases: clauses without substance ("Okay, ...", "... and follow the
    rules"), nothing, or anything: then every short text with a phrase is an echo."""
    shorter_than: int = 100
    """Texts with fewer characters than this are checked; 0 switches the filter off."""
    announcements: tuple[Text, ...] = ()
    """A text after tool calls that begins with one of these ("I will now") is an announcement, not an answer. Off
    unless set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("echo.shorter_than", self.shorter_than, 0)


class Compaction(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how the context is compacted. Off unless the size of the window is set."""

    section: ClassVar[str] = "compaction."

    window: int | None = None
    """Size of the model's context window, in tokens, 1 or more."""
    threshold: float = 0.8
    """Share of the window, above 0 and at most 1, at which the context is compacted."""
    strategies: tuple[Literal["shorten_results", "summarise", "drop_oldest"], ...] = ("shorten_results", "drop_oldest")
    """Tried in this order, until the context is below the threshold."""
    keep_results: int = 4
    """Number of latest tool results that are kept whole; older ones are shortened."""
    keep_messages: int = 8
    """For the other two strategies: number of latest messages that are never changed, 1 or more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("compaction.window", self.window, 1)
        require_at_least("compaction.keep_results", self.keep_results, 0)
        require_at_least("compaction.keep_messages", self.keep_messages, 1)
        if not 0 < self.threshold <= 1:
            raise WrongUse(f"compaction.threshold is {self.threshold}: use a share above 0 and at most 1")


class Deadlines(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds, above 0, that the user's own functions and the loop's extra requests may take."""

    section: ClassVar[str] = "deadlines."

    gate: float = 120.0
    """One gate, per completion."""
    approval: float = 10.0
    """The function that says whether a call needs approval, per call; if it does not answer in time, the user is
    asked."""
    handler: float = 60.0
    """One intent handler, before the first request."""
    text_rule: float = 10.0
    """The user's text rule, per response."""
    system: float = 30.0
    """The user's function for the system prompt, per step."""
    judge: float = 60.0
    """The judge, per round."""
    compactor: float = 120.0
    """The user's compactor, or the model's summary, per compaction."""
    closing: float = 60.0
    """The closing step, regardless of the run's own limit on time."""
    evaluation: float = 600.0
    """The evaluator, at the end of a run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise WrongUse(f"deadlines.{name} is {getattr(self, name)}: use seconds above 0")


class Prompts(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Texts of the loop: to the model, in the user's role, and to the user. No prompt to the model names a tool."""

    section: ClassVar[str] = "prompts."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"announcement": ""}

    empty: Text = "Your last response was empty. Go on with the task, or give your final answer."
    """After a response without text and calls."""
    truncated: Text = "Your last response was cut off by the length limit. Go on in smaller pieces."
    """After a response that the length limit cut off."""
    refused: Text = "The last response was blocked by a content filter. Go on in a way that avoids it."
    """After a response that a content filter blocked."""
    unfinished: Text = "Your last response ended before it was whole. Go on with the task, or give your final answer."
    """After a response whose finish word is not a success."""
    paused: Text = "Go on."
    """After a response that the provider paused."""
    echo: Text = "That is no answer yet. Answer the question, or go on with the task."
    """After a text that only echoes or announces."""
    announcement: Text = "You said what you will do, but made no call, so nothing has happened. Make the call now."
    """After a text that only announces what comes next, if `patience.announcements` allows it; empty: `echo`."""
    partial: Text = (
        "You report that a part of the work is still to be done. Go on with it now. If nothing is left for you to do, "
        "give your final answer."
    )
    """After a report of unfinished work, if `patience.partial_reports` allows it."""
    result_echo: Text = (
        "You only repeated what a tool returned. Go on with the task, or give your final answer and say what it means."
    )
    """After a text that only repeats a tool's result, if `patience.result_echoes` allows it."""
    decide: Text = (
        "Nobody is there to answer. Decide yourself, as fits the task best, and go on; say in your final answer what "
        "you decided. If you cannot go on without an answer, say what is missing."
    )
    """After a text that asks the user for something, with `question = "decide"`."""
    repetition: Text = (
        "You have made the same calls with the same results {count} times. Do something else: use what you know, "
        "try another way, or finish and say what is missing."
    )
    """At the repetitions of `repetition.nudge_at`; `{count}` is filled in."""
    stagnation: Text = (
        "Your last steps brought nothing new: calls failed, or returned what you know already. Take another way, or "
        "finish and say what is missing."
    )
    """At the points of `stagnation.nudge_at`."""
    check: Text = (
        "`{check}` has been run after each of your last {count} changes and is no better than before. It says:\n"
        "{detail}\nTry another way. If the task cannot be done, say so with the reason and what you tried."
    )
    """With `until`, after `patience.checks_untold` changes without progress; `{check}`, `{count}` and `{detail}` are
    filled in."""
    reminder: Text = (
        "You have used {used} of {allowed} {name}. Judge whether the task is complete. If it is, finish and report the "
        "result. If it is not, say why and what is missing, and go on with that."
    )
    """Near a limit; `{used}`, `{allowed}` and `{name}` are filled in."""
    next_step: Text = ""
    """Sent once after each of the user's prompts, unless it already is the latest user message, compared without white
    space at both ends. Off if empty."""
    closing: Text = (
        "The run ends here and no tool can be used any more. Tell the user in a few sentences what was done, "
        "what is missing, and how to go on."
    )
    """The closing step's request."""
    summarise: Text = (
        "Sum up the conversation so far for somebody who must go on with the work: the task, what was done and "
        "found, which files and values matter, what is left. Nothing else."
    )
    """The request for a summary in a compaction."""
    text_is_no_end: Text = (
        "Text alone does not end this task. If the work is done, say so with the completion tool; if it is not, go on."
    )
    """After text that does not end the run."""
    confirm: Text = "{answer}\nDo you confirm that the task is done?"
    """To the user: whether a completion counts, if its tool wants a confirmation; `{answer}` is filled in."""
    approve: Text = "May {name} run with {arguments}?"
    """To the user: whether a call that needs an approval may run; `{name}` and `{arguments}` are filled in."""
    extend: Text = "{used} of {allowed} steps are used. May the run make {by} more?"
    """To the user, with `limits.extend.when = "ask"`: whether the run may continue at its limit of steps; `{used}`,
    `{allowed}` and `{by}` are filled in."""
    unclear: Text = "That was neither a yes nor a no."
    """To the user: said before the question is asked again, after a reply to one of these three that is neither a yes
    nor a no."""
    interrupted: Text = (
        "The process died while {name} was running with {arguments}\n"
        "Whether it has taken effect is not known. What shall stand as its result?"
    )
    """To the user, with `interrupted_calls = "ask"`: what a call did that was running when the process died; `{name}`
    and `{arguments}` are filled in."""


def fill_in(prompt: str, **values: str) -> str:
    """Return a prompt with these values in place of their names in braces; other braces stay unchanged."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), prompt)


class Policy(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run continues, pauses and stops. `Policy()` is the shipped policy `agent`.

        Engine(provider, policy=Policy(limits=Limits(steps=20, cost_usd=1.0)))

    limits, session_limits: what a run, and all runs of a session, may use.
    completion, after_question, mixed, text: how a run ends and pauses, by calls and by text alone.
    patience, repetition, stagnation, degeneration: how much of a fault is borne before the run ends.
    compaction: when and how the context is shortened. prompts: what the model is told on the way.

    `replace(...)` returns a copy with other settings. All of them are in docs/reference/policies.md.
    """

    legacy_defaults: ClassVar[Mapping[str, Any]] = {
        "response_tokens": None,
        "closing_tokens": None,
        "closing_after": "limits",
        "required_text": "as_text",
        "flag_cost_usd": None,
        "after_question": "run",
    }

    name: Name = "agent"
    """The policy's name in records and reports; by default the name of its file."""
    limits: Limits = Limits()
    """What a run may use."""
    session_limits: SessionLimits = SessionLimits()
    """What all runs of a session may use together."""
    reminder: float | None = 5 / 6
    """Share of a hard limit, above 0 and below 1, at which the model is reminded of it, once; None: never."""
    flag_cost_usd: float | None = 5.0
    """US dollars, above 0, at which a run is flagged, the model reminded and a line logged; it does not end a run. A
    soft limit for runs whose cost is known and whose `limits` do not bound the cost. None: off."""
    closing: bool = True
    """When a run is exhausted, ask the model for a closing summary, without tools. Not counted as a step."""
    closing_after: Literal["exhausted", "limits"] = "exhausted"
    """After which endings to ask for the closing summary: every exhausted one, or only a limit."""
    closing_tokens: int | None = 4_000
    """Maximum output tokens of the closing step, 1 or more; None: no limit."""
    response_tokens: int | None = 200_000
    """Maximum output tokens of one response, 1 or more; a longer one counts as cut off by its length. Estimated at 4
    bytes of text per token until the provider reports its count. None: no limit."""
    text: Literal["final", "nudge"] = "final"
    """`final`: a plain answer ends the run. `nudge`: it does not, and the model is told so."""
    required_text: Literal["nudge", "as_text"] = "nudge"
    """A plain answer under `tool_choice="required"`, if a completion tool is offered: `nudge` tells the model that text
    does not end the task; `as_text` applies the setting `text`."""
    question: Literal["as_text", "ask", "decide"] = "as_text"
    """A text that asks the user for something: `as_text` applies the setting `text`; `ask` ends the run as
    `awaiting_input`, and the session's next prompt is the reply; `decide`, for unattended runs, tells the model to
    decide itself and go on, `patience.questions` times in a row, and then does the same as `ask`."""
    completion: Literal["offered", "required", "none"] = "offered"
    """`required`: a run without a completion tool is refused at the start. `none`: no completion tool is offered."""
    mixed: Literal["before", "all", "none"] = "before"
    """Which calls of a response run along with a completion: those before it, all, or none. With `all` the response is
    not cut; once the completion is accepted, running calls are cancelled and no other call starts."""
    after_question: Literal["skip", "run"] = "skip"
    """What happens to calls that may write and follow a question to the user in the same response: `skip` answers them
    as not run, `run` runs them before the run pauses. Calls that only read run in both cases."""
    max_inner_steps: int = 10
    """Steps of the inner loop before the outer loop decides, 1 or more."""
    inner_cancel: bool = True
    """Cut the stream at a completion call, and cancel everything in flight once it is accepted."""
    drain_seconds: float | None = None
    """Seconds, 0 or more, to keep reading after a cut to measure what the response cost. None: close and estimate."""
    reject_after_failure: bool = True
    """Reject a completion if a call before it in the same response failed."""
    interrupted_calls: Literal["unknown", "ask"] = "unknown"
    """What to do about a writing call that was running when the process died and that no check can settle: `unknown`
    tells the model that its effect is not known, `ask` asks the user for its result."""
    approval_seconds: float | None = None
    """Seconds, above 0, in which the user must approve a call; after that it counts as denied. None: no limit."""
    patience: Patience = Patience()
    """How often the model may retry."""
    repetition: Repetition = Repetition()
    """What happens on repeated calls."""
    stagnation: Stagnation = Stagnation()
    """What happens while steps bring nothing new."""
    degeneration: Degeneration = Degeneration()
    """When to cut a response that repeats itself."""
    echo: Echo = Echo()
    """Filter for short texts that are not answers."""
    compaction: Compaction = Compaction()
    """When and how the context is compacted."""
    deadlines: Deadlines = Deadlines()
    """Timeouts in seconds."""
    prompts: Prompts = Prompts()
    """What the loop sends to the model."""
    rules: tuple[str, ...] = ("compaction", "control_flow", "finish_reason", "message_shape", "go_on")
    """Names of the rules, in order of priority; the user's own rules by their `Rule.name`."""
    guards: tuple[str, ...] = (
        "judged",
        "invalid_calls",
        "stuck",
        "stagnation",
        "compaction_stalled",
        "step_limit",
        "tool_call_limit",
        "token_limit",
        "cost_limit",
        "time_limit",
        "repetition",
        "no_progress",
        "reminder",
    )
    """Names of the guards, in order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("max_inner_steps", self.max_inner_steps, 1)
        require_at_least("response_tokens", self.response_tokens, 1)
        require_at_least("closing_tokens", self.closing_tokens, 1)
        require_at_least("drain_seconds", self.drain_seconds, 0)
        if self.approval_seconds is not None and self.approval_seconds <= 0:
            raise WrongUse(f"approval_seconds is {self.approval_seconds}: use seconds above 0, or None for no limit")
        if self.reminder is not None and not 0 < self.reminder < 1:
            raise WrongUse(f"reminder is {self.reminder}: use a share above 0 and below 1")
        if self.flag_cost_usd is not None and self.flag_cost_usd <= 0:
            raise WrongUse(f"flag_cost_usd is {self.flag_cost_usd}: use US dollars above 0, or None for off")
        if self.text == "nudge" and self.completion == "none":
            raise WrongUse("text = 'nudge' with completion = 'none' can never end: change one of the two")


POLICIES: dict[str, Policy] = {
    "chat": Policy(
        name="chat",
        limits=Limits(extend=None),
        completion="none",
        closing=False,
        patience=Patience(announcements=None, partial_reports=None, result_echoes=None),
    ),
    "agent": Policy(),
    "strict": Policy(name="strict", text="nudge", completion="required"),
}
"""The shipped policies, by name. With `chat` a plain text ends the run, and no completion tool is offered; with `agent`
a text or an accepted completion ends it; with `strict` only an accepted completion does."""


def shipped_policy(name: str) -> Policy:
    """Return the shipped policy of this name. Raises WrongUse for an unknown name."""
    if name not in POLICIES:
        raise WrongUse(f"unknown policy {name!r}{did_you_mean(name, POLICIES)}: use one of {', '.join(POLICIES)}")
    return POLICIES[name]


NEWER_GUARDS = frozenset({"stagnation", "no_progress"})
"""Guards that records of older versions do not name."""


def for_recorded_run(policy: Policy, recorded: Policy) -> Policy:
    """Return the policy with which a recorded run continues: `policy`, with the older defaults it began under.

    If `policy` has today's default of a setting that means something else in a record that does not name it, and the
    record has that older meaning, the run keeps it.
    """
    kept = _with_recorded_defaults(policy, recorded)
    older = set(policy.guards) - set(recorded.guards) == NEWER_GUARDS
    return replace(kept, guards=recorded.guards) if older else kept


def _with_recorded_defaults(group: _Group, recorded: _Group) -> _Group:
    default, changes = type(group)(), {}
    for name in group.__struct_fields__:
        own, then = getattr(group, name), getattr(recorded, name)
        if isinstance(own, Settings) and isinstance(then, Settings):
            changes[name] = _with_recorded_defaults(own, then)
        elif name in group.legacy_defaults and own == getattr(default, name) and then == group.legacy_defaults[name]:
            changes[name] = then
    return replace(group, **changes)
