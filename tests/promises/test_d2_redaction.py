"""D2: secrets of a hundred shapes are found, and harmless texts stay as they are.

The secrets and the harmless texts are those of the kit (`endstop.testing.faults`), which are drawn when a test runs.
"""

from __future__ import annotations

import json
import random
import re
import string
import time
from pathlib import Path

import pytest
from endstop import Engine, RecordOptions, Redaction, read_record
from endstop.providers import Scripted, call, say
from endstop.records.secret_rules import secret_rules
from endstop.replay import replay
from endstop.testing.faults import HARMLESS, SECRETS, check_redaction

ROOT = Path(__file__).parents[2]
chance = random.Random(15)
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"


def drawn(length: int, letters: str = LETTERS) -> str:
    return "".join(chance.choice(letters) for _ in range(length))


@pytest.mark.parametrize("written", ["before", "kept back", "neighbours"])
def test_D2_95_of_100_secrets_are_found_of_kinds_that_were_kept_back_and_of_their_neighbours_too(written: str) -> None:
    kinds = [shape.kind for shape in SECRETS if shape.written == written]
    assert len(kinds) >= {"before": 60, "kept back": 40, "neighbours": 200}[written]
    report = check_redaction(Redaction(), kinds=kinds, harmless=[])
    assert report.ok, report


@pytest.mark.parametrize("word", [" --password ", "mysql -p", "echo a:", "password", "a:b@tcp(", "密码", "figd_", "NT"])
def test_D2_the_time_of_places_goes_with_the_length_of_the_text(word: str) -> None:
    redaction = Redaction()

    def seconds(length: int) -> float:
        text = (word * length)[:length]
        began = time.process_time()
        redaction(text)
        return time.process_time() - began

    # 20 times as long; its square would be 400. Once is enough: the garbage collector may take a second in between.
    assert any(seconds(100_000) < 40 * max(seconds(5_000), 0.001) for _ in range(3))


def test_D2_a_rule_that_is_tried_only_at_its_keywords_finds_the_same() -> None:
    at_start = [rule for rule in secret_rules() if rule.at_start]
    assert at_start
    texts = [
        "npm" + "_" + drawn(36, HEX),
        "AP" + "I-" + drawn(26, UPPER),
        "s" + "." + drawn(24),
        "hv" + "s." + drawn(95),
    ]
    for rule in at_start:
        for text in (f"a.{' '.join(texts)}\\n{texts[0]} {texts[1].lower()}", "İ" + texts[0]):
            lowered = text.lower()
            places = sorted(found.span() for found in rule.matches_at_keywords(text, lowered))
            assert places == [found.span() for found in rule.pattern.finditer(text)]


# ---- harmless texts


def _documents() -> list[str]:
    texts: list[str] = []
    for path in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md"), ROOT / "README.md"]):
        texts += [block for block in re.split(r"\n{2,}", path.read_text("utf-8")) if 20 < len(block) < 2000]
    for path in sorted([*ROOT.glob("engine/*.py"), *ROOT.glob("engine/web/page/*.js")]):
        texts += [block for block in re.split(r"\n{2,}", path.read_text("utf-8")) if 20 < len(block) < 2000]
    for path in sorted(ROOT.glob("tests/records/**/*.jsonl"))[:20]:
        texts += [line for line in path.read_text("utf-8").splitlines() if 100 < len(line) < 4000]
    return chance.sample([text for text in texts if "@" not in text], 400)  # addresses are for the other test


def test_D2_of_100_harmless_texts_at_most_2_are_changed() -> None:
    assert len(HARMLESS) >= 1000
    for texts in (HARMLESS, _documents()):
        report = check_redaction(Redaction(), kinds=[], harmless=texts)
        assert report.ok, report


# ---- where they stand


async def test_D2_a_secret_that_comes_in_pieces_is_found_in_a_record(tmp_path: Path) -> None:
    secrets = ["sk" + "-proj-" + drawn(60), drawn(15) + "7"]
    text = f"The key is {secrets[0]} and DB_PASSWORD={secrets[1]}."
    for pieces in (1, 7, len(text)):
        path = tmp_path / f"{pieces}.jsonl"
        provider = Scripted([say(text, pieces)])
        await Engine(provider, record_options=RecordOptions(redact=Redaction())).run(
            f'{{"password": "{secrets[1]}"}}', record=path
        )
        whole = path.read_text()
        together = "".join(
            getattr(event, "delta", "") for event in read_record(path).runs[0].events if hasattr(event, "delta")
        )
        for secret in secrets:
            assert secret not in whole
            assert secret not in together
        assert (await replay(path)).same


async def test_D2_an_argument_is_a_secret_by_its_name(tmp_path: Path) -> None:
    secret, path = drawn(15) + "7", tmp_path / "session.jsonl"
    provider = Scripted([call("finish_task", summary="Done.", password=secret, port="8080 or so")])
    await Engine(provider, record_options=RecordOptions(redact=Redaction())).run("go", record=path)
    assert secret not in path.read_text()
    assert "8080 or so" in path.read_text()
    assert (await replay(path)).same


def test_D2_the_json_of_a_call_is_json_still() -> None:
    redaction = Redaction()
    for shape in SECRETS:
        text, _ = shape.example(chance)
        if shape.written == "neighbours" or "PuTTY" in text:
            continue  # one that breaks off goes to the end of the text, as a private key does
        assert json.loads(redaction(json.dumps({"command": text, "n": 1}))).keys() == {"command", "n"}, shape.kind
