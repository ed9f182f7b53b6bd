"""`endstop proxy`: a proxy in front of an agent's provider."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..decision import Policy, WrongUse
from ..decision.until_rules import policy_for_until
from ..http.request_checks import is_origin
from ..process.daemon import new_event_loop
from ..process.shutdown import run_to_end
from ..process.tokens import Tokens
from .commands import add_command
from .factory import load_policy, with_limits
from .options import add_allowed_hosts, add_log_format, add_redaction, allowed_hosts, build_redaction
from .until_options import add_until, build_until

if TYPE_CHECKING:
    from ..proxy.proxy_server import ProxyServer

PORT = 8643
GRACE_SECONDS = 30.0
IDLE_SECONDS = 3600.0
_ABOUT = """
The agent is not changed: set the base URL of its client to the proxy's. Its key passes through in the header where it
is, and is never recorded. By default a response is cut at its completion call, the loop ends after it, and runs that go
in circles or get nowhere are stopped. No run is stopped for its length or cost, unless a limit is set, or for a text,
after which the agent continues by its own rule. If following a run fails, the agent gets what the provider sent.
"""
_EXIT_CODES = {
    0: "stopped by SIGTERM; responses in progress got --grace seconds to end",
    2: "usage error, such as a port in use, an upstream that is not a URL, or no token for --host",
    130: "stopped by Ctrl-C; a second Ctrl-C exits at once",
}
_EXAMPLES = (
    (
        "Only watch: record runs, and say what would be done",
        "endstop proxy --upstream https://api.openai.com/v1 --dry-run --record records",
    ),
    (
        "Cut a run when its agent calls submit, and stop it after 40 steps",
        "endstop proxy --upstream https://api.anthropic.com --completion submit --max-steps 40",
    ),
    (
        "Give all agents together 20 dollars a day",
        "endstop proxy --upstream https://api.openai.com/v1 --budget cost_usd=20 --budget-store budgets.db",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "proxy",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
        variables=True,
    )
    parser.add_argument(
        "--upstream", required=True, metavar="URL", help="the URL of the provider, as in https://api.openai.com/v1"
    )
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", metavar="H", help="the address to listen on (default 127.0.0.1)")
    server.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"the port to listen on (default {PORT}; 0: any free port)"
    )
    server.add_argument(
        "--tokens",
        metavar="FILE",
        help="a file of tokens, with a line OWNER:TOKEN for each, which agents send as x-endstop-token",
    )
    add_allowed_hosts(server)
    server.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="also pass on requests of pages of this origin, for the provider to answer; repeatable",
    )
    server.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help=f"seconds that responses in progress get to end when the proxy stops (default {GRACE_SECONDS:g})",
    )
    add_log_format(server)
    stopping = parser.add_argument_group("when to stop")
    stopping.add_argument(
        "--completion",
        action="append",
        default=[],
        metavar="NAME",
        help="a tool that completes the task; repeatable (default: tools with the usual names, such as finish_task)",
    )
    stopping.add_argument(
        "--offer-completion",
        action="store_true",
        help="offer a completion tool to agents that have tools but none to complete the task; its call becomes their "
        "final message",
    )
    stopping.add_argument(
        "--policy",
        default="agent",
        metavar="P",
        help="chat, agent (default), strict, each without its limit of steps, or a TOML file",
    )
    stopping.add_argument(
        "--on-stop",
        choices=("error", "text"),
        default="error",
        help="how to stop a run that is not complete: an error that clients do not retry (default), or a marked text",
    )
    stopping.add_argument(
        "--max-steps",
        type=int,
        metavar="N",
        help="end a run after N steps with closing words of its model, without tools (default: no limit)",
    )
    for option, whose in (("--budget", "all agents together"), ("--key-budget", "each provider's key")):
        stopping.add_argument(
            option,
            action="append",
            default=[],
            metavar="NAME=AMOUNT",
            help=f"what {whose} may use in a day: cost_usd, input_tokens or output_tokens; repeatable",
        )
    stopping.add_argument(
        "--budget-store",
        metavar="FILE",
        help="keep the budgets in this file, for all proxies that name it, and beyond their end (default: in memory)",
    )
    stopping.add_argument(
        "--no-upstream-streaming",
        action="store_false",
        dest="stream_upstream",
        help="ask the provider for a stream only where the agent does; a response that does not stream is never cut",
    )
    stopping.add_argument("--dry-run", action="store_true", help="change nothing: record, and say what would be done")
    stopping.add_argument(
        "--idle",
        type=float,
        default=IDLE_SECONDS,
        metavar="S",
        help=f"seconds after which a run without requests has ended (default {IDLE_SECONDS:g})",
    )
    add_until(parser, proxy=True)
    parser.add_argument_group("tools").add_argument(
        "--workspace", metavar="DIR", help="the folder in which the agent works, for --until (default: this folder)"
    )
    records = parser.add_argument_group("records and spans")
    records.add_argument(
        "--record", metavar="DIR", help="write a record of each run to this folder, in one for each day (2026-11-30)"
    )
    records.add_argument(
        "--keep-days",
        type=int,
        metavar="N",
        help="delete the records in folders of days to which nothing was written for N days (default: keep all)",
    )
    records.add_argument(
        "--trace",
        action="store_true",
        help="emit an OpenTelemetry span for each request and run, to where OTEL_* variables say",
    )
    add_redaction(records, "the records")


def command(args: argparse.Namespace) -> int:
    """Serve until a signal and return the exit code. Raises WrongUse."""
    server, flush = build_server(args)
    try:
        return run_to_end(server.serve(), new_event_loop())
    finally:
        flush()


def build_server(args: argparse.Namespace) -> tuple[ProxyServer, Callable[[], None]]:
    """Return the server that these arguments ask for, and a function that sends its last spans. Raises WrongUse."""
    from ..proxy.day_budgets import DayBudgets, parse_limits
    from ..proxy.proxy import ProxyOptions
    from ..proxy.proxy_server import ProxyServer, RunFollowers, UpstreamPrices, parse_upstream

    _check(args)
    workspace = os.path.realpath(args.workspace or ".")
    until = build_until(args, workspace)
    if until is not None:
        until.verify(())
    upstream = parse_upstream(args.upstream)
    prices = UpstreamPrices(upstream)
    limits = parse_limits("--budget", args.budget), parse_limits("--key-budget", args.key_budget)
    store = _budget_store(args, any(limits))
    tracer, flush = _tracer(upstream) if args.trace else (None, lambda: None)
    server = ProxyServer(
        options=ProxyOptions(
            upstream=upstream,
            on_stop=args.on_stop,
            dry_run=args.dry_run,
            completion=tuple(args.completion),
            offer_completion=args.offer_completion,
            stream_upstream=args.stream_upstream,
            idle_seconds=args.idle,
            hosts=allowed_hosts(args),
            origins=tuple(args.cors),
        ),
        followers=RunFollowers(
            policy=_policy(args) if until is None else replace(policy_for_until(_policy(args)), question="as_text"),
            until=until,
            workspace=workspace,
            prices=prices,
            completion=tuple(args.completion),
            folder=_folder(args.record),
            redact=build_redaction(args),
        ),
        host=args.host,
        port=args.port,
        tokens=Tokens.from_environment() if args.tokens is None else Tokens.from_file(args.tokens),
        budgets=DayBudgets(*limits, prices, store=store) if any(limits) else None,
        tracer=tracer,
        grace=args.grace,
        keep_days=args.keep_days,
        log_format=args.log_format,
    )
    return server, flush


def _policy(args: argparse.Namespace) -> Policy:
    policy = with_limits(load_policy(args.policy, closing=True), args.max_steps, closing=True)
    if policy.completion == "required" and not (args.completion or args.offer_completion):
        raise WrongUse(f"--policy {args.policy} requires a completion tool: name the agent's with --completion NAME")
    return policy


def _tracer(upstream: str) -> tuple[Any, Callable[[], None]]:
    """Return the tracer of requests and runs, and a function that sends the last spans. Raises WrongUse."""
    from ..observers.otel.spans import environment_provider
    from ..proxy.proxy_tracer import ProxyTracer

    provider, flush = environment_provider("--trace")
    return ProxyTracer(upstream, provider), flush


def _budget_store(args: argparse.Namespace, budgets: bool) -> Any:
    """Return the store of budgets; None for one in memory. Raises WrongUse if it cannot be opened."""
    from ..proxy.budget_store import BudgetStore

    if args.budget_store is None:
        return None
    if not budgets:
        raise WrongUse("--budget-store keeps budgets, and there are none: give --budget or --key-budget")
    with closing(BudgetStore(Path(args.budget_store))) as store:  # it opens itself again for the first request
        store.open()
    return store


def _folder(name: str | None) -> Path | None:
    """Create and return the folder of the records. Raises WrongUse if it cannot be created."""
    if name is None:
        return None
    try:
        Path(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"--record {name} cannot be made a folder: {error.strerror}") from None
    return Path(name)


def _check(args: argparse.Namespace) -> None:
    if not 0 <= args.port <= 65535:
        raise WrongUse(f"--port is {args.port}: use 0 to 65535")
    for origin in args.cors:
        if not is_origin(origin):
            raise WrongUse(f"--cors {origin!r} is not an origin: write scheme and host, as in http://localhost:3000")
    if args.keep_days is not None and args.keep_days < 1:
        raise WrongUse(f"--keep-days is {args.keep_days}: use 1 or more")
    if args.keep_days is not None and args.record is None:
        raise WrongUse("--keep-days is about records: give their folder with --record DIR")
    for name in ("grace", "idle"):
        if not getattr(args, name) >= 0:
            raise WrongUse(f"--{name} is {getattr(args, name):g}: use 0 or more")
