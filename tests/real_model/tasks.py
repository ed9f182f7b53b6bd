"""Small tasks for a real model: a prompt, a folder, and a check that says whether the work is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

Check = Callable[[Path, str], bool]
"""Looks at the folder and at the answer."""


class Task(NamedTuple):
    """One task."""

    name: str
    prompt: str
    before: Mapping[str, str]
    """Files that lie in the folder at first."""
    right: Check


def files_in(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its text."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def put(files: Mapping[str, str], folder: Path) -> Path:
    """Write the files into the folder, which may not exist yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def holds(**wanted: str) -> Check:
    """These files, `__` for the dot, hold just this; a newline more or less at the end is nothing."""
    texts = {name.replace("__", "."): text.rstrip() for name, text in wanted.items()}
    return lambda folder, answer: all(
        (folder / name).is_file() and (folder / name).read_text(encoding="utf-8").rstrip() == text
        for name, text in texts.items()
    )


def says(*words: str) -> Check:
    """One of these words stands in the answer."""
    return lambda folder, answer: any(word in answer.lower() for word in words)


def only(words: str, never: str = "(?!)", **files: str) -> Check:
    """The answer matches the one pattern and not the other, by whole words, and these files are as they were."""
    kept = holds(**files)
    return lambda folder, answer: (
        kept(folder, answer)
        and re.search(rf"\b({words})\b", answer.lower()) is not None
        and re.search(rf"\b({never})\b", answer.lower()) is None
        and len(files_in(folder)) == len(files)
    )


def number_of_retries(folder: Path, answer: str) -> bool:
    """data.json is as it was, but that the retries are a number now."""
    try:
        return bool(json.loads((folder / "data.json").read_text(encoding="utf-8")) == {"name": "demo", "retries": 3})
    except (OSError, ValueError):
        return False


def login_is_news(folder: Path, answer: str) -> bool:
    """The line stands among those of Unreleased, first or last, and nothing else has changed but blank lines."""
    lines = [line for line in (folder / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    new, old = "- Fixed the login", "- New colors"
    rest = ["## 1.0", "- First release"]
    return lines in [["# Changelog", "## Unreleased", *pair, *rest] for pair in ([new, old], [old, new])]


CONFIG = "[server]\nhost = localhost\nport = 3000\ndebug = false\n"
PORT = holds(config__ini=CONFIG.replace("3000", "8080"))
SETTINGS = '{"name": "demo", "retries": "3"}\n'
NEWS = "# Changelog\n\n## Unreleased\n\n- New colors\n\n## 1.0\n\n- First release\n"
LETTERS = {"a.txt": "", "b.txt": "", "c.txt": ""}
HOW_MANY = "How many files are in the working folder? Give the number in the summary."

TASKS = {
    task.name: task
    for task in (
        Task("port", "Set the port in config.ini to 8080.", {"config.ini": CONFIG}, PORT),
        Task("hello", "Create a file hello.txt that contains the word hello.", {}, holds(hello__txt="hello")),
        Task("count", HOW_MANY, LETTERS, says("3", "three")),
        Task(
            "author",
            "What is the name of the author in notes.txt?",
            {"notes.txt": "Title: Rivers\nAuthor: Ada Lind\n"},
            says("ada lind"),
        ),
        Task(
            "typo",
            "Fix the typo 'recieve' in README.md.",
            {"README.md": "# Mail\nYou will recieve mail.\n"},
            holds(README__md="# Mail\nYou will receive mail."),
        ),
        Task(
            "add",
            "In app.py the function add subtracts. Fix it.",
            {"app.py": "def add(a, b):\n    return a - b\n"},
            holds(app__py="def add(a, b):\n    return a + b"),
        ),
        Task(
            "debug",
            "Turn debug on in settings.ini.",
            {"settings.ini": "[app]\ndebug = off\nlevel = 3\n"},
            holds(settings__ini="[app]\ndebug = on\nlevel = 3"),
        ),
        Task(
            "rename",
            "Rename the variable x to total in sum.py.",
            {"sum.py": "x = 1 + 2\nprint(x)\n"},
            holds(sum__py="total = 1 + 2\nprint(total)"),
        ),
        Task(
            "copy",
            "Copy the text of a.txt to b.txt.",
            {"a.txt": "green grass\n"},
            holds(a__txt="green grass", b__txt="green grass"),
        ),
        Task(
            "find",
            "Find the file that mentions 'secret' and give its name.",
            {"one.txt": "nothing\n", "two.txt": "the secret is 7\n"},
            says("two.txt"),
        ),
        Task(
            "list",
            "Add a line 'milk' to the end of shopping.txt.",
            {"shopping.txt": "bread\neggs\n"},
            holds(shopping__txt="bread\neggs\nmilk"),
        ),
        Task(
            "version",
            "Set the version to 1.3.0 in both pyproject.toml and version.txt.",
            {"pyproject.toml": '[project]\nname = "demo"\nversion = "1.2.0"\n', "version.txt": "1.2.0\n"},
            holds(pyproject__toml='[project]\nname = "demo"\nversion = "1.3.0"', version__txt="1.3.0"),
        ),
        # Variants of `port` that invite the model to go on after it has reported the end.
        Task(
            "port_check",
            "Set the port in config.ini to 8080. Then finish and check that the file is right.",
            {"config.ini": CONFIG},
            PORT,
        ),
        Task(
            "port_once",
            "Set the port in config.ini to 8080. Make all calls that you need in one response.",
            {"config.ini": CONFIG},
            PORT,
        ),
        # Ten more, run under two policies.
        Task(
            "drop",
            "Delete the line 'debug = false' from config.ini.",
            {"config.ini": CONFIG},
            holds(config__ini="[server]\nhost = localhost\nport = 3000"),
        ),
        Task(
            "two",
            "In which city does the author of the book live? Look in book.txt and people.txt.",
            {"book.txt": "Title: Rivers\nAuthor: Ada Lind\n", "people.txt": "Tom Berg: Oslo\nAda Lind: Turku\n"},
            only(
                "turku",
                "oslo",
                book__txt="Title: Rivers\nAuthor: Ada Lind",
                people__txt="Tom Berg: Oslo\nAda Lind: Turku",
            ),
        ),
        Task(
            "both",
            "Set host to 0.0.0.0 and port to 9000 in config.ini.",
            {"config.ini": CONFIG},
            holds(config__ini="[server]\nhost = 0.0.0.0\nport = 9000\ndebug = false"),
        ),
        Task(
            "longest",
            "Which line of trees.txt is the longest? Give only that line.",
            {"trees.txt": "fir\nchestnut\noak\nmaple\n"},
            only("chestnut", "fir|oak|maple", trees__txt="fir\nchestnut\noak\nmaple"),
        ),
        Task(
            "word",
            "Does the word 'copper' occur in metals.txt? Answer yes or no.",
            {"metals.txt": "iron\nzinc\ntin\n"},
            only("no|not", "yes", metals__txt="iron\nzinc\ntin"),
        ),
        Task(
            "json",
            "In data.json change the value of retries from a string to a number.",
            {"data.json": SETTINGS},
            number_of_retries,
        ),
        Task(
            "changelog",
            "Add the line '- Fixed the login' to the section Unreleased of CHANGELOG.md.",
            {"CHANGELOG.md": NEWS},
            login_is_news,
        ),
        Task("times", "What is 7 times 6?", {}, only("42|forty-two")),
        Task("greeting", "Hello!", {"config.ini": CONFIG}, only("hello|hi|help|assist", config__ini=CONFIG.rstrip())),
        Task(
            "missing",
            "What does plan.txt say about June?",
            {"notes.txt": "Buy bread.\n"},
            only("not|no|cannot|missing|doesn't|couldn't", notes__txt="Buy bread."),
        ),
    )
}
