"""What the first text of a model costs: all requests of the proxy wait while it is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.decision import POLICIES, deferred_patterns, echoes, finish_words, progress_counts, text_kinds
from endstop.providers.prices import Prices
from endstop.proxy.proxy_server import RunFollowers

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


JUDGING = (echoes._finder, finish_words.documented_words, progress_counts._count, text_kinds._phrases)


def test_a_rehearsal_builds_what_the_first_response_is_judged_with() -> None:
    for one in (*JUDGING, finish_words._by_word, text_kinds._classify):
        one.cache_clear()
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices())
    followers.rehearse()
    before = [one.cache_info().misses for one in JUDGING]
    assert all(before)
    follower = followers.open("agent")
    follower.prompt("Write it.")
    follower.response("The file one.txt is written and holds one.", finish=finish_words.parse_finish_reason("stop"))
    follower.decide()
    assert [one.cache_info().misses for one in JUDGING] == before
