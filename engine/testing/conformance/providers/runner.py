"""Runs one case on one adapter."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio

from ....decision import WrongUse
from ....decision.errors import nearest
from ....providers.errors import ProviderError
from ....providers.provider import Provider
from .cases import NEEDS, Case
from .endpoint import Endpoint
from .harness import Behaviour, Trial

PATIENCE = 20.0
"""Seconds that a case may take."""


class Cannot(unittest.SkipTest):
    """The adapter, or the wire, was declared unable to do this. Shown as skipped, by pytest and unittest."""


@dataclass(frozen=True)
class Passed:
    """A case that an adapter has passed."""

    case: Case
    closed_after: float | None = None
    """Seconds from leaving the stream to the close of its connection, where the case is about that."""


async def check(
    case: Case,
    make: Callable[[Any], Provider],
    *,
    serve: Callable[[Sequence[Behaviour]], AbstractAsyncContextManager[Any]] = Endpoint,
    cannot: Collection[str] = (),
) -> Passed:
    """Run a case on the adapter that `make` gives for what `serve` opens. Raises AssertionError, or Cannot.

    `serve` plays the case's behaviours, the n-th for the n-th request. By default it is an `Endpoint` of OpenAI's
    chat format; for another format write your own with the same `url`, `key`, `timeout`, `asked` and `left`. For
    an adapter without a wire say `contextlib.nullcontext`: `make` then gets the behaviours themselves. `cannot`
    names what the adapter is unable to do, in the words of `Case.needs`.
    """
    _check_declared(case, frozenset(cannot), frozenset(getattr(serve, "cannot", ())))
    async with serve(case.script) as site:
        trial = Trial(f"conformance case {case.name!r}", make(site), case.script, site, counts="usage" in case.needs)
        async with nullcontext() if case.bare else trial.opened():
            with anyio.move_on_after(PATIENCE) as patience:
                await _run(case, trial)
        if patience.cancelled_caught:
            trial.complain(f"nothing came of it within {PATIENCE:g} s")
    return Passed(case, trial.closed_after)


async def _run(case: Case, trial: Trial) -> None:
    try:
        await case.check(trial)
    except ProviderError as error:
        trial.check_keys(error)
        what = f"it failed as {error.kind!r} where nothing was wrong: {error.message}"
        raise AssertionError(f"{trial.name}: {what}") from error
    except (AssertionError, WrongUse):
        raise
    except Exception as error:
        trial.check_keys(error)
        what = f"{type(error).__name__} came out, and only a ProviderError may: {error}"
        raise AssertionError(f"{trial.name}: {what}") from error


def _check_declared(case: Case, adapter: frozenset[str], wire: frozenset[str]) -> None:
    for word in sorted(adapter - NEEDS.keys()):
        raise WrongUse(f"cannot={{{word!r}}} names nothing that a case needs{nearest(word, NEEDS)}")
    for missing, who in ((case.needs & adapter, "adapter"), (case.needs & wire, "wire")):
        if missing:
            raise Cannot(f"{case.name}: the {who} was declared unable to do {', '.join(sorted(missing))}")
