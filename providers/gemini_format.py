"""Encoder for requests to Gemini: messages as contents, tools, settings.

Source: Gemini API reference, "GenerateContentRequest", and the pages "Function calling" and "Thought signatures".
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from ..decision import AssistantMessage, Image, Message, Reasoning, SystemMessage, ToolCall, ToolResult, ToolSpec
from ..decision.messages import UserMessage, message_parts
from .gemini_parts import VENDOR, PartNote, read_note
from .gemini_schema import adapt_schema
from .openai_format import NO_OUTPUT, EncodedSession, encode_arguments
from .provider import Request, ToolChoice

UNSIGNED = "skip_thought_signature_validator"
"""Signature for calls made by another model, or whose signature is lost: Gemini 3 rejects calls without one (Gemini
API documentation, "Thought signatures")."""
MODES: dict[ToolChoice, str] = {"auto": "AUTO", "required": "ANY", "none": "NONE"}

Role = Literal["system", "user", "model", "results"]
Piece = tuple[Role, bytes]
"""The role of a message, and its encoded parts joined with commas."""


def generation(model: str) -> int:
    """Return a model's generation, judged by its name: 3 for `gemini-3-pro` and for names that end in `-latest`."""
    found = re.search(r"gemini-(\d+)", model)
    return int(found[1]) if found else 3 if model.endswith("-latest") else 0


class MessageEncoder:
    """Encoder of the messages of one session, in order. It remembers the ids that the vendor gave to calls."""

    def __init__(self, *, signs_calls: bool, pictures_inside: bool, images: bool) -> None:
        self._signs_calls = signs_calls
        self._images = images
        self._inside = images and pictures_inside
        self._ids: dict[str, str] = {}

    def encode(self, message: Message) -> Piece:
        """Encode one message."""
        match message:
            case SystemMessage(text):
                return "system", _parts([{"text": text}])
            case UserMessage(text, images):
                return "user", _parts(map(_part, message.parts) if images and self._images else [{"text": text}])
            case ToolResult():
                return "results", _parts([self._result(message)])
            case AssistantMessage():
                return "model", _parts(self._response(message))

    def _result(self, result: ToolResult) -> dict[str, Any]:
        content = result.content if result.content.strip() else NO_OUTPUT
        response: dict[str, Any] = {
            "name": result.name,
            "response": {"output" if result.status == "ok" else "error": content},
        }
        if id := self._ids.get(result.call_id):
            response["id"] = id
        if self._inside and result.images:
            response["parts"] = [encode_image(image) for image in result.images]
        return {"functionResponse": response}

    def _response(self, message: AssistantMessage) -> list[Any]:
        """Return the parts of a response. Thoughts without a signature are left out: Gemini does not read them."""
        parts: list[Any] = []
        note: PartNote | None = None
        for part in message_parts(message):
            if isinstance(part, Reasoning):
                if part.vendor == VENDOR and part.redacted:
                    note = read_note(part.signature)
                    parts += _whole_part(note)
                elif part.vendor == VENDOR and part.signature:
                    parts.append({"text": part.text, "thought": True, "thoughtSignature": part.signature})
            elif isinstance(part, ToolCall):
                parts.append(self._call(part, note, first=part is message.calls[0]))
                note = None
            else:
                parts += _texts(part, note)
                note = None
        return parts

    def _call(self, call: ToolCall, note: PartNote | None, *, first: bool) -> dict[str, Any]:
        function: dict[str, Any] = {"name": call.name, "args": msgspec.Raw(encode_arguments(call.arguments).encode())}
        signature = note.signature if note is not None else ""
        if note is not None and note.call_id:
            function["id"] = self._ids[call.id] = note.call_id
        if first and self._signs_calls:
            signature = signature or UNSIGNED
        return {"functionCall": function, **({"thoughtSignature": signature} if signature else {})}


def _whole_part(note: PartNote | None) -> list[Any]:
    """Return the part that an item holds, or the empty text that it signs; empty if it has neither."""
    if note is None:
        return []
    if note.part:
        return [note.part]
    return [{"text": "", "thoughtSignature": note.signature}] if note.text == 0 else []


def _texts(text: str, note: PartNote | None) -> list[Any]:
    """Return a text as parts: first the beginning that the item before it signs, if there is one, then the rest.

    A text that was shortened later is sent without a signature, because it is not the text that was signed.
    """
    length = note.text if note is not None else None
    if note is None or not length or length > len(text):
        return [{"text": text}]
    signed = {"text": text[:length], "thoughtSignature": note.signature}
    return [signed, {"text": text[length:]}] if length < len(text) else [signed]


def encode_image(image: Image) -> dict[str, Any]:
    """Encode an image: bytes inline, a URL for Google to fetch."""
    if image.url:
        return {"fileData": {"fileUri": image.url, "mimeType": image.media_type}}
    return {"inlineData": {"mimeType": image.media_type, "data": b64encode(image.data).decode()}}


def _part(part: str | Image) -> dict[str, Any]:
    return {"text": part} if isinstance(part, str) else encode_image(part)


def encode_pictures(results: Sequence[ToolResult]) -> Piece:
    """Encode the images of tool results as one user content, each image after a line that names its call."""
    parts: list[Any] = []
    for result in results:
        parts += [{"text": f"What {result.name} ({result.call_id}) shows:"}, *map(encode_image, result.images)]
    return "user", _parts(parts)


def _parts(parts: Iterable[Any]) -> bytes:
    return msgspec.json.encode(list(parts))[1:-1]


def encode_tools(tools: Sequence[ToolSpec], server_tools: Sequence[Mapping[str, Any]] = ()) -> msgspec.Raw:
    """Encode our tools as function declarations, followed by the vendor's own tools unchanged."""
    declared = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": adapt_schema(tool.parameters)}
        for tool in tools
    ]
    return msgspec.Raw(
        msgspec.json.encode([*([{"functionDeclarations": declared}] if declared else []), *server_tools])
    )


# ---- settings

TOP_LEVEL = frozenset({"safetySettings", "cachedContent", "labels", "serviceTier", "store", "modelArmorConfig"})
"""Settings that are top-level fields of a request, not fields of `generationConfig`."""
RENAMED = {
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "n": "candidateCount",
}
"""Settings of chat completions and Gemini's names for them. Other names are only converted to camel case."""
EFFORTS = {"none": 0, "minimal": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens for thoughts by `reasoning_effort`, for models before Gemini 3 (Gemini API documentation, "OpenAI
compatibility"). Later models have levels with the same names."""


def encode_settings(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the request fields for settings that are named as in Gemini's API or as in chat completions."""
    fields: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for given, value in settings.items():
        name = RENAMED.get(given) or _camel(given)
        if name == "reasoningEffort":
            config["thinkingConfig"] = {**_thinking(value, model), **config.get("thinkingConfig", {})}
        elif name == "thinkingConfig" and isinstance(value, Mapping):
            config[name] = {**config.get(name, {}), **value}
        elif name == "stopSequences" and isinstance(value, str):
            config[name] = [value]
        elif name == "generationConfig" and isinstance(value, Mapping):
            config.update(value)
        elif name == "toolConfig" or name in TOP_LEVEL:
            fields[name] = value
        else:
            config[name] = value
    return {**fields, "generationConfig": config} if config else fields


def _thinking(effort: Any, model: str) -> dict[str, Any]:
    if generation(model) >= 3:
        return {"thinkingLevel": "minimal" if effort == "none" else effort}
    return {"thinkingBudget": EFFORTS.get(str(effort), effort)}


def _camel(name: str) -> str:
    """Convert a name to camel case: `top_p` to `topP`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


# ---- the whole request


class RequestEncoder:
    """Encoder of the requests of one provider. Messages and tools are encoded once per session."""

    def __init__(self, model: str, *, images: bool = True, server_tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self._model = model
        self._images = images
        self._latest = generation(model) >= 3
        self._tools = partial(encode_tools, server_tools=server_tools)
        self._server_tools = server_tools

    def encode(self, request: Request, settings: Mapping[str, Any]) -> bytes:
        """Return the body of a request."""
        session: EncodedSession[Piece, msgspec.Raw] | None = request.memo.get(self)
        if session is None:
            session = request.memo[self] = self._session()
        system, contents = _contents(session.messages(request))
        head: dict[str, Any] = {}
        if system:
            head["systemInstruction"] = {"parts": [msgspec.Raw(part) for part in system]}
        fields = encode_settings({**settings, **request.settings}, self._model)
        if request.tools or self._server_tools:
            head["tools"] = session.tools(request)
        if request.tools and request.tool_choice != "auto":
            calling = {"functionCallingConfig": {"mode": MODES[request.tool_choice]}}
            fields["toolConfig"] = {**fields.get("toolConfig", {}), **calling}
        end = msgspec.json.encode({**head, **fields})
        return b'{"contents":[%s]%s%s' % (b",".join(contents), b"," if len(end) > 2 else b"", end[1:])

    def _session(self) -> EncodedSession[Piece, msgspec.Raw]:
        encoder = MessageEncoder(signs_calls=self._latest, pictures_inside=self._latest, images=self._images)
        after = encode_pictures if self._images and not self._latest else None
        return EncodedSession(encoder.encode, self._tools, after)


def _contents(pieces: Iterable[Piece]) -> tuple[list[bytes], list[bytes]]:
    """Return the parts of the system prompt, and the contents: one per message, or per response's results."""
    system: list[bytes] = []
    contents: list[bytes] = []
    results: list[bytes] = []
    for role, parts in pieces:
        if role == "results":
            results.append(parts)
            continue
        if results:
            contents.append(_content(b"user", b",".join(results)))
            results = []
        if role == "system":
            system.append(parts)
        elif parts:  # the API rejects a content without parts
            contents.append(_content(role.encode(), parts))
    if results:
        contents.append(_content(b"user", b",".join(results)))
    return system, contents


def _content(role: bytes, parts: bytes) -> bytes:
    return b'{"role":"%s","parts":[%s]}' % (role, parts)
