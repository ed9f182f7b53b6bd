"""`endstop fit`: choose the thresholds of a policy on recorded sessions, with a guarantee about false stops."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

import msgspec

from ..analysis.fit import Fit, fit_index, fit_records
from ..analysis.fit_report import ANCHORS, FitOptions, FitReport, conditions, guarantee, settings_text
from ..analysis.labels import unmatched_warning
from ..decision import Policy, WrongUse
from ..decision.policy_files import FITTED_FORMAT, Fitted, fitted_policy_text
from ..process.streams import StdStreams
from ..records.files import find_records
from ..until_settings import UntilSettings
from .commands import add_command
from .factory import load_policy, load_until
from .options import add_indexed_records, add_labels, read_labels
from .output_file import check_page, write_page
from .views.fit import render_fit
from .views.fit_page import fit_page
from .views.tables import indexed, print_parts, progress
from .views.view_links import ViewLinks

_ABOUT = """
The sessions are split by task. One part orders policies from cautious to eager; the other tests them in that order and
stops at the first that cannot be shown to keep the bound. The last that passed is written, with what is guaranteed.
Good and bad come from --labels, or from the evaluations in the records.

Too early means that a good run loses steps: two or more before its recorded end (--anchor end, the default), or one
or more before the step in which it said that it was done (--anchor said) or last changed the work (--anchor changed);
--tolerance changes how many.
"""
_EXIT_CODES = {
    0: "fitted",
    1: "nothing could be guaranteed, and no policy is written",
    2: "usage error, or data that show nothing",
}
_EXAMPLES = (
    ("Fit a policy", "endstop fit records/ --labels results.json -o policy.toml"),
    (
        "Choose the bound and how sure it must be, and draw the curve",
        "endstop fit records/ --labels labels.csv --max-false-stops 5% --confidence 90% --html fit.html",
    ),
    (
        "Run an agent with the fitted policy",
        'endstop run "Fix the tests." --model anthropic/claude-sonnet-4-5 --workspace . --policy policy.toml',
    ),
)
NOT_SHOWN = 1
"""The exit code if no policy could be certified."""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "fit",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    guarantee = parser.add_argument_group("policy and guarantee")
    reading, output = add_indexed_records(parser)
    add_labels(reading, "in addition to what the records say")
    guarantee.add_argument(
        "--max-false-stops",
        default="1%",
        metavar="P",
        help="the share of tasks with a good run stopped too early, at most (default 1%%)",
    )
    guarantee.add_argument("--confidence", default="95%", metavar="P", help="how sure that must be (default 95%%)")
    output.add_argument("-o", "--output", metavar="FILE", help="write the policy to this TOML file")
    output.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    output.add_argument("--html", metavar="FILE", help="also write an HTML page, with the curve")
    guarantee.add_argument(
        "--base-policy", default="agent", metavar="P", help="the policy whose thresholds are moved (default agent)"
    )
    guarantee.add_argument("--anchor", choices=tuple(ANCHORS), default="end", help="up to where a good run is needed")
    guarantee.add_argument("--tolerance", type=int, metavar="N", help="steps before the anchor that may be lost")
    guarantee.add_argument(
        "--unit",
        choices=("task", "run"),
        default="task",
        help="what is independent: tasks (sessions with the same first prompt), or every run for itself",
    )
    reading.add_argument(
        "--choosing-share", metavar="P", help="the share of the data that chooses (default: 25%% or less)"
    )
    reading.add_argument("--seed", type=int, default=0, metavar="N", help="another seed splits the data differently")


def command(args: argparse.Namespace) -> int:
    """Fit, and return the exit code. Raises WrongUse."""
    options = _options(args)
    base = load_policy(args.base_policy, closing=True)
    labels = read_labels(args)
    paths = find_records(args.records)
    _check_output(args.output, args.force, paths)
    if args.html is not None:
        check_page(args.html, paths)
    std_streams = StdStreams()
    with progress(args, "simulating") as on_progress:
        fit = fit_records(
            paths,
            base,
            options,
            labels=labels,
            date=datetime.now(UTC).date().isoformat(),
            open_index=lambda policies: indexed(args, partial(fit_index, policies)),
            processes=args.processes,
            progress=on_progress,
        )
    _write(args, fit, load_until(args.base_policy), std_streams)
    return 0 if fit.policy is not None else NOT_SHOWN


def _write(args: argparse.Namespace, fit: Fit, until: UntilSettings | None, std_streams: StdStreams) -> None:
    """Write the policy and the page, and print the report."""
    written = []
    if args.output is not None and fit.policy is not None:
        written.append(_write_policy(args.output, fit.report, fit.policy, until))
    if args.html is not None:
        written.append(write_page(args.html, fit_page(fit.report, ViewLinks(records=join(args.records)))))
    if args.json:
        std_streams.write_answer(_as_json(fit.report, args.output if fit.policy is not None else None) + "\n")
        return
    warning = unmatched_warning(fit.report.labels) if fit.report.labels is not None else None
    print_parts(std_streams, render_fit(fit.report, written, warning))


def _as_json(report: FitReport, policy: str | None) -> str:
    """Return the report, with its sentences, as JSON. policy: the file that was written."""
    sentences = {"guarantee": guarantee(report), "conditions": list(conditions(report)), "policy": policy}
    return msgspec.json.encode({**sentences, **msgspec.to_builtins(report)}).decode()


# ---- options


def _options(args: argparse.Namespace) -> FitOptions:
    share = None if args.choosing_share is None else _share("--choosing-share", args.choosing_share)
    return FitOptions(
        bound=_share("--max-false-stops", args.max_false_stops),
        confidence=_share("--confidence", args.confidence),
        anchor=args.anchor,
        tolerance=args.tolerance,
        unit=args.unit,
        choosing_share=share,
        seed=args.seed,
    )


def _share(option: str, text: str) -> float:
    """Parse a share above 0 and below 1, given as `1%`, `1 %` or `0.01`."""
    number, percent = (text.strip().removesuffix("%"), "%" in text)
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        raise WrongUse(f"{option} {text}: write a share such as 1% or 0.01") from None
    if not 0 < share < 1:
        hint = f" (did you mean {number.strip()}%?)" if not percent and 1 <= share < 100 else ""
        raise WrongUse(f"{option} {text}: use more than 0 and less than 100 %{hint}")
    return round(share, 15)


# ---- the policy


def _check_output(output: str | None, force: bool, records: list[Path]) -> None:
    """Raise WrongUse if the policy cannot be written, before anything is computed."""
    if output is None:
        return
    path = Path(output)
    if path.is_dir():
        raise WrongUse(f"-o {output} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise WrongUse(f"-o {output}: there is no folder {path.parent}")
    if path.exists() and not force:
        raise WrongUse(f"-o {output} exists already: name another file, or overwrite it with --force")
    if path.exists() and any(path.samefile(record) for record in records):
        raise WrongUse(f"-o {output} is one of the records: name another file")


def _write_policy(output: str, report: FitReport, policy: Policy, until: UntilSettings | None) -> str:
    """Write the file; returns its place in words. Raises WrongUse if it cannot be written."""
    tables = {} if until is None else {"until": msgspec.to_builtins(until)}
    text = fitted_policy_text(policy, _fitted(report), _comment(report), tables)
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUse(f"cannot write {output}: {error.strerror or error}") from None
    return f"The policy is {output}"


def _fitted(report: FitReport) -> Fitted:
    options, rung = report.options, report.chosen
    assert rung is not None
    return Fitted(
        format=FITTED_FORMAT,
        version=report.version,
        date=report.date,
        guarantee=guarantee(report),
        max_false_stops=options.bound,
        confidence=options.confidence,
        upper_bound=report.upper_bound or 0.0,
        false_stops=rung.harmed,
        tested=report.testing.units,
        unit=options.unit,
        anchor=options.anchor,
        tolerance=options.steps_lost,
        sessions=report.sessions,
        good=report.choosing.good + report.testing.good,
        bad=report.choosing.bad + report.testing.bad,
        ids=report.ids,
        seed=options.seed,
        settings="",
        steps=report.steps,
    )


def _comment(report: FitReport) -> str:
    """Return the comment at the head of the file: what was fitted, and what is guaranteed."""
    rung = report.chosen
    assert rung is not None
    return "\n".join(
        [
            f"Fitted by endstop {report.version} on {report.date}, from {report.base!r}:",
            f"  {settings_text(rung.settings)}",
            "",
            guarantee(report),
            *conditions(report),
        ]
    )
