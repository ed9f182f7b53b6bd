"""What of a result is compared with earlier results of the same call: what the tool said.

Some agents put words around the output of a command that change each time: the id of a chunk, how long it took, the
number of a process. So does a program that runs tests or a build: how long it took, where objects and temporary folders
are. With them two results are never equal, and a circle is never found. They are put aside here. The record keeps the
whole result.

Everything else counts. What a command prints is its news, a clock, a number of a process, a checksum or a duration too,
so words are put aside only where a known agent or test runner writes them: the pattern holds what stands beside them.
Those of test runners count as such only in the result of a call that checks something. A result that says that its
program still runs is left as it is: when such a poll came back is what it tells.

The agents are those whose words were seen: in requests of Codex 0.169.0, Qwen Code 0.15.10 and Gemini CLI 0.61.0, in
the sources of Claude Code 2.1.197, opencode 1.18.33, pi 0.73.1 and smolagents 1.26.0, and in public recordings of
Cursor, Copilot CLI, SWE-agent and older versions. In those of cline 3.0.65 and mini-swe-agent 2.4.6 nothing changes.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal, NamedTuple

from .call_effects import call_effect
from .deferred_patterns import deferred
from .messages import Image, ToolCall

ComparedResult = Literal["said", "text"]
"""What of a result is compared: what the tool said, or the whole text."""
EDGE = 700
"""Number of characters at each end of a result in which the words of an agent are looked for."""


class Words(NamedTuple):
    """Words that change each time, and what stands beside them."""

    sign: str
    """A text that is in each result that has such words. Looking for it costs less than the pattern."""
    pattern: re.Pattern[str]
    """Of what it matches, only its groups are kept."""


def _words(sign: str, pattern: str) -> Words:
    return Words(sign, deferred(pattern, re.MULTILINE))


AGENTS = (
    # Codex: exec_command and the tools of servers; shell; code mode; shell in older versions
    _words(
        "Wall time: ",
        r"\A(?:Chunk ID: \w{1,40}\n)?Wall time: [\d.]+ seconds\n"
        r"(?=Process exited with code |Output:\n|aborted by user)",
    ),
    _words(
        "Wall time: ",
        r"\A(Exit code: -?\d+\n)Wall time: [\d.]+ seconds\n(?=(?:Total output lines: \d+\n)?Output:\n)",
    ),
    _words(
        "Wall time ",
        r"\A(Script (?:completed|failed|terminated)\n)Wall time [\d.]+ seconds[^\n]{0,80}\n(?=Output:\n)",
    ),
    _words(
        '"duration_seconds"',
        r'(\A\{"output":[\s\S]*, ?"metadata": ?\{"exit_code": ?-?\d+), ?"duration_seconds": ?[\d.]+(?=\}\}\s*\Z)',
    ),
    # Qwen Code and Gemini CLI: the process of a command that has ended
    _words(
        "Process Group PGID: ",
        r"(\A(?![\s\S]*\nBackground PIDs: )(?:<untrusted_context>\n)?"
        r"(?:Command: |Output: |Tool output was too large|Output too large)[\s\S]*)\nProcess Group PGID: \d+"
        r"(?:(\n\nNote: this foreground command ran for )\d+(s[^\n]*))?(?=(?:\n</untrusted_context>)?\s*\Z)",
    ),
    # Cursor
    _words("Command completed in ", r"(\n```\n\nCommand completed) in \d+ ms\.(?=\n\nShell state )"),
    # Copilot CLI
    _words("<shellId: ", r"(\n<shellId: )\d+(?= completed with exit code -?\d+>\s*\Z)"),
    # Claude Code: a program in the background that has ended
    _words(
        "</timestamp>",
        r"(\A<status>(?:completed|failed|killed)</status>\n[\s\S]*\n)<timestamp>[^<\n]*</timestamp>(?=\s*\Z)",
    ),
    # SWE-agent: the line of its shell's input
    _words("\n(Current directory: ", r"^(/bin/bash: line )\d+(?=: )"),
    # smolagents: the call whose error it is
    _words("Call id: ", r"\ACall id: \S{1,200}\n(?=Error:\n)"),
    # the file of a long result: Claude Code, Qwen Code, Gemini CLI, opencode, pi
    _words("<persisted-output>", r"(\A<persisted-output>\nOutput too large [^\n]{1,40} Full output saved to: )[^\n]*"),
    _words(
        "The full output has been saved to: ",
        r"(\ATool output was too large and has been truncated\.\nThe full output has been saved to: )[^\n]*",
    ),
    _words("For full output see: ", r"(\AOutput too large\. Showing first [^\n]{1,80} For full output see: )[^\n]*"),
    _words(
        "the output was truncated. Full output saved to: ",
        r"(^The tool call succeeded but the output was truncated\. Full output saved to: )[^\n]*",
    ),
    _words(". Full output: ", r"(\n\n\[Showing [^\n]{1,120}\. Full output: )[^\n]*(?=\]\s*\Z)"),
)
"""Words that agents put around the result of a tool."""
_LINE = r"(?:^|(?<=^Output: ))"
"""The beginning of a line, or of the output in the words of Qwen Code and Gemini CLI."""
_COUNTED = (
    _LINE + r"(?=[^\n]{0,300}\b(?:passed|failed|errors?|no tests ran)\b)([=a-z0-9,; \x1b\[]{3,300} in )[\d.]+"
    r"(s| seconds)(?: \(\d+:\d\d:\d\d\))?(?=[\s\x1b]|\Z)"
)
"""A line that counts tests and nothing else, colours included."""
_PACKAGE = _LINE + r"((?:ok  |FAIL)\t\S{1,300}\t)[\d.]+(?=s(?:\t|$))"
_TEST = _LINE + r"( *--- (?:PASS|FAIL|SKIP): \S{1,300} \()[\d.]+(?=s\)$)"
TEST_RUNNERS = (
    # pytest and sympy
    _words(" passed", _COUNTED),
    _words(" failed", _COUNTED),
    _words(" error", _COUNTED),
    _words("no tests ran", _COUNTED),
    # unittest; cargo; Gradle
    _words("Ran ", _LINE + r"(Ran \d+ tests? in )[\d.]+(?=s$)"),
    _words("; finished in ", _LINE + r"(test result: [^\n]{1,200}; finished in )[\d.]+(?=s$)"),
    _words("target(s) in ", _LINE + r"( *Finished [^\n]{1,120} target\(s\) in )[\d.ms ]+$"),
    _words("BUILD ", _LINE + r"(BUILD (?:SUCCESSFUL|FAILED) in )[\dhms ]+$"),
    # Go
    _words("ok  \t", _PACKAGE),
    _words("FAIL\t", _PACKAGE),
    _words("--- PASS: ", _TEST),
    _words("--- FAIL: ", _TEST),
    _words("--- SKIP: ", _TEST),
    # Jest; Vitest; Mocha; Node
    _words("Time: ", _LINE + r"(Time: +)[\d.]+ m?s(?:, estimated [\d.]+ m?s)?$"),
    _words("ms)", _LINE + r"( *[✓✔√✕✗×] [^\n]{1,300}?) \([\d.]+ ?ms\)$"),
    _words("Start at ", _LINE + r"( +Start at +)\d\d:\d\d:\d\d$"),
    _words("Duration ", _LINE + r"( +Duration +)[\d.]+m?s \(transform [^\n]{1,200}\)$"),
    _words("passing (", _LINE + r"( +\d+ passing) \([\d.]+m?s\)$"),
    _words("duration_ms", _LINE + r"([ #ℹ]*duration_ms:? )[\d.]+$"),
    # Maven
    _words("Total time: ", _LINE + r"(\[INFO\] Total time: +)[^\n]{1,40}$"),
    _words("Finished at: ", _LINE + r"(\[INFO\] Finished at: )[^\n]{1,40}$"),
    _words("Time elapsed: ", r"(Tests run: \d+, [^\n]{1,100} Time elapsed: )[\d.,]+(?= s)"),
    # .NET; CTest; RSpec; PHPUnit
    _words("Time Elapsed ", _LINE + r"(Time Elapsed )[\d:.]+$"),
    _words("Total Test time", _LINE + r"(Total Test time \(real\) = +)[\d.]+(?= sec$)"),
    _words("Finished in ", _LINE + r"(Finished in )[\d.]+ seconds? \(files took [\d.]+ seconds? to load\)$"),
    _words(", Memory: ", _LINE + r"(Time: )[\d:.]+, (?=Memory: )"),
    # objects in memory; temporary folders
    _words(" at 0x", r"( at )0x[0-9a-fA-F]{6,16}(?=>)"),
    _words("/pytest-of-", r"(/pytest-of-[\w.-]{1,40}/pytest-)\d+\b"),
    _words("/tmp/tmp", r"(/tmp/tmp)(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{10})\b"),
    _words("/tmp/go-build", r"(/tmp/go-build)\d+\b"),
)
"""Words of programs that run tests or a build."""


def fingerprint(call: ToolCall, content: str, images: tuple[Image, ...] = (), compared: ComparedResult = "said") -> str:
    """Return a hash that is equal for equal calls with equal results; rules recognise repeated calls by it.

    compared: what of a result must be equal.
    """
    digest = blake2b(b"".join(image.data for image in images), digest_size=8)
    for part in (call.name, call.arguments, compared_text(call.name, call.arguments, content, compared)):
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def compared_text(name: str, arguments: str, content: str, compared: ComparedResult) -> str:
    """Return what of a result is compared with earlier ones: the same text for a result that says the same.

    name, arguments: of its call.
    """
    if compared == "text":
        return content
    edges = content if len(content) <= 2 * EDGE else f"{content[:EDGE]}\n{content[-EDGE:]}"
    said = content
    for words in AGENTS:
        if words.sign in edges:
            said = words.pattern.sub(_kept, said)
    for words in TEST_RUNNERS:
        if words.sign in said:
            return _without_runners_words(said) if _checks(name, arguments) else said
    return said


def _checks(name: str, arguments: str) -> bool:
    does = call_effect(name, arguments)
    return does.checks or does.effect == "checks"


def _without_runners_words(text: str) -> str:
    for words in TEST_RUNNERS:
        if words.sign in text:
            text = words.pattern.sub(_kept, text)
    return text


def _kept(found: re.Match[str]) -> str:
    return "".join(found.groups(""))
