"""The scenes in which goals of agents are compared: what the model does, how the check behaves, what the folder holds.

The work is `work.txt`, which is right once it has five lines; the check is `sh check.sh` in the same folder. Words of a
script:

    edit, look                adds a line; changes nothing
    claim                     calls the tool for completion, or says it in a text where there is none
    text, question, blocked   final texts; `blocked` is a call where there is a tool for it
    talk                      a text of 300 chunks
    weaken                    makes the check pass without the work
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from trial import IMPOSSIBLE

GOAL = 5
"""Lines that the work must have."""

CHECK = """echo begin >> {log}
{before}
n=$(wc -l < work.txt); echo "$n passed, $(({goal} - n)) failed"
test "$n" -ge {goal}; code=$?
echo "end $code" >> {log}; exit $code
"""
HANG = "echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; wait"
HANGS = f"if [ -s work.txt ]; then {HANG}; fi"
HANGS_ONCE = f"if [ -s work.txt ] && mkdir {{once}} 2> /dev/null; then {HANG}; fi"
SAYS_IMPOSSIBLE = f"if [ -s work.txt ]; then echo 'the disk is full'; exit {IMPOSSIBLE}; fi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene. then: the word that is said again and again after the script."""

    name: str
    title: str
    script: tuple[str, ...]
    then: str = "claim"
    before: str = ":"
    """What the check does before it counts the lines, in the shell."""
    command: str = "sh check.sh"
    timeout: float = 60.0
    """Seconds that the user allows the check."""
    lines: int = 0
    """Lines that the work has at the start."""
    killed: bool = False
    """Whether the process is killed in the check, and another one goes on with its session."""
    shown: tuple[str, ...] = ()
    """Figures that the table shows beside requests and checks: `chunks`, `seconds`, `left`."""


EDITS = ("edit",) * GOAL
LATER_EDITS = ("edit",) * (GOAL - 1)
SCENES = (
    Scene(name="goes_on", title="met in mid-run, and the model goes on for ever", script=EDITS, then="look"),
    Scene(name="talks_on", title="met, and then a text of 300 chunks", script=(*EDITS, "talk"), shown=("chunks",)),
    Scene(name="early_claim", title="claims too early", script=("edit", "claim", *LATER_EDITS)),
    Scene(name="five_claims", title="five claims, with progress between them", script=("edit", "claim") * GOAL),
    Scene(name="vain_claims", title="claims without progress", script=("edit",)),
    Scene(name="early_text", title="a text end while not met", script=("edit", "text", *LATER_EDITS), then="text"),
    Scene(name="question", title="a question, and nobody is there", script=("edit", "question", *LATER_EDITS)),
    Scene(name="same_work", title="five edits, each claimed twice", script=("edit", "claim", "claim") * GOAL),
    Scene(name="slow", title="a check of 3 s, quick steps", script=EDITS, before="sleep 3", shown=("seconds",)),
    Scene(
        name="hangs",
        title="the check hangs, with a child; 2 s are allowed",
        script=("edit",),
        before=HANGS,
        timeout=2.0,
        shown=("left",),
    ),
    Scene(name="missing", title="the check's program is missing", script=("edit",), command="no-such-check --all"),
    Scene(name="holds", title="met before the start", script=("look",), lines=GOAL),
    Scene(name="weakened", title="the model changes the check", script=("edit", "weaken")),
    Scene(name="impossible", title="the check says: impossible", script=("edit",), before=SAYS_IMPOSSIBLE),
    Scene(name="blocked", title="the model says: impossible", script=("edit",), then="blocked"),
    Scene(
        name="killed",
        title="killed in a check, and continued",
        script=("edit", "claim", *LATER_EDITS),
        before=HANGS_ONCE,
        killed=True,
        shown=("left",),
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one trial: the folder of the work, and beside it what nobody but the benchmark changes."""

    root: Path

    @property
    def work(self) -> Path:
        """The folder of the work."""
        return self.root / "work"

    @property
    def log(self) -> Path:
        """A line for each check that began or ended."""
        return self.root / "checks.log"

    @property
    def pids(self) -> Path:
        """Processes of a check that hangs."""
        return self.root / "pids"

    @property
    def sessions(self) -> Path:
        """Where a framework keeps its sessions."""
        return self.root / "sessions"

    @property
    def lines(self) -> int:
        """Lines that the work has now."""
        return len((self.work / "work.txt").read_text().splitlines())

    def count(self, word: str) -> int:
        """Return the number of lines of the log that begin with this word."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(line.startswith(word) for line in lines)

    def lay_out(self, scene: Scene) -> None:
        """Write the work and its check."""
        self.work.mkdir()
        self.sessions.mkdir()
        (self.work / "work.txt").write_text("line\n" * scene.lines)
        quoted = {name: shlex.quote(str(self.root / name)) for name in ("pids", "once")}
        log = shlex.quote(str(self.log))
        check = CHECK.format(log=log, goal=GOAL, before=scene.before.format(**quoted))
        (self.work / "check.sh").write_text(check)
        (self.root / "weak.sh").write_text(f"echo begin >> {log}; echo 'end 0' >> {log}; exit 0\n")
