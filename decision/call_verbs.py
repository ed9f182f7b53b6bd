"""The effects that a call may have, and the effect that the verb in a tool's name implies, as in `get_user`."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

from msgspec import Struct

from .deferred_patterns import deferred
from .word_tables import by_word, word_tables

Effect = Literal["reads", "changes", "checks", "waits", "controls", "unknown"]
"""What a call does.

- `reads`: it gets information, and leaves everything as it was;
- `changes`: it writes, moves or deletes something, or makes something happen in the world;
- `checks`: it runs tests, a build, a compiler or a linter;
- `waits`: it waits, or asks for the progress of something that runs;
- `controls`: it does no work: a completion, a question to the user, a plan, a thought;
- `unknown`: the call does not show it, as `python script.py`.
"""
MAX_NAME = 200
"""Longer names tell nothing, so the cache of names holds at most 100 kB."""


MAX_FILES = 20
"""Maximum number of files that are named for a call."""


class CallEffect(Struct, frozen=True):
    """What one call does."""

    effect: Effect
    checks: bool = False
    """Whether it also checks: `cat > a.py <<EOF ...; pytest` changes and checks."""
    files: tuple[str, ...] = ()
    """For a change: the files that it writes, moves or deletes, as far as the arguments name them; at most `MAX_FILES`.
    A file that is only read is never among them."""
    scripts: tuple[str, ...] = ()
    """The scripts that it runs whose effect the call does not show, as in `python3 analyze.py`."""


_WORDS = deferred(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@lru_cache(maxsize=512)
def verb_effect(name: str) -> Effect:
    """Return the effect of the first known verb in a name, as in `get_user`; names over 200 characters have none."""
    words = [word.lower() for word in _WORDS.findall(name)] if len(name) <= MAX_NAME else []
    verbs, changing = _verbs()
    for at, word in enumerate(words):
        effect = verbs.get(word)
        if effect == "reads" and not changing.isdisjoint(words[at + 1 : at + 3]):
            return "changes"
        if effect is not None:
            return effect
    return "unknown"


@cache
def _verbs() -> tuple[dict[str, Effect], frozenset[str]]:
    """Return the effect of each verb, and the verbs that turn a reading verb into a change, as `find_and_replace`."""
    tables = word_tables("call_effects")
    return by_word(tables["verbs"]), frozenset(tables["find_and"]["changes"].split())
