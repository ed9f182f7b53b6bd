"""The work that every contender does: call `add` until the provider asks for `finish_task`.

A scenario travels inside the prompt, so the provider needs no other channel and any client works unchanged.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Literal, cast

Mode = Literal["plain", "chatty", "dated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the provider plays in one session. `delay` is in milliseconds between two chunks; 0: all at once.

    Step 1 to `steps - 1` call `add` once, the last one calls `finish_task`. In `chatty` mode the response does not
    end there: 20 more calls in 200 more chunks follow. In `dated` mode each chunk of text says when it was sent, in
    nanoseconds of the machine's monotonic clock.
    """

    session: str = ""
    steps: int = 1
    chunks: int = 10
    """Chunks of text before the call of each step."""
    delay: float = 0
    mode: Mode = "plain"

    @property
    def prompt(self) -> str:
        told = f"session={self.session} steps={self.steps} chunks={self.chunks} delay={self.delay} mode={self.mode}"
        return f"Add the numbers, then finish. [bench {told}]"

    @property
    def nameless(self) -> Scenario:
        """The same for all sessions: what a response depends on."""
        return replace(self, session="")


_IN_PROMPT = re.compile(r"\[bench session=(\S+) steps=(\d+) chunks=(\d+) delay=([\d.]+) mode=(plain|chatty|dated)\]")


def scenario_in(prompt: str) -> Scenario | None:
    """The scenario that a prompt names."""
    found = _IN_PROMPT.search(prompt)
    if found is None:
        return None
    session, steps, chunks, delay, mode = found.groups()
    return Scenario(
        session=session,
        steps=int(steps),
        chunks=int(chunks),
        delay=float(delay),
        mode=cast(Mode, mode),
    )


@dataclass(slots=True)
class Tally:
    """What became of `add` in this process."""

    calls: int = 0
    timed: bool = False
    """Whether to note the CPU seconds at each call: asking for them is a system call, so only where it is needed."""
    times: list[float] = field(default_factory=list)


TALLY = Tally()


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.

    """
    TALLY.calls += 1
    if TALLY.timed:
        TALLY.times.append(time.process_time())
    return a + b
