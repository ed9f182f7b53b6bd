"""Spans of agents' runs in OTLP: a session for each conversation, else for each trace.

A span of a request to a model repeats the conversation before it: what it adds is read, then its response. A request
that continues none of the conversation is left out and counted. Spans of tool calls say how a call ended, spans of
agents how a run did. Most programs leave contents out of their spans. A response is then a step of which only model,
tokens, finish reason and the names of its calls are known; each text stands for something that was not recorded, and
differs from all others, so that nothing is taken for a repetition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from ..decision import AssistantMessage
from ..decision.messages import ResultStatus
from ..decision.outcome import STATUS_OF, Status
from .genai_attributes import FAILED_ATTEMPT, REQUEST_SETTINGS
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, RawCall, Unreadable
from .openai import add_message
from .otlp_messages import ORIGIN, read_messages, read_tools
from .otlp_values import Span, json_spans
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text, parse_usage
from .session_builder import SessionBuilder

CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_REASONING_TOKENS = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
_COSTS = ("endstop.cost_usd", "llm.cost.total")
_MARKS = (
    "gen_ai.operation.name",
    "gen_ai.system",
    "gen_ai.provider.name",
    "openinference.span.kind",
    "llm.request.type",
    "traceloop.span.kind",
)
"""Attributes by which spans of generative AI are known."""
_REQUESTS = frozenset({"chat", "text_completion", "generate_content", "completion"})
"""Operations that are requests to a model."""
_READ = frozenset(
    {*CONVERSATIONS, *_MODELS, *_INPUT_TOKENS, *_OUTPUT_TOKENS, *_CACHED_TOKENS, *_REASONING_TOKENS, *_COSTS, *_MARKS,
     "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions",
     "gen_ai.response.finish_reasons", "gen_ai.response.id", "llm.token_count.total",
     "llm.usage.total_tokens", "gen_ai.usage.total_tokens", "llm.provider", "llm.system",
     "llm.finish_reason", "input.value", "input.mime_type", "output.value", "output.mime_type",
     "endstop.estimated", "endstop.cut", "endstop.attempt", "gen_ai.request.stream", "error.type",
     "http.response.status_code"}
)  # fmt: skip
_READ_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.tools.",
    "llm.request.functions.",
)
_SETTINGS = {attribute: name for name, (attribute, _) in REQUEST_SETTINGS.items() if name != "max_completion_tokens"}
"""The setting of a request by its attribute."""
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_TOOL_RESULTS = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_STATUSES = frozenset(get_args(Status))
_RESULT_STATUSES = frozenset(get_args(ResultStatus))
_MOST_RESULTS = 256
"""Results that are kept until a request repeats them. A call may end while its response still streams."""
_RESPONSE = ("assistant", 0)
"""The mark of a response; see `_mark`."""
NOT_RECORDED = "[not recorded]"
"""Name of a call of which nothing is known."""


class RequestSpan(Struct):
    """A span of a request, with its messages in OpenAI's form."""

    span: Span
    input: list[dict[str, Any]]
    output: list[dict[str, Any]]

    @property
    def silent(self) -> bool:
        """Whether the span was recorded without contents."""
        return not self.input and not self.output

    @property
    def usage(self) -> dict[str, Any]:
        """Token counts in OpenAI's form."""
        attributes = self.span.attributes
        return {
            "prompt_tokens": _first_number(attributes, _INPUT_TOKENS),
            "completion_tokens": _first_number(attributes, _OUTPUT_TOKENS),
            "prompt_tokens_details": {"cached_tokens": _first_number(attributes, _CACHED_TOKENS)},
            "completion_tokens_details": {"reasoning_tokens": _first_number(attributes, _REASONING_TOKENS)},
            "cost": _first_number(attributes, _COSTS),
        }

    @property
    def finish(self) -> str:
        """The finish reason; empty if the span has none."""
        attributes = self.span.attributes
        words = [*as_list(attributes.get("gen_ai.response.finish_reasons")), attributes.get("llm.finish_reason")]
        return next(filter(None, map(as_text, words)), "")


def _first_number(attributes: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    return next((found for name in names if (found := as_number(attributes.get(name))) is not None), None)


def is_line(data: Any) -> bool:
    """Whether this is one of the lines of a file of spans."""
    return isinstance(as_dict(data).get("resourceSpans"), list)


def matches(data: Any) -> bool:
    """Whether these are spans, or lines of them."""
    return is_line(data[0] if isinstance(data, list) and data else data)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """The sessions of all spans, in the order in which they began."""
    lines = data if isinstance(data, list) else [data]
    spans = sorted((span for line in lines for span in json_spans(line)), key=lambda one: one.start)
    of_traces: dict[str, str] = {}
    """The conversation of each trace."""
    readers: dict[str, ConversationReader] = {}
    requests = {id(span): request for span in spans if (request := read_request(span)) is not None}
    for request in requests.values():
        id_of = conversation_of(request.span) or request.span.trace
        of_traces[request.span.trace] = id_of
        readers.setdefault(id_of, ConversationReader(id_of))
    if not readers:
        raise Unreadable("spans among which is no request to a model")
    others: Counter[str] = Counter()
    for span in spans:
        id_of = conversation_of(span) or of_traces.get(span.trace, "")
        if (request := requests.get(id(span))) is not None:
            readers[id_of or span.trace].add_request(request)
        elif id_of not in readers or not readers[id_of].add_other(span):
            others[of_traces.get(span.trace, "")] += 1
    yield from _read_sessions(readers, others)


def _read_sessions(readers: Mapping[str, ConversationReader], others: Mapping[str, int]) -> Iterator[ImportedSession]:
    unanswered: list[str] = []
    for id, reader in readers.items():
        reader.finish()
        session = reader.session
        session.count_loss("other span", others.get(id, 0))
        if any(isinstance(one.message, AssistantMessage) for one in session.messages):
            yield session
        else:
            unanswered.append(id)
    if unanswered:
        raise Unreadable(f"no response in {len(unanswered):,} conversations ({', '.join(unanswered[:4])})")


# ---- what a span stands for


def conversation_of(span: Span) -> str:
    """The conversation that a span says it belongs to; empty if it says none."""
    return first_text(span.attributes, *CONVERSATIONS)


def operation(span: Span) -> str:
    """What a span stands for: `request`, `tool`, `agent`, or nothing of these (empty)."""
    attributes = span.attributes
    if not any(name in attributes for name in _MARKS):
        return ""
    kind = first_text(attributes, "openinference.span.kind", "traceloop.span.kind").lower()
    name = as_text(attributes.get("gen_ai.operation.name"))
    if name == "execute_tool" or kind == "tool":
        return "tool"
    if name == "invoke_agent" or kind in ("agent", "workflow"):
        return "agent"
    asks = name in _REQUESTS or kind == "llm" or "llm.request.type" in attributes
    return "request" if asks or (not name and not kind) else ""


def read_request(span: Span) -> RequestSpan | None:
    """The request that a span stands for; None if it is none."""
    if operation(span) != "request":
        return None
    input, output = read_messages(span)
    known = input or output or span.failed or _first_number(span.attributes, (*_INPUT_TOKENS, *_OUTPUT_TOKENS))
    return RequestSpan(span, input, output) if known else None


# ---- a conversation


class ConversationReader:
    """Adds the spans of one conversation to a session, in the order in which they began.

    continues: the session has a beginning that is not known here. What the first request repeats is taken for it, up to
    the latest response.
    """

    def __init__(self, id: str, *, continues: bool = False) -> None:
        self.session = ImportedSession(id=id)
        self._builder = SessionBuilder(self.session)
        self._continues = continues
        self._known: list[tuple[str, int]] = []
        """Marks of the messages so far."""
        self._silent: RequestSpan | None = None
        """The latest request, if it has no contents: its calls are the spans that follow."""
        self._tools: list[Span] = []
        """The calls of that request."""
        self._results: dict[str, tuple[str, ResultStatus, float]] = {}
        """By their spans, what the latest response's calls returned, how they ended, and when. The next request says
        what the model read."""
        self._ended_by_text = False
        """Whether the latest response without contents ended its run."""

    @property
    def pending(self) -> bool:
        """Whether a response is known whose calls are still awaited."""
        return self._silent is not None

    def missing(self, request: RequestSpan) -> bool:
        """Whether responses came before this request that are not known, except by what the request repeats of them."""
        known = len(self._known)
        return not self._continues and any(one.get("role") == "assistant" for one in request.input[known:])

    def add_request(self, request: RequestSpan) -> None:
        """Add a request with its response."""
        session, attributes = self.session, request.span.attributes
        session.model = session.model or first_text(attributes, *_MODELS)
        session.tools = session.tools or read_tools(attributes)
        session.settings = session.settings or _settings(attributes)
        unread = {name: value for name, value in attributes.items() if not name.startswith(_READ_PREFIXES)}
        session.count_unread_fields("field", unread, _READ | _SETTINGS.keys(), "span.")
        place = bisect_left(self._tools, request.span.start, key=lambda tool: tool.start)
        early = self._tools[place:] if place else self._tools
        self._tools = self._tools[:place]
        self._flush(goes_on=True)
        if request.silent and request.span.failed:
            self._add_failure(request)
        elif request.silent:
            self._silent, self._tools = request, early
        else:
            self._add_messages(request)

    def add_other(self, span: Span) -> bool:
        """Add the span of a tool call or of an agent. False if it is neither, or says nothing."""
        kind = operation(span)
        if kind == "tool" and self._silent is not None:
            self._tools.append(span)
        elif kind == "tool":
            return self._note_result(span)
        elif kind == "agent":
            self.session.ending = ending_of(span) or self.session.ending
            self.session.verdict = _verdict(span)
        return kind in ("tool", "agent")

    def finish(self) -> None:
        """Add what has waited for more spans."""
        self._flush(goes_on=False)
        self._add_noted_results()

    def _add_messages(self, request: RequestSpan) -> None:
        heard = [_mark(message) for message in request.input]
        if self._continues:
            self._continues = False
            responses = [place for place, (role, _) in enumerate(heard, 1) if role == "assistant"]
            self._known = heard[: responses[-1]] if responses else []
        known = self._known
        if known[-1:] == [_RESPONSE] and known != heard[: len(known)]:
            known = known[:-1]  # programs leave empty responses out of what they send
        if heard[: len(known)] != known:
            self.session.count_dropped("other request", request.output)
            return
        for message in request.input[len(known) :]:
            self._add_message(message, request.span.start)
        self._add_noted_results()
        self._add_output(request)
        self._known = heard + [_mark(message) for message in request.output[:1]]

    def _add_message(self, message: dict[str, Any], t: float) -> None:
        role, id = message.get("role"), as_text(message.get("tool_call_id"))
        noted = self._results.pop(id, None) if role == "tool" else None
        if role == "user" and message.get(ORIGIN, "user") != "user":
            self._builder.add_user([_text_of(message)], "nudge", t or None)
        elif noted is not None:
            self._builder.add_result(id, "", _text_of(message), noted[1], t=noted[2] or None)
        else:
            add_message(self._builder, {"created": t, **message})

    def _add_output(self, request: RequestSpan) -> None:
        builder, span = self._builder, request.span
        self._add_failed_attempts(span)
        for other in request.output[1:]:
            builder.session.count_dropped("choice", other)
        if not request.output and span.failed:
            self._add_failure(request)
        for message in request.output[:1]:
            known = {"model": first_text(span.attributes, *_MODELS), "created": span.end or span.start}
            said = {name: value for name, value in message.items() if value is not None}
            if request.finish:
                said["finish_reason"] = request.finish
            before = len(builder.session.messages)
            add_message(builder, {**known, "usage": request.usage, **said})
            if len(builder.session.messages) > before:
                self._note_estimate(span)

    def _note_estimate(self, span: Span) -> None:
        """Mark the usage of the latest message as an estimate if its span says so."""
        latest = self.session.messages[-1]
        if span.attributes.get("endstop.estimated") is True and latest.usage is not None:
            self.session.messages[-1] = replace(latest, usage=replace(latest.usage, estimated=True))

    def _add_failed_attempts(self, span: Span) -> None:
        """Add the attempts before the one that the span is of, as our own spans have them."""
        for name, told in span.events:
            if name == FAILED_ATTEMPT and told.get("endstop.beside") is not True:
                error = first_text(told, "exception.message", "error.type")
                model = as_text(told.get("gen_ai.request.model"))
                self._builder.add_failure(error, status=_status_of(told), model=model, t=span.start or None)

    def _add_failure(self, request: RequestSpan) -> None:
        span = request.span
        error = span.error or as_text(span.attributes.get("error.type")) or "the request failed"
        model, status = first_text(span.attributes, *_MODELS), _status_of(span.attributes)
        self._builder.add_failure(error, status=status, model=model, t=span.end or span.start)

    def _note_result(self, span: Span) -> bool:
        """Keep what a call returned and how it ended, until the next request says what the model read of it.

        False if the span does not say which call it is of.
        """
        id = as_text(span.attributes.get("gen_ai.tool.call.id"))
        if id and span.attributes.get("endstop.tool.status") != "open":
            content = first_text(span.attributes, *_TOOL_RESULTS) or _placeholder(id)
            self._results[id] = content, _status(span), span.end
        while len(self._results) > _MOST_RESULTS:
            del self._results[next(iter(self._results))]
        return bool(id)

    def _add_noted_results(self) -> None:
        """Add the results of calls that no request has repeated."""
        for id in [id for id in self._results if self._builder.awaits(id)]:  # of all calls there may be very many
            content, status, t = self._results.pop(id)
            self._builder.add_result(id, "", content, status, t=t or None)

    # ---- without contents

    def _flush(self, *, goes_on: bool) -> None:
        """Add the response that had no contents, with the calls that followed it. goes_on: another request follows."""
        request, tools = self._silent, self._tools
        self._silent, self._tools = None, []
        if request is None:
            return
        builder, span = self._builder, request.span
        step = builder.steps + 1
        calls = [_silent_call(tool, f"{step}.{number}") for number, tool in enumerate(tools)]
        if not calls and (request.finish.startswith(("tool", "function")) or (goes_on and not request.finish)):
            calls = [_unknown_call(f"{step}.0")]
        builder.session.count_loss("content")
        builder.add_response(
            "" if calls else _placeholder(f"{request.span.id} {step}"),
            calls,
            usage=parse_usage(request.usage),
            raw_finish=request.finish,
            model=first_text(span.attributes, *_MODELS),
            t=span.end or span.start,
            starts_run=self._ended_by_text,
        )
        self._note_estimate(span)
        self._ended_by_text = not calls
        for (id, _, _), tool in zip(calls, tools, strict=False):
            builder.add_result(id, "", _placeholder(id), _status(tool), t=tool.end or None)


def _mark(message: Mapping[str, Any]) -> tuple[str, int]:
    """What two messages of one conversation are compared by: the role, and unless it is the model's, the text."""
    role = as_text(message.get("role"))
    return _RESPONSE if role == _RESPONSE[0] else (role, hash(_text_of(message)))


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, list):
        return as_json(content)
    return "\n".join(as_text(as_dict(part).get("text")) or as_json(part) for part in content)


def _settings(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attributes[attribute] for attribute, name in _SETTINGS.items() if attribute in attributes}


def _status_of(attributes: Mapping[str, Any]) -> int | None:
    """The HTTP status of a request that failed, where its span has one; None where it has none."""
    for value in (attributes.get("http.response.status_code"), attributes.get("error.type")):
        number = as_number(value) if not isinstance(value, str) else float(value) if value.isdigit() else None
        if number is not None and 400 <= number < 600:
            return int(number)
    return None


def _status(span: Span) -> ResultStatus:
    said = as_text(span.attributes.get("endstop.tool.status"))
    if said in _RESULT_STATUSES:
        return said  # type: ignore[return-value]
    return "error" if span.failed else "ok"


def _silent_call(span: Span, number: str) -> RawCall:
    id = as_text(span.attributes.get("gen_ai.tool.call.id")) or number
    name = first_text(span.attributes, *_TOOL_NAMES) or span.name or NOT_RECORDED
    return id, name, as_json(span.attributes.get("gen_ai.tool.call.arguments")) or as_json({NOT_RECORDED: id})


def _placeholder(of: str) -> str:
    """A text for one that was not recorded. It has a word of its own: without one it would repeat what came before.

    Of letters, as digits do not count where it is judged what a step brought.
    """
    mark = blake2b(of.encode("utf-8", "replace"), digest_size=12).digest()
    return f"[not recorded: {''.join(chr(97 + byte % 26) for byte in mark)}]"


def _unknown_call(number: str) -> RawCall:
    return number, NOT_RECORDED, as_json({NOT_RECORDED: number})


def ending_of(span: Span) -> ImportedEnding | None:
    """How a run ended, by the span of its agent; None if that does not say."""
    reason, status = (as_text(span.attributes.get(f"endstop.{name}")) for name in ("stop_reason", "status"))
    if status in _STATUSES and (reason in STATUS_OF or reason.startswith("custom:")):
        return ImportedEnding(reason=reason, status=status, detail=f"the traced run ended as {reason}")  # type: ignore[arg-type]
    if span.failed:
        error = span.error or as_text(span.attributes.get("error.type")) or "the agent's span has the status ERROR"
        return ImportedEnding(reason="custom:agent_error", status="failed", detail=error)
    return None


def _verdict(span: Span) -> ImportedVerdict | None:
    """The verdict on a run, by the span of its agent."""
    said = span.attributes.get("endstop.verdict")
    return ImportedVerdict(passed=said == "passed", name="otlp:verdict") if said in ("passed", "failed") else None
