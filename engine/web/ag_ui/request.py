"""The `RunAgentInput` of an AG-UI client, read as a prompt or as answers for a session.

The server keeps the history of the session, so only the end of `messages` counts: a last user message is the new
prompt, and tool messages at the end are answers to open questions, as are the entries of `resume`. A user message while
a question is open answers it. `context` is for the model, so it is appended to the prompt.

As the protocol asks, what we do not support is ignored: tools of the client (`tools`), `state`, and images, audio and
files in the prompt. `ignored` names it, and the translator tells the client. An input is refused only if it is
malformed or leaves nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...decision import Question, WrongUse
from .interrupts import PAUSED

ABANDONED = "The user does not answer this question. Go on without the answer, or finish with what is known."


class QuestionAnswer(Struct, frozen=True):
    """The user's answer to the question of a call."""

    call_id: str
    text: str
    approved: bool | None = None
    """For a call that waits for approval: whether it may run; None if only the text says so."""
    arguments: dict[str, Any] | None = None
    """For an approved call: the arguments that it gets instead of the model's."""


class AgUiInput(Struct, frozen=True, kw_only=True):
    """What an input asks for: a prompt, or answers to open questions."""

    thread_id: str
    run_id: str
    prompt: str | None = None
    """The new prompt; None if there are answers."""
    user_text: str | None = None
    """The prompt without the context of the application; it answers a question that is open."""
    answers: tuple[QuestionAnswer, ...] = ()
    agent: str | None = None
    """The agent of a new session, from `forwardedProps`; None: the default."""
    ignored: tuple[str, ...] = ()
    """What is ignored of the input, in words."""

    def answers_to(self, questions: Sequence[Question]) -> tuple[QuestionAnswer, ...]:
        """The answers to these open questions, to be given one after another. Empty: start a run with `prompt`.

        Raises WrongUse if there are answers, but none to an open question.
        """
        if not self.answers:
            return (
                (QuestionAnswer(questions[0].call_id, self.user_text),)
                if questions and self.user_text is not None
                else ()
            )
        open_now = [question.call_id for question in questions]
        fitting = tuple(answer for answer in self.answers if answer.call_id in open_now)
        if not fitting:
            given = ", ".join(answer.call_id for answer in self.answers)
            raise WrongUse(
                f"there is no open question {given} (open: {', '.join(open_now) or 'none'}): it may have been answered "
                "already; answer an open one, or send a user message"
            )
        return fitting


# ---- the wire


class _Message(Struct, rename="camel"):
    role: str
    content: str | list[Any] | None = None
    tool_call_id: str | None = None
    error: str | None = None


class _Context(Struct):
    description: str
    value: str


class _Resume(Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Struct, rename="camel"):
    """The input of an AG-UI client: the fields that matter here."""

    thread_id: str
    run_id: str
    messages: list[_Message]
    tools: list[Any] | None = None
    context: list[_Context] | None = None
    state: Any = None
    forwarded_props: Any = None
    resume: list[_Resume] | None = None


_decode = msgspec.json.Decoder(RunAgentInput).decode
_NO_STATE: tuple[Any, ...] = (None, {}, "", [])


def read_input(body: bytes) -> AgUiInput:
    """Read a `RunAgentInput`. Raises WrongUse if it is malformed, or leaves nothing to do."""
    try:
        given = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise WrongUse(f"the body is not a RunAgentInput of AG-UI: {error}") from None
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        if not value.strip():
            raise WrongUse(f"`{name}` is empty: give the {name[:-2]} an id")
    ignored: list[str] = []
    if given.tools:
        ignored.append(f"tools: {len(given.tools)} of the client, which the agent cannot call")
    if given.state not in _NO_STATE:
        ignored.append("state: the session keeps its own")
    answers = _resumed(given.resume) if given.resume else _tool_answers(given.messages)
    text = _last_text(given.messages, ignored) if not answers else None
    if len(answers) == 1 and answers[0].call_id == PAUSED:
        text, answers = answers[0].text, ()
    return AgUiInput(
        thread_id=given.thread_id,
        run_id=given.run_id,
        prompt=None if text is None else text + _below(given.context or ()),
        user_text=text,
        answers=answers,
        agent=_agent(given.forwarded_props),
        ignored=tuple(ignored),
    )


def _resumed(entries: Sequence[_Resume]) -> tuple[QuestionAnswer, ...]:
    return tuple(map(_answer, entries))


def _answer(entry: _Resume) -> QuestionAnswer:
    if entry.status == "cancelled":
        return QuestionAnswer(entry.interrupt_id, ABANDONED, approved=False)
    match entry.payload:
        case {"approved": bool(yes), **more}:
            edited, reason = more.get("editedArgs"), more.get("reason")
            if edited is not None and not (yes and isinstance(edited, dict)):
                raise WrongUse(
                    f"`resume`: the entry for {entry.interrupt_id} has `editedArgs` beside a no, or no object"
                )
            words = reason if isinstance(reason, str) and reason.strip() else "yes" if yes else "no"
            return QuestionAnswer(entry.interrupt_id, words, yes, edited)
        case bool(yes):
            return QuestionAnswer(entry.interrupt_id, "yes" if yes else "no", yes)
        case _:
            return QuestionAnswer(entry.interrupt_id, _payload(entry))


def _payload(entry: _Resume) -> str:
    """The answer in `payload` as text: the string, the text in an object, or else the payload as JSON."""
    match entry.payload:
        case str(text):
            answer = text
        case {"answer": str(text)} | {"text": str(text)}:
            answer = text
        case None:
            answer = ""
        case other:
            answer = msgspec.json.encode(other).decode()
    if not answer.strip():
        raise WrongUse(
            f"`resume`: the entry for {entry.interrupt_id} has no answer: put the text into `payload`, or give it the "
            'status "cancelled"'
        )
    return answer


def _tool_answers(messages: Sequence[_Message]) -> tuple[QuestionAnswer, ...]:
    """Answers in the tool messages at the end."""
    answers: list[QuestionAnswer] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        if message.tool_call_id is None:
            raise WrongUse("`messages`: a tool message has no `toolCallId`, so the question that it answers is unknown")
        text = _text(message, []) or message.error or ""
        if not text.strip():
            raise WrongUse(f"`messages`: the tool message for {message.tool_call_id} has no text")
        answers.insert(0, QuestionAnswer(message.tool_call_id, text))
    return tuple(answers)


def _last_text(messages: Sequence[_Message], ignored: list[str]) -> str:
    """The text of the last message. Raises WrongUse if that is not a user message with text."""
    if not messages or messages[-1].role != "user":
        last = f"the last is of role {messages[-1].role!r}" if messages else "there are none"
        raise WrongUse(f"`messages`: {last}, so there is nothing to do: put a user message at the end")
    text = _text(messages[-1], ignored)
    if not text.strip():
        raise WrongUse("`messages`: the last user message has no text, and a prompt needs some")
    return text


def _text(message: _Message, ignored: list[str]) -> str:
    """The text of a message. Other parts are ignored, and named in `ignored`."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    texts = []
    for part in message.content:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": str(kind)} if kind != "text":
                ignored.append(f"messages: a part of type {kind[:40]!r}")
            case _:
                raise WrongUse('`messages`: a content part is not like {"type": "text", "text": "..."}')
    return "\n".join(texts)


def _below(context: Sequence[_Context]) -> str:
    lines = "".join(f"\n- {one.description}: {one.value}" for one in context)
    return f"\n\nContext from the application:{lines}" if lines else ""


def _agent(props: Any) -> str | None:
    match props:
        case {"agent": str(name)} if name:
            return name
        case _:
            return None
