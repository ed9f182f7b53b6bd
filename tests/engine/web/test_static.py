"""The page's files as they travel."""

from __future__ import annotations

import json

from endstop.analysis.endings import RULE_WORDS
from endstop.http.module_bundle import bundle_modules
from endstop.http.page_files import ENTRY, FOLDER, RULE_WORDS_MODULE, SCRIPT, page_files

from .site import site


def on_disk(name: str) -> bytes:
    """What a file of the page holds, made from the folder and not from what the server keeps in memory."""
    if name == SCRIPT:
        modules = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.js"))}
        modules[RULE_WORDS_MODULE] = on_disk(RULE_WORDS_MODULE).decode()
        return bundle_modules(ENTRY, modules).encode()
    if name == RULE_WORDS_MODULE:
        return f"export const RULES = {json.dumps(RULE_WORDS)};\n".encode()
    return (FOLDER / name).read_bytes()


async def test_a_file_travels_small_and_only_once() -> None:
    async with site() as up:
        for name in sorted(page_files()):
            got = await up.client.get(f"/page/{name}")
            assert got.status_code == 200, name
            assert got.content == on_disk(name), name
            assert got.headers["content-encoding"] == "gzip", name
            assert int(got.headers["content-length"]) < len(got.content), name
            plain = await up.client.get(f"/page/{name}", headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers, name
            assert plain.content == got.content, name
            again = await up.client.get(f"/page/{name}", headers={"if-none-match": got.headers["etag"]})
            assert (again.status_code, again.content) == (304, b""), name
