"""A model's name, and the provider that reaches it: `Engine("anthropic/claude-sonnet-4-5")` and `--model`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from ..decision import WrongUse
from ..decision.errors import MissingExtra, missing_extra, similar
from .anthropic import HOST as ANTHROPIC
from .anthropic import Anthropic
from .gemini import GOOGLE, Gemini
from .litellm import LiteLLM
from .openai_compatible import OpenAICompatible
from .openai_responses import OPENAI_URL as OPENAI
from .openai_responses import OpenAIResponses
from .provider import Provider
from .timeouts import BETWEEN_SECONDS, FIRST_SECONDS


class Wire(NamedTuple):
    """One way to reach a model, as a choice of `--provider` on the command line."""

    make: Callable[[str, str | None, float, float], Provider]
    """From the model's name, its API's base URL, and seconds to the first content and between two pieces of content."""
    prefix: str = ""
    """Beginning of the names of models that are reached in this way unless `--provider` or a base URL is given."""


def _chat(model: str, api_base: str | None, first: float, between: float) -> Provider:
    if api_base is None and not os.environ.get("OPENAI_API_KEY", "").strip():
        raise WrongUse(f"model {model!r} at api.openai.com needs a key: set OPENAI_API_KEY, or use --api-base")
    return OpenAICompatible(model, api_base or OPENAI, first_timeout=first, read_timeout=between)


def _anthropic(model: str, api_base: str | None, first: float, between: float) -> Provider:
    return Anthropic(model, api_base=api_base or ANTHROPIC, first_timeout=first, read_timeout=between)


def _responses(model: str, api_base: str | None, first: float, between: float) -> Provider:
    name = model.replace("openai/responses/", "openai/", 1)  # litellm's name for the same
    return OpenAIResponses(name, api_base=api_base or OPENAI, first_timeout=first, read_timeout=between)


def _gemini(model: str, api_base: str | None, first: float, between: float) -> Provider:
    return Gemini(model, api_base=api_base or GOOGLE, first_timeout=first, read_timeout=between)


def _litellm(model: str, api_base: str | None, first: float, between: float) -> Provider:
    vendor, colon, name = model.partition(":")
    if colon and vendor in _VENDORS:
        raise WrongUse(f"model {model!r}: write {_VENDORS[vendor] + name!r}")
    try:
        return LiteLLM(model, api_base=api_base, first_timeout=first, timeout=between)
    except MissingExtra:
        for begins, prefix in _FAMILIES.items():
            if model.startswith(begins):
                raise WrongUse(f"model {model!r}: write {prefix + model!r}") from None
        vendor, slash, _ = model.partition("/")
        own = [wire.prefix.rstrip("/") for wire in WIRES.values() if wire.prefix]
        hint = similar(vendor, own) if slash and vendor not in own else ""
        if not hint:
            raise
        raise missing_extra(f"model {model!r}{hint} is reached through litellm, not installed", "litellm") from None


_VENDORS = {
    "anthropic": "anthropic/",
    "openai": "openai/",
    "openai-chat": "openai/",
    "openai-responses": "openai/",
    "google-gla": "gemini/",
    "google-genai": "gemini/",
    "google_genai": "gemini/",
    "gemini": "gemini/",
}
"""What Pydantic AI and LangChain write before a colon, and what is written here."""
_FAMILIES = {"claude-": "anthropic/", "gpt-": "openai/", "o1": "openai/", "o3": "openai/", "gemini-": "gemini/"}
"""Beginnings of names of models without a vendor, which litellm knows, and how they are written here."""

WIRES = {
    "openai": Wire(_chat),
    "openai-responses": Wire(_responses, "openai/"),
    "anthropic": Wire(_anthropic, "anthropic/"),
    "gemini": Wire(_gemini, "gemini/"),
    "litellm": Wire(_litellm),
}
"""The choices of `--provider`."""


def provider_for(
    model: str,
    api_base: str | None = None,
    wire: str | None = None,
    *,
    first: float = FIRST_SECONDS,
    between: float = BETWEEN_SECONDS,
) -> Provider:
    """Return the provider for a model's name, such as `anthropic/claude-sonnet-4-5`.

    api_base: the URL of an OpenAI-compatible endpoint, unless `wire` says otherwise.
    wire: a key of `WIRES`; by default chat completions if there is a URL, else by the prefix of the name.
    first, between: seconds to the first content of a response, and between two pieces of it.
    Raises WrongUse for an empty name, or without the key that the model needs.
    """
    if not model.strip():
        raise WrongUse("no model: write its name, as in anthropic/claude-sonnet-4-5")
    chosen = WIRES[wire] if wire else _wire_for(model, api_base)
    return chosen.make(model, api_base, first, between)


def _wire_for(model: str, api_base: str | None) -> Wire:
    """Return the default wire: chat completions if there is a URL, else by the prefix of the model's name."""
    if api_base is not None:
        return WIRES["openai"]
    own = (wire for wire in WIRES.values() if wire.prefix and model.startswith(wire.prefix))
    return next(own, WIRES["litellm"])
