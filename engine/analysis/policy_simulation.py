"""Simulation of what another policy would have decided at each step of a recorded run, without calling a model.

The events hold everything on which a policy bases its decisions, so it can be evaluated again. They do not hold what
another decision would have led to: from the first point where the policy sends the model something that is not in the
record, or continues past the recorded end, the rest is unknown, and the finding says so. `Finding.stops` is where it
would have stopped if the model had continued as recorded anyway; that is hypothetical and never counted as a saving.

Assumption: the model's responses do not depend on which completion and question tools the policy offers, nor on
anything else that is not sent to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..decision import events as ev
from ..decision.decide import applies_before_first_step, decide, go_on_in_round, needs_closing_step
from ..decision.decisions import Decision, GoOn, Pause, Stop, made_by_policy
from ..decision.degeneration import find_repetition_in_message
from ..decision.facts import Facts
from ..decision.fold import fold
from ..decision.guards import may_stop_after_next_step
from ..decision.limit_usage import extension, limit_statuses
from ..decision.limits import STOP_REASONS
from ..decision.messages import AssistantMessage
from ..decision.policy import Policy
from ..decision.rules import Rule
from ..decision.run_origin import is_foreign
from ..decision.step_judge import StepJudge
from ..decision.transcript import estimate_tokens
from .recent_calls import fold_calls
from .recorded_checks import CHECK_EVENTS, CheckFinder, RunChecks
from .summary import SUMMARY_EVENTS, ResourceUse, RunSummary, SummaryBuilder

Parting = Literal["same", "earlier", "later", "diverges", "refused"]
"""How a policy's run compares with the record.

same: ends at the same step. earlier: ends before the record does. later: continues past the recorded end.
diverges: sends the model something else. refused: cannot start with the tools that were offered.
"""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one policy's run compares with one recorded run."""

    parting: Parting
    step: int | None = None
    """The step after which the two differ; None if they are the same."""
    why: str = ""
    """The difference, as text."""
    stops: ResourceUse | None = None
    """Usage when the policy stops. Hypothetical if `parting` is `diverges`: it assumes that the model continues as
    recorded."""
    stop_reason: str = ""
    """The policy's stop reason at `stops`."""
    rule: str = ""
    """The rule or guard that stopped it."""
    saved: ResourceUse | None = None
    """Recorded usage after that stop, without the request of a closing step; None if it is unknown."""
    least_saved_steps: int = 0
    """Number of recorded steps beyond the policy's hard limit: saved whatever the model would have done."""
    cut: bool = False
    """True if the policy ends before the step in which the work was reported as done."""
    before_change: bool = False
    """True if the policy's stop (`stops`) precedes the step of the last change of the work, so that the run would have
    ended with less work. Hypothetical if `stops` is."""
    premature: bool = False
    """True if the policy's stop (`stops`) precedes the point at which the work was done: its last change; if nothing
    was changed, the model's claim to be done; if there is neither, the end of the run. Hypothetical if `stops` is. It
    is a false stop if the run was good."""
    goes_on: bool = False
    """True if the policy continues after the step in which the work was reported as done."""
    at: int | None = None
    """For `diverges` and `later`: number of the last recorded decision before the two differ, from which a fork under
    the policy would continue (`Session.fork`). None if there is none, or the run was imported."""


class BacktestResult(Struct, frozen=True, kw_only=True):
    """One recorded run with a finding for each policy, in the order in which the policies were given."""

    digest: RunSummary
    findings: tuple[Finding, ...]
    steps: Mapping[str, int]
    """Number of steps by what they brought (`StepKind`), including those of a copied beginning."""
    checks: RunChecks = RunChecks()
    """The checks in the record, if they were asked for."""


def backtest(
    events: Iterable[ev.Event],
    policies: Sequence[Policy],
    user_rules: tuple[Rule, ...] = (),
    *,
    find_checks: bool = False,
) -> Iterator[BacktestResult]:
    """Yield a result for each run in the events of one record, under each of the policies.

    Stream parts may be left out of the events. `user_rules` are the user's own rules and guards that the policies name;
    if one of them uses `recent`, the latest calls are remembered for it (`recent_calls`). find_checks: whether to find
    the checks in the record, too. Raises WrongUse if a policy names a rule or guard that is neither built in nor among
    them.
    """
    fold_event = fold_calls if any("recent" in rule.sees for rule in user_rules) else fold
    facts, judge = Facts(), StepJudge()
    builder: SummaryBuilder | None = None
    checks: CheckFinder | None = None
    simulations: list[PolicySimulation] = []
    steps: Counter[str] = Counter()
    for event in events:
        if isinstance(event, ev.RunStarted):
            if builder is not None:
                yield _backtested(builder, facts, simulations, steps, checks)
            judge.feed(facts, event)
            facts = fold_event(Facts(), event)
            builder, steps = SummaryBuilder(event, facts), Counter()
            checks = CheckFinder(event, builder.judge) if find_checks else None
            simulations = [PolicySimulation(policy, event, facts, user_rules) for policy in policies]
        elif builder is not None:
            if type(event) is ev.StepFinished and event.judged is None:
                event = judge.feed(facts, event)  # written by an older version
            facts = fold_event(facts, event)
            if type(event) is ev.StepFinished:
                steps[facts.brought] += 1
            if type(event) in _RELEVANT_EVENTS:
                builder.feed(event, facts)
                if checks is not None:
                    checks.feed(event, facts)
                for simulation in simulations:
                    simulation.feed(event, facts)
    if builder is not None:
        yield _backtested(builder, facts, simulations, steps, checks)


def _backtested(
    builder: SummaryBuilder,
    facts: Facts,
    simulations: Iterable[PolicySimulation],
    steps: Mapping[str, int],
    checks: CheckFinder | None,
) -> BacktestResult:
    digest = builder.build(facts)
    if digest.is_copy:
        return BacktestResult(digest=digest, findings=(_NOTHING_OF_ITS_OWN,) * len(tuple(simulations)), steps=steps)
    findings = tuple(simulation.finding(digest) for simulation in simulations)
    found = RunChecks() if checks is None else checks.build(facts)
    return BacktestResult(digest=digest, findings=findings, steps=steps, checks=found)


_NOTHING_OF_ITS_OWN = Finding(parting="same", saved=ResourceUse())
"""Finding for a run that a fork copied: it is tested where it was copied from."""


class PolicySimulation:
    """Simulates another policy along one recorded run. Feed it each event with the facts after it.

    Rounds, steps of a round, reminders and grants are counted as the simulated policy makes them; everything else comes
    from the recorded facts. A fork is simulated from the decision on that it made again.
    """

    def __init__(self, policy: Policy, started: ev.RunStarted, facts: Facts, user_rules: tuple[Rule, ...] = ()) -> None:
        self._policy = policy
        self._started = started
        self._copying = started.origin is not None
        self._recorded = started.policy
        self._decide = partial(decide, user_rules=user_rules, traced=False)
        self._has_user_rules = any(rule.name in (*policy.rules, *policy.guards) for rule in user_rules)
        self._completion_tools = frozenset(tool.name for tool in started.tools if tool.kind == "completion")
        self._imported = ev.is_imported(started.engine)
        self._foreign = is_foreign(started.engine)
        self._hook_roles = frozenset(role for role, names in started.functions.items() if names)
        self._facts = facts
        self._pending: Facts | None = facts if facts.before != ev.Carried() or facts.steps else None
        """The facts by which the simulated policy decides, as soon as the next event shows what the recorded run did.
        None if there is nothing to decide."""
        self._deciding = True
        """Whether events still update `_pending`: the recorded run has not made its decision yet."""
        self._at_start = True
        self._rounds, self._inner, self._reminded = facts.rounds, 0, facts.reminded
        self._grants = facts.grants
        self._recorded_prompts: list[str] = []
        """Nudges and reminders that the record sent to the model since the last decision."""
        self._recorded_compaction = False
        self._new_round = False
        self._opens_round = True
        self._gates_ran = False
        self._has_calls_beside_completion = False
        self._cut_point: str | None = None  # the step's first completion call that could be final: cut there, if at all
        self._divergence: tuple[int, str] | None = None
        self._latest_decision: int | None = None
        self._decision_before_step: int | None = None
        self._before_step = facts
        self._differs_at: int | None = None
        """Number of the last decision before the divergence."""
        self._continues_past_end = False
        self._stopped: tuple[ResourceUse, Decision] | None = None
        alike = policy.degeneration == started.policy.degeneration
        self._degeneration = None if alike else policy.degeneration
        """The simulated policy's settings for cutting repetitive responses; None if they equal the recorded ones."""
        self._same_limits = _limits_within_step(policy) == _limits_within_step(started.policy)
        """Whether the limits that can end a step in progress are the recorded ones."""
        self._used_up = ""
        """Name of the simulated policy's limit that the latest response used up; empty if none."""
        self._cannot_start = policy.completion == "required" and not self._completion_tools

    def feed(self, event: ev.Event, facts: Facts) -> None:
        """Add one event, with the facts after it."""
        if self._copying and not ev.is_copied(event, self._started):
            self._begin_fork()
        self._facts = facts
        if self._copying:
            return
        change = _CHANGES.get(type(event))
        if change is not None and self._stopped is None:
            change(self, event)

    def _begin_fork(self) -> None:
        """Decide as the fork did, by the facts after the copied events."""
        facts, self._copying = self._facts, False
        self._rounds, self._inner, self._reminded = facts.rounds, facts.inner_steps, facts.reminded
        self._grants = facts.grants
        self._at_start = not facts.attempt
        self._opens_round = self._at_start
        self._pending, self._deciding = facts, False
        self._gates_ran = True  # gates are not asked about a copied text

    @property
    def stopped(self) -> Decision | None:
        """The decision by which the policy has ended the run by now; None if the run continues.

        It is made once an event shows what the recorded run did: that its next step began, or that it ended.
        """
        return None if self._stopped is None else self._stopped[1]

    def finding(self, digest: RunSummary) -> Finding:
        """Return the finding for the run that `digest` summarises."""
        stops, decision = self._stopped or (None, None)
        parting, step, why = self._compare_with_record(digest, stops, decision)
        if parting == "refused":
            return Finding(parting=parting, step=step, why=why)
        saved: ResourceUse | None = None
        if parting == "same":
            saved = ResourceUse()
        elif parting == "earlier" and stops is not None:
            saved = digest.end.since(stops)
            saved = replace(saved, requests=saved.requests - self._closes(decision))
        done = digest.done.steps if digest.done is not None else None
        good_end = digest.end.steps if done is None and digest.status == "completed" else done
        ends = stops.steps if stops is not None else digest.end.steps
        return Finding(
            parting=parting,
            step=step,
            why=why,
            stops=stops,
            stop_reason=_stop_reason(decision),
            rule=decision.rule if decision is not None else "",
            saved=saved,
            least_saved_steps=saved.steps if saved is not None else self._steps_beyond_limit(digest),
            cut=parting == "earlier" and good_end is not None and ends < good_end,
            before_change=stops is not None and digest.changed is not None and stops.steps < digest.changed.steps,
            premature=stops is not None and stops.steps < _work_done(digest),
            goes_on=done is not None and ends > done,
            at=self._fork_at(parting),
        )

    def _fork_at(self, parting: Parting) -> int | None:
        if ev.is_imported(self._started.engine):
            return None
        return {"diverges": self._differs_at, "later": self._latest_decision}.get(parting)

    def _compare_with_record(
        self, digest: RunSummary, stops: ResourceUse | None, decision: Decision | None
    ) -> tuple[Parting, int | None, str]:
        """Return how the policy's run compares with the record, the step after which they differ, and the reason."""
        if self._cannot_start:
            return "refused", 0, "it needs a completion tool, and none was offered"
        if self._divergence is not None:
            return "diverges", *self._divergence
        if self._continues_past_end:
            return "later", digest.end.steps, "it would go on past the recorded end"
        if stops is not None and stops.steps < digest.end.steps:
            return "earlier", stops.steps, str(decision)
        return "same", None, ""

    def _steps_beyond_limit(self, digest: RunSummary) -> int:
        """Return the number of recorded steps that the policy's hard limit rules out, whatever the model does."""
        if "step_limit" not in self._policy.guards or self._policy.limits.asks:
            return 0
        return int(max(0, digest.end.steps - self._policy.limits.most_steps))

    def _closes(self, decision: Decision | None) -> bool:
        return isinstance(decision, Stop) and needs_closing_step(self._facts, self._policy, decision)

    # ---- what the record did

    def _run_event(self, event: ev.Event) -> None:
        """Update the facts for the decision with an event between the end of a step and the decision about it."""
        if self._deciding and (self._pending is not None or self._at_start):
            self._pending = self._facts

    def _user_said(self, event: ev.QuestionAnswered | ev.LimitExtended) -> None:
        """Apply what the user granted or refused before the first decision, under any policy."""
        if self._deciding and self._at_start:
            self._grants = self._facts.grants
            self._run_event(event)

    def _verdict(self, event: ev.VerdictGiven) -> None:
        self._gates_ran = self._gates_ran or event.role == "gate"
        self._run_event(event)

    def _decided(self, event: ev.DecisionMade) -> None:
        self._deciding = False
        if made_by_policy(event.decision):
            self._latest_decision = event.seq

    def _message(self, event: ev.MessageAdded) -> None:
        if event.origin in ("nudge", "reminder"):
            self._recorded_prompts.append(event.text)
        elif event.origin == "next_step" and self._policy.prompts.next_step != self._recorded.prompts.next_step:
            self._diverge("it does not add that prompt for the next step")

    def _compact(self, event: ev.ContextCompacted) -> None:
        self._recorded_compaction = not self._foreign  # a foreign loop's compaction is not a choice of the policy

    def _round(self, event: ev.RoundStarted) -> None:
        self._new_round = True
        prompt = self._policy.prompts.next_step
        if self._facts.rounds == 1 and prompt and prompt != self._recorded.prompts.next_step:
            self._diverge("it would add its prompt for the next step")

    def _resumed(self, event: ev.RunResumed) -> None:
        if event.interrupted_step is not None:
            self._inner = max(0, self._inner - 1)

    def _step(self, event: ev.StepStarted) -> None:
        self._ask(went_on=not event.closing)
        self._decision_before_step, self._before_step = self._latest_decision, self._facts
        if self._opens_round:
            self._rounds, self._inner, self._opens_round = self._rounds + 1, 0, False
        self._inner += 1
        self._gates_ran = self._has_calls_beside_completion = False
        self._cut_point = None
        self._used_up = ""

    def _attempt(self, event: ev.AttemptStarted) -> None:
        self._cut_point = None

    def _call_whole(self, event: ev.ToolCallEnd) -> None:
        if event.may_end and self._cut_point is None:
            self._cut_point = event.call_id

    def _failed(self, event: ev.AttemptFailed) -> None:
        if (
            self._cut_point is not None
            and _cuts_stream(self._policy)
            and not _cuts_stream(self._recorded)
            and not event.beside
        ):
            self._diverge("it would have cut the response at its completion call")
        if event.kind == "degenerate" and self._degeneration is not None:
            self._diverge("it would judge otherwise of the response that was cut because it repeated itself")
        if event.after_output and event.usage is not None and not event.beside and not self._same_limits:
            self._used_up = self._used_up or self._used_up_by(event.usage.output_tokens, unreported=0)

    def _response(self, event: ev.ResponseFinished) -> None:
        if self._degeneration is not None:
            repeated = find_repetition_in_message(event.message, self._degeneration)
            if repeated is not None:
                self._diverge(f"it would have cut the response: {repeated}")
        if not self._same_limits:
            written = estimate_tokens(_count_bytes(event.message))
            unreported = max(0, written - event.usage.output_tokens)
            self._used_up = self._used_up or self._used_up_by(written, unreported)
            if event.cut_for:
                self._diverge("the response was cut off at a limit, and its own are others")
        calls = event.message.calls
        completing = sum(call.name in self._completion_tools for call in calls)
        if self._imported and self._cut_point is None:  # an import does not say which call could be final
            self._cut_point = next((call.id for call in calls if call.name in self._completion_tools), None)
        if completing and self._policy.completion == "none" != self._recorded.completion:
            self._diverge("the model called a completion tool, and it offers none")
        self._has_calls_beside_completion = 0 < completing < len(calls)

    def _used_up_by(self, written: int, unreported: int) -> str:
        """Return the limit that would have cut off a response with this number of tokens; empty if none.

        unreported: tokens of these that the provider has not reported, so that no usage counts them.
        """
        if self._policy.response_tokens is not None and written > self._policy.response_tokens:
            return "response_tokens"
        for spent in limit_statuses(self._facts, self._policy, _LIMITS_WITHIN_STEP):
            if not spent.use.soft and STOP_REASONS[spent.limit] in self._policy.guards:
                more = unreported if spent.limit == "output_tokens" else 0
                if spent.use.used + more >= spent.use.allowed:
                    return spent.limit
        return ""

    def _diverge_if_used_up(self, step: int) -> None:
        if self._used_up:
            self._diverge(f"it would have cut the response off, since {self._used_up} were used up in it", step)

    def _limit_reached(self, event: ev.LimitReached) -> None:
        if not self._same_limits:
            self._diverge(f"the step was cut off, since {event.limit} were used up, and its limits are others")

    def _rejected(self, event: ev.CompletionRejected) -> None:
        if event.by == "failed_call" and not self._policy.reject_after_failure:
            self._diverge("it would not hand the completion back because of a failed call")

    def _accepted(self, event: ev.CompletionAccepted) -> None:
        failed = self._facts.failed or self._facts.invalid
        if failed and self._policy.reject_after_failure and not self._recorded.reject_after_failure:
            self._diverge("it would hand the completion back, since a call before it failed")
        self._run_event(event)

    def _step_finished(self, event: ev.StepFinished) -> None:
        if self._facts.closing:
            return
        now, then = self._policy, self._recorded
        alike = (now.mixed, now.inner_cancel) == (then.mixed, then.inner_cancel)
        if not alike and (difference := self._difference_in_calls()):
            self._diverge(difference)
        self._pending, self._deciding, self._at_start = self._facts, True, False
        self._recorded_prompts, self._recorded_compaction, self._new_round = [], False, False

    def _difference_in_calls(self) -> str | None:
        """Return how the policy would have handled the step's calls differently because of a completion, if at all."""
        accepted = self._facts.accepted
        if self._cut_point is not None and _cuts_stream(self._policy) != _cuts_stream(self._recorded):
            if _cuts_stream(self._recorded):
                return "it would have read the response on after its completion call"
            if accepted != self._cut_point:
                return "it would have cut the response at its completion call"
        if self._has_calls_beside_completion and (accepted is None or self._recorded.mixed == "none"):
            return "it chooses otherwise which calls run beside a completion"
        return None

    def _finished(self, event: ev.RunFinished) -> None:
        # A cancellation from outside would also have ended this run.
        self._ask(went_on=False, ended_outside=event.outcome.status == "cancelled")

    # ---- asking

    def _ask(self, *, went_on: bool, ended_outside: bool = False) -> None:
        """Let the simulated policy decide at a point where the recorded run decided, and note where the two differ.

        went_on: the recorded run made another step. ended_outside: it was cancelled from outside at this point, so a
        policy that would continue does not differ.
        """
        pending, self._pending = self._pending, None
        if pending is None or self._cannot_start:
            return
        counted = {"rounds": self._rounds, "inner_steps": self._inner, "reminded": self._reminded}
        facts = replace(pending, **counted, grants=self._grants)
        decision = self._decision(facts)
        if isinstance(decision, GoOn) and decision.extend:
            self._grants = fold(facts, extension(decision.extend, facts, self._policy)).grants
        if decision is not None and not isinstance(decision, GoOn):
            self._stop(decision, facts)
        elif ended_outside:
            return
        elif not went_on:
            self._continues_past_end = self._divergence is None
        else:
            self._compare(decision, facts.steps)

    def _decision(self, facts: Facts) -> Decision | None:
        """Return the engine's decision under this policy; None if the inner loop continues without one."""
        if self._at_start:
            decision = self._decide(facts, self._policy)
            return decision if applies_before_first_step(decision) else None
        if go_on_in_round(facts, self._policy, self._decide) is not None:
            return None
        decision = self._decide(facts, self._policy)
        if "judge" in self._hook_roles and isinstance(decision, GoOn) and not self._new_round:
            self._diverge("its judge would be asked here, and was not", facts.steps, before_step=True)
        self._opens_round = True
        return decision

    def _stop(self, decision: Decision, facts: Facts) -> None:
        if not self._stops_alike_if_cut_off(decision):
            self._diverge_if_used_up(facts.steps)
        if isinstance(decision, Pause) and not self._facts.questions:  # those of the record, at its end
            self._diverge("it would ask the user whether to go on", facts.steps)
        by_text = isinstance(decision, Stop) and decision.reason == "text_final"
        if by_text and "gate" in self._hook_roles and not self._gates_ran:
            self._diverge("its gates would be asked about this text, and were not", facts.steps, before_step=True)
        self._stopped = ResourceUse.of(facts), decision

    def _stops_alike_if_cut_off(self, decision: Decision) -> bool:
        """Return whether the run would stop here for the same reason with any part of the latest response.

        A limit stops it here in any case. But what is evaluated before limits could see a part in which, for instance,
        all calls are invalid although those of the whole response are not.
        """
        if _stop_reason(decision) not in ("step_limit", STOP_REASONS.get(self._used_up)):
            return False
        asks_others = self._has_user_rules or "judge" in self._hook_roles
        return not asks_others and not may_stop_after_next_step(self._before_step, self._policy)

    def _compare(self, decision: GoOn | None, step: int) -> None:
        """Note a divergence if both runs continue, but only one compacts or they send the model different texts."""
        self._diverge_if_used_up(step)
        wanted = [words for words in (decision.say, decision.remind) if words] if decision is not None else []
        compacts = decision is not None and decision.compact
        if decision is not None and decision.topics:
            self._reminded = (*self._reminded, *decision.topics)
        if compacts != self._recorded_compaction or (compacts and self._policy.compaction != self._recorded.compaction):
            self._diverge(
                "it would compact the context" if compacts else "it would not compact the context as then", step
            )
        elif wanted != self._recorded_prompts:
            self._diverge(_describe_difference(wanted, self._recorded_prompts), step)

    def _diverge(self, why: str, step: int | None = None, *, before_step: bool = False) -> None:
        """Note the first divergence, after which everything is unknown; `step` is by default the current one.

        before_step: the step itself would have gone differently, although that shows only after it.
        """
        if self._divergence is None:
            self._differs_at = self._decision_before_step if before_step else self._latest_decision
            self._divergence = self._facts.steps if step is None else step, why


def _work_done(digest: RunSummary) -> int:
    """Return the step with the last change of the work; without any, the step that reported it as done, or the end."""
    return (digest.changed or digest.said or digest.end).steps


def _describe_difference(wanted: Sequence[str], said: Sequence[str]) -> str:
    if not wanted:
        return f"it would not say: {said[0]}"
    return f"it would say: {next((words for words in wanted if words not in said), wanted[0])}"


_LIMITS_WITHIN_STEP = ("output_tokens", "cost_usd", "seconds")
"""Limits that are enforced within a step."""


def _limits_within_step(policy: Policy) -> tuple[object, ...]:
    """Return all settings by which a policy ends a step in progress."""
    limits = [getattr(group, name) for group in (policy.limits, policy.session_limits) for name in _LIMITS_WITHIN_STEP]
    guards = [STOP_REASONS[name] in policy.guards for name in _LIMITS_WITHIN_STEP]
    return (*limits, *guards, policy.response_tokens)


def _count_bytes(message: AssistantMessage) -> int:
    """Return the bytes of UTF-8 that the engine counts of a response while it streams."""
    texts = [message.text, *(block.text for block in message.reasoning)]
    texts += [text for call in message.calls for text in (call.name, call.arguments)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _cuts_stream(policy: Policy) -> bool:
    """Return whether a response is cut at its completion call under this policy."""
    return policy.inner_cancel and policy.mixed != "all"


def _stop_reason(decision: Decision | None) -> str:
    if decision is None:
        return ""
    return decision.reason if isinstance(decision, Stop) else "awaiting_input"


_CHANGES: dict[type, Callable[[PolicySimulation, Any], None]] = {
    ev.RunResumed: PolicySimulation._resumed,
    ev.VerdictGiven: PolicySimulation._verdict,
    ev.BudgetRefused: PolicySimulation._run_event,
    ev.QuestionAnswered: PolicySimulation._user_said,
    ev.LimitExtended: PolicySimulation._user_said,
    ev.ToolCallResult: PolicySimulation._run_event,
    ev.DecisionMade: PolicySimulation._decided,
    ev.MessageAdded: PolicySimulation._message,
    ev.ContextCompacted: PolicySimulation._compact,
    ev.RoundStarted: PolicySimulation._round,
    ev.StepStarted: PolicySimulation._step,
    ev.AttemptStarted: PolicySimulation._attempt,
    ev.ToolCallEnd: PolicySimulation._call_whole,
    ev.AttemptFailed: PolicySimulation._failed,
    ev.ResponseFinished: PolicySimulation._response,
    ev.LimitReached: PolicySimulation._limit_reached,
    ev.CompletionRejected: PolicySimulation._rejected,
    ev.CompletionAccepted: PolicySimulation._accepted,
    ev.StepFinished: PolicySimulation._step_finished,
    ev.RunFinished: PolicySimulation._finished,
}
SIMULATION_EVENTS = frozenset(_CHANGES)
"""Event types that a simulation looks at."""
_RELEVANT_EVENTS = SUMMARY_EVENTS | SIMULATION_EVENTS | CHECK_EVENTS
