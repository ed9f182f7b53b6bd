"""SIGKILL between a question for approval and the effect, as in `make kill`, which makes a thousand such trials."""

from pathlib import Path

import pytest

from ..console import python

ROOT = Path(__file__).parent.parent.parent


async def test_no_effect_comes_before_the_yes_and_none_twice_in_twenty_trials(tmp_path: Path) -> None:
    await trials(tmp_path, "20", "7")


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_none_comes_before_the_yes_and_none_twice_on_a_store(store: str, tmp_path: Path) -> None:
    await trials(tmp_path, "20", "7", "--store", store)


async def trials(folder: Path, *given: str, module: str = "tests.approval_kills") -> None:
    """Run the trials in a process that was forked, which has most of what they import."""
    script = folder / "trials.py"
    begin = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
    script.write_text(f"{begin}runpy.run_module({module!r}, run_name='__main__')")
    ran = await python(script, *given, cwd=ROOT)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.startswith("20 trials, seed 7, "), ran.out


async def test_nor_where_a_sub_agent_asks_through_its_caller(tmp_path: Path) -> None:
    await trials(tmp_path, "20", "7", module="tests.subagent_kills")
