"""Runs one case on one adapter."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Collection
from pathlib import Path

import anyio

from ....decision import WrongUse
from ....decision.errors import nearest
from .adapter import Adapter
from .cases import NEEDS, Case
from .harness import Trial

PATIENCE = 60.0
"""Seconds that a case may take."""


class Cannot(unittest.SkipTest):
    """The engine was declared unable to do this. Shown as skipped, by pytest and unittest."""


async def check(case: Case, adapter: Adapter, *, cannot: Collection[str] = ()) -> None:
    """Run a case on an engine that holds nothing yet. Raises AssertionError, or Cannot.

    `cannot` names what the engine is unable to do, in the words of `Case.needs`. Processes are started by
    `multiprocessing`'s forkserver: a script that calls this needs `if __name__ == "__main__":`, and
    `multiprocessing.set_forkserver_preload` with the engine's packages, before the first case, makes them start sooner.
    """
    for word in sorted(set(cannot) - NEEDS.keys()):
        raise WrongUse(f"cannot={{{word!r}}} names nothing that a case needs{nearest(word, NEEDS)}")
    adapter.check()
    missing = {*cannot} | ({"limits"} if adapter.limited is None else set())
    missing |= {"servers"} if adapter.away is None else set()
    if case.needs & missing:
        raise Cannot(f"{case.name}: the engine was declared unable to do {', '.join(sorted(case.needs & missing))}")
    with tempfile.TemporaryDirectory(prefix="endstop-durable-") as folder:
        trial = Trial(f"conformance case {case.name!r}", adapter, Path(folder))
        try:
            with anyio.move_on_after(PATIENCE) as patience:
                await case.check(trial)
                trial.once()
            if patience.cancelled_caught:
                trial.complain(f"nothing came of it within {PATIENCE:g} s; it waited for: {trial.waiting}")
            trial.quiet()
        finally:
            await trial.close()
