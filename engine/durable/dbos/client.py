"""The connection to DBOS's tables, its JSON format, its errors in plain words, and its log.

Values are stored as JSON: DBOS's default format is pickle, which executes what it reads.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from dbos import DBOS, DBOSClient, Serializer, error
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from ...base.sanitize import one_line
from ...decision import WrongUse
from ...durability import GivenRun, Job
from ...providers._logging import log_warning
from ...store.database import map_db_error
from .database_url import DatabaseUrl
from .turns import WAITING, QueuedRuns

APPLICATION = "endstop"
"""Our application name in DBOS's tables, which other applications may share."""
VERSION = "endstop"
"""The version of all runs. It never changes: DBOS gives a job only to processes of the job's version, and whether a run
can continue with other tools is decided elsewhere."""
WORKFLOW = "endstop.run"
IDLE_IN_TRANSACTION = 3.0
"""Seconds after which PostgreSQL ends the transaction of a process that is frozen in its middle: as long as the process
holds locks, nobody can take over its runs."""
_CONNECTIONS = 2
_IGNORED = (
    "Asyncio task cancelled",  # we cancel our tasks when `working` is left
    "Could not connect to postgres database to verify existence",  # we have checked it
    "Current version",
    "Duplicate registration",
    "Error connecting to the DBOS system database",
    "Exception encountered in asynchronous workflow",
    "Workflow already exists in queue",
)
_LOST_MESSAGE = "no longer owned by this execution"
_REPEAT_SECONDS = 60.0
_MAX_TEXT = 300


class DbosConnection:
    """DBOS's client, whose errors are raised as those of a `Queue` (see `map_errors`)."""

    def __init__(self, url: DatabaseUrl, client: DBOSClient) -> None:
        self.url = url
        self._client = client
        self._queued = QueuedRuns(client._sys_db)

    @classmethod
    async def connect(cls, url: DatabaseUrl) -> DbosConnection:
        """Connect to DBOS's database, and create or upgrade its tables.

        Raises WrongUse for settings that DBOS refuses, for a file that is not a database and for a pooler by
        transactions, ConnectionError if the database cannot be reached or used.
        """
        redirect_logs(url.secrets)
        with map_errors(url):
            await asyncio.to_thread(url.check_sessions)
            client = DBOSClient(
                system_database_url=url.url,
                serializer=JsonSerializer(),
                system_database_pool_size=_CONNECTIONS,
                application_name=APPLICATION,
                sys_db_idle_transaction_timeout_sec=IDLE_IN_TRANSACTION,
                lazy=True,
                retry_connection_errors=False,
            )
        try:
            with map_errors(url):
                # first, because otherwise DBOS would also create the database
                await client.check_connection_async()
                await asyncio.to_thread(DBOS.migrate, url.url)
        except BaseException:
            client.destroy()
            raise
        return cls(url, client)

    def close(self) -> None:
        """Close all connections."""
        self._client.destroy()

    async def register(
        self, queue: str, *, at_once: int, in_all: int | None, each: int | None, poll_seconds: float
    ) -> None:
        """Create the queue, or change its settings; the last process to do so decides for all.

        at_once: how many runs a process executes at the same time. in_all: how many all processes do, and each: how
        many of those may be of one owner; None for no limit.
        """
        with map_errors(self.url):
            if each is not None:
                await asyncio.to_thread(self._queued.name_owners, queue)
            await self._client.register_queue_async(
                queue,
                worker_concurrency=at_once if in_all is None else min(at_once, in_all),
                global_concurrency=in_all,
                partition_concurrency=each if each is None or in_all is None else min(each, in_all),
                polling_interval_sec=poll_seconds,
                application_name=APPLICATION,
            )

    async def ping(self) -> None:
        """Return once the database has answered."""
        with map_errors(self.url):
            await self._client.check_connection_async()

    async def enqueue(self, queue: str, job: Job) -> None:
        """Put a job into the queue, unless its run is queued or running."""
        owner = escape_name(job.owner)
        with map_errors(self.url), self._queued.submitting(owner) as submissions:
            known, turn = await asyncio.to_thread(self._queued.place, queue, job.run_id, owner)
            if known in WAITING:
                return
            if known is not None:
                await self.delete([job.run_id])
            with suppress(error.DBOSWorkflowIDInUseError):  # another process was faster
                await self._client.enqueue_async(
                    {
                        "workflow_name": WORKFLOW,
                        "queue_name": queue,
                        "workflow_id": job.run_id,
                        "workflow_id_reuse_policy": "reject",
                        "app_version": VERSION,
                        "application_name": APPLICATION,
                        "priority": submissions.take(turn),
                        "queue_partition_key": owner,
                    },
                    msgspec.to_builtins(job),
                )

    async def requeue(self, queue: str, run: str) -> None:
        """Put a run that is being executed back into the queue."""
        with map_errors(self.url), suppress(error.DBOSNonExistentWorkflowError):
            await self._client.resume_workflow_async(run, queue_name=queue)

    async def delete(self, runs: Sequence[str]) -> None:
        """Delete runs with their stored results."""
        with map_errors(self.url):
            await self._client.delete_workflows_async(list(runs))

    async def lost(self, runs: Sequence[str], seconds: float) -> list[str]:
        """Return those of these runs that are neither waiting nor were claimed less than `seconds` ago."""
        with map_errors(self.url):
            kept = await asyncio.to_thread(self._queued.kept, runs, seconds)
        return [run for run in runs if run not in kept]

    async def given_to_others(self, queue: str, processes: Sequence[str], after: GivenRun | None) -> list[GivenRun]:
        """Return the first runs of a queue that were given to a process that is not one of these."""
        with map_errors(self.url):
            return await asyncio.to_thread(self._queued.given_to_others, APPLICATION, queue, processes, after)

    async def running(self, queue: str, process: str | None = None, *, beside: str | None = None) -> list[str]:
        """Return ids of the runs of a queue that are being executed, in the order in which they were claimed.

        process: only those in this process; None for all. beside: only those of the owner of this run.
        """
        with map_errors(self.url):
            found = await self._client.list_workflows_async(
                queue_name=queue, status="PENDING", executor_id=process, load_input=False, load_output=False
            )
        owners = {run.workflow_id: run.queue_partition_key for run in found}
        found.sort(key=lambda run: (run.dequeued_at or 0, run.workflow_id))
        return [run.workflow_id for run in found if beside is None or owners[run.workflow_id] == owners.get(beside)]


@contextmanager
def map_errors(url: DatabaseUrl) -> Iterator[None]:
    """Raise errors of DBOS as the errors of a Queue."""
    try:
        yield
    except (error.DBOSNonExistentWorkflowError, error.DBOSWorkflowIDInUseError, ConnectionError):
        raise
    except error.DBOSException as refused:
        raise WrongUse(error_text(url, refused)) from None
    except (DBAPIError, NoConnection, OSError) as away:
        text = error_text(url, away)
        if url.is_a_file and "not a database" in text:
            raise WrongUse(f"{text}: name another file") from None
        raise ConnectionError(text) from None


def error_text(url: DatabaseUrl, raised: Exception) -> str:
    """Describe an error of the database in plain words, without passwords."""
    if url.is_a_file:
        cause = raised.orig if isinstance(raised, DBAPIError) else raised
        return f"{url.shown}: {cause}"
    return str(map_db_error(raised, url.shown, url.secrets))


class JsonText(str):
    """Text that is already JSON, so that `JsonSerializer` does not encode it again."""

    __slots__ = ()


class JsonSerializer(Serializer):
    """Serializer that stores values as JSON. An exception is stored as its text, and is not restored."""

    def name(self) -> str:
        """Return the name of the format, which is stored with each value."""
        return "endstop_json"

    def serialize(self, data: Any) -> str:
        """Encode a value."""
        if isinstance(data, JsonText):
            return str(data)
        if isinstance(data, BaseException):
            return encode_json({"error": type(data).__name__, "message": str(data)})
        return encode_json(data)

    def deserialize(self, serialized_data: str) -> Any:
        """Decode a value."""
        return json.loads(serialized_data)


def encode_json(value: Any) -> JsonText:
    """Encode a value as JSON that any database accepts. Raises TypeError or ValueError if JSON cannot express it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can express and UTF-8 cannot
        text = json.dumps(value, separators=(",", ":"))
    return JsonText(text)


def escape_name(text: str) -> str:
    """Return a unique name that any database accepts: the text, escaped as in a JSON string."""
    return json.dumps(text)[1:-1]


class LogHandler(logging.Handler):
    """Handler that logs DBOS's warnings without passwords, each at most once a minute: its threads repeat them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.secrets: frozenset[str] = frozenset()
        self._last: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, unless it is expected or was logged just now."""
        said = record.getMessage()
        if said.startswith(_IGNORED) or _LOST_MESSAGE in said:
            return
        place = (record.filename, record.lineno)
        at, suppressed = self._last.get(place, (float("-inf"), 0))
        if record.created < at + _REPEAT_SECONDS:
            self._last[place] = (at, suppressed + 1)
            return
        self._last[place] = (record.created, 0)
        if record.exc_info and record.exc_info[1] is not None:
            said = f"{said} {record.exc_info[1]!r}"
        for secret in self.secrets:
            said = said.replace(secret, "***")
        log_warning(
            "DBOS has a trouble", said=one_line(said, _MAX_TEXT), **({"as_before": suppressed} if suppressed else {})
        )


_LOG_HANDLER = LogHandler()


def redirect_logs(secrets: tuple[str, ...]) -> None:
    """Handle the log of DBOS. Must come first: DBOS makes a handler that writes to a stream if there is none."""
    _LOG_HANDLER.secrets |= set(secrets)
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(_LOG_HANDLER)
        logger.propagate = False
