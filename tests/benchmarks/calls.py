"""Measures what is shown of the calls of other loops: which failed, which succeeded, and which files they changed.

    python tests/benchmarks/calls.py FOLDER_WITH_DATA [--files N] [--ticks N]

`labelled_sessions.py` says which sessions. Each call is judged as the list, the audit, the report and the pages are
told it (`CallJudge`). What a result says is found here by other means than there: an exit code by the exact words in
which these agents' tools report one, a traceback by its lines. --files and --ticks print a random sample of the files
that are listed as changed, and of the calls that have a tick without an exit code, to be looked at by hand.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from endstop.decision import Facts, fold
from endstop.decision.call_judgement import CallJudge, CallJudgement
from endstop.decision.events import AttemptFailed, RunStarted, ToolCallResult
from labelled_sessions import LabelledSession, read_sessions

CODE = re.compile(
    r"<returncode>(-?\d+)</returncode>|^Exit code: (\d+)|\(Command exited with code (\d+)\)\s*\Z"
    r"|Process exited with code (\d+)\.\s*\Z|Process exited with signal (\w+)\.\s*\Z",
    re.MULTILINE,
)
"""An exit code, as the tools of mini-SWE-agent, of the bash agent and of OpenClaw report it."""
CLOSING = re.compile(
    r"(?:\s|</output>|</output_tail>|\(Command exited with code \d+\)|Process exited with code \d+\.)+\Z"
)
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class JudgedCall:
    """One call of a session, and how it is judged."""

    agent: str
    name: str
    arguments: str
    result: str
    known: CallJudgement
    tick: bool
    """Whether a page shows a green tick: it succeeded, and is no completion, which never has one."""

    @property
    def code(self) -> str | None:
        """The exit code in the result, such as `1`, or the name of the signal that ended the program; None without."""
        found = CODE.search(self.result)
        return next(filter(None, found.groups()), None) if found else None

    @property
    def ends_with_traceback(self) -> bool:
        """Whether the last lines of the result are a traceback of Python."""
        text = CLOSING.sub("", self.result)
        lines = text[text.rfind(TRACEBACK) :].split("\n") if TRACEBACK in text else []
        inside = next((n for n, line in enumerate(lines[1:], 1) if not line.startswith((" ", "\t"))), 0)
        return bool(lines) and inside == len(lines) - 1


def calls_of(session: LabelledSession) -> Iterator[JudgedCall]:
    """The calls of a session that have a result."""
    facts, judge, completions = Facts(), None, frozenset[str]()
    for event in session.events:
        if isinstance(event, RunStarted):
            facts, judge = Facts(), CallJudge(event)
            completions = frozenset(tool.name for tool in event.tools if tool.kind == "completion")
        facts = fold(facts, event)
        if isinstance(event, ToolCallResult) and judge is not None:
            known = judge.judge(event, facts)
            arguments = next((call.arguments for call in facts.open_calls if call.id == event.call_id), "")
            tick = known.succeeded and event.name not in completions
            yield JudgedCall(session.agent, event.name, arguments, event.content, known, tick)


def figures(calls: list[JudgedCall]) -> Iterator[tuple[str, int, int]]:
    """What is counted, how often it was right, and of how many."""
    coded = [call for call in calls if call.code not in (None, "0")]
    yield (
        "results with an exit code other than 0 that are shown as failed",
        sum(c.known.failed for c in coded),
        len(coded),
    )
    broken = [call for call in calls if call.ends_with_traceback]
    yield "results that end with a traceback that are shown as failed", sum(c.known.failed for c in broken), len(broken)
    ticks = [call for call in calls if call.tick]
    yield "ticks that stand at an exit code of 0", sum(call.code == "0" for call in ticks), len(ticks)
    yield (
        "ticks that stand at another exit code, or at a traceback",
        sum(c in ticks for c in coded + broken),
        len(ticks),
    )


def brief(text: str, longest: int = 200) -> str:
    """The beginning and the end of a text in one line."""
    line = text.replace("\n", "\\n")
    return line if len(line) <= longest else f"{line[: longest // 2]} ... {line[-longest // 2 :]}"


def main() -> None:
    """Print the figures, and the samples that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--files", type=int, default=0, metavar="N")
    parser.add_argument("--ticks", type=int, default=0, metavar="N")
    chosen = parser.parse_args()
    sessions = read_sessions(chosen.data)
    calls = [call for session in sessions for call in calls_of(session)]
    listed = [call for call in calls if call.known.files]
    print(f"{len(sessions)} sessions, {len(calls)} results; {len(listed)} calls list files that they changed")
    for what, right, whole in figures(calls):
        print(f"{right:7,} of {whole:7,}  {what}")
    ends = Counter((call.agent, call.known.end) for call in calls)
    for (agent, end), times in sorted(ends.items()):
        print(f"{times:7,}  {agent}: {end}")
    failures = [event for one in sessions for event in one.events if isinstance(event, AttemptFailed)]
    print(f"{sum(one.status is None for one in failures)} of {len(failures)} failed requests have no HTTP status")
    random = Random(1)
    for call in random.sample(listed, min(chosen.files, len(listed))):
        print(f"{', '.join(call.known.files)}  <-  {call.name} {brief(call.arguments)}")
    ticks = [call for call in calls if call.tick and call.code is None]
    for call in random.sample(ticks, min(chosen.ticks, len(ticks))):
        print(f"{brief(call.result)}  <-  {call.name} {brief(call.arguments, 100)}")


if __name__ == "__main__":
    main()
