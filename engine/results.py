"""From what a function returned to the text that the model reads."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from ..decision import Image, ToolCall
from ..decision.messages import ResultStatus
from .answers import Completion, Continue, Phase, Settled

LONGEST = 100_000
"""Characters of one result that reach the model and the record; the middle of a longer one is left out."""
MARK = 80
"""Characters that the note on what was left out takes at most."""
AT_THE_LIMIT = "Not run: the limit is reached."
"""What a call in the closing step is answered with."""
CANCELLED = "Cancelled while it was running or waiting to run."
"""What a call is answered with that a cancellation cut off."""
UNKNOWN = (
    "The process died while this call was running. Its effect is not known: find out what it is before you call it "
    "again."
)


def as_text(value: Any) -> tuple[str, ResultStatus]:
    """The text of a result, and `ok`, or a complaint and `error`."""
    match value:
        case Settled(content=content, status=status):
            return shortened(content), status  # type: ignore[return-value]  # replay brings recorded words
        case str():
            return shortened(value), "ok"
        case None:
            return "Done.", "ok"
        case Image() | [*_] if images_in(value):
            return shortened(_described(value)), "ok"
        case bytes():
            return f"(bytes, {len(value)} of them; a tool returns text or JSON)", "error"
        case Completion() | Continue() | Phase():
            return f"{type(value).__name__} is only for tools of kind completion", "error"
        case _:
            return _as_json(value)


def images_in(value: Any) -> tuple[Image, ...]:
    """The pictures of a result: one alone, or those in a list whose other members are texts."""
    match value:
        case Settled(images=images):
            return images
        case Image():
            return (value,)
        case list() | tuple() if all(isinstance(part, str | Image) for part in value):
            return tuple(part for part in value if isinstance(part, Image))
        case _:
            return ()


def _described(value: Any) -> str:
    """The texts of a result, with a word for each picture."""
    parts = [value] if isinstance(value, Image) else value
    return "\n".join(part if isinstance(part, str) else f"[image: {_kind(part)}]" for part in parts)


def _kind(image: Image) -> str:
    return image.url if image.url else f"{image.media_type}, {len(image.data)} bytes"


def _as_json(value: Any) -> tuple[str, ResultStatus]:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return shortened(to_json(value).decode()), "ok"
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return f"The tool ran, but its result ({type(value).__name__}) cannot be shown: {error}", "error"


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, without its middle if it is longer than `longest` characters, and fit for UTF-8.

    What it gives is no longer than that, so that it is not shortened again.
    """
    text = text.encode("utf-8", "replace").decode()  # lone surrogates, as in the names of some files
    if len(text) <= longest:
        return text
    half = max(0, longest - MARK) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters left out ...]\n{text[-half:]}"


def fingerprint(call: ToolCall, content: str, images: tuple[Image, ...] = ()) -> str:
    """Equal for the same call with the same result."""
    digest = blake2b(b"".join(image.data for image in images), digest_size=8)
    for part in (call.name, call.arguments, content):
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """The value as JSON can hold it; what has no form in JSON stands there in words."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings")
