"""`endstop backtest`: test other policies on recorded sessions, without a model."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import join
from typing import IO, Any

import msgspec

from ..analysis.backtest import CheckedSession, NamedPolicy, SessionCase, backtest_index, backtest_records, parse_sweep
from ..analysis.published_policies import BY_NAME, PUBLISHED, guards_alone
from ..decision import POLICIES, WrongUse
from ..decision.errors import did_you_mean
from ..process.streams import StdStreams
from ..records.files import find_records
from .commands import add_command
from .factory import load_fitted_policy, load_policy, load_policy_of_runs
from .options import add_indexed_records, add_labels, read_labels
from .output_file import check_page, write_page
from .views.backtest import render_backtest, render_checks
from .views.backtest_page import backtest_page
from .views.counted_sessions import CountedSessions
from .views.tables import indexed, print_parts, progress, warn_of_unmatched
from .views.text import counted
from .views.view_links import ViewLinks

_ABOUT = """
Each policy decides at every step of every record. Only what is certain counts as saved. For a session whose course is
unknown, a command is printed that goes on from there with a model (see `endstop run --fork`). Without --policy, the
three built-in policies are tested.

`--against published` puts the stop rules of other projects next to yours, each as a policy: opencode, gemini-cli,
cline, openhands and more (docs/reference/published_rules.md). Each of their names can also be given to --policy.

`--until` looks for the checks in the records instead, tests that the agent itself ran: when one passed after the last
change of the work, what came after, and where `until` would have ended each session.
"""
_LISTS = {
    "how a session can differ": {
        "same": "it would have ended at the same step",
        "earlier": "it would have ended before; what the record used after that step is saved",
        "later": "it would have continued past the recorded end; how far is unknown",
        "diverges": "the policy would have sent the model a message that is not in the record; what follows is unknown",
        "refused": "the policy does not work with the tools that were offered",
    }
}
_EXIT_CODES = {0: "done", 2: "usage error, or no record could be read"}
_EXAMPLES = (
    ("Test a policy on all records of a folder", "endstop backtest records/ --policy strict"),
    (
        "Compare your own policy with a built-in one",
        "endstop backtest records/ --policy mine.toml --against agent",
    ),
    (
        "Try a setting at several values, and draw the curve",
        "endstop backtest records/ --sweep limits.steps=5:40:5 --html sweep.html",
    ),
    (
        "Compare with the stop rules of other projects",
        "endstop backtest records/ --policy mine.toml --against published",
    ),
    ("See how many steps came after the tests had passed", "endstop backtest records/ --until"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "backtest",
        command,
        about=_ABOUT,
        lists=_LISTS,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    policies = parser.add_argument_group("policies")
    reading, output = add_indexed_records(parser)
    policies.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="P",
        help="the policy to test: chat, agent, strict, a TOML file, or a published rule; repeatable",
    )
    policies.add_argument(
        "--against", metavar="Q", help="also compare the policies with this one; `published`: with the rules of others"
    )
    policies.add_argument(
        "--sweep",
        metavar="SETTING=A:B:STEP",
        help="test the policy (default agent) with each of these values of one setting; or SETTING=V,V,V",
    )
    policies.add_argument(
        "--until",
        action="store_true",
        help="instead of testing policies, find the tests that the agents ran: when they passed, and what came after",
    )
    add_labels(reading, "in addition to what the records say")
    output.add_argument("--html", metavar="FILE", help="also write an HTML page, with the curve of a sweep")
    output.add_argument(
        "--each",
        metavar="FILE",
        help="also write one line of JSON for each session and policy; with --until, for each session",
    )


def command(args: argparse.Namespace) -> int:
    """Run the backtest and return the exit code. Raises WrongUse."""
    if args.until:
        return _find_checks(args)
    if args.against == _PUBLISHED:
        if args.sweep is not None:
            raise WrongUse("--sweep changes one policy, --against published tests many: give one of the two")
        swept, policies, against = None, _beside_published(args.policy), None
    else:
        swept, policies = _policies(args.policy, args.sweep)
        against = None if args.against is None else _load_named(args.against, _PUBLISHED)
    std_streams = StdStreams()
    paths = find_records(args.records)
    labels = read_labels(args)
    if args.html is not None:
        check_page(args.html, paths)
    every = [*policies, *([against] if against is not None else [])]
    counts = None if args.html is None else CountedSessions()
    with (
        indexed(args, lambda place: backtest_index(every, place)) as index,
        _open_each(args.each) as file,
        progress(args, "testing") as on_progress,
    ):

        def on_case(policy: str, case: SessionCase) -> None:
            if file is not None:
                _write_case(file, policy, case)
            if counts is not None:
                counts.add(policy, case)

        report = backtest_records(
            paths,
            policies,
            against=against,
            swept=swept,
            labels=labels,
            index=index,
            processes=args.processes,
            progress=on_progress,
            on_case=on_case,
            beside_published=args.against == _PUBLISHED,
        )
    if not report.sessions:
        raise WrongUse(f"none of {counted(len(report.bad), 'file')} can be read as a record: {report.bad[0].why}")
    warn_of_unmatched(report.labels, args.quiet)
    written = (
        ""
        if counts is None
        else write_page(args.html, backtest_page(report, counts, ViewLinks(records=join(args.records))))
    )
    if args.json:
        std_streams.write_answer(msgspec.json.encode(report).decode() + "\n")
    else:
        names = [*args.policy, args.against if args.against != _PUBLISHED else None]
        given = {_load_named(name).name: name for name in names if name}
        print_parts(std_streams, render_backtest(report, written, given))
    return 0


def _find_checks(args: argparse.Namespace) -> int:
    """Find the checks in the records and return the exit code. Raises WrongUse."""
    others = {"--policy": args.policy, "--against": args.against, "--sweep": args.sweep, "--html": args.html}
    for option, given in others.items():
        if given:
            raise WrongUse(f"--until tests no policies and writes no page: leave out {option}")
    std_streams = StdStreams()
    paths = find_records(args.records)
    labels = read_labels(args)
    with (
        indexed(args, lambda place: backtest_index([], place, find_checks=True)) as index,
        _open_each(args.each) as file,
        progress(args, "reading") as on_progress,
    ):
        report = backtest_records(
            paths,
            [],
            labels=labels,
            index=index,
            processes=args.processes,
            progress=on_progress,
            find_checks=True,
            on_checked=None if file is None else partial(_write_checks, file),
        )
    if not report.sessions:
        raise WrongUse(f"none of {counted(len(report.bad), 'file')} can be read as a record: {report.bad[0].why}")
    warn_of_unmatched(report.labels, args.quiet)
    if args.json:
        std_streams.write_answer(msgspec.json.encode(report).decode() + "\n")
    else:
        print_parts(std_streams, render_checks(report))
    return 0


@contextmanager
def _open_each(path: str | None) -> Iterator[IO[bytes] | None]:
    """Yield the file of `--each`, open for writing; None without one."""
    if path is None:
        yield None
        return
    try:
        with open(path, "wb") as file:
            yield file
    except OSError as error:
        raise WrongUse(f"--each {path}: {error.strerror}") from None


def _write_case(file: IO[bytes], policy: str, case: SessionCase) -> None:
    file.write(msgspec.json.encode({"policy": policy, **msgspec.to_builtins(case)}) + b"\n")


def _write_checks(file: IO[bytes], session: CheckedSession) -> None:
    file.write(msgspec.json.encode(session) + b"\n")


def _policies(names: Sequence[str], swept: str | None) -> tuple[str | None, list[NamedPolicy]]:
    if swept is None:
        return None, [_load_named(name) for name in names or POLICIES]
    if len(names) > 1:
        raise WrongUse("--sweep changes one policy: give --policy once")
    return parse_sweep(_load_named(names[0] if names else "agent").policy, swept)


_PUBLISHED = "published"


def _beside_published(names: Sequence[str]) -> list[NamedPolicy]:
    """Return the policies of these names, then the published ones.

    Raises WrongUse if a user's policy has the name of a published one.
    """
    own = [named for named in _own_policies(names) if named.name not in names or named.name not in BY_NAME]
    for named in own:
        if named.name in BY_NAME:
            raise WrongUse(f"the policy {named.name!r} has the name of a published rule: give it another `name`")
    return [*own, *(NamedPolicy(one.name, one.policy) for one in PUBLISHED)]


def _own_policies(names: Sequence[str]) -> list[NamedPolicy]:
    """Return the policies to compare with the published ones; by default `agent`, and its guards alone."""
    if names:
        return [_load_named(name) for name in names]
    agent = load_policy("agent", closing=True)
    return [NamedPolicy(policy.name, policy) for policy in (agent, guards_alone(agent, "agent's guards"))]


def _load_named(name: str, *more: str) -> NamedPolicy:
    """Return the policy of this name or file. more: other words that are valid here, for a suggestion."""
    if name in BY_NAME:
        return NamedPolicy(name, BY_NAME[name].policy)
    written = name.strip() and os.sep not in name and Path(name).suffix != ".toml"
    if written and name not in POLICIES and not Path(name).exists():
        raise WrongUse(
            f"{name!r} is neither a policy{did_you_mean(name, [*POLICIES, *BY_NAME, *more])} nor a TOML file"
        )
    policy, fitted = load_policy_of_runs(name), load_fitted_policy(name)[1]
    return NamedPolicy(policy.name, policy, fitted=fitted)
