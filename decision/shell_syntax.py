"""Parser of shell syntax: splits a text into simple commands, with their words, redirections and here documents.

It is read as a shell reads it, once from the first character to the last; variables, aliases and functions are not
expanded, and text inside double quotes is not searched for commands.
"""

from __future__ import annotations

import re

from .deferred_patterns import deferred

_TOKEN = deferred(
    r"""(?P<blank>(?:[ \t\r]|\\\n)++)
    |(?P<comment>\#[^\n]*+)
    |(?P<arithmetic>\$?\(\([^()\n]*+\)\))
    |(?P<here><<-?[ \t]*+(?:'[^'\n]*+'|"[^"\n]*+"|\\?[A-Za-z_]\w*+))
    |(?P<from><(?:<<|&|>)?)
    |(?P<to>[0-9&]?>[>|&]?)
    |(?P<operator>\n|;+|&&|\|\||\|&?|&|\(|\)|`)
    |(?P<word>(?:[^\s'"\\;&|<>()`]++|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|\\.|\\\Z)++)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = deferred(r"['\"\\]")
NO_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})


class Command:
    """A simple command: its words, the files that receive its output, and the text of its here document."""

    __slots__ = ("appends", "document", "files", "operator", "piped", "words")

    def __init__(self, operator: str = "") -> None:
        self.words: list[str] = []
        self.files: list[str] = []
        self.document = ""
        self.appends = False
        """Whether its output is added to the last of these files."""
        self.operator = operator
        """What stands between the command before it and this one: `&&`, `;`, `|`, a line feed; empty for the first."""
        self.piped = operator[:1] == "|" and operator != "||"


def split_commands(text: str) -> list[Command]:
    """Split a text into simple commands."""
    commands: list[Command] = []
    command = Command()
    documents: list[tuple[Command, str]] = []
    at, length, into, level, array, appends = 0, len(text), "", 0, False, False
    while at < length:
        token = _TOKEN.match(text, at)
        if token is None:
            break
        at, kind, shown = token.end(), token.lastgroup, token[0]
        if kind == "word":
            if into == "to":
                file = unquoted(shown)
                if file not in NO_FILES and not file.isdigit():
                    command.files.append(file)
                    command.appends = appends
            elif not into and not array:
                command.words.append(shown)
            into = ""
        elif kind == "operator":
            into = ""
            if array or (shown == "(" and command.words and command.words[-1][-1] == text[token.start() - 1] == "="):
                array = shown != ")"  # the words of `name=(...)`
                continue
            if shown == "\n" and documents:
                at = _read_documents(text, at, documents)
                documents = []
            level += (shown == "(") - (shown == ")")
            if level < 0:  # the pattern of a case
                level, command = 0, Command()
                continue
            if shown == "(" and len(command.words) == 1 and text[token.start() - 1] not in "$<> \t=":
                command = Command()  # the definition of a function
                continue
            if command.words or command.files:
                commands.append(command)
            elif shown == "\n":
                continue  # an empty line, as after `&&`
            command = Command(shown)
        elif kind == "here":
            documents.append((command, shown.lstrip("<- \t").strip("'\"\\")))
        elif kind == "to" or kind == "from":
            into, appends = kind, shown.endswith(">>")
    if documents:
        _read_documents(text, at, documents)
    if command.words or command.files:
        commands.append(command)
    return commands


def _read_documents(text: str, at: int, documents: list[tuple[Command, str]]) -> int:
    """Give the here documents that begin at `at` to their commands, and return the index where the last one ends."""
    for command, mark in documents:
        end = re.compile(rf"^[ \t]*+{re.escape(mark)}[ \t\r]*+$", re.MULTILINE).search(text, at)
        command.document = text[at : end.start() if end else len(text)]
        at = min(end.end() + 1, len(text)) if end else len(text)
    return at


def unquoted(word: str) -> str:
    """Return a word without the quotes and backslashes that the shell removes; the quoted text does not change."""
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    if len(word) > 1 and word[0] in "'\"" and word[-1] == word[0] and word[0] not in word[1:-1]:
        return word[1:-1]
    if len(word) > 1 and word[0] == word[-1] == '"':
        return word[1:-1].replace('\\"', '"')
    return _QUOTES.sub("", word)
