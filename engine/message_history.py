"""Read and check the messages of a conversation that began elsewhere; return those of a session in other forms.

    session = engine.session(history=messages)          # ours, OpenAI's chat form, or Anthropic's
    session.messages(format="openai")                   # or "anthropic", or our own types

A history is checked as a whole before any request, because a provider would refuse each later one: every call has its
result before the next message, every result has its call, and a system message comes first. The history is recorded
with the first run, and from then on it is treated like all other messages: compacted, exported, replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

from .decision import AssistantMessage, Image, Message, SystemMessage, ToolResult, UserMessage, WrongUse
from .decision.errors import did_you_mean
from .decision.messages import is_blank
from .tools.results import to_jsonable
from .user_message import checked_image, user_message
from .validation import preview

MessageFormat = Literal["openai", "anthropic"]
_OURS = (SystemMessage, UserMessage, AssistantMessage, ToolResult)
_FORMS = "a message is a dict in OpenAI's or Anthropic's form, or one of endstop's own (`session.messages()`)"
_IGNORED = frozenset({"call id", "characters", "call", "answer", "thought"})
"""Kinds of loss that do not matter (a call without an id gets one) or that another loss already reports."""
_UNREAD_FIELDS = ("message field: ", "part field: ", "item field: ")
"""Prefixes of losses of fields that a model does not see, such as `cache_control` and `annotations`."""
_PROBLEMS = {
    "result without a call": "is a result of a call that the response before it does not make",
    "second result": "is a second result of one call",
    "system in the middle": "is a system message after the beginning: one may come first, or write Engine(system=...)",
    "doubled call id": "makes a call with an id that another call has",
    "image": "holds an image that cannot be read, or where no image can be",
    "no message": f"is not a message: {_FORMS}",
    "another form": f"has an unknown form: {_FORMS}",
    "provider tool": "holds a call of a tool that the provider ran itself, which cannot be sent to every model",
}


def read_history(history: Iterable[Any]) -> tuple[Message, ...]:
    """Return the messages of a history in our types. Raises WrongUse with the position of the first invalid one."""
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise WrongUse(f"history is {preview(history)}, of type {type(history).__name__}: write a list of messages")
    given = list(history)
    ours = [isinstance(message, _OURS) for message in given]
    if given and any(ours) and not all(ours):
        raise WrongUse(
            f"history[{ours.index(not ours[0])}] has a different form from those before it: write all in one"
        )
    placed = list(enumerate(given)) if all(ours) else _read_forms(given)
    return tuple(_checked(placed))


def read_prompt(prompt: str | Sequence[Any], role: str = "prompt") -> UserMessage:
    """Read a prompt from JSON: a text, or parts in OpenAI's or Anthropic's form. Raises WrongUse.

    role: what it is, if not a prompt, for errors.
    """
    if isinstance(prompt, str):
        return user_message(prompt, role)
    try:
        read = read_history([{"role": "user", "content": list(prompt)}])
    except WrongUse as error:
        raise WrongUse(str(error).replace("history[0]", f"the {role}", 1)) from None
    if len(read) != 1 or not isinstance(read[0], UserMessage):
        raise WrongUse(f"the {role} contains parts other than texts and images")
    return user_message(read[0], role)


def call_ids(messages: Iterable[Message]) -> Iterable[str]:
    """Yield the ids of all calls in these messages."""
    return (call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls)


def messages_in(format: Any, messages: Sequence[Message]) -> list[Any]:
    """Return the messages in this form; None: unchanged. Raises WrongUse for an unknown form.

    openai: images of tool results follow them in a message of the user, as a server that takes nothing but text in a
    result needs it. anthropic: the system prompt is left out, because it is a separate parameter there, and so is
    reasoning without a signature, which the API refuses.
    """
    match format:
        case None:
            return list(messages)
        case "openai":
            from .formats.export_openai import to_openai_messages

            return to_openai_messages(messages)
        case "anthropic":
            from .formats.export_anthropic import to_anthropic_messages

            return to_anthropic_messages(messages)
        case _:
            raise WrongUse(f"format is {format!r}{did_you_mean(str(format), get_args(MessageFormat))}, or leave it out")


def _read_forms(given: Sequence[Any]) -> list[tuple[int, Message]]:
    """Read messages in OpenAI's or Anthropic's form, as `endstop import` does. Return each with its position."""
    from .formats.imported_session import ImportedSession
    from .formats.openai import add_message
    from .formats.session_builder import SessionBuilder

    builder = SessionBuilder(ImportedSession())
    placed: list[tuple[int, Message]] = []
    for place, message in enumerate(to_jsonable(given)):  # a model of an SDK becomes a dict
        before, known = Counter(builder.session.losses), len(builder.session.messages)
        add_message(builder, message)
        _refuse_losses(place, message, builder.session.losses - before)
        new = builder.session.messages[known:]
        if any(one.failure is not None for one in new):
            raise WrongUse(f"history[{place}] is the error of a request that failed: leave it out")
        placed += [(place, one.message) for one in new]
    if builder.session.system:
        placed.insert(0, (0, SystemMessage(builder.session.system)))
    return placed


def _refuse_losses(place: int, message: Any, losses: Counter[str]) -> None:
    for kind in losses:
        if kind in _IGNORED or kind.startswith(_UNREAD_FIELDS):
            continue
        why = _PROBLEMS.get(kind)
        if why is None:
            group, _, name = kind.partition(": ")
            why = f"has a {group.replace('content part', 'part of a kind')} that is not known here: {name}"
        raise WrongUse(f"history[{place}] {why}: {preview(message)}")


def _checked(placed: Iterable[tuple[int, Message]]) -> list[Message]:
    """Return the messages in the form that every provider accepts: results in the order of the response's calls."""
    hint = " (an open question of a session is answered there: session.answer(call_id, text))"
    checked: list[Message] = []
    for place, message in paired(((f"history[{place}]", message) for place, message in placed), hint=hint):
        checked.append(_said(place, message, first=not checked))
    return _in_call_order(checked)


def _in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the results of each response in the order of its calls."""
    order = {id: number for number, id in enumerate(call_ids(messages))}
    ordered: list[Message] = []
    for _, group in groupby(messages, lambda message: isinstance(message, ToolResult)):
        ordered += sorted(group, key=lambda message: order[message.call_id] if isinstance(message, ToolResult) else 0)
    return ordered


def paired(
    placed: Iterable[tuple[str, Message]], taken: Iterable[str] = (), hint: str = ""
) -> Iterator[tuple[str, Message]]:
    """Yield messages as long as each call has a unique id and a result before the next message.

    placed: the messages, each with the name of its position for errors. taken: ids of calls elsewhere in the
    conversation.
    hint: added to the error about a call without a result. Raises WrongUse at the first invalid message.
    """
    known = set(taken)
    answered: dict[str, bool] = {}
    """Whether each call of the latest response has its result, by id."""
    made_at = ""
    for place, message in placed:
        if isinstance(message, ToolResult):
            if answered.get(message.call_id, True):
                kind = "second result" if message.call_id in answered else "result without a call"
                raise WrongUse(f"{place} {_PROBLEMS[kind]}: {message.call_id!r}")
            answered[message.call_id] = True
        else:
            _refuse_open_calls(made_at, answered, hint)
            calls = message.calls if isinstance(message, AssistantMessage) else ()
            made_at, answered = place, {call.id: False for call in calls}
            if len(answered) < len(calls) or answered.keys() & known:
                raise WrongUse(f"{place} {_PROBLEMS['doubled call id']}")
            known |= answered.keys()
        yield place, message
    _refuse_open_calls(made_at, answered, hint)


def _refuse_open_calls(place: str, answered: Mapping[str, bool], hint: str) -> None:
    missing = [id for id, is_answered in answered.items() if not is_answered]
    if missing:
        raise WrongUse(
            f"{place} makes calls without results: {', '.join(missing)}: each needs one before the next message{hint}"
        )


def _said(place: str, message: Message, *, first: bool) -> Message:
    """Return the message, its images checked. Raises WrongUse if it is empty or not allowed at this position."""
    if isinstance(message, SystemMessage):
        if not first:
            raise WrongUse(f"{place} {_PROBLEMS['system in the middle']}")
        return message
    if isinstance(message, UserMessage) and message.images:
        images = message.images
        checked = {id(image): checked_image(place, image) for image in images}
        return UserMessage.of(checked[id(part)] if isinstance(part, Image) else part for part in message.parts)
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    if not calls and isinstance(message, UserMessage | AssistantMessage) and is_blank(message.text):
        raise WrongUse(f"{place} says nothing: leave it out")
    return message
