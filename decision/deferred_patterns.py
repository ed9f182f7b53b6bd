"""Regular expressions that are compiled when they are first used.

The decision has about a hundred, and compiling all of them takes 40 ms. A process that makes one decision and ends, as
a hook of another agent does, needs a few. What goes on for long compiles all of them before its first request
(`compile_deferred`), so that no response waits for one.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, Generic, cast


def deferred(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, compiled when one of its methods is first used. For constants of a module."""
    made = DeferredPattern(pattern, flags)
    _DEFERRED.append(made)
    return cast("re.Pattern[AnyStr]", made)


def compile_deferred() -> None:
    """Compile all deferred patterns of the modules that are imported. A second call costs nothing."""
    while _DEFERRED:
        _ = _DEFERRED.pop().compiled


class DeferredPattern(Generic[AnyStr]):
    """A pattern with the methods of `re.Pattern`. Once one has been used, it is that of the compiled pattern itself."""

    def __init__(self, pattern: AnyStr, flags: re.RegexFlag) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[AnyStr]:
        """The compiled pattern."""
        return re.compile(self.pattern, self._flags)

    def __repr__(self) -> str:
        return repr(self.compiled)

    match = cached_property[Any](lambda self: self.compiled.match)
    fullmatch = cached_property[Any](lambda self: self.compiled.fullmatch)
    search = cached_property[Any](lambda self: self.compiled.search)
    finditer = cached_property[Any](lambda self: self.compiled.finditer)
    findall = cached_property[Any](lambda self: self.compiled.findall)
    split = cached_property[Any](lambda self: self.compiled.split)
    sub = cached_property[Any](lambda self: self.compiled.sub)
    subn = cached_property[Any](lambda self: self.compiled.subn)


_DEFERRED: list[DeferredPattern[Any]] = []
"""Those that may not be compiled yet."""
