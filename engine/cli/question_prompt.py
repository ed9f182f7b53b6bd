"""Answers to open questions on the command line: from options such as `--approve`, or asked for at the terminal.

At the terminal all open questions are asked one by one. Leaving at any of them, with Ctrl-C or Ctrl-D, answers none: no
call runs because of half an answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ..answers import Answer, check_granted, understood
from ..approvals import MAX_SHOWN_ARGUMENTS, Approve, Deny, check_edited
from ..base.sanitize import one_line, sanitize
from ..decision import Question, WrongUse
from ..tools.tool import Toolbox
from .views.styled_lines import Line, wrap
from .views.text import counted

try:
    import termios
except ImportError:  # not on every platform
    _PLATFORM = False
else:
    _PLATFORM = True

ANSWER = "Your answer: "
CONFIRM = "Is it done? [y]es, or [n]o and what is missing: "
EXTEND = "More steps? [y]es, how many, or [n]o: "
APPROVE = "Run it? [y]es, [n]o, [e]dit the arguments, or a reason why not: "
EDIT = "All arguments, as a JSON object (empty: back): "
LEAVE = "Ctrl-D leaves it open."
MAX_SHOWN = 4000
"""Most characters of a call's arguments that the terminal shows."""

Read = Callable[[str], str]
"""Shows a prompt and returns what is typed. Raises EOFError at the end of input, KeyboardInterrupt at Ctrl-C."""
Show = Callable[[Sequence[Line]], object]
"""Shows lines to the person who is asked."""


def parse_approvals(approved: Sequence[str], denied: Sequence[str], open_ids: Sequence[str]) -> dict[str, Any]:
    """Parse the answers of `--approve CALL_ID[=JSON]` and `--deny CALL_ID[=REASON]`. Raises WrongUse."""
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
        raise WrongUse(f"{option} {call_id}=...: the arguments are not JSON: {error}") from None


def parse_extension(steps: int | None, questions: Sequence[Question]) -> dict[str, str]:
    """Parse the answer of `--extend N`. Raises WrongUse."""
    if steps is None:
        return {}
    asking = [question.call_id for question in questions if question.extends]
    if not asking:
        raise WrongUse(f"--extend {steps}: no run asks for more steps")
    if len(asking) > 1:
        raise WrongUse(f"--extend {steps}: several runs ask for more steps: write --answer {asking[0]}={steps}")
    check_granted(steps)
    return {asking[0]: str(steps)}


def is_interactive() -> bool:
    """Return whether a person can be asked at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def read_line(prompt: str) -> str:
    """Read a line from the terminal, with the keys for editing that a shell has. What was typed before is dropped."""
    with suppress(ImportError):
        import readline  # noqa: F401  makes `input` edit lines, and take what is pasted as one answer
    if _PLATFORM:
        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # what has not been asked has not been answered
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return input(_broken_at_spaces(prompt))


def _broken_at_spaces(prompt: str) -> str:
    """Break the prompt into rows of the terminal, at spaces, so that a narrow terminal does not break words."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0 if unknown
    except (OSError, ValueError):
        return prompt
    return "\n".join(wrap(prompt.rstrip(), columns - 1)) + " "


def ask_questions(
    questions: Sequence[Question], toolbox: Toolbox, show: Show, read: Read = read_line, *, seen: bool = False
) -> dict[str, Answer] | None:
    """Ask each open question, and return the answers by call id; None if the person left, whatever was answered before.

    toolbox: the tools of the run, to check edited arguments. seen: whether the screen already shows the texts of the
    questions.
    """
    answers: dict[str, Answer] = {}
    how_to_leave: Sequence[Line] = [[(LEAVE, "quiet")]]
    try:
        for number, question in enumerate(questions, 1):
            show([*_asked(question, number, len(questions), seen), *(how_to_leave if number == 1 else ())])
            answers[question.call_id] = _ask(question, toolbox, show, read)
        return answers
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        show([[]])


def ask_text(show: Show, read: Read = read_line) -> str | None:
    """Ask for a reply to what the model wrote; None if the person left."""
    show([[(LEAVE, "quiet")]])
    try:
        return _text(read)
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        show([[]])


def _asked(question: Question, number: int, many: int, seen: bool) -> Iterator[Line]:
    """Yield what is asked, unless the screen already shows the one question with all that it asks about."""
    given = json.dumps(question.arguments or {}, ensure_ascii=True)
    if seen and many == 1 and len(given) <= MAX_SHOWN_ARGUMENTS:
        return
    yield [(f"Question {number} of {many}", "user")] if many > 1 else []
    if question.tool is None:
        for row in sanitize(question.text).strip().split("\n"):
            yield [(row, "strong")]
        return
    yield [(f"{one_line(question.tool, 200)} {one_line(given, MAX_SHOWN)}", "strong")]
    if len(given) > MAX_SHOWN:
        yield [(f"{counted(len(given) - MAX_SHOWN, 'more character')} not shown", "warning")]


def _ask(question: Question, toolbox: Toolbox, show: Show, read: Read) -> Answer:
    if question.tool is not None:
        return _ask_approval(question, toolbox, show, read)
    if not question.wants_yes_or_no:
        return _text(read)
    prompt, hint = CONFIRM, "Please begin with yes or no, as in: no, the tests still fail"
    if question.extends:
        prompt, hint = EXTEND, f"Please answer yes ({question.extends} more), no (it ends here) or a number of steps"
    while True:
        text = read(prompt).strip()
        if understood(question, text) != "unclear":
            return text
        show([[(hint, "warning")]])


def _text(read: Read) -> str:
    while not (text := read(ANSWER).strip()):
        pass
    return text


def _ask_approval(question: Question, toolbox: Toolbox, show: Show, read: Read) -> Approve | Deny:
    while True:
        match read(APPROVE).strip():
            case "y" | "Y" | "yes" | "Yes":
                return Approve()
            case "n" | "N" | "no" | "No":
                return Deny()
            case "e" | "E" | "edit":
                edited = _edited(question, toolbox, show, read)
                if edited is not None:
                    return edited
            case "":
                pass
            case reason:
                return Deny(reason)


def _edited(question: Question, toolbox: Toolbox, show: Show, read: Read) -> Approve | None:
    while text := read(EDIT).strip():
        try:
            return Approve(check_edited(toolbox, question, json.loads(text)))
        except WrongUse as error:
            show([[(str(error), "warning")]])
        except ValueError as error:
            show([[(f"That is not JSON: {error}", "warning")]])
    return None
