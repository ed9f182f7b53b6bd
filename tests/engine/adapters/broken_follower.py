"""A follower with an error of ours in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from endstop.follow import Follower

METHODS = ("prompt", "chunk", "decide")
"""Where it may fail: as a run begins, as a response streams, between two steps."""


@contextmanager
def broken(method: str) -> Iterator[None]:
    """A method of all followers raises an error."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Follower, method, fail)
        yield
