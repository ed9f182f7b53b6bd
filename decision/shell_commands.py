"""What a shell command does, seen from its text: it reads, changes something, checks the work, or waits.

The text is split as a shell would do it: words, quotes, here documents, redirections, and the operators between simple
commands. Each simple command is looked up in the tables below. The strongest effect counts: a change before a check,
a check before what is unknown, that before waiting and reading. Variables, aliases and functions are not expanded, and
text inside double quotes is not searched for commands. Only the first `MAX_LENGTH` characters are read, once each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from .call_verbs import CallEffect, Effect, verb_effect
from .program_text import code_effect
from .shell_syntax import NO_FILES, split_commands, unquoted
from .written_files import file_names, output_of, written_by

MAX_LENGTH = 16_384
"""Characters of a command that are read."""
MAX_DEPTH = 3
"""Levels of commands in commands, as in `bash -c "..."`."""


_RANK: dict[Effect, int] = {"reads": 0, "controls": 1, "waits": 2, "unknown": 3, "checks": 4, "changes": 5}
_READS, _CHANGES, _CHECKS = CallEffect("reads"), CallEffect("changes"), CallEffect("checks", checks=True)
_WAITS, _UNKNOWN, _CONTROLS = CallEffect("waits"), CallEffect("unknown"), CallEffect("controls")

_COMPLEX = re.compile(r"[^\w ./:=,@%+*~^-]|^\s*\w+=")
"""What a command has that is not only plain words."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_COMPLETE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Text that mini-SWE-agent asks the model to print when its task is done."""


def shell_effect(command: str) -> CallEffect:
    """Return what a shell command does. Never raises; reads at most `MAX_LENGTH` characters."""
    command = command[:MAX_LENGTH]
    if not _COMPLEX.search(command):
        return _effect_of(command.split(), "", 0)
    if _COMPLETE in command:
        return _CONTROLS
    first = command.split(None, 1)[:1]
    if first and first[0] in _SWE_AGENT_EDITS and "\n" in command:  # what follows is the new text, no command
        return _CHANGES
    return _strongest(_all_effects(command, 0))


def argv_effect(words: Sequence[str]) -> CallEffect:
    """Return what a command does that is given as a list of words, as `["bash", "-lc", "..."]`. Never raises."""
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
    """The name of the program that these words run, without its folder."""
    return unquoted(words[0]).rpartition("/")[2] if words else ""


_KEYWORDS = frozenset(
    "then do else if while until elif ! { } time sudo exec command builtin nohup fi done esac env setsid stdbuf doas"
    " caffeinate unbuffer ionice chrt".split()
)
_RUNNERS = {
    "uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "hatch": "run", "rye": "run", "bundle": "exec",
    "conda": "run", "mamba": "run", "pnpm": "exec", "npm": "exec", "yarn": "exec", "rbenv": "exec", "pyenv": "exec",
    "coverage": "run", "micromamba": "run",
}  # fmt: skip
"""Programs that run another one after this word."""


def _effect_of(words: list[str], document: str, depth: int) -> CallEffect:
    """What one simple command does."""
    words = _without_prefixes(words)
    if not words:
        return _READS
    name = _name(words)
    known = _PROGRAMS.get(name) if name != "test" or words[0] == name else "checks"
    special = _SPECIAL.get(name)
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


def _without_prefixes(words: list[str]) -> list[str]:
    at, count = 0, len(words)
    while at < count:
        word = words[at]
        if "=" in word and _ASSIGNMENT.match(word):
            at += 1
        elif word in _KEYWORDS:
            at = _after_options(words, at + 1)
        elif word in ("timeout", "gtimeout"):
            at = _after_options(words, at + 1) + 1
        elif word in ("nice", "xargs", "watch", "parallel", "npx", "bunx"):
            at = _after_options(words, at + 1, valued="nIPLdsE")
        elif word in _RUNNERS and at + 1 < count and words[at + 1] == _RUNNERS[word]:
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
    """Index of the first word that is no option; options of the letters in `valued` have a value as the next word."""
    while at < len(words) and len(words[at]) > 1 and words[at][0] == "-":
        at += 2 if len(words[at]) == 2 and words[at][1] in valued else 1
    return at


def _operands(arguments: list[str]) -> list[str]:
    return [word for word in arguments if word and word[0] != "-"]


def _first(arguments: list[str]) -> str:
    return next((word for word in arguments if word and word[0] not in "-+"), "")


def _has_option(arguments: list[str], letter: str, *long: str) -> bool:
    """Whether a short option (alone, among others as in `-ni`, with a value as in `-i.bak`) or a long one is there."""
    for word in arguments:
        if len(word) > 1 and word[0] == "-":
            if word[1] != "-":
                if letter and letter in word.partition(".")[0]:
                    return True
            elif word.partition("=")[0] in long:
                return True
    return False


_TEST_FILE = re.compile(
    r"(?:^|[/_.-])(?:run_?)?(?:unit_?)?tests?(?:[/_.-]|$)|[a-z]Tests?(?:\.\w+)?$|^[Tt]ests?\w*\.\w+$"
)


def _is_test(path: str) -> bool:
    """Whether a file's name, not its folder, says that it is a test."""
    name = path.rpartition("/")[2].lower()
    return bool(_TEST_FILE.search(name)) or name.startswith(("runtests", "run_tests", "test_"))


def _interpreter(arguments: list[str], document: str, depth: int) -> CallEffect:
    """Python, Node, Ruby and Perl: a module, a text given with the call, or a script."""
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
    return _CHECKS if _is_test(path) else _of_output(path, arguments)


def _of_output(program: str, arguments: list[str]) -> CallEffect:
    """What a program does of which no more is known than its arguments: it changes what an option names as output."""
    written = output_of(arguments)
    return CallEffect("unknown", scripts=(program,)) if written is None else CallEffect("changes", files=(written,))


def _manage(arguments: list[str]) -> CallEffect:
    """Django's manage.py."""
    task = _first(arguments)
    if task in ("test", "check"):
        return _CHECKS
    return _CHANGES if task in ("migrate", "makemigrations", "startapp", "loaddata", "flush") else _UNKNOWN


def _shell(arguments: list[str], document: str, depth: int) -> CallEffect:
    """A shell: the text given with `-c` or in a here document, or a script."""
    for at, word in enumerate(arguments):
        if word[:1] == "-" and word[1:2] != "-" and "c" in word and at + 1 < len(arguments):
            return _nested(arguments[at + 1], depth)
        if word[:1] not in "-+":
            return _CHECKS if _is_test(word) else _of_output(word, arguments[at + 1 :])
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


def _in_place(*options: str) -> Callable[[list[str], str, int], CallEffect]:
    """Programs that print, and write files only with one of these options."""
    wanted = frozenset(options)

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        return _CHANGES if any(word.partition("=")[0] in wanted for word in arguments) else _READS

    return effect


def _fixer(*options: str) -> Callable[[list[str], str, int], CallEffect]:
    """Linters, which write files only with one of these options."""
    wanted = frozenset(options)

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        return _CHANGES if wanted.intersection(arguments) else _CHECKS

    return effect


def _formatter(*options: str) -> Callable[[list[str], str, int], CallEffect]:
    """Formatters, which write files unless one of these options is given."""
    wanted = frozenset(options)

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        return _CHECKS if wanted.intersection(arguments) else _CHANGES

    return effect


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
    """tar, unzip, zip: a listing reads."""
    first = arguments[0] if arguments else ""
    if first in ("-l", "-Z", "-Zl", "-v", "--list") or ("t" in first and (first[:1] == "-" or first.isalpha())):
        return _READS
    return _CHANGES


def _tee(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    target = _first(arguments)
    return _READS if target in NO_FILES or not target else _CHANGES


def _by_task(checks: str, changes: str, reads: str, otherwise: Effect) -> Callable[[list[str], str, int], CallEffect]:
    """Programs whose first operand names the task. `run test`, as of npm, counts as `test`."""
    table: dict[str, Effect] = dict.fromkeys(reads.split(), "reads")
    table |= dict.fromkeys(changes.split(), "changes")
    table |= dict.fromkeys(checks.split(), "checks")

    def effect(arguments: list[str], _document: str, _depth: int) -> CallEffect:
        if not arguments or arguments[0] in ("--version", "-V", "-v", "--help", "-h", "version"):
            return _BY_EFFECT[otherwise] if not arguments else _READS
        tasks = [word for word in _operands(arguments) if not _ASSIGNMENT.match(word)]
        if tasks[:1] in (["run"], ["run-script"]):
            tasks = tasks[1:] or tasks
        for task in tasks:
            found = table.get(task) or table.get(re.split(r"[:\-_.]", task.lower())[-1 if ":" in task[:1] else 0])
            if found:
                return _BY_EFFECT[found]
        return _BY_EFFECT[otherwise]

    return effect


_GIT_READS = frozenset(
    "status diff log show blame grep ls-files ls-tree rev-parse describe shortlog cat-file config remote reflog"
    " rev-list fetch help version for-each-ref name-rev whatchanged check-ignore bisect merge-base ls-remote".split()
)


def _git(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    at = 0
    while at < len(arguments) and arguments[at][:1] == "-":
        at += 2 if arguments[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    task, rest = (arguments[at], arguments[at + 1 :]) if at < len(arguments) else ("", [])
    if task in _GIT_READS or not task:
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
    """A build checks; what prepares one writes files."""
    if arguments[:1] == ["--version"]:
        return _READS
    return _CHECKS if "--build" in arguments else _CHANGES


def _echo(arguments: list[str], _document: str, _depth: int) -> CallEffect:
    return _CONTROLS if _COMPLETE in arguments else _READS


def _of_unknown(name: str, word: str, arguments: list[str], document: str, depth: int) -> CallEffect:
    """A program that is in no table: of some family by its name, else a test by its name, else named by a verb."""
    if name.startswith(("python", "pypy", "ruby", "node")):
        return _interpreter(arguments, document, depth)
    if name.startswith(("pip", "clang-format", "gcc-", "g++-", "clang-")):
        return _CHANGES if name.startswith("pip") else _CHECKS
    if "--help" in arguments or arguments[:1] in (["--version"], ["-version"], ["-V"]):
        return _READS
    if _is_test(name) and ("/" in word or "." in name):
        return _CHECKS
    found = verb_effect(name) if "/" not in word and "." not in name and ("_" in name or "-" in name) else "unknown"
    return _of_output(name, arguments) if found == "unknown" else _BY_EFFECT[found]


_BY_EFFECT: dict[Effect, CallEffect] = {
    "reads": _READS, "changes": _CHANGES, "checks": _CHECKS, "waits": _WAITS, "controls": _CONTROLS,
    "unknown": _UNKNOWN,
}  # fmt: skip

_SWE_AGENT_EDITS = frozenset({"edit", "insert", "str_replace", "append"})

_PROGRAMS: dict[str, Effect] = {}
for _effect, _names in (
    ("reads",
     "ls cat head tail less more grep egrep fgrep zgrep rg ag ack fd tree wc stat file du df pwd printf which"
     " whereis type locate printenv whoami id hostname uname date ps top free lsof netstat ss ifconfig ip ping dig"
     " nslookup diff cmp comm uniq cut tr jq xxd od hexdump strings nl column md5sum sha1sum sha256sum sha512sum"
     " cksum basename dirname realpath readlink test [ [[ true false : cd pushd popd dirs history man help tac rev"
     " fold paste join seq nm objdump readelf ldd otool javap zcat bat exa eza alias export set unset source . read"
     " let local declare shopt ulimit umask trap exit return break continue jobs apt-cache nproc lscpu arch getconf"
     " locale tty clear expr bc dc factor shuf look ldconfig pgrep pstree vmstat iostat uptime w who groups getent"
     " host traceroute pdftotext pdfinfo exiftool identify ffprobe mediainfo tesseract cloc tokei lsb_release"
     " find_file search_file search_dir open goto scroll_up scroll_down sqlite3_analyzer apropos info egrep look"
     " base64 mapfile readarray getopts hash compgen complete typeset readonly shift in filemap cd.. find. ls-la"
     ),
    ("changes",
     "mv cp rm rmdir mkdir touch patch ln chmod chown chgrp truncate configure install rsync unlink shred sponge ed ex"
     " yum dnf apk brew pacman zypper snap gem gunzip gzip bzip2 bunzip2 xz unxz 7z scp useradd usermod userdel"
     " groupadd passwd crontab chpasswd service update-alternatives mkfifo mktemp mknod mount umount pip pip3 pipx"
     " autopep8 apply_patch convert ffmpeg dos2unix unix2dos split csplit rename ssh-keygen mkfs sdk nvm"
     " edit create str_replace append"
     ),
    ("checks",
     "pytest py.test tox nox unittest nosetests nose2 jest vitest mocha karma cypress ava tap rspec phpunit ctest sbt"
     " ant ninja gcc g++ cc c++ clang clang++ rustc javac kotlinc scalac tsc mypy pyright pylint flake8 pycodestyle"
     " pyflakes pydocstyle bandit stylelint shellcheck hadolint golangci-lint staticcheck bats prove coqc py_compile"
     " compileall doctest trial stestr runtests testrepl xmllint jsonlint yamllint tslint htmlhint vulture basedpyright"
     " runtests.py pre-commit playwright gfortran ghc ocamlc nasm as ld tidy checkstyle detekt ktlint sparse cppcheck"
     ),
    ("waits", "sleep wait"),
    ("controls", "submit exit_cost exit_context exit_format exit_forfeit"),
):  # fmt: skip
    _PROGRAMS.update(dict.fromkeys(_names.split(), _effect))  # type: ignore[arg-type]

_NODE = _by_task(
    "test tests t lint build check typecheck type-check tsc jest vitest eslint compile ci-test coverage e2e unit spec",
    "install i ci add remove uninstall update upgrade link init publish format fmt prune dedupe fix rebuild create",
    "ls list view info outdated audit why config root bin help search show explain pack whoami",
    "unknown",
)
_MAVEN = _by_task(
    "test verify check build assemble compile compileJava package testClasses jar classes integrationTest lint",
    "clean install deploy publish spotlessApply wrapper format",
    "tasks dependencies projects properties help dependency",
    "checks",
)


def _maven(arguments: list[str], document: str, depth: int) -> CallEffect:
    """Maven and Gradle: a build checks, also where it cleans before."""
    found = _MAVEN(arguments, document, depth)
    return _CHECKS if found.effect == "changes" and _operands(arguments) != ["clean"] else found


_KUBE = _by_task(
    "validate plan", "apply delete create edit patch scale rollout exec cp label annotate destroy init install upgrade"
    " uninstall set drain cordon rm rmi stop start restart kill pull push tag commit prune compose up down load",
    "get describe logs top explain version config ps images inspect info show output list status history diff search"
    " port stats events ls", "unknown",
)  # fmt: skip

_SPECIAL: dict[str, Callable[[list[str], str, int], CallEffect]] = {
    **dict.fromkeys("python python3 python2 node nodejs ruby deno php lua Rscript julia pypy3".split(), _interpreter),
    **dict.fromkeys("bash sh zsh dash ksh fish".split(), _shell),
    **dict.fromkeys("mvn mvnw gradle gradlew".split(), _maven),
    **dict.fromkeys("npm yarn pnpm bun".split(), _NODE),
    **dict.fromkeys("kubectl docker podman terraform helm docker-compose oc systemctl tofu".split(), _KUBE),
    **dict.fromkeys("tar unzip zip jar".split(), _archive),
    **dict.fromkeys("make gmake".split(), _make),
    **dict.fromkeys("awk gawk yq".split(), _in_place("-i", "--in-place", "--inplace")),
    **dict.fromkeys("gofmt clang-format rustfmt shfmt goimports".split(), _in_place("-w", "-i", "--write")),
    **dict.fromkeys("black isort yapf autoflake pyupgrade".split(), _formatter("--check", "--diff")),
    "prettier": _in_place("--write", "-w"),
    "eslint": _fixer("--fix"),
    "rubocop": _fixer("-a", "-A", "--autocorrect"),
    "biome": _fixer("--write", "--apply", "format"),
    "ruff": _fixer("--fix", "format"),
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
    "apt": _by_task("", "install remove purge update upgrade", "list show search policy", "changes"),
    "apt-get": _by_task("", "install remove purge update upgrade", "download", "changes"),
    "sort": _in_place("-o", "--output"),
    "dpkg": _in_place("-i", "-r", "-P", "--install", "--configure"),
    "pip": _by_task("check", "install uninstall download", "list show freeze index config cache", "changes"),
    "pip3": _by_task("check", "install uninstall download", "list show freeze index config cache", "changes"),
    "conda": _by_task("", "install create remove update", "list info env search", "unknown"),
    "uv": _by_task("", "pip add remove sync venv lock init", "tree version", "unknown"),
    "poetry": _by_task("check", "install add remove update lock", "show env version", "unknown"),
    "cargo": _by_task(
        "test check build clippy nextest bench b t c doc", "add remove install fmt fix update new init clean publish",
        "tree metadata search", "unknown",
    ),
    "go": _by_task("test vet build", "get mod generate fmt install clean work fix", "list doc env version", "unknown"),
    "dotnet": _by_task("test build", "add remove restore new publish clean format", "list", "unknown"),
    "bazel": _by_task("test build coverage", "clean run", "query info cquery", "unknown"),
    "cmake": _cmake,
    "dd": _dd,
    "service": _service,
    "swift": _by_task("test build", "", "", "unknown"),
    "mix": _by_task("test compile credo dialyzer", "deps.get ecto.migrate format", "help", "unknown"),
    "rake": _by_task("test spec", "db", "", "unknown"),
    "composer": _by_task("test validate", "install update require remove", "show", "unknown"),
    "gh": _by_task("", "create merge close comment edit delete", "view list status diff checks search", "unknown"),
}  # fmt: skip
