"""Checks of the work: a command or a function that says whether the task is done.

    Engine(model, tools=tools, until="pytest -q")
    Engine(model, tools=tools, until=Until("pytest -q", "ruff check .", guard=["tests/**"], timeout=600))

    async def pages_answer(run: Progress) -> Met | NotMet:
        answering = await count_pages()
        return Met() if answering == 12 else NotMet("some pages do not answer", score=answering, of=12)

A check is called with the `Progress` of a run. It returns `Met`, `NotMet` or `Impossible`; True and False stand for the
first two, and None says that it cannot tell now. A command is met by exit code 0; 125 says that it cannot tell, as with
`git bisect run`. Commands run what the model wrote, so they see only the variables that the model's own commands see.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from .decision import Usage, WrongUse
from .decision.errors import error_text
from .decision.until_facts import CheckSaid
from .decision.wrong_calls import checked
from .tools.child_process import check_variable_names, child_environment, run_command

if TYPE_CHECKING:
    from .tools.run_context import Progress

MOST_DETAIL = 2_000
"""Most characters of a command's output that an answer keeps: its first failing lines, then its end."""
MOST_FAILING_LINES = 20
"""Most failing lines at the beginning of an answer."""
CANNOT_TELL = 125
"""Exit code of a command that cannot tell now."""
NOT_STARTED = frozenset({126, 127})
"""Exit codes of the shell for a command that is not executable or does not exist."""


@checked
@dataclass(frozen=True, slots=True)
class Met:
    """The work is done."""


@checked
@dataclass(frozen=True, slots=True)
class NotMet:
    """The work is not done yet."""

    reason: str = ""
    """What the model reads."""
    score: float | None = None
    """How much of it is done, the more the better; None if there is no number."""
    of: float | None = None
    """The most that the score can be; None if that is not known."""
    failing: tuple[str, ...] = ()
    """Without a score: what fails. A set that was not seen before counts as progress."""


@checked
@dataclass(frozen=True, slots=True)
class Impossible:
    """The work cannot be done, whatever else is tried: the run ends as `blocked`."""

    reason: str
    """Why it cannot be done, for the outcome's `detail`."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a model says of the work: the run ends as judged by it, never as checked."""

    answer: Met | NotMet | None
    """None: its answer cannot be read."""
    by: str
    """The model."""
    usage: Usage | None = None
    """Its usage, which counts as usage of the run."""


CheckAnswer = Met | NotMet | Impossible | Judged | bool | None
"""Answer of a check. True: met. False: not met. None: it cannot tell now, which counts as no answer."""
Check = Callable[["Progress[Any]"], Awaitable[CheckAnswer] | CheckAnswer]


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
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


def failing_lines(output: str) -> tuple[str, ...]:
    """Return the lines of a command's output that name a failure, each once; at most `MOST_FAILING_LINES`."""
    lines = (line.strip() for line in output.splitlines())
    return tuple(dict.fromkeys(line for line in lines if _FAILING.search(line)))[:MOST_FAILING_LINES]


def failure_mark(answer: NotMet) -> int:
    """Return a mark of what failed, which numbers such as times and addresses do not change."""
    text = "\n".join(sorted(answer.failing)) or answer.reason
    return crc32(_NUMBER.sub("0", text).encode("utf-8", "surrogatepass"))


class WorkAnswer(Struct, frozen=True, kw_only=True):
    """What the checks say of the work, as `CheckEnded` records it."""

    said: CheckSaid
    detail: str = ""
    score: float | None = None
    of: float | None = None
    failure: int = 0
    guard_changed: tuple[str, ...] = ()
    timed_out: bool = False
    usage: Usage | None = None
    judged_by: str = ""
    duration_ms: int = 0

    @property
    def is_final(self) -> bool:
        """Whether it ends a run: the work is done, or cannot be."""
        return self.said in ("met", "impossible")


def answer_of(said: Any, name: str) -> WorkAnswer:
    """Return what a check of this name has said, whatever form it said it in."""
    match said:
        case Met() | True:
            return WorkAnswer(said="met")
        case NotMet(reason, score, of):
            failure = 0 if score is not None else failure_mark(said)
            return WorkAnswer(said="not_met", detail=reason, score=score, of=of, failure=failure)
        case Judged(answer, by, usage):
            return replace(answer_of(answer, name), judged_by=by, usage=usage)
        case False:
            return WorkAnswer(said="not_met", detail=f"`{name}` is not met")
        case Impossible(reason):
            return WorkAnswer(said="impossible", detail=reason)
        case None:
            return WorkAnswer(said="unknown", detail=f"`{name}` cannot tell now")
        case _:
            what = f"a check answers Met, NotMet, Impossible, a bool or None, not {type(said).__name__}"
            return WorkAnswer(said="unknown", detail=what)
