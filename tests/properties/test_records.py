"""What holds for every record, however it is written: compressed, redacted, with attachments beside it."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from endstop import read_record
from endstop.decision import Facts, Policy, fold
from endstop.decision.events import STREAM_PARTS
from endstop.records.attachments import attachments_folder
from endstop.records.compression import create_file
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st

from .scripts import FAULTS, POLICIES, SCRIPTS, World

WORDS = re.compile(r"done|look into it|äöü|漢字|the end", re.IGNORECASE)


def blunt(text: str) -> str:
    """What models and tools say in these scripts is gone. As long as before: what counts letters counts the same."""
    return WORDS.sub(lambda found: "#" * len(found[0]), text)


class Recorded(NamedTuple):
    """The records of the same run: as it is, redacted, and with its long texts in files beside it."""

    plain: Path
    redacted: Path
    attached: Path


@contextmanager
def recorded(script: Any, policy: Policy, faults: Any, above: int) -> Iterator[Recorded]:
    with tempfile.TemporaryDirectory() as folder:
        records = Recorded(*(Path(folder) / f"{name}.jsonl" for name in Recorded._fields))
        how: list[dict[str, Any]] = [{}, {"redact": blunt}, {"attach_above": above}]
        for path, options in zip(records, how, strict=True):
            asyncio.run(World(script, policy, faults, **options).engine.run("go", record=path))
        yield records


def same(path: Path) -> bool:
    report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]
    return True


@settings(max_examples=80, deadline=None)
@given(SCRIPTS, POLICIES, FAULTS, st.sampled_from([0, 3, 30]))
def test_a_record_decides_the_same_redacted_compressed_and_without_its_attachments(
    script: Any, policy: Policy, faults: Any, above: int
) -> None:
    with recorded(script, policy, faults, above) as records:
        a_redacted_one_has_the_same_events_and_decides_the_same(records)
        with_its_attachments_it_is_what_it_would_be_without_any(records.attached)
        compressed_it_is_read_and_replayed_like_the_plain_one(records.plain)


def a_redacted_one_has_the_same_events_and_decides_the_same(records: Recorded) -> None:
    path = records.redacted
    assert same(path)
    (run,), (before,) = read_record(path).runs, read_record(records.plain).runs
    assert [(type(e), e.seq) for e in run.events] == [(type(e), e.seq) for e in before.events]
    texts = path.read_text().split('"policy":', 1)[1]
    assert not any(word in texts for word in ('"Done."', "look into it", "漢字", "The end"))


def with_its_attachments_it_is_what_it_would_be_without_any(path: Path) -> None:
    (run,) = read_record(path).runs
    with_parts = list(scan(path, parts=True, attachments=True))
    assert with_parts == run.events
    assert not any(getattr(event, "attached", "") for event in run.events)
    facts = Facts()
    for event in scan(path):
        facts = fold(facts, event)
    assert run.finished is not None
    assert facts.steps == run.finished.outcome.steps
    assert same(path)
    for file in attachments_folder(path).glob("*"):
        file.unlink()
    assert same(path), "without them, too"


def compressed_it_is_read_and_replayed_like_the_plain_one(path: Path) -> None:
    packed = path.with_name("packed.jsonl.zst")
    with create_file(packed) as file:
        file.write(path.read_bytes())
    assert read_record(packed).runs == read_record(path).runs
    assert list(scan(packed)) == [e for e in read_record(path).runs[0].events if type(e) not in STREAM_PARTS]
    assert same(packed)
