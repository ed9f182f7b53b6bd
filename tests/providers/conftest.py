"""What tests of providers share."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _litellm_closed_where_a_loop_is(request: pytest.FixtureRequest) -> None:
    """A test that is no coroutine needs no loop, and gets none."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_litellm_closed")


@pytest.fixture(scope="session")
def litellm_imported() -> Any:
    """Import litellm before a test begins to measure time, since the import can take a minute. Gives the module.

    Only `endstop.providers.litellm` may import it. Its objects are never freed, so the garbage collector is told to
    leave them out: `_collect_garbage` takes a fifth of the time then.
    """
    from endstop.providers.litellm import _import

    litellm = _import()
    _collect_garbage()
    gc.freeze()
    return litellm


def _collect_garbage() -> None:
    """Free what is not used any more. Clients of event loops that have ended warn when they are freed: not here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, litellm_imported: Any) -> Iterator[None]:
    """litellm over this transport (`aiohttp`, which is its default, or `httpx`), with clients of its own."""
    litellm = litellm_imported
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.WORKING_SECONDS", 30.0)  # for its first use of a thread
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", getattr(request, "param", "aiohttp") == "httpx")
    litellm.in_memory_llm_clients_cache.flush_cache()
    own = type(litellm.module_level_aclient)(timeout=600.0)  # some vendors are asked with this one, whatever is cached
    monkeypatch.setattr(litellm, "module_level_aclient", own)
    yield
    asyncio.run(own.close())
    asyncio.run(litellm.close_litellm_async_clients())
    litellm.in_memory_llm_clients_cache.flush_cache()
    _collect_garbage()


@pytest.fixture
async def _litellm_closed() -> AsyncIterator[None]:
    """litellm keeps its clients for the process; here each test has a loop of its own, and closes them in it.

    It keeps two hundred and drops the others unclosed (up to 1.105), which would be said in a test that knows nothing
    of them.
    """
    yield
    if "litellm" in sys.modules:
        await sys.modules["litellm"].close_litellm_async_clients()
