"""The `RunAgentInput` of an AG-UI client, read as a prompt or as answers for a session.

The server keeps the history of the session, so only the end of `messages` counts: a last user message is the new
prompt, and tool messages at the end are answers to open questions, as are the entries of `resume`. A user message while
a question is open answers it. `context` is for the model, so it is appended to the prompt.

As the protocol asks, what we do not support is ignored: tools of the client (`tools`), `state`, and audio, video and
documents in a message. `ignored` names it, and the translator tells the client. An input is refused only if it is
malformed or leaves nothing to do.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...decision import Image, Question, UserMessage, WrongUse
from ...decision.wrong_calls import CheckedStruct, ExplainedStruct, explained
from ...user_message import user_message
from .interrupts import PAUSED

ABANDONED = "The user does not answer this question. Go on without the answer, or finish with what is known."


class QuestionAnswer(CheckedStruct, frozen=True):
    """The user's answer to the question of a call."""

    call_id: str
    text: str
    approved: bool | None = None
    """For a call that waits for approval: whether it may run; None if only the text says so."""
    arguments: dict[str, Any] | None = None
    """For an approved call: the arguments that it gets instead of the model's."""
    images: tuple[Image, ...] = ()
    """The text has a mark at the place of each."""

    @property
    def said(self) -> UserMessage:
        """The answer as a message."""
        return UserMessage(self.text, self.images)


class AgUiInput(ExplainedStruct, frozen=True, kw_only=True):
    """The content of an input: a prompt, or answers to open questions."""

    thread_id: str
    run_id: str
    prompt: str | None = None
    """The new prompt; None if there are answers."""
    user_text: str | None = None
    """The prompt without the context of the application; it answers a question that is open."""
    images: tuple[Image, ...] = ()
    """Of the prompt; where each belongs, the text has a mark."""
    answers: tuple[QuestionAnswer, ...] = ()
    agent: str | None = None
    """The agent of a new session, from `forwardedProps`; None: the default."""
    metadata: dict[str, Any] = {}
    """The metadata of a new session, from `forwardedProps`."""
    ignored: tuple[str, ...] = ()
    """The ignored parts of the input, in words."""

    @property
    def message(self) -> UserMessage:
        """The prompt as a message."""
        return UserMessage(self.prompt or "", self.images)

    def ignored_by(self, metadata: Mapping[str, Any]) -> tuple[str, ...]:
        """Return in words which parts of the input are ignored if its session has this metadata."""
        if self.metadata in ({}, metadata):
            return self.ignored
        return (*self.ignored, "forwardedProps.metadata: the session has its own since it began")

    def answers_to(self, questions: Sequence[Question]) -> tuple[QuestionAnswer, ...]:
        """Return the answers to these open questions, to be given together. Empty: start a run with `prompt`.

        Raises WrongUse if there are answers, but none to an open question, or two to one.
        """
        if not self.answers:
            if not questions or self.user_text is None:
                return ()
            return (QuestionAnswer(questions[0].call_id, self.user_text, images=self.images),)
        open_now = [question.call_id for question in questions]
        fitting = tuple(answer for answer in self.answers if answer.call_id in open_now)
        if not fitting:
            given = ", ".join(answer.call_id for answer in self.answers)
            raise WrongUse(
                f"there is no open question {given} (open: {', '.join(open_now) or 'none'}): it may have been answered "
                "already; answer an open one, or send a user message"
            )
        ids = [answer.call_id for answer in fitting]
        if twice := [id for id in open_now if ids.count(id) > 1]:
            raise WrongUse(f"question {', '.join(twice)} is given two answers: give it one")
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


class RunAgentInput(ExplainedStruct, rename="camel"):
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


@explained
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
    said = _last_message(given.messages, ignored) if not answers else None
    if len(answers) == 1 and answers[0].call_id == PAUSED:
        said, answers = answers[0].said, ()
    return AgUiInput(
        thread_id=given.thread_id,
        run_id=given.run_id,
        prompt=None if said is None else said.text + _below(given.context or ()),
        user_text=None if said is None else said.text,
        images=() if said is None else said.images,
        answers=answers,
        agent=_agent(given.forwarded_props),
        metadata=_metadata(given.forwarded_props, ignored),
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
                    f"`resume`: the `editedArgs` for {entry.interrupt_id} must be an object and come with a yes"
                )
            words = reason if isinstance(reason, str) and reason.strip() else "yes" if yes else "no"
            return QuestionAnswer(entry.interrupt_id, words, yes, edited)
        case bool(yes):
            return QuestionAnswer(entry.interrupt_id, "yes" if yes else "no", yes)
        case _:
            return _worded(entry.interrupt_id, _payload(entry))


def _worded(call_id: str, said: UserMessage) -> QuestionAnswer:
    """Return an answer in words, optionally with images."""
    return QuestionAnswer(call_id, said.text, images=said.images)


def _payload(entry: _Resume) -> UserMessage:
    """Return the answer in `payload`: the string, the text in an object, content parts, or else the payload as JSON."""
    match entry.payload:
        case [{"type": "text" | "image"}, *_] as parts:
            return user_message(_read_parts(parts, []), "answer")
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
    return UserMessage(answer)


def _tool_answers(messages: Sequence[_Message]) -> tuple[QuestionAnswer, ...]:
    """Return the answers in the tool messages at the end."""
    answers: list[QuestionAnswer] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        if message.tool_call_id is None:
            raise WrongUse("`messages`: a tool message has no `toolCallId`, so the question that it answers is unknown")
        said = _message(message, [])
        if said is None and message.error and message.error.strip():
            said = UserMessage(message.error)
        if said is None:
            raise WrongUse(f"`messages`: the tool message for {message.tool_call_id} has neither text nor image")
        answers.insert(0, _worded(message.tool_call_id, said))
    return tuple(answers)


def _last_message(messages: Sequence[_Message], ignored: list[str]) -> UserMessage:
    """Return the last message. Raises WrongUse if it is not a user message with a text or an image."""
    if not messages or messages[-1].role != "user":
        last = f"the last is of role {messages[-1].role!r}" if messages else "there are none"
        raise WrongUse(f"`messages`: {last}, so there is nothing to do: put a user message at the end")
    said = _message(messages[-1], ignored)
    if said is None:
        raise WrongUse("`messages`: the last user message has neither text nor image, and a prompt needs one")
    return said


def _message(message: _Message, ignored: list[str]) -> UserMessage | None:
    """Return the texts and images of a message; None if it has none. Other parts are ignored and named in `ignored`."""
    given = message.content or ""
    content = [given] if isinstance(given, str) else _read_parts(given, ignored)
    if not any(isinstance(part, Image) or part.strip() for part in content):
        return None
    return user_message(content, "message")


def _read_parts(content: Sequence[Any], ignored: list[str]) -> list[str | Image]:
    parts: list[str | Image] = []
    for part in content:
        match part:
            case {"type": "text", "text": str(text)}:
                parts.append(text)
            case {"type": "image", "source": {"type": "data", "value": str(data)}}:
                parts.append(_image(data))
            case {"type": "binary", "mimeType": str(kind), "data": str(data)} if kind.startswith("image/"):
                parts.append(_image(data))
            case {"type": "image", "source": {"type": "url", "value": str(url)}}:
                parts.append(Image(url=url))
            case {"type": "binary", "mimeType": str(kind), "url": str(url)} if kind.startswith("image/"):
                parts.append(Image(url=url))
            case {"type": "image", "source": {"type": "file"}}:
                ignored.append("messages: an image that is only a file id of a provider")
            case {"type": str(kind)} if kind not in ("text", "image"):
                ignored.append(f"messages: a part of type {kind[:40]!r}")
            case _:
                raise WrongUse(
                    '`messages`: a content part is neither like {"type": "text", "text": "..."} nor like '
                    '{"type": "image", "source": {"type": "url", "value": "https://..."}}'
                )
    return parts


def _image(data: str) -> Image:
    try:
        return Image(data=b64decode(data, validate=True))
    except ValueError:
        raise WrongUse("`messages`: the `value` of an image's source is not valid base64") from None


def _below(context: Sequence[_Context]) -> str:
    lines = "".join(f"\n- {one.description}: {one.value}" for one in context)
    return f"\n\nContext from the application:{lines}" if lines else ""


def _metadata(props: Any, ignored: list[str]) -> dict[str, Any]:
    match props:
        case {"metadata": dict(metadata)}:
            return metadata
        case {"metadata": other} if other is not None:
            ignored.append(f"forwardedProps.metadata: it is not an object, but a {type(other).__name__}")
    return {}


def _agent(props: Any) -> str | None:
    match props:
        case {"agent": str(name)} if name:
            return name
        case _:
            return None
