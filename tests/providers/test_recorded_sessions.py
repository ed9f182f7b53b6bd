"""Recorded sessions of an agent, replayed to the whole engine through HTTP: steps, calls, texts and the stop reason."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from endstop import Completion, Engine, Session, Tool
from endstop.decision import AssistantMessage, Outcome, Policy, ToolResult, UserMessage, fold
from endstop.decision.events import CompletionAccepted, ResponseFinished, StepFinished, ToolExecutionStarted
from endstop.decision.facts import Facts
from endstop.testing import check_transcript
from endstop.tools import attempt_completion

from ..shared_data import ABSENT, SESSIONS, Said, events_of_sse, plain, said_by_chat, serve_fixture, sessions
from .voices import VOICES, Voice, direct

FOLDER = SESSIONS / "cline" / "session"


@dataclass
class Ends:
    """What a person reads in a recording: its stop reason, its steps, and the calls that are run."""

    reason: str
    steps: int
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: str = ""


APPEND = {"command": 'echo "sup" >> /tmp/testFile.txt', "requires_approval": False}
DATE = {"command": "date", "requires_approval": False}
WEZTERM = "/Users/REDACTED_USERpaulus/.wezterm.lua"
EXPECTED = {
    "file-edit-auto-approve": Ends("completed", 2, [("execute_command", APPEND)]),
    "headless-json": Ends("text_final", 1, answer="Why don\u2019t programmers like nature?\n\nIt has too many bugs."),
    "headless-piped-stdin": Ends("text_final", 1, answer="horse"),
    "headless-yolo-basic": Ends(
        "text_final", 1, answer="Why did the developer go broke?  \nBecause he used up all his cache. 😄"
    ),
    "hello-and-goodbye": Ends("completed", 1, answer="Hello! 👋"),
    "per-turn-metrics": Ends(
        "text_final", 2, [("run_commands", {"commands": ["echo hello"]})], "The command ran successfully."
    ),
    "read-file": Ends("completed", 2, [("read_file", {"path": WEZTERM})]),
    "safe-command-no-permission": Ends("completed", 2, [("execute_command", DATE)]),
    "task-complete-exit": Ends("completed", 1, answer="Hello! 👋"),
}

CLINE = {path.stem: path for path in sessions("cline") if path.stem in EXPECTED}


def said_in(name: str) -> list[Said]:
    """The responses of a recording, read naively."""
    return [said_by_chat(events_of_sse(reply.pieces)) for reply in serve_fixture().load(CLINE[name])]


class Played:
    """One run over a recording, with tools of the names that it calls."""

    def __init__(self, name: str, voice: Voice = direct, **options: Any) -> None:
        self.name = name
        self.voice = voice
        self.options = options
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.events: list[Any] = []

    async def run(self, *prompts: str, **serving: Any) -> Outcome:
        """The outcome of the last of these prompts, all in one session."""
        replies = serve_fixture().load(CLINE[self.name])
        async with serve_fixture().FixtureServer(replies, **serving) as server:
            engine = Engine(self.voice(server.url, FOLDER), tools=self.tools(), presets=(), **self.options)
            self.session: Session = engine.session()
            for prompt in prompts or ("go",):
                async with self.session.start(prompt) as run:
                    self.events = [event async for event in run]
        self.requests = server.requests
        check_transcript(self.session.transcript.messages)
        return run.outcome

    @property
    def responses(self) -> list[ResponseFinished]:
        return [event for event in self.events if isinstance(event, ResponseFinished)]

    def tools(self) -> list[Tool]:
        async def execute_command(command: str, requires_approval: bool) -> str:
            return self.note("execute_command", command=command, requires_approval=requires_approval)

        async def run_commands(commands: list[str]) -> str:
            return self.note("run_commands", commands=commands)

        async def read_file(path: str, task_progress: str = "") -> str:
            return self.note("read_file", path=path)

        async def attempt_completion(result: str, task_progress: str = "") -> Completion:
            return Completion(answer=result)

        ordinary = [Tool(function, description="Do it.") for function in (execute_command, run_commands, read_file)]
        return [*ordinary, Tool(attempt_completion, description="Complete the task.", kind="completion")]

    def note(self, name: str, **arguments: Any) -> str:
        self.ran.append((name, arguments))
        return f"{name} was run"


def recordings(*reasons: str) -> list[Any]:
    """Names of the recordings that end for one of these reasons."""
    return [name for name in CLINE if EXPECTED[name].reason in reasons] or [pytest.param("", id="absent", marks=ABSENT)]


names = pytest.mark.parametrize("name", recordings("completed", "text_final"))
voices = pytest.mark.parametrize("voice", VOICES)


@names
@voices
@pytest.mark.parametrize("split", [0, 7])
async def test_a_recorded_session_ends_as_it_should(name: str, voice: Voice, split: int) -> None:
    expected, said = EXPECTED[name], said_in(name)
    played = Played(name, voice)
    outcome = await played.run(split=split)
    completion = said[expected.steps - 1].calls
    answer = expected.answer or json.loads(completion[0][2])["result"]
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("completed", expected.reason, answer)
    assert (outcome.steps, outcome.requests) == (expected.steps, expected.steps)
    assert played.ran == expected.ran
    assert len(played.requests) == expected.steps


@names
@voices
@pytest.mark.parametrize("split", [0, 7])
async def test_each_response_of_a_recorded_session_is_what_stands_in_it(name: str, voice: Voice, split: int) -> None:
    played = Played(name, voice)
    await played.run(split=split)
    said = said_in(name)
    for response, recorded in zip(played.responses, said, strict=False):
        message = response.message
        assert message.text == recorded.text
        assert plain((call.id, call.name, call.arguments) for call in message.calls) == plain(recorded.calls)
        assert response.truncated is None
        if response.cut_at is None:
            assert response.raw_finish == response.finish == recorded.finish
            assert response.usage.input_tokens == recorded.input_tokens
            assert response.usage.output_tokens == recorded.output_tokens
            assert not response.usage.estimated
        else:
            assert response.cut_at == recorded.calls[-1][0]
            assert response.usage.estimated
            assert response.usage.output_tokens > 0


@names
async def test_a_run_over_a_recorded_session_ends_by_the_completion_call_or_by_text(name: str) -> None:
    played = Played(name)
    outcome = await played.run()
    accepted = [event.call_id for event in played.events if isinstance(event, CompletionAccepted)]
    cut_by = [event.cut_by for event in played.events if isinstance(event, StepFinished)]
    last = played.responses[-1].message
    if outcome.stop_reason == "completed":
        assert accepted == [last.calls[-1].id]
        assert cut_by[-1] == played.responses[-1].cut_at == accepted[0]
    else:
        assert accepted == []
        assert (last.calls, last.text) == ((), outcome.answer)
    assert not any(cut_by[:-1])
    facts = Facts()
    for event in played.events:
        facts = fold(facts, event)
    assert (facts.steps, facts.usage) == (outcome.steps, outcome.usage)


@names
async def test_without_the_inner_cancel_a_recorded_session_ends_the_same_and_its_usage_is_known(name: str) -> None:
    played = Played(name, policy=Policy(inner_cancel=False))
    outcome = await played.run()
    expected, said = EXPECTED[name], said_in(name)[: EXPECTED[name].steps]
    assert (outcome.stop_reason, outcome.steps) == (expected.reason, expected.steps)
    assert played.ran == expected.ran
    assert not outcome.usage.estimated
    assert outcome.usage.input_tokens == sum(response.input_tokens for response in said)
    assert outcome.usage.output_tokens == sum(response.output_tokens for response in said)
    assert outcome.usage.cached_tokens == sum(response.cached_tokens for response in said)
    assert [response.finish for response in played.responses] == [response.finish for response in said]


@names
async def test_the_next_request_of_a_recorded_session_answers_every_call_of_the_last_response(name: str) -> None:
    played = Played(name)
    await played.run()
    for request, said in zip(played.requests[1:], said_in(name), strict=False):
        *_, message, result = request["body"]["messages"]
        (id, called, arguments) = said.calls[0]
        assert message["role"] == "assistant"
        assert message["tool_calls"] == [
            {"id": id, "type": "function", "function": {"name": called, "arguments": arguments}}
        ]
        assert result == {"role": "tool", "tool_call_id": id, "content": f"{called} was run"}


@ABSENT
@voices
async def test_a_session_goes_on_after_a_completion_with_the_next_recorded_response(voice: Voice) -> None:
    played = Played("hello-and-goodbye", voice)
    outcome = await played.run("Say hello", "Say goodbye")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "Goodbye! 👋", 1)
    messages = played.session.transcript.messages[1:]
    assert [type(message) for message in messages] == [UserMessage, AssistantMessage, ToolResult] * 2
    assert [message.text for message in messages if isinstance(message, UserMessage)] == ["Say hello", "Say goodbye"]


@pytest.mark.parametrize("name", recordings("completed"))
async def test_the_preset_completion_tool_takes_the_recorded_call(name: str) -> None:
    played = Played(name)
    played.tools = lambda: [*Played.tools(played)[:-1], attempt_completion]  # type: ignore[method-assign]
    outcome = await played.run()
    last = EXPECTED[name].steps - 1
    assert (outcome.stop_reason, outcome.steps) == ("completed", last + 1)
    assert outcome.answer == json.loads(said_in(name)[last].calls[0][2])["result"]


@names
async def test_a_recorded_session_whose_connection_breaks_fails_and_runs_nothing_of_the_broken_response(
    name: str,
) -> None:
    replies = serve_fixture().load(CLINE[name])
    first = len(replies[0].pieces)
    played = Played(name, policy=Policy(inner_cancel=False))
    outcome = await played.run(cut_after=first // 2)
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("failed", "provider_error", 1)
    assert played.ran == []
    assert not any(isinstance(event, ToolExecutionStarted | CompletionAccepted) for event in played.events)
    whole = said_in(name)[0].text
    assert whole.startswith(outcome.answer)
    assert outcome.answer_from == ("partial_text" if outcome.answer else "")
