"""`endstop fetch`: copies of records from an archive in a folder, for the commands that read records."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import WrongUse
from ..objects.folder_objects import FolderObjects
from ..objects.object_store import ObjectNotFound, ObjectStore, ObjectStoreError, every_object
from ..objects.object_url import object_store_at
from ..process.streams import StdStreams
from ..records.files import RECORD_SUFFIXES
from ..records.parallel import ProgressCallback
from .commands import add_command
from .options import add_output
from .views.tables import progress
from .views.text import counted

AT_ONCE = 8
"""How many records are copied at the same time; each is in memory, compressed."""
_ABOUT = """
`endstop serve --archive` writes OWNER/YEAR/MONTH/DAY/SESSION.jsonl.zst. A URL may go down to an owner, a year, a month
or a day, and the copies have the rest of these names below DIR. Records that DIR has already, in the same size, are
kept.

Credentials are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as for `endstop serve`.
"""
_EXIT_CODES = {
    0: "all records are in DIR, also if there was nothing new",
    2: "usage error, no records there, or an archive that does not answer",
}
_EXAMPLES = (
    ("Copy what Alice did in November, and read it", "endstop fetch s3://my-bucket/sessions/alice/2026/11 -o november"),
    (
        "Copy everything from a service of your own",
        "endstop fetch 's3://archive?endpoint=http://127.0.0.1:9000' -o records",
    ),
)


class Fetched(Struct):
    """What was copied."""

    folder: str
    copied: int = 0
    bytes: int = 0
    kept: int = 0
    """Records that the folder had already."""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "fetch", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES)
    parser.add_argument(
        "archive",
        metavar="URL",
        help="the archive, or a part of it: s3://BUCKET/PREFIX, perhaps with ?endpoint=URL&region=NAME, or a folder",
    )
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder for the copies")
    add_output(output, "print the result as one JSON object", "show only the result")


def command(args: argparse.Namespace) -> int:
    """Copy the records and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    archive, target = object_store_at(args.archive), FolderObjects(Path(args.output))
    try:
        with progress(args, "fetching") as on_progress:
            fetched = asyncio.run(fetch(archive, target, on_progress))
    except ObjectStoreError as error:
        raise WrongUse(f"the records could not be copied: {error}") from None
    if args.json:
        std_streams.write_answer(msgspec.json.encode(fetched).decode() + "\n")
        return 0
    kept = f"; {counted(fetched.kept, 'record')} there already" if fetched.kept else ""
    std_streams.write_answer(f"{counted(fetched.copied, 'record')} copied into {args.output}{kept}\n")
    return 0


async def fetch(archive: ObjectStore, target: FolderObjects, on_progress: ProgressCallback | None = None) -> Fetched:
    """Copy all records of an archive into a folder, but those that are there in the same size.

    Raises WrongUse if there is none, and ObjectStoreError.
    """
    records = [one async for one in every_object(archive) if one.key.endswith(RECORD_SUFFIXES)]
    if not records:
        raise WrongUse(f"{archive.name}: no records ({', '.join(f'*{suffix}' for suffix in RECORD_SUFFIXES)}) there")
    there = {one.key: one.size async for one in every_object(target)}
    missing = [one for one in records if there.get(one.key) != one.size]
    fetched = Fetched(target.name, kept=len(records) - len(missing))
    waiting = iter(missing)

    async def copy() -> None:
        for one in waiting:
            try:
                data = await archive.get(one.key)
            except ObjectNotFound:  # deleted since it was listed
                continue
            await target.put(one.key, data)
            fetched.copied += 1
            fetched.bytes += len(data)
            if on_progress is not None:
                on_progress(fetched.copied, len(missing))

    copying = [asyncio.create_task(copy(), name="endstop fetch") for _ in range(AT_ONCE)]
    try:
        await asyncio.gather(*copying)
    finally:
        for task in copying:
            task.cancel()
    return fetched
