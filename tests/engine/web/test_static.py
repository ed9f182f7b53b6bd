"""The page's files as they travel."""

from __future__ import annotations

import pytest
from endstop.http.page_files import page_files

from .site import site


@pytest.mark.parametrize("name", sorted(page_files()))
async def test_a_file_travels_small_and_only_once(name: str) -> None:
    async with site() as up:
        got = await up.client.get(f"/page/{name}")
        assert got.status_code == 200
        assert got.content == page_files()[name].content
        assert got.headers["content-encoding"] == "gzip"
        assert int(got.headers["content-length"]) < len(got.content)
        plain = await up.client.get(f"/page/{name}", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == got.content
        again = await up.client.get(f"/page/{name}", headers={"if-none-match": got.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
