"""Whose key goes where: through litellm each provider is sent its own, and nobody is sent another's."""

from __future__ import annotations

import pytest
from endstop.decision import UserMessage, WrongUse
from endstop.providers import LiteLLM, ProviderError, Request

from .endpoint import Endpoint, delta, stream

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves

OURS = {"OPENAI_API_KEY": "key-of-openai", "ANTHROPIC_API_KEY": "key-of-anthropic", "AZURE_API_KEY": "key-of-azure"}
ANSWER = stream(delta(content="ok", finish="stop"))


async def keys_sent(model: str, **options: str) -> str:
    """All headers of one request to an address that was set by hand."""
    async with Endpoint(ANSWER) as endpoint:
        provider = LiteLLM(model, api_base=endpoint.url, **options)
        try:
            async with provider.stream(Request(messages=[UserMessage("go")])) as chunks:
                async for _ in chunks:
                    pass
        except ProviderError:
            assert model.startswith("anthropic/"), "whose format the answer is not in"
        return str(endpoint.headers[-1])


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("some-model", "key-of-openai"),
        ("openai/some-model", "key-of-openai"),
        ("anthropic/claude-sonnet-4-5", "key-of-anthropic"),
        ("azure/gpt-4o", "key-of-azure"),
        ("deepseek/deepseek-chat", "none"),
        ("hosted_vllm/some-model", ""),
    ],
)
async def test_a_provider_at_an_address_of_its_own_is_sent_its_own_key_and_no_other(
    model: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    sent = await keys_sent(model)
    assert key in sent
    assert [other for other in OURS.values() if other != key and other in sent] == []


@pytest.mark.parametrize("model", ["some-model", "anthropic/claude-sonnet-4-5", "azure/gpt-4o"])
async def test_a_key_that_was_given_goes_before_those_of_the_environment(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    sent = await keys_sent(model, api_key="key-that-was-given")
    assert "key-that-was-given" in sent
    assert "key-of" not in sent


async def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    assert "'authorization': 'Bearer none'" in await keys_sent("some-model")


@pytest.mark.parametrize(
    ("model", "name"),
    [("some-model", "OPENAI_API_KEY"), ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"), ("groq/llama", "GROQ_API_KEY")],
)
@pytest.mark.parametrize("value", ["", " "])
async def test_F15_an_empty_key_is_no_key_on_the_litellm_path(
    model: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert "none" in await keys_sent(model), "the placeholder that litellm insists on"
    with pytest.raises(WrongUse, match=name):
        async with LiteLLM(f"openai/{model}" if "/" not in model else model):
            pass
