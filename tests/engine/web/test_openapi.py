"""The description of the interface: it is what the routes do, and schemathesis cannot show otherwise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from endstop.providers import Scripted
from endstop.web import BearerTokens, WebLimits, web
from endstop.web.openapi import openapi_document
from endstop.web.routes import OPERATIONS
from hypothesis import HealthCheck, Phase, settings
from starlette.routing import Route

from .site import PATIENCE, Site, by_prompt, service_with, site

LIMITS = WebLimits(requests_per_second=None, text=500, write_interval=0)
EXAMPLES = 5 if settings.default.derandomize else 25
"""How many random requests each operation gets, beside some 30 at the bounds of each part of its description. Fewer
where they are the same ones in each run."""


def test_every_operation_is_a_route_and_every_route_an_operation() -> None:
    routes = web(service_with(Scripted()), page=False).routes
    served = {
        (method, route.path)
        for route in routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served - {("GET", "/openapi.json")} == {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_operation_is_described_with_all_that_it_takes_and_answers() -> None:
    document = openapi_document(OPERATIONS, LIMITS, protected=True)
    assert document["openapi"] == "3.1.0"
    for operation in OPERATIONS:
        told = document["paths"][operation.path][operation.method.lower()]
        assert told["summary"].endswith("."), operation.id
        assert ("requestBody" in told) == (operation.body is not None)
        assert {"429", "500", "503"} <= set(told["responses"])
        assert ("401" in told["responses"]) == ("security" in told) == operation.needs_token
    ids = [operation.id for operation in OPERATIONS]
    assert len(ids) == len(set(ids))


def test_the_description_names_no_type_that_it_does_not_hold() -> None:
    document = openapi_document(OPERATIONS, LIMITS, protected=False)
    named = set(_references(document))
    assert {name.rpartition("/")[2] for name in named} <= set(document["components"]["schemas"])
    assert (
        document["components"]["schemas"]["SessionRequest"]["properties"]["prompt"]["anyOf"][0]["maxLength"]
        == LIMITS.text
    )


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


async def test_the_description_names_the_place_where_it_is_mounted() -> None:
    async with site(auth=BearerTokens({"a": "token"})) as at:
        document = (await at.client.get("/openapi.json")).json()
    assert document["servers"] == [{"url": "/"}]
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


# ---- schemathesis, against a real server in a thread of its own


@contextmanager
def in_a_thread() -> Iterator[Site]:
    """A server that is up while the test's own thread asks it."""
    up, over = threading.Event(), threading.Event()
    found: list[Site] = []

    async def serve() -> None:
        async with site(service_with(by_prompt({})), limits=LIMITS) as at:
            session = await at.start()
            await at.outcome(session["run_id"])
            found.append(at)
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(PATIENCE)
        yield found[0]
    finally:
        over.set()
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with in_a_thread() as at:
        yield at.port


CONFIG = {
    "checks": {
        # `before` and `Last-Event-ID` are places that only the server can know
        "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "404", "409", "400", "422"]},
    }
}
DOCUMENT = openapi_document(OPERATIONS, LIMITS, protected=False)


def test_the_description_that_is_served_is_the_one_that_is_tested(port: int) -> None:
    served = requests.get(f"http://127.0.0.1:{port}/openapi.json", timeout=PATIENCE).json()
    assert served.pop("servers") == [{"url": "/"}]
    assert served == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> Any:
    """What schemathesis reads. Not at collection, which takes it 1.4 s, in each worker of pytest-xdist."""
    request.node._nodeid = request.node.nodeid  # schemathesis 4 changes it there, and pytest 9.2 has it elsewhere
    return schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config.from_dict(CONFIG))


@pytest.fixture(scope="module")
def client() -> Iterator[requests.Session]:
    """An HTTP client for all requests: making one with its connection takes longer than an answer does."""
    with requests.Session() as made:
        made.trust_env = False
        yield made


BUSY = settings(deadline=None, suppress_health_check=list(HealthCheck))


@schemathesis.pytest.from_fixture("schema").parametrize()
@settings(BUSY, max_examples=EXAMPLES)
def test_schemathesis_finds_no_answer_that_is_not_described(case: Any, port: int, client: requests.Session) -> None:
    _ask(case, port, client)


@pytest.mark.long
@schemathesis.pytest.from_fixture("schema").parametrize()
@settings(BUSY, max_examples=100, phases=[Phase.generate])
def test_schemathesis_finds_none_with_many_random_requests(case: Any, port: int, client: requests.Session) -> None:
    _ask(case, port, client)


def _ask(case: Any, port: int, client: requests.Session) -> None:
    case.call_and_validate(base_url=f"http://127.0.0.1:{port}", session=client, timeout=PATIENCE)
    assert not client.cookies
