"""The entry point of the `endstop` script, which imports the command line late, so that Ctrl-C can end the imports."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def main() -> int:
    """Run the command line and return its exit code; 130 after Ctrl-C, also while Python still imports.

    It does not return where an agent has started a hook: the process ends without taking itself apart, which takes a
    seventh of its time.
    """
    words = sys.argv[1:]
    hook = _is_hook(words)
    if hook:
        gc.disable()  # one event leaves little that only it would free, and it takes a tenth of the time
    code = run(words)
    if hook:
        with suppress(OSError, AttributeError):  # None without a stderr
            sys.stderr.flush()
        os._exit(code)
    return code


def run(words: list[str]) -> int:
    """Run the command line with these words; return what `main` returns."""
    try:
        if _is_hook(words):
            from .hook_options import answer_agent  # an agent waits for it at each of its events

            return answer_agent(words[1:])
        from .main import run_command_line

        return run_command_line()
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return 1 if words[:1] == ["hook"] else 130  # agents take other codes than 0 and 1 for a denial


def _is_hook(words: list[str]) -> bool:
    """Return whether an agent has started `endstop hook` at an event."""
    asks = words[:1] == ["hook"] and not {"--help", "-h"} & {*words}
    return asks and not (sys.stdin is not None and sys.stdin.isatty())  # where a person sits
