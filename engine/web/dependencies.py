"""The service and its engine for endpoints of the user's own, as dependencies (FastAPI's `Depends`) or by a call."""

from __future__ import annotations

from starlette.requests import Request

from ..decision import WrongUse
from ..engine import Engine
from ..service.errors import Unavailable
from ..service.service import Service


def service_of(request: Request) -> Service:
    """The app's service. Raises WrongUse if the app's lifespan is not the service's."""
    service = getattr(request.state, "endstop", None)
    if not isinstance(service, Service):
        raise WrongUse(
            "the app has no service: give it the service's lifespan, as in FastAPI(lifespan=service.lifespan)"
        )
    return service


def engine_of(request: Request) -> Engine:
    """The engine of the app's service; of several the first. Raises Unavailable if it has none."""
    for engine in service_of(request).agents.values():
        return engine
    raise Unavailable("no_model", "the service has no engine")
