"""SQLite or DuckDB for the index of `engine/records/index.py`: measured on what the index does.

    python tests/benchmarks/index.py [--files 10000 50000] [--bytes 2000]

Each database is filled in transactions of 200, closed, opened again, asked for one file, and then for every file, one
at a time as a query over records does, and all at once. Each in a process of its own. DuckDB is measured if it is
installed (`pip install duckdb`); nothing of endstop is needed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

TABLE = """CREATE TABLE made (path {blob} NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL, size BIGINT NOT NULL,
changed BIGINT NOT NULL, value {blob} NOT NULL, UNIQUE (path, kind))"""
SELECT = "SELECT value FROM made WHERE path = ? AND kind = ? AND version = ? AND size = ? AND changed = ?"
TOGETHER = 200
Row = tuple[bytes, str, str, int, int, bytes]


def rows_of(files: int, size: int) -> Iterator[Row]:
    chance = random.Random(1)
    for number in range(files):
        path = f"/home/somebody/records/{number // 1000:03}/{number:06}.jsonl".encode()
        yield (
            path,
            "backtest 0123456789abcdef",
            "0.1.0.1",
            168_000 + number,
            1_790_000_000_000_000_000,
            chance.randbytes(size),
        )


def sqlite(place: str) -> Any:
    import sqlite3

    database = sqlite3.connect(place, isolation_level=None)
    database.execute("PRAGMA page_size = 16384")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def insert_sqlite(database: Any, rows: Sequence[Row]) -> None:
    database.execute("BEGIN")
    database.executemany("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.execute("COMMIT")


def duckdb(place: str) -> Any:
    import duckdb as library

    return library.connect(place)


def insert_duckdb(database: Any, rows: Sequence[Row]) -> None:
    """As one statement over columns: row by row it takes twenty times as long."""
    columns = ", ".join(f"unnest(?::{kind}[])" for kind in ("BLOB", "TEXT", "TEXT", "BIGINT", "BIGINT", "BLOB"))
    database.execute(
        f"INSERT OR REPLACE INTO made SELECT {columns}", [list(column) for column in zip(*rows, strict=True)]
    )


DATABASES: dict[str, tuple[Callable[[str], Any], Callable[[Any, Sequence[Row]], None]]] = {
    "sqlite3": (sqlite, insert_sqlite),
    "duckdb": (duckdb, insert_duckdb),
}


def measured(name: str, files: int, size: int) -> dict[str, float]:
    """In this process: seconds and bytes."""
    opened, insert = DATABASES[name]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "index")
        began = time.perf_counter()
        importlib.import_module(name)
        found["import"] = time.perf_counter() - began
        rows = list(rows_of(files, size))
        database = opened(place)
        database.execute(TABLE.format(blob="BLOB"))
        began = time.perf_counter()
        for first in range(0, len(rows), TOGETHER):
            insert(database, rows[first : first + TOGETHER])
        found["insert"] = time.perf_counter() - began
        database.close()
        began = time.perf_counter()
        database = opened(place)
        assert database.execute(SELECT, rows[0][:5]).fetchone()[0] == rows[0][5]
        found["open"] = time.perf_counter() - began
        began = time.perf_counter()
        for row in rows:
            assert database.execute(SELECT, row[:5]).fetchone()[0] == row[5]
        found["each"] = time.perf_counter() - began
        began = time.perf_counter()
        assert len(database.execute("SELECT path, size, changed, value FROM made").fetchall()) == files
        found["all"] = time.perf_counter() - began
        database.close()
        found["megabytes"] = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--bytes", type=int, default=2000, help="of each value")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], int(given.one[1]), given.bytes)))
        return
    print(f"{'':10}{'files':>8}{'import ms':>11}{'open ms':>9}{'insert s':>10}{'each s':>9}{'all s':>8}{'MB':>7}")
    for name in DATABASES:
        if importlib.util.find_spec(name) is None:
            print(f"{name:10}  is not installed")
            continue
        for files in given.files:
            again = [sys.executable, __file__, "--bytes", str(given.bytes), "--one", name, str(files)]
            found = json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout)
            print(
                f"{name:10}{files:8,}{found['import'] * 1e3:11.0f}{found['open'] * 1e3:9.1f}{found['insert']:10.2f}"
                f"{found['each']:9.2f}{found['all']:8.2f}{found['megabytes']:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
