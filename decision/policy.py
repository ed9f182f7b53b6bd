"""What the user chose: limits, what ends a run, and how much patience the loop has.

A policy is data. Its whole content, with every default written out, stands in each run's record, so that a later
change of a default changes no old record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from .errors import WrongUse
from .limits import Limits, SessionLimits, require_at_least
from .settings import Settings


class Patience(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often in a row something is handed back to the model before the run stops. 0: never, stop at once."""

    section: ClassVar[str] = "patience."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"unfinished": None}

    empty_answers: int = 2
    """Responses without text and calls; then `no_answer`."""
    truncated: int = 2
    """Responses cut off by the provider's own length limit; then `no_answer`."""
    refusals: int = 1
    """Responses ended by a content filter; then `refusal`."""
    unfinished: int | None = 1
    """Responses without calls whose finish word says that something went wrong, or is not in the table of finish
    words; then `provider_error`. None: their text is taken as if they had ended well."""
    invalid_calls: int = 3
    """Steps in which every call was invalid; then `invalid_calls`."""
    rejections: int = 3
    """Completions handed back, over the whole run; then `completion_rejected`."""
    echoes: int = 2
    """Texts in a row that only echo an instruction or announce what comes; then `no_answer`."""
    compactions: int = 2
    """Compactions in a row that left the context over its threshold; then `compaction_stalled`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            require_at_least(f"patience.{name}", getattr(self, name), 0)


class Repetition(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done about the same calls with the same results, also in cycles of up to 4 steps."""

    section: ClassVar[str] = "repetition."

    nudge_at: tuple[int, ...] = (3, 5)
    """At these repetitions the model is told so, each 2 or more."""
    stop_at: int | None = 6
    """At this repetition the run stops as `stuck`, 2 to 16; None: never."""
    monologue: int | None = None
    """Steps in a row without any call after which the run stops as `stuck`, 2 or more; None: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for number in self.nudge_at:
            require_at_least("repetition.nudge_at", number, 2)
        require_at_least("repetition.stop_at", self.stop_at, 2)
        require_at_least("repetition.monologue", self.monologue, 2)
        if self.stop_at is not None and self.stop_at > 16:
            raise WrongUse(f"repetition.stop_at is {self.stop_at}: use 16 or less")


class Degeneration(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a response that repeats itself is cut while it streams.

    A new attempt is made; if that is cut, too, the run ends as `degenerate`. What changes a little each time (a
    counter, a word) has to go on three times as long, a drawing of few different characters four times.
    """

    section: ClassVar[str] = "degeneration."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"text": None, "reasoning": None, "arguments": None}

    text: int | None = 4_000
    """Characters of repetition in the text at which it is cut, 1,000 or more; None: the text is not watched."""
    reasoning: int | None = 4_000
    """The same for the reasoning."""
    arguments: int | None = 20_000
    """The same for the arguments of each call. More, since a file of zeros is a legitimate argument."""
    unwatched: tuple[str, ...] = ()
    """Tools whose arguments are not watched, by name."""
    periods: int = 20
    """How often a piece has to come at least, 3 or more, whatever its length."""
    attempts: int = 1
    """New attempts at a response that was cut, for each step; then `degenerate`. 0: none."""

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
    """Short texts that are no answer: they only echo an instruction, or only announce what comes."""

    section: ClassVar[str] = "echo."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"beside": "nothing"}

    phrases: tuple[str, ...] = (
        "I understand",
        "I will answer directly",
        "I will answer the question directly",
        "I will now answer",
        "好的，我明白了",
        "我明白了",
        "我会直接回答",
        "如果需要使用工具",
    )
    """A text that contains one of these and nothing of substance is an echo. Any language; case, spaces, punctuation
    and full width do not count."""
    beside: Literal["filler", "nothing"] = "filler"
    """What may stand beside the phrases in an echo: words that say nothing ("Okay, ...", "... your question", 谢谢), or
    nothing; a phrase then begins and ends where a word does, also in languages that write no spaces."""
    shorter_than: int = 100
    """Only texts of fewer characters are looked at; 0 switches the filter off."""
    announcements: tuple[str, ...] = ()
    """A text that begins with one of these, after tool calls, announces and does not answer ("I will now"). Off
    unless set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("echo.shorter_than", self.shorter_than, 0)


class Compaction(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how the context is made smaller (P0). Off unless the window's size is known."""

    section: ClassVar[str] = "compaction."

    window: int | None = None
    """Size of the model's context window, in tokens, 1 or more."""
    threshold: float = 0.8
    """Share of the window, above 0 and at most 1, at which the context is compacted."""
    strategies: tuple[Literal["shorten_results", "summarise", "drop_oldest"], ...] = ("shorten_results", "drop_oldest")
    """Tried in this order, until the context is below the threshold."""
    keep_results: int = 4
    """The latest tool results that stay whole; older ones are shortened."""
    keep_messages: int = 8
    """For the other two strategies: the latest messages that are never touched, 1 or more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("compaction.window", self.window, 1)
        require_at_least("compaction.keep_results", self.keep_results, 0)
        require_at_least("compaction.keep_messages", self.keep_messages, 1)
        if not 0 < self.threshold <= 1:
            raise WrongUse(f"compaction.threshold is {self.threshold}: use a share above 0 and at most 1")


class Deadlines(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds, above 0, that what is not ours may take."""

    section: ClassVar[str] = "deadlines."

    gate: float = 120.0
    """One gate, per completion."""
    handler: float = 60.0
    """One intent handler, before the first request."""
    text_rule: float = 10.0
    """The user's text rule, per response."""
    judge: float = 60.0
    """The judge, per round."""
    compactor: float = 120.0
    """The model's summary in a compaction."""
    closing: float = 60.0
    """The closing step, whatever limit on time the run has."""
    evaluation: float = 600.0
    """The evaluator, at the end of a run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise WrongUse(f"deadlines.{name} is {getattr(self, name)}: use seconds above 0")


class Prompts(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the loop says to the model, in the user's role. No prompt names a tool."""

    section: ClassVar[str] = "prompts."

    empty: str = "Your last response was empty. Go on with the task, or give your final answer."
    """After a response without text and calls."""
    truncated: str = "Your last response was cut off by the length limit. Go on in smaller pieces."
    """After a response that the length limit cut off."""
    refused: str = "The last response was blocked by a content filter. Go on in a way that avoids it."
    """After a response that a content filter blocked."""
    unfinished: str = "Your last response ended before it was whole. Go on with the task, or give your final answer."
    """After a response whose finish word is no success."""
    paused: str = "Go on."
    """After a response that the provider paused."""
    echo: str = "That is no answer yet. Answer the question, or go on with the task."
    """After a text that only echoes or announces."""
    repetition: str = (
        "You have made the same calls with the same results {count} times. Do something else: use what you know, "
        "try another way, or finish and say what is missing."
    )
    """At the repetitions of `repetition.nudge_at`; `{count}` is filled in."""
    reminder: str = (
        "You have used {used} of {allowed} {name}. Judge whether the task is complete. If it is, finish and report the "
        "result. If it is not, say why and what is missing, and go on with that."
    )
    """Near a limit; `{used}`, `{allowed}` and `{name}` are filled in."""
    next_step: str = ""
    """Added at the start of a round, unless it is among the last three messages of the user. Off while empty."""
    closing: str = (
        "The run ends here and no tool can be used any more. Tell the user in a few sentences what was done, "
        "what is missing, and how to go on."
    )
    """Asked in the closing step."""
    summarise: str = (
        "Sum up the conversation so far for somebody who must go on with the work: the task, what was done and "
        "found, which files and values matter, what is left. Nothing else."
    )
    """Asked of the model in a compaction."""
    text_is_no_end: str = (
        "Text alone does not end this task. If the work is done, say so with the completion tool; if it is not, go on."
    )
    """After text that does not end the run."""


class Policy(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run goes on, pauses and stops. `Policy()` is the shipped policy `agent`."""

    legacy_defaults: ClassVar[Mapping[str, Any]] = {
        "response_tokens": None,
        "closing_tokens": None,
        "closing_after": "limits",
        "required_text": "as_text",
    }

    name: str = "agent"
    """Stands in records and reports; a file's own name if it gives none."""
    limits: Limits = Limits()
    """What a run may use."""
    session_limits: SessionLimits = SessionLimits()
    """What all runs of a session may use together."""
    reminder: float | None = 5 / 6
    """Share of a hard limit, above 0 and below 1, at which the model is reminded, once; None: never."""
    closing: bool = True
    """Where a run is exhausted, ask once more, without tools, for a summary. Not counted as a step."""
    closing_after: Literal["exhausted", "limits"] = "exhausted"
    """After which endings: every exhausted one, or only where a limit was reached."""
    closing_tokens: int | None = 4_000
    """Output tokens that the closing step may take, 1 or more; None: any number."""
    response_tokens: int | None = 200_000
    """Output tokens that one response may take, 1 or more; then it counts as cut off by its length. They are estimated,
    4 bytes of text each, until the provider has counted them. None: any number."""
    text: Literal["final", "nudge"] = "final"
    """`final`: a plain answer ends the run. `nudge`: it never does, and the model is told so."""
    required_text: Literal["nudge", "as_text"] = "nudge"
    """Of a plain answer under `tool_choice="required"`, where a completion tool is offered: `nudge` tells the model
    that it ends nothing; `as_text`: as the setting `text` says."""
    completion: Literal["offered", "required", "none"] = "offered"
    """`required`: a run without a completion tool is refused at start. `none`: none is offered."""
    mixed: Literal["before", "all", "none"] = "before"
    """Which calls run beside a completion in one response: those before it, all, or none. With `all` the response is
    not cut; once the completion is accepted, calls that still run are cancelled and no other begins."""
    max_inner_steps: int = 10
    """Steps the inner layer may make before the outer one looks, 1 or more."""
    inner_cancel: bool = True
    """Cut the stream at a completion call, and all in flight when it is accepted."""
    drain_seconds: float | None = None
    """Seconds, 0 or more, to read on after a cut, only to learn what the response cost. None: close and estimate."""
    reject_after_failure: bool = True
    """Hand a completion back if a call before it in the same response failed."""
    interrupted_calls: Literal["unknown", "ask"] = "unknown"
    """Of a writing call that was running when the process died, where no check knows more: `unknown` tells the model
    that its effect is not known, `ask` asks the user for its result."""
    patience: Patience = Patience()
    """How often in a row something is handed back."""
    repetition: Repetition = Repetition()
    """What is done about repeated calls."""
    degeneration: Degeneration = Degeneration()
    """When a response that repeats itself is cut."""
    echo: Echo = Echo()
    """Short texts that are no answer."""
    compaction: Compaction = Compaction()
    """When and how the context is made smaller."""
    deadlines: Deadlines = Deadlines()
    """Seconds for what is not ours."""
    prompts: Prompts = Prompts()
    """What the loop says to the model."""
    rules: tuple[str, ...] = ("compaction", "control_flow", "finish_reason", "message_shape", "go_on")
    """The priorities by name, first to last. A user's own rule stands as `module:name`."""
    guards: tuple[str, ...] = (
        "judged",
        "invalid_calls",
        "stuck",
        "compaction_stalled",
        "step_limit",
        "tool_call_limit",
        "token_limit",
        "cost_limit",
        "time_limit",
        "repetition",
        "reminder",
    )
    """What may turn a go-on, and only that, into something else, first to last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("max_inner_steps", self.max_inner_steps, 1)
        require_at_least("response_tokens", self.response_tokens, 1)
        require_at_least("closing_tokens", self.closing_tokens, 1)
        require_at_least("drain_seconds", self.drain_seconds, 0)
        if self.reminder is not None and not 0 < self.reminder < 1:
            raise WrongUse(f"reminder is {self.reminder}: use a share above 0 and below 1")
        if self.text == "nudge" and self.completion == "none":
            raise WrongUse("text = 'nudge' with completion = 'none' can never end: change one of the two")


POLICIES: dict[str, Policy] = {
    "chat": Policy(name="chat", completion="none", closing=False),
    "agent": Policy(),
    "strict": Policy(name="strict", text="nudge", completion="required"),
}
"""The shipped policies: text ends the run; text or a completion does; only an accepted completion does."""
