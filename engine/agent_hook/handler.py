"""Handles one event of an agent: reports it to the follower of its session, and returns what the agent is answered.

Whatever goes wrong, the agent goes on as without us: nothing is answered, and the log has a line. What holds an agent
up is answered only once the state is saved in which it stands, so that nothing is said for ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableSequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..decision import Stop, ToolCall, ToolResult, UserMessage
from ..decision import events as ev
from ..decision.repetition import call_mark_of
from ..follow.follower import Follower
from ..formats.agent_notes import split_words
from ..records.known_secrets import KnownSecrets, environment_secrets
from .accepted_answers import HookAnswer, answer_json
from .agent_proxy import ACTS, CHECKS, proxy_before
from .agent_session import BegunCall, HookState, Stage, session_of
from .circle_stages import NOTHING, after_step, before_call
from .failure_log import log_line
from .old_sessions import delete_old_sessions
from .payloads import HookEvent, read_event
from .start_settings import HookSettings

if TYPE_CHECKING:
    from .end_check import EndCheck


def answer_event(given: bytes, settings: HookSettings, environ: Mapping[str, str] = os.environ) -> bytes:
    """Return what an agent is answered that has written this to stdin; empty for nothing. Never raises."""
    try:
        event = read_event(given)
        if event is None:
            return b""
        answer = _answer(event, settings, environ)
        with suppress(OSError):  # the answer is not lost for it
            delete_old_sessions(settings.folder, settings.keep_days)
        if settings.watch:
            if answer != NOTHING:
                log_line(settings.folder, f"{event.name} of {event.session}: would have answered {_shown(answer)}")
            return b""
        said = answer_json(event, answer)
        return msgspec.json.encode(said) if said else b""
    except Exception as error:
        log_line(settings.folder, f"nothing was answered: {type(error).__name__}: {error}")
        return b""


def _shown(answer: HookAnswer) -> str:
    return "; ".join(f"{name}: {text}" for name, text in msgspec.structs.asdict(answer).items() if text)


def _answer(event: HookEvent, settings: HookSettings, environ: Mapping[str, str]) -> HookAnswer:
    session = session_of(event, settings.folder)
    with session.locked():
        state = session.load(settings.policy)
        follower = Follower(
            settings.policy,
            speaks=not settings.watch,
            model=event.model,
            record=session.record,
            session_id=session.id,
            agent=event.program,
            snapshot=state.follower,
        )
        try:
            follower.hide(KnownSecrets(environment_secrets(environ)))  # those of the agent
            handling = _Handling(event, settings, environ, state, follower, session.guarded)
            answer = handling.answer()
            state.follower = follower.snapshot()
            if follower.record is None:
                raise OSError(f"the record {session.record} cannot be written")
        finally:
            follower.abandon()
        session.save(state)
    return answer


class _Handling:
    """One event, in its session."""

    def __init__(
        self,
        event: HookEvent,
        settings: HookSettings,
        environ: Mapping[str, str],
        state: HookState,
        follower: Follower,
        guarded: Path,
    ) -> None:
        self._event, self._settings, self._environ = event, settings, environ
        self._state, self._follower, self._guarded = state, follower, guarded
        self._is_checked = bool(settings.until) and not event.subagent

    def answer(self) -> HookAnswer:
        """Report the event, and return what follows from it."""
        event = self._event
        if self._state.follower is None and event.kind == "tool_before":
            self._note_work()  # no hook was told of the prompt
        self._note_turn()
        match event.kind:
            case "prompt":
                return self._prompt()
            case "tool_before":
                return self._before_call()
            case "tool_after":
                return self._after_call()
            case "end" | "subagent_end" | "session_end":
                return self._end()

    # ---- prompts

    def _note_turn(self) -> None:
        """Begin anew if the agent works on another prompt, also where no hook was told of it."""
        turn, state = self._event.turn, self._state
        if turn and state.turn and turn != state.turn and self._event.kind != "prompt":
            self._begin_anew()
        state.turn = turn or state.turn

    def _begin_anew(self) -> None:
        self._report_step()
        if self._follower.running:
            self._follower.end()
        self._state.stage = Stage()
        self._state.check.sent_on = 0

    def _prompt(self) -> HookAnswer:
        text = UserMessage.of(split_words([self._event.text]).said).text
        told = self._state.check.told
        if not text.strip() or (told and told in self._event.text):
            return NOTHING  # Qwen Code says it before each request; what a hook says at an end comes back as a prompt
        self._begin_anew()
        self._follower.prompt(text)
        self._note_work()
        return NOTHING

    def _note_work(self) -> None:
        if self._is_checked:
            self._check().note_work()

    def _check(self) -> EndCheck:
        """Return the check of the session. What it needs is imported only here."""
        from .end_check import EndCheck

        state = self._state
        return EndCheck(self._settings, self._event.folder, self._follower, state.check, self._guarded)

    # ---- calls

    def _before_call(self) -> HookAnswer:
        event, state = self._event, self._state
        told = NOTHING
        if any(call.result is not None for call in state.begun):  # those without a result were not run
            told = self._report_step()
            state.untold = told.tell
        if state.stage.why and not self._speaks_for_us(ACTS):
            call = ToolCall(id="", name=event.tool, arguments=event.arguments)
            state.stage, answer = before_call(event, call, self._follower, state.stage)
            if answer.deny:
                return answer
            if answer != NOTHING:
                told = answer
        state.begun.append(BegunCall(tool=event.tool, arguments=event.arguments, id=event.call_id))
        return told

    def _after_call(self) -> HookAnswer:
        event, begun = self._event, self._state.begun
        call = _find(begun, event)
        if call is None:
            call = BegunCall(tool=event.tool, arguments=event.arguments, id=event.call_id)
            begun.append(call)
        call.result, call.failed = event.result, event.status == "error"
        if any(one.result is None for one in begun):
            return NOTHING  # others beside it are still running
        answer, untold, self._state.untold = self._report_step(), self._state.untold, ""
        return replace(answer, tell="\n\n".join(filter(None, (untold, answer.tell))))

    def _report_step(self) -> HookAnswer:
        """Report the calls that have ended as a step, and return what follows. Those without a result were not run."""
        state, follower = self._state, self._follower
        ended, state.begun = [call for call in state.begun if call.result is not None], []
        if not ended:
            return NOTHING
        calls = []
        for one in ended:
            state.calls += 1
            calls.append(ToolCall(id=f"call_{state.calls}", name=one.tool, arguments=one.arguments))
        follower.response("", calls)
        for call, one in zip(calls, ended, strict=True):
            follower.result(ToolResult(call.id, call.name, one.result or "", "error" if one.failed else "ok"))
        circle = any(call_mark_of(call) in state.stage.circle for call in calls)
        before = state.stage
        state.stage, answer = after_step(self._event, follower, before, circle)
        if state.stage.why and not before.why:
            self._alarm()
        if answer.end and self._speaks_for_us(ACTS):
            return NOTHING
        return answer

    def _alarm(self) -> None:
        """Record where a run of ours would have been stopped; only of a hook that watches, and so does nothing."""
        stop = self._follower.preview()
        if self._settings.watch and isinstance(stop, Stop):
            policy, steps = self._follower.policy.name, self._follower.facts.steps
            self._follower.log.append(
                ev.AlarmRaised(policy=policy, rule=stop.rule, reason=stop.reason, detail=stop.detail, step=steps)
            )

    # ---- the agent's end

    def _end(self) -> HookAnswer:
        event, state, follower = self._event, self._state, self._follower
        if event.kind == "subagent_end" and not event.subagent:
            return NOTHING  # of which one is not known
        self._report_step()
        if not follower.running:
            return NOTHING
        if event.kind == "end" and self._is_checked and not state.stage.ended and not self._speaks_for_us(CHECKS):
            answer = self._check().answer_end(event, self._environ)
            if answer.send_on:
                return answer
        else:
            answer = NOTHING
            if event.text and event.kind != "session_end":
                follower.response(event.text)
        follower.end()
        state.stage = Stage()
        return answer

    # ---- the proxy

    def _speaks_for_us(self, does: str) -> bool:
        """Return whether a proxy before the agent does this. It is asked once a session, when it matters."""
        state = self._state
        if state.proxy is None:
            state.proxy = proxy_before(self._settings.proxy, self._environ)
        return does in state.proxy.split()


def _find(begun: MutableSequence[BegunCall], event: HookEvent) -> BegunCall | None:
    """Return the call that has ended: by its id, or where the agent gives none, by what it is."""
    for call in begun:
        same = call.id or (call.tool, call.arguments) == (event.tool, event.arguments)
        if call.result is None and call.id == event.call_id and same:
            return call
    return None
