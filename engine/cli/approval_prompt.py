"""Approvals on the command line: `--approve`, `--deny`, and the question at the terminal when a call waits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._sanitize import one_line
from ..approvals import Approve, Deny, check_edited
from ..decision import Question, WrongUse
from ..tools.tool import Toolbox

ASK = "Run it? [y]es, [n]o, [e]dit the arguments, or a reason why not: "
EDIT = "All arguments, as a JSON object (empty: back): "
MAX_SHOWN = 4000
"""Most characters of the arguments that the terminal shows."""
Answers = Mapping[str, str | Approve | Deny]


def parse_approvals(approved: Sequence[str], denied: Sequence[str], open_ids: Sequence[str]) -> dict[str, Any]:
    """The answers of `--approve CALL_ID[=JSON]` and `--deny CALL_ID[=REASON]`. Raises WrongUse."""
    answers: dict[str, Any] = {}
    for option, given in (("--approve", approved), ("--deny", denied)):
        for one in given:
            call_id, _, text = one.partition("=")
            if call_id not in open_ids:
                waiting = ", ".join(open_ids) or "none"
                raise WrongUse(f"{option} {one_line(one, 100)}: no such call waits for approval (open: {waiting})")
            if call_id in answers:
                raise WrongUse(f"{call_id} is given two answers")
            answers[call_id] = Deny(text) if option == "--deny" else _approval(option, call_id, text)
    return answers


def _approval(option: str, call_id: str, text: str) -> Approve:
    try:
        return Approve(json.loads(text) if text else None)
    except ValueError as error:
        raise WrongUse(f"{option} {call_id}=...: the arguments are no JSON: {error}") from None


def is_interactive() -> bool:
    """Whether there is a terminal at which a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_approvals(
    questions: Sequence[Question],
    toolbox: Toolbox,
    read: Callable[[], str] | None = None,
    write: Callable[[str], Any] | None = None,
) -> dict[str, Approve | Deny]:
    """Ask about each call that waits for approval. Empty if nobody answers (end of input, or Ctrl-C).

    read, write: read a line, with its end, and show a text; by default stdin and stderr.
    """
    read, write = read or sys.stdin.readline, write or _write
    answers: dict[str, Approve | Deny] = {}
    try:
        for question in questions:
            if question.tool is not None:
                answers[question.call_id] = _ask(question, toolbox, read, write)
    except (EOFError, KeyboardInterrupt):
        write("\n")
        return {}
    return answers


def _ask(question: Question, toolbox: Toolbox, read: Callable[[], str], write: Callable[[str], Any]) -> Approve | Deny:
    given = json.dumps(question.arguments or {}, ensure_ascii=True)
    write(f"\n{one_line(question.tool or '', 200)} {one_line(given, MAX_SHOWN)}\n")
    while True:
        write(ASK)
        match _line(read):
            case "y" | "Y" | "yes" | "Yes":
                return Approve()
            case "n" | "N" | "no" | "No":
                return Deny()
            case "e" | "E" | "edit":
                edited = _edited(question, toolbox, read, write)
                if edited is not None:
                    return edited
            case "":
                pass
            case reason:
                return Deny(reason)


def _edited(
    question: Question, toolbox: Toolbox, read: Callable[[], str], write: Callable[[str], Any]
) -> Approve | None:
    while True:
        write(EDIT)
        text = _line(read)
        if not text:
            return None
        try:
            return Approve(check_edited(toolbox, question, json.loads(text)))
        except WrongUse as error:
            write(f"{error}\n")
        except ValueError as error:
            write(f"That is no JSON: {error}\n")


def _line(read: Callable[[], str]) -> str:
    line = read()
    if not line:
        raise EOFError
    return line.strip()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
