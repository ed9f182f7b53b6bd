"""Your own app with the agent inside: one engine for all, its sessions under /agent, endpoints that use it.

    uvicorn fastapi_app:app --app-dir docs/examples
    curl localhost:8000/agent/sessions -H 'Content-Type: application/json' -d '{"prompt": "What is the port?"}'

Run by itself it serves once, asks itself, and stops. Without ENDSTOP_MODEL the model is a script.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Annotated, Any

import httpx
import uvicorn
from endstop import Engine, tool
from endstop.providers import LiteLLM, Provider, Scripted, call, say
from endstop.service import Service
from endstop.web import engine_of, service_of, until_disconnect, web
from fastapi import Depends, FastAPI, Request

CONFIG = {"host": "example.org", "port": "8080"}


@tool(reads=True)
def read_config() -> str:
    """Read the app's configuration."""
    return json.dumps(CONFIG)


def model() -> Provider:
    """The model that ENDSTOP_MODEL names, or a script that reads the configuration and answers."""
    if name := os.environ.get("ENDSTOP_MODEL"):
        return LiteLLM(name)

    def script(request: Any) -> Any:
        looked = any(getattr(message, "name", "") == "read_config" for message in request.messages)
        return (
            [say("The port is "), call("finish_task", summary="The port is 8080.")] if looked else call("read_config")
        )

    return Scripted(script)


service = Service(Engine(model(), tools=[read_config]), store=os.environ.get("ENDSTOP_STORE", "sessions.db"))
app = FastAPI(lifespan=service.lifespan)
app.mount("/agent", web(service))


@app.get("/ask")
async def ask(request: Request, question: str, engine: Annotated[Engine, Depends(engine_of)]) -> dict[str, str]:
    """An endpoint of the app's own: a run that nothing keeps, only its answer, and that ends if its client leaves."""
    outcome = await until_disconnect(request, engine.start(question))
    return {"status": outcome.status, "answer": outcome.answer}


@app.post("/nightly")
async def nightly(service: Annotated[Service, Depends(service_of)]) -> dict[str, str]:
    """Another one: a session that goes on after the request, and is kept."""
    session = await service.start("Check the configuration.")
    return {"follow": f"agent/sessions/{session.id}/events"}


async def main() -> None:
    """Serve on a free port, and be a client of it."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve([listening]))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        print("ask:", (await client.get("/ask", params={"question": "What is the port?"})).json()["answer"])
        session = (await client.post("/agent/sessions", json={"prompt": "What is the port?"})).json()
        async with client.stream("GET", f"/agent/runs/{session['run_id']}/events") as events:
            async for line in events.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    print("event:", event["seq"], event["type"])
        outcome = (await client.get(f"/agent/runs/{session['run_id']}/outcome")).json()
        print(f"{outcome['status']}: {outcome['answer']}")
        follow = (await client.post("/nightly")).json()["follow"]
        print("follow:", follow.partition("session_")[0] + "...")
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
