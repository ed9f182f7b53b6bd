"""A plain loop on DBOS, as it is written without endstop: a server that accepts sessions, and a worker that runs them.

    python tests/benchmarks/plain_durable.py serve URL
    python tests/benchmarks/plain_durable.py work URL API_BASE messages|events

The loop is the floor `bytes` of `floors.py`. Each response and each tool call is a step of DBOS (`run_step_async`),
whose result is what the loop needs to go on: the message. With `events` the chunks of each response are also kept, in
one row of a table of their own, as who wants to show a session again would; `messages` keeps nothing more. There is no
more in it: no record, limits, retries, cancelling, or readers. `serve` prints its port, `work` prints `ready`.
`tests/benchmarks/fleet.py` starts both.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import orjson
import uvicorn
from dbos import DBOS, DBOSClient
from floors import Floor, take
from sqlalchemy import create_engine, text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from task import add

QUEUE = "plain"
APPLICATION = "plain"
VERSION = "1"
POLL = 0.2
"""Seconds between two looks for sessions: endstop's default."""
AT_ONCE = 100
"""Sessions that a worker runs at once: endstop's default."""
TABLE = "CREATE TABLE IF NOT EXISTS plain_events (session text, step int, events bytea, PRIMARY KEY (session, step))"
INSERT = text("INSERT INTO plain_events VALUES (:session, :step, :events) ON CONFLICT DO NOTHING")

loop: PlainLoop


class PlainLoop(Floor):
    """The floor whose responses and calls are steps. events: where chunks are kept; None: nowhere."""

    def __init__(self, api_base: str, events: str | None) -> None:
        super().__init__("bytes", api_base)
        self._events = None if events is None else create_engine(events, pool_size=20)
        if self._events is not None:
            with self._events.begin() as connection:
                connection.execute(text(TABLE))

    async def run(self, prompt: str) -> str:
        """Run the session of the workflow in which this is called."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        for step in range(100):
            message = await DBOS.run_step_async({"name": "response"}, self.response, step, messages)
            messages.append(message)
            if not message["tool_calls"]:
                return str(message["content"])
            for call in message["tool_calls"]:
                function = call["function"]
                if function["name"] == "finish_task":
                    return str(json.loads(function["arguments"])["summary"])
                result = await DBOS.run_step_async({"name": function["name"]}, self.call, function["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return "100 steps"

    async def response(self, step: int, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the model, and return its message."""
        said: list[str] = []
        calls: list[dict[str, Any]] = []
        chunks: list[dict[str, Any]] = []
        async with self.http.post(self.url, data=self.body(messages)) as response:
            async for chunk in self.chunks_by_block(response):
                chunks.append(chunk)
                for choice in chunk["choices"]:
                    take(choice["delta"], said, calls)
        if self._events is not None:
            deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
            await asyncio.to_thread(self._keep, str(DBOS.workflow_id), step, orjson.dumps(deltas))
        return {"role": "assistant", "content": "".join(said), "tool_calls": calls}

    async def call(self, arguments: str) -> str:
        """Run the tool."""
        return str(await add(**json.loads(arguments)))

    def _keep(self, session: str, step: int, events: bytes) -> None:
        assert self._events is not None
        with self._events.begin() as connection:
            connection.execute(INSERT, {"session": session, "step": step, "events": events})


@DBOS.workflow(name="plain.run", max_recovery_attempts=None)
async def run(prompt: str) -> str:
    """One session."""
    return await loop.run(prompt)


async def work(url: str, api_base: str, kept: str) -> None:
    """Run sessions until the process is ended."""
    global loop
    loop = PlainLoop(api_base, url.replace("postgresql:", "postgresql+psycopg:") if kept == "events" else None)
    DBOS(
        config={
            "name": APPLICATION,
            "application_version": VERSION,
            "system_database_url": url,
            "enable_otlp": False,
            "log_level": "ERROR",
        }
    )
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    client = a_client(url)
    await client.register_queue_async(
        QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLL, application_name=APPLICATION
    )
    async with loop:
        print("ready", flush=True)
        await asyncio.Event().wait()


async def serve(url: str) -> None:
    """Accept sessions until the process is ended."""
    client = a_client(url)

    async def accept(request: Request) -> JSONResponse:
        options: Any = {
            "workflow_name": "plain.run",
            "queue_name": QUEUE,
            "app_version": VERSION,
            "application_name": APPLICATION,
        }
        handle = await client.enqueue_async(options, (await request.json())["prompt"])
        return JSONResponse({"id": handle.get_workflow_id()}, 201)

    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listening:
        print(listening.getsockname()[1], flush=True)
        app = Starlette(routes=[Route("/sessions", accept, methods=["POST"])])
        await uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).serve([listening])


def a_client(url: str) -> DBOSClient:
    """DBOS's client."""
    return DBOSClient(system_database_url=url, application_name=APPLICATION)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[2]) if sys.argv[1] == "serve" else work(*sys.argv[2:]))
