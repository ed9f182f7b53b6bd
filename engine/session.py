"""A session: one conversation of many runs, one at a time.

Each run starts with new facts, so what ended an earlier run never ends a later one; only the transcript continues. A
second run on a busy session is refused or queued, depending on `busy`.

A run begins with a prompt, with the answer to a question of a paused run, where a killed process left off, or at a
decision of a recorded run (`fork`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal

from .answers import Answer, AnswerGiven, check_answers, check_granted, check_id, under_id, with_expired
from .approvals import Approve, Deny
from .base.ids import new_run_id, new_session_id
from .config import RunConfig
from .connections import connected
from .context import Context, Subagents, nothing_to_flush
from .decision import (
    Decision,
    Event,
    Message,
    Outcome,
    Question,
    SystemMessage,
    Transcript,
    Usage,
    UserMessage,
    WrongUse,
)
from .decision.events import (
    CutOff,
    ParentCall,
)
from .decision.outcome import OutputT
from .decision.policy import Policy, for_recorded_run
from .decision.wrong_attributes import Refused
from .decision.wrong_calls import checked
from .dependencies import check_given, dependencies, warn_of_others
from .durability import Steps
from .effects import Effects, Live
from .event_bus import Bus
from .event_log import Log
from .hard_limits import HardLimits
from .hook_runner import progress
from .journal import Journal, RecordTarget, open_journal
from .message_history import MessageFormat, call_ids, messages_in
from .providers import Provider
from .records.format import DrainedChunk, step_of_attempt, summarize_drained
from .run import Run
from .run_start import (
    AnswersGiven,
    ForkStarted,
    Opening,
    PromptGiven,
    RunContinued,
    RunIds,
    continued,
    prompt_of,
    resume,
    start,
)
from .session_state import SessionState
from .subscribers import enter_middleware, notify_subscribers
from .tools.run_context import DepsT, RunContext
from .user_errors import once_a_run
from .user_message import Prompt, user_message
from .validation import check_record, check_recorded_functions, check_recorded_tools

if TYPE_CHECKING:
    from .fork import HasConfig
    from .providers import Exchange
    from .records.reader import RecordedRun, SessionRecord
    from .resume_point import ResumePoint
    from .tools.run_context import Progress
    from .until_background import BackgroundCheck
    from .until_work import WorkCheck


@checked
class Session(Generic[DepsT, OutputT]):
    """A conversation. Made by `Engine.session` and `Engine.resume`.

    `run(prompt)` answers a prompt, `start(prompt)` also yields events; `messages()` returns what was said. A run that
    asks goes on with `approve(id)`, `deny(id)`, `answer(id, text)` or `answer_all({...})`, under an id of `questions`;
    one whose process died with `start_resumed()`. Its constructor is called by engines:

    config: what its runs are made from. session_id: unique id of the conversation.
    record: a file that its events are appended to, or a `Journal`; None for none.
    drain: whether to read, and pay for, the rest of responses that were cut.
    parent: for a sub-agent's session, the call that started it.
    busy: what a second run does while one is in progress: `refuse` raises WrongUse, `queue` waits for its turn.
    history: the messages before its first prompt, checked (`message_history.py`).
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Session", "await")
        __iter__ = Refused("Session", "for")
        __aiter__ = Refused("Session", "async for")
        __enter__ = __exit__ = Refused("Session", "with")
        __aenter__ = __aexit__ = Refused("Session", "async with")

    def __init__(
        self,
        config: RunConfig,
        session_id: str,
        *,
        busy: Literal["refuse", "queue"] = "refuse",
        record: RecordTarget = None,
        drain: bool = False,
        parent: ParentCall | None = None,
        history: Sequence[Message] = (),
    ) -> None:
        self.id = session_id
        self.history = tuple(history)
        """Messages before the first prompt. The first run records them and puts them into the transcript."""
        self._config = config
        self._busy: Literal["refuse", "queue"] = busy
        self._turn = asyncio.Lock()
        self.owner: str | None = None
        """Owner of the conversation, for `RunContext`."""
        self.metadata: Mapping[str, Any] = {}
        """Metadata of the conversation, for `RunContext`."""
        self.record = record
        """Destination of the events of the next run."""
        self.steps: Steps | None = None
        """The durable engine that keeps responses and results of calls of the next run; None for none."""
        self.resumable = False
        """Whether the next run stops without an end when its provider is away (`ProviderAway`), for the host of the
        session to mark it as interrupted. If not, it ends as `provider_error`."""
        self.subagent_records: Any = None
        """Where the sessions of its sub-agents are kept (`SubagentRecords`); None: next to its record."""
        self._drain = drain
        self._parent = parent
        """For a sub-agent's session: the call that started it."""
        self.cut_off: Mapping[int, CutOff] = {}
        """In a replay, by step number: what followed the cut of a response in the record of the replayed run."""
        self._state = SessionState()
        self._memo: dict[Any, Any] = {}
        self._work_check: WorkCheck | None = None
        """The check of the runs, with the guarded files as they were at the start of the first one."""

    @property
    def transcript(self) -> Transcript:
        """The messages of the conversation so far."""
        return self._state.transcript

    @property
    def questions(self) -> tuple[Question, ...]:
        """The open questions of a paused run, for `answer`."""
        return self._state.questions

    def start(self, prompt: Prompt, *, deps: DepsT | None = None, run_id: str | None = None) -> Run[OutputT]:
        """Return a run that answers `prompt`. Enter it with `async with`.

        prompt: a text, or texts and images (`user_message.py`).
        deps: the dependencies of this run: tools and hooks get them as `RunContext.deps`. They are never recorded.
        run_id: a unique id that you choose.
        """
        if isinstance(prompt, UserMessage) and self._config.runtime.replay is not None:
            return self._new_run(PromptGiven(prompt), run_id, deps)
        return self._new_run(PromptGiven(user_message(prompt)), run_id, deps)

    async def run(self, prompt: Prompt, *, deps: DepsT | None = None) -> Outcome[OutputT]:
        """Answer `prompt` and wait for the outcome. deps: as in `start`."""
        async with self.start(prompt, deps=deps) as run:
            return await run.wait()

    def start_answer(
        self, call_id: str, text: Prompt, *, deps: DepsT | None = None, run_id: str | None = None
    ) -> Run[OutputT]:
        """Return a run that continues the paused one with the user's answer to this question.

        call_id: of the question, in `questions`. text: or texts and images, as in a prompt.
        deps, run_id: as in `start`.

        If several questions are open, the run pauses again until the last one is answered. Raises WrongUse if the
        question is not open.
        """
        return self.start_answers(under_id(call_id, text), deps=deps, run_id=run_id)

    async def answer(self, call_id: str, text: Prompt, *, deps: DepsT | None = None) -> Outcome[OutputT]:
        """Answer an open question and wait for the outcome.

        call_id: of the question, in `questions`. text: or texts and images, as in a prompt. deps: as in `start`.
        """
        return await self.answer_all(under_id(call_id, text), deps=deps)

    async def approve(
        self, call_id: str, arguments: Mapping[str, Any] | None = None, *, deps: DepsT | None = None
    ) -> Outcome[OutputT]:
        """Approve a call that waits for approval, and wait for the outcome.

        call_id: of the question, in `questions`. arguments: replace all arguments that the model gave the call.
        deps: as in `start`. Raises WrongUse if no such call is waiting, or the arguments do not fit its tool.
        """
        return await self.answer_all(under_id(call_id, Approve(arguments)), deps=deps)

    async def deny(self, call_id: str, reason: str = "", *, deps: DepsT | None = None) -> Outcome[OutputT]:
        """Deny a call that waits for approval, and wait for the outcome.

        call_id: of the question, in `questions`. reason: given to the model as the result. deps: as in `start`.
        """
        return await self.answer_all(under_id(call_id, Deny(reason)), deps=deps)

    async def extend(self, steps: int, call_id: str | None = None, *, deps: DepsT | None = None) -> Outcome[OutputT]:
        """Grant this many steps to a run that asks for more, and wait for the outcome.

        steps: 1 or more. call_id, deps: as in `start_extend`.
        """
        async with self.start_extend(steps, call_id, deps=deps) as run:
            return await run.wait()

    def start_extend(
        self, steps: int, call_id: str | None = None, *, deps: DepsT | None = None, run_id: str | None = None
    ) -> Run[OutputT]:
        """Return a run that continues the paused one, which asks for more steps, with this many more.

        call_id: the question that is meant, if several sub-agents ask. deps, run_id: as in `start`.
        Raises WrongUse if nothing asks for steps, or for less than one step. The answer "no" ends the run at its limit.
        """
        check_granted(steps)
        if call_id is not None:
            check_id(call_id)
        asked = [question.call_id for question in self.questions if question.extends]
        if call_id is None and len(asked) > 1:
            raise WrongUse(f"several runs ask for more steps: say which with call_id ({', '.join(asked)})")
        if not asked or (call_id is not None and call_id not in asked):
            which = "nothing" if call_id is None else f"no question {call_id!r}"
            asking = ", ".join(asked) or "none"
            raise WrongUse(f"{which} in session {self.id} asks for more steps (asking: {asking}){self._unread()}")
        return self.start_answer(call_id or asked[0], str(steps), deps=deps, run_id=run_id)

    async def answer_all(self, answers: Mapping[str, Answer], *, deps: DepsT | None = None) -> Outcome[OutputT]:
        """Answer several open questions at once and wait for the outcome.

        answers: by call id. deps: as in `start`.
        """
        async with self.start_answers(answers, deps=deps) as run:
            return await run.wait()

    def start_answers(
        self,
        answers: Mapping[str, Answer],
        *,
        deps: DepsT | None = None,
        run_id: str | None = None,
    ) -> Run[OutputT]:
        """Return a run that continues the paused one with answers to open questions.

        answers: by call id: a text, texts and images, `Approve(...)` or `Deny(...)`. deps, run_id: as in `start`.

        If other questions stay open, the run pauses again. Calls that were approved, and those that waited behind them,
        run once no question is open. Raises WrongUse if a question is not open, or an answer does not fit it.
        """
        where, toolbox, policy = f"session {self.id}", self._config.toolbox, self._config.policy
        if self.interrupted and any(question.lets_call_run for question in self.questions):
            raise WrongUse(f"{where} was killed while it asked the user: resume it first (`start_resumed`)")
        given = check_answers(self.questions, answers, toolbox, self._state.redacted_calls, where, self._unread())
        now = self._config.runtime.clock.wall()
        given = with_expired(self.questions, given, now, policy.approval_seconds)
        return self.start_given(given, deps=deps, run_id=run_id)

    def start_given(
        self, answers: Sequence[AnswerGiven], *, deps: DepsT | None = None, run_id: str | None = None
    ) -> Run[OutputT]:
        """Return a run that begins with these answers without checking them. For replays and sub-agents.

        deps, run_id: as in `start`.
        """
        self._check_what_is_brought()
        return self._new_run(AnswersGiven(answers), run_id, deps)

    def messages(self, format: MessageFormat | None = None) -> list[Any]:
        """Return all messages so far, with the system prompt and the history, as the model will get them next.

        format: `openai` or `anthropic` for messages in their form, None for our own types (`message_history.py`).
        """
        rest = [message for message in self.history if not isinstance(message, SystemMessage)]
        begun = self.transcript.messages or [*self._config.system_messages(self.history), *rest]
        return messages_in(format, begun)

    @property
    def parent(self) -> ParentCall | None:
        """For a sub-agent's session: the call that started it."""
        return self._parent

    @property
    def usage(self) -> Usage:
        """The usage of all runs that have ended."""
        return self._state.usage

    @property
    def interrupted(self) -> bool:
        """Whether the latest run has no end because its process was killed."""
        return self._state.interrupted is not None and not self._state.fork_lines

    def start_resumed(self, *, deps: DepsT | None = None) -> Run[OutputT]:
        """Return the interrupted run, continued under its own id: no finished response or call is repeated.

        deps: as in `start`. The run offers its model the tools that it began with. Raises WrongUse if no run was
        killed, or if one of these tools or a hook of the run is now missing.
        """
        point = self._state.interrupted
        if point is None:
            ids = ", ".join(question.call_id for question in self.questions)
            waits = f". It waits for answers ({ids}): session.approve(id), session.deny(id) or session.answer(id, text)"
            raise WrongUse(
                f"session {self.id} has no interrupted run: its latest run has "
                f"{'an end' if self._state.end else 'not begun'}{waits if ids else self._unread()}"
            )
        self._check_what_is_brought()
        point.check_copy()
        return self._new_run(RunContinued(point), point.started.run_id, deps)

    def fork(
        self,
        *,
        at: int,
        run: int | str | None = None,
        engine: HasConfig | None = None,
        prompt: Prompt | None = None,
        results: Mapping[str, str] = MappingProxyType({}),
        record: RecordTarget = None,
        source: SessionRecord | None = None,
    ) -> Session:
        """Return a new session that continues from a decision of this one; its run begins with `start_fork`.

        at: `seq` of the decision (DECISION_MADE), which is made again. run: the run that made it, by its number from 1
            or by its id; by default the last one.
        engine: provides the model, policy and tools of the fork; by default this session's.
        prompt: replaces the prompt of the run. results: replace what tools returned, by call id.
        record: destination of the fork's events, such as a new file. It begins with a copy of what came before `at`.
        source: the record of this session; by default the file that it writes to.

        Raises WrongUse; nothing is written before the fork's run begins.
        """
        from .fork import ForkPoint, check_new_record, read_origin

        config = self._config if engine is None else engine.config
        check_record(record)
        check_new_record(record)
        said = None if prompt is None else user_message(prompt)
        point = ForkPoint.find(read_origin(self.record if source is None else source, self.id), at, run)
        forked: Session = Session(config, new_session_id(), busy=self._busy, record=record, drain=self._drain)
        now = config.runtime.clock.wall().isoformat(timespec="milliseconds")
        forked.load_fork(point.copies(config, forked.id, new_run_id(), now, said, results))
        return forked

    def start_fork(self, *, deps: DepsT | None = None) -> Run[OutputT]:
        """Return the run of a session that `fork` made. It makes the forked decision again and continues from there.

        deps: as in `start`.
        """
        point, lines = self._state.interrupted, self._state.fork_lines
        if point is None or not lines:
            raise WrongUse(f"session {self.id} is not a fork that can begin: make one with `session.fork(at=...)`")
        return self._new_run(ForkStarted(point, lines), point.started.run_id, deps)

    @property
    def copies(self) -> Sequence[Event]:
        """The events that a fork copies from its origin, until it has begun; empty in any other session. No deltas."""
        point = self._state.interrupted
        return point.before if point is not None and self._state.fork_lines else ()

    def load_fork(self, copies: Sequence[RecordedRun]) -> None:
        """Load the copies of runs with which a fork begins; the last one ends before the decision of the fork."""
        self.load(copies)
        self._state.fork_lines = [line for run in copies for line in (*run.events, *run.after_cut)]

    def load(self, runs: Iterable[RecordedRun]) -> None:
        """Load recorded runs: the session then has their transcript, usage and open questions."""
        for run in runs:
            self._state.load(run)

    def copy_from(self, other: Session) -> None:
        """Copy the state of another session of this conversation, independent of it from then on."""
        self._state = other._state.copy()

    def begin_as_recorded(self, run: RecordedRun) -> None:
        """Begin the next run as the record of another program's loop says (`SessionState.begin_as_recorded`)."""
        self._state.begin_as_recorded(run)

    def _unread(self) -> str:
        """Return where to go on if the record of this session exists and was not read; otherwise nothing."""
        if self._state.end is not None or not isinstance(self.record, str | os.PathLike):
            return ""
        path = os.fspath(self.record)
        return f": go on in its record with `engine.resume({path!r})`" if os.path.exists(path) else ""

    def _check_what_is_brought(self) -> None:
        if self._config.runtime.replay is None:
            check_recorded_functions(self._state.functions, self._config.functions)
            check_recorded_tools(self._state.tools, self._config.toolbox)

    def _new_run(self, opening: Opening, run_id: str | None = None, deps: DepsT | None = None) -> Run[OutputT]:
        if self._state.fork_lines and not isinstance(opening, ForkStarted):
            raise WrongUse(f"session {self.id} is a fork that has not begun: `start_fork` comes first")
        if self._config.runtime.replay is None:
            check_given(self._config.deps, deps, self._config.toolbox.deps_types)
        bus = Bus(self._config.observers.buffer)
        return Run(run_id or new_run_id(), self.id, bus, partial(self._body, opening=opening, deps=deps))

    async def _body(self, run: Run, opening: Opening, deps: DepsT | None) -> None:
        """Execute the whole run, in its own task."""
        options, clock = self._config.record_options, self._config.runtime.clock
        about: RunContext[None] = RunContext(self.id, run.id, owner=self.owner, metadata=self.metadata)
        makes_deps = dependencies(self._config.deps, deps, about)
        with once_a_run(options.redact, run_id=run.id, session_id=self.id):
            async with self._hold_turn(), connected(self._config.provider), makes_deps as made:
                if self._config.runtime.replay is None:
                    warn_of_others(made, self._config.toolbox.deps_types, run.id)
                with open_journal(
                    self.record, self.id, clock, redact=options.redact, attach_above=options.attach_above
                ) as journal:
                    await self._drive(run, opening, journal, made)

    async def _drive(self, run: Run, opening: Opening, journal: Journal | None, deps: Any) -> None:
        context = self._context(run, journal, opening, deps)
        hooks, observers = self._config.hooks, self._config.observers
        run.attach(context, hooks.prompt_handlers, hooks.evaluate)
        async with enter_middleware(observers.middleware, run), notify_subscribers(observers.all_subscribers, run):
            if journal is not None:
                self._prepare_record(journal, opening)
            decision = self._open(context, opening, run.id)
            try:
                await context.flush()
            except asyncio.CancelledError as error:
                context.shut_down(error)  # the run has begun, so it gets an end
            run.ready()
            try:
                point = continued(opening)
                await run.drive(decision, next_step=point is None or not point.no_next_step_prompt)
            finally:
                if context.share is not None:
                    context.share.close()
                self._state.remember(run.facts, (run.id, run.bus.last))

    def _prepare_record(self, journal: Journal, opening: Opening) -> None:
        """Check that nobody else has continued the record. A fork begins its own record with what it copies."""
        from .session_record import check_all_read, check_end, check_not_answered

        match opening:
            case RunContinued(point):
                check_end(journal, point)
            case ForkStarted(lines=lines):
                for line in lines:
                    journal.write(line)
            case AnswersGiven() if self._state.end is not None:
                check_not_answered(journal, self._state.end)
            case _:
                check_all_read(journal, self._state.end)

    def _open(self, context: Context, opening: Opening, run_id: str) -> Decision | None:
        """Append the first events of the run; return the decision that it acts on first, if one is made already."""
        state, point = self._state, continued(opening)
        if point is not None:
            state.interrupted, state.fork_lines = None, ()
            return resume(context, point)
        assert isinstance(opening, PromptGiven | AnswersGiven)
        state.pass_over()
        self._check_still_open(opening)
        paused = state.latest if isinstance(opening, AnswersGiven) else None
        state.end_usage(continues=paused is not None)
        ids = RunIds(run_id, self.id, self._parent)
        history, self.history = self.history, ()
        state.taken_ids.update(call_ids(history))
        start(context, self._config, opening, ids, paused, state.before, history)
        return None

    def _check_still_open(self, opening: Opening) -> None:
        """Raise WrongUse if another run, for which this one waited, was given an answer to the same question."""
        open_now = {question.call_id for question in self.questions}
        for answer in opening.answers if isinstance(opening, AnswersGiven) else ():
            if answer.question.call_id not in open_now:
                raise WrongUse(f"question {answer.question.call_id!r} in session {self.id} has just been answered")

    @asynccontextmanager
    async def _hold_turn(self) -> AsyncIterator[None]:
        if self._turn.locked() and self._busy == "refuse":
            raise WrongUse(f"session {self.id} is busy with another run: wait for it, or make it with busy='queue'")
        async with self._turn:
            yield

    def _context(self, run: Run, journal: Journal | None, opening: Opening, deps: Any) -> Context:
        config, state, runtime, bus = self._config, self._state, self._config.runtime, run.bus
        sinks: list[Callable[[Event], None]] = []
        if journal is not None:
            sinks.append(journal.write)
        sinks.append(bus.publish)
        provider: Provider = config.provider
        cut_off = dict(self.cut_off)
        if self._drain:
            from .providers import Record

            provider = Record(provider, partial(_keep_rest, journal, cut_off), drain=True)
        point = continued(opening)
        if point is None:
            prices, started_at = config.known_prices(), runtime.clock.wall().isoformat(timespec="milliseconds")
        else:
            prices, started_at = point.started.prices, point.started.started_at
        dearest = max(prices.values(), key=lambda price: price.output, default=None)
        share = None if config.budget is None else config.budget.share(dearest)
        if share is not None:
            sinks.append(share.feed)
        log = Log(runtime.clock, self.transcript.feed, sinks)
        toolbox = config.toolbox
        policy = config.policy
        if isinstance(opening, RunContinued):
            policy = for_recorded_run(policy, opening.point.started.policy)
        effects, limits = self._effects(log, policy)
        if point is not None:
            toolbox = toolbox.subset(spec.name for spec in point.started.tools)
            bus.start_at(point.last.seq)
        if isinstance(opening, RunContinued):
            effects = self._continue(opening.point, log, effects, policy)
        elif isinstance(opening, ForkStarted):  # its record holds nothing that it did itself
            forked, last = opening.point, opening.point.last
            log.continue_from(forked.facts, forked.history, None, seq=last.seq, t=last.t)
        flush = journal.flush if journal is not None else nothing_to_flush
        context = Context(
            log=log,
            transcript=self.transcript,
            provider=provider,
            toolbox=toolbox,
            policy=policy,
            hooks=config.hooks,
            model_options=config.model_options,
            decide=config.decide,
            decide_untraced=config.decide_untraced,
            execute=runtime.execute,
            clock=runtime.clock,
            price_list=config.prices,
            prices=prices,
            share=share,
            budget=config.budget,
            redact=config.record_options.redact,
            drain=self._drain,
            resumable=self.resumable,
            subagents=Subagents(waiting=state.waiting_subagents, records=self.subagent_records),
            replays=runtime.replay is not None,
            taken_ids=state.taken_ids,
            memo=self._memo,
            check=self._check(log, effects, flush, lambda: progress(context)),
            output=config.output,
            system_prompt=config.system_function,
            deps=deps,
            owner=self.owner,
            metadata=self.metadata,
            effects=effects,
            limits=limits,
            prompt=prompt_of(opening),
            started_at=started_at,
            inbox=run.inbox,
            record_path=journal.path if journal is not None else None,
            flush=flush,
            cut_off=cut_off,
            redacted_calls=state.redacted_calls if runtime.replay is None else (),
        )
        return context

    def _check(
        self,
        log: Log,
        effects: Effects,
        flush: Callable[[], Awaitable[None]],
        look: Callable[[], Progress],
    ) -> BackgroundCheck | None:
        """Return the check of a run; None without one. All runs of the session have the same guarded files."""
        until, runtime = self._config.until, self._config.runtime
        if until is None:
            return None
        from .until_background import BackgroundCheck
        from .until_work import WorkCheck

        if self._work_check is None:
            tools = tuple(self._config.toolbox.values())
            folder = until.work_folder(tools) if runtime.replay is None else None
            is_work = until.folder is not None or any(tool.folder is not None for tool in tools)
            self._work_check = WorkCheck(until, folder, runtime.clock, self.id, is_work=is_work)
        return BackgroundCheck(self._work_check, log, effects, flush, look, replays=runtime.replay is not None)

    def _effects(self, log: Log, policy: Policy) -> tuple[Effects, HardLimits]:
        """Return the effects of a new run, and the object that enforces its limits."""
        runtime = self._config.runtime
        if runtime.replay is not None:
            return runtime.replay.effects(log), runtime.replay.limits(log, policy, runtime.clock)
        limits = HardLimits(log, policy, runtime.clock)
        if self.steps is None:
            return Live(), limits
        from .checkpoint import Durable

        return Durable(self.steps, log), limits

    def _continue(self, point: ResumePoint, log: Log, effects: Effects, policy: Policy) -> Effects:
        """Let the log continue a recorded run. Return the run's effects: these, after those in its record."""
        from .recorded_events import RecordedEvents
        from .recorded_round import RecordedRound

        config = self._config
        diverged = point.divergence(lambda facts: config.decide_untraced(facts, policy))
        diverged = diverged or point.missing_hook(config.functions)
        strict = config.record_options.strict_resume
        past = RecordedEvents(point.events, point.void, point.interrupted_step, diverged, strict=strict)
        log.continue_from(point.facts, point.history, past, seq=point.last.seq, t=point.last.t)
        return RecordedRound(point, log, effects)


def _keep_rest(journal: Journal | None, cut_off: dict[int, CutOff], exchange: Exchange) -> None:
    if exchange.ended == "cut":
        cut_off[step_of_attempt(exchange.attempt)] = summarize_drained(exchange.after_cut)
    if journal is not None:
        for chunk in exchange.after_cut:
            journal.write(DrainedChunk(attempt=exchange.attempt, chunk=chunk))
