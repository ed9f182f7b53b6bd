"""Sub-agents: runs of one engine as calls of a tool of another.

    research = researcher.as_tool("research", "Find out about one subject, and report it with its sources.")
    async with Engine(provider, tools=[research]).start("Compare the three vendors.") as run:
        outcome = await run.wait()

Each call is a run in a session of its own, whose RUN_STARTED names the call as its `parent`; its answer is the call's
result. The sub-agent's events are its own: `Run.children` has its run. What the parent's log holds of it are two
events: SUBAGENT_STARTED, and SUBAGENT_USED for each response, so that the parent's usage, limits and outcome include it
at once, however the call ends.

Limits of the parent on tokens and cost end its sub-agents after the response that reaches them; a shared `Budget` cuts
that response, too. Steps are not counted together: they tell how far a loop has come with its own work.

If the parent is recorded in a file, so is the sub-agent, in a folder beside it. After the death of the process the
resumed parent runs the call again, which resumes the sub-agent from its own record. Without one, what it has done is
not known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .config import RunConfig
from .context import Context
from .decision import Event, Outcome, Usage, WrongUse
from .decision.events import (
    AttemptFailed,
    AttemptStarted,
    ParentCall,
    ResponseFinished,
    SubagentStarted,
    SubagentUsed,
    VerdictGiven,
)
from .decision.limits import STOP_REASONS
from .records.files import SUBAGENTS_SUFFIX
from .records.reader import SessionRecord, read_beginning, read_record
from .run import Run
from .session import Session
from .tool_execution import calling_context, cut_off_outcome
from .tools.results import CallOutcome, Happened, NotHappened, Unclear
from .tools.run_context import RunContext, this_call
from .tools.tool import Approval, Tool
from .validation import check_measurable

CAUSE = "parent"
"""Why a sub-agent is cancelled when its call is: by the end of the parent, a completion, a limit or a timeout."""


def ask(prompt: str) -> str:
    """The arguments of a sub-agent's tool, unless it has others. What it returns is the sub-agent's prompt.

    prompt: The whole task: it knows nothing but this text.
    """
    return prompt


class SubagentTool(Tool):
    """A tool whose calls are runs of an engine with this configuration. Made by `Engine.as_tool`.

    prompt: makes the prompt of the arguments, which its signature declares.
    """

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

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Run the sub-agent, or go on with it if the process died during this call; returns its answer."""
        prompt = await super().run(arguments)
        if not isinstance(prompt, str) or not prompt.strip():
            return CallOutcome(content=f"{self.name}: the prompt is empty: say what is to be done", status="error")
        parent = calling_context()
        try:
            outcome = await Subagent(self, parent, this_call()).outcome(prompt)
        except WrongUse as error:
            return CallOutcome(content=f"{self.name} could not be run: {error}", status="error")
        if outcome.status == "cancelled" and parent.limits.reached:
            return cut_off_outcome(self)
        return result_of(self.name, outcome)

    async def _check(self, **arguments: Any) -> Happened | NotHappened | Unclear:
        """What became of a call whose process died. A run that has not ended is no effect: the call goes on with it."""
        place = record_place(calling_context().record_path, self.name, this_call())
        return Unclear("the sub-agent has no record") if place is None else NotHappened()


class Subagent:
    """The run of one call of a sub-agent's tool.

    parent: what the parts of the calling run share. call: the call. Both ids follow from the call, so that the run is
    found again after the death of the process.
    """

    def __init__(self, tool: SubagentTool, parent: Context, call: RunContext) -> None:
        self._name = tool.name
        self._parent = parent
        self._call = call
        self._config = _joined(tool.config, parent)
        self._id = _digest(call)
        self._record = record_place(parent.record_path, tool.name, call)
        self._requests = 0
        """Requests since the last SUBAGENT_USED."""

    async def outcome(self, prompt: str) -> Outcome:
        """The outcome of its run: of a new one, one that is resumed, or one that had ended before the process died."""
        session = self._session()
        recorded = self._recorded()
        self._announce(session.id)
        if recorded is None:
            return await self._end_of(session.start(prompt, deps=self._deps, run_id=f"run_{self._id}"))
        run = recorded.runs[-1]
        self._catch_up(run.events)
        if run.finished is not None:
            return run.finished.outcome
        session.load(recorded.runs)
        return await self._end_of(session.start_resumed(deps=self._deps))

    @property
    def _deps(self) -> Any:
        """What belongs to the calling run belongs to this one, unless its engine makes its own."""
        return self._parent.deps if self._config.deps is None else None

    async def _end_of(self, run: Run) -> Outcome:
        run.leave_cause = CAUSE
        self._parent.children[run.id] = run
        async with run:
            return await run.wait()

    def _session(self) -> Session:
        call = self._call
        session = Session(
            self._config.with_middleware(self._counted),
            f"session_{self._id}",
            record=self._record,
            drain=self._parent.drain,
            parent=ParentCall(session_id=call.session_id, run_id=call.run_id, call_id=call.call_id),
        )
        session.owner, session.metadata = self._parent.owner, self._parent.metadata
        return session

    def _recorded(self) -> SessionRecord | None:
        """Its record, if a process that died had begun its run."""
        if self._record is None:
            return None
        if not self._record.exists():
            self._record.parent.mkdir(parents=True, exist_ok=True)
            return None
        return None if read_beginning(self._record)[1] is None else read_record(self._record)

    # ---- what the parent's log holds of it

    def _announce(self, session_id: str) -> None:
        run_id = f"run_{self._id}"
        if run_id not in dict(self._parent.log.facts.subagent_runs):
            self._parent.log.append(
                SubagentStarted(
                    call_id=self._call.call_id,
                    name=self._name,
                    run_id=run_id,
                    session_id=session_id,
                    model=self._config.provider.model,
                    record="" if self._record is None else f"{self._record.parent.name}/{self._record.name}",
                )
            )

    @asynccontextmanager
    async def _counted(self, run: Run) -> AsyncIterator[None]:
        assert run.context is not None
        run.context.log.add_sink(self._count)
        yield

    def _catch_up(self, events: Sequence[Event]) -> None:
        """Count what its record holds and the parent's does not."""
        known = dict(self._parent.log.facts.subagent_runs).get(f"run_{self._id}", 0)
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
            case VerdictGiven(usage=Usage() as usage):
                self._report(event.seq, usage)
            case _:
                pass

    def _report(self, at: int, usage: Usage) -> None:
        parent = self._parent
        if parent.log.finished:
            return  # it did not end when it was cancelled, and was left behind
        requests, self._requests = self._requests, 0
        run_id, call_id = f"run_{self._id}", self._call.call_id
        parent.log.append(SubagentUsed(call_id=call_id, run_id=run_id, at=at, requests=requests, usage=usage))
        if parent.budget is not None and self._config.budget is not parent.budget:
            parent.budget.spend(usage)
        if parent.limits.used_up(parent.log.facts.steps):
            for run in parent.children.values():
                run.cancel(CAUSE)


def _digest(call: RunContext) -> str:
    return blake2b(call.key.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def record_place(parent: str | None, name: str, call: RunContext) -> Path | None:
    """The path of a sub-agent's record, in a folder beside that of its parent; None if the parent has none."""
    if parent is None:
        return None
    record = Path(parent)
    return record.parent / (record.name.removesuffix(".jsonl") + SUBAGENTS_SUFFIX) / f"{name}-{_digest(call)}.jsonl"


def _joined(config: RunConfig, parent: Context) -> RunConfig:
    """The sub-agent's configuration with what it shares with its parent.

    It shares the parent's budget, unless it has one of its own or its policy would not end at it: what it uses is then
    only counted in the parent's. It shares the redaction of records, unless it has one of its own.
    """
    options, budget = config.record_options, parent.budget
    if options.redact is None and parent.redact is not None:
        config = replace(config, record_options=replace(options, redact=parent.redact))
    if config.budget is not None or budget is None:
        return config
    ends = all(STOP_REASONS[limit] in config.policy.guards for limit in budget.limits)
    return replace(config, budget=budget) if ends else config


def result_of(name: str, outcome: Outcome) -> str | CallOutcome:
    """The result of a call: the answer of a run that completed, else an error that says how it ended."""
    if outcome.status == "completed":
        return "\n".join([outcome.answer, *(f"Still open: {issue}" for issue in outcome.pending_issues)])
    ended = f"{name} did not complete its task: {outcome.status} ({outcome.stop_reason})"
    lines = [f"{ended}: {outcome.detail}" if outcome.detail else f"{ended}."]
    lines += [f"It asks: {question.text}" for question in outcome.questions]
    if outcome.questions:
        lines.append("It cannot be answered: call it again, with the answer in what you give it.")
    if outcome.answer:
        lines.append(f"What it wrote last:\n{outcome.answer}")
    return CallOutcome(content="\n".join(lines), status="error")


def check_subagents(config: RunConfig) -> None:
    """Refuse limits on cost that could not be measured, because the price of a sub-agent's model is not known."""
    for tool in config.toolbox.values():
        if isinstance(tool, SubagentTool):
            check_measurable(config.policy, config.budget, tool.config.provider, tool.config.known_prices)
            check_subagents(replace(tool.config, policy=config.policy, budget=config.budget))
