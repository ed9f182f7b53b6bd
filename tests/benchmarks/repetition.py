"""Measures what it costs to watch a response for repetition, for each chunk, side by side in one process.

    python tests/benchmarks/repetition.py [--rounds 9] [--characters 200000]

For texts of several kinds in chunks of several sizes: the watching alone (`RepetitionDetector.take` of an event, less
the loop around it), in CPU time of this thread. Then a whole run by a scripted model, with the watching and without it.
Rounds take turns; the smallest figure of all rounds is printed, since all else on the machine only adds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable

from endstop import Engine
from endstop.decision import Degeneration, Policy
from endstop.decision import events as ev
from endstop.decision.degeneration import RepetitionDetector
from endstop.providers import Scripted, say

BUDGET = 0.3
"""Microseconds for a chunk of a usual size, of 4 to 20 characters of prose or code."""
SIZES = (4, 8, 12, 20)
NEVER = 10**9
WORDS = (
    "the file test value error server user request order price page line count list name time build cache index field "
    "table query result limit retry socket worker branch commit review patch deploy is was and of to in a for with"
).split()


def texts(characters: int) -> dict[str, str]:
    """A text of each kind."""
    chosen = random.Random(5)

    def long(piece: Callable[[], str]) -> str:
        made: list[str] = []
        size = 0
        while size < characters:
            made.append(piece())
            size += len(made[-1])
        return "".join(made)[:characters]

    return {
        "prose": long(lambda: " ".join(chosen.choices(WORDS, k=9)).capitalize() + ". "),
        "code": long(lambda: f"    {chosen.choice(WORDS)}_{chosen.choice(WORDS)} = {chosen.choice(WORDS)}()\n"),
        "Chinese": long(lambda: "".join(chr(chosen.randint(0x4E00, 0x9FA5)) for _ in range(20)) + "。"),
        "a table of numbers": long(lambda: f"| {chosen.random():.3f} | {chosen.randint(0, 999):3} |\n"),
        "one token, never cut": long(lambda: "court "),
    }


def watching(events: list[ev.Event]) -> float:
    """Microseconds for an event: watched, less the bare loop."""
    take = RepetitionDetector(Degeneration(text=NEVER)).take
    began = time.thread_time()
    for event in events:
        take(event)
    watched = time.thread_time() - began
    began = time.thread_time()
    for _ in events:
        pass
    return (watched - (time.thread_time() - began)) / len(events) * 1e6


def running(text: str, size: int, settings: Degeneration) -> float:
    """Microseconds of CPU for a chunk of a whole run."""
    chunks = [piece for begin in range(0, len(text), size) for piece in say(text[begin : begin + size])]
    engine = Engine(Scripted(chunks), policy=Policy(degeneration=settings, response_tokens=None))
    began = time.thread_time()
    outcome = asyncio.run(engine.run("Go."))
    spent = time.thread_time() - began
    assert len(outcome.answer) == len(text), outcome.detail
    return spent / len(chunks) * 1e6


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--characters", type=int, default=200_000)
    given = options.parse_args()
    made = texts(given.characters)
    cells = {
        (kind, size): [
            ev.TextMessageContent(attempt="1.1", delta=text[begin : begin + size])
            for begin in range(0, len(text), size)
        ]
        for kind, text in made.items()
        for size in SIZES
    }
    least = dict.fromkeys(cells, float("inf"))
    for _ in range(given.rounds):
        for cell, events in cells.items():
            least[cell] = min(least[cell], watching(list(events)))
    print(f"watching alone, µs a chunk (budget {BUDGET} for prose and code):")
    print(f"{'characters a chunk':24}" + "".join(f"{size:>8}" for size in SIZES))
    for kind in made:
        print(f"{kind:24}" + "".join(f"{least[kind, size]:8.3f}" for size in SIZES))
    on, off = Degeneration(text=NEVER), Degeneration(text=None, reasoning=None, arguments=None)
    bare = watched = float("inf")
    for _ in range(given.rounds):
        bare = min(bare, running(made["prose"], 8, off))
        watched = min(watched, running(made["prose"], 8, on))
    print(f"a whole run, prose, 8 characters a chunk: {bare:.2f} µs a chunk, watched {watched - bare:+.2f}")


if __name__ == "__main__":
    main()
