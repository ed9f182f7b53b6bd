"""An adapter whose framework is not installed: it can be imported, and says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...console import python
from .frameworks import FRAMEWORKS

BLOCKED = """
import sys
for name in {packages!r}:
    sys.modules[name] = None
from endstop import WrongUse
from endstop.adapters import {module}
try:
    {module}.Endstop()
except WrongUse as error:
    print(error)
"""


@pytest.mark.parametrize("module", FRAMEWORKS)
async def test_what_to_install_is_said_when_an_adapter_is_made(module: str, tmp_path: Path) -> None:
    extra, packages = FRAMEWORKS[module]
    program = tmp_path / "program.py"
    program.write_text(BLOCKED.format(module=module, packages=packages[:1]))
    ran = await python(program, cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert f"pip install 'endstop[{extra}]'" in ran.out
