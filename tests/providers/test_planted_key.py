"""A key that is planted in the environment or in the address appears nowhere that anybody could read it."""

from __future__ import annotations

import base64
import importlib
import logging
import re
from pathlib import Path

import pytest
from endstop.decision import FinishReport, TextDelta, WrongUse
from endstop.providers import LiteLLM, OpenAICompatible, RecordedError
from endstop.providers.endpoint_url import mask_url, split_credentials
from endstop.testing.conformance.providers import CASES, Behaviour, Ending, Endpoint, ProviderCase, check

from ..console import endstop
from .test_conformance import known
from .voices import litellm_to

KEY = "sk-planted-in-the-environment-51c7"
PASSWORD = "planted-in-the-address-8e02"
LOGIN = base64.b64encode(f"someone:{PASSWORD}".encode()).decode()
SECRETS = (KEY, PASSWORD, LOGIN)
ENDINGS: tuple[Ending, ...] = ("refused", "error", "garbled", "cut", "unfinished", "unreachable")
DEBUGGED_LOOP = {"PYTHONASYNCIODEBUG": "1"}
LOGGING = {**DEBUGGED_LOOP, "PYTHONDEVMODE": "1"}
"""For commands that do not import litellm: it shows more."""
UNSHAPED = "51c7a0f3be8402d951c7a0f3be8402d9"
"""A key that does not look like one."""
TOOLS = """
import asyncio
import warnings

from endstop import tool

warnings.resetwarnings()
warnings.simplefilter("default")
loop = asyncio.new_event_loop()
assert loop.get_debug()
loop.close()

@tool
async def note(text: str) -> str:
    "Note it."
    return text
"""
"""A file of tools for commands that import litellm, so that they show what PYTHONDEVMODE shows. With that itself they
could not be forked from what has imported litellm for all tests, and to import it once more takes 6 s of CPU."""
DEBUGGING = TOOLS + "import litellm\nlitellm._turn_on_debug()\n"
"""The same, and litellm says all that it does."""


def trouble(ends: Ending, quoted: str) -> Behaviour:
    """Errors quote what was sent, as it was sent and as `quoted`."""
    says = () if ends in ("refused", "unreachable") else (TextDelta("One moment"),)
    failure = RecordedError(kind="auth", status=401, message=f"Incorrect API key provided: {quoted}.")
    return Behaviour(says=says, ends=ends, failure=failure)


def with_login(url: str) -> str:
    return url.replace("//", f"//someone:{PASSWORD}@")


@pytest.mark.parametrize("place", ["environment", "address"])
@pytest.mark.parametrize("ends", ENDINGS)
async def test_the_direct_path_shows_it_nowhere(ends: Ending, place: str, tmp_path: Path) -> None:
    planted = KEY if place == "environment" else PASSWORD
    async with Endpoint([trouble(ends, planted)]) as endpoint:
        url = endpoint.url if place == "environment" else with_login(endpoint.url)
        await _run_and_look(tmp_path, LOGGING, "--api-base", url)
        sent = {headers.get("authorization") for headers in endpoint.headers}
    assert sent <= {f"Bearer {KEY}" if place == "environment" else f"Basic {LOGIN}"}
    assert sent or ends == "unreachable"


@pytest.mark.parametrize("ends", ["refused", "error", "garbled"])
async def test_litellm_shows_it_nowhere(ends: Ending, tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    async with Endpoint([trouble(ends, KEY)]) as endpoint:
        through = ("--provider", "litellm", "--api-base", endpoint.url, "--tools", str(tools))
        await _run_and_look(tmp_path, DEBUGGED_LOOP, *through)


async def _run_and_look(folder: Path, env: dict[str, str], *arguments: str) -> None:
    record = folder / "run.jsonl"
    given = ("--model", "m", "--record", record, "--json", "--explain", *arguments)
    done = await endstop("run", "Look around.", *given, env={"OPENAI_API_KEY": KEY, **env})
    assert done.code == 4, done.err
    assert "provider_error" in record.read_text()
    for text in (done.out, done.err, record.read_text()):
        assert [secret for secret in SECRETS if secret in text] == []


def limited(quoted: str) -> Behaviour:
    return Behaviour(
        ends="refused", failure=RecordedError(kind="rate_limit", status=429, message=f"{quoted}: slow down.")
    )


DEBUGGED: dict[str, Behaviour] = {
    "whole": Behaviour(says=(TextDelta("Port 8080."), FinishReport("stop", "stop"))),
    "401": trouble("refused", f"{KEY}, {UNSHAPED}"),
    "429": limited(f"{KEY}, {UNSHAPED}"),
    "cut": trouble("cut", KEY),
    "error in the stream": trouble("error", f"{KEY}, {UNSHAPED}"),
}


@pytest.mark.parametrize("case", DEBUGGED)
async def test_with_litellms_debug_log_on_nothing_of_ours_shows_a_key_and_the_log_none_that_looks_like_one(
    case: str, tmp_path: Path
) -> None:
    tools, record = tmp_path / "tools.py", tmp_path / "run.jsonl"
    tools.write_text(DEBUGGING)
    given = ("--provider", "litellm", "--model", "m", "--record", record, "--tools", tools, "--json", "--retries", "0")
    async with Endpoint([DEBUGGED[case]]) as endpoint:
        env = {"OPENAI_API_KEY": UNSHAPED, "OTHER_API_KEY": KEY, **DEBUGGED_LOOP}
        done = await endstop("run", "Hi", *given, "--api-base", endpoint.url, env=env)
    assert done.json["status"] == ("completed" if case == "whole" else "failed"), done.err
    assert "LiteLLM:DEBUG" in done.err, "the log is on"
    shown = done.out + record.read_text()
    assert (KEY in shown, UNSHAPED in shown, KEY in done.err) == (False, False, False)
    # litellm's own: what is named in docs/guides/providers.md, and no more than that
    assert (UNSHAPED in done.err) is (case == "error in the stream")


@pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves
@pytest.mark.parametrize("case", [known(case) for case in CASES if case.script[0].failure is not None])
async def test_with_litellms_debug_log_on_no_exception_shows_it(
    case: ProviderCase, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "LiteLLM")
    importlib.import_module("litellm")
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "handlers", [])  # its own, which prints on stdout
    await check(case, litellm_to)  # looks for the key in the whole chain of errors
    assert [record for record in caplog.records if record.name == "LiteLLM"], "the log is on"


@pytest.mark.parametrize("provider", ["openai", "litellm"])
async def test_wrong_use_shows_no_password(provider: str) -> None:
    env = LOGGING if provider == "openai" else DEBUGGED_LOOP
    for url in (f"http://someone:{PASSWORD}@host:port/v1", f"htp://{PASSWORD}@host/v1?key={KEY}"):
        done = await endstop("run", "Hi", "--model", "m", "--provider", provider, "--api-base", url, env=env)
        assert done.code == 2, done.err
        assert "***@host" in done.err
        assert [secret for secret in SECRETS if secret in done.out + done.err] == []


def test_a_key_and_a_user_cannot_both_be_sent() -> None:
    with pytest.raises(WrongUse, match="only one of them"):
        OpenAICompatible("m", with_login("http://host/v1"), api_key=KEY)
    with pytest.raises(WrongUse, match=re.escape("'http://***@host/v1' contains a user")):
        LiteLLM("m", api_base=with_login("http://host/v1"), api_key=KEY)


def test_an_address_is_parted_into_the_place_and_who_asks() -> None:
    assert split_credentials("http://me:p%40ss@host:1/v1") == ("http://host:1/v1", "me:p@ss")
    assert split_credentials("http://host:1/v1@2") == ("http://host:1/v1@2", "")
    assert mask_url("http://me:p%40ss@host:1/v1?key=x") == "http://***@host:1/v1?***"
    assert mask_url("no url") == "no url"
