"""Metrics of a service: what this process counts, and what the store says of all processes together.

    text = await service.metrics.current_text()      # for Prometheus, as `GET /metrics` returns it

The store is asked at most every `FRESH_SECONDS`, however many ask for metrics, and nobody waits for it longer than
`readiness.ANSWER_SECONDS`: what it last said is then left out, and `endstop_store_reachable` is 0.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from ..base.metrics_registry import SECONDS, Metric, Metrics
from ..observers.agent_metrics import RUN_METRICS
from ..store.base import Overview, Store, StoreError
from .readiness import BoundedQuestion

FRESH_SECONDS = 5.0
"""For how long an answer of the store is used."""
SHARE = 20
"""An answer that took long is used for so many times as long, so that counting takes little of a database's time."""

STORE_REACHABLE = Metric(
    name="endstop_store_reachable", kind="gauge",
    meaning="1 if the store answered within a second, 0 if not; the other numbers of the store are then left out",
)  # fmt: skip
SESSIONS = Metric(
    name="endstop_sessions", kind="gauge", labels=("status",),
    meaning="Sessions in the store that are queued, running, awaiting_input or interrupted, without sub-agents",
)  # fmt: skip
OLDEST_QUEUED = Metric(
    name="endstop_oldest_queued_seconds", kind="gauge",
    meaning="For how long the session has been queued that waits longest; 0 if none waits",
)  # fmt: skip
PROCESSES = Metric(
    name="endstop_processes", kind="gauge", labels=("kind",), meaning="Processes that share the store, by kind",
)  # fmt: skip
LEASE_AGE = Metric(
    name="endstop_lease_age_seconds", kind="gauge", labels=("kind",),
    meaning="Time since the lease was renewed whose renewal is longest ago, of all processes of a kind",
)  # fmt: skip
FLEET_METRICS = (STORE_REACHABLE, SESSIONS, OLDEST_QUEUED, PROCESSES, LEASE_AGE)
"""Of all processes on the store: each of them shows the same numbers, so take the maximum, not the sum."""

RUNNING = Metric(name="endstop_running_sessions", kind="gauge", meaning="Sessions that run in this process")
START_SECONDS = Metric(
    name="endstop_start_seconds", kind="histogram", buckets=SECONDS,
    meaning="Time from the request for a run to its start in this process; only with a queue",
)  # fmt: skip
PUT_BACK = Metric(
    name="endstop_runs_put_back_total", kind="counter", labels=("why",),
    meaning="Runs that this process put back into the queue: of a process that `died`, because this one is `stopping`, "
    "because it `lost` them, or because the queue may have forgotten them (`waiting`)",
)  # fmt: skip
LOST = Metric(
    name="endstop_runs_lost_total", kind="counter",
    meaning="Runs that this process left unfinished, as it is stopping, was evicted, or another process has them",
)  # fmt: skip
EVICTED = Metric(
    name="endstop_processes_evicted_total", kind="counter", meaning="Dead processes that this one has evicted",
)  # fmt: skip
LEASES_LOST = Metric(
    name="endstop_leases_lost_total", kind="counter", meaning="How often this process was evicted, alive",
)  # fmt: skip
ARCHIVED = Metric(
    name="endstop_sessions_archived_total", kind="counter", meaning="Ended sessions put into the archive",
)  # fmt: skip
ARCHIVE_FAILURES = Metric(
    name="endstop_archive_failures_total", kind="counter",
    meaning="How often the archive could not be written; the sessions stay in the store, and it is tried again",
)  # fmt: skip
SERVICE_METRICS = (RUNNING, START_SECONDS, PUT_BACK, LOST, EVICTED, LEASES_LOST, ARCHIVED, ARCHIVE_FAILURES)

REQUESTS = Metric(
    name="endstop_http_requests_total", kind="counter", labels=("method", "route", "status"),
    meaning="HTTP requests by route and status; `none`: the client left before the response began",
)  # fmt: skip
RESPONSE_SECONDS = Metric(
    name="endstop_http_response_seconds", kind="histogram", labels=("route",), buckets=SECONDS,
    meaning="Time from an HTTP request to the start of its response",
)  # fmt: skip
READERS_DROPPED = Metric(
    name="endstop_readers_dropped_total", kind="counter",
    meaning="Event streams that were closed because their reader took nothing for too long",
)  # fmt: skip
HTTP_METRICS = (REQUESTS, RESPONSE_SECONDS, READERS_DROPPED)

RECEIVED_OPEN = Metric(
    name="endstop_received_sessions_open", kind="gauge", meaning="Received sessions that have not ended",
)  # fmt: skip
RECEIVED_SESSIONS = Metric(
    name="endstop_received_sessions_total", kind="counter", meaning="Sessions whose spans were received",
)  # fmt: skip
RECEIVED_SPANS = Metric(
    name="endstop_received_spans_total", kind="counter", labels=("kind",), meaning="Received spans",
)  # fmt: skip
RECEIVED_ALARMS = Metric(
    name="endstop_received_alarms_total", kind="counter", labels=("reason",),
    meaning="Received sessions that the watching policy would have stopped",
)  # fmt: skip
RECEIVED_METRICS = (RECEIVED_OPEN, RECEIVED_SESSIONS, RECEIVED_SPANS, RECEIVED_ALARMS)
"""Of a service that receives spans."""


class ServiceMetrics(Metrics):
    """The metrics of a service.

    store: asked for what it knows of all processes. running: returns how many sessions run in this process. receives:
    whether the service receives spans.
    """

    def __init__(self, store: Store, running: Callable[[], int], *, receives: bool = False) -> None:
        received = RECEIVED_METRICS if receives else ()
        super().__init__((*FLEET_METRICS, *SERVICE_METRICS, *RUN_METRICS, *HTTP_METRICS, *received))
        self._overview = OverviewReader(store)
        self._running = running
        self.on_refresh: Callable[[], None] = lambda: None
        """Called before the text is written, to set metrics that are counted elsewhere."""

    async def current_text(self) -> str:
        """Return all metrics as text in Prometheus' exposition format, version 0.0.4.

        It takes about a second at most: what a store that does not answer would say is left out.
        """
        await self.refresh()
        return self.text()

    async def refresh(self) -> None:
        """Read anew what is not counted as things happen, such as the sessions in the store; a second at most."""
        self._set_overview(await self._overview.read())
        self.set(RUNNING, {(): self._running()})
        self.on_refresh()

    def close(self) -> None:
        """Stop asking the store."""
        self._overview.close()

    def _set_overview(self, overview: Overview | None) -> None:
        self.set(STORE_REACHABLE, {(): int(overview is not None)})
        if overview is None:
            for metric in (SESSIONS, OLDEST_QUEUED, PROCESSES, LEASE_AGE):
                self.set(metric, {})
            return
        self.set(SESSIONS, {(status,): count for status, count in overview.sessions.items()})
        self.set(OLDEST_QUEUED, {(): overview.oldest_queued_seconds or 0.0})
        ages = defaultdict[str, list[float]](list)
        for process in overview.processes:
            ages[process.kind].append(max(0.0, process.lease_seconds - process.seconds_left))
        self.set(PROCESSES, {(kind,): len(those) for kind, those in ages.items()})
        self.set(LEASE_AGE, {(kind,): max(those) for kind, those in ages.items()})


class OverviewReader:
    """Reader of a store's overview. It keeps an answer for some seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest: Overview | None = None
        self._fresh_until = 0.0
        self._question = BoundedQuestion(self._read, "endstop store overview")

    async def read(self) -> Overview | None:
        """Return an answer of the last seconds; None if the store does not answer in time."""
        if self._latest is not None and asyncio.get_running_loop().time() < self._fresh_until:
            return self._latest
        reading = await self._question.answer()
        if not reading.done():
            return None
        try:
            return reading.result()
        except StoreError:
            return None

    async def _read(self) -> Overview:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._latest = None
        found = await self._store.overview()
        self._latest = found
        self._fresh_until = loop.time() + max(FRESH_SECONDS, SHARE * (loop.time() - began))
        return found

    def close(self) -> None:
        """Stop waiting for an answer."""
        self._question.close()
