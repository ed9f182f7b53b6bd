"""Options that several commands share, so that they read the same in each."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..decision import FinishReason, WrongUse
from ..decision.finish_words import check_finish_words
from ..providers.timeouts import BETWEEN_SECONDS, FIRST_SECONDS
from ..records.redaction import DEFAULT_KINDS, KINDS, Redaction
from ..store.base import LEASE
from .factory import RETRIES


def add_command(
    commands: Any, name: str, help: str, command: Callable[[argparse.Namespace], int], epilog: str = ""
) -> argparse.ArgumentParser:
    """The parser of one command. What stands in `epilog` keeps its lines."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    return parser


def add_agent(parser: argparse.ArgumentParser) -> None:
    """What makes an agent: model, tools, and when it stops."""
    model = parser.add_argument_group("model")
    add_model(model)
    add_sampling(model)
    tools = parser.add_argument_group("tools")
    add_tools(tools)
    add_presets(tools)
    add_stopping(parser.add_argument_group("when to stop"))


def add_model(model: argparse._ArgumentGroup) -> None:
    """Which model, how it is reached, what it costs, and what is done about it when it fails."""
    model.add_argument("--model", metavar="M", help="its name, as litellm or the endpoint knows it")
    model.add_argument("--api-base", metavar="URL", help="an OpenAI-compatible endpoint, up to and with /v1")
    model.add_argument("--provider", choices=("litellm", "openai"), help="how to reach it; else decided by --api-base")
    add_retries_and_timeouts(model)
    model.add_argument(
        "--price", metavar="IN,OUT", help="US dollars per million tokens, where litellm's list is wrong or has none"
    )


def add_retries_and_timeouts(model: argparse._ArgumentGroup) -> None:
    """What is done about a provider that fails or hangs."""
    model.add_argument(
        "--retries",
        type=int,
        default=RETRIES,
        metavar="N",
        help=f"ask again so often after an error that may pass (default {RETRIES})",
    )
    model.add_argument(
        "--first-timeout",
        type=float,
        default=FIRST_SECONDS,
        metavar="S",
        help=f"seconds to the first content of a response (default {FIRST_SECONDS:g})",
    )
    model.add_argument(
        "--content-timeout",
        type=float,
        default=BETWEEN_SECONDS,
        metavar="S",
        help=f"seconds from one piece of content to the next (default {BETWEEN_SECONDS:g})",
    )
    model.add_argument(
        "--response-timeout", type=float, metavar="S", help="seconds that one response may take (default: no bound)"
    )


def add_sampling(model: argparse._ArgumentGroup) -> None:
    """What goes into every request beside the conversation."""
    model.add_argument("--tool-choice", choices=("auto", "required", "none"), help="default: auto")
    model.add_argument("--temperature", type=float, metavar="T", help="passed to the model")
    model.add_argument("--seed", type=int, metavar="N", help="passed to the model")
    model.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="output tokens of one response: passed to the model, and held here, too, by an estimate",
    )
    add_finish_words(model)


def add_finish_words(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """What words of the provider's mean that are not in the table."""
    parser.add_argument(
        "--finish-word",
        action="append",
        default=[],
        metavar="WORD=MEANING",
        help="what a finish word of the provider means that is not known: stop, length, ...; repeatable",
    )


def parse_finish_words(args: argparse.Namespace) -> dict[str, FinishReason]:
    """The finish words that were given. Raises WrongUse for what is none."""
    words = {}
    for text in args.finish_word:
        word, sign, meaning = text.rpartition("=")
        if not sign:
            raise WrongUse(f"--finish-word {text}: write WORD=MEANING, as done=stop")
        words[word] = meaning
    return check_finish_words(words)


def sampling_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given."""
    settings = {"temperature": args.temperature, "seed": args.seed, "max_tokens": args.max_tokens}
    return {name: value for name, value in settings.items() if value is not None}


def add_tools(
    tools: argparse._ArgumentGroup | argparse.ArgumentParser,
    workspace: str = "let the model list, read, search and change files in DIR",
    commands: str = "let it run commands in the workspace, too",
) -> None:
    """The user's own tools, and those of the workspace."""
    tools.add_argument(
        "--tools", action="append", default=[], metavar="FILE", help="a Python file or module with tools; repeatable"
    )
    tools.add_argument("--workspace", metavar="DIR", help=workspace)
    tools.add_argument("--allow-run", action="store_true", help=commands)
    tools.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="an environment variable that commands see besides PATH, HOME and the like; repeatable",
    )


def add_presets(tools: argparse._ArgumentGroup) -> None:
    """The tools that are offered without being asked for."""
    tools.add_argument("--no-presets", action="store_true", help="offer neither finish_task nor ask_user")


def add_stopping(ending: argparse._ArgumentGroup) -> None:
    """When a run stops, and who says whether it was good."""
    ending.add_argument("--policy", metavar="P", help="chat, agent (default), strict, or a TOML file")
    ending.add_argument("--max-steps", type=int, metavar="N", help="hard limit of model steps in a run (default: 30)")
    ending.add_argument("--no-closing", action="store_true", help="where a run is exhausted, do not ask for a summary")
    ending.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="CMD",
        help="a command that must succeed before a completion is accepted; runs in the workspace; repeatable",
    )
    ending.add_argument("--evaluate", metavar="CMD", help="a command that says whether the work was good")
    ending.add_argument(
        "--evaluate-plain",
        metavar="CMD",
        help="the same as a line for the shell that gets no arguments; ENDSTOP_AGENT_WORKSPACE, ENDSTOP_RES_LOG_FILE, "
        "ENDSTOP_GROUNDTRUTH_WORKSPACE and ENDSTOP_LAUNCH_TIME are set for it",
    )
    ending.add_argument("--reference-workspace", metavar="DIR", help="a folder for it to compare the workspace with")


def add_output(output: argparse._ArgumentGroup | argparse.ArgumentParser, json: str, answer: str) -> None:
    """What is printed."""
    output.add_argument("--json", action="store_true", help=json)
    output.add_argument("--quiet", action="store_true", help=answer)


def add_record_paths(parser: argparse.ArgumentParser) -> None:
    """Many records, on many cores."""
    parser.add_argument(
        "records",
        nargs="+",
        metavar="RECORDS",
        help="records, or folders that are searched for *.jsonl and *.jsonl.zst",
    )
    parser.add_argument("--processes", type=int, metavar="N", help="worker processes (default: one a core)")
    add_output(parser, "print one JSON object", "show no progress")


def add_indexed_records(parser: argparse.ArgumentParser) -> None:
    """Many records, of which is remembered what was made of them."""
    add_record_paths(parser)
    parser.add_argument("--index", metavar="FILE", help="where results are kept for the next time (default: the cache)")
    parser.add_argument("--no-index", action="store_true", help="read every record anew, and keep nothing")


def add_redaction(parser: argparse.ArgumentParser | argparse._ArgumentGroup, where: str | None) -> None:
    """What of users, models and tools does not get into `where`. Each of the options switches redaction on.

    Without `where` redaction is what the command is for, and the options say only what is redacted besides.
    """
    prefix = "" if where is None else "redact-"
    if where is not None:
        hidden = "keys, tokens, e-mail addresses and card numbers"
        parser.add_argument("--redact", action="store_true", help=f"hide {hidden} in {where}")
    parser.add_argument(
        f"--{prefix}word",
        dest="redact_words",
        action="append",
        default=[],
        metavar="WORD",
        help="hide this word or name, too; repeatable",
    )
    parser.add_argument(
        f"--{prefix}pattern",
        dest="redact_patterns",
        action="append",
        default=[],
        metavar="NAME=REGEX",
        help="hide what this matches, too, as [redacted:NAME:...]; repeatable",
    )
    parser.add_argument(
        f"--{prefix}phones", dest="redact_phones", action="store_true", help="hide what may be a telephone number, too"
    )


def build_redaction(args: argparse.Namespace) -> Redaction | None:
    """The redaction that was chosen; None for none. Raises WrongUse."""
    if not (args.redact or args.redact_words or args.redact_patterns or args.redact_phones):
        return None
    patterns = {}
    for written in args.redact_patterns:
        name, equals, pattern = written.partition("=")
        if not (equals and name.isidentifier() and pattern):
            raise WrongUse(f"{written!r} is no pattern with a name: write NAME=REGEX, as in ticket='T-[0-9]+'")
        patterns[name] = pattern
    kinds = KINDS if args.redact_phones else DEFAULT_KINDS
    return Redaction(kinds=tuple(kinds), patterns=patterns, words=args.redact_words)


def add_queue(group: argparse._ArgumentGroup) -> None:
    """The queue that processes share."""
    group.add_argument(
        "--queue",
        default="dbos",
        metavar="Q",
        help="who hands out the sessions: dbos (the default, in the database of --store), dbos:URL for another "
        "database, or temporal://HOST:PORT/NAMESPACE",
    )
    group.add_argument(
        "--max-running-everywhere",
        type=int,
        metavar="N",
        help="sessions that may run at once in all workers together (dbos; default: any number)",
    )


def add_lease(group: argparse._ArgumentGroup) -> None:
    """When a process is taken for dead."""
    group.add_argument(
        "--lease",
        type=float,
        default=LEASE,
        metavar="S",
        help=f"seconds after which a process that is not heard of is taken for dead (default {LEASE:g})",
    )
