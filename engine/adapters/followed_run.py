"""One run of another framework's agent, as all adapters follow it: opened, guarded and ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, TypeVar
from uuid import uuid4

from ..check_answers import Check
from ..decision import Decision, Event, GoOn, Policy, Rule, Stop, ToolSpec, WrongUse
from ..decision.errors import did_you_mean, error_text
from ..decision.until_rules import policy_for_until
from ..follow import Cut, Follower
from ..follow.agent_check import AgentCheck
from ..follow.end_text import end_text
from ..follow.follower import followed_policy
from ..providers._logging import log_warning
from ..providers.clock import Clock
from ..providers.prices import Prices
from ..records.format import Redact
from ..until import Until, until_of
from ..user_errors import log_failure
from .check_thread import CheckThread

T = TypeVar("T")
MOST_RUNS = 1000
"""The most runs followed at the same time; beyond it, the oldest one is given up."""
OWN_OPTIONS = ("record", "stream", "until")
"""Options of adapters that are not passed to the follower unchanged."""
STATUSES_OF_ITS_OWN = ("completed", "awaiting_input")
"""Statuses with which a run, after a response without calls, needs no message from us."""


class AdapterOptions(TypedDict, total=False):
    """Keyword arguments that all adapters take in addition to the policy."""

    completion: Sequence[str]
    """Names of the tools that complete the task. Default: those with a usual name (`finish_task`, `submit`)."""
    question: Sequence[str]
    """Names of the tools that ask the user. Default: those with a usual name (`ask_user`, `clarify`)."""
    record: str | PathLike[str] | None
    """A folder, in which each run gets its own file; or a file that ends in `.jsonl`, to which the runs are appended in
    turn. A run that begins while another one writes that file gets a file next to it (`run-2.jsonl`). Default: no
    record."""
    stream: bool
    """Whether to ask the model for a stream even if the agent does not, as only a stream can be cut. Default: True."""
    redact: Redact | None
    """Applied to each text before it is written to the record. Default: none."""
    rules: Sequence[Rule]
    """Your own rules, which the policy names. Default: none."""
    prices: Prices | None
    """Prices of tokens, in US dollars. Default: the list that comes with endstop."""
    clock: Clock | None
    """The clock of times in records and of limits in seconds. Default: the system's."""
    until: Until | str | Check | None
    """The check that says when the work is done: the agent ends once it is met, and not before. Default: none."""
    on_event: Callable[[Event], None] | None
    """Called with each event of a run, in order. It must not wait or raise. Default: none."""


class FollowedRun:
    """One run of an agent. Its follower is opened and closed with it.

    follower: None if it could not be opened. streams: whether the adapter asks for streams, so that they can be cut.
    check: of its work; None without one.
    """

    def __init__(self, follower: Follower | None, *, streams: bool, check: AgentCheck | None = None) -> None:
        self.follower = follower
        self.streams = streams
        self.check = check
        self.begun = False
        """Whether the follower knows the prompt."""
        self.cut: Cut | None = None
        """Why the latest response was cut."""
        self.remind = ""
        """Text that is added only to the next request."""
        self.seen: set[Hashable] = set()
        """The messages that the follower knows, by the framework's name for them."""
        self.responses = 0
        """Responses that were made."""
        self.user_items = 0
        """Messages of the user that the follower knows, if they have no names."""
        self.nudges: list[tuple[int, str]] = []
        """The messages to the model, and the item of the agent's history that each precedes: for adapters whose
        framework manages the history."""
        self._acted: Decision | None = None
        self._check_thread: CheckThread | None = None
        """The thread of the check, if the agent runs without an event loop."""

    @property
    def broken(self) -> bool:
        """Whether following it failed: the agent goes on by itself."""
        return self.follower is None

    @property
    def record(self) -> Path | None:
        """The file that is being written."""
        return None if self.follower is None else self.follower.record

    def guarded(self, work: Callable[[Follower], T]) -> T | None:
        """Do something with the follower. If it fails, the run is followed no more, and a line is logged."""
        if self.follower is None:
            return None
        try:
            return work(self.follower)
        except Exception as error:
            self._give_up(error)
            return None

    def failed(self, error: Exception) -> None:
        """Report that a request failed or its stream broke off."""
        text = str(error)
        self.guarded(lambda follower: follower.failed(text))

    @contextmanager
    def streamed_response(self) -> Iterator[None]:
        """Surround the stream of one response, and report at its end whether it is complete or failed."""
        self.cut = None
        try:
            yield
        except Exception as error:
            self.failed(error)
            raise
        self.responses += 1
        self.guarded(lambda follower: follower.response())

    def next_decision(self) -> Decision | None:
        """Return the decision after a step if it is new. Its reminder is kept for the next request."""
        return self._new(self.guarded(lambda follower: follower.decide()))

    async def start(self) -> Stop | None:
        """Check the work before the first request. Return a Stop if nothing is left to do.

        Raises WrongUse if a command of the check cannot be executed.
        """
        return None if self.check is None else await self._guarded_check(self.check.start)

    async def decide(self) -> Decision | None:
        """Do the same as `next_decision`, with what the check says of the work."""
        return self.next_decision() if self.check is None else self._new(await self._guarded_check(self.check.decide))

    async def settle(self) -> None:
        """Check the work once more, because the agent ends by its own rule and cannot be asked to go on."""
        if self.check is not None:
            await self._guarded_check(self.check.settle)

    def wait_for_start(self) -> Stop | None:
        """Do the same as `start`, for an agent that runs without an event loop."""
        return None if self.check is None else self._thread.wait_for(self.start())

    def wait_for_decision(self) -> Decision | None:
        """Do the same as `decide`, for an agent that runs without an event loop."""
        return self.next_decision() if self.check is None else self._thread.wait_for(self.decide())

    def wait_until_settled(self) -> None:
        """Do the same as `settle`, for an agent that runs without an event loop."""
        if self.check is not None:
            self._thread.wait_for(self.settle())

    @property
    def _thread(self) -> CheckThread:
        if self._check_thread is None:
            self._check_thread = CheckThread()
        return self._check_thread

    def _new(self, decision: Decision | None) -> Decision | None:
        if decision is None or decision is self._acted:
            return None
        self._acted = decision
        self.remind = decision.remind if isinstance(decision, GoOn) else ""
        return decision

    def take_reminder(self) -> str:
        """Take the reminder for the request that is about to be made; empty if there is none."""
        remind, self.remind = self.remind, ""
        return remind

    def end_text(self, stop: Stop) -> str:
        """Return the agent's answer when a decision ends it."""
        return end_text(stop, self.follower)

    def mark(self, stop: Stop) -> dict[str, Any]:
        """Return the mark, for programs, of a message that was written here."""
        session = "" if self.follower is None else self.follower.session_id
        return {"stop": stop.reason, "status": stop.final_status, "detail": stop.detail, "session_id": session}

    def close(self) -> None:
        """Report that the agent has ended. A check that is still running is cancelled."""
        self._cancel_check()
        self.guarded(lambda follower: follower.close())

    async def _guarded_check(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Ask the check, as `guarded` asks the follower; a mistake of the user's is raised."""
        if self.follower is None:
            return None
        try:
            return await ask()
        except WrongUse:
            raise
        except Exception as error:
            self._give_up(error)
            return None

    def _cancel_check(self) -> None:
        if self._check_thread is not None:
            self._check_thread.close()
        elif self.check is not None:
            self.check.cancel()

    def _give_up(self, error: Exception) -> None:
        follower, self.follower, self.cut, self.remind = self.follower, None, None, ""
        if self.check is not None and self._check_thread is None:
            self.check.cancel()
        if follower is not None:
            follower.abandon()
        session = "" if follower is None else follower.session_id
        log_failure("an agent cannot be followed any more, and goes on", error, session_id=session)


class FollowedRuns:
    """The open runs of one adapter.

    agent: the framework's name, for the record. policy: as of `Follower`. Raises WrongUse if the policy or an option is
    not known.
    """

    def __init__(self, agent: str, policy: Policy | str, options: AdapterOptions) -> None:
        unknown = next(iter(options.keys() - AdapterOptions.__annotations__.keys()), None)
        if unknown is not None:
            raise WrongUse(f"unknown option {unknown!r}{did_you_mean(unknown, AdapterOptions.__annotations__)}")
        self.policy = followed_policy(policy)  # report a mistake where it is made, not in the middle of a run
        until = options.get("until")
        self.until = None if until is None else until_of(until)
        if self.until is not None:
            self.until.verify(())
            self.policy = policy_for_until(self.policy)
        self.streams = options.get("stream", True)
        record = options.get("record")
        self._record = None if record is None else Path(record)
        self._follow: dict[str, Any] = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
        self._follow["agent"] = agent
        self._open: OrderedDict[Hashable, FollowedRun] = OrderedDict()

    def open(self, key: Hashable, *, checked: bool = True) -> FollowedRun:
        """Open a run. An earlier one with this key is ended. checked: whether its work is checked, if there is a check.

        That of an agent that works for another one is not.
        """
        self.end(key)
        while len(self._open) >= MOST_RUNS:
            self.end(next(iter(self._open)))
        follower, until = self._follower(), self.until if checked else None
        check = None if follower is None or until is None else AgentCheck(until, until.work_folder(()), follower)
        run = self._open[key] = FollowedRun(follower, streams=self.streams, check=check)
        return run

    def get(self, key: Hashable) -> FollowedRun | None:
        """Return the open run with this key; None without one."""
        return self._open.get(key)

    def end(self, key: Hashable) -> None:
        """End the run with this key, if there is one."""
        run = self._open.pop(key, None)
        if run is not None:
            run.close()

    def close(self) -> None:
        """End all runs."""
        for key in list(self._open):
            self.end(key)

    def _follower(self) -> Follower | None:
        session_id = f"session_{uuid4().hex[:12]}"
        try:
            return Follower(self.policy, record=self._path(session_id), session_id=session_id, **self._follow)
        except Exception as error:
            log_warning("the record cannot be written", session_id=session_id, error=error_text(error))
        try:
            return Follower(self.policy, session_id=session_id, **self._follow)
        except Exception as error:
            log_failure("an agent cannot be followed, and goes on", error, session_id=session_id)
            return None

    def _path(self, session_id: str) -> Path | None:
        record = self._record
        if record is None:
            return None
        if record.suffix != ".jsonl":
            record.mkdir(parents=True, exist_ok=True)
            return record / f"{session_id}.jsonl"
        written = {run.record for run in self._open.values()}
        beside = (record.with_stem(f"{record.stem}-{number}") for number in range(2, MOST_RUNS + 2))
        return next(path for path in (record, *beside) if path not in written)


def offered(name: str, description: str, parameters: Any, *, completes_run: bool = False) -> ToolSpec:
    """Return a tool as the framework offers it. completes_run: whether the framework ends the run at a call of it."""
    schema = parameters if isinstance(parameters, dict) else {}
    kind = "completion" if completes_run else "ordinary"
    return ToolSpec(name=name, description=description, parameters={"type": "object", **schema}, kind=kind)  # type: ignore[arg-type]
