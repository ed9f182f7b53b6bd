"""An adapter whose framework is not installed: it can be imported, and says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
def test_what_to_install_is_said_when_an_adapter_is_made(module: str) -> None:
    extra, packages = FRAMEWORKS[module]
    code = BLOCKED.format(module=module, packages=packages[:1])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert f"pip install 'endstop[{extra}]'" in ran.stdout
