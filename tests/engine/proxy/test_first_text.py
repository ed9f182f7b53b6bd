"""What the first text of a model costs: all requests of the proxy wait while it is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.decision import deferred_patterns, text_kinds

from .agents import Provider, proxied

COMPILED = (text_kinds._phrases, text_kinds._pattern, text_kinds._error)


@pytest.mark.parametrize("text", ["The file one.txt is written and holds one.", "I am done. The tests pass."])
async def test_what_texts_are_judged_with_is_compiled_before_the_first_request(text: str, tmp_path: Path) -> None:
    for one in (*COMPILED, text_kinds._classify):
        one.cache_clear()
    late = deferred_patterns.deferred("late")
    async with proxied(Provider(), tmp_path):
        assert "compiled" in vars(late)
        before = [one.cache_info().misses for one in COMPILED]
        assert sum(before) > 0
        text_kinds.classify_text(text)
        assert [one.cache_info().misses for one in COMPILED] == before
