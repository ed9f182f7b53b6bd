"""Options that several commands share, and the values built from them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from ..analysis.labels import Labels
from ..decision import FinishReason, WrongUse
from ..decision.finish_words import check_finish_words
from ..http.request_checks import host_name
from ..providers.model_names import WIRES
from ..providers.retry import FIRST_WAIT, LONGEST_WAIT, backoff_sum
from ..providers.timeouts import BETWEEN_SECONDS, FIRST_SECONDS
from ..records.redaction import DEFAULT_KINDS, KINDS, Redaction
from ..store.base import LEASE
from .factory import RETRIES
from .until_options import add_until

SERVED_PROVIDER_WAIT = 300.0
"""Default of `--wait-for-provider` for a server or a worker, in seconds. Other commands do not wait unless asked to."""


def add_agent(parser: argparse.ArgumentParser, *, serves: bool = False) -> None:
    """Add the options of an agent: its model, its tools and when it stops. serves: for a server or a worker."""
    model = parser.add_argument_group("model")
    add_model(model, serves=serves)
    add_sampling(model)
    tools = parser.add_argument_group("tools")
    add_tools(tools)
    add_functions(tools)
    add_presets(tools)
    add_stopping(parser.add_argument_group("when to stop"))
    add_until(parser, serves=serves)


def add_model(model: argparse._ArgumentGroup, *, serves: bool = False) -> None:
    """Add the options for which model to use, how to reach it, what it costs, and what to do when it fails."""
    model.add_argument("--model", metavar="M", help="the name of the model, as litellm or the endpoint knows it")
    model.add_argument("--api-base", metavar="URL", help="the URL of an OpenAI-compatible endpoint, including /v1")
    own = ", ".join(f"{name} for {wire.prefix}..." for name, wire in WIRES.items() if wire.prefix)
    model.add_argument(
        "--provider",
        choices=tuple(WIRES),
        help=f"how to reach the model (default: openai with --api-base, {own}, else litellm)",
    )
    add_retries_and_timeouts(model, serves=serves)
    model.add_argument(
        "--price",
        metavar="IN,OUT",
        help="prices in US dollars per million tokens, where the lists of prices are wrong or have none",
    )


def add_retries_and_timeouts(model: argparse._ArgumentGroup, *, serves: bool = False) -> None:
    """Add the options for what to do when a provider fails or hangs. serves: whether for a server or a worker."""
    provider_wait = SERVED_PROVIDER_WAIT if serves else 0.0
    then = "then the session is interrupted, and can be resumed" if serves else "then the run fails"
    model.add_argument(
        "--retries",
        type=int,
        default=RETRIES,
        metavar="N",
        help=f"how often to retry a request after temporary errors (default {RETRIES}). The waits before the retries "
        f"double from {FIRST_WAIT:g} s up to {LONGEST_WAIT:g} s: in all at most {backoff_sum(RETRIES):g} s for "
        f"{RETRIES}, {backoff_sum(5):g} s for 5, {backoff_sum(8):g} s for 8, and half of that on average",
    )
    model.add_argument(
        "--wait-for-provider",
        type=float,
        default=provider_wait,
        metavar="S",
        help="seconds to wait, after the retries, for a provider that is away: not reachable, out of time, overloaded "
        f"(502, 503, 504, 529, 429); {then} (default {provider_wait:g})",
    )
    model.add_argument(
        "--first-timeout",
        type=float,
        default=FIRST_SECONDS,
        metavar="S",
        help=f"seconds to wait for the first content of a response (default {FIRST_SECONDS:g})",
    )
    model.add_argument(
        "--content-timeout",
        type=float,
        default=BETWEEN_SECONDS,
        metavar="S",
        help=f"seconds to wait between two pieces of content (default {BETWEEN_SECONDS:g})",
    )
    model.add_argument(
        "--response-timeout", type=float, metavar="S", help="seconds that one response may take (default: no limit)"
    )


def add_sampling(model: argparse._ArgumentGroup) -> None:
    """Add the options for what every request contains besides the conversation, such as the temperature."""
    model.add_argument("--tool-choice", choices=("auto", "required", "none"), help="default: auto")
    model.add_argument("--temperature", type=float, metavar="T", help="passed to the model")
    model.add_argument("--seed", type=int, metavar="N", help="passed to the model")
    model.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="output tokens of one response: passed to the model, and also enforced here by an estimate",
    )
    add_finish_words(model)


def add_finish_words(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add the option `--finish-word`: what a provider's finish reason means if endstop does not know it."""
    parser.add_argument(
        "--finish-word",
        action="append",
        default=[],
        metavar="WORD=MEANING",
        help="the meaning of a finish reason that endstop does not know: stop, length, ...; repeatable",
    )


def parse_finish_words(args: argparse.Namespace) -> dict[str, FinishReason]:
    """Parse the value of `--finish-word`. Raises WrongUse."""
    words = {}
    for text in args.finish_word:
        word, sign, meaning = text.rpartition("=")
        if not sign:
            raise WrongUse(f"--finish-word {text}: write WORD=MEANING, as in done=stop")
        words[word] = meaning
    return check_finish_words(words)


def sampling_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given sampling options as settings for a request."""
    settings = {"temperature": args.temperature, "seed": args.seed, "max_tokens": args.max_tokens}
    return {name: value for name, value in settings.items() if value is not None}


def add_tools(
    tools: argparse._ArgumentGroup | argparse.ArgumentParser,
    workspace: str = "let the model list, read, search and edit files in DIR",
    commands: str = "also let the model run commands in the workspace",
) -> None:
    """Add the options for the user's own tools and the tools of a workspace.

    workspace, commands: the help texts of `--workspace` and `--allow-run`.
    """
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
        help="an environment variable to pass to commands, besides PATH, HOME and a few others; repeatable",
    )


def add_functions(tools: argparse._ArgumentGroup) -> None:
    """Add the options for what runs need and what they end with, by the name of a Python object."""
    tools.add_argument(
        "--deps", metavar="FILE:NAME", help="a function that makes what tools find as ctx.deps, for each run"
    )
    tools.add_argument("--output-type", metavar="FILE:NAME", help="the type of the output that a run ends with")


def add_presets(tools: argparse._ArgumentGroup) -> None:
    """Add the option to leave out the tools that are offered by default."""
    tools.add_argument("--no-presets", action="store_true", help="do not offer finish_task and ask_user")


def add_stopping(ending: argparse._ArgumentGroup) -> None:
    """Add the options for when a run stops and how it is evaluated."""
    ending.add_argument("--policy", metavar="P", help="the policy: chat, agent (default), strict, or a TOML file")
    ending.add_argument(
        "--max-steps",
        type=int,
        metavar="N",
        help="the hard limit of steps in a run (default 30, and more while it makes progress)",
    )
    ending.add_argument(
        "--no-closing", action="store_true", help="do not ask the model for a summary when a limit is reached"
    )
    ending.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="CMD",
        help="a command that must succeed before a completion is accepted; runs in the workspace; repeatable",
    )
    ending.add_argument("--evaluate", metavar="CMD", help="a command that checks the work after the run")
    ending.add_argument(
        "--evaluate-plain",
        metavar="CMD",
        help="the same as a shell command line without arguments; it sees ENDSTOP_AGENT_WORKSPACE, "
        "ENDSTOP_RES_LOG_FILE, ENDSTOP_GROUNDTRUTH_WORKSPACE and ENDSTOP_LAUNCH_TIME",
    )
    ending.add_argument(
        "--reference-workspace", metavar="DIR", help="a folder for the evaluation to compare the workspace with"
    )


def add_output(output: argparse._ArgumentGroup | argparse.ArgumentParser, json: str, answer: str) -> None:
    """Add the options for what the command prints. `json`, `answer`: the help texts of `--json` and `--quiet`."""
    output.add_argument("--json", action="store_true", help=json)
    output.add_argument("--quiet", action="store_true", help=answer)


class RecordGroups(NamedTuple):
    """The groups of options of a command that reads records."""

    reading: argparse._ArgumentGroup
    output: argparse._ArgumentGroup


def add_reading(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the arguments for which records to read, and in how many processes."""
    parser.add_argument(
        "records",
        nargs="+",
        metavar="RECORDS",
        help="records, or folders to search for *.jsonl and *.jsonl.zst",
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument("--processes", type=int, metavar="N", help="worker processes (default: one per core)")
    return reading


def add_index(reading: argparse._ArgumentGroup) -> None:
    """Add the options of the index that caches what was found in each record."""
    reading.add_argument(
        "--index", metavar="FILE", help="the file that caches results for the next time (default: in the cache folder)"
    )
    reading.add_argument("--no-index", action="store_true", help="read every record again and cache nothing")


def add_user_policy(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the option for further policies of which the verdict says where they would have stopped."""
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="FILE",
        help="a policy in a TOML file: each verdict says where it would have stopped, as it does for chat, agent and "
        "strict; repeatable",
    )


def add_record_paths(parser: argparse.ArgumentParser) -> RecordGroups:
    """Add the arguments for which records to read, in how many processes, and what to print."""
    groups = RecordGroups(add_reading(parser), parser.add_argument_group("output"))
    add_output(groups.output, "print one JSON object", "show no progress")
    return groups


def add_indexed_records(parser: argparse.ArgumentParser) -> RecordGroups:
    """Add the arguments for which records to read, and for the index that caches the results of each."""
    groups = add_record_paths(parser)
    add_index(groups.reading)
    return groups


def add_labels(parser: argparse.ArgumentParser | argparse._ArgumentGroup, use: str) -> None:
    """Add the option for a file of labels. `use`: what becomes of them, for the help text."""
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help=f"which sessions were good, {use}: a report of SWE-bench, an object of ids, CSV or JSON Lines; "
        "a reward is good from 1.0 on",
    )


def read_labels(args: argparse.Namespace) -> Labels | None:
    """Read the labels of `--labels`; None without it. Raises WrongUse."""
    return None if args.labels is None else Labels.read(args.labels)


def add_allowed_hosts(server: argparse._ArgumentGroup) -> None:
    """Add the option for further names of a server, and leave them to `allowed_hosts`."""
    server.add_argument(
        "--allow-host",
        dest="allowed_hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="also serve requests for this name without tokens, besides the names of this machine; repeatable",
    )


def allowed_hosts(args: argparse.Namespace) -> frozenset[str]:
    """Return the names that `--allow-host` and `--host` give, as `check_host` compares them. Raises WrongUse."""
    for name in args.allowed_hosts:
        if not host_name(name):
            raise WrongUse(f"--allow-host {name!r} is not a host name: write it like agents.internal")
    return frozenset(map(host_name, (args.host, *args.allowed_hosts)))


def add_redaction(parser: argparse.ArgumentParser | argparse._ArgumentGroup, where: str | None) -> None:
    """Add the options for what to hide in `where`, such as "the record"; each of them switches redaction on.

    where: None for a command that always redacts: then the options say what to hide in addition.
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
        help="also hide this word or name; repeatable",
    )
    parser.add_argument(
        f"--{prefix}pattern",
        dest="redact_patterns",
        action="append",
        default=[],
        metavar="NAME=REGEX",
        help="also hide what this matches, as [redacted:NAME:...]; repeatable",
    )
    parser.add_argument(
        f"--{prefix}phones", dest="redact_phones", action="store_true", help="also hide what may be a phone number"
    )


def build_redaction(args: argparse.Namespace) -> Redaction | None:
    """Return the redaction that the options ask for; None without them. Raises WrongUse."""
    if not (args.redact or args.redact_words or args.redact_patterns or args.redact_phones):
        return None
    patterns = {}
    for written in args.redact_patterns:
        name, equals, pattern = written.partition("=")
        if not (equals and name.isidentifier() and pattern):
            raise WrongUse(f"{written!r} is not a named pattern: write NAME=REGEX, as in ticket='T-[0-9]+'")
        patterns[name] = pattern
    kinds = KINDS if args.redact_phones else DEFAULT_KINDS
    return Redaction(kinds=tuple(kinds), patterns=patterns, words=args.redact_words)


def add_queue(group: argparse._ArgumentGroup) -> None:
    """Add the options of the queue that several processes share."""
    add_queue_place(group, "the queue that distributes sessions: dbos (default: in the database of --store)")
    group.add_argument(
        "--max-running-everywhere",
        type=int,
        metavar="N",
        help="sessions that may run at once in all workers together (dbos; default: no limit)",
    )
    group.add_argument(
        "--max-running-each",
        type=int,
        metavar="N",
        help="sessions of one owner that may run at once in all workers together, while more wait (dbos); without "
        "workers: in this process, and more are refused (default: no limit)",
    )


def add_queue_place(group: argparse._ArgumentGroup, meaning: str) -> None:
    """Add the option for which queue it is. meaning: the help text as far as the default."""
    group.add_argument(
        "--queue",
        default="dbos",
        metavar="Q",
        help=f"{meaning}, dbos:URL for another database, or temporal://HOST:PORT/NAMESPACE",
    )


def add_store(group: argparse._ArgumentGroup, meaning: str) -> None:
    """Add the options for the store, and leave them to `read_store`. meaning: the help text of `--store`."""
    one = group.add_mutually_exclusive_group()
    one.add_argument("--store", metavar="S", help=meaning)
    one.add_argument(
        "--store-file",
        metavar="FILE",
        help="a file that holds what --store would say, such as a mounted secret: the list of processes shows what is "
        "written on the command line, with its password",
    )


def read_store(args: argparse.Namespace) -> str | None:
    """Return the path or URL of the store that the options name; None without them. Raises WrongUse."""
    if args.store_file is None:
        store: str | None = args.store
        return store
    try:
        lines = Path(args.store_file).read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise WrongUse(f"--store-file {args.store_file} cannot be read: {why}") from None
    if len(lines) != 1:
        raise WrongUse(f"--store-file {args.store_file} has {len(lines)} words: write the path or URL of the store")
    return lines[0]


def add_log_format(group: argparse._ArgumentGroup) -> None:
    """Add the option for the form of the lines of the log."""
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how each line of the log on stderr is written: as key=value (text, default) or as one JSON object",
    )


def add_lease(group: argparse._ArgumentGroup) -> None:
    """Add the option for when a process counts as dead."""
    group.add_argument(
        "--lease",
        type=float,
        default=LEASE,
        metavar="S",
        help=f"seconds without a heartbeat after which a process counts as dead (default {LEASE:g})",
    )
