"""One recorded session under other policies: its runs' findings as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..decision import Event, Policy, Verdict
from ..decision.backtest import Backtested, Finding, Parting, backtest
from ..decision.summary import Point, RunDigest


class SessionFinding(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one policy makes of one session."""

    parting: Parting
    """How the first run compares with the record that does not end the same."""
    run: int = 0
    """That run's number, from 1; 0 if all are the same."""
    step: int | None = None
    """Its step after which the two part."""
    why: str = ""
    """What the policy says there."""
    rule: str = ""
    stop_reason: str = ""
    """Why it would stop; if it diverges, supposing that the model goes on as recorded."""
    saved: Point | None = None
    """What the record used beyond this policy's stops, up to where nothing is known; None if nothing is known."""
    unknown_from: int | None = None
    """The run from which on all is unknown; None if all is known."""
    least_saved_steps: int = 0
    """Steps beyond the policy's hard limit, and those of `saved`: saved whatever the model would have done."""
    supposed_steps: int = 0
    """Steps that it would save if nothing that it says changed what the model does: a supposition."""
    cut: bool = False
    """A run would have ended before its work was reported as done."""
    goes_on: bool = False
    """A run would have gone on after its work was reported as done."""


class SessionTested(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One session, and what each policy makes of it."""

    session_id: str
    model: str = ""
    policy: str = ""
    """The name of the recorded one; of the last run, if it changed."""
    runs: int = 0
    used: Point = Point()
    """By all its runs."""
    stop_reason: str = ""
    """Of its last run; empty if that has no end."""
    verdict: Verdict = "not_run"
    """Of the last run that was evaluated."""
    prompt: str = ""
    findings: tuple[SessionFinding, ...] = ()
    """In the order of the policies."""
    damaged: int = 0
    """Lines of the record that could not be read."""
    lost: int = 0
    """Events that are missing in the middle of runs."""


def session_tested(events: Iterable[Event], policies: Sequence[Policy]) -> SessionTested:
    """Test a session's runs. Raises WrongUse if a policy names a rule that nobody brought."""
    runs = list(backtest(events, policies))
    digests = [run.digest for run in runs]
    used = sum((digest.used for digest in digests), Point())
    return SessionTested(
        session_id=digests[0].session_id if digests else "",
        model=digests[-1].model if digests else "",
        policy=digests[-1].policy if digests else "",
        runs=len(runs),
        used=used,
        stop_reason=digests[-1].stop_reason if digests else "",
        verdict=_verdict(digests),
        prompt=digests[0].prompt if digests else "",
        findings=tuple(_session_finding(runs, number) for number in range(len(policies))),
    )


def _verdict(digests: Sequence[RunDigest]) -> Verdict:
    return next((digest.verdict for digest in reversed(digests) if digest.verdict != "not_run"), "not_run")


def _session_finding(runs: Sequence[Backtested], policy: int) -> SessionFinding:
    """The runs' findings as one.

    After a run that would have ended before its work was reported as done the user would have read something else, so
    what comes after it is unknown, as it is after a run that diverges.
    """
    first: tuple[int, Finding] | None = None
    saved, least, unknown_from = Point(), 0, None
    cut = goes_on = False
    for number, run in enumerate(runs, 1):
        finding = run.findings[policy]
        if first is None and finding.parting != "same":
            first = number, finding
        least += finding.least_saved_steps
        if finding.saved is None:
            unknown_from = number
            break
        saved = saved + finding.saved
        cut, goes_on = cut or finding.cut, goes_on or finding.goes_on
        if finding.cut:
            unknown_from = number + 1 if number < len(runs) else None
            break
    number, finding = first or (0, Finding(parting="same"))
    return SessionFinding(
        parting=finding.parting,
        run=number,
        step=finding.step,
        why=finding.why,
        rule=finding.rule,
        stop_reason=finding.stop_reason,
        saved=None if unknown_from == 1 else saved,
        unknown_from=unknown_from,
        least_saved_steps=least,
        supposed_steps=sum(_supposed(run, policy) for run in runs),
        cut=cut,
        goes_on=goes_on,
    )


def _supposed(run: Backtested, policy: int) -> int:
    stops = run.findings[policy].stops
    return 0 if stops is None else run.digest.end.steps - stops.steps
