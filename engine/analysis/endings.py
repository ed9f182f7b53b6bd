"""How a run can end, and the sentence that people read for it: one table, for the terminal, the page and the reports.

The keys of `ENDINGS` are stop reasons, the kinds of a run's last text (`text:<kind>`), and what no stop reason says: a
recording that ends before the run does, a run that still goes on. `verdict.py` chooses the key and fills in the places:
`{step}` is the last step, `{of}` is `, 30 of 30` where a limit's use is recorded, and `{name}` the name that another
program or a user's rule gives the ending, in plain words.

A sentence says what the recording says, in the words of who said it. What was not recorded is not guessed: an empty
last response is no failure, and advice is given only where the loop was ours, so that the command can go on from the
record.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..base.sanitize import one_line
from ..decision import Question
from ..decision.text_kinds import TextKind


class Ending(Struct, frozen=True):
    """An ending in words. `next` and `command`: what helps then; empty if nothing does."""

    short: str
    """In a few words, for a row of a list and its filter; another one for each ending."""
    sentence: str
    """A clause without a full stop; `verdict.py` adds whether the work was checked."""
    next: str = ""
    command: str = ""
    """A command for a record of our own loop, whose file is `{record}`. `{approvals}`, `{steps}` and `{more}` are the
    options that approve the calls that wait, the steps that it asks for, and twice the limit."""


_GO_ON = 'endstop run --resume {record} "Go on."'
_OTHERWISE = 'endstop run --resume {record} "Try another way."'

ENDINGS: dict[str, Ending] = {
    # the agent's own word
    "completed": Ending("said done", "It said it was done at step {step}"),
    "judged": Ending("judged done", "It was judged to be done at step {step}"),
    "handled": Ending("answered by a handler", "A handler answered, without the model"),
    "until_met": Ending("check met", "It ended at step {step}, when its check was met"),
    "text:answer": Ending("answered", "It ended with an answer at step {step}"),
    "text:question": Ending("asked a question", "It ended with a question at step {step}"),
    "text:announcement": Ending("said what comes next", "Its last text, at step {step}, says what comes next"),
    "text:partial": Ending("said what is left", "Its last text, at step {step}, says what is left to do"),
    "text:refusal": Ending("declined", "It declined at step {step}"),
    "text:refusal_with_offer": Ending(
        "declined with an offer", "It declined at step {step}, and offered something else"
    ),
    "text:echo": Ending("repeated a result", "Its last text, at step {step}, repeats what a tool returned"),
    "text:error": Ending("said an error", "Its last text, at step {step}, is an error message"),
    "empty": Ending("empty last response", "Its last response, at step {step}, was empty"),
    "blocked": Ending(
        "blocked",
        "It reported at step {step} that it is blocked",
        "Remove the obstacle that it names, and go on",
        _GO_ON,
    ),
    # a text whose kind is not known, as with another policy
    "text_final": Ending("plain text", "It ended with a text at step {step}"),
    # it waits
    "awaiting_input": Ending(
        "waits for an answer",
        "It waits for an answer to its question, at step {step}",
        "Answer it",
        'endstop run --resume {record} --answer "ANSWER"',
    ),
    "waits_for_approval": Ending(
        "waits for approval",
        "It waits at step {step} for the approval of a call",
        "Approve it",
        "endstop run --resume {record} {approvals}",
    ),
    "waits_for_steps": Ending(
        "waits for more steps",
        "It waits at step {step} for more steps",
        "Grant it steps",
        "endstop run --resume {record} --extend {steps}",
    ),
    # a limit or a guard
    "step_limit": Ending(
        "limit of steps",
        "It was stopped at its limit of steps{of}",
        "Go on with more steps",
        _GO_ON + " --max-steps {more}",
    ),
    "token_limit": Ending(
        "limit of tokens", "It was stopped at its limit of tokens{of}", "Go on, with the limit anew", _GO_ON
    ),
    "cost_limit": Ending(
        "limit of cost", "It was stopped at its limit of cost{of}", "Go on, with the limit anew", _GO_ON
    ),
    "time_limit": Ending(
        "limit of time", "It was stopped at its limit of time{of}", "Go on, with the limit anew", _GO_ON
    ),
    "tool_call_limit": Ending(
        "limit of calls", "It was stopped at its limit of calls{of}", "Go on, with the limit anew", _GO_ON
    ),
    "stuck": Ending(
        "repeated itself",
        "It was stopped at step {step}, because it repeated itself",
        "Go on, and say what it should do differently",
        _OTHERWISE,
    ),
    "degenerate": Ending(
        "repeated within a response",
        "It was stopped at step {step}, because its response repeated itself",
        "Go on",
        _GO_ON,
    ),
    "compaction_stalled": Ending("context full", "It was stopped at step {step}, because its context was full"),
    "completion_rejected": Ending(
        "completion not accepted",
        "It was stopped at step {step}, because its completion was not accepted",
        "Go on, and say what must be true when it is done",
        _OTHERWISE,
    ),
    "until_stalled": Ending(
        "check came no further",
        "It was stopped at step {step}, because no change brought its check further",
        "Go on",
        _GO_ON,
    ),
    "no_answer": Ending(
        "empty responses", "It was stopped at step {step}, after responses that were empty", "Go on", _GO_ON
    ),
    "invalid_calls": Ending("unreadable calls", "It was stopped at step {step}, because its calls could not be read"),
    # an error
    "refusal": Ending("refused by the provider", "The model's provider refused to answer at step {step}"),
    "provider_error": Ending(
        "error of the provider", "An error of the model's provider ended it at step {step}", "Go on", _GO_ON
    ),
    "internal_error": Ending("error inside endstop", "An error inside endstop ended it at step {step}"),
    # from outside, or not known
    "cancelled": Ending("cancelled", "It was cancelled at step {step}", "Go on", _GO_ON),
    "running": Ending("running", "It is running, at step {step}"),
    "queued": Ending("queued", "It waits for a process that runs it"),
    "cut_off": Ending(
        "recording cut off",
        "The recording ends within step {step}, before the run does",
        "Go on",
        "endstop run --resume {record}",
    ),
    "custom:unfinished": Ending("end not recorded", "The recording ends at step {step}, and does not say why"),
    # what other programs call their endings
    "custom:submitted": Ending("handed in", "It handed in its work at step {step}"),
    "custom:exit_command": Ending("left by command", "It left with its exit command at step {step}"),
    "custom:early_exit": Ending("left early", "It left early, at step {step}"),
    "custom:exit": Ending("ended by its program", "Its program ended it at step {step}"),
    "custom:forfeit": Ending("gave up", "It gave up at step {step}"),
    "custom:success": Ending("success, it says", "Its program says that it succeeded, at step {step}"),
    "custom:user_stop": Ending("ended by the user", "The user ended it at step {step}"),
    "custom:agent_stop": Ending("ended the conversation", "It ended the conversation at step {step}"),
    "custom:limit": Ending("limit of its program", "It was stopped at a limit of its program, at step {step}"),
    "custom:too_many_errors": Ending("too many errors", "Its program stopped it at step {step}, after too many errors"),
    "custom:error": Ending("error", "An error ended it at step {step}"),
    "custom:agent_error": Ending("error of its program", "An error of its program ended it at step {step}"),
    "custom:environment_error": Ending(
        "error of its environment", "An error of its environment ended it at step {step}"
    ),
    # any other name
    "other": Ending("“{name}”", "It ended at step {step} as “{name}”"),
}

ANOTHER_RUN: dict[str, str] = {
    "step_limit": "Allow more steps: --max-steps N.",
    "token_limit": "Allow more tokens in the policy, under [limits].",
    "cost_limit": "Allow a higher cost in the policy, under [limits].",
    "time_limit": "Allow more time in the policy, under [limits].",
    "tool_call_limit": "Allow more calls in the policy, under [limits].",
    "stuck": "Say in the prompt what the model should do differently.",
    "degenerate": "Run again, or use another model or temperature.",
    "compaction_stalled": "Use a model with a larger context, or a smaller task.",
    "completion_rejected": "Say in the prompt what must be true when the task is done.",
    "until_stalled": "Read what the check says; allow more with patience.checks in the policy.",
    "blocked": "Remove what is named as the obstacle, and run again.",
    "no_answer": "Run again, or use another model.",
    "invalid_calls": "Use another model, or describe the tools better.",
}
"""What to change for another run of our own loop, by the key of the ending."""

RULE_WORDS: dict[str, str] = {
    "control_flow": "completions and questions",
    "finish_reason": "how the response ended",
    "message_shape": "what the response holds",
    "go_on": "going on",
    "step_limit": "the limit of steps",
    "until": "the check",
    "check_stalled": "the check's progress",
    "imported": "what the other program did",
    "followed": "what the other program did",
    "compaction_stalled": "compaction",
    "no_progress": "progress",
    "invalid_calls": "calls that cannot be read",
    "internal_error": "errors inside endstop",
    "none": "going on",
}
"""What each rule and guard looks at (`decision/rules.py`, `decision/guards.py`), for the terminal and the page."""


def rule_words(rule: str) -> str:
    """Return the name of a rule or guard in plain words: what it looks at."""
    return RULE_WORDS.get(rule) or rule.replace("_", " ")


PROVIDER_ERRORS: dict[str, str] = {
    "auth": "Check the API key: it is missing, wrong, or has no access to this model.",
    "not_found": "Check the model's name (--model) and the endpoint (--api-base).",
    "quota": "The account has no credit or quota left: add credit, or use another key or model.",
    "rate_limit": "Wait and run again, or use another key or model.",
    "connection": "Check that the endpoint is running and that --api-base is right.",
    "timeout": "The endpoint is slow or hangs: run again, or use another one.",
    "server": "The provider returned a server error. Retry later or use another provider.",
    "context_overflow": "Use a model with a larger context, or a smaller task.",
    "bad_request": "The provider rejected the request: see its message above.",
    "protocol": "Check that the endpoint speaks the API of --provider, chat completions with --api-base alone.",
    "interrupted": "The connection was lost during the response: run again.",
    "degenerate": "Run again, or use another model or temperature.",
    "cancelled": "The request was cancelled from outside: run again.",
}
"""Advice on an error of the model's provider, by its kind (`providers/errors.py`)."""


def ending_key(
    reason: str, *, foreign: bool, last_text: TextKind | None, last_is_empty: bool, questions: Sequence[Question]
) -> str:
    """Return the key of an ending in `ENDINGS`; the stop reason itself if it is not among them.

    reason: the stop reason, `running` or `queued`; empty if the recording ends before the run does. foreign: whether
    another program's loop ran. last_is_empty: whether the last response had neither text nor calls. questions: those
    that are open.
    """
    match reason:
        case "":
            return "cut_off"
        case "text_final":
            return f"text:{last_text or 'answer'}"
        case "no_answer" if foreign:
            return "empty"
        case "custom:success" if last_is_empty:
            return "empty"
        case "awaiting_input" if any(question.tool is not None for question in questions):
            return "waits_for_approval"
        case "awaiting_input" if any(question.extends for question in questions):
            return "waits_for_steps"
        case _:
            return reason


def ending_name(reason: str) -> str:
    """Return the name that another program or a user's rule gives an ending, in plain words."""
    return one_line(reason.removeprefix("custom:").replace("_", " "), 100)


def short_ending(key: str) -> str:
    """Return an ending in a few words. key: from `ending_key`."""
    return ENDINGS.get(key, ENDINGS["other"]).short.format(name=ending_name(key))
