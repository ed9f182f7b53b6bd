"""What tests of providers share."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def litellm_closed() -> AsyncIterator[None]:
    """litellm keeps its clients for the process; here each test has a loop of its own, and closes them in it."""
    yield
    if "litellm" in sys.modules:
        await sys.modules["litellm"].close_litellm_async_clients()
