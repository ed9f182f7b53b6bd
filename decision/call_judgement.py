"""What the calls of a run did and how they ended: the single answer for guards, figures and pages.

For the run's own tools the record says it: a tool declares whether it only reads, and each result has a status. The
tools of a foreign loop (one that endstop does not run) declare nothing, and a result without a known status is recorded
as `ok`. There the name and the arguments tell what a call does (`call_effects.py`), and the result how it ended
(`call_results.py`). What neither tells is unknown, and never a success.

A program that the run itself wrote is recognised by its text: `python3 analyze.py` changes the work if the script
written before opens a file by name to write to it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from . import events as ev
from .call_effects import call_effect, named_file, runs_commands
from .call_results import CallEnd, call_end, exit_code, has_failed, still_runs
from .call_verbs import CallEffect, Effect
from .facts import Facts
from .file_edits import FileEdit, file_edits, file_looked_at
from .fold import fold
from .messages import ToolCall
from .program_text import code_effect
from .run_origin import is_foreign
from .shell_commands import shell_effect
from .written_files import file_names, files_in_output

MAX_SCRIPTS = 64
"""Maximum number of the run's programs that are remembered, the latest ones."""
MAX_TEXT = 100_000
"""Longer arguments are not searched for the text of a program."""
_SHELLS = (".sh", ".bash")
_SCRIPTS = (*_SHELLS, ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".R", ".r", ".jl")


class CallJudgement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call did and how it ended."""

    effect: Effect
    end: CallEnd
    only_read: bool = False
    """Whether it left everything as it was: its tool declares so or, in a foreign loop, its name and arguments show
    that it read, waited or did no work."""
    changed: bool = False
    """Whether it changed the work, as far as that is known."""
    checks: bool = False
    """Whether it checked the work, possibly among other things."""
    files: tuple[str, ...] = ()
    """The files that it changed for certain, as far as they are known."""
    perhaps: tuple[str, ...] = ()
    """The files that it perhaps changed: a program ran whose text or output names them, or a tool that may write."""
    code: int | None = None
    """The exit code that its result names. Only a `SessionJudge` looks for it, and for what follows."""
    edits: tuple[FileEdit, ...] = ()
    """What it did to each of its `files`, in order."""
    looked_at: str = ""
    """The one file that it read."""

    @property
    def failed(self) -> bool:
        """Whether it failed: by its status or, in a foreign loop, by its result, as with any exit code but 0."""
        return self.end in ("failed", "nothing_found")

    @property
    def succeeded(self) -> bool:
        """Whether it is known to have succeeded: by its status or, in a foreign loop, by its result."""
        return self.end == "succeeded"


class CallJudge:
    """Judges the calls of one run, one result at a time, in order."""

    def __init__(self, started: ev.RunStarted) -> None:
        self.foreign = is_foreign(started.engine)
        """Whether a foreign loop made the run."""
        self._tools = {tool.name: tool for tool in started.tools}
        self._open: tuple[ToolCall, ...] = ()
        self._arguments: dict[str, str] = {}
        self._scripts: dict[str, tuple[str, ...]] = {}
        """The names of programs that write files, with those files."""
        self._latest: tuple[ev.ToolCallResult, CallJudgement] | None = None

    def judge(self, event: ev.ToolCallResult, facts: Facts) -> CallJudgement:
        """Judge a call by its result. facts: those after this event. The same event always gets the same judgement."""
        if self._latest is None or self._latest[0] is not event:
            self._latest = event, self._judge(event, facts)
        return self._latest[1]

    def _judge(self, event: ev.ToolCallResult, facts: Facts) -> CallJudgement:
        if facts.open_calls is not self._open:
            self._open = facts.open_calls
            self._arguments = {call.id: call.arguments for call in facts.open_calls}
        arguments = self._arguments.get(event.call_id, "")
        tool = self._tools.get(event.name)
        declared = self._declared(event.name)
        does = call_effect(event.name, arguments, declared)
        end = self._end_of(event, does.effect, facts)
        files: tuple[str, ...] = ()
        perhaps: tuple[str, ...] = ()
        if tool is not None and tool.kind != "ordinary":
            changed = False
        elif self.foreign:
            changed, files, perhaps = self._changes_by_result(does, end, event, arguments)
        elif changed := tool is not None and _has_changed(does, event, declared):
            files = does.files
            perhaps = () if files or runs_commands(event.name) else file_names([named_file(arguments)])
        return CallJudgement(
            effect=does.effect,
            end=end,
            only_read=does.effect in ("reads", "waits", "controls") if declared is None else declared,
            changed=changed,
            checks=does.checks,
            files=files,
            perhaps=perhaps,
        )

    def proposed(self, name: str, arguments: str) -> CallJudgement:
        """Judge a call that waits for approval: what it would do, with the changes of files that its arguments hold."""
        does = call_effect(name, arguments, self._declared(name))
        edits = file_edits(name, arguments, does.files, "", False) if does.effect == "changes" else ()
        return CallJudgement(effect=does.effect, end="unknown", edits=edits)

    def _declared(self, name: str) -> bool | None:
        """Return whether a tool declares that it only reads; None if that is not known."""
        tool = self._tools.get(name)
        return None if tool is None else tool.reads or (None if self.foreign else False)

    def arguments_of(self, call_id: str) -> str:
        """Return the arguments of a call of the latest response as JSON; empty if it is not known."""
        return self._arguments.get(call_id, "")

    def _end_of(self, event: ev.ToolCallResult, effect: Effect, facts: Facts) -> CallEnd:
        tool = self._tools.get(event.name)
        match event.status:
            case "ok" if self.foreign and (tool is None or tool.kind not in ("completion", "question")):
                return call_end(event.content, event.status, effect)
            case "ok":
                return "succeeded"
            case "error" | "invalid":
                return "failed"
            case "truncated" if facts.limit_reached is None:
                return "failed"
            case _:
                return "unknown"

    def _changes_by_result(
        self, does: CallEffect, end: CallEnd, event: ev.ToolCallResult, arguments: str
    ) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
        """Return whether a call of a foreign loop changed the work, which files for certain, and which perhaps."""
        if event.status not in ("ok", "error"):
            return False, (), ()
        failed = end == "failed"
        match does.effect:
            case "changes" if not failed or does.checks:  # it may be the check that failed
                self._remember(event.name, arguments, does.files)
                return True, does.files, file_names(self._written_by(does.scripts))
            case "unknown" if not failed and not still_runs(event.content):
                files = file_names((*self._written_by(does.scripts), *files_in_output(event.content, arguments)))
                return bool(files), (), files
            case _:
                return False, (), ()

    def _written_by(self, scripts: tuple[str, ...]) -> list[str]:
        return [file for script in scripts for file in self._scripts.get(_base(script), ())]

    def _remember(self, name: str, arguments: str, files: tuple[str, ...]) -> None:
        """Remember the programs among the files that a call wrote, if their text writes files."""
        scripts = [file for file in files if file.endswith(_SCRIPTS)]
        if not scripts or len(arguments) > MAX_TEXT:
            return
        text = _longest_text(arguments)
        in_shell = scripts[0].endswith(_SHELLS) and not runs_commands(name)
        does = shell_effect(text) if in_shell else code_effect(text)
        for script in scripts if does.files else ():
            self._scripts.pop(_base(script), None)
            self._scripts[_base(script)] = does.files
        while len(self._scripts) > MAX_SCRIPTS:
            del self._scripts[next(iter(self._scripts))]


class SessionJudge:
    """Judges the calls of a session's runs, each from its beginning on, for people who look at them."""

    def __init__(self) -> None:
        self._judge: CallJudge | None = None
        self._facts = Facts()

    def feed(self, event: ev.Event) -> CallJudgement | None:
        """Add an event and return a judgement for each result, and for each call of the run that waits for approval.

        Only the event types in `JUDGED_BY` have an effect.
        """
        if isinstance(event, ev.RunStarted):
            self._judge, self._facts = CallJudge(event), fold(Facts(), event)
        elif self._judge is not None and isinstance(event, JUDGED_BY):
            self._facts = fold(self._facts, event)
            if isinstance(event, ev.ToolCallResult):
                return _in_detail(event, self._judge.judge(event, self._facts), self._judge.arguments_of(event.call_id))
            if isinstance(event, ev.QuestionAsked) and event.tool is not None and event.asker is None:
                waiting = (call.arguments for call in self._facts.open_calls if call.id == event.call_id)
                return self._judge.proposed(event.tool, next(waiting, ""))
        return None


def _in_detail(event: ev.ToolCallResult, known: CallJudgement, arguments: str) -> CallJudgement:
    """Return a judgement with what only people look at."""
    changes = known.effect == "changes" and (known.changed or known.failed)
    edits = file_edits(event.name, arguments, known.files, event.content, not known.changed) if changes else ()
    return replace(
        known,
        code=exit_code(event.content, alone=known.effect == "reads") if event.status in ("ok", "error") else None,
        edits=edits,
        files=tuple(dict.fromkeys(edit.path for edit in edits)),
        looked_at=file_looked_at(event.name, arguments, event.content) if known.effect == "reads" else "",
    )


JUDGED_BY = (ev.RunStarted, ev.ResponseFinished, ev.ToolCallResult, ev.LimitReached, ev.QuestionAsked)
"""Types of the events that a `SessionJudge` needs."""


def _has_changed(does: CallEffect, event: ev.ToolCallResult, declared: bool | None) -> bool:
    """Return whether a call of one of the run's own tools changed the work."""
    if event.status != "ok":
        return False
    match does.effect:
        case "changes":  # if it checks as well, it may be the check that failed
            return does.checks or not has_failed(event.content, event.status, "changes")
        case "unknown":
            return declared is False and not has_failed(event.content, event.status)
        case "reads" | "checks" | "waits" | "controls":
            return False


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _longest_text(arguments: str) -> str:
    """Return the longest text among the arguments, or the arguments themselves if they are not JSON."""
    try:
        given: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    values = given.values() if isinstance(given, dict) else ()
    return max((value for value in values if isinstance(value, str)), key=len, default="")
