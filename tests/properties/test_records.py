"""What holds for every record, however it is written: compressed, redacted, with attachments beside it."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

examples = settings(max_examples=80, deadline=None)


WORDS = re.compile(r"done|look into it|äöü|漢字|the end", re.IGNORECASE)


def blunt(text: str) -> str:
    """What models and tools say in these scripts is gone. As long as before: what counts letters counts the same."""
    return WORDS.sub(lambda found: "#" * len(found[0]), text)


@contextmanager
def recorded(world: World) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        asyncio.run(world.engine.run("go", record=path))
        yield path


def same(path: Path) -> bool:
    report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]
    return True


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_a_redacted_record_has_the_same_events_and_decides_the_same(script: Any, policy: Policy, faults: Any) -> None:
    with (
        recorded(World(script, policy, faults)) as plain,
        recorded(World(script, policy, faults, redact=blunt)) as path,
    ):
        assert same(path)
        (run,), (before,) = read_record(path).runs, read_record(plain).runs
        assert [(type(e), e.seq) for e in run.events] == [(type(e), e.seq) for e in before.events]
        texts = path.read_text().split('"policy":', 1)[1]
        assert not any(word in texts for word in ('"Done."', "look into it", "漢字", "The end"))


@examples
@given(SCRIPTS, POLICIES, FAULTS, st.sampled_from([0, 3, 30]))
def test_with_its_attachments_a_record_is_what_it_would_be_without_any(
    script: Any, policy: Policy, faults: Any, above: int
) -> None:
    with recorded(World(script, policy, faults, attach_above=above)) as path:
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


@examples
@given(SCRIPTS, POLICIES, FAULTS)
def test_compressed_it_is_read_and_replayed_like_the_plain_one(script: Any, policy: Policy, faults: Any) -> None:
    with recorded(World(script, policy, faults)) as path:
        packed = path.with_name("packed.jsonl.zst")
        with create_file(packed) as file:
            file.write(path.read_bytes())
        assert read_record(packed).runs == read_record(path).runs
        assert list(scan(packed)) == [e for e in read_record(path).runs[0].events if type(e) not in STREAM_PARTS]
        assert same(packed)
