"""`Engine`: made once from a provider, tools and a policy, it creates any number of sessions and runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from copy import copy
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from .base.ids import new_session_id
from .budget import Budget
from .config import (
    Observers,
    RunConfig,
    check_groups,
    check_offered,
    fixed_system,
    policy_for_output,
    policy_of,
    provider_of,
    toolbox_of,
)
from .connections import connected
from .decision import Outcome, Policy, WrongUse
from .decision.deferred_patterns import compile_deferred
from .decision.errors import did_you_mean
from .decision.outcome import OutputT
from .decision.wrong_attributes import Refused
from .decision.wrong_calls import checked
from .dependencies import DepsFactory, check_deps
from .evaluation import Evaluator
from .hooks import SystemPrompt
from .journal import RecordTarget
from .message_history import read_history
from .option_groups import Hooks, ModelOptions, RecordOptions, Runtime
from .providers import Prices, Provider
from .run import Run
from .session import Session
from .subscribers import Middleware
from .tools import finish_task
from .tools.function_roles import check_functions
from .tools.run_context import DepsT, RunContext
from .tools.tool import Approval, Tool
from .user_message import Prompt
from .validation import check_output, check_prices, check_record

if TYPE_CHECKING:
    from .batch import Fleet
    from .check_answers import Check
    from .race import RaceResult
    from .tasks import Task
    from .until import Until


@checked
class Engine(Generic[DepsT, OutputT]):
    """Runner of agents with a provider, tools and a policy. Safe for many runs at once in one event loop.

        outcome = Engine("anthropic/claude-sonnet-4-5", tools=[look]).run_sync("What is the weather in Bonn?")

    `run` waits for the outcome, `start` also yields events, `session` begins a conversation, `run_many` runs a batch.

    provider: the source of responses, or the name of a model, as for `endstop run --model`.
    tools: the tools that the model may call. `presets` are added to them, except completion tools if `tools` has one.
    policy: when a run goes on, pauses and stops; a `Policy`, or the name of a shipped one (`POLICIES`).
    output: the type of `Outcome.output`: a pydantic model, a dataclass, a TypedDict, a msgspec Struct, or a list or a
        union of these. A completion tool with its schema then replaces the preset ones, and no text ends a run; see
        `tools/output.py`. None or `str`: the output is the answer's text.
    deps: a function that takes a run's `RunContext` and makes what its tools and hooks need, for runs that are given
        nothing with `run(..., deps=...)`; see `dependencies.py`.
    until: the check that says when the work is done: a command, a function of the run, or `Until(...)`; see `until.py`.
        The run ends once it is met, and no completion, text or question ends it before.
    system: the system prompt, or a function of the run that returns it before each step; None for the general one,
        "" for none.
    prices: prices of models, used if the provider reports no cost; None for list prices, see `providers/prices.py`.
    budget: a limit on the usage of all its runs, which other engines may share; see `budget.py`.
    hooks: your functions that influence a run: gates, a judge, an evaluator, rules.
    model_options: settings of each request: tool choice, temperature and others.
    record_options: redaction, and which data is stored in files next to a record.
    observers: subscribers that follow a run, and middleware that surrounds it, such as tracing.
    runtime: clock and executor of tools, for tests and replays.

    The fields of the groups are in `option_groups.py` and `config.py`. Raises WrongUse if two tools have the same name,
    the policy cannot work with the given tools and hooks, the output has no schema, or a limit on cost could never be
    measured. As an async context manager it keeps the provider's connections open between runs.
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Engine", "await")
        __iter__ = Refused("Engine", "for")
        __aiter__ = Refused("Engine", "async for")
        __enter__ = __exit__ = Refused("Engine", "with")
        __call__ = Refused("Engine", "()")

    @overload
    def __init__(
        self,
        provider: Provider | str,
        *,
        tools: Sequence[Tool] = ...,
        presets: Sequence[Tool] = ...,
        output: type[OutputT] | UnionType | None = ...,
        deps: DepsFactory[DepsT] | None = ...,
        policy: Policy | str = ...,
        until: str | Check | Until | None = ...,
        system: str | SystemPrompt | None = ...,
        prices: Prices | None = ...,
        budget: Budget | None = ...,
        hooks: Hooks = ...,
        model_options: ModelOptions = ...,
        record_options: RecordOptions = ...,
        observers: Observers = ...,
        runtime: Runtime = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        provider: Provider | str,
        *,
        tools: Sequence[Tool] = ...,
        presets: Sequence[Tool] = ...,
        output: type[OutputT] | UnionType | None = ...,
        deps: Callable[[RunContext[None]], DepsT],
        policy: Policy | str = ...,
        until: str | Check | Until | None = ...,
        system: str | SystemPrompt | None = ...,
        prices: Prices | None = ...,
        budget: Budget | None = ...,
        hooks: Hooks = ...,
        model_options: ModelOptions = ...,
        record_options: RecordOptions = ...,
        observers: Observers = ...,
        runtime: Runtime = ...,
    ) -> None: ...

    def __init__(
        self,
        provider: Provider | str,
        *,
        tools: Sequence[Tool] = (),
        presets: Sequence[Tool] = (finish_task,),
        output: type[OutputT] | UnionType | None = None,
        deps: DepsFactory[DepsT] | Callable[[RunContext[None]], DepsT] | None = None,
        policy: Policy | str = Policy(),  # noqa: B008  frozen
        until: str | Check | Until | None = None,
        system: str | SystemPrompt | None = None,
        prices: Prices | None = None,
        budget: Budget | None = None,
        hooks: Hooks = Hooks(),  # noqa: B008  frozen, as the groups that follow
        model_options: ModelOptions = ModelOptions(),  # noqa: B008
        record_options: RecordOptions = RecordOptions(),  # noqa: B008
        observers: Observers = Observers(),  # noqa: B008
        runtime: Runtime = Runtime(),  # noqa: B008
    ) -> None:
        compile_deferred()  # so that no run waits for a pattern
        provider = provider_of(provider)
        policy = policy_of(policy)
        check_functions(system=None if isinstance(system, str) else system)
        check_prices(prices)
        check_deps(deps)
        check_groups(
            hooks=hooks,
            model_options=model_options,
            record_options=record_options,
            observers=observers,
            runtime=runtime,
        )
        if runtime.replay is None:  # a replay offers the recorded tools under the recorded policy
            check_offered(tools, presets)
        output_type = None
        if output is not None:
            from .tools.output import OutputTool, output_type_of

            output_type = output_type_of(output)
            if output_type is not None and runtime.replay is None:
                check_output(policy, hooks, model_options.tool_choice, tools)
                policy, tools = policy_for_output(policy), [*tools, OutputTool(output_type)]
        toolbox = toolbox_of(tools, presets, policy)
        self.config = RunConfig(
            provider=provider,
            policy=policy,
            toolbox=toolbox,
            system=fixed_system(system, toolbox),
            system_function=None if system is None or isinstance(system, str) else system,
            own_system=system is not None,
            prices=Prices() if prices is None else prices,
            budget=budget,
            hooks=hooks,
            model_options=model_options,
            record_options=record_options,
            observers=observers,
            runtime=runtime,
            output=output_type,
            deps=deps,
        )
        """Everything that its runs are made from."""
        self.config.check()
        if until is not None:
            self.config = self._config_with(until)
        if any(tool.inner is not None for tool in toolbox.values()):
            from .subagents import check_subagents

            check_subagents(self.config)

    async def __aenter__(self) -> Engine[DepsT, OutputT]:
        self._connections = self.connected()
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._connections.__aexit__(None, None, None)

    def session(
        self,
        session_id: str | None = None,
        *,
        busy: Literal["refuse", "queue"] = "refuse",
        record: RecordTarget = None,
        drain: bool = False,
        owner: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        history: Iterable[Any] = (),
        until: str | Check | Until | None = None,
    ) -> Session[DepsT, OutputT]:
        """Return a new conversation.

        session_id: a unique id that you choose. To go on with a recorded session, use `resume`.
        busy: what a second run does while one is in progress: `refuse` raises WrongUse, `queue` waits for its turn.
        history: messages before its first prompt: `session.messages()` of another session, or messages in OpenAI's or
            Anthropic's form; see `message_history.py`. Raises WrongUse if the conversation cannot continue from them.
        record: a new file for its events, as JSON Lines; or a `Journal` (`journal.py`). A run raises WrongUse if the
            file holds another session.
        drain: after a response was cut, read (and pay for) the rest of it, for at most a minute: the outcome and the
            record then say what the cut would have saved.
        until: the check of its runs in place of the engine's.
        owner, metadata: owner of the conversation, and other data about it. Your functions get both in `RunContext`.
        """
        if busy not in ("refuse", "queue"):
            raise WrongUse(f"busy is {busy!r}{did_you_mean(str(busy), ('refuse', 'queue'))}")
        if session_id is not None and not isinstance(session_id, str):
            raise WrongUse(f"session_id is {session_id!r}: write a text, or leave it out")
        if not isinstance(owner, str | None) or not isinstance(metadata, Mapping | None):
            what = (
                f"owner is {owner!r}: write a text"
                if not isinstance(owner, str | None)
                else "metadata is not a mapping"
            )
            raise WrongUse(f"{what}, or leave it out")
        check_record(record)
        id = session_id or new_session_id()
        session: Session[DepsT, OutputT] = Session(
            self.config if until is None else self._config_with(until),
            id,
            busy=busy,
            record=record,
            drain=drain,
            history=read_history(history),
        )
        session.owner, session.metadata = owner, dict(metadata or {})
        return session

    def resume(
        self,
        record: str | os.PathLike[str],
        *,
        busy: Literal["refuse", "queue"] = "refuse",
        drain: bool = False,
        owner: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session[DepsT, OutputT]:
        """Return the session of a record, which goes on in the same file, after a restart, too.

        record: the path of the file. The session has its messages, usage and open questions: answer or approve these,
            continue a run whose process was killed with `start_resumed`, or give the next prompt.
        busy, drain, owner, metadata: as in `session`. A record does not hold them.

        Raises WrongUse if the file is not the record of one session, has lost events, or is being written.
        """
        from .session_record import read_session_record

        recorded = read_session_record(record)
        session = self.session(
            recorded.header.session_id, busy=busy, record=record, drain=drain, owner=owner, metadata=metadata
        )
        session.load(recorded.runs)
        return session

    def _config_with(self, until: str | Check | Until) -> RunConfig:
        from .until import until_of

        return self.config.with_until(until_of(until))

    def start(
        self,
        prompt: Prompt,
        *,
        deps: DepsT | None = None,
        history: Iterable[Any] = (),
        record: str | os.PathLike[str] | None = None,
        drain: bool = False,
    ) -> Run[OutputT]:
        """Return a run in a new session. Enter it with `async with` and read its events.

        prompt: a text, or texts and images, as in `["What is this?", Image(url=...)]`.
        deps: the dependencies of this run: tools and hooks get them as `RunContext.deps`. They are never recorded.
        history, record, drain: the messages before the prompt, and a new file for the events, see `session`.
        """
        return self.session(record=record, drain=drain, history=history).start(prompt, deps=deps)

    async def run(
        self,
        prompt: Prompt,
        *,
        deps: DepsT | None = None,
        history: Iterable[Any] = (),
        record: str | os.PathLike[str] | None = None,
        drain: bool = False,
    ) -> Outcome[OutputT]:
        """Start a run as `start` does and wait for its outcome. If the caller is cancelled, so is the run.

        prompt, deps, history, record, drain: as in `start`.
        """
        async with self.start(prompt, deps=deps, history=history, record=record, drain=drain) as run:
            return await run.wait()

    def run_sync(
        self,
        prompt: Prompt,
        *,
        deps: DepsT | None = None,
        history: Iterable[Any] = (),
        record: str | os.PathLike[str] | None = None,
        drain: bool = False,
    ) -> Outcome[OutputT]:
        """Run as `run` does, for programs without `async`, in a new event loop that is closed afterwards.

        prompt, deps, history, record, drain: as in `start`.

        Ctrl-C cancels the run, which writes its end to the record, and is then raised. Raises WrongUse where an event
        loop is running, as in a notebook or in an async function: write `await engine.run(...)` there.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise WrongUse("an event loop is running, as in a notebook or an async function: `await engine.run(...)`")
        return asyncio.run(self.run(prompt, deps=deps, history=history, record=record, drain=drain))

    def run_many(
        self,
        tasks: Iterable[str | Task],
        *,
        providers: Provider | str | Sequence[Provider | str] | None = None,
        limit: int = 10,
        record: str | os.PathLike[str] | None = None,
        keep: bool = True,
        drain: bool | float = False,
    ) -> Fleet[OutputT]:
        """Return a fleet of runs, `limit` at once. Enter it with `async with` and read its results as they finish.

        tasks: prompts, or `Task` for one with an id, a provider, an evaluator or dependencies.
        providers: take turns; by default the engine's provider. A task may have a separate one.
        record: a folder in which each run gets a record under a unique name.
        keep: keep all outcomes in memory, for `Fleet.outcomes`; False keeps only results that are not read yet.
        drain: read, and pay for, the rest of responses that were cut, so that the summary says what cuts save. A
            number from 0 to 1 does so for that share of the tasks; what the others saved is estimated from those.
        """
        from .batch import fleet_of

        return fleet_of(self.config, tasks, providers, limit, record, keep, drain)

    async def race(
        self,
        prompt: Prompt,
        providers: Sequence[Provider | str],
        *,
        compare: bool = False,
        deps: DepsT | None = None,
        record: str | os.PathLike[str] | None = None,
    ) -> RaceResult[OutputT]:
        """Run this prompt with each provider at once; the first good completion wins and ends the others.

        providers: two or more; one that is given twice races twice.
        compare: let all of them run to their end.
        deps: the dependencies of each run.
        record: a folder for the records, one for each run.
        """
        from .race import racing

        return await racing(self.config, prompt, providers, compare, record, deps).result()

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        prompt: Callable[..., Any] | None = None,
        reads: bool = False,
        timeout: float | None = None,
        approval: Approval = False,
    ) -> Tool:
        """Return a tool for another engine. Each call of it is a run of this engine; the run's answer is the result.

        The usage of such a run also counts in the calling run, and the run is cancelled when the calling run ends.
        Several calls of one response run at the same time. docs/guides/subagents.md has the details.

        name, description: what the other engine's model reads about the tool.
        prompt: a function that makes the prompt from the arguments, which its signature declares. By default the
            one argument is `prompt`, a text.
        reads: whether the runs only read, so that one may start while the response still streams, and be run again.
        timeout: seconds for one call; None for no limit except those of both policies.
        approval: whether a call needs the user's approval before it runs, as with `@tool`.
        """
        from .subagents import SubagentTool

        return SubagentTool(
            self.config,
            name=name,
            description=description,
            prompt=prompt,
            reads=reads,
            timeout=timeout,
            approval=approval,
        )

    def with_provider(self, provider: Provider | str, *, evaluate: Evaluator | None = None) -> Engine[DepsT, OutputT]:
        """Return an engine like this one with another provider.

        evaluate: replaces the evaluator, too; None keeps it.
        """
        return self._with(self.config.with_provider(provider, evaluate))

    def with_middleware(self, *middleware: Middleware) -> Engine[DepsT, OutputT]:
        """Return an engine like this one whose runs also enter this middleware, after (inside) the engine's own."""
        return self._with(self.config.with_middleware(*middleware))

    def connected(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager that keeps the provider's connections open."""
        return connected(self.config.provider)

    def _with(self, config: RunConfig) -> Engine[DepsT, OutputT]:
        other = copy(self)
        other.config = config
        return other
