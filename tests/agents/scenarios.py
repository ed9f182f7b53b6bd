"""What the provider's model does in each scenario, by the number of steps that the conversation holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from .schemas import arguments, fitting
from .wires import Call, Part, Text, Tool

PROMPT = "Write the word one into the file one.txt and read it back."
"""What the person asks for, in every scenario."""
ANSWER = "The file one.txt is written and holds one."
"""The model's last words."""
CIRCLES = 60
"""Steps after which a circle ends by itself."""
FILLING = 10
"""Steps of the run whose context fills up."""
HOOKED_CIRCLES = 20
"""The same where a hook denies: some agents cannot be ended by one, and each event starts a process."""
USEFUL = 100
"""Steps of the healthy run."""

_SHELLS = (
    *("bash", "Bash", "shell", "exec_command", "shell_command", "run_shell_command", "execute_command"),
    *("run_command", "run_commands", "run_terminal_command", "terminal", "Shell", "run_in_terminal"),
)
_COMPLETIONS = (
    *("attempt_completion", "finish_task", "final_answer", "submit_and_exit", "submit", "task_complete"),
    "complete",
)
_COMPLETED_BY_COMMAND = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent's commands print to end its run."""
MISSING = "one.txt is missing"
"""What the check of the hook's scenarios prints while it fails."""
CHECKS = "checks.txt"
"""The file beside the work folder in which that check counts itself."""
CHECK = f"echo checked >> ../{CHECKS}; test -f one.txt || (printf 'one.txt is %s\\n' missing; exit 1)"


class Toolbox:
    """The tools of a request that a script uses: the agent's shell, and what completes the task."""

    def __init__(self, tools: tuple[Tool, ...], request: str) -> None:
        self._shell = next((tool for name in _SHELLS for tool in tools if tool.name == name), None)
        self._completion = next((tool for name in _COMPLETIONS for tool in tools if tool.name == name), None)
        self._by_command = _COMPLETED_BY_COMMAND in request
        self.told = MISSING in request
        """Whether the model was told that the check fails."""

    @property
    def works(self) -> bool:
        """Whether the request is one of the agent's loop: a side request offers no shell."""
        return self._shell is not None

    @property
    def completes(self) -> bool:
        """Whether a call completes the task."""
        return self._completion is not None or self._by_command

    def run(self, command: str) -> Call:
        """Return a call of the shell."""
        assert self._shell is not None
        return Call(self._shell.name, arguments(self._shell.schema, command, command))

    def end(self) -> list[Part]:
        """Return what ends the agent's loop: its completion call, or a text."""
        if self._completion is not None:
            return [Call(self._completion.name, fitting(self._completion.schema, ANSWER))]
        if self._by_command:
            return [Text(ANSWER), self.run(f"echo {_COMPLETED_BY_COMMAND}")]
        return [Text(ANSWER)]


Script = Callable[[int, Toolbox], list[Part]]


def _short(step: int, tools: Toolbox) -> list[Part]:
    match step:
        case 0:
            return [Text("I write the file."), tools.run("echo one > one.txt; echo wrote")]
        case 1:
            return [Text("I read it again."), tools.run("cat one.txt")]
        case _:
            return tools.end()


def _continues_after_the_end(step: int, tools: Toolbox) -> list[Part]:
    if step < 2:
        return _short(step, tools)
    if step >= CIRCLES:
        return tools.end()
    done = tools.end() if tools.completes else [Text(f"I have completed the task. {ANSWER}")]
    more = [tools.run(f"echo check {step} {number}") for number in range(10)]
    afterthought = " ".join(f"Now I look at part {number} of the work again." for number in range(20))
    return [*done, Text(f" {afterthought}"), *more]


def _circle(step: int, tools: Toolbox, steps: int = CIRCLES) -> list[Part]:
    return [Text("I look at the file."), tools.run("echo same")] if step < steps else tools.end()


def _short_circle(step: int, tools: Toolbox) -> list[Part]:
    return _circle(step, tools, HOOKED_CIRCLES)


def _done_then_works(step: int, tools: Toolbox) -> list[Part]:
    """Say "done" until told that it is not, then work."""
    return _short(step, tools) if step or tools.told else tools.end()


def _done_for_ever(step: int, tools: Toolbox) -> list[Part]:
    return tools.end()


def _done_again(step: int, tools: Toolbox) -> list[Part]:
    done = Text(f"The task is complete. {ANSWER}")
    return [done, tools.run(f"echo verified {step}")] if step < CIRCLES else tools.end()


def _useful(step: int, tools: Toolbox) -> list[Part]:
    """A module and its test, written, tried, mended and looked through, ten times over."""
    if step >= USEFUL:
        return tools.end()
    n, part = step // 10 + 1, step % 10
    write = f"printf 'def f{n}(x):\\n    return x - {n}\\n' > part{n}.py; echo written part{n}.py"
    test = (
        f"printf 'import unittest, part{n}\\nclass Test{n}(unittest.TestCase):\\n"
        f"    def test_it(self): self.assertEqual(part{n}.f{n}(1), {n + 1})\\n' > test{n}.py; wc -c test{n}.py"
    )
    tried = "python3 -B -m unittest 2>&1 | tail -n 4"
    said, command = (
        ("I write part {n}.", write),
        ("Its test comes next.", test),
        ("I run the tests.", tried),
        ("One fails, so I read the part.", f"cat part{n}.py"),
        ("The sign is wrong: I mend it.", f"sed -i 's/x - {n}/x + {n}/' part{n}.py; cat part{n}.py"),
        ("I run the tests again.", tried),
        ("Who else calls it?", f"grep -rn 'f{n}' --include='*.py' . | sort"),
        ("I note it in the log.", f"echo 'part {n}: done' >> log.txt; cat log.txt"),
        ("How large is it by now?", "cat part*.py | wc -lc; ls part*.py | wc -l"),
        ("Which parts are there?", "ls *.py | tail -n 3; tail -n 1 log.txt"),
    )[part]
    return [Text(said.format(n=n)), tools.run(command)]


def _fills_up(step: int, tools: Toolbox) -> list[Part]:
    """step: requests of the loop so far, since a conversation that was compacted does not say."""
    if step >= FILLING:
        return tools.end()
    n = step + 1
    return [Text(f"I count part {n}."), tools.run(f"echo part {n} counts to {n}00; seq {n} {n}00")]


@dataclass(frozen=True)
class Fault:
    """What happens to the first request with one step behind it."""

    kind: Literal["break", "refuse"]
    status: int = 200
    always: bool = False
    """Whether it happens to each request like it."""


@dataclass(frozen=True)
class Scenario:
    """A script, what the network does, and what must hold."""

    name: str
    title: str
    script: Script
    steps: int
    """Requests of the loop without a stop and without a fault."""
    useful: int = 0
    """Those until the work was done, if it is less."""
    fault: Fault | None = None
    slow: bool = False
    """Whether events come 0.7 s apart, and once after 8 s of silence."""
    options: tuple[str, ...] = ()
    """Options of the proxy."""
    seconds: float = 120.0
    """How long an agent may take."""
    full_at: int = 0
    """The request of the loop, counted from 1, whose response says that the context is full; 0: none."""
    full_with: int = 0
    """Tokens that it says it cost, at least."""
    check: str | None = None
    """The check at the agent's end, for a hook; empty for a hook without one, None without a hook."""
    proxied: bool = True
    """Whether the agent is behind the proxy."""
    plugin: bool = False
    """Whether the hook comes as the agent's plugin, which only watches."""

    @property
    def hooked(self) -> bool:
        """Whether the agent starts `endstop hook` at its events."""
        return self.check is not None


COMPACTION = Scenario(
    "k", "the context is full after six steps, and the agent compacts it", _fills_up, FILLING + 1, full_at=6
)
"""Not in the table: only some agents compact by themselves."""


def compaction_at(tokens: int) -> Scenario:
    """Return the compaction of an agent whose context is full with so many tokens."""
    return replace(COMPACTION, full_with=tokens)


SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("a", "writes a file, reads it, says so", _short, 3),
        Scenario(
            "b",
            "goes on after it was done: ten more calls and a paragraph",
            _continues_after_the_end,
            CIRCLES + 1,
            useful=3,
            options=("--offer-completion",),
        ),
        Scenario("c", "the same call for ever", _circle, CIRCLES + 1),
        Scenario("d", '"done" again and again, each time with another call', _done_again, CIRCLES + 1),
        Scenario("e", "the response breaks off in the middle, once", _short, 3, fault=Fault("break")),
        Scenario("f", "429, once", _short, 3, fault=Fault("refuse", 429)),
        Scenario("g", "0.7 s between events, 8 s of silence", _short, 3, slow=True, seconds=150),
        Scenario("h", "400", _short, 3, fault=Fault("refuse", 400, always=True), seconds=60),
        Scenario("i", "100 useful steps: writes, edits, reads, searches, tests", _useful, USEFUL + 1, seconds=400),
        Scenario(
            "hook-u",
            '"done" at once with nothing done; works once it is told',
            _done_then_works,
            4,
            seconds=400,
            check=CHECK,
            proxied=False,
        ),
        Scenario(
            "hook-v", '"done" for ever, and nothing done', _done_for_ever, 2, seconds=400, check=CHECK, proxied=False
        ),
        Scenario(
            "hook-c", "the same call for ever", _short_circle, HOOKED_CIRCLES + 1, seconds=400, check="", proxied=False
        ),
        Scenario(
            "hook-i",
            "100 useful steps: writes, edits, reads, searches, tests",
            _useful,
            USEFUL + 1,
            seconds=1500,
            check="",
            proxied=False,
        ),
        Scenario(
            "hook-plugin",
            "as a; the hook is installed as the agent's plugin, and watches",
            _short,
            3,
            check="",
            proxied=False,
            plugin=True,
        ),
        Scenario(
            "hook-proxy",
            "the same call for ever, and the agent is behind the proxy, too",
            _circle,
            CIRCLES + 1,
            check="",
        ),
    )
}
BEHIND_PROXY = {name: one for name, one in SCENARIOS.items() if not one.hooked}
"""Those of every agent."""
WITH_HOOK = {name: one for name, one in SCENARIOS.items() if one.hooked}
"""Those of agents that start a hook."""
