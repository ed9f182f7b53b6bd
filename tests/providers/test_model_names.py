"""Names of models: those that are reached directly, and those of other libraries, which are told with ours."""

from __future__ import annotations

import re

import pytest
from endstop.decision import WrongUse
from endstop.providers import Anthropic, Fallback, Gemini, OpenAIResponses, Race, Retry
from endstop.providers.model_names import provider_for


@pytest.mark.parametrize(
    ("name", "kind"), [("anthropic/m", Anthropic), ("openai/m", OpenAIResponses), ("gemini/m", Gemini)]
)
def test_a_name_with_its_vendor_is_reached_directly(name: str, kind: type) -> None:
    assert isinstance(provider_for(name), kind)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("anthropic:claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("openai:gpt-5", "openai/gpt-5"),
        ("google-gla:gemini-2.5-flash", "gemini/gemini-2.5-flash"),
    ],
)
def test_a_colon_after_the_vendor_is_told_as_a_slash(theirs: str, ours: str) -> None:
    with pytest.raises(WrongUse) as error:
        provider_for(theirs)
    assert str(error.value) == f"model {theirs!r}: write {ours!r}"


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "gpt-5", "o3-mini", "gemini-2.5-flash"])
def test_without_litellm_a_name_without_its_vendor_is_told_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.providers.litellm.find_spec", lambda name: None)
    with pytest.raises(WrongUse, match=f"write '(anthropic|openai|gemini)/{name}'"):
        provider_for(name)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("anthropic/claude-sonnet-4-5", "Anthropic('anthropic/claude-sonnet-4-5')"),
        ("openai/gpt-5", "OpenAIResponses('openai/gpt-5')"),
        ("gemini/gemini-2.5-pro", "Gemini('gemini/gemini-2.5-pro')"),
        ("mistral/large", "LiteLLM('mistral/large')"),
    ],
)
def test_a_name_where_a_wrapper_takes_a_provider_is_told_with_its_provider(name: str, written: str) -> None:
    for wrapper in (Fallback, Race, Retry):
        with pytest.raises(WrongUse, match=re.escape(f"give its provider, as in {wrapper.__name__}({written})")):
            wrapper(name)  # type: ignore[arg-type]
