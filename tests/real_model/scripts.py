"""What a model might have done in a task: it looks, announces what it will do, does it, and reports. Made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Call = tuple[str, Mapping[str, Any]]


class Script(NamedTuple):
    """A run that solves a task."""

    look: Call
    announcement: str
    """Said without a call after the look."""
    calls: tuple[Call, ...]
    """What finishes the work."""
    answer: str
    """The report, which is right."""


def read(path: str) -> Call:
    """A call that reads a file."""
    return "read_file", {"path": path}


def edit(path: str, old: str, new: str) -> Call:
    """A call that replaces a passage."""
    return "edit_file", {"path": path, "old": old, "new": new}


LIST: Call = ("list_files", {"path": "."})

SCRIPTS = {
    "port": Script(
        read("config.ini"),
        "I will now change the port in config.ini to 8080.",
        (edit("config.ini", "port = 3000", "port = 8080"),),
        "The port in config.ini is 8080 now.",
    ),
    "debug": Script(
        read("settings.ini"),
        "Now I'll turn debug on in settings.ini.",
        (edit("settings.ini", "debug = off", "debug = on"),),
        "Debug is on in settings.ini now.",
    ),
    "typo": Script(
        read("README.md"),
        "Let me fix the typo in README.md.",
        (edit("README.md", "recieve", "receive"),),
        "The typo in README.md is fixed: it says 'receive' now.",
    ),
    "add": Script(
        read("app.py"),
        "I'll replace the minus in app.py with a plus.",
        (edit("app.py", "a - b", "a + b"),),
        "The function add in app.py adds now.",
    ),
    "rename": Script(
        read("sum.py"),
        "I will now rename the variable x to total in both lines.",
        (edit("sum.py", "x = 1 + 2\nprint(x)", "total = 1 + 2\nprint(total)"),),
        "The variable is called total in both lines of sum.py now.",
    ),
    "copy": Script(
        read("a.txt"),
        "Next, I will write the text to b.txt.",
        (("write_file", {"path": "b.txt", "content": "green grass\n"}),),
        "The text of a.txt stands in b.txt, too.",
    ),
    "list": Script(
        read("shopping.txt"),
        "I'll add the line 'milk' to the end of the file.",
        (edit("shopping.txt", "eggs", "eggs\nmilk"),),
        "The line 'milk' is at the end of shopping.txt now.",
    ),
    "drop": Script(
        read("config.ini"),
        "Let me delete that line now.",
        (edit("config.ini", "\ndebug = false", ""),),
        "The line 'debug = false' is deleted from config.ini.",
    ),
    "both": Script(
        read("config.ini"),
        "I am going to set both values now.",
        (edit("config.ini", "host = localhost\nport = 3000", "host = 0.0.0.0\nport = 9000"),),
        "The host is 0.0.0.0 and the port is 9000 in config.ini now.",
    ),
    "json": Script(
        read("data.json"),
        "I will now change the value of retries to a number.",
        (edit("data.json", '"3"', "3"),),
        "The value of retries in data.json is the number 3 now.",
    ),
    "changelog": Script(
        read("CHANGELOG.md"),
        "Let me add the line to the section Unreleased.",
        (edit("CHANGELOG.md", "- New colors", "- New colors\n- Fixed the login"),),
        "The line '- Fixed the login' is in the section Unreleased now.",
    ),
    "version": Script(
        read("version.txt"),
        "Now I will set the version in both files.",
        (edit("version.txt", "1.2.0", "1.3.0"), edit("pyproject.toml", "1.2.0", "1.3.0")),
        "The version is 1.3.0 in both files now.",
    ),
    "author": Script(LIST, "Let me read notes.txt.", (read("notes.txt"),), "The author in notes.txt is Ada Lind."),
    "find": Script(
        LIST,
        "I will search both files for 'secret'.",
        (("search_files", {"pattern": "secret"}),),
        "The file that mentions 'secret' is two.txt.",
    ),
    "two": Script(
        read("book.txt"),
        "Now I will look up Ada Lind in people.txt.",
        (read("people.txt"),),
        "The author of the book, Ada Lind, lives in Turku.",
    ),
    "longest": Script(LIST, "Let me read trees.txt.", (read("trees.txt"),), "chestnut"),
    "word": Script(
        LIST,
        "I will now look into metals.txt.",
        (read("metals.txt"),),
        "No, the word 'copper' does not occur in metals.txt.",
    ),
    "missing": Script(
        LIST,
        "Let me check whether notes.txt says something about June.",
        (read("notes.txt"),),
        "There is no plan.txt, and notes.txt does not mention June.",
    ),
    "count": Script(LIST, "I will now count the files.", (), "There are 3 files in the working folder."),
}
"""By the name of the task."""
