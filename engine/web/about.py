"""The routes about the server itself: agents, health."""

from __future__ import annotations

from starlette.responses import Response

from .request import Asked, answer
from .schemas import AgentsTold, Health, agent_told


async def list_agents(asked: Asked) -> Response:
    """The agents that sessions can be started with."""
    return answer(AgentsTold(agents=[agent_told(name, engine) for name, engine in asked.service.agents.items()]))


async def read_health(asked: Asked) -> Response:
    """Whether the server takes new runs."""
    service = asked.service
    return answer(Health(status="stopping" if service.stopping else "ok", running=service.running))
