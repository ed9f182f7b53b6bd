"""Who may ask, for whose sessions, how often; and what no answer, log or page ever shows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.process.listening import is_loopback
from endstop.providers import Scripted
from endstop.testing import FakeClock
from endstop.web import BearerTokens, WebLimits, web
from fastapi import FastAPI
from starlette.requests import Request

from ...captured_logs import capture_logs
from .site import Gate, client_at, done, service_with, serving, site

ALICE, BOB = {"authorization": "Bearer alice-token"}, {"authorization": "Bearer bob-token"}
TOKENS = BearerTokens({"alice": "alice-token", "bob": "bob-token"})
ASKED: list[tuple[str, str]] = [
    ("GET", "/sessions/{session}"),
    ("DELETE", "/sessions/{session}"),
    ("POST", "/sessions/{session}/runs"),
    ("POST", "/sessions/{session}/answers"),
    ("POST", "/sessions/{session}/messages"),
    ("POST", "/sessions/{session}/cancel"),
    ("POST", "/sessions/{session}/resume"),
    ("GET", "/sessions/{session}/events"),
    ("GET", "/sessions/{session}/record"),
    ("GET", "/runs/{run}"),
    ("GET", "/runs/{run}/events"),
    ("GET", "/runs/{run}/outcome"),
]
BODIES = {"runs": {"prompt": "x"}, "answers": {"text": "x"}, "messages": {"text": "x"}}

WRONG = ["", "Bearer", "Bearer x", "Bearer alice-token2", "Bearer alice-toke", "Basic alice-token", "alice-token",
         "Bearer alice-token bob-token", "Bearer ALICE-TOKEN", "Bearer ä"]  # fmt: skip


@pytest.mark.parametrize("shown", WRONG)
async def test_a_wrong_token_is_refused_and_nothing_is_started(shown: str) -> None:
    async with site(auth=TOKENS) as at:
        headers = {"authorization": shown.encode()} if shown else {}
        refused = await at.client.post("/sessions", json={"prompt": "Hi"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert "alice" not in refused.text
        assert (await at.client.get("/sessions", headers=ALICE)).json()["sessions"] == []


async def test_every_operation_asks_for_a_token_but_for_those_that_say_they_do_not() -> None:
    async with site(auth=TOKENS) as at:
        for method, path in [*ASKED, ("GET", "/sessions"), ("POST", "/sessions"), ("GET", "/agents")]:
            assert (await at.client.request(method, path)).status_code == 401, (method, path)
        for path in ("/health", "/openapi.json"):
            assert (await at.client.get(path)).status_code == 200


@pytest.mark.parametrize(("method", "path"), ASKED)
async def test_a_foreign_session_is_not_there(method: str, path: str) -> None:
    gate = Gate()
    async with site(auth=TOKENS, provider=Scripted([gate, done()])) as at:
        session = await at.start(headers=ALICE)
        path = path.format(session=session["id"], run=session["run_id"])
        body = BODIES.get(path.rpartition("/")[2])
        foreign = await at.client.request(method, path, headers=BOB, json=body)
        missing = await at.client.request(method, path.replace("n_", "n_0"), headers=BOB, json=body)
        assert (foreign.status_code, foreign.json()["code"]) == (missing.status_code, missing.json()["code"])
        assert foreign.status_code == 404
        assert (await at.client.get("/sessions", headers=BOB)).json()["sessions"] == []
        gate.open()
        assert (await at.outcome(session["run_id"], headers=ALICE))["status"] == "completed"


async def test_an_owner_is_whom_the_users_own_function_names() -> None:
    async def by_cookie(request: Request) -> str | None:
        return request.cookies.get("user")

    async with site(auth=by_cookie) as at:
        assert (await at.client.get("/sessions")).status_code == 401
        session = await at.start(headers={"cookie": "user=carol"})
        mine = await at.client.get(f"/sessions/{session['id']}", headers={"cookie": "user=carol"})
        theirs = await at.client.get(f"/sessions/{session['id']}", headers={"cookie": "user=dave"})
        assert (mine.status_code, theirs.status_code) == (200, 404)
        page = {"cookie": "user=carol", "origin": "http://evil.example"}
        assert (await at.client.post(f"/sessions/{session['id']}/cancel", headers=page)).status_code == 403


# ---- tokens


def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# who may ask\n\nalice:alice-token\n bob : bob:token\nalice: another\n", encoding="utf-8")
    tokens = BearerTokens.from_file(file)

    def owner(token: str) -> str | None:
        return tokens(Request({"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}))

    assert [owner(token) for token in ("alice-token", "bob:token", "another", "bob", "")] == [
        "alice", "bob", "alice", None, None,
    ]  # fmt: skip
    assert "alice-token" not in repr(vars(tokens))


@pytest.mark.parametrize(
    "text", ["", "# nobody\n", "alice\n", "alice:\n", ":token\n", "a:one\nb:one\n", "a:t\u00f6ken\n"]
)
def test_a_file_without_good_tokens_is_wrong_use(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(WrongUse):
        BearerTokens.from_file(file)


def test_a_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="cannot be read"):
        BearerTokens.from_file(tmp_path / "none")


# ---- a token in the query: `EventSource` cannot send a header

STREAMS = ["/sessions/{session}/events", "/sessions/{session}/ag-ui", "/runs/{run}/events"]


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("name", ["token", "t%6Fken"])
async def test_a_stream_takes_the_token_in_its_query(path: str, name: str) -> None:
    gate = Gate()
    async with site(auth=TOKENS, provider=Scripted([gate, done()])) as at:
        session = await at.start(headers=ALICE)
        path = path.format(session=session["id"], run=session["run_id"])
        async with at.stream(f"{path}?{name}=alice-token&last_event_id=") as events:
            assert events.response.status_code == 200
            assert (await anext(aiter(events))).data["type"].startswith("RUN_STARTED")
            gate.open()
        for wrong, status in (("bob-token", 404), ("alice-toke", 401), ("", 401), ("%C3%A4", 401)):
            assert (await at.client.get(f"{path}?token={wrong}")).status_code == status


async def test_a_token_in_the_header_comes_first() -> None:
    async with site(auth=TOKENS) as at:
        session = await at.start(headers=ALICE)
        path = f"/runs/{session['run_id']}/events?token="
        refused = await at.client.get(f"{path}alice-token", headers={"authorization": "Bearer no"})
        assert refused.status_code == 401
        async with at.stream(f"{path}no", headers=ALICE) as events:
            assert events.response.status_code == 200
            await events.all()


@pytest.mark.parametrize(("method", "path"), [asked for asked in ASKED if asked[1] not in STREAMS])
async def test_nothing_but_a_stream_takes_a_token_in_its_query(method: str, path: str) -> None:
    async with site(auth=TOKENS) as at:
        session = await at.start(headers=ALICE)
        path = path.format(session=session["id"], run=session["run_id"])
        refused = await at.client.request(method, f"{path}?token=alice-token", json=BODIES.get("runs"))
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


async def test_without_tokens_there_is_no_such_parameter() -> None:
    async def everybody(request: Request) -> str:
        return "everybody"

    for auth in (None, everybody):
        async with site(auth=auth) as at:
            session = await at.start()
            refused = await at.client.get(f"/runs/{session['run_id']}/events?token=x")
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


async def test_who_tries_tokens_in_queries_is_held_up() -> None:
    async with site(auth=TOKENS, limits=WebLimits(requests_per_second=1), clock=FakeClock()) as at:
        tried = [(await at.client.get(f"/runs/r/events?token={n}")).status_code for n in range(7)]
        assert tried == [401] * 6 + [429]


async def test_no_log_shows_the_token_in_a_query(caplog: pytest.LogCaptureFixture) -> None:
    service = service_with(Scripted())
    app = FastAPI(lifespan=service.lifespan)
    app.mount("/agent", web(service, auth=TOKENS, access_log=True, signals=False))
    caplog.set_level("DEBUG")
    asked = ("/runs/r/events?token=alice-token&x=1", "/sessions?token=alice-token", "/?token=alice-token")
    with capture_logs() as ours:
        async with service, serving(app, access_log=True) as (port, _), client_at(f"http://127.0.0.1:{port}") as client:
            told = [await client.get(f"/agent{path}") for path in asked]
    theirs = [record.getMessage() for record in caplog.records if record.name == "uvicorn.access"]
    assert [response.status_code for response in told] == [422, 401, 200]
    assert [line["path"] for line in ours if line["event"] == "request"] == [f"/agent{p.split('?')[0]}" for p in asked]
    assert ["/agent/runs/r/events?x=1" in theirs[0], len(theirs)] == [True, 3]
    assert "alice-token" not in f"{ours}{theirs}{[response.text for response in told]}"


# ---- without a token


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.evil.example", "[::2]", "0.0.0.0"],
)
async def test_without_tokens_only_names_of_this_machine_are_answered(host: str) -> None:
    async with site() as at:
        refused = await at.client.get("/health", headers={"host": host})
        assert (refused.status_code, refused.json()["code"]) == (421, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:80", "127.9.9.9", "app.localhost"])
async def test_names_of_this_machine_are_answered(host: str) -> None:
    async with site() as at:
        assert (await at.client.get("/health", headers={"host": host})).status_code == 200


async def test_other_names_are_answered_where_they_were_named_or_tokens_are_asked_for() -> None:
    async with site(hosts=["agent.example"]) as at:
        assert (await at.client.get("/health", headers={"host": "agent.example:80"})).status_code == 200
        assert (await at.client.get("/health", headers={"host": "evil.example"})).status_code == 421
    async with site(auth=TOKENS) as at:
        assert (await at.client.get("/health", headers={"host": "agent.example"})).status_code == 200


FOREIGN: list[dict[str, str]] = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:1"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_what_a_page_of_another_origin_sends_is_refused(headers: dict[str, str]) -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        for method, path in (
            ("POST", f"/sessions/{session['id']}/cancel"),
            ("GET", f"/runs/{session['run_id']}/events"),
        ):
            refused = await at.client.request(method, path, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "origin")
        assert await at.status(session["id"]) == "running"


async def test_the_servers_own_page_may_ask_and_a_link_from_elsewhere_opens_it() -> None:
    async with site() as at:
        own = {"origin": f"http://127.0.0.1:{at.port}", "sec-fetch-site": "same-origin"}
        assert (await at.client.post("/sessions", json={"prompt": "Hi"}, headers=own)).status_code == 201
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await at.client.get("/health", headers=link)).status_code == 200


async def test_pages_of_named_origins_may_ask_and_no_others() -> None:
    app = {"origin": "https://app.example"}
    async with site(cors=["https://app.example"]) as at:
        response = await at.client.get("/health", headers=app)
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        asks = {**app, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        assert (await at.client.options("/sessions", headers=asks)).status_code == 200
        evil = {**asks, "origin": "https://evil.example"}
        refused = await at.client.options("/sessions", headers=evil)
        assert (refused.status_code, refused.json()["code"]) == (403, "origin")
    async with site() as at:
        assert "access-control-allow-origin" not in (await at.client.get("/health")).headers


def test_any_page_may_ask_only_where_tokens_are_asked_for() -> None:
    with pytest.raises(WrongUse, match="tokens"):
        web(service_with(Scripted()), cors=["*"])
    web(service_with(Scripted()), cors=["*"], auth=TOKENS)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.1.2.3", "::1", "a.localhost"])
def test_a_name_of_this_machine(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize("name", ["", "localhost.", "10.0.0.1", "::", "0.0.0.0", "example", "127.1", "::ffff:8.8.8.8"])
def test_a_name_of_another_machine(name: str) -> None:
    assert not is_loopback(name)


# ---- what is on every answer


async def test_every_answer_carries_what_protects_a_page() -> None:
    async with site(auth=TOKENS) as at:
        for path, headers in (("/", {}), ("/health", {}), ("/sessions", ALICE), ("/sessions", {}), ("/nothing", {})):
            told = (await at.client.get(path, headers=headers)).headers
            assert "default-src 'none'" in told["content-security-policy"]
            assert "unsafe" not in told["content-security-policy"]
            assert told["x-content-type-options"] == "nosniff"
            assert told["referrer-policy"] == "no-referrer"
            assert "server" not in told
        assert (await at.client.get("/sessions", headers=ALICE)).headers["cache-control"] == "no-store"


# ---- limits


async def test_so_many_readers_and_no_more_in_all_and_for_each_owner() -> None:
    limits = WebLimits(requests_per_second=None, subscribers=3, subscribers_each=2)
    gates = [Gate() for _ in range(3)]
    async with site(auth=TOKENS, provider=Scripted(*([gate, done()] for gate in gates)), limits=limits) as at:
        alices, bobs = await at.start(headers=ALICE), await at.start(headers=BOB)

        def read(session: dict[str, Any], headers: dict[str, str]) -> Any:
            return at.stream(f"/runs/{session['run_id']}/events", headers=headers)

        async def refused(session: dict[str, Any], headers: dict[str, str]) -> None:
            response = await at.client.get(f"/runs/{session['run_id']}/events", headers=headers)
            assert (response.status_code, response.json()["code"]) == (429, "subscribers")
            assert int(response.headers["retry-after"]) >= 1

        async with read(alices, ALICE), read(alices, ALICE):
            await refused(alices, ALICE)
            async with read(bobs, BOB):
                await refused(bobs, BOB)
        async with asyncio.timeout(60):
            while at.state.tasks:
                await asyncio.wait(list(at.state.tasks))
        async with read(alices, ALICE), read(bobs, BOB), read(bobs, BOB):
            pass
        for gate in gates:
            gate.open()


async def test_so_many_requests_a_second_and_no_more_for_each_owner() -> None:
    clock = FakeClock()
    limits = WebLimits(requests_per_second=2)
    async with site(auth=TOKENS, limits=limits, clock=clock) as at:

        async def asked(headers: dict[str, str]) -> Any:
            return await at.client.get("/sessions", headers=headers)

        assert [(await asked(ALICE)).status_code for _ in range(12)] == [200] * 12
        refused = await asked(ALICE)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate")
        assert refused.headers["retry-after"] == "1"
        assert (await asked(BOB)).status_code == 200
        await clock.advance(0.5)
        assert (await asked(ALICE)).status_code == 200
        assert (await asked(ALICE)).status_code == 429


async def test_who_tries_tokens_is_held_up_and_those_who_have_one_are_not() -> None:
    limits = WebLimits(requests_per_second=1)
    async with site(auth=TOKENS, limits=limits, clock=FakeClock()) as at:
        tried = [await at.client.get("/agents", headers={"authorization": f"Bearer {n}"}) for n in range(7)]
        assert [response.status_code for response in tried] == [401] * 6 + [429]
        assert (await at.client.get("/agents", headers=ALICE)).status_code == 200


@pytest.mark.parametrize("given", [{"body": 0}, {"text": -1}, {"write_interval": -0.1}, {"requests_per_second": 0}])
def test_a_limit_of_nothing_is_wrong_use(given: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=next(iter(given))):
        WebLimits(**given)


@pytest.mark.parametrize("token", ["kJ8sLq2VxT0pZr5wNd7yBe3uHcMa9fGi", "sk-4f9a0c2e7b1d8f6a3c5e9b0d2f4a6c8e0b1d3f5a"])
def test_an_owner_who_looks_like_a_token_is_told_to_be_swapped_with_it(token: str) -> None:
    with pytest.raises(WrongUse, match=r"write \{'alice': TOKEN\}"):
        BearerTokens({token: "alice"})
    for owner in ("alice.smith@example.org", "0b0f8a52-5d3c-4f7e-9a53-2f1f5d1e7c11", "the-name-of-a-service-account"):
        assert BearerTokens({owner: "token"}).owner_of("token") == owner
    assert BearerTokens({token: token[::-1]}).owner_of(token[::-1]) == token
