"""The providers that recordings are played to: the direct one, and litellm under the name that fits the recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from endstop.providers import LiteLLM, OpenAICompatible, Provider
from endstop.testing.conformance.providers import Endpoint

Voice = Callable[[str, Path], Provider]
"""From the server's URL and the recording to a provider."""

MODELS = {
    "alibaba": "dashscope/qwen3-max",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "cline": "openai/claude-sonnet-4-6",
    "deepseek": "deepseek/deepseek-chat",
    "groq": "groq/openai/gpt-oss-120b",
    "mistral": "mistral/mistral-small-latest",
    "openai": "openai/gpt-4o",
    "openai-compatible": "openai/some-model",
    "xai": "xai/grok-4",
}
"""By folder. No model here makes litellm look for its tokenizer on the network."""


def direct(url: str, recording: Path) -> Provider:
    return OpenAICompatible("recorded", url, api_key="placeholder")


def through_litellm(url: str, recording: Path) -> Provider:
    return LiteLLM(MODELS.get(recording.parent.name, "openai/some-model"), api_base=url, api_key="placeholder")


DIRECT = pytest.param(direct, id="direct")
LITELLM = pytest.param(through_litellm, id="litellm", marks=pytest.mark.filterwarnings("ignore"))
"""litellm and what it imports warn of themselves."""
VOICES = [DIRECT, LITELLM]


def direct_to(endpoint: Endpoint) -> Provider:
    return OpenAICompatible("conformance", endpoint.url, api_key=endpoint.key, read_timeout=endpoint.timeout)


def litellm_to(endpoint: Endpoint) -> Provider:
    return LiteLLM("openai/conformance", api_base=endpoint.url, api_key=endpoint.key, timeout=endpoint.timeout)
