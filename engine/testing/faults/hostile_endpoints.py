"""Serves misbehaving endpoints to a provider, over real connections, and checks how the run handles them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from ...decision import WrongUse
from ...decision import events as ev
from ...decision.wrong_calls import explained
from ...records.reader import RecordedRun, read_record
from ...run import Run
from .cancel_points import Attempt
from .hostile_http import HTTP_ENDPOINTS, HostileEndpoint
from .hostile_server import HostileServer
from .hostile_streams import STREAM_ENDPOINTS
from .invariants import Broken
from .peak_memory import PeakMemory
from .simulated_loop import check_no_loop
from .violations import FaultReport, Stopwatch, chosen_names, record_in

HOSTILE_ENDPOINTS: dict[str, HostileEndpoint] = {
    endpoint.name: endpoint for endpoint in (*HTTP_ENDPOINTS, *STREAM_ENDPOINTS)
}
"""All endpoints, by name."""
MakeRunAt = Callable[[Path, str], AbstractAsyncContextManager[Run[Any]]]
"""Function that makes a run from the path of a record and the endpoint's base URL (`http://127.0.0.1:PORT/v1`)."""


@explained
def check_hostile_endpoints(
    make_run: MakeRunAt,
    *,
    only: Sequence[str] | None = None,
    within: float = 7200.0,
    requests: int = 10,
    size: int = 100_000_000,
    memory: int = 500_000_000,
    seconds: float | None = None,
) -> FaultReport:
    """Let a run call each hostile endpoint, and check how it ends and what it leaves behind.

    An endpoint is a real server on 127.0.0.1. It answers in the format of chat completions, of the Responses API, of
    Anthropic or of Gemini, depending on the path of a request. The run is made on a loop with simulated time, so a
    stall of ten minutes takes no time.

    make_run: called with the path of a record and the endpoint's base URL; returns a run, as for `check_cancel_points`,
        whose answer may be a text. Give its provider a key, and it is checked that no record shows it.
    only: names from `HOSTILE_ENDPOINTS`; None for all.
    within: maximum simulated seconds of a run.
    requests: maximum number of requests that an endpoint may get.
    size: bytes after which an endless response ends. Reading that far is a violation, so give more than your provider
        reads: the providers of endstop read up to twice their `largest_response`, which is 32 MB.
    memory: maximum bytes by which the process may grow, at its peak.
    seconds: real seconds after which no further endpoint is tried; None for no limit.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and if no endpoint gets a request.
    """
    check_no_loop("check_hostile_endpoints")
    chosen = [HOSTILE_ENDPOINTS[name] for name in chosen_names(only, HOSTILE_ENDPOINTS)]
    report, watch, asked = FaultReport("check_hostile_endpoints", of=len(chosen)), Stopwatch(seconds), 0
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as checks:
        for endpoint in chosen:
            if report.full or watch.up:
                break
            grown = PeakMemory()
            trial = _Trial(endpoint, make_run, size)
            attempt = Attempt(trial.make_run, record_in(folder))
            took = grown.grown
            broken = checks.run(attempt.check())
            if attempt.raised is not None:
                broken.append(("passed_on", f"{type(attempt.raised).__name__}: {attempt.raised}"))
            broken += trial.broken(attempt, within, requests)
            if took > memory:
                broken.append(("bounded", f"the process grew by {took:,} bytes; the limit is {memory:,}"))
            report.tried += 1
            report.ends[attempt.ended] += 1
            asked += trial.asked
            report.add(endpoint.name, 1, broken, f"only=[{endpoint.name!r}]")
    if report.tried and not asked and report.ok:
        raise WrongUse("check_hostile_endpoints: no endpoint got a request: give the URL to the provider of the run")
    report.seconds = watch.passed
    return report


class _Trial:
    """A run and one endpoint."""

    def __init__(self, endpoint: HostileEndpoint, make_run: MakeRunAt, size: int) -> None:
        self._endpoint, self._make_run, self._size = endpoint, make_run, size
        self._server: HostileServer | None = None

    @property
    def asked(self) -> int:
        """Number of received requests."""
        return 0 if self._server is None else self._server.requests

    @asynccontextmanager
    async def make_run(self, record: Path) -> AsyncIterator[Run[Any]]:
        """Yield the run with its endpoint, which closes after the run was left."""
        async with (
            HostileServer(self._endpoint.answer, self._size) as self._server,
            self._make_run(record, self._server.url) as run,
        ):
            yield run

    def broken(self, attempt: Attempt, within: float, requests: int) -> list[Broken]:
        """Return the broken invariants of the run and the endpoint, in addition to those of all runs."""
        server = self._server
        if server is None:
            return []
        broken: list[Broken] = []
        if attempt.lasted > within:
            broken.append(("bounded", f"the run took {attempt.lasted:,.0f} simulated seconds, limit {within:,.0f}"))
        if server.requests > requests:
            broken.append(("bounded", f"the endpoint got {server.requests} requests; the limit is {requests}"))
        if server.read_all:
            broken.append(("bounded", f"an endless response was read to its end, {self._size:,} bytes"))
        if server.strayed:
            broken.append(("same_host", f"the other host got {server.strayed} connections"))
        if server.open:
            broken.append(("nothing_left", f"{server.open} connections were not closed"))
        return broken + self._broken_in_record(attempt.path, server.keys)

    def _broken_in_record(self, path: Path, keys: set[str]) -> list[Broken]:
        written = path.read_bytes() if path.exists() else b""
        broken: list[Broken] = []
        if any(key and key.encode() in written for key in keys):
            broken.append(("key_hidden", "the key is in the record"))
        try:
            run = read_record(path).runs[-1]
        except WrongUse:
            return broken  # reported by the other invariants
        status = None if run.finished is None else run.finished.outcome.status
        wanted = self._endpoint.acceptable
        if wanted != "either" and (status == "completed") is (wanted == "failed"):
            detail = "" if run.finished is None else run.finished.outcome.detail
            broken.append(("acceptable", f"it ended as {status}, and should have {wanted}: {detail}"))
        if not self._endpoint.runs_calls and (done := _done_by_first_answer(run)):
            broken.append(("acceptable", f"a call that was never complete was executed: {', '.join(done)}"))
        return broken


def _done_by_first_answer(run: RecordedRun) -> list[str]:
    """Return the effects of the calls of the first step."""
    first = [event for event in run.events if getattr(event, "step", 1) == 1]
    return [str(type(e).__name__) for e in first if isinstance(e, ev.ToolExecutionStarted | ev.CompletionAccepted)]
