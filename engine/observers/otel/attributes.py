"""Span attributes that only a live run has: of its provider, and of a request."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ...formats.genai_attributes import MODEL_FAMILIES, PROVIDER_NAMES, setting_attributes
from ...providers import Provider, Request
from ...providers._wrapper import iter_leaf_providers
from ...providers.prices import VENDORS

DEFAULT_PORTS = {"http": 80, "https": 443}


def provider_name(provider: Provider) -> str:
    """Return the conventions' name of the provider if it can be determined; else the lower-case name of its class."""
    leaf = next(iter_leaf_providers(provider))
    kind = type(leaf).__name__
    endpoint = str(getattr(leaf, "endpoint", ""))
    vendor, slash, _ = leaf.model.partition("/")
    if kind == "LiteLLM" and slash:
        return PROVIDER_NAMES.get(vendor, vendor)
    if endpoint:
        return vendor_at(endpoint) or "openai"  # the provider of the protocol
    if kind == "LiteLLM":
        return MODEL_FAMILIES.get(leaf.model.partition("-")[0], "litellm")
    return kind.lower()


def provider_attributes(provider: Provider) -> dict[str, Any]:
    """Return the attributes that runs and requests share: provider, model and server."""
    attributes: dict[str, Any] = {
        "gen_ai.provider.name": provider_name(provider),
        "gen_ai.request.model": provider.model,
    }
    return attributes | server_attributes(str(getattr(provider, "endpoint", "")))


def vendor_at(endpoint: str) -> str:
    """Return the conventions' name of the provider at this URL; empty if none is known there."""
    host = VENDORS.get(urlsplit(endpoint).hostname or "", "")
    return PROVIDER_NAMES.get(host, host)


def server_attributes(endpoint: str) -> dict[str, Any]:
    """Return host and port of a URL; nothing if it has no host."""
    address = urlsplit(endpoint)
    if not address.hostname:
        return {}
    return {"server.address": address.hostname, "server.port": address.port or DEFAULT_PORTS.get(address.scheme)}


def request_attributes(request: Request) -> dict[str, Any]:
    """Return the settings of a request, without its messages."""
    return {
        "gen_ai.request.stream": True,
        "endstop.attempt": request.attempt,
        **setting_attributes(request.settings),
    }
