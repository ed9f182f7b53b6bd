"""Labelled texts of models: `text_labels.jsonl`, and how it was made in `text_labels.md`.

Texts of the recorded material in ../shared are not in the project: a label has their place and their hash, and the text
is read where the material is. Run as a script it prints the table of docs/reference/stop_signals.md.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from endstop.analysis.guarantee import exact_interval
from endstop.decision.text_kinds import classify_text
from endstop.formats import FoundSession, find_sessions

from tests import shared_data

FILE = Path(__file__).with_suffix(".jsonl")
ARCHIVE = shared_data.SHARED / "data" / "known_ends.tar.xz"
KINDS = ("answer", "partial", "question", "announcement", "refusal", "refusal_with_offer", "echo", "error")


class Labelled(NamedTuple):
    """A text with its label. source: the set it is from; ends: whether the response made no calls."""

    source: str
    part: str
    kind: str
    text: str
    ends: bool


@cache
def labels() -> tuple[dict[str, Any], ...]:
    """The lines of the file."""
    return tuple(json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())


def own() -> list[Labelled]:
    """The texts that stand in the file: sentences made for this project, and texts of its own records."""
    return [Labelled(one["from"], one["part"], one["kind"], one["text"], True) for one in labels() if "text" in one]


@cache
def recorded() -> tuple[Labelled, ...]:
    """The texts of the recorded material, read from there. Fails if one is not what was labelled."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(_read_recorded(Path(folder)))


def _read_recorded(folder: Path) -> Iterator[Labelled]:
    wanted = [one for one in labels() if "sha256" in one]
    files = {one["file"] for one in wanted}
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, [one for one in archive if one.name in files], filter="data")
    places = {name: folder / name if (folder / name).exists() else shared_data.SHARED / "data" / name for name in files}
    texts = {(name, *turn): text for name, path in places.items() for turn, text in _turns(path)}
    for one in wanted:
        text = texts[one["file"], one["session"], one["turn"]]
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == one["sha256"], one
        yield Labelled(one["from"], one["part"], one["kind"], text, one["ends"])


def _turns(path: Path) -> Iterator[tuple[tuple[int, int], str]]:
    """The responses of a file: number of the session from 0, number of the response in it from 1, and the text."""
    for number, found in enumerate(find_sessions(path)):
        if isinstance(found, FoundSession):
            responses = [one.message for one in found.session.messages if hasattr(one.message, "calls")]
            for turn, message in enumerate(responses, 1):
                yield (number, turn), message.text


def confusion(texts: list[Labelled]) -> Counter[tuple[str, str]]:
    """How often a label was classified as a kind."""
    return Counter((one.kind, classify_text(one.text)) for one in texts)


def right_and_all(counts: Counter[tuple[str, str]], kind: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Precision and recall of a kind, each as how many were right of how many."""
    right = counts[kind, kind]
    return (right, sum(counts[one, kind] for one in KINDS)), (right, sum(counts[kind, one] for one in KINDS))


def figure(right: int, whole: int) -> str:
    """A share with its exact 95 % interval."""
    interval = exact_interval(right, whole)
    if interval is None:
        return "-"
    return f"{right / whole:.1%} ({interval.low:.1%} to {interval.high:.1%}; {right} of {whole})"


def main() -> None:
    """Print the measured tables: of the texts that could have ended a run, and of the project's own sentences."""
    for part in ("fresh", "held", "fit"):
        texts = [one for one in recorded() if one.part == part and one.ends]
        counts = confusion(texts)
        print(f"\n{part}, if every text is a mark: {figure(sum(one.kind == 'answer' for one in texts), len(texts))}")
        for kind in KINDS:
            precision, recall = right_and_all(counts, kind)
            print(f"| {kind} | {figure(*precision)} | {figure(*recall)} |")
    for part in ("held", "fit"):
        texts = [one for one in own() if one.part == part]
        right = sum(classify_text(one.text) == one.kind for one in texts)
        print(f"\n{part}, own sentences: {figure(right, len(texts))}")


if __name__ == "__main__":
    main()
