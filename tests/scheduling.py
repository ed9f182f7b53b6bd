"""In which order pytest-xdist hands out files of tests to its workers: the longest first.

A worker that begins a long file when the others are nearly done is waited for by all. pytest-xdist goes by the number
of tests in a file, and some files of ten tests start servers, browsers or fleets, and take longer than others of two
hundred.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

WITH_LITELLM = "tests/providers/"
"""Where tests import litellm in their own process, which takes 5 s of CPU and 190 MB: one worker has them all."""
SECONDS_OF_A_TEST = 0.03
"""Of CPU, on average: what a file is taken for that is not named below."""
SECONDS = {
    WITH_LITELLM: 90.0,
}
"""Seconds of CPU of the files that take longest, with the processes that they start. Only the order matters."""


class Files(LoadFileScheduling):
    """`--dist loadfile`, in the order in which `sort` has put the files, and all files that import litellm are one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would go by the number of tests again

    def _split_scope(self, nodeid: str) -> str:
        return _file(nodeid)


def sort(items: list[pytest.Item]) -> None:
    """Put those files first that take longest; within a file nothing changes."""
    tests = Counter(_file(item.nodeid) for item in items)
    seconds = {file: SECONDS.get(file, count * SECONDS_OF_A_TEST) for file, count in tests.items()}
    items.sort(key=lambda item: (-seconds[_file(item.nodeid)], _file(item.nodeid)))


def _file(nodeid: str) -> str:
    return WITH_LITELLM if nodeid.startswith(WITH_LITELLM) else nodeid.partition("::")[0]
