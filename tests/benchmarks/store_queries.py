"""How long each statement of the store takes in a PostgreSQL database with many ended sessions.

    python tests/benchmarks/store_queries.py [--rows 200000] [--most 5] [--url postgresql://...]

The database is a server of our own, or at `--url`, and empty. It gets so many ended sessions, each with a run, a page
of events and a message. Then everything is done that can be done with a store, and each statement is first explained
(`EXPLAIN ANALYZE`, rolled back) three times; the lowest time counts, as other processes share the machine, and of the
same statement with several parameters the slowest. The exit code is 1 if one took more than `--most` milliseconds in
the database.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from tests import many_sessions
from tests.engine.store.statements import Executed, recorded, use
from tests.postgres import Server

TIMES = 3


class Explainer:
    """Notes how long statements take, in milliseconds."""

    def __init__(self) -> None:
        self.took: dict[Executed, float] = {}

    def explain(self, statement: Executed, connection: Any) -> None:
        """Execute a statement a few times without consequences."""
        if not statement.has_plan:
            return
        alone = connection.autocommit  # a read, which has no transaction to go on
        begin, undo = ("BEGIN", "ROLLBACK") if alone else ("SAVEPOINT explained", "ROLLBACK TO SAVEPOINT explained")
        with connection.cursor() as cursor:
            times = []
            for _ in range(TIMES):
                cursor.execute(begin)
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", statement.parameters)
                times.append(cursor.fetchone()[0][0]["Execution Time"])
                cursor.execute(undo)
        one = statement._replace(parameters=())
        self.took[one] = max(self.took.get(one, 0.0), min(times))


async def measure(store: SqlStore, rows: int) -> dict[Executed, float]:
    """The statements of the store with their milliseconds."""
    explainer = Explainer()
    await store.open()
    began = time.perf_counter()
    many_sessions.fill(store._database, rows)
    print(f"{rows:,} sessions made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    with recorded(store._database, explainer.explain):
        await use(store, rows)
    await store.close()
    return explainer.took


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--most", type=float, default=5.0)
    parser.add_argument("--url")
    args = parser.parse_args()
    with ExitStack() as stack:
        url = args.url or stack.enter_context(Server(durable=True)).url()
        took = asyncio.run(measure(store_at(url), args.rows))
    for statement, milliseconds in sorted(took.items(), key=lambda item: -item[1]):
        file, line = statement.place
        sql = re.sub(
            r"^SELECT .*(?= WHERE )|endstop_sessions\.|%\(|\)s(::\w+( COLLATE \"C\")?)?",
            "",
            " ".join(statement.sql.split()),
        )
        print(f"{milliseconds:9.3f} ms  {f'{file}:{line}':20} {sql[:150]}")
    over = sum(milliseconds > args.most for milliseconds in took.values())
    print(f"{len(took)} statements, {args.rows:,} sessions: {over} took over {args.most:g} ms")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
