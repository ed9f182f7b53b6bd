"""Checks in a recorded run: the tests that an agent ran itself, what each said, and the changes of the work between.

A check is a command that runs tests of the work (`tested_commands.py`), or a script that decides by its exit code: one
with a test's name, or one that the run wrote with an assertion or an exit code in it. A command that runs only some of
the tests is a check, too. Builds and linters are none.

What a check said is read in this order; where nothing is left, it is unknown:

1. its exit code, if the result shows one and it is that of the check: with a pipe, `;` or `||` after the check it is
   another command's. A tool of which some results have shown a code, but never 0, and
   others none, is taken to show no 0;
2. the summary line of a known runner in its output.

A run of ours with a check (`until`) has its own events for each, with the answer.

A run in which no test ran, or that could not start (exit code 126 or 127), says nothing.

The changes are those of `CallJudge`, without what does not last: files that the run itself created and later removed,
and patches of the work. So a script that reproduces the problem, and its removal at the end, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..command_check import NOT_STARTED
from ..decision import events as ev
from ..decision.call_effects import shell_command
from ..decision.call_judgement import CallJudge, CallJudgement
from ..decision.call_results import exit_code, still_runs
from ..decision.facts import Facts
from ..decision.failures import FAILED_STATUSES
from ..decision.shell_commands import MAX_LENGTH, is_test, without_prefixes
from ..decision.shell_syntax import Command, split_commands, unquoted
from ..work.summary_lines import RunnerSummary, read_summary
from .lasting_changes import LastingChanges
from .summary import ResourceUse
from .tested_commands import ScriptText, read_script, run_script, runs_tests, shown_tests, stem

Said = Literal["passed", "failed", "unknown"]
"""What a check said about the work."""
COMMAND_LENGTH = 160
"""Number of characters that are kept of a check's command."""
MAX_SCRIPTS = 200
"""Maximum number of the run's own scripts that are remembered."""
_SAID_BY_UNTIL: dict[str, Said] = {"met": "passed", "not_met": "failed", "impossible": "failed"}


class RecordedCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check in a recorded run."""

    step: int
    """Number of its step, from 1."""
    command: str
    """The first `COMMAND_LENGTH` characters of the command."""
    said: Said
    passed: int | None = None
    """Number of tests that passed, from the test runner's summary; None if there is no summary."""
    failed: int | None = None
    """Number of tests that failed or ended in an error, from the same summary; None if there is no summary."""
    used: ResourceUse = ResourceUse()
    """Usage of the run when the step of the check had ended."""


class RunChecks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The checks of one run, and the steps that changed its work."""

    checks: tuple[RecordedCheck, ...] = ()
    """In the order of their steps."""
    changes: tuple[int, ...] = ()
    """Numbers of the steps with a change of the work, ascending, each once."""


class CheckFinder:
    """Finds the checks of one run. Feed it each event of the run, with the facts after it.

    judge: the `CallJudge` of the run's calls.
    """

    def __init__(self, started: ev.RunStarted, judge: CallJudge) -> None:
        self._judge = judge
        self._ordinary = frozenset(tool.name for tool in started.tools if tool.kind == "ordinary")
        self._checks: list[RecordedCheck] = []
        self._of_step: list[RecordedCheck] = []
        self._files = LastingChanges()
        self._scripts: dict[str, ScriptText] = {}
        """What the texts of the run's own scripts and programs do, by their names without suffix."""
        self._codes: dict[str, set[Literal["0", "not 0", "none"]]] = {}
        """By tool: the exit codes that its results have shown so far; `none` of those that did not fail."""
        self._checked: ev.CheckStarted | None = None
        """The beginning of the latest check of the run's own."""
        self._running = ""
        """Command of a check that went on in the background."""

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event, facts)

    def build(self, facts: Facts) -> RunChecks:
        """Return the checks of the run so far. facts: those after its latest event."""
        self._end_step(facts)
        return RunChecks(checks=tuple(self._checks), changes=self._files.steps())

    def _end_step(self, facts: Facts) -> None:
        used = ResourceUse.of(facts)
        self._checks += (replace(check, used=used) for check in self._of_step)
        self._of_step.clear()

    def _step_finished(self, event: ev.StepFinished, facts: Facts) -> None:
        self._end_step(facts)

    def _check_started(self, event: ev.CheckStarted, facts: Facts) -> None:
        self._checked = event

    def _check_ended(self, event: ev.CheckEnded, facts: Facts) -> None:
        """Add a check of the run's own (`until`), at the step whose work it looked at."""
        if self._checked is None:
            return
        self._checks.append(
            RecordedCheck(
                step=self._checked.step,
                command=self._checked.name[:COMMAND_LENGTH],
                said=_SAID_BY_UNTIL.get(event.said, "unknown"),
                passed=None if event.score is None or event.of is None else round(event.score),
                failed=round(event.of - event.score) if event.of is not None and event.score is not None else None,
                used=ResourceUse.of(facts),
            )
        )

    def _result(self, event: ev.ToolCallResult, facts: Facts) -> None:
        if event.name not in self._ordinary:
            return
        arguments = next((call.arguments for call in facts.open_calls if call.id == event.call_id), "")
        judged = self._judge.judge(event, facts)
        text = shell_command(event.name, arguments)
        commands = split_commands(text[:MAX_LENGTH])
        if judged.changed:
            self._files.add(facts.steps, event.name, commands, judged.files)
            self._remember_scripts(commands, judged.files, arguments)
        elif judged.effect == "reads" and (shown := shown_tests(arguments, event.content)):
            self._scripts.setdefault(shown, ScriptText(decides=True, writes=False))
        code = self._code_of(event, judged)
        check = self._check_in(event, commands, judged, code)
        if check is not None:
            shown, said, summary = check
            self._of_step.append(
                RecordedCheck(step=facts.steps, command=shown, said=said, passed=summary.passed, failed=summary.failed)
            )
        if not judged.failed and any(self._writes(command) for command in commands):
            self._files.add(facts.steps, event.name, commands, ())

    def _code_of(self, event: ev.ToolCallResult, judged: CallJudgement) -> int | None:
        """Return the exit code of a call; None if nothing shows it."""
        shown, code = self._codes.setdefault(event.name, set()), exit_code(event.content, alone=True)
        if code is not None:
            shown.add("not 0" if code else "0")
        elif event.status in FAILED_STATUSES:
            return 1
        elif not judged.failed and not _cut_short(event.content):
            code = 0 if shown == {"not 0", "none"} else None
            shown.add("none")
        return code

    def _check_in(
        self, event: ev.ToolCallResult, commands: Sequence[Command], judged: CallJudgement, code: int | None
    ) -> tuple[str, Said, RunnerSummary] | None:
        """Return the check that a call made: its command, what it said and its summary; None if it made none."""
        checks = [number for number, command in enumerate(commands) if self._is_check(command)]
        if checks:
            shown = " ".join(" ".join(commands[checks[0]].words).split())[:COMMAND_LENGTH]
            if still_runs(event.content):
                self._running = shown
                return shown, "unknown", RunnerSummary()
            return (shown, *_said(event.content, code, commands, checks))
        if not commands and judged.checks and "test" in event.name.lower():  # a tool that only runs tests
            return (event.name, *_said(event.content, code, (), ()))
        if self._running and judged.effect == "waits":
            summary = read_summary(event.content)
            if summary.verdict is not None:
                shown, self._running = self._running, ""
                return shown, "passed" if summary.verdict else "failed", summary
        return None

    def _is_check(self, command: Command) -> bool:
        words = [unquoted(word) for word in without_prefixes(command.words)]
        if runs_tests(words):
            return True
        script = run_script(words)
        if script is None:
            return False
        own = self._scripts.get(stem(script))
        return is_test(script) if own is None else own.decides

    def _writes(self, command: Command) -> bool:
        """Return whether a command runs a script of the run's own that changes files, as one that applies a patch."""
        script = run_script([unquoted(word) for word in without_prefixes(command.words)])
        own = None if script is None else self._scripts.get(stem(script))
        return own is not None and own.writes and not own.decides

    def _remember_scripts(self, commands: Sequence[Command], files: Sequence[str], arguments: str) -> None:
        """Remember what the texts of the files that a call wrote do."""
        documents = {file: command.document for command in commands for file in command.files if command.document}
        for file in files:
            text, before = documents.get(file), self._scripts.pop(stem(file), None)
            read = read_script(file, _written_text(arguments) if text is None else text)
            if text is None and before is not None:  # a part of it was written
                read = ScriptText(decides=read.decides or before.decides, writes=read.writes or before.writes)
            self._scripts[stem(file)] = read
        while len(self._scripts) > MAX_SCRIPTS:
            del self._scripts[next(iter(self._scripts))]


_CHANGES: dict[type, Callable[[CheckFinder, Any, Facts], None]] = {
    ev.ToolCallResult: CheckFinder._result,
    ev.StepFinished: CheckFinder._step_finished,
    ev.CheckStarted: CheckFinder._check_started,
    ev.CheckEnded: CheckFinder._check_ended,
}
CHECK_EVENTS = frozenset(_CHANGES)
"""Event types that a finder looks at."""


def _written_text(arguments: str) -> str:
    """Return the texts among the JSON arguments of a call that writes a file; without what it replaces."""
    try:
        waiting = [msgspec.json.decode(arguments)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    texts: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            waiting += (inner for key, inner in value.items() if not key.startswith("old"))
        elif isinstance(value, list):
            waiting += value
    return "\n".join([text for text in texts if "\n" in text] or texts)


# ---- what a check said


_CUT_SHORT = re.compile(r"\b(?:signal|timed out|timeout|abort\w*|interrupt\w*|restarted)\b", re.IGNORECASE)


def _cut_short(output: str) -> bool:
    """Return whether the ends of an output say that the command did not end by itself."""
    return bool(_CUT_SHORT.search(output[:200]) or _CUT_SHORT.search(output[-200:]))


def _said(
    output: str, code: int | None, commands: Sequence[Command], checks: Sequence[int]
) -> tuple[Said, RunnerSummary]:
    """Return what the checks with these numbers among a call's commands said together, and the summary of the tests."""
    summary = read_summary(output)
    if summary.nothing_ran or code in NOT_STARTED:
        return "unknown", summary
    if code is not None and _is_exit_code_of(commands, checks):
        if code:
            return "failed", summary
        return "failed" if summary.verdict is False and len(checks) > 1 else "passed", summary
    if summary.verdict is None:
        return "unknown", summary
    return "passed" if summary.verdict else "failed", summary


def _is_exit_code_of(commands: Sequence[Command], checks: Sequence[int]) -> bool:
    """Return whether the exit code of a call says how the last of its checks ended. No commands: the call is one."""
    if not commands:
        return True
    last = checks[-1]
    if commands[last].words[:1] in (["if"], ["while"], ["until"], ["!"]):
        return False
    return all(command.operator == "&&" for command in commands[last + 1 :])
