"""Effect of a shell command, derived from its text: it reads, changes something, checks the work, or waits.

The text is split as a shell would do it: words, quotes, here documents, redirections, and the operators between simple
commands. Each simple command is looked up in the tables of `shell_commands.toml`; if more has to be known of a program,
a function below looks at its arguments. The strongest effect counts: a change before a check, a check before the
unknown, the unknown before waiting and reading. Variables, aliases and functions are not expanded, and text inside
double quotes is not searched for commands. Only the first `MAX_LENGTH` characters are read, once each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from .call_verbs import CallEffect, Effect, verb_effect
from .deferred_patterns import deferred
from .program_text import code_effect
from .shell_syntax import NO_FILES, split_commands, unquoted
from .word_tables import by_word, word_tables
from .written_files import file_names, output_of, written_by

MAX_LENGTH = 16_384
"""Number of characters of a command that are read."""
MAX_DEPTH = 3
"""Maximum nesting of commands in commands, as in `bash -c "..."`."""


_Judge = Callable[[list[str], str, int], CallEffect]
"""Returns a program's effect from its arguments, its here document and its nesting depth in other commands."""

_RANK: dict[Effect, int] = {"reads": 0, "controls": 1, "waits": 2, "unknown": 3, "checks": 4, "changes": 5}
_READS, _CHANGES, _CHECKS = CallEffect("reads"), CallEffect("changes"), CallEffect("checks", checks=True)
_WAITS, _UNKNOWN, _CONTROLS = CallEffect("waits"), CallEffect("unknown"), CallEffect("controls")

_COMPLEX = deferred(r"[^\w ./:=,@%+*~^-]|^\s*\w+=")
"""What makes a command more than plain words."""
_ASSIGNMENT = deferred(r"[A-Za-z_]\w*\+?=")
_COMPLETE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Text that mini-SWE-agent asks the model to print when its task is done."""


def shell_effect(command: str) -> CallEffect:
    """Return the effect of a shell command. Never raises; reads at most `MAX_LENGTH` characters."""
    command = command[:MAX_LENGTH]
    if not _COMPLEX.search(command):
        return _effect_of(command.split(), "", 0)
    if _COMPLETE in command:
        return _CONTROLS
    first = command.split(None, 1)[:1]
    if first and first[0] in _SWE_AGENT_EDITS and "\n" in command:  # what follows is the new text, not a command
        return _CHANGES
    return _strongest(_all_effects(command, 0))


def argv_effect(words: Sequence[str]) -> CallEffect:
    """Return the effect of a command given as a list of words, such as `["bash", "-lc", "..."]`. Never raises."""
    return _effect_of([f"'{word[:MAX_LENGTH]}'" for word in words[:1000]], "", 0)


def _strongest(found: list[CallEffect]) -> CallEffect:
    effect, checks = _READS.effect, False
    for each in found:
        checks = checks or each.checks
        if _RANK[each.effect] > _RANK[effect]:
            effect = each.effect
    files = file_names(file for each in found for file in each.files)
    scripts = file_names(script for each in found for script in each.scripts)
    return CallEffect(effect, checks=checks, files=files, scripts=scripts)


def _all_effects(text: str, depth: int) -> list[CallEffect]:
    effects: list[CallEffect] = []
    before = _READS
    for command in split_commands(text):
        found = _effect_of(command.words, command.document, depth)
        if command.piped and before.effect == "checks" and _name(command.words) == "tee":
            continue  # the log of a check
        if found.effect != "checks" and command.files:
            found = replace(found, effect="changes", files=(*command.files, *found.files))
        effects.append(found)
        before = found
    return effects


def _name(words: list[str]) -> str:
    """Return the name of the program that these words run, without its folder."""
    return unquoted(words[0]).rpartition("/")[2] if words else ""


def _effect_of(words: list[str], document: str, depth: int) -> CallEffect:
    """Return the effect of one simple command."""
    words = without_prefixes(words)
    if not words:
        return _READS
    name = _name(words)
    known = _programs().get(name) if name != "test" or words[0] == name else "checks"
    special = _special().get(name)
    if special is None and known is not None and known != "changes":
        return _BY_EFFECT[known]
    arguments = [unquoted(word) for word in words[1:]]
    if special is not None:
        found = special(arguments, document, depth)
    elif known is not None:
        found = _BY_EFFECT[known]
    else:
        return _of_unknown(name, words[0], arguments, document, depth)
    files = written_by(name, arguments) if found.effect == "changes" else ()
    return replace(found, files=(*found.files, *files)) if files else found


def without_prefixes(words: list[str]) -> list[str]:
    """Return a simple command without what only runs it: `A=1`, `timeout 60`, `npx`, `uv run`, `sudo`.

    A module that `coverage run` measures becomes `python -m ...`, and a script that `uv run` starts `python x.py`.
    """
    keywords, runners = _prefixes()
    at, count = 0, len(words)
    while at < count:
        word = words[at]
        if "=" in word and _ASSIGNMENT.match(word):
            at += 1
        elif word in keywords:
            at = _after_options(words, at + 1)
        elif word in ("timeout", "gtimeout"):
            at = _after_options(words, at + 1) + 1
        elif word in ("nice", "xargs", "watch", "parallel", "npx", "bunx"):
            at = _after_options(words, at + 1, valued="nIPLdsE")
        elif word in runners and at + 1 < count and words[at + 1] == runners[word]:
            at = _after_options(words, at + 2, valued="npm")
            if at < count and words[at].endswith(".py"):
                return ["python", *words[at:]]
            if word == "coverage" and "-m" in words[:at]:
                return ["python", "-m", *words[words.index("-m") + 1 :]]
        elif word == "for" or word == "case" or word == "select" or word == "function":
            return []
        else:
            break
    return words[at:]


def _after_options(words: list[str], at: int, valued: str = "uk") -> int:
    """Return the index of the first word that is not an option. Options in `valued` take the next word as a value."""
    while at < len(words) and len(words[at]) > 1 and words[at][0] == "-":
        at += 2 if len(words[at]) == 2 and words[at][1] in valued else 1
    return at


def _operands(arguments: list[str]) -> list[str]:
    return [word for word in arguments if word and word[0] != "-"]


def _first(arguments: list[str]) -> str:
    return next((word for word in arguments if word and word[0] not in "-+"), "")


def _has_option(arguments: list[str], letter: str, *long: str) -> bool:
    """Return whether a short option (alone, or as in `-ni` and `-i.bak`) or a long one is given."""
    for word in arguments:
        if len(word) > 1 and word[0] == "-":
            if word[1] != "-":
                if letter and letter in word.partition(".")[0]:
                    return True
            elif word.partition("=")[0] in long:
                return True
    return False


_TEST_FILE = deferred(r"(?:^|[/_.-])(?:run_?)?(?:unit_?)?tests?(?:[/_.-]|$)|[a-z]Tests?(?:\.\w+)?$|^[Tt]ests?\w*\.\w+$")


def is_test(path: str) -> bool:
    """Return whether a file's name, not its folder, says that it is a test."""
    name = path.rpartition("/")[2].lower()
    return bool(_TEST_FILE.search(name)) or name.startswith(("runtests", "run_tests", "test_"))


def _interpreter(arguments: list[str], document: str, depth: int) -> CallEffect:
    """Return the effect of Python, Node, Ruby or Perl: of a module, a text given with the call, or a script."""
    for at, word in enumerate(arguments):
        if word in ("-c", "-e", "-p", "-pe", "-ne", "--eval", "-r", "--print") or word.startswith("-E"):
            return code_effect(arguments[at + 1]) if at + 1 < len(arguments) else _UNKNOWN
        if word == "-m":
            return _effect_of(arguments[at + 1 :], "", depth) if at + 1 < len(arguments) else _UNKNOWN
        if word in ("-V", "--version", "-h", "--help", "-v"):
            return _READS
        if word == "--test":
            return _CHECKS
        if word == "-":
            break
        if word[:1] != "-":
            return _script(word, arguments[at + 1 :])
    return code_effect(document) if document else _UNKNOWN


def _perl(arguments: list[str], document: str, depth: int) -> CallEffect:
    if any(word[:1] == "-" and word[1:2] != "-" and "i" in word.partition(".")[0][:5] for word in arguments):
        return _CHANGES
    return _interpreter(arguments, document, depth)


def _script(path: str, arguments: list[str]) -> CallEffect:
    name = path.rpartition("/")[2]
    if name == "manage.py":
        return _manage(arguments)
    if name.startswith("setup") or name in ("waf", "scons"):
        return _CHECKS if _first(arguments) in ("test", "build", "build_ext", "check", "pytest") else _CHANGES
    if "--help" in arguments:
        return _READS
    return _CHECKS if is_test(path) else _of_output(path, arguments)


def _of_output(program: str, arguments: list[str]) -> CallEffect:
    """Return the effect of a program known only by its arguments: it changes what an option names as output."""
    written = output_of(arguments)
    return CallEffect("unknown", scripts=(program,)) if written is None else CallEffect("changes", files=(written,))


def _manage(arguments: list[str]) -> CallEffect:
    """Return the effect of Django's manage.py."""
    task = _first(arguments)
    if task in ("test", "check"):
        return _CHECKS
    return _CHANGES if task in ("migrate", "makemigrations", "startapp", "loaddata", "flush") else _UNKNOWN


def gives_command(word: str) -> bool:
    """Return whether an option of a shell says that the next word is a command: `-c`, `-lc`."""
    return word[:1] == "-" and word[1:2] != "-" and "c" in word


def _shell(arguments: list[str], document: str, depth: int) -> CallEffect:
    """Return the effect of a shell: of the text given with `-c` or in a here document, or of a script."""
    for at, word in enumerate(arguments):
        if gives_command(word) and at + 1 < len(arguments):
            return _nested(arguments[at + 1], depth)
        if word[:1] not in "-+":
            return _CHECKS if is_test(word) else _of_output(word, arguments[at + 1 :])
    return _nested(document, depth) if document else _UNKNOWN


def _nested(text: str, depth: int) -> CallEffect:
    if depth >= MAX_DEPTH:
        return _UNKNOWN
    return _strongest(_all_effects(text, depth + 1))


def _eval(arguments: list[str], _document: str, depth: int) -> CallEffect:
    return _nested(" ".join(arguments), depth)


def _ssh(arguments: list[str], document: str, depth: int) -> CallEffect:
    operands = arguments[_after_options(arguments, 0, valued="pioFlJnuew") :]
    return _nested(" ".join(operands[1:]), depth) if len(operands) > 1 else _UNKNOWN


def _sed(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    return _CHANGES if _has_option(arguments, "i", "--in-place") else _READS


def _find(arguments: list[str], _document: str, depth: int) -> CallEffect:
    for at, word in enumerate(arguments):
        if word == "-delete":
            return _CHANGES
        if word in ("-exec", "-execdir", "-ok") and at + 1 < len(arguments):
            found = _effect_of(arguments[at + 1 :], "", depth + 1) if depth < MAX_DEPTH else _UNKNOWN
            return _CHANGES if found.effect == "changes" else found
    return _READS


def _curl(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    for at, word in enumerate(arguments):
        after = arguments[at + 1] if at + 1 < len(arguments) else ""
        if word in ("-o", "--output") and after not in NO_FILES:
            return _CHANGES
        if word in ("-X", "--request") and after.upper() not in ("GET", "HEAD", "OPTIONS"):
            return _CHANGES
        if word.startswith("-X") and word[2:].upper() in ("POST", "PUT", "DELETE", "PATCH"):
            return _CHANGES
        if word in ("-O", "--remote-name", "-OL", "-LO", "-sLO", "-fsSLO", "-T") or word.startswith(
            ("-d", "--data", "-F")
        ):
            return _CHANGES
    return _READS


def _wget(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    if "--spider" in arguments or "-qO-" in arguments or ("-O" in arguments and "-" in arguments):
        return _READS
    return _CHANGES


def _archive(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    """Return the effect of tar, unzip and zip: a listing reads."""
    first = arguments[0] if arguments else ""
    if first in ("-l", "-Z", "-Zl", "-v", "--list") or ("t" in first and (first[:1] == "-" or first.isalpha())):
        return _READS
    return _CHANGES


def _tee(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    target = _first(arguments)
    return _READS if target in NO_FILES or not target else _CHANGES


def _git(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    at = 0
    while at < len(arguments) and arguments[at][:1] == "-":
        at += 2 if arguments[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    task, rest = (arguments[at], arguments[at + 1 :]) if at < len(arguments) else ("", [])
    if task in _git_reads() or not task:
        return _READS
    if task in ("branch", "tag", "stash", "worktree", "submodule", "notes"):
        known = rest[:1] in (
            [],
            ["list"],
            ["show"],
            ["-l"],
            ["-a"],
            ["-r"],
            ["--list"],
            ["-v"],
            ["-vv"],
            ["--show-current"],
        )
        return _READS if known and not (task == "stash" and not rest) else _CHANGES
    if task == "apply" and ("--check" in rest or "--stat" in rest):
        return _READS
    if task in ("add", "init"):
        return _UNKNOWN  # the index, not the work
    return _CHANGES


def _make(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    tasks = [word for word in _operands(arguments) if not _ASSIGNMENT.match(word)]
    if any(task in ("install", "uninstall", "deploy", "format", "fmt") for task in tasks):
        return _CHANGES
    if tasks and all(task in ("clean", "distclean") for task in tasks):
        return _UNKNOWN  # what was built, not the work
    return _READS if "-n" in arguments or "help" in tasks else _CHECKS


def _str_replace_editor(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    if _first(arguments) == "view":
        return _READS
    return _CHANGES


def _service(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    return _READS if arguments[1:2] == ["status"] or "--status-all" in arguments else _CHANGES


def _dd(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    target = next((word[3:] for word in arguments if word.startswith("of=")), "")
    return _CHANGES if target and target not in NO_FILES else _READS


def _cmake(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    """Return the effect of cmake: a build checks; preparing one writes files."""
    if arguments[:1] == ["--version"]:
        return _READS
    return _CHECKS if "--build" in arguments else _CHANGES


def _echo(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    return _CONTROLS if _COMPLETE in arguments else _READS


def _of_unknown(name: str, word: str, arguments: list[str], document: str, depth: int) -> CallEffect:
    """Return the effect of a program in no table: by its family, else as a test by its name, else by a verb in it."""
    if name.startswith(("python", "pypy", "ruby", "node")):
        return _interpreter(arguments, document, depth)
    if name.startswith(("pip", "clang-format", "gcc-", "g++-", "clang-")):
        return _CHANGES if name.startswith("pip") else _CHECKS
    if "--help" in arguments or arguments[:1] in (["--version"], ["-version"], ["-V"]):
        return _READS
    if is_test(name) and ("/" in word or "." in name):
        return _CHECKS
    found = verb_effect(name) if "/" not in word and "." not in name and ("_" in name or "-" in name) else "unknown"
    return _of_output(name, arguments) if found == "unknown" else _BY_EFFECT[found]


_BY_EFFECT: dict[Effect, CallEffect] = {
    "reads": _READS, "changes": _CHANGES, "checks": _CHECKS, "waits": _WAITS, "controls": _CONTROLS,
    "unknown": _UNKNOWN,
}  # fmt: skip

_SWE_AGENT_EDITS = frozenset({"edit", "insert", "str_replace", "append"})


def _maven(arguments: list[str], document: str, depth: int) -> CallEffect:
    """Return the effect of Maven and Gradle: a build checks, even if it cleans first."""
    found = _by_task()["mvn"](arguments, document, depth)
    return _CHECKS if found.effect == "changes" and _operands(arguments) != ["clean"] else found


_FUNCTIONS: dict[str, _Judge] = {
    **dict.fromkeys("python python3 python2 node nodejs ruby deno php lua Rscript julia pypy3".split(), _interpreter),
    **dict.fromkeys("bash sh zsh dash ksh fish".split(), _shell),
    **dict.fromkeys("mvn mvnw gradle gradlew".split(), _maven),
    **dict.fromkeys("tar unzip zip jar".split(), _archive),
    **dict.fromkeys("make gmake".split(), _make),
    "perl": _perl,
    "sed": _sed,
    "gsed": _sed,
    "find": _find,
    "gfind": _find,
    "curl": _curl,
    "wget": _wget,
    "tee": _tee,
    "eval": _eval,
    "ssh": _ssh,
    "git": _git,
    "echo": _echo,
    "str_replace_editor": _str_replace_editor,
    "manage.py": lambda arguments, _document, _depth: _manage(arguments),
    "cmake": _cmake,
    "dd": _dd,
    "service": _service,
}
"""Programs about which more than a table has to be known."""


# ---- the tables


@cache
def _programs() -> dict[str, Effect]:
    """Return the effects of programs that do the same whatever their arguments are."""
    return by_word(word_tables("shell_commands")["programs"])


@cache
def _special() -> dict[str, _Judge]:
    """Return the functions that tell the effects of the other programs from their arguments."""
    tables = word_tables("shell_commands")
    by_option = {program: _by_option(row) for row in tables["options"] for program in row["programs"].split()}
    return by_option | _by_task() | _FUNCTIONS


@cache
def _by_task() -> dict[str, _Judge]:
    rows = word_tables("shell_commands")["tasks"]
    return {program: _judge_task(row) for row in rows for program in row["programs"].split()}


@cache
def _prefixes() -> tuple[frozenset[str], dict[str, str]]:
    """Return the words that may precede a command, and the programs that run another one after a word."""
    tables = word_tables("shell_commands")
    return frozenset(tables["prefixes"]["words"].split()), by_word(tables["runners"])


@cache
def _git_reads() -> frozenset[str]:
    return frozenset(word_tables("shell_commands")["git"]["reads"].split())


def _by_option(row: Mapping[str, Any]) -> _Judge:
    """Return the judge of a program that does one thing with one of some options, and another without them."""
    options = frozenset(row["options"].split())

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        given = any(word.partition("=")[0] in options for word in arguments)
        return _BY_EFFECT[row["with"] if given else row["without"]]

    return effect


def _judge_task(row: Mapping[str, Any]) -> _Judge:
    """Return the judge of a program whose first operand names the task. `run test`, as of npm, counts as `test`."""
    table = by_word({effect: row.get(effect, "") for effect in ("reads", "changes", "checks")})
    otherwise = _BY_EFFECT[row["otherwise"]]

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        if not arguments or arguments[0] in ("--version", "-V", "-v", "--help", "-h", "version"):
            return otherwise if not arguments else _READS
        tasks = [word for word in _operands(arguments) if not _ASSIGNMENT.match(word)]
        if tasks[:1] in (["run"], ["run-script"]):
            tasks = tasks[1:] or tasks
        for task in tasks:
            found = table.get(task) or table.get(re.split(r"[:\-_.]", task.lower())[-1 if ":" in task[:1] else 0])
            if found:
                return _BY_EFFECT[found]
        return otherwise

    return effect
