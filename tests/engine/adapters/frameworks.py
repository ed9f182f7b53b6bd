"""The frameworks that have an adapter: what installs each, and what its examples and tests import."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Framework(NamedTuple):
    """extra: ours. packages: what is imported beside ours; the first is the one that the adapter itself needs."""

    extra: str
    packages: tuple[str, ...]


FRAMEWORKS = {
    "claude_agent_sdk": Framework("claude-agent-sdk", ("claude_agent_sdk",)),
    "google_adk": Framework("google-adk", ("google.adk",)),
    "langchain": Framework("langchain", ("langchain", "langchain_openai")),
    "openai": Framework("openai", ("openai",)),
    "openai_agents": Framework("openai-agents", ("agents",)),
    "pydantic_ai": Framework("pydantic-ai", ("pydantic_ai",)),
    "strands": Framework("strands", ("strands",)),
}
"""By the module of the adapter."""


def skip_without(module: str) -> None:
    """Skip a test whose framework is not installed."""
    for package in FRAMEWORKS[module].packages:
        pytest.importorskip(package, reason=f"{package} is not installed: `make test-adapters` installs it")
