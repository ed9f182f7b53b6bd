"""Each example of docs/guides/adapters.md as a script of its own, where its framework is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from endstop import read_record
from endstop.adapters.followed_run import AdapterOptions

from . import claude_code
from .endless_model import AFTER, serving
from .frameworks import skip_without
from .proxied import proxied

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "adapters.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
MODULES = [re.findall(r"endstop\.adapters\.(\w+)", example)[0] for example in EXAMPLES]


def test_the_table_of_options_has_each_option() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == list(AdapterOptions.__annotations__)


@pytest.mark.parametrize("place", range(len(EXAMPLES)), ids=MODULES)
def test_an_example_ends_with_its_completion(place: int, tmp_path: Path) -> None:
    skip_without(MODULES[place])
    (tmp_path / "example.py").write_text(EXAMPLES[place], encoding="utf-8")
    (tmp_path / "home").mkdir()
    ours = {name: value for name, value in os.environ.items() if name not in claude_code.foreign_variables()}
    with serving() as model, proxied(model.url, ("mcp__mine__finish_task",)) as cutting:
        openai = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "x"}
        google = {"GOOGLE_GEMINI_BASE_URL": model.url.removesuffix("/v1"), "GOOGLE_API_KEY": "x"}
        ran = subprocess.run(
            [sys.executable, "example.py"],
            cwd=tmp_path,
            env={**ours, **openai, **google, **claude_code.environment(cutting, tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        assert "port is 8080" in ran.stdout
        assert len(model.requests) == 3
        assert model.chunks_after < AFTER / 2
    (run,) = read_record(tmp_path / "run.jsonl").runs
    assert run.finished is not None
    assert (run.finished.outcome.stop_reason, run.finished.outcome.answer) == ("completed", "port is 8080")
