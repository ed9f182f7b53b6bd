"""Commands that check the work (`Until`), and what their exit code and output say.

A command is met by exit code 0; 125 says that it cannot tell, as with `git bisect run`. Commands run what the model
wrote, so they see only the variables that the model's own commands see.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import deque
from collections.abc import Collection

from .check_answers import Met, NotMet
from .decision import WrongUse
from .decision.errors import error_text
from .tools.child_process import check_variable_names, child_environment, run_command

MOST_DETAIL = 2_000
"""Most characters of a command's output that an answer keeps: its first failing lines, then its end."""
MOST_FAILING_LINES = 20
"""Most failing lines at the beginning of an answer."""
CANNOT_TELL = 125
"""Exit code of a command that cannot tell now."""
NOT_STARTED = frozenset({126, 127})
"""Exit codes of the shell for a command that is not executable or does not exist."""


class CommandCheck:
    r"""A command that checks the work: exit code 0 means that it is done.

    folder: where it runs; None for this process's folder. env: names of variables that it sees in addition to those
    that the model's own commands see. score: a regular expression whose last match in the output gives the score: one
    group for the score, or two for what passes and what fails. Where the output names what fails first, call the groups
    so: `(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed` for pytest. inside: a command that runs a shell command
    elsewhere, such as `docker run --rm -v "$PWD":/work -w /work image`; `sh -c COMMAND` is added to it.

    Raises WrongUse for options that cannot work.
    """

    def __init__(
        self,
        command: str,
        folder: str | None = None,
        *,
        env: Collection[str] = (),
        score: str | None = None,
        inside: str = "",
    ) -> None:
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise WrongUse(f"a check is a command or a function, not {command!r}: write it as in 'pytest -q'")
        self.command = command
        self.folder = folder
        self.env = check_variable_names(env)
        self._score = _score_pattern(score)
        self._inside = inside

    def verify(self, folder: str | None) -> None:
        """Refuse a command that cannot be executed in this folder, as far as its first word tells. Raises WrongUse."""
        if self._inside:
            return
        check_shell(self.command, "until:")
        word = self.command.split()[0]
        if re.fullmatch(r"[\w./+-]*/[\w./+-]*", word) and not os.access(os.path.join(folder or ".", word), os.X_OK):
            raise WrongUse(f"until: {self.command!r}: {word!r} is missing in {folder or '.'}, or is not executable")

    async def execute(self, folder: str | None) -> tuple[int, str]:
        """Run the command in this folder and return its exit code and output."""
        line = f"{self._inside} sh -c {shlex.quote(self.command)}" if self._inside else self.command
        return await run_command(line, folder, child_environment(self.env))

    def read(self, code: int, output: str) -> Met | NotMet | None:
        """Return what an exit code and output say; None: the command cannot tell now."""
        if code == CANNOT_TELL:
            return None
        if code == 0:
            return Met()
        score, of = self.read_score(output)
        return NotMet(self.describe(code, output), score, of, failing_lines(output))

    @property
    def has_score(self) -> bool:
        """Whether a regular expression for the score was given."""
        return self._score is not None

    def read_score(self, output: str) -> tuple[float | None, float | None]:
        """Return the score in an output, and the most that it can be; None for what is not known."""
        return _read_score(self._score, output)

    def describe(self, code: int, output: str) -> str:
        """Return why the command failed: its exit code, its first failing lines, and the end of its output."""
        said = output.strip()
        if not said:
            return f"`{self.command}` failed with exit code {code}, and printed nothing"
        if len(said) > MOST_DETAIL:
            first = "\n".join(failing_lines(said))[: MOST_DETAIL // 2]
            said = f"{first}\n...\n" * bool(first) + said[len(first) - MOST_DETAIL :]
        return f"`{self.command}` failed with exit code {code}:\n{said}"


_COMMAND_NAME = re.compile(r"[\w.+-]+")


def check_shell(command: str, what: str) -> None:
    """Refuse a command that the shell cannot run: a syntax error, or an unknown command as its first word.

    A path as the first word is not checked. what: where the command was given, for the message. Raises WrongUse.
    """
    read = subprocess.run(["/bin/sh", "-n", "-c", command], capture_output=True, text=True, check=False)
    if read.returncode:
        why = read.stderr.strip().rpartition(": ")[2]
        raise WrongUse(f"{what} {command!r} is not a valid shell command: {why}")
    word = command.split()[0]
    if _COMMAND_NAME.fullmatch(word):
        known = subprocess.run(["/bin/sh", "-c", 'command -v -- "$1"', "sh", word], capture_output=True, check=False)
        if known.returncode:
            raise WrongUse(f"{what} {command!r}: command not found: {word!r}")


def _score_pattern(score: str | None) -> re.Pattern[str] | None:
    if score is None:
        return None
    try:
        pattern = re.compile(score, re.DOTALL)
    except re.error as error:
        raise WrongUse(f"score {score!r} is not a regular expression: {error_text(error)}") from None
    if pattern.groups not in (1, 2):
        raise WrongUse(
            f"score {score!r} has {pattern.groups} groups: write one, for the score, or two, for what passes and what "
            r"fails, as in '(?P<failed>\d+) failed, (?P<passed>\d+) passed'"
        )
    if pattern.groupindex and sorted(pattern.groupindex) != ["failed", "passed"][-pattern.groups :]:
        raise WrongUse(f"score {score!r} names its groups {', '.join(pattern.groupindex)}: call them passed and failed")
    return pattern


def _read_score(pattern: re.Pattern[str] | None, output: str) -> tuple[float | None, float | None]:
    """Return the score in an output, and the most that it can be; None for what is not known."""
    matches = deque(pattern.finditer(output) if pattern is not None else (), maxlen=1)
    if not matches:
        return None, None
    passed, failed = _group(matches[0], "passed", 1), _group(matches[0], "failed", 2)
    return passed, None if passed is None or failed is None else passed + failed


def _group(match: re.Match[str], name: str, number: int) -> float | None:
    """Return the number in a named group, or else in this one; None if there is none."""
    group: str | int = name if name in match.re.groupindex else number
    try:
        return float(match[group])
    except (IndexError, TypeError, ValueError):
        return None


_FAILING = re.compile(
    r"\bFAIL(?:ED|URE|S)?\b|\bERRORS?\b|"
    r"\b\w*(?:Error|Exception)\b|^E\s|\berror(?:\[\w+\])?:|\bnot ok\b|\bpanicked\b|[✗✘✕×]"
)


def failing_lines(output: str) -> tuple[str, ...]:
    """Return the lines of a command's output that name a failure, each once; at most `MOST_FAILING_LINES`."""
    lines = (line.strip() for line in output.splitlines())
    return tuple(dict.fromkeys(line for line in lines if _FAILING.search(line)))[:MOST_FAILING_LINES]
