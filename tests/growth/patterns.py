"""All regular expressions of the package, and how each is used, found by running it: nothing is listed.

Call `record` before anything of the package is imported.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

Use = Literal["match", "fullmatch", "search", "everywhere"]
"""A method of a pattern. `everywhere` stands for those that go on behind what they have found."""
_ONCE: tuple[Use, ...] = ("match", "fullmatch", "search")
_PACKAGE = "endstop"
_DEFERRED = "endstop.decision.deferred_patterns"


class UsedPattern(NamedTuple):
    """A pattern of one module."""

    module: str
    line: int
    pattern: re.Pattern[Any]
    uses: frozenset[Use]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"

    def apply(self, use: Use, text: str) -> None:
        """Use it on a text; a pattern for bytes on the text in Latin-1."""
        given: Any = text.encode("latin-1") if isinstance(self.pattern.pattern, bytes) else text
        if use == "everywhere":
            for _ in self.pattern.finditer(given):
                pass
        else:
            getattr(self.pattern, use)(given)


class Recorder:
    """Notes each pattern that a module of the package compiles, or has compiled by a function of `re`."""

    def __init__(self) -> None:
        self._compile: Callable[..., re.Pattern[Any]] = re._compile  # type: ignore[attr-defined]
        self._found: dict[tuple[str, str | bytes, int], tuple[int, re.Pattern[Any], set[str]]] = {}
        self._deferred: list[Any] = []
        self._imported = False

    def record(self) -> None:
        """Begin, for the rest of this process."""
        assert _PACKAGE not in sys.modules, "it has been imported already"
        re._compile = self._note  # type: ignore[attr-defined]

    def end_of_imports(self) -> None:
        """What is compiled from here on is compiled in a function, whose methods are not known: readers try it."""
        self._imported = True

    def _note(self, pattern: Any, flags: int) -> re.Pattern[Any]:
        compiled = self._compile(pattern, flags)
        function = sys._getframe(1)
        caller = function.f_back
        module = caller.f_globals.get("__name__", "") if caller is not None else ""
        if caller is not None and module == _DEFERRED:
            self._deferred.append(caller.f_locals["self"])
        elif caller is not None and module.startswith(f"{_PACKAGE}."):
            known = self._found.setdefault(
                (module, compiled.pattern, compiled.flags), (caller.f_lineno, compiled, set())
            )
            name = function.f_code.co_name
            known[2].add("compile later" if name == "compile" and self._imported else name)
        return compiled

    def patterns(self) -> Iterator[UsedPattern]:
        """Those that were compiled so far."""
        homes = _homes()
        for one in self._deferred:
            module, line = homes[id(one)]
            compiled = one.compiled
            self._found.setdefault((module, compiled.pattern, compiled.flags), (line, compiled, {"compile"}))
        for (module, _, _), (line, pattern, functions) in sorted(
            self._found.items(), key=lambda one: (one[0][0], one[1][0])
        ):
            named = functions - {"compile", "compile later"} | _methods(module, pattern)
            uses: set[Use] = {use for use in _ONCE if use in named}
            if named - uses or (functions == {"compile"} and not named):
                uses.add("everywhere")
            yield UsedPattern(module, line, pattern, frozenset(uses))


def _methods(module: str, pattern: re.Pattern[Any]) -> set[str]:
    """The methods that the module calls on the names of this pattern."""
    constants = vars(sys.modules[module]).items()
    names = [name for name, value in constants if value is pattern or _compiled(value) is pattern]
    source = inspect.getsource(sys.modules[module])
    return {
        found
        for name in names
        for found in re.findall(rf"\b{name}\.([a-z]+)\b", source)
        if found not in ("pattern", "flags")
    }


def _compiled(value: Any) -> Any:
    return value.compiled if isinstance(value, sys.modules[_DEFERRED].DeferredPattern) else None


def _homes() -> dict[int, tuple[str, int]]:
    """The module and the line of each deferred pattern, by its id: it is a constant of a module, or within one."""
    kind = sys.modules[_DEFERRED].DeferredPattern
    homes: dict[int, tuple[str, int]] = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(f"{_PACKAGE}.") or not any(map(partial(_holds, kind), vars(module).values())):
            continue
        lines = inspect.getsource(module).splitlines()
        for constant, value in vars(module).items():
            line = next((at for at, text in enumerate(lines, 1) if text.startswith(f"{constant} = ")), 0)
            for one in _members(value):
                if isinstance(one, kind) and line:  # otherwise it is imported from its home
                    homes[id(one)] = name, line
    return homes


def _holds(kind: type, value: Any) -> bool:
    return any(isinstance(one, kind) for one in _members(value))


def _members(value: Any) -> Iterator[Any]:
    """A value, and what is in it if it is a tuple or a dict."""
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        if isinstance(one, tuple):
            yield from one
        else:
            yield one


def import_all() -> None:
    """Import every module of the package, and compile what would be compiled when it is first used."""
    package = importlib.import_module(_PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:
            importlib.import_module(module.name)
    sys.modules[_DEFERRED].compile_deferred()
