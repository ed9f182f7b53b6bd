"""What tests of providers share."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(autouse=True)
def _litellm_closed_where_a_loop_is(request: pytest.FixtureRequest) -> None:
    """A test that is no coroutine needs no loop, and gets none."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_litellm_closed")


@pytest.fixture
async def _litellm_closed() -> AsyncIterator[None]:
    """litellm keeps its clients for the process; here each test has a loop of its own, and closes them in it.

    It keeps two hundred and drops the others unclosed (up to 1.105), which would be said in a test that knows nothing
    of them.
    """
    yield
    if "litellm" in sys.modules:
        await sys.modules["litellm"].close_litellm_async_clients()
