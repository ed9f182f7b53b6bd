"""Plays the recorded streams in ../shared and writes the tables of docs/reference/stop_signals.md.

Without the streams it does nothing.

    python docs/stop_signals.py      (or `make docs`)

`tests/providers/test_stop_signals.py` reads the table and plays each row again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from endstop.decision import Assembler, ProviderToolReport, UserMessage
from endstop.providers import LiteLLM, OpenAICompatible, Provider, ProviderError, Request
from recordings import ERROR, RIGHT, STREAMS, Signals, format_of, recorded, reply_of, right_finish, server

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "stop_signals.md"
MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
AWS = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "aws_region_name": "us-east-1"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "alibaba": ("dashscope/qwen3-max", {}),
    "amazon-bedrock": ("bedrock/converse/anthropic.claude-3-5-sonnet-20240620-v1:0", AWS),
    "anthropic": ("anthropic/claude-sonnet-4-5", {}),
    "azure": ("azure/responses/gpt-5", {"api_version": "2025-04-01-preview"}),
    "cohere": ("cohere_chat/command-a-03-2025", {}),
    "deepseek": ("deepseek/deepseek-chat", {}),
    "google": ("gemini/gemini-2.5-pro", {}),
    "groq": ("groq/openai/gpt-oss-120b", {}),
    "mistral": ("mistral/mistral-small-latest", {}),
    "open-responses": ("openai/responses/local", {}),
    "openai": ("openai/gpt-4o", {}),
    "openai-compatible": ("openai/some-model", {}),
    "openai-responses": ("openai/responses/gpt-5", {}),
    "xai": ("xai/grok-4", {}),
    "xai-responses": ("openai/responses/grok-4", {}),
}
"""The model name and settings that litellm gets for the recordings of a folder."""


class Row(NamedTuple):
    """One line of the table, as text."""

    recording: str
    raw: str
    calls: str
    tools: str
    direct: str
    litellm: str
    ours: str
    heard: str
    shown: str
    wrong: str = ""


async def heard(path: Path, litellm: bool) -> tuple[str, Signals]:
    """What comes out of a provider: the finish in litellm's words, and the signals in ours."""
    assembler, tools = Assembler(1, "1.1", set()), 0
    async with server().FixtureServer([reply_of(path)]) as served:
        try:
            async with asyncio.timeout(60), _provider(path, served.url, litellm).stream(HELLO) as chunks:
                async for chunk in chunks:
                    assembler.feed(chunk)
                    tools += isinstance(chunk, ProviderToolReport)
        except ProviderError:
            return "", Signals(ERROR)
    return signals_of(assembler, tools)


def signals_of(assembler: Assembler, tools: int) -> tuple[str, Signals]:
    """The signals of a response that was heard; tools: how many the provider ran."""
    calls = tuple((call.name, call.arguments) for call in assembler.message.calls)
    return assembler.raw_finish, Signals(str(assembler.finish), calls, tools)


HELLO = Request(messages=[UserMessage("hello")])


def _provider(path: Path, url: str, litellm: bool) -> Provider:
    if not litellm:
        return OpenAICompatible("recorded", url, api_key="placeholder")
    model, settings = MODELS[path.parent.name]
    return LiteLLM(model, api_base=url, api_key="placeholder", settings=settings)


# ---- the table

REASONS = {
    "calls": "litellm loses arguments that arrive whole at the start of a call; the call is invalid",
    "tools": "litellm drops tools that the provider ran; finish, text and calls are right",
    "finish, calls": "litellm drops OpenAI's own calls (shell, patch, search, approval); the response looks finished",
    "openai-responses": "litellm cannot stream responses of a model that it does not know",
    "gemini": "litellm fails on arguments streamed in parts",
    "sse": "litellm does not read the interactions API here",
    "cohere": "litellm fails on all Cohere streams",
}


def row(path: Path, stands: Signals, direct: Signals, word: str, came: Signals) -> Row:
    """A recording's line, with the reason if what came through litellm is wrong."""
    wrong, kind = faults(stands, came), format_of(path)
    reason = REASONS[kind if came.finish == ERROR else ", ".join(wrong)] if wrong else ""
    return Row(
        f"{path.parent.name}/{path.name.removesuffix('.chunks.txt')}",
        stands.finish or "none",
        str(len(stands.calls)),
        str(stands.tools),
        direct.finish if kind == "openai-chat" else OTHER,
        word or "none",
        came.finish,
        str(len(came.calls)),
        str(came.tools),
        reason,
    )


OTHER = "not its format"


def faults(stands: Signals, came: Signals) -> list[str]:
    """What differs from the recording: finish, calls, tools."""
    right = right_finish(stands)
    if right == came.finish == ERROR:
        return []
    pairs = {
        "finish": (right, came.finish),
        "calls": ([(n, _plain(a)) for n, a in stands.calls], [(n, _plain(a)) for n, a in came.calls]),
        "tools": (stands.tools, came.tools),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def _plain(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


HEAD = Row(
    "recording", "raw finish", "calls", "tools", "direct", "litellm's", "ours", "calls heard", "tools heard", "wrong"
)


def signals(rows: Iterable[Row]) -> str:
    """The rows as a table."""
    lines = [tuple(HEAD), ("---",) * len(HEAD), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def summary(rows: Iterable[Row]) -> str:
    """How many recordings come through right, by the folder that they are in."""
    folders: dict[str, list[Row]] = {}
    for one in rows:
        folders.setdefault(one.recording.partition("/")[0], []).append(one)
    everything = [one for them in folders.values() for one in them]
    lines = [("provider", "direct", "through litellm", "of these, without the report"), ("---",) * 4]
    for name, them in (*folders.items(), ("**all**", everything)):
        spoken = [one for one in them if one.direct != OTHER]
        direct = f"{sum(direct_is_right(one) for one in spoken)} of {len(spoken)}" if spoken else "-"
        right, lost = (sum(one.wrong == reason for one in them) for reason in ("", REASONS["tools"]))
        lines.append((name, direct, f"{right + lost} of {len(them)}", str(lost)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def direct_is_right(one: Row) -> bool:
    """Whether the direct path's finish is what the raw one means."""
    return one.direct == RIGHT[one.raw]


def rows_of(page: str) -> list[Row]:
    """The rows that stand on the page."""
    table = next(found[0] for found in MARKED.finditer(page) if found["name"] == "signals")
    return [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in table.splitlines()[3:-1]]


def rendered(page: str, rows: list[Row]) -> str:
    """The page with both tables written anew."""
    tables = {"signals": signals(rows), "summary": summary(rows)}
    return MARKED.sub(lambda found: found[1] + tables[found["name"]] + found[3], page)


async def play(path: Path) -> Row:
    """The row of a recording, by playing it."""
    direct = (await heard(path, litellm=False))[1] if format_of(path) == "openai-chat" else Signals(ERROR)
    return row(path, recorded(path), direct, *await heard(path, litellm=True))


async def main() -> None:
    """Play everything and write the page."""
    if not STREAMS.is_dir():
        print(f"no folder {STREAMS} with recordings: the tables of {PAGE.name} stay as they are")
        return
    warnings.simplefilter("ignore")  # litellm and what it imports warn of themselves
    logging.disable(logging.CRITICAL)
    rows = [await play(path) for path in sorted(STREAMS.glob("*/*.chunks.txt"))]
    page = re.sub(r"through litellm \d[\d.]*\d\.", f"through litellm {version('litellm')}.", PAGE.read_text("utf-8"))
    PAGE.write_text(rendered(page, rows), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
