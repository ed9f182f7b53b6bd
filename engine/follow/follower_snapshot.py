"""State of a `Follower` between two steps, as data, so that another process follows the session further.

A snapshot is as large after the first step as after the ten-thousandth (some 50 KB as JSON), and to go on from it costs
the same. Without one, `snapshot_of_record` reads the state from the record, in time linear in its length.
"""

from __future__ import annotations

from os import PathLike

import msgspec
from msgspec import Struct

from ..decision import Decision, Facts, GoOn, Policy, StepJudge, fold
from ..decision import events as ev
from ..decision.facts import add_usage, usage_of
from ..decision.step_history import StepHistory
from ..decision.transcript import adds_message
from ..records.scan import Scan
from .made_calls import MadeCalls, StepCalls


class FollowerSnapshot(Struct, frozen=True, kw_only=True):
    """State of a follower between two steps. It holds for the version of endstop that made it, and no other."""

    session_id: str
    policy: str
    """The policy of the run, which a follower with another policy ends: as JSON, since reading it takes longer than all
    the rest, and a follower with the same one need not."""
    facts: Facts = Facts()
    """Facts of the latest run; empty before the first one."""
    history: StepHistory = StepHistory()
    before: ev.Carried = ev.Carried()
    """Usage of the session's runs before the latest one."""
    seq: int = 0
    """Number of the latest event of the run."""
    t: int = 0
    """Milliseconds since the run began."""
    at: float = 0.0
    """When that was, in seconds since 1970; 0 if it is not known."""
    finished: bool = True
    """Whether the latest run has ended, or there is none."""
    decision: Decision | None = None
    """The latest decision."""
    decided: int = -1
    """Number of steps of the run when it was made."""
    nudged: bool = False
    """Whether the next step begins a round."""
    said: str = ""
    """Text that the latest decision asked the loop to say."""
    unasked: bool = False
    """Whether the loop went on without asking before the user's latest message."""
    recent: tuple[StepCalls, ...] = ()
    """The calls of the latest steps."""
    messages: int = 0
    """Number of messages in the loop's history."""
    context: tuple[int, int] = (0, 0)
    """Tokens in the loop's context by the provider's last count, and characters added since."""


def policy_text(policy: Policy) -> str:
    """Return a policy as it stands in a snapshot."""
    return msgspec.json.encode(policy).decode()


def read_policy(text: str) -> Policy:
    """Return the policy in a snapshot."""
    return msgspec.json.decode(text, type=Policy)


def snapshot_of_record(record: str | PathLike[str], session_id: str, policy: Policy) -> FollowerSnapshot:
    """Return the state after the record of a session, for a follower with this policy.

    A run whose record ends in the middle of a step, or before its decision was carried out, because its process was
    killed, counts as ended: the loop goes on with another one. Raises WrongUse if the record cannot be read, or holds
    no run.
    """
    replay = _Replay()
    for event in Scan(record, parts=True):
        if type(event) is ev.RunStarted and event.session_id != session_id:
            replay = _Replay()
        replay.feed(event)
    return replay.snapshot(session_id, policy)


class _Replay:
    """The events of a session's runs, folded."""

    def __init__(self) -> None:
        self.judge = StepJudge()
        self.facts = Facts()
        self.before = ev.Carried()
        self.recent = MadeCalls()
        self.messages = 0
        self.decision: Decision | None = None
        self.decided = -1
        self.nudged = self.in_step = False
        self.finished = True
        self.last: ev.Event | None = None
        self.policy: Policy | None = None

    def feed(self, event: ev.Event) -> None:
        """Take the next event."""
        match event:
            case ev.RunStarted():
                self._begin_run(event)
            case ev.StepStarted():
                self.in_step, self.nudged = True, False
            case ev.StepFinished():
                self.in_step = False
                self.recent.add(self.facts.steps, self.facts.open_calls)
            case ev.DecisionMade(decision=decision):
                self.decision, self.decided = decision, self.facts.steps
                self.nudged = isinstance(decision, GoOn)
            case ev.RunFinished():
                self.finished = True
            case _:
                pass
        self.facts = fold(self.facts, self.judge.feed(self.facts, event))
        self.messages += adds_message(event)
        self.last = event

    def _begin_run(self, event: ev.RunStarted) -> None:
        if self.facts.run_id and event.continues is None:
            self.before = add_usage(self.before, usage_of(self.facts))
        self.facts, self.recent, self.policy = Facts(), MadeCalls(), event.policy
        self.decision, self.decided, self.nudged = None, -1, True
        self.finished = self.in_step = False

    def snapshot(self, session_id: str, policy: Policy) -> FollowerSnapshot:
        cut_off = self.in_step or not (self.decision is None or isinstance(self.decision, GoOn))
        assert self.last is not None
        return FollowerSnapshot(
            session_id=session_id,
            policy=policy_text(self.policy or policy),
            facts=self.facts,
            history=self.judge.history,
            before=self.before,
            seq=self.last.seq,
            t=self.last.t,
            finished=self.finished or cut_off,
            decision=self.decision,
            decided=self.decided,
            nudged=self.nudged,
            recent=self.recent.steps,
            messages=self.messages,
            context=(self.facts.context_tokens, 0),
        )
