"""The OpenAPI 3.1 document of the HTTP interface, made from the table of operations and the types in it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ..base.version import __version__
from ..http.problems import MEDIA_TYPE, Problem
from ..http.sse import MEDIA_TYPE as SSE
from ..tools.output import OutputType
from .routes import JSON, Operation
from .server_limits import WebLimits

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    400: "The request is malformed, or `Last-Event-ID` is not valid.",
    401: "The token is missing or not valid.",
    403: "The request comes from a web page of another origin, or asks for what the operator has not allowed.",
    404: "There is no such thing, or it belongs to another owner.",
    408: "The body did not arrive in time.",
    409: "The state of the session does not allow it: ",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
    421: "The server serves only names of its machine.",
    422: "The body or the query is not valid, or a text is too long.",
    429: "Too many requests, readers or sessions; `Retry-After` says when to try again.",
    500: "An unexpected error; the log has it under the given id.",
    503: "The server is stopping, has no model, or its store or queue does not answer; `Retry-After` says when to try "
    "again.",
}
_IDS = {"session_id": "A session's id.", "run_id": "A run's id."}
_EVENT = {
    "type": "object",
    "description": "One server-sent event. `data` is an event as in a record, one line of JSON; if `event` is "
    "`lagged`, it says how many events are missing; if it is `judged`, what is known about the call whose result, or "
    "question whether it may run, is next.",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["data"],
}
_QUERY_TOKEN = "For `EventSource`, which cannot send a header. Only where `BearerTokens` protect the server."
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was received: the stream continues after it.",
    "schema": {"type": "string", "maxLength": 200},
}


def openapi_document(
    operations: Iterable[Operation],
    limits: WebLimits,
    *,
    protected: bool,
    outputs: Mapping[str, OutputType] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the document without `servers`.

    protected: requests need a token. outputs: the output schemas of agents with a type.
    """
    operations = tuple(operations)
    kinds: list[Any] = [Problem]
    kinds += [kind for operation in operations for kind in (operation.body, operation.response) if kind is not None]
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    for operation in operations:
        if operation.body is not None:
            _bound(components[operation.body.__name__], limits.text)
    if outputs:
        _add_outputs(components, outputs)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, protected)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "endstop",
            "version": __version__,
            "description": "Sessions of agents that know when to stop: start, follow, answer, steer and cancel them.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if protected:
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "query_token": {"type": "apiKey", "in": "query", "name": "token", "description": _QUERY_TOKEN},
        }
    return document


def _add_outputs(components: dict[str, Any], outputs: Mapping[str, OutputType]) -> None:
    """Add the schema of each agent's output, and the field of an outcome that holds one of them."""
    for agent, output in outputs.items():
        schema = json.loads(json.dumps(output.schema).replace('"#/$defs/', f'"#/components/schemas/{_output(agent)}.'))
        for name, inner in schema.pop("$defs", {}).items():
            components[f"{_output(agent)}.{name}"] = inner
        components[_output(agent)] = schema
    components["Outcome"]["properties"]["output"] = {
        "description": "The output of a run that has completed, by its agent; agents without a type have none.",
        "anyOf": [{"$ref": _REF.format(name=_output(agent))} for agent in outputs],
    }


def _output(agent: str) -> str:
    """Return the schema name of an agent's output, made of letters, digits, `.`, `-` and `_`, as OpenAPI requires."""
    return "Output." + re.sub(r"[^A-Za-z0-9._-]", "_", agent)


def _bound(schema: dict[str, Any], longest: int) -> None:
    """Add the maximum length of texts, a setting of the server, to a schema."""
    for name in ("prompt", "text"):
        if name in schema.get("properties", {}):
            given = schema["properties"][name]
            for one in given.get("anyOf", [given]):
                if one.get("type") == "string":
                    one["maxLength"] = longest


def _operation(operation: Operation, protected: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": inspect.getdoc(operation.handler),
        "parameters": [*_path(operation), *_query(operation)],
        "responses": _responses(operation, protected),
    }
    if operation.resumable:
        described["parameters"].append(_LAST_EVENT_ID)
    if operation.body is not None:
        described["requestBody"] = {"required": not operation.body_optional, "content": _content(JSON, operation.body)}
    if protected and operation.needs_token:
        described["security"] = [{"token": []}, {"query_token": []}] if operation.resumable else [{"token": []}]
    return described


def _path(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": what, "schema": {"type": "string"}}
        for name, what in _IDS.items()
        if f"{{{name}}}" in operation.path
    ]


def _query(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    properties: Mapping[str, Any] = components[operation.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _responses(operation: Operation, protected: bool) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.status): _success(operation)}
    responses |= {str(status): {"description": what} for status, what in operation.other_responses.items()}
    for status in _problems_of(operation, protected):
        what = _PROBLEMS[status]
        if status == 409:
            what += ", ".join(f"`{code}`" for code in operation.conflicts) + "."
        responses[str(status)] = {"description": what, "content": _content(MEDIA_TYPE, Problem)}
    return responses


def _success(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {"description": "Done."}
    if operation.response is not None:
        described["content"] = _content(operation.media_type, operation.response)
    elif operation.status == 200:
        schema = _EVENT if operation.media_type == SSE else {"type": "string"}
        described["content"] = {operation.media_type: {"schema": schema}}
    if operation.id == "start_session":
        described["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where the session is."}}
    return described


def _problems_of(operation: Operation, protected: bool) -> list[int]:
    statuses = [403, 421, 429, 500, 503]
    if protected and operation.needs_token:
        statuses.append(401)
    if "{" in operation.path or operation.id == "start_session":
        statuses.append(404)
    if operation.body is not None:
        statuses += [400, 408, 413, 415, 422]
    if operation.query is not None:
        statuses.append(422)
    if operation.resumable:
        statuses.append(400)
    if operation.conflicts:
        statuses.append(409)
    return sorted(set(statuses))


def _content(media_type: str, kind: type[Any]) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
