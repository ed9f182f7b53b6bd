"""Results of tools: what a function may return, the text that the model reads, and what a completion reports.

Any tool may return text, anything that can be turned into JSON, an `Image`, or a list of texts and images. A
completion tool may return a `Completion`, a `Phase` (part of the work is done) or a `Continue` (it is not done);
plain text is the run's answer, except for the one word "continue". A mapping, an object or JSON text can say the same:
`{"success": false, "error": ...}`, `{"task_completed": false}`, `{"shouldContinue": true}` and False reject the
completion; `{"success": true, "summary": ...}` ends the run with the summary (or `message`, `result`) as its answer,
None and True with the text that the model passed; `{"completion_percentage": 60, "next_phase": ...}` is a phase; and
`"requires_user_confirmation": true` asks the user first.

A tool's `check` tells whether a call that was running when its process died took effect: `Happened`, `NotHappened` or
`Unclear`.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from ..decision import Image, Question, WrongUse
from ..decision.argument_types import describe_type
from ..decision.messages import ResultStatus
from ..decision.tool_names import ANSWER_FIELDS
from ..decision.wrong_calls import checked
from ..providers.surrogate_pairs import whole_characters

MAX_RESULT_CHARACTERS = 100_000
"""Maximum length of one result for the model and the record, in characters; the middle of a longer one is left out."""
OMISSION_NOTE_CHARACTERS = 80
"""Maximum length of the note about the omitted middle, in characters."""
MAX_ITERATED_ITEMS = 100_000
"""Maximum number of items read from all iterators in one result; the text is then truncated to
`MAX_RESULT_CHARACTERS`."""
MAX_ITERATED_CHARACTERS = 10 * MAX_RESULT_CHARACTERS
"""Maximum number of characters and bytes read from all iterators in one result."""
ITERATION_STOPPED = "[... it was not read any further ...]"
MAX_NESTING = 250
"""Maximum nesting of a result; pydantic's JSON encoder goes no deeper."""
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class _Checked:
    """Base class that checks the types of a new instance's fields, because a wrong one makes a record unreadable."""

    __slots__ = ()

    def __post_init__(self) -> None:
        answer: type = type(self)
        for name, kind in _field_types(answer).items():
            value = getattr(self, name)
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError:
                what = f"{type(value).__name__}: use {describe_type(kind)}"
                raise WrongUse(f"{answer.__name__}({name}=...) is given a value of type {what}") from None


@cache
def _field_types(answer: Hashable) -> dict[str, Any]:
    return get_type_hints(answer)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(_Checked):
    """The work is done. `answer` goes to the user; `content` is the tool's result in the transcript."""

    answer: str
    content: str | None = None
    success: bool = True
    """Whether the work succeeded. False rejects the completion for the reason in `error`."""
    error: str | None = None
    """Reason why the work is not a success; the completion is then rejected for it."""
    pending_issues: tuple[str, ...] = field(default=())
    """What is left open although the work is done, for the outcome; one text each."""
    confirm: str | bool | None = None
    """A question that the user must answer with yes before the work counts as done; the run pauses for it. True: the
    policy's own (`prompts.confirm`)."""
    percentage: int | None = None
    """100 if the tool reports phases, so that the outcome's phases include the last one."""
    output: Any = None
    """For gates: the output of an engine with `output=...`, of which `answer` is then the JSON."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(_Checked):
    """Part of the work is done: `percentage` of it, 0 to 99. The run continues."""

    percentage: int
    summary: str = ""
    """What this part of the work did, for the outcome's phases."""
    next_phase: str | None = None
    """What comes next: the model reads it as the result of its call. None: that it should go on."""
    content: str | None = None
    """What else the transcript shows as the result of a tool that `completes`."""


@checked
@dataclass(frozen=True, slots=True)
class Continue(_Checked):
    """The work is not done, for this reason. The run continues."""

    reason: str = "The task is not complete yet. Go on."
    content: str | None = None
    """What else the transcript shows as the result of a tool that `completes`."""


@checked
@dataclass(frozen=True, slots=True)
class Happened:
    """A check's answer: the call took effect. result: what the tool's function would have returned."""

    result: Any = None


@checked
@dataclass(frozen=True, slots=True)
class NotHappened:
    """A check's answer: the call had no effect and will have none. It is run now."""


@checked
@dataclass(frozen=True, slots=True)
class Unclear(_Checked):
    """A check's answer: whether the call took effect cannot be found out."""

    why: str = ""
    """The reason, for the model."""


@dataclass(frozen=True, slots=True)
class NeedsUserInput(_Checked):
    """Only the user knows whether the call took effect. It stays open, and the answer to the question is its result."""

    question: str


@dataclass(frozen=True, slots=True)
class SubagentAsks:
    """The sub-agent that a call runs has paused with these questions. The call is run again after they are answered."""

    questions: tuple[Question, ...]
    """The questions, with the ids under which the run itself asks them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome(_Checked):
    """A result with its status, for replays and for tools that wrap other tools."""

    content: str
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()


@checked
@dataclass(frozen=True, slots=True)
class ProgressUpdate(_Checked):
    """Item that a tool yields to report progress; never its result. `progress` and `total` have any unit, as in MCP."""

    text: str = ""
    """What the user reads."""
    progress: float | None = None
    total: float | None = None


def phase_reply(percentage: int, next_phase: str | None) -> str:
    """Return the result that the model reads after it reported a phase."""
    following = f" Go on with: {next_phase}" if next_phase else " Go on."
    return f"Noted: {percentage} % done.{following}"


def render_result(value: Any) -> tuple[str, ResultStatus]:
    """Return the text of a result and the status `ok`, or an error message and the status `error`."""
    match value:
        case CallOutcome(content=content, status=status):
            return truncate(content), status
        case str():
            return truncate(value), "ok"
        case None:
            return "Done.", "ok"
        case Image() | [*_] if images_in(value):
            return truncate(_render_parts(value)), "ok"
        case bytes():
            return f"(bytes, {len(value)} of them; a tool returns text or JSON)", "error"
        case Completion() | Continue() | Phase():
            return f"{type(value).__name__} is only for tools of kind completion", "error"
        case _:
            return _as_json(value)


def images_in(value: Any) -> tuple[Image, ...]:
    """Return the images of a result: a single one, or those in a list of images and texts."""
    match value:
        case CallOutcome(images=images):
            return images
        case Image():
            return (value,)
        case list() | tuple() if all(isinstance(part, str | Image) for part in value):
            return tuple(part for part in value if isinstance(part, Image))
        case _:
            return ()


def _render_parts(value: Any) -> str:
    """Return the texts of a result, with a placeholder for each image."""
    parts = [value] if isinstance(value, Image) else value
    return "\n".join(part if isinstance(part, str) else f"[image: {part}]" for part in parts)


def _as_json(value: Any) -> tuple[str, ResultStatus]:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return truncate(to_json(value, fallback=_fields_of_struct).decode()), "ok"
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return f"The tool ran, but its result ({type(value).__name__}) cannot be shown: {error}", "error"


def _fields_of_struct(value: Any) -> Any:
    """Return the fields of a msgspec Struct, which pydantic does not know."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    raise TypeError(f"Unable to serialize unknown type: {type(value)}")


def truncate(text: str, longest: int = MAX_RESULT_CHARACTERS) -> str:
    """Return the text as valid UTF-8, with its middle left out if it is longer than `longest` characters.

    The result, with its note, is never longer than that, so that a second call changes nothing.
    """
    text = whole_characters(text)
    if len(text) <= longest:
        return text
    half = max(0, longest - OMISSION_NOTE_CHARACTERS) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters left out ...]\n{text[-half:]}"


def to_jsonable(value: Any) -> Any:
    """Return the value as JSON types; anything that JSON cannot hold becomes its repr."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings")


def contains_iterator(value: Any) -> bool:
    """Return whether the value contains an iterator, which may block or never end."""
    return _holds_iterator(value, set())


def _holds_iterator(value: Any, seen: set[int]) -> bool:
    if type(value) in _PLAIN or (type(value) is Completion and type(value.output) in _PLAIN):
        return False
    if isinstance(value, Iterator):
        return True
    parts = _parts(value)
    if not parts or id(value) in seen or len(seen) > MAX_NESTING:
        return False
    seen.add(id(value))
    found = any(_holds_iterator(part, seen) for part in parts)
    seen.discard(id(value))
    return found


def _parts(value: Any) -> Collection[Any]:
    """Return the items of a container; empty for all other values."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset | deque):
        return value
    if isinstance(value, type):
        return ()
    if hasattr(value, "model_fields_set"):  # a pydantic model, recognised without importing pydantic
        return list(vars(value).values())
    return [getattr(value, field.name, None) for field in fields(value)] if is_dataclass(value) else ()


def consume_iterators(value: Any) -> Any:
    """Return the value with a list in place of each iterator, cut off after `MAX_ITERATED_ITEMS` items in total."""
    return _consume(value, [MAX_ITERATED_ITEMS, MAX_ITERATED_CHARACTERS])


def _consume(value: Any, left: list[int]) -> Any:
    if not contains_iterator(value):
        if isinstance(value, str | bytes):
            left[1] -= len(value)
        return value
    if isinstance(value, Iterator):
        read: list[Any] = []
        for part in value:
            if min(left) <= 0:
                read.append(ITERATION_STOPPED)
                break
            left[0] -= 1
            read.append(_consume(part, left))
        return read
    if isinstance(value, Mapping):
        return {key: _consume(part, left) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_consume(part, left) for part in value]
    if hasattr(value, "model_copy"):
        return value.model_copy(update={name: _consume(part, left) for name, part in vars(value).items()})
    return {field.name: _consume(getattr(value, field.name), left) for field in fields(value)}


# ---- reports of a completion's function

_REASON_FIELDS = ("error", "reason", "feedback", "message", "detail", "details", *ANSWER_FIELDS)
"""Fields of a completion's result that may hold the reason why the work is not done; the first with text is used."""
_DONE_FIELDS = frozenset(
    "success successful succeeded ok done isdone taskdone complete completed iscomplete iscompleted taskcomplete "
    "taskcompleted istaskcomplete istaskcompleted finished isfinished taskfinished isfinal accepted approved passed "
    "stop shouldstop terminate shouldterminate shouldautoterminate shouldend shouldfinish".split()
)
"""Fields that are true if the work is done, as in `"is_done": true`. Names are compared without case, `_` and `-`."""
_NOT_DONE_FIELDS = frozenset(
    "continue shouldcontinue needscontinue mustcontinue needstocontinue goon keepgoing incomplete isincomplete "
    "unfinished isunfinished needsmorework rejected failed iserror haserror".split()
)
"""Fields that are true if the work is not done, as in `"needs_more_work": true`."""
_STATE_FIELDS = frozenset({"status", "state", "decision", "action", "verdict"})
"""Fields with a word that tells whether the work is done, as in `"status": "done"`."""
_DONE_WORDS = frozenset(
    "true yes success succeeded ok done complete completed finished accepted passed stop end".split()
)
_NOT_DONE_WORDS = frozenset(
    "false no continue goon incomplete unfinished inprogress partial pending running retry failed failure error "
    "rejected notdone 继续 未完成 失败".split()
)
_PERCENTAGE_FIELDS = frozenset({"completionpercentage", "percentage"})
_KNOWN_FIELDS = frozenset(
    {"error", "nextphase", "pendingissues", "requiresuserconfirmation", *_PERCENTAGE_FIELDS, *_STATE_FIELDS}
)
"""Further fields with a meaning for the engine. A result that does not say whether the work is done and has fields in
none of these tables is the tool's own data: all of it is the answer."""
PERCENTAGE_OUT_OF_RANGE = "{} % is not from 0 to 100. Report again how much of the work is done."
"""Reason for rejecting a report with such a percentage."""
ONLY_FINISHED_WORK_CONFIRMED = (
    "Only finished work can be confirmed by the user, and completion_percentage is below 100. Finish the rest and ask "
    "for the confirmation then, or report the part without asking for one."
)
"""Reason for rejecting a completion that reports part of the work and asks for a confirmation."""


def parse_completion(value: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what a completion's function reports by its return value: a Completion, Phase or Continue.

    A CallOutcome or NeedsUserInput is returned unchanged. A mapping, an object with fields or JSON text is interpreted
    by fields like `success`, `task_completed` or `shouldContinue`; if any of them says that the work is not done, it is
    not. Any other data becomes the answer as JSON. If the function says only that the work is done, the answer is the
    text that the model passed.
    """
    match value:
        case Completion() | Phase() | Continue() | NeedsUserInput() | CallOutcome():
            return value
        case bool() | None:
            return Continue() if value is False else Completion(answer=_answer_argument(arguments) or "Done.")
        case str() if _normalize(value) == "continue":
            return Continue()
        case str():
            # a returned argument was written by the model: it is not the function's verdict on the work
            said = None if value in arguments.values() else _parse_json_object(value)
        case _:
            said = value = _to_mapping(value)
    content, status = render_result(value)
    if status != "ok":
        return CallOutcome(content=content, status=status)
    return (_parse_members(said, content, arguments) if isinstance(said, dict) else None) or Completion(answer=content)


def _parse_members(
    said: Mapping[str, Any], content: str, arguments: Mapping[str, Any]
) -> Completion | Phase | Continue | None:
    """Return what a mapping reports about the work; None if it reports nothing, so that it is the answer itself."""
    members = {_normalize(name): member for name, member in said.items()}
    done = {_says_done(name, member) for name, member in members.items()} - {None}
    if False in done or (not done and members.get("error")):
        return Continue(_first_text(members, _REASON_FIELDS) or content)
    known = _KNOWN_FIELDS | {_normalize(name) for name in _REASON_FIELDS}
    if not done and not known.issuperset(members):
        return None
    percentage = next((members[name] for name in sorted(_PERCENTAGE_FIELDS) if _is_number(members.get(name))), None)
    if percentage is not None and not 0 <= percentage <= 100:
        return Continue(PERCENTAGE_OUT_OF_RANGE.format(percentage))
    answer = _first_text(members, ANSWER_FIELDS)
    confirm = _parse_truth(members.get("requiresuserconfirmation")) is True
    if percentage is not None and percentage < 100:
        following = members.get("nextphase")
        phase = Phase(percentage=int(percentage), summary=answer, next_phase=str(following) if following else None)
        return Continue(ONLY_FINISHED_WORK_CONFIRMED) if confirm else phase
    answer = answer or _answer_argument(arguments)
    if not answer:
        return Completion(answer=content) if done else None
    return Completion(
        answer=answer,
        content=content,
        pending_issues=_texts(members.get("pendingissues")),
        confirm=confirm,
        percentage=None if percentage is None else 100,
    )


_RUN_FIELDS = frozenset(
    "taskcomplete taskcompleted taskdone taskfinished istaskcomplete istaskcompleted shouldstop shouldterminate "
    "shouldautoterminate shouldend shouldfinish terminate shouldcontinue".split()
)
"""Fields in `_DONE_FIELDS` and `_NOT_DONE_FIELDS` that can only be about the run itself."""
MAX_REPORT_CHARACTERS = 10_000
"""Maximum length of JSON text in which a report about the run is searched for in an ordinary tool's result."""


def reports_completion(value: Any) -> str:
    """Return the field of an ordinary tool's result that says that the task is complete; empty if there is none.

    An example is `task_completed`.
    """
    match value:
        case Completion() | Phase() | Continue():
            return type(value).__name__
        case str():
            said = _parse_json_object(value) if len(value) <= MAX_REPORT_CHARACTERS else None
        case None | bool() | int() | float() | bytes() | list() | tuple() | Image() | CallOutcome():
            return ""
        case _:
            said = _to_mapping(value)
    if not isinstance(said, dict):
        return ""
    about_run = (name for name in said if _normalize(str(name)) in _RUN_FIELDS)
    return next((str(name) for name in about_run if _says_done(_normalize(str(name)), said[name])), "")


def _return_hint(function: Callable[..., Any]) -> Any:
    """Return the type that a function returns by its annotation; Any without one."""
    try:
        return get_type_hints(inspect.unwrap(function)).get("return", Any)
    except (NameError, TypeError, AttributeError):  # a name that exists only for type checkers, or not a function
        return Any


def promised_type(function: Callable[..., Any]) -> str:
    """Return the name of a function's return type; empty if it is not annotated, or if the annotation allows None."""
    hint = _return_hint(function)
    if hint in (Any, object, type(None)) or type(None) in get_args(hint) or isinstance(hint, TypeVar):
        return ""
    return str(getattr(hint, "__name__", hint))


def returns_report(function: Callable[..., Any]) -> str:
    """Return the name of the report type in a function's return annotation; empty if there is none."""
    hint = _return_hint(function)
    found = [one.__name__ for one in (hint, *get_args(hint)) if one in (Completion, Phase, Continue)]
    return found[0] if found else ""


def _says_done(name: str, member: Any) -> bool | None:
    """Return whether a field says that the work is done; None if it says nothing about that."""
    truth = _parse_truth(member)
    if name in _STATE_FIELDS:
        return truth if isinstance(member, str) else None
    if truth is None or name not in _DONE_FIELDS | _NOT_DONE_FIELDS:
        return None
    return truth if name in _DONE_FIELDS else not truth


def _parse_truth(member: Any) -> bool | None:
    if isinstance(member, bool):
        return member
    word = _normalize(member) if isinstance(member, str) else ""
    return True if word in _DONE_WORDS else False if word in _NOT_DONE_WORDS else None


def _is_number(member: Any) -> bool:
    return isinstance(member, int | float) and not isinstance(member, bool)


def _normalize(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _to_mapping(value: Any) -> Any:
    """Return a mapping, or an object with fields, as a dict of JSON types; any other value unchanged.

    A part that JSON cannot hold becomes its repr.
    """
    try:
        made = to_jsonable(value)
    except (ValueError, RecursionError):  # bytes that are not text, or a mapping that contains itself
        return value
    return made if isinstance(made, dict) else value


def _parse_json_object(text: str) -> Any:
    """Return the JSON value of a text that may hold an object; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first_text(members: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of these members that is text, or the text in one that is an object, as some errors are."""
    for name in names:
        member = members.get(_normalize(name))
        if isinstance(member, dict):
            member = _first_text(
                {_normalize(key): part for key, part in member.items() if isinstance(part, str)}, _REASON_FIELDS
            )
        if isinstance(member, str) and member.strip():
            return truncate(member)
    return ""


def _answer_argument(arguments: Mapping[str, Any]) -> str:
    """Return the answer among a completion's arguments: the one with a usual name, or the only text."""
    texts = [text for text in arguments.values() if isinstance(text, str) and text.strip()]
    return _first_text({_normalize(name): text for name, text in arguments.items()}, ANSWER_FIELDS) or (
        texts[0] if len(texts) == 1 else ""
    )


def _texts(member: Any) -> tuple[str, ...]:
    if isinstance(member, str):
        return (member,) if member.strip() else ()
    return tuple(str(part) for part in member) if isinstance(member, list) else ()
