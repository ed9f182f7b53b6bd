"""Texts of a record by step, for the text index: what users, the model and tools said."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage, Event, Message, ToolResult
from ..decision import events as ev
from ..records.scan import scan

MAX_TEXT = 100_000
"""Maximum number of searchable characters of one text."""
MAX_FILE_TEXT = 32_000_000
"""Maximum number of searchable characters of one record."""
MAX_STEPS = (1 << 20) - 1
"""Maximum number of searchable steps of one record."""
_LEVEL = 1
_WITHOUT_SPACES = re.compile("([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
"""Letters of scripts that put no spaces between words."""
_decode = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode


class IndexedStep(Struct, frozen=True, array_like=True):
    """Texts of one step, compressed. Step 0 has the texts before the first step of a run."""

    run: int
    step: int
    packed: bytes

    def texts(self) -> list[tuple[int, str]]:
        """Return each text with the number of its event."""
        return _decode(zlib.decompress(self.packed))


def text_to_match(texts: Sequence[tuple[int, str]]) -> str:
    """Return the texts as one text whose words are indexed. In scripts without spaces, each letter counts as a word."""
    whole = "\n".join(text for _, text in texts)
    return whole if whole.isascii() else _WITHOUT_SPACES.sub(r" \1 ", whole)


def read_step_texts(path: Path) -> list[IndexedStep]:
    """Return the texts of a record. Raises WrongUse if it cannot be read."""
    steps: list[IndexedStep] = []
    texts: list[tuple[int, str]] = []
    run = step = 0
    left = MAX_FILE_TEXT

    def close() -> None:
        if texts:
            packed = zlib.compress(msgspec.msgpack.encode(texts), _LEVEL)
            steps.append(IndexedStep(run, step, packed))
            texts.clear()

    for event in scan(path, attachments=True):
        if isinstance(event, ev.RunStarted):
            close()
            run, step = run + 1, 0
        elif isinstance(event, ev.StepStarted):
            close()
            step = event.step
        if left <= 0 or len(steps) >= MAX_STEPS - 1:
            break
        for text in _texts_of(event):
            if text:
                texts.append((event.seq, text[:MAX_TEXT]))
                left -= min(len(text), MAX_TEXT)
    close()
    return steps


def _texts_of(event: Event) -> Iterator[str]:
    match event:
        case ev.RunStarted(prompt=prompt, history=history):
            for message in history:
                yield from _texts_of_message(message)
            yield prompt or ""
        case ev.MessageAdded(text=text) | ev.QuestionAnswered(text=text):
            yield text
        case ev.ResponseFinished(message=message):
            yield from _texts_of_message(message)
        case ev.ToolCallResult(content=content):
            yield content
        case ev.AttemptFailed(message=why):
            yield why
        case ev.RunFinished(outcome=outcome):
            yield outcome.detail
        case _:
            pass


def _texts_of_message(message: Message) -> Iterator[str]:
    match message:
        case AssistantMessage():
            for block in message.reasoning:
                yield block.text
            yield message.text
            for call in message.calls:
                yield f"{call.name} {call.arguments}"
        case ToolResult(content=content):
            yield content
        case _:
            yield message.text
