"""A conversation that was begun elsewhere, and the way back: messages as users have them, and as they want them.

    session = engine.session(history=messages)          # ours, OpenAI's chat form, or Anthropic's
    session.messages(format="openai")                   # or "anthropic", or our own types

A history is checked as a whole before any request, since a provider would refuse each later one: every call has its
result before the next message, every result its call, and a system message comes first. It is recorded with the first
run, and from there on it is what any message is: compacted, exported, replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
"""Kinds of loss that lose nothing (a call without an id gets one) or are the contents of another loss."""
_UNREAD_FIELDS = ("message field: ", "part field: ", "item field: ")
"""Fields that say nothing to a model are not read, such as `cache_control` and `annotations`."""
_PROBLEMS = {
    "result without a call": "is a result of a call that the response before it does not make",
    "second result": "is a second result of one call",
    "system in the middle": "is a system message after the beginning: one may come first, or write Engine(system=...)",
    "doubled call id": "makes a call with an id that another call has",
    "image": "holds an image that cannot be read, or where no image can be",
    "no message": f"is no message: {_FORMS}",
    "another form": f"has another form: {_FORMS}",
    "provider tool": "holds a call of a tool that the provider ran itself, which cannot be sent to every model",
}


def read_history(history: Iterable[Any]) -> tuple[Message, ...]:
    """The messages of a history in our types. Raises WrongUse with the place of the first that cannot be."""
    if isinstance(history, str | bytes | dict) or not isinstance(history, Iterable):
        raise WrongUse(f"history is {preview(history)}, of type {type(history).__name__}: write a list of messages")
    given = list(history)
    ours = [isinstance(message, _OURS) for message in given]
    if given and any(ours) and not all(ours):
        raise WrongUse(f"history[{ours.index(not ours[0])}] is in another form than those before it: write all in one")
    placed = list(enumerate(given)) if all(ours) else _read_forms(given)
    return tuple(_checked(placed))


def read_prompt(prompt: str | Sequence[Any]) -> UserMessage:
    """The message of a prompt as JSON has it: a text, or parts in OpenAI's or Anthropic's form. Raises WrongUse."""
    if isinstance(prompt, str):
        return user_message(prompt)
    try:
        read = read_history([{"role": "user", "content": list(prompt)}])
    except WrongUse as error:
        raise WrongUse(str(error).replace("history[0]", "the prompt", 1)) from None
    if len(read) != 1 or not isinstance(read[0], UserMessage):
        raise WrongUse("the prompt holds other parts than texts and images")
    return user_message(read[0])


def call_ids(messages: Iterable[Message]) -> Iterable[str]:
    """The ids of all calls in these messages."""
    return (call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls)


def messages_in(format: Any, messages: Sequence[Message]) -> list[Any]:
    """The messages in this form; None: as they are. Raises WrongUse for an unknown form.

    openai: images of tool results follow them in a message of the user, as a server that takes nothing but text in a
    result needs it. anthropic: the system prompt is left out, since it is a parameter of its own there, and so is
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
    """Messages in OpenAI's or Anthropic's form, each with its place. Read as `endstop import` reads them."""
    from .formats.imported_session import ImportedSession, SessionBuilder
    from .formats.openai import add_message

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
    """The messages in an order that every provider takes, with the results of a response in the order of its calls."""
    checked: list[Message] = []
    taken: set[str] = set()
    wanted: list[str] = []
    """Ids of the calls of the latest response."""
    results: dict[str, ToolResult] = {}
    made_at = 0
    for place, message in placed:
        if isinstance(message, ToolResult):
            if message.call_id not in wanted or message.call_id in results:
                kind = "second result" if message.call_id in results else "result without a call"
                raise WrongUse(f"history[{place}] {_PROBLEMS[kind]}: {message.call_id!r}")
            results[message.call_id] = message
            if len(results) == len(wanted):
                checked += [results[id] for id in wanted]
                wanted, results = [], {}
            continue
        _refuse_open_calls(made_at, wanted, results)
        if isinstance(message, AssistantMessage):
            made_at, wanted = place, [call.id for call in message.calls]
            if len(taken.union(wanted)) < len(taken) + len(wanted):
                raise WrongUse(f"history[{place}] {_PROBLEMS['doubled call id']}")
            taken.update(wanted)
        checked.append(_said(place, message, first=not checked))
    _refuse_open_calls(made_at, wanted, results)
    return checked


def _refuse_open_calls(place: int, wanted: Sequence[str], results: dict[str, ToolResult]) -> None:
    missing = [id for id in wanted if id not in results]
    if missing:
        raise WrongUse(
            f"history[{place}] makes calls without results: {', '.join(missing)}: each needs one before the next "
            "message (an open question of a session is answered there: session.answer(call_id, text))"
        )


def _said(place: int, message: Message, *, first: bool) -> Message:
    """The message, if it says something where it stands."""
    if isinstance(message, SystemMessage):
        if not first:
            raise WrongUse(f"history[{place}] {_PROBLEMS['system in the middle']}")
        return message
    if isinstance(message, UserMessage) and message.images:
        images = message.images
        checked = {id(image): checked_image(f"history[{place}]", image) for image in images}
        return UserMessage.of(checked[id(part)] if isinstance(part, Image) else part for part in message.parts)
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    if not calls and isinstance(message, UserMessage | AssistantMessage) and is_blank(message.text):
        raise WrongUse(f"history[{place}] says nothing: leave it out")
    return message
