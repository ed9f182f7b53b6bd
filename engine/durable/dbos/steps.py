"""The durable step, on DBOS."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from dbos import DBOS, error
from sqlalchemy.exc import DBAPIError

from ...durability import LostRun, NotKept, StepKey
from .client import Encoded, encoded, named
from .ownership import Ownership

LARGEST = 64_000_000
"""Letters of JSON that a result may have. PostgreSQL would take more; whoever reads them all again would not."""
_TAKEN_AWAY = (
    error.DBOSStepNondeterminismError,
    error.DBOSUnexpectedStepError,
    error.DBOSWorkflowCancelledError,
    error.DBOSWorkflowConflictIDError,
)


class _Unkept(BaseException):
    """Ends a step of DBOS without an outcome: what is no Exception it does not write down."""


class DbosSteps:
    """The steps of one execution of a run.

    DBOS finds a step's result by the step's number, which a run that goes on would count as before. We find it by its
    name: all results are read when the execution begins, and new steps get numbers that nobody had.
    """

    def __init__(self, ownership: Ownership, kept: dict[str, Any], upto: int) -> None:
        self._ownership = ownership
        self._kept = {name: encoded(result) for name, result in kept.items()}
        self._locks: dict[str, asyncio.Lock] = {}
        self._workflow = contextvars.copy_context()
        """In which DBOS knows what workflow this is; the work itself is done in its caller's."""
        while upto and DBOS.reserve_step().step_id < upto:
            pass

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """The kept result of this step, or that of `work`; see `Steps.step`."""
        name = named(str(key))
        async with self._locks.setdefault(name, asyncio.Lock()):
            if name not in self._kept:
                return await self._made(name, work)
        return json.loads(self._kept[name])

    async def _made(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        made: asyncio.Future[Encoded] = loop.create_future()

        async def outcome() -> Encoded:
            begun.set_result(None)
            return await made

        async def keep() -> None:
            await DBOS.run_step_async({"name": name}, outcome)

        # DBOS's part is a task in DBOS's context, so that `work` runs here, in the context and the scopes of its
        # caller, and so that a cancellation of the work is none of DBOS's
        keeping = loop.create_task(keep(), context=self._workflow.copy())
        try:
            await self._ownership.check()
            await asyncio.wait((begun, keeping), return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                await self._until_kept(keeping)
                raise LostRun(f"somebody else has done the step {name}")
            result = await work()
            text = _text_of(result)
        except BaseException:
            if not made.done():
                made.set_exception(_Unkept())
            keeping.add_done_callback(_unheard)
            made.add_done_callback(_unheard)
            raise
        asked_at = monotonic()
        made.set_result(text)
        await self._until_kept(keeping)
        self._ownership.confirm(asked_at)
        self._kept[name] = text
        return result

    async def _until_kept(self, keeping: asyncio.Task[None]) -> None:
        keeping.add_done_callback(_unheard)
        try:
            await asyncio.shield(keeping)
        except _TAKEN_AWAY as taken:
            raise LostRun(str(taken)) from None
        except DBAPIError as refused:
            raise NotKept(f"the database did not take the result: {refused.orig}") from None
        except AssertionError:  # what DBOS says if a run's row has been deleted
            await self._ownership.check()
            raise


def _text_of(result: Any) -> Encoded:
    try:
        text = encoded(result)
    except (TypeError, ValueError, RecursionError) as refused:
        raise NotKept(f"the result cannot be written as JSON: {refused}") from None
    if len(text) > LARGEST:
        raise NotKept(f"the result has {len(text):,} letters as JSON, and {LARGEST:,} can be kept")
    return text


def _unheard(future: asyncio.Future[Any]) -> None:
    """Nobody may be there any more who hears what became of it."""
    if not future.cancelled():
        future.exception()
