"""Files that a call writes, moves or deletes, as its command, its program text or its output names them.

Only literal names count: no variables, patterns or values that are computed. Files that are only read are never among
them, so `cp a b` writes `b`, and `mv a b` changes both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from .call_results import EDGE, edges
from .call_verbs import MAX_FILES
from .deferred_patterns import deferred
from .shell_syntax import NO_FILES

MAX_PATH = 300
"""Maximum length of a file name, in characters."""
_NO_PATH = deferred(r"[$*?`{}<>|\n\0]|^-|^&|^\d*$|://|/$")
"""Signs that a word is not the name of one file: variables, patterns, options, addresses, folders."""


def file_names(words: Iterable[str]) -> tuple[str, ...]:
    """Return those of these words that name a file, each once."""
    named = (word for word in words if 0 < len(word) <= MAX_PATH and word not in NO_FILES and not _NO_PATH.search(word))
    return tuple(dict.fromkeys(named))[:MAX_FILES]


# ---- in the arguments of a program


def written_by(program: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the files that a program changes, if it is known to. arguments: without the quotes of the shell."""
    found = _WRITERS.get(program)
    return () if found is None else file_names(found(arguments))


_OUTPUT_OPTION = deferred(r"--?o(?:ut(?:put)?)?|(--?out(?:put)?[-_]?(?:file|path|dir|directory|name|folder))")
"""An option that names what a program writes (with a group: nothing else can be meant)."""
_FILE_LIKE = deferred(r"(?=.*[./])(?![\d.]+$)[^\s=,;]+")


def output_of(arguments: Sequence[str]) -> str | None:
    """Return the file or folder that an option such as `-o FILE` or `--output=FILE` names; for unknown programs."""
    for at, word in enumerate(arguments):
        name, given, value = word.partition("=")
        option = _OUTPUT_OPTION.fullmatch(name)
        if option is None:
            continue
        value = value if given else arguments[at + 1] if at + 1 < len(arguments) else ""
        if file_names([value]) and (option[1] or _FILE_LIKE.fullmatch(value)):
            return value
    return None


def _operands(arguments: Sequence[str], valued: str = "") -> list[str]:
    """Return the arguments that are neither options nor the value of an option with one of these letters."""
    found: list[str] = []
    options = True
    rest = iter(arguments)
    for word in rest:
        if options and word == "--":
            options = False
        elif options and len(word) > 1 and word[0] == "-":
            if len(word) == 2 and word[1] in valued:
                next(rest, None)
        elif word:
            found.append(word)
    return found


def _edited_in_place(arguments: Sequence[str]) -> Sequence[str]:
    """Return what `sed -i` and `perl -pi` edit: the operands after the script."""
    scripts = ("-e", "-f", "--expression", "--file", "-pe", "-ne", "-pie", "-lpe")
    given = any(
        word.startswith(("--expression=", "--file=")) or word in scripts or re.fullmatch(r"-\w*i?\w*e", word)
        for word in arguments
    )
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word in scripts or re.fullmatch(r"-\w*e", word):
            next(rest, None)
        elif word and word[0] != "-":
            found.append(word)
    return found if given else found[1:]


def _moved(arguments: Sequence[str]) -> Sequence[str]:
    """Return the files that `mv` removes and creates."""
    *sources, _ = _operands(arguments) or [""]
    return [*sources, *_copied(arguments)]


def _copied(arguments: Sequence[str]) -> Sequence[str]:
    """Return what `cp` creates: the last operand, or files in it if it is known to be a folder."""
    *sources, target = _operands(arguments, valued="mogtS") or [""]
    if target.endswith("/") or len(sources) > 1:
        return [f"{target.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources]
    return [target] if sources else []


def _removed(arguments: Sequence[str]) -> Sequence[str]:
    """Return what `rm` removes; with `-r` a name without an extension is that of a folder."""
    recursive = any(re.fullmatch(r"-\w*[rR]\w*|--recursive", word) for word in arguments)
    return [word for word in _operands(arguments) if not recursive or "." in word.rpartition("/")[2][1:]]


def _after(*options: str) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return a function for the words after one of these options."""

    def found(arguments: Sequence[str]) -> Sequence[str]:
        return [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in options]

    return found


_WRITERS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    **dict.fromkeys(("sed", "gsed", "perl"), _edited_in_place),
    **dict.fromkeys(("unlink", "tee", "create", "shred"), _operands),
    **dict.fromkeys(("touch", "truncate"), lambda arguments: _operands(arguments, valued="sdrt")),
    **dict.fromkeys(("cp", "install", "ln"), _copied),
    "mv": _moved,
    "rm": _removed,
    "dd": lambda arguments: [word[3:] for word in arguments if word.startswith("of=")],
    "curl": _after("-o", "--output"),
    "wget": _after("-O", "--output-document"),
    "sort": _after("-o", "--output"),
}


# ---- in program text

_OPENED = deferred(
    r"""\bopen\(\s{0,9}[rbfu]{0,2}(?P<quote>["'])(?P<file>[^"'\n]{1,300})(?P=quote)\s{0,9},\s{0,9}(?:mode\s?=\s?)?["'][wax]
    |\bPath\(\s{0,9}[rbfu]{0,2}(?P<quote2>["'])(?P<file2>[^"'\n]{1,300})(?P=quote2)\s{0,9}\)\.(?:write_|unlink|touch)
    |(?:\bwriteFile(?:Sync)?|\.to_(?:csv|json|excel|parquet|pickle)|\.savefig|\bnp\.savez?|\bos\.(?:remove|unlink))
    \(\s{0,9}[rbfu]{0,2}(?P<quote3>["'])(?P<file3>[^"'\n]{1,300})(?P=quote3)""",
    re.VERBOSE,
)


_NAMED = deferred(
    r"""^[ \t]{0,80}(?P<name>\w{1,80})\s{0,9}=\s{0,9}(?:(?:pathlib\.)?Path\(\s{0,9})?"""
    r"""[rbu]?(?P<quote>["'])(?P<file>[^"'\n]{1,300})(?P=quote)\)?[ \t;]{0,9}$""",
    re.MULTILINE,
)
"""A variable that holds a literal name."""
_WRITES_NAMED = deferred(
    r"""\bopen\(\s{0,9}(\w{1,80})\s{0,9},\s{0,9}(?:mode\s?=\s?)?["'][wax]|\b(\w{1,80})\.(?:write_|unlink\(|touch\()"""
    r"""|\bwriteFile(?:Sync)?\(\s{0,9}(\w{1,80})"""
)


def files_in_code(code: str) -> tuple[str, ...]:
    """Return the files that a program text writes under literal names, or under a variable that holds one."""
    literal = [found["file"] or found["file2"] or found["file3"] for found in _OPENED.finditer(code)]
    held = {found["name"]: found["file"] for found in _NAMED.finditer(code)}
    written = (next(filter(None, found.groups())) for found in _WRITES_NAMED.finditer(code)) if held else ()
    return file_names([*literal, *(held[name] for name in written if name in held)])


# ---- in what a tool answers

_ANSWERED = deferred(
    r"\[File: (?P<shown>[^\n()]{1,300}?)(?: \(\d+ lines total\))?\]"
    r"|(?:The |Your )?[Ff]ile:? [`'\"]?(?P<named>[^\s`'\"]{1,300})[`'\"]?"
    r" (?:has been|was) (?:successfully )?(?:edited|updated|created|written|saved|overwritten)\b"
)


def file_in_answer(content: str) -> str:
    """Return the file that an editor's answer names at its beginning; empty if it names none."""
    found = _ANSWERED.match(content.lstrip()[:EDGE])
    return "" if found is None else found["shown"] or found["named"]


# ---- in what a program prints

_SAYS_WRITTEN = deferred(
    r"(?:^|(?<=[\s:\]*✓✔✅]))(?:[Ww]rote|[Ww]ritten|[Ww]riting|[Ss]aved|[Ss]aving|[Ee]xported|[Gg]enerated|[Cc]reated"
    r"|[Dd]umped|[Ss]tored)(?P<between>(?: [\w,()%+-]{1,30}){0,6}?):? [`'\"]?"
    r"(?=[\w@~+-]*[./])(?=[\d.]*[A-Za-z/_~])(?P<file>[\w./@~+-]{2,300})(?![\w`'\"]*\()",
    re.MULTILINE,
)
"""A sentence of a program, such as `Saved 3 rows to out.csv`."""
_IS_FILE = deferred(r"(?=.*[A-Za-z])(?:(?=.*/).*[^/]|[\w@~+.-]*\w\.[A-Za-z]\w{0,7})")
_DENIED = deferred(
    r"\b(?:not|never|nothing|no|would|will|should|can|could|cannot|be|dir|directory|folder)\b", re.IGNORECASE
)


def files_in_output(content: str, arguments: str) -> tuple[str, ...]:
    """Return the files that a program says it wrote. Sentences already in the arguments (of `echo`) do not count."""
    text = edges(content)
    found: list[str] = []
    for said in _SAYS_WRITTEN.finditer(text):
        file = said["file"].rstrip(".")
        line = text[text.rfind("\n", 0, said.start()) + 1 : said.start()]
        denied = _DENIED.search(line) or _DENIED.search(said["between"])
        if _IS_FILE.fullmatch(file) and not denied and said[0] not in arguments:
            found.append(file)
    return file_names(found)
