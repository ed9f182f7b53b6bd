"""What becomes of a run whose reader leaves: it goes on, or it ends, too (`on_disconnect=cancel`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..service.errors import Refusal
from ..service.service import Service
from ..store.base import StoredRun, StoreError


def cancelling(service: Service, run: StoredRun) -> Callable[[], Awaitable[None]]:
    """Cancels this run when it is called, unless it has ended, or the server is stopping and ends it anyhow."""

    async def cancel() -> None:
        if service.stopping:
            return
        try:
            session = await service.session(run.session_id)
            if session.run_id == run.id:
                await service.cancel(run.session_id, "disconnect")
        except (Refusal, StoreError):
            pass  # it has ended meanwhile

    return cancel
