"""Signatures of classes with many fields, short enough to be read in `help` and in an editor."""

from __future__ import annotations

from inspect import Parameter, Signature

from msgspec import StructMeta

from .deferred_patterns import deferred

LONGEST_TEXT = 800
"""Most characters of a signature's text: ten lines of a terminal."""
_LONGEST_DEFAULT = 40
_REDACTION = deferred(r"(?:typing\.)?Annotated\[((?:(?!Annotated).)+?), <Redacted[^>]*>\]")
"""Matches a type with the way in which it is redacted in records (`messages.Redacted`), for its bare type."""


class ShortSignature(Signature):
    """Signature whose text has at most `LONGEST_TEXT` characters. Its parameters are complete.

    A text that is too long leaves out long defaults, then the types, then the last parameters.
    """

    def __str__(self) -> str:
        parameters = list(self.parameters.values())
        text = _REDACTION.sub(r"\1", str(Signature(parameters)))
        if len(text) <= LONGEST_TEXT:
            return text
        shown = [_without_long_default(parameter) for parameter in parameters]
        text = _REDACTION.sub(r"\1", str(Signature(shown)))
        if len(text) > LONGEST_TEXT:
            text = str(Signature([parameter.replace(annotation=Parameter.empty) for parameter in shown]))
        if len(text) > LONGEST_TEXT:
            text = f"{text[: text.rindex(',', 0, LONGEST_TEXT - len(', ...)'))]}, ...)"
        return text

    def format(self, *, max_width: int | None = None) -> str:
        """Return the text. max_width: ignored; `help` of Python 3.13 passes it."""
        return str(self)


class _Ellipsis:
    def __repr__(self) -> str:
        return "..."


def _without_long_default(parameter: Parameter) -> Parameter:
    is_long = len(repr(parameter.default)) > _LONGEST_DEFAULT
    return parameter.replace(default=_Ellipsis()) if is_long and parameter.default is not Parameter.empty else parameter


class ShortSignatureMeta(StructMeta):
    """Metaclass of structs with many fields: `inspect.signature` returns a `ShortSignature`."""

    @property
    def __signature__(self) -> Signature:
        return ShortSignature(list(super().__signature__.parameters.values()))
