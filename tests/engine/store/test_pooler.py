"""A pooler that gives each transaction another session of the server is refused, and nothing else is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from endstop.decision import WrongUse
from endstop.durable.dbos import Dbos
from endstop.store.pooler_check import check_sessions
from endstop.store.url import store_at
from sqlalchemy import StaticPool, create_engine

from ...pgbouncer import pooled
from ...postgres import Server

REFUSED = r"PgBouncer with pool_mode=transaction: give the address of the PostgreSQL server itself, or set pool_mode"


def psycopg_url(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


@contextmanager
def busy(url: str, clients: int) -> Iterator[None]:
    """Other clients make one transaction after another meanwhile."""
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            while not stop.is_set():
                connection.execute("SELECT 1")

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_server_passes_also_while_many_look_at_once(postgres: Server) -> None:
    url = psycopg_url(postgres.url(postgres.new_database()))
    engines = [create_engine(url) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(check_sessions, engines, ["it"] * 8))
    for engine in engines:
        engine.dispose()


def test_two_connections_in_one_session_are_refused(postgres: Server) -> None:
    engine = create_engine(psycopg_url(postgres.url(postgres.new_database())), poolclass=StaticPool)
    with pytest.raises(WrongUse, match=f"^it is a connection pooler .*{REFUSED}"):
        check_sessions(engine, "it")
    engine.dispose()


@pytest.mark.parametrize("size", [1, 3])
async def test_a_pooler_by_transactions_is_refused_by_store_and_queue(postgres: Server, size: int) -> None:
    with pooled(postgres, postgres.new_database(), mode="transaction", size=size) as url:
        for opened in (store_at(url), Dbos(url)):
            with pytest.raises(WrongUse, match=REFUSED):
                await opened.open()
        with busy(url, clients=2 * size), pytest.raises(WrongUse, match=REFUSED):
            await store_at(url).open()


async def test_a_pooler_by_sessions_passes(postgres: Server) -> None:
    with pooled(postgres, postgres.new_database(), mode="session") as url:
        for opened in (store_at(url), Dbos(url), store_at(url)):
            await opened.open()
            await opened.close()
