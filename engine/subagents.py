"""Sub-agents: tools of an engine whose calls are runs of another engine.

    research = researcher.as_tool("research", "Find out about one subject, and report it with its sources.")
    async with Engine(provider, tools=[research]).start("Compare the three vendors.") as run:
        outcome = await run.wait()

Each call is a run in a separate session, whose RUN_STARTED names the call as its `parent`; its answer is the call's
result. The sub-agent's events are separate: `Run.children` has its run. The parent's log holds two kinds of events
about it: SUBAGENT_STARTED, and SUBAGENT_USED for each response, so that the parent's usage, limits and outcome include
it immediately, however the call ends.

The parent's limits on tokens and cost end its sub-agents after the response that reaches them; a shared `Budget` also
cuts that response. Steps are not added up: they show how far a loop has come with its own work.

If the parent is recorded in a file, so is the sub-agent, in a folder next to it. After the process died, the resumed
parent runs the call again, which resumes the sub-agent from its own record. Without a record, what the sub-agent did is
not known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from msgspec import structs

from .answers import AnswerGiven
from .base.ids import SESSION_PREFIX
from .config import RunConfig
from .context import Context
from .decision import Asker, Event, Outcome, Question, Usage, WrongUse
from .decision.events import (
    AttemptFailed,
    AttemptStarted,
    CheckEnded,
    ParentCall,
    ResponseFinished,
    SubagentStarted,
    SubagentUsed,
    VerdictGiven,
)
from .decision.limits import STOP_REASONS
from .records.reader import RecordedRun
from .run import Run
from .session import Session
from .subagent_records import SubagentFolder, SubagentRecords, nothing_to_keep
from .tool_execution import calling_context, cut_off_outcome
from .tools.results import CallOutcome, Happened, NotHappened, SubagentAsks, Unclear
from .tools.run_context import RunContext, this_call
from .tools.tool import Approval, Tool
from .validation import check_measurable

CAUSE = "parent"
"""Why a sub-agent is cancelled with its call: because of the parent's end, a completion, a limit or a timeout."""


def ask(prompt: str) -> str:
    """The arguments of a sub-agent's tool, unless it has others. What it returns is the sub-agent's prompt.

    prompt: The whole task: it knows nothing but this text.
    """
    return prompt


class SubagentTool(Tool):
    """Tool whose calls are runs of an engine with this configuration. Made by `Engine.as_tool`.

    prompt: function that makes the prompt from the arguments, which its signature declares.
    """

    kind_advice = "a sub-agent does work and cannot end that of its caller, so give it another name"

    def __init__(
        self,
        config: RunConfig,
        *,
        name: str,
        description: str,
        prompt: Callable[..., Any] | None,
        reads: bool,
        timeout: float | None,
        approval: Approval,
    ) -> None:
        super().__init__(
            prompt or ask,
            name=name,
            description=description,
            reads=reads,
            parallel=True,
            timeout=timeout,
            check=self._check,
            approval=approval,
        )
        self.config = config
        self.inner = config.toolbox

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Run the sub-agent, or continue it if it has begun. Return its answer, or what it asks the user."""
        parent = calling_context()
        subagent = Subagent(self, parent, this_call())
        try:
            if await subagent.find():
                outcome = await subagent.go_on()
            else:
                prompt = await super().run(arguments)
                if not isinstance(prompt, str) or not prompt.strip():
                    empty = f"{self.name}: the prompt is empty: say what is to be done"
                    return CallOutcome(content=empty, status="error")
                outcome = await subagent.begin(prompt)
        except WrongUse as error:
            return CallOutcome(content=f"{self.name} could not be run: {error}", status="error")
        if outcome.status == "cancelled" and parent.limits.reached:
            return cut_off_outcome(self)
        if outcome.questions:
            return SubagentAsks(subagent.passed_on(outcome.questions))
        return result_of(self.name, outcome)

    async def _check(self, **arguments: Any) -> Happened | NotHappened | Unclear:
        """Return the outcome of a call whose process died. A run without an end is no effect: the call continues it."""
        kept = records_of(calling_context())
        return Unclear("the sub-agent has no record") if kept is None else NotHappened()


class Subagent:
    """The sub-agent that one call starts: a session. Each time the caller runs the call, it gets one more run.

    parent: the context of the calling run. call: the call. All ids are derived from the calls, so that session and run
    are found again after the process died.
    """

    def __init__(self, tool: SubagentTool, parent: Context, call: RunContext) -> None:
        self._name = tool.name
        self._parent = parent
        self._call = call
        self._config = _joined(tool.config, parent)
        self._asker = _asker_of(parent, call.call_id)
        self._session_id = f"{SESSION_PREFIX}{_digest(call)}" if self._asker is None else self._asker.session_id
        self._run_id = f"run_{_digest(call)}"
        self._kept = records_of(parent)
        self._session = self._new_session()
        self._found: RecordedRun | None = None
        """The latest run of the session, if it has begun and this process does not know it."""
        self._requests = 0
        """Requests since the last SUBAGENT_USED."""

    async def find(self) -> bool:
        """Return whether it has begun, in this process or one that died. Raises WrongUse if its record is lost."""
        waiting = self._parent.subagents.waiting.pop(self._session_id, None)
        if waiting is not None:
            self._session.copy_from(waiting)
            return True
        runs = () if self._kept is None else await self._kept.runs(self._name, self._session_id)
        if runs:
            self._session.load(runs)
            self._found = runs[-1]
        elif self._asker is not None:
            raise WrongUse("it had asked the user, and nothing is kept of it where its caller goes on")
        return bool(runs)

    async def begin(self, prompt: str) -> Outcome:
        """Return the outcome of its first run."""
        return await self._end_of(self._session.start(prompt, deps=self._deps, run_id=self._run_id), prompt)

    async def go_on(self) -> Outcome:
        """Return the outcome of a run that continues: after answers or after a kill, or that had already ended."""
        run, session = self._found, self._session
        if run is None or (self._asker is not None and run.started.run_id == self._asker.run_id):
            return await self._end_of(session.start_given(self._answers(), deps=self._deps, run_id=self._run_id))
        self._run_id = run.started.run_id
        if run.finished is None:
            return await self._end_of(session.start_resumed(deps=self._deps), known=run.events)
        self._announce()
        self._catch_up(run.events)
        return self._ended(run.finished.outcome)

    def _answers(self) -> list[AnswerGiven]:
        """Return the user's answers to its questions, as the caller's record has them."""
        said = self._parent.transcript.approvals
        both = (
            (question, said.get(f"{self._call.call_id}/{question.call_id}")) for question in self._session.questions
        )
        return [
            AnswerGiven(q, one.text, one.says, one.arguments, one.expired, one.images, one.extends)
            for q, one in both
            if one is not None
        ]

    def passed_on(self, questions: Sequence[Question]) -> tuple[Question, ...]:
        """Return its questions in the form in which its caller asks them."""
        return tuple(map(self._passed_on, questions))

    def _passed_on(self, question: Question) -> Question:
        own = self._call.call_id
        below = () if question.asker is None else question.asker.names
        asker = Asker(call_id=own, session_id=self._session_id, run_id=self._run_id, names=(self._name, *below))
        text = f"{self._name}: {question.text}"
        return structs.replace(question, call_id=f"{own}/{question.call_id}", text=text, asker=asker, unclear=0)

    @property
    def _deps(self) -> Any:
        """The dependencies of the calling run; None if the sub-agent's engine makes its own."""
        return self._parent.deps if self._config.deps is None else None

    async def _end_of(self, run: Run, title: str = "", known: Sequence[Event] = ()) -> Outcome:
        """Run it to its end. known: its events that are already recorded, for a run that is resumed."""
        self._announce()
        self._catch_up(known)
        run.leave_cause = CAUSE
        self._parent.subagents.runs[run.id] = run
        kept = self._kept
        keeping = nothing_to_keep() if kept is None else kept.kept(self._session, run, self._config, title)
        async with keeping as begun, run:
            begun()
            return self._ended(await run.wait())

    def _ended(self, outcome: Outcome) -> Outcome:
        if outcome.questions:
            self._parent.subagents.waiting[self._session_id] = self._session
        return outcome

    def _new_session(self) -> Session:
        call, kept = self._call, self._kept
        session = Session(
            self._config.with_middleware(self._counted),
            self._session_id,
            record=None if kept is None else kept.target(self._name, self._session_id),
            drain=self._parent.drain,
            parent=ParentCall(session_id=call.session_id, run_id=call.run_id, call_id=call.call_id),
        )
        session.owner, session.metadata = self._parent.owner, self._parent.metadata
        session.subagent_records, session.resumable = self._parent.subagents.records, self._parent.resumable
        return session

    # ---- what the parent's log holds of it

    def _announce(self) -> None:
        if self._run_id not in dict(self._parent.log.facts.subagent_runs):
            self._parent.log.append(
                SubagentStarted(
                    call_id=self._call.call_id,
                    name=self._name,
                    run_id=self._run_id,
                    session_id=self._session_id,
                    model=self._config.provider.model,
                    record="" if self._kept is None else self._kept.path(self._name, self._session_id),
                    continues=None if self._asker is None else self._asker.run_id,
                )
            )

    @asynccontextmanager
    async def _counted(self, run: Run) -> AsyncIterator[None]:
        assert run.context is not None
        run.context.log.add_sink(self._count)
        yield

    def _catch_up(self, events: Sequence[Event]) -> None:
        """Count the events that the sub-agent's record holds and the parent has not counted yet."""
        known = dict(self._parent.log.facts.subagent_runs).get(self._run_id, 0)
        for event in events:
            if event.seq > known:
                self._count(event)

    def _count(self, event: Event) -> None:
        """Count one event of the sub-agent as usage of the parent; end all its sub-agents if a limit is used up."""
        match event:
            case AttemptStarted():
                self._requests += 1
            case SubagentUsed(requests=requests, usage=usage):
                self._requests += requests
                self._report(event.seq, usage)
            case ResponseFinished(usage=usage) | AttemptFailed(usage=Usage() as usage):
                self._report(event.seq, usage)
            case VerdictGiven(usage=Usage() as usage) | CheckEnded(usage=Usage() as usage):
                self._report(event.seq, usage)
            case _:
                pass

    def _report(self, at: int, usage: Usage) -> None:
        parent = self._parent
        if parent.log.finished:
            return  # it did not end when cancelled, and was left behind
        requests, self._requests = self._requests, 0
        run_id, call_id = self._run_id, self._call.call_id
        parent.log.append(SubagentUsed(call_id=call_id, run_id=run_id, at=at, requests=requests, usage=usage))
        if parent.budget is not None and self._config.budget is not parent.budget:
            parent.budget.spend(usage)
        if parent.limits.used_up(parent.log.facts.steps):
            for run in parent.subagents.runs.values():
                run.cancel(CAUSE)


def _digest(call: RunContext) -> str:
    return blake2b(call.key.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _asker_of(parent: Context, call_id: str) -> Asker | None:
    """Return the sub-agent of this call that asked the user last; None if it has asked nothing."""
    return next((one for one in reversed(parent.transcript.askers.values()) if one.call_id == call_id), None)


def records_of(parent: Context) -> SubagentRecords | None:
    """Return where the sub-agents of this run are kept; None if nothing is kept of them."""
    if parent.subagents.records is not None or parent.record_path is None:
        return cast("SubagentRecords | None", parent.subagents.records)
    return SubagentFolder(parent.record_path)


def _joined(config: RunConfig, parent: Context) -> RunConfig:
    """Return the sub-agent's configuration with its parent's budget and redaction where it has none.

    If its policy would not end a run at the parent's budget, it does not get the budget: its usage is then only counted
    in it.
    """
    options, budget = config.record_options, parent.budget
    if options.redact is None and parent.redact is not None:
        config = replace(config, record_options=replace(options, redact=parent.redact))
    if config.budget is not None or budget is None:
        return config
    ends = all(STOP_REASONS[limit] in config.policy.guards for limit in budget.limits)
    return replace(config, budget=budget) if ends else config


def result_of(name: str, outcome: Outcome) -> str | CallOutcome:
    """Return the result of a call: the answer of a completed run, or an error that says how the run ended."""
    if outcome.status == "completed":
        return "\n".join([outcome.answer, *(f"Still open: {issue}" for issue in outcome.pending_issues)])
    ended = f"{name} did not complete its task: {outcome.status} ({outcome.stop_reason})"
    lines = [f"{ended}: {outcome.detail}" if outcome.detail else f"{ended}."]
    if outcome.answer:
        lines.append(f"What it wrote last:\n{outcome.answer}")
    return CallOutcome(content="\n".join(lines), status="error")


def check_subagents(config: RunConfig) -> None:
    """Refuse limits on cost that could not be measured, because the price of a sub-agent's model is not known."""
    for tool in config.toolbox.values():
        if isinstance(tool, SubagentTool):
            check_measurable(config.policy, config.budget, tool.config.provider, tool.config.known_prices)
            check_subagents(replace(tool.config, policy=config.policy, budget=config.budget))
