"""Decisions for another loop: the same rules, facts and records as in the engine, as an object.

    follower = Follower(policy, completion=("finish_task",), record="run.jsonl")
    follower.prompt("Set the port to 8080")
    decision = follower.step(text, calls, results)     # after each step of the loop; a Stop says why to leave it
    cut = follower.chunk(delta)                        # while a response streams; a Cut says to leave the stream

The loop reports what happened, and asks for decisions. No method waits or sends anything, and each costs the same at
any length of the session. Reports become events, events become facts, and `decide` sees nothing else, so the record
can be replayed, reported and backtested like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from ..analysis.foreign_loops import ends_without_calls, without_shipped_limit
from ..base.ids import new_run_id, new_session_id
from ..base.version import __version__
from ..decision import (
    AnyChunk,
    AssistantMessage,
    Decision,
    Event,
    Facts,
    FinishReason,
    GoOn,
    Image,
    Message,
    Outcome,
    Pause,
    Policy,
    Reasoning,
    Rule,
    Stop,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
    WrongUse,
    decide,
    fold,
)
from ..decision import events as ev
from ..decision.cost import Price, with_cost
from ..decision.decide import applies_before_first_step, go_on_in_round, needs_closing_step
from ..decision.decisions import FOLLOWED
from ..decision.facts import add_usage, usage_of
from ..decision.limit_usage import extension
from ..decision.outcome import STATUS_OF
from ..decision.policy import shipped_policy
from ..decision.rules import rejection_message
from ..decision.run_origin import FOLLOW_PREFIX
from ..decision.step_history import StepHistory
from ..decision.transcript import UNANSWERED, adds_message, message_size
from ..decision.wrong_calls import checked
from ..event_log import Log
from ..formats.imported_session import ImportOptions
from ..formats.run_events import PREPARED, RunStarts, write_outcome
from ..providers.clock import Clock, SystemClock
from ..providers.prices import Prices
from ..providers.surrogate_pairs import whole_characters, with_whole_characters
from ..records.format import Redact
from ..records.scan import Scan
from ..tools.function_roles import check_functions
from .followed_response import Cut
from .followed_step import ContextSize, FollowedStep
from .follower_record import FollowerRecord
from .follower_snapshot import FollowerSnapshot, policy_text, read_policy
from .made_calls import MadeCalls

if TYPE_CHECKING:
    from ..analysis.policy_simulation import PolicySimulation
    from ..check_answers import Impossible, Met, NotMet
    from ..records.known_secrets import KnownSecrets

MOST_TEXTS = 30
"""Number of consecutive steps without a call after which a loop is stuck that has no limit on steps and is told what to
say, because that alone could keep it going forever."""


@checked
class Follower:
    """Follower of the sessions of one loop, one run after another. Not safe for use by several threads at once.

    policy: a policy, or the name of a shipped one. Another loop decides itself how long it works, what its texts mean
        and when its context is compacted: a limit on steps that the user has not set is left out, and so is the rule
        `compaction`.
    completion, question: names of the tools that complete the task, or ask the user. If `completion` is empty, tools
        with the usual names (`finish_task`, `submit`, ...) in `tools` count as such.
    tools: the tools that the loop offers its model, if known.
    speaks: whether the loop adds the texts of decisions to its messages. If it cannot, nothing is nudged or reminded,
        and no such texts are recorded.
    closes: whether the loop asks its model for closing words when a limit ends a run (see `closing`).
    model, system: for the record, and for prices.
    record: the file to write, or to append to. redact: applied to each text before it is written.
    session_id: a unique id of your own. Without one, a follower continues the session of an existing `record`. If
        the record is of this session, the runs in it already count for the limits of the session.
    agent: the loop's name, for the record.
    on_event: called with each event, in order. It must neither wait nor raise.
    watch: a policy that only watches. If it would have stopped a run as stuck or over a limit and the loop goes on,
        ALARM_RAISED is recorded, once per run.
    snapshot: the state to go on from (`snapshot()` of another process), instead of reading the record. A run under
        another policy ends. The ids of calls have to be unique in the session, which is not looked up then.
    on_record_loss: called with the error when the record cannot be written, once for each run that is not in it to its
        end; each run tries again, and makes the folder if that is gone. If None, a warning is logged instead.

    Raises WrongUse if the policy is not known, or, without `on_record_loss`, the record cannot be written.
    """

    def __init__(
        self,
        policy: Policy | str = Policy(),  # noqa: B008
        *,
        completion: Sequence[str] = (),
        question: Sequence[str] = (),
        tools: Sequence[ToolSpec] = (),
        speaks: bool = True,
        closes: bool = False,
        model: str = "",
        system: str = "",
        record: str | PathLike[str] | None = None,
        redact: Redact | None = None,
        session_id: str | None = None,
        agent: str = "",
        rules: Sequence[Rule] = (),
        prices: Prices | None = None,
        clock: Clock | None = None,
        on_event: Callable[[Event], None] | None = None,
        watch: Policy | str | None = None,
        snapshot: FollowerSnapshot | None = None,
        on_record_loss: Callable[[Exception], None] | None = None,
    ) -> None:
        check_functions(
            redact=redact, on_event=on_event, on_record_loss=on_record_loss, rules=tuple(rule.judge for rule in rules)
        )
        self.policy = followed_policy(policy, speaks=speaks, closes=closes)
        self._watch = None if watch is None else followed_policy(watch, speaks=False)
        self._watching: PolicySimulation | None = None
        """State of the watching policy in the current run, until it has raised an alarm."""
        self.speaks = speaks
        self.model, self.system = model, system
        """Model and system prompt with which the next run is recorded."""
        self.decision: Decision | None = None
        """The latest decision."""
        self.outcome: Outcome | None = None
        """Outcome of the latest run that has ended."""
        self.recent = MadeCalls()
        """The calls of the latest steps of the current run."""
        self.closing: Stop | None = None
        """The limit that has ended the run, if the model is still to be asked for its closing words, with
        `policy.prompts.closing` and without calls. The next response is taken as these words; after it, or without it,
        call `end`."""
        self._options = ImportOptions(completion=tuple(completion), question=tuple(question))
        self._rules = tuple(rules)
        self._prices = prices or Prices()
        self._price: dict[str, Price | None] = {}
        self._clock = clock or SystemClock()
        self._agent = agent
        self._on_event = on_event
        self._tools: dict[str, ToolSpec] = {}
        self.offer(tools)
        self.session_id = session_id or (new_session_id() if snapshot is None else snapshot.session_id)
        self._recording = (
            None if record is None else FollowerRecord(record, self.session_id, self._clock, redact, on_record_loss)
        )
        before, self._taken = ev.Carried(), set[str]()
        continued = None if self._recording is None else self._recording.continued
        if snapshot is None and record is not None and continued is not None and session_id in (None, continued):
            self.session_id = continued
            before, self._taken = _earlier_runs(record, continued)
        self._starts = RunStarts(before)
        self._log: Log | None = None
        self._messages = 0
        """Number of messages in the loop's history."""
        self._size = ContextSize()
        self._size.add(len(system))
        self._step: FollowedStep | None = None
        self._nudged = False
        """Whether the next step begins a round, because the loop said something or returned a completion."""
        self._said = ""
        """Text that the latest decision asked the loop to say; it is already in the record."""
        self._early: list[ToolResult] = []
        """Results of calls that ran while their response was streaming, before the loop reported any of it."""
        self._answers: list[ToolResult] = []
        """The user's answers to the questions of the step that `preview` has ended."""
        self._asked: dict[str, str] = {}
        """Tools that asked the user and have no answer yet, by the ids of their calls."""
        self._decided = -1
        """Number of steps of the run when the latest decision was made."""
        self._unasked = False
        """Whether the loop went on without asking before the user's latest message although the policy would not
        have."""
        if snapshot is not None:
            self._restore(snapshot)

    def _restore(self, snapshot: FollowerSnapshot) -> None:
        """Go on where a snapshot was taken."""
        log: Log | None = None
        if snapshot.facts.run_id:
            log = self._log = Log(self._clock, _no_transcript, (self._take,))
            since = self._clock.wall().timestamp() - snapshot.at if snapshot.at else 0.0
            log.continue_from(
                snapshot.facts,
                snapshot.history,
                None,
                seq=snapshot.seq,
                t=snapshot.t + round(max(0.0, since) * 1000),
                finished=snapshot.finished,
            )
        self._starts = RunStarts(snapshot.before, log)
        self.decision, self._decided = snapshot.decision, snapshot.decided
        self._nudged, self._said, self._unasked = snapshot.nudged, snapshot.said, snapshot.unasked
        self.recent.restore(snapshot.recent)
        self._messages, self._size = snapshot.messages, ContextSize(*snapshot.context)
        if self.running and policy_text(self.policy) != snapshot.policy:
            policy, self.policy = self.policy, read_policy(snapshot.policy)
            self.end()
            self.policy = policy

    def snapshot(self) -> FollowerSnapshot:
        """Return the state after the latest step, which ends here if it was not decided on.

        What only this process knows is not in it: the closing words that are waited for, the questions that are open,
        a policy that watches, and the calls of earlier steps by id.
        """
        self._end_step()
        self._flush()
        log = self._log
        return FollowerSnapshot(
            session_id=self.session_id,
            policy=policy_text(self.policy),
            facts=self.facts,
            history=StepHistory() if log is None else log.history,
            before=self._starts.before,
            seq=0 if log is None else log.seq,
            t=0 if log is None else max(self.facts.t, round(log.elapsed * 1000)),
            at=self._clock.wall().timestamp(),
            finished=not self.running,
            decision=self.decision,
            decided=self._decided,
            nudged=self._nudged,
            said=self._said,
            unasked=self._unasked,
            recent=self.recent.steps,
            messages=self._messages,
            context=self._size.parts,
        )

    @property
    def record(self) -> Path | None:
        """The file that is being written; None without a record, or while it cannot be written."""
        recording = self._recording
        return None if recording is None or recording.lost else recording.path

    @property
    def facts(self) -> Facts:
        """The facts of the current run; empty facts before the first one."""
        return Facts() if self._log is None else self._log.facts

    @property
    def log(self) -> Log:
        """The log of the current run; a run without a prompt begins if there is none."""
        return self._running_log()

    @property
    def running(self) -> bool:
        """Whether a run has begun and no decision has ended it."""
        return self._log is not None and not self._log.finished and self.closing is None

    def hide(self, known: KnownSecrets) -> None:
        """Hide known secrets, such as keys, in the record: in texts before `redact`, and in names.

        Call this before anything is reported.
        """
        if self._recording is not None:
            self._recording.hide(known)

    def offer(self, tools: Iterable[ToolSpec]) -> None:
        """Set the tools that the loop offers its model, from the next run on."""
        specs = {spec.name: spec for spec in tools}
        for name in (*self._options.completion, *self._options.question):
            specs.setdefault(name, ToolSpec(name=name, description="", parameters={"type": "object"}))
        self._tools = {name: self._with_kind(spec) for name, spec in specs.items()}

    @property
    def failure(self) -> ev.AttemptFailed | None:
        """The latest failed attempt of the current step; None if there is none."""
        return None if self._step is None else self._step.failure

    @property
    def in_step(self) -> bool:
        """Whether a step is being made."""
        return self._step is not None

    @property
    def claim(self) -> ToolCall | None:
        """The call of the current step that completes the task, unless it is rejected; None without one."""
        return None if self._step is None else self._step.claim

    # ---- reports of the loop

    def prompt(self, text: str, images: Sequence[Image] = ()) -> None:
        """Report a prompt of the user, which begins a run.

        While calls have results to process, it is one more message of the current run.
        """
        if self.running and not self._in_the_middle():
            self.end()
        if self.running:
            self._end_step()
            self._unasked = self._goes_on_unasked()
            self._add_message(text, "user")
        else:
            self._begin(text, images)

    def said(self, text: str) -> None:
        """Report a text that the loop itself added in the user's role to keep the model going: a nudge, not a prompt.

        Beside results of calls, with which the model goes on anyway, it is a note and no decision of the loop. A text
        that `Decision.say` asked for is already recorded, and is not recorded again.
        """
        if text == self._said:
            self._said = ""
            return
        if self.closing is not None:
            self.end()
        log = self._running_log()
        self._end_step()
        if self._in_the_middle():
            self._add_message(text, "nudge")
            return
        log.append(ev.DecisionMade(round=log.facts.rounds, decision=_own_words(text)))
        self._leave_unanswered()
        self._add_message(text, "nudge")
        self._nudged = True

    def compacted(self, put_first: Sequence[Message], kept: int = 0) -> None:
        """Report that the loop has replaced earlier messages of its history. The step ends.

        put_first: what stands in their place. kept: number of latest messages that were kept.
        """
        self._end_step()
        log, before = self._running_log(), self._size.tokens
        self._size.restart(sum(map(message_size, put_first)))
        log.append(
            ev.ContextCompacted(
                strategy="summarise" if put_first else "drop_oldest",
                before_tokens=before,
                after_tokens=self._size.tokens,
                dropped=max(0, self._messages - kept),
                put_first=tuple(put_first),
            )
        )
        self._messages = len(put_first) + min(self._messages, kept)

    def requested(self, tokens: int) -> None:
        """Report that the next request has at least this many input tokens, including tools and images.

        For responses without reported usage.
        """
        self._size.at_least = tokens

    def chunk(self, delta: AnyChunk, *, cuts: bool = True) -> Cut | None:
        """Report a piece of a streaming response. Return why to leave the stream, or None to read on.

        cuts: whether the loop would leave it. Use False for a response that is read to its end anyway.
        """
        return self._current_step().stream(cuts=cuts).feed(delta)

    def response(
        self,
        text: str = "",
        calls: Sequence[ToolCall] = (),
        *,
        reasoning: Sequence[Reasoning] = (),
        usage: Usage | None = None,
        finish: FinishReason | None = None,
        raw_finish: str = "",
        model: str = "",
        cut_for: str = "",
    ) -> ev.ResponseFinished | None:
        """Report that the response of a step is complete or was cut.

        Pieces given to `chunk` count; without any, `text` and `calls` do. usage: as the provider reported it; estimated
        at 4 characters per token if None. raw_finish: the provider's finish word. cut_for: why the loop left the stream
        by itself, and runs none of its calls (`ResponseFinished.cut_for`). Returns the response as recorded; None if it
        was cut because it repeats itself.
        """
        message = AssistantMessage(text, tuple(calls), tuple(reasoning))
        finished = self._current_step().respond(message, usage, finish, raw_finish, model, cut_for)
        self._flush()
        return finished

    def failed(self, message: str, *, kind: str = "connection", status: int | None = None) -> None:
        """Report that the request of this step failed. If the loop tries again, the next response is of the same step.

        kind: one of `providers.errors.KINDS`. status: the HTTP status.
        """
        self._current_step().fail(kind, whole_characters(message), status, "")

    def result(self, result: ToolResult) -> None:
        """Report the result of a call of this step, or of a streaming response. Only the first result of a call counts.

        A result of a call that no response made is left out.
        """
        if not result.content.isascii():
            result = with_whole_characters(result)
        if self._step is not None and self._step.takes(result):
            self._step.add_result(result)
        else:
            self._early.append(result)

    def step(
        self,
        text: str = "",
        calls: Sequence[ToolCall] = (),
        results: Sequence[ToolResult] = (),
        *,
        reasoning: Sequence[Reasoning] = (),
        usage: Usage | None = None,
        finish: FinishReason | None = None,
        raw_finish: str = "",
        model: str = "",
    ) -> Decision:
        """Report a whole step: `response`, its results, and the decision. Return the decision."""
        self.response(text, calls, reasoning=reasoning, usage=usage, finish=finish, raw_finish=raw_finish, model=model)
        for result in results:
            self.result(result)
        return self.decide()

    def messages(self, messages: Iterable[Message]) -> None:
        """Report what the loop's history contains in addition, in order: earlier prompts, responses and results.

        For a session that began before it was followed, or a loop that only shows its history.
        """
        for message in messages:
            match message:
                case UserMessage(text, images):
                    self.prompt(text, images)
                case AssistantMessage():
                    self._current_step().respond(message, None, None, "", "")
                case ToolResult():
                    self.result(message)
                case _:
                    self.system = message.text

    # ---- questions of the loop

    def decide(self) -> Decision:
        """End the step, and decide what follows. Calls without a result count as lost, a completion as accepted.

        After a GoOn, the loop adds `say` to its messages and `remind` to its next request; the text of `say` is already
        in the record. After a Stop or a Pause the run has ended, and what follows begins another run.

        Whether a response without calls ends the loop is the loop's own rule. If the policy would end a run of ours
        with it, the run ends in the record (`running`, `outcome`), and the loop is told that it may go on or end.
        """
        log = self._running_log()
        answers, self._answers = self._end_step() or self._answers, []
        if self.decision is not None and self._decided == log.facts.steps:
            return self.decision
        if log.facts.steps == 0:
            return self._decide_before_first_step()
        self._decided = log.facts.steps
        bare = self._go_on_in_round(log.facts)
        if bare is not None:
            self.decision = bare
            return bare
        decision = decide(log.facts, self.policy, self._rules)
        if isinstance(decision, Pause) and answers:
            return self._go_on_after_answers(decision, answers)
        is_loops_own = ends_without_calls(log.facts, decision)
        self._act_on(decision)
        if is_loops_own:
            decision = self.decision = _left_to_the_loop()
        return decision

    def preview(self) -> Decision:
        """End the step, and return the decision that `decide` would make. Nothing is decided, and the run goes on."""
        log = self._running_log()
        self._answers = self._end_step() or self._answers
        return self._go_on_in_round(log.facts) or self._decide_untraced(log.facts, self.policy)

    def checked(self, answer: Met | NotMet | Impossible | bool, name: str = "check") -> Decision:
        """Report what a check says of the work as it is now, and return the decision, as `decide` does.

        A Stop of `until_met` or `blocked` follows if the policy has the rule `until` (`policy_for_until`). name: of the
        check.
        """
        from ..check_answers import answer_of

        log, step = self._running_log(), self.facts.steps
        log.append(ev.CheckStarted(step=step, place="step", name=name))
        log.append(ev.CheckEnded(step=step, place="step", **asdict(answer_of(answer, name))))
        self._decided = -1
        return self.decide()

    def reject(self, reason: str, by: str, claim: ToolCall | None = None) -> Decision:
        """Report that a response does not end the loop, and return the decision.

        After a GoOn, the loop adds `rejection_message(reason)` to its messages. claim: the completion call that is not
        accepted (`claim`), after whose result it is added; None if a response without calls does not end the loop.
        """
        log = self._running_log()
        if claim is not None and self._step is not None:
            self._step.reject(claim, reason, by, rejection_message(reason))
            return self.decide()
        log.append(ev.CompletionRejected(call_id="", name="", reason=reason, by=by))
        decision = self.decide()
        if isinstance(decision, GoOn) and not self.speaks:
            self._add_message(rejection_message(reason), "nudge")
        return decision

    def end(self, decision: Stop | None = None) -> Outcome | None:
        """Report that the loop ended by itself or for `decision`. Return the outcome of this or the previous run.

        Without a decision, use the policy's if it ends the run, and otherwise one inferred from the last response.
        """
        log = self._log
        if log is None or log.finished:
            return self.outcome
        self._end_step()
        ends: Decision | None
        ends, self.closing = self.closing, None
        if ends is None:
            own = None if decision is None else replace(decision, rule=FOLLOWED)
            ends = own or decide(log.facts, self.policy, self._rules)
            if isinstance(ends, GoOn):
                from ..formats.reconstruction import infer_ending

                seen = infer_ending(log.facts, user_speaks=False)
                ends = Stop(rule=FOLLOWED, reason=seen.reason, detail=seen.detail, status=seen.status)
            self._record(ends)
        return self._finish(ends)

    def rest(self) -> None:
        """Close the record's file until there is more to write. For programs that follow thousands of sessions."""
        if self._recording is not None:
            self._recording.rest()

    def close(self) -> None:
        """End the current run, if there is one, and close the record."""
        try:
            self.end()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Leave the record as it is, without an end. Nothing more is followed, as after an error in following."""
        if self._recording is not None:
            self._recording.close()
            self._recording = None

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ---- runs

    def _begin(self, prompt: str | None, images: Sequence[Image] = (), *, answered: bool = False) -> Log:
        if self.policy.completion == "required" and not any(t.kind == "completion" for t in self._tools.values()):
            raise WrongUse(
                f"policy {self.policy.name!r} requires a completion tool, and none is known: name it, as in "
                "Follower(policy, completion=('finish_task',))"
            )
        if self.closing is not None:
            self.end()
        price = self._price_of(self.model)
        log = self._log = Log(self._clock, _no_transcript, (self._take,))
        self._watching = None
        self._asked.clear()
        self.recent = MadeCalls()
        started = self._starts.write(
            log,
            ev.RunStarted(
                run_id=new_run_id(),
                session_id=self.session_id,
                prompt=prompt,
                images=tuple(images),
                system=self.system,
                model=self.model,
                policy=self.policy,
                tools=tuple(self._tools.values()),
                prices={} if price is None else {self.model: price},
                started_at=self._clock.wall().isoformat(timespec="milliseconds"),
                engine=f"{FOLLOW_PREFIX}{self._agent or 'loop'} {__version__}",
            ),
            answered=answered,
        )
        if self._watch is not None:
            from ..analysis.policy_simulation import PolicySimulation

            self._watching = PolicySimulation(self._watch, started, log.facts, self._rules)
        if not answered:
            log.append(PREPARED)
        self._size.add(len(prompt or ""))
        self._nudged, self._unasked, self._decided = True, False, -1
        return log

    def _running_log(self) -> Log:
        """Return the log of the current run, or of a new one without a prompt if there is none."""
        return self._log if self._log is not None and not self._log.finished else self._begin(None)

    def _act_on(self, decision: Decision) -> Decision:
        self._record(decision)
        if isinstance(decision, GoOn):
            if decision.extend:
                self._running_log().append(extension(decision.extend, self.facts, self.policy))
            self._leave_unanswered()
            self._say(decision)
        elif isinstance(decision, Stop) and needs_closing_step(self.facts, self.policy, decision):
            self.closing = decision
        else:
            self._finish(decision)
        self._flush()
        return decision

    def _leave_unanswered(self) -> None:
        """Answer the open questions in the current run: only if the policy leaves out the rule that pauses."""
        for id, name in self._asked.items():
            result = ev.ToolCallResult(call_id=id, name=name, content=UNANSWERED, status="unanswered")
            self._running_log().append(result)
        self._asked.clear()

    def _record(self, decision: Decision) -> None:
        log = self._running_log()
        log.append(ev.DecisionMade(round=log.facts.rounds, decision=decision))
        self.decision = decision

    def _finish(self, decision: Stop | Pause) -> Outcome:
        self.outcome = write_outcome(self._running_log(), self.policy, decision)
        self._flush()
        return self.outcome

    def _say(self, decision: GoOn) -> None:
        self._nudged = True
        if not self.speaks:
            return
        self._said = decision.say
        if decision.say:
            self._add_message(decision.say, "nudge")
        if decision.remind:
            self._running_log().append(
                ev.MessageAdded(text=decision.remind, origin="reminder", ephemeral=True, topics=decision.topics)
            )

    def _go_on_after_answers(self, pause: Pause, answers: Sequence[ToolResult]) -> Decision:
        """End the run as a pause, and begin the one that continues it, because the loop asked the user itself."""
        self._act_on(pause)
        log = self._begin(None, answered=True)
        for answer in answers:
            log.append(ev.QuestionAnswered(call_id=answer.call_id, text=answer.content))
        log.append(PREPARED)
        return self._decide_before_first_step()

    def _decide_before_first_step(self) -> Decision:
        """Return the decision before the first step of a run. Earlier runs may have used up a limit of the session."""
        log = self._running_log()
        self._decided = log.facts.steps
        decision = decide(log.facts, self.policy, self._rules)
        if applies_before_first_step(decision):
            return self._act_on(decision)
        self.decision = GoOn(rule=decision.rule, why="the run begins")
        return self.decision

    # ---- steps

    def _current_step(self) -> FollowedStep:
        """Return the step that is being made, or a new one if the latest has its response."""
        if self._step is not None and self._step.settled:
            self._end_step()
        if self._step is None and self.closing is not None and self.facts.closing:
            self.end()  # the closing words have arrived
        if self._step is None:
            log, closing = self._running_log(), self.closing is not None
            if closing:
                log.append(ev.MessageAdded(text=self.policy.prompts.closing, origin="closing", ephemeral=True))
            else:
                if self._unasked or self._goes_on_unasked():
                    log.append(ev.DecisionMade(round=log.facts.rounds, decision=_WENT_ON))
                    self._leave_unanswered()
                    self._nudged = True
                if self._nudged:
                    log.append(ev.RoundStarted(round=log.facts.rounds + 1))
            self._nudged, self._unasked, self._said = False, False, ""
            self._step = FollowedStep(
                log, self.policy, self._tools, self._taken, self._size, self.model, self.with_price, closing=closing
            )
            for result in self._early:
                self._step.add_result(result)
            self._early.clear()
            self._raise_alarm(log)
        return self._step

    def _goes_on_unasked(self) -> bool:
        """Return whether the loop makes its next step without asking where a run of ours would have been decided."""
        facts = self.facts
        if self._decided == facts.steps:
            return False
        if facts.steps == 0:
            return facts.before != ev.Carried() and applies_before_first_step(self._decide_untraced(facts, self.policy))
        return not self._nudged and self._go_on_in_round(facts) is None

    def _go_on_in_round(self, facts: Facts) -> GoOn | None:
        """Return the decision that continues the round with the next step; None if it does not, or the run may end."""
        if facts.finish is None:  # without a response, a round of the engine ends, too
            return None
        return go_on_in_round(facts, self.policy, self._decide_untraced)

    def _raise_alarm(self, log: Log) -> None:
        """Record that the watching policy would have ended the run before the step that has just begun."""
        decision = None if self._watching is None else self._watching.stopped
        if not isinstance(decision, Stop) or STATUS_OF.get(decision.reason) != "exhausted":
            return
        assert self._watch is not None
        self._watching, step = None, log.facts.steps - 1
        rule, reason, detail = decision.rule, decision.reason, decision.detail
        log.append(ev.AlarmRaised(policy=self._watch.name, rule=rule, reason=reason, detail=detail, step=step))

    def _end_step(self) -> list[ToolResult]:
        """End the step if one is being made. Return the user's answers to its questions."""
        step, self._step = self._step, None
        if step is None:
            return []
        answers = step.end()
        if step.message is not None:
            self.recent.add(self.facts.steps, step.message.calls)
        if step.message is not None and self.facts.questions:
            asked = {question.call_id for question in self.facts.questions}
            self._asked.update((call.id, call.name) for call in step.message.calls if call.id in asked)
        return answers

    def _in_the_middle(self) -> bool:
        """Return whether the loop goes on by itself, so that a message of the user belongs to the same run."""
        facts = self.facts
        return facts.steps == 0 or (facts.calls > 0 and facts.accepted is None)

    def _add_message(self, text: str, origin: Any) -> None:
        self._running_log().append(ev.MessageAdded(text=text, origin=origin))
        self._size.add(len(text))

    def _decide_untraced(self, facts: Facts, policy: Policy) -> Decision:
        return decide(facts, policy, self._rules, traced=False)

    # ---- tools, tokens and the record

    def _with_kind(self, spec: ToolSpec) -> ToolSpec:
        if spec.kind != "ordinary":
            return spec
        return replace(spec, kind=self._options.tool_kind(spec.name, ""))

    def with_price(self, usage: Usage, model: str) -> Usage:
        """Return a usage with its cost, if a price of the model is known."""
        return with_cost(usage, self._price_of(model))

    def _price_of(self, model: str) -> Price | None:
        if model and model not in self._price:
            self._price[model] = self._prices.price(model)
        return self._price.get(model)

    def _take(self, event: Event) -> None:
        """Pass an event to the record and to `on_event`."""
        if self._watching is not None:
            self._watching.feed(event, self.facts)
        self._messages += adds_message(event)
        if self._recording is not None:
            self._recording.write(event)
        if self._on_event is not None:
            self._on_event(event)

    def _flush(self) -> None:
        if self._recording is not None:
            self._recording.flush()


def followed_policy(policy: Policy | str, *, speaks: bool = True, closes: bool = False) -> Policy:
    """Return the policy for another loop. Raises WrongUse if a name is not that of a shipped policy.

    It has no limit on steps unless the user has set one. speaks: whether the loop adds the texts of decisions. If not,
    the policy says nothing that a loop could go on without. closes: whether the loop asks its model for closing words,
    which it does only at a limit.
    """
    if isinstance(policy, str):
        policy = shipped_policy(policy)
    return _followed(_SamePolicy(policy), speaks, closes)


class _SamePolicy:
    """A policy that equals only itself: a limit written by the user is not the shipped one with the same number."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SamePolicy) and other.policy is self.policy

    def __hash__(self) -> int:
        return id(self.policy)


@lru_cache(maxsize=16)
def _followed(same: _SamePolicy, speaks: bool, closes: bool) -> Policy:
    """Return `followed_policy`, cached for each policy, because a proxy has a follower for each run."""
    policy = without_shipped_limit(same.policy)
    rules = tuple(name for name in policy.rules if name != "compaction")
    limits = replace(policy.limits, extend=None) if policy.limits.asks else policy.limits  # nobody can be asked
    closing = closes and policy.closing
    followed = replace(policy, closing=closing, closing_after="limits", rules=rules, limits=limits)
    repetition = followed.repetition
    if speaks:
        bounded = policy.limits.steps is not None or repetition.monologue is not None
        return followed if bounded else replace(followed, repetition=replace(repetition, monologue=MOST_TEXTS))
    repetition = replace(repetition, nudge_at=())
    patience = replace(followed.patience, checks_untold=None)
    stagnation = replace(followed.stagnation, nudge_at=None)
    guards = tuple(name for name in followed.guards if name != "reminder")  # otherwise a soft limit would remind
    return replace(
        followed, repetition=repetition, stagnation=stagnation, patience=patience, reminder=None, guards=guards
    )


def _earlier_runs(path: str | PathLike[str], session_id: str) -> tuple[ev.Carried, set[str]]:
    """Return the usage of this session's runs in a record, and the ids of their calls.

    Both are empty if the record has no run of the session.
    """
    used, ids = ev.Carried(), set[str]()
    facts: Facts | None = None
    try:
        for event in Scan(path, parts=True):
            if type(event) is ev.RunStarted:
                if facts is not None and event.continues is None:
                    used = add_usage(used, usage_of(facts))
                facts = Facts() if event.session_id == session_id else None
            if facts is not None:
                facts = fold(facts, event)
                if type(event) is ev.ToolCallStart:
                    ids.add(event.call_id)
    except WrongUse:
        pass  # its process was killed before a run began
    return used if facts is None else add_usage(used, usage_of(facts)), ids


_WENT_ON = GoOn(rule=FOLLOWED, why="the loop went on without asking")


def _left_to_the_loop() -> GoOn:
    return GoOn(rule=FOLLOWED, why="whether the loop ends with a response without calls is its own rule")


def _own_words(text: str) -> GoOn:
    return GoOn(rule=FOLLOWED, say=text, why="the loop said this by itself, and went on")


def _no_transcript(event: Event) -> None:
    """Do nothing: the loop keeps its messages itself."""
