"""litellm: every provider it knows, behind one adapter. The only module that imports it, when first used."""

from __future__ import annotations


class LiteLLM:
    """A model by its litellm name, as `anthropic/claude-sonnet-4-5`."""
