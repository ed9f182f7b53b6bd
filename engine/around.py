"""What goes on around a whole run, in the run's own task: tracing, a logging context, a transaction of yours.

    @asynccontextmanager
    async def tenant(run: Run) -> AsyncIterator[None]:
        token = TENANT.set("a")          # seen by tools, provider, gates, evaluator and subscribers of this run
        yield
        TENANT.reset(token)

    engine = Engine(provider, around=[tenant])

One task enters and leaves it, so that a context variable or a span that it sets is the run's, and nobody else's. The
run is attached when it is entered (`run.context` is there) and has its outcome when it is left. One that raises when
it is entered keeps the run from beginning, and whoever starts the run gets the error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Run

Around = Callable[["Run"], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def all_around(each: Sequence[Around], run: Run) -> AsyncIterator[None]:
    """Enter all of them, the first outermost."""
    async with AsyncExitStack() as stack:
        for around in each:
            await stack.enter_async_context(around(run))
        yield
