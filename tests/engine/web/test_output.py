"""Typed outputs over HTTP: the outcome has the output as JSON, and the description its schema."""

from __future__ import annotations

from dataclasses import dataclass

import jsonschema
from endstop import Engine
from endstop.providers import Scripted, call
from endstop.service.service import Service
from pydantic import BaseModel

from ..temporary_store import TemporaryStore
from .site import site


class Author(BaseModel):
    name: str


class Book(BaseModel):
    """A book."""

    title: str
    authors: list[Author] = []


@dataclass
class Place:
    city: str


def service() -> Service:
    book = Engine(Scripted(lambda request: [call("final_result", title="Emma")]), output=Book)
    places = Engine(Scripted(lambda request: [call("final_result", result=[{"city": "Bath"}])]), output=list[Place])
    plain = Engine(Scripted(lambda request: "Emma"))
    return Service({"books": book, "the places": places, "plain": plain}, store=TemporaryStore(), grace=0)


async def test_an_outcome_has_the_output_as_json() -> None:
    async with site(service()) as at:
        found = {}
        for agent in ("books", "the places", "plain"):
            session = (await at.client.post("/sessions", json={"prompt": "Hi", "agent": agent})).json()
            found[agent] = await at.outcome(session["run_id"])
    assert found["books"]["output"] == {"title": "Emma", "authors": []}
    assert found["books"]["answer"] == '{"title":"Emma","authors":[]}'
    assert found["the places"]["output"] == [{"city": "Bath"}]
    assert "output" not in found["plain"]


async def test_the_description_has_the_schema_of_each_output() -> None:
    async with site(service()) as at:
        document = (await at.client.get("/openapi.json")).json()
        session = (await at.client.post("/sessions", json={"prompt": "Hi"})).json()
        outcome = await at.outcome(session["run_id"])
    schemas = document["components"]["schemas"]
    assert schemas["Outcome"]["properties"]["output"]["anyOf"] == [
        {"$ref": "#/components/schemas/Output.books"},
        {"$ref": "#/components/schemas/Output.the_places"},
    ]
    assert schemas["Output.books"]["properties"]["authors"]["items"] == {
        "$ref": "#/components/schemas/Output.books.Author"
    }
    assert schemas["Output.the_places"]["type"] == "array"
    jsonschema.Draft202012Validator({**document, "$ref": "#/components/schemas/Outcome"}).validate(outcome)
    outcome["output"] = {"name": "Emma"}
    assert not jsonschema.Draft202012Validator({**document, "$ref": "#/components/schemas/Outcome"}).is_valid(outcome)


async def test_metadata_is_stored_with_a_session_and_shown() -> None:
    async with site(service()) as at:
        made = await at.client.post("/sessions", json={"prompt": "Hi", "metadata": {"plan": "free"}})
        read = (await at.client.get(f"/sessions/{made.json()['id']}")).json()
        wrong = await at.client.post("/sessions", json={"prompt": "Hi", "metadata": ["free"]})
        large = await at.client.post("/sessions", json={"prompt": "Hi", "metadata": {"a": "x" * 20_000}})
    assert made.json()["metadata"] == read["metadata"] == {"plan": "free"}
    assert (wrong.status_code, large.status_code) == (422, 422)
