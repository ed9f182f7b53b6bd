"""The formats that can be imported, in the order in which `guess` asks them: the most particular first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from . import anthropic, cline, openai, swe_agent, tau_bench
from .transcript import Foreign


class Format(Struct, frozen=True):
    """One format: a file with one function, and how its data is told from others'."""

    name: str
    sessions: Callable[[Any], Iterator[Foreign]]
    """The sessions in data as it comes out of JSON. Raises Unreadable if there are none, or a broken one."""
    fits: Callable[[Any], bool]
    says: str
    """What it is, for people."""


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("cline", cline.sessions, cline.fits, "HTTP recordings of chat endpoints"),
        Format("tau-bench", tau_bench.sessions, tau_bench.fits, "results of tau-bench"),
        Format("swe-agent", swe_agent.sessions, swe_agent.fits, "trajectories of SWE-agent (.traj)"),
        Format("anthropic", anthropic.sessions, anthropic.fits, "Anthropic's messages, transcripts of Claude Code"),
        Format("openai", openai.sessions, openai.fits, "OpenAI's messages"),
    )
}
"""By name."""


def guess(data: Any) -> str | None:
    """The name of the format that data out of JSON is in; None if it is none of them."""
    return next((format.name for format in FORMATS.values() if format.fits(data)), None)
