"""Loads programs that are no part of a package: those of `docs/`, and those of `../shared/tools`."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent.parent / "docs"


@cache
def load(path: Path) -> ModuleType:
    """The program at `path` as a module. It is run once in a process, when the first test asks for it."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
