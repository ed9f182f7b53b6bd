"""Part E: mistakes are told, not swallowed. Each is refused at once, in words that say what to write instead."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop import Budget, Engine, Hooks, ModelOptions, Observers, RecordOptions, Redaction, Run, Tool, tool
from endstop.decision import Limits, Policy, WrongUse
from endstop.providers import LiteLLM, OpenAICompatible, Scripted, call
from endstop.replay import replay

from ..console import endstop

URL = "http://127.0.0.1:9/v1"
BOUND = 60.0
"""Seconds that a refusal may take; none waits for anything."""
DONE: list[str] = []


@tool
def look(place: str) -> str:
    """Look at a place."""
    return place


def plain(place: str) -> str:
    """Look at a place."""
    return place


async def asynchronous_parts(place: str) -> AsyncIterator[str]:
    """Give the parts of a place."""
    yield place


def parts(place: str) -> Iterator[str]:
    """Give the parts of a place."""
    yield place


def deploys(question: str) -> str:
    """Ask whether to deploy."""
    DONE.append(question)
    return "deployed"


def asks_by_itself(question: str) -> str:
    """Ask the user."""
    return input(question)


class Shelf:
    """Holds things."""

    def take(self, place: str) -> str:
        """Take a thing."""
        return place


def engine(**options: Any) -> Engine:
    return Engine(Scripted(lambda request: "ok"), **options)


async def two_at_once() -> None:
    session = engine(tools=[look]).session()
    await asyncio.gather(session.run("one"), session.run("two"))


async def entered_twice() -> None:
    run = engine().start("x")
    async with run:
        await run.wait()
    async with run:
        pass


async def asked_too_early() -> None:
    run: Run = engine().start("x")
    assert run.outcome


async def say_a_list() -> None:
    async with engine().start("x") as run:
        run.say(["more", 3])  # type: ignore[arg-type]


async def fleet_of_a_text() -> None:
    async with engine().run_many("one prompt"):
        pass


async def result_of(make: Callable[[], Any]) -> Any:
    made = make()
    return await made if inspect.isawaitable(made) else made


MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # what is said to the model
    "an empty list as prompt": (lambda: engine().run([]), ("prompt is empty",)),
    "a number in a prompt": (lambda: engine().run(["x", 3]), ("prompt[1]", "int", "Image(")),  # type: ignore[list-item]
    "bytes in a prompt": (lambda: engine().run([b"x"]), ("prompt[0]", "Image(data=...)")),  # type: ignore[list-item]
    "messages as prompt": (lambda: engine().run([{"role": "user", "content": "x"}]), ("history=",)),  # type: ignore
    "a text as history": (lambda: engine().run("x", history="y"), ("history", "list of messages")),
    "texts as history": (lambda: engine().session(history=["y"]), ("history[0]", "OpenAI's", "Anthropic's")),
    "a form that is not known": (lambda: engine().session().messages("anthropics"), ("'anthropic'",)),  # type: ignore
    "no prompt": (lambda: engine().run(None), ("prompt is None", "write a text")),  # type: ignore[arg-type]
    "a prompt in bytes": (lambda: engine().run(b"x"), ("bytes", "decode()")),  # type: ignore[arg-type]
    "an empty prompt": (lambda: engine().run(" \n"), ("prompt is empty",)),
    "a number in a prompt of a race": (lambda: engine().race([3], [Scripted("a")]), ("prompt[0]",)),  # type: ignore
    "a number in a list said to a run": (say_a_list, ("message[1]", "write a text")),
    "a system prompt that takes no argument": (
        lambda: engine(system=lambda: "x"),
        ("system: <lambda>() takes no arguments", "system(run)"),
    ),
    "a list as system prompt": (lambda: engine(system=["x"]), ("system", "list", "one text")),
    # settings of requests
    "the model as a setting": (
        lambda: engine(model_options=ModelOptions(settings={"model": "other"})),
        ("'model'", "OpenAICompatible('NAME'"),
    ),
    "the model as a setting of a provider": (
        lambda: OpenAICompatible("m", URL, settings={"model": "other"}),
        ("'model'", "where the provider is made"),
    ),
    "messages as a setting": (
        lambda: engine(model_options=ModelOptions(settings={"messages": []})),
        ("'messages'", "run(...)"),
    ),
    "tools as a setting": (
        lambda: engine(model_options=ModelOptions(settings={"tools": []})),
        ("'tools'", "Engine(provider, tools=[...])"),
    ),
    "streaming as a setting": (
        lambda: engine(model_options=ModelOptions(settings={"stream": False})),
        ("'stream'", "leave it out"),
    ),
    "the key as a setting": (
        lambda: engine(model_options=ModelOptions(settings={"api_key": "k"})),
        ("'api_key'", "settings are stored in records"),
    ),
    "settings that are a text": (
        lambda: engine(model_options=ModelOptions(settings="temperature=1")),
        ("settings", "{'temperature': 0}"),
    ),
    "a setting without a form in JSON": (
        lambda: engine(model_options=ModelOptions(settings={"stop": object()})),
        ("'stop'", "JSON"),
    ),
    # tools
    "a generator as a tool's check": (lambda: tool(check=parts)(look.function), ("generator", "`return`")),
    "an asynchronous generator as a gate": (
        lambda: engine(hooks=Hooks(gates=[asynchronous_parts])),
        ("generator", "`return`"),
    ),
    "a question that acts": (
        lambda: tool(kind="question")(deploys),
        ("'deploys'", "body that acts", "`return question`", "kind 'ordinary'"),
    ),
    "a question that asks by itself": (lambda: tool(kind="question")(asks_by_itself), ("body that acts", "paused")),
    "a plain function as tool": (lambda: engine(tools=[plain]), ("is not a tool", "@tool")),
    "one tool without a list": (lambda: engine(tools=look), ("tools=[look]",)),
    "two tools of one name": (lambda: engine(tools=[look, look]), ("'look'", "renamed(")),
    "a tool without a description": (lambda: tool(lambda: 1, name="one"), ("'one'", "docstring")),
    "a tool without a name": (lambda: engine(tools=[tool(lambda: 1, description="x")]), ("'<lambda>'", "name=")),
    "a name that no model can call": (
        lambda: engine(tools=[tool(name="read file")(plain)]),
        ("'read file'", "letters, digits"),
    ),
    "a method as tool": (lambda: tool(Shelf.take), ("'take' is a method", "tool(thing.take)")),
    "a tool of a tool": (lambda: tool(look), ("is already a tool",)),
    "an unknown kind": (lambda: tool(kind="complete")(plain), ("'complete'", "did you mean 'completion'")),  # type: ignore
    "a misspelt option": (lambda: tool(decription="x"), ("'decription'", "did you mean 'description'")),
    "a name where the function stands": (lambda: tool("look"), ("@tool(name='look')",)),  # type: ignore[call-overload]
    "a timeout of nothing": (lambda: tool(timeout=0)(plain), ("timeout is 0", "seconds above 0")),
    "arguments without names": (lambda: Tool(lambda *a: 1, name="f", description="x"), ("*a", "name each argument")),
    # engine and policy
    "a class as provider": (lambda: Engine(Scripted), ("Scripted is a class", "Scripted(...)")),  # type: ignore
    "a misspelt name of a policy": (
        lambda: engine(policy="strcit"),
        ("'strcit'", "did you mean 'strict'", "chat, agent"),
    ),
    "a mapping as policy": (lambda: engine(policy={"text": "final"}), ("policy_from(",)),
    "a mapping as limits": (lambda: Policy(limits={"steps": 3}), ("limits is", "Limits(...)")),  # type: ignore[arg-type]
    "a limit in quotes": (lambda: Limits(steps="3"), ("steps is '3'", "whole number")),  # type: ignore[arg-type]
    "a gate without a list": (lambda: engine(hooks=Hooks(gates=plain)), ("gates=[",)),
    "a command as gate": (lambda: engine(hooks=Hooks(gates=["pytest"])), ("'pytest' is not a function",)),
    "a subscriber that yields": (
        lambda: engine(observers=Observers(subscribers=[parts])),
        ("subscribers", "generator"),
    ),
    "a mapping as prices": (lambda: engine(prices={"m": 1}), ("prices=Prices(",)),
    "a function as rule": (lambda: engine(hooks=Hooks(rules=[plain])), ("not a Rule", "Rule(name=")),
    "an unknown tool choice": (lambda: engine(model_options=ModelOptions(tool_choice="any")), ("'any'", "required")),
    "redaction switched on by True": (
        lambda: engine(record_options=RecordOptions(redact=True)),
        ("redact", "not a function"),
    ),
    "one word as words of a redaction": (lambda: Redaction(words="Jane"), ("words=['Jane']",)),
    "a budget that limits nothing": (lambda: Budget(), ("cost_usd",)),
    # providers
    "an address without a scheme": (lambda: OpenAICompatible("m", "127.0.0.1:9/v1"), ("http://host:port/v1",)),
    "an address with too much": (lambda: OpenAICompatible("m", f"{URL}/chat/completions"), ("leave out",)),
    "model and address the wrong way round": (
        lambda: OpenAICompatible(URL, "m"),
        ("is not a URL", "http://host:port/v1"),
    ),
    "no model": (lambda: LiteLLM(""), ("model is ''", "LiteLLM('openai/gpt-4o')")),
    # sessions and runs
    "an unknown way to be busy": (lambda: engine().session(busy="queu"), ("did you mean 'queue'",)),  # type: ignore
    "two runs of a session at once": (two_at_once, ("is busy", "busy='queue'")),
    "a run entered twice": (entered_twice, ("a run happens once",)),
    "an outcome before the end": (asked_too_early, ("has not begun", "await run.wait()")),
    "an answer to no question": (lambda: engine().session().answer("q", "yes"), ("no question 'q'", "open: none")),
    "a folder as record": (lambda: engine().run("x", record="."), ("'.', a folder", "name a file")),
    "True as record": (lambda: engine().run("x", record=True), ("record is True", "path of a file")),  # type: ignore
    "one text as tasks": (fleet_of_a_text, ("[prompt]",)),
    "one provider as racers": (lambda: engine().race("x", Scripted("a")), ("two or more",)),  # type: ignore[arg-type]
    "one racer": (lambda: engine().race("x", [Scripted("a")]), ("two models or more",)),
    "a replay of nothing": (lambda: replay("no such.jsonl"), ("no such.jsonl", "No such file")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_E_a_mistake_raises_wrong_use_that_says_what_to_write(mistake: str) -> None:
    make, words = MISTAKES[mistake]
    with pytest.raises(WrongUse) as refused:
        await asyncio.wait_for(result_of(make), BOUND)
    for word in words:
        assert word in str(refused.value)


def test_E_forty_mistakes_and_more_stand_in_the_table() -> None:
    assert len(MISTAKES) >= 40


async def test_E_tools_for_a_replay_that_runs_none_are_refused(tmp_path: Path) -> None:
    record = tmp_path / "session.jsonl"
    await Engine(Scripted([call("look", place="here")], "Seen."), tools=[look]).run("Look.", record=record)
    with pytest.raises(WrongUse, match="live_tools=True"):
        await replay(record, tools=[look])
    assert (await replay(record, tools=[look], live_tools=True)).same


async def test_E_a_question_may_compose_its_text() -> None:
    @tool(kind="question")
    def choose(question: str, options: list[str]) -> str:
        """Let the user choose."""
        return "\n".join([question.strip(), *(f"- {one}" for one in options)])

    @tool(kind="question", reads=True)
    def look_it_up(question: str) -> str:
        """Ask in the user's own words."""
        return open(question).read() if question == "file" else question

    outcome = await Engine(
        Scripted([call("choose", question="Which? ", options=["a", "b"])]), tools=[choose, look_it_up]
    ).run("Go.")
    assert (outcome.status, outcome.questions[0].text) == ("awaiting_input", "Which?\n- a\n- b")


def test_E_what_a_question_did_is_found_in_what_it_calls() -> None:
    def inner(text: str) -> None:
        DONE.append(text)

    def outer(question: str) -> str:
        """Ask."""
        inner(question)
        return question

    async def waits(question: str) -> str:
        """Ask."""
        await asyncio.sleep(0)
        return question

    for body in (outer, waits):
        with pytest.raises(WrongUse, match="body that acts"):
            tool(kind="question")(body)
    assert DONE == []


COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a misspelt command": (("rnu", "x"), ("'rnu'", "did you mean 'run'")),
    "a misspelt option": (("run", "x", "--modle", "m"), ("--modle", "did you mean '--model'")),
    "a misspelt option with a value": (("run", "x", "--modle=m"), ("--modle", "did you mean '--model'")),
    "a misspelt option of another command": (("serve", "--prot", "80"), ("--prot", "did you mean '--port'")),
    "a misspelt provider": (("run", "x", "--provider", "opnai"), ("'opnai'", "did you mean 'openai'")),
    "a misspelt provider of a model": (("run", "x", "--model", "opnai/gpt-4o"), ("opnai", "did you mean 'openai'")),
    "a misspelt format": (("import", "opnai", "x.json", "-o", "d"), ("'opnai'", "did you mean 'openai'")),
    "a misspelt policy": (("run", "x", "--model", "m", "--policy", "strcit"), ("did you mean 'strict'",)),
    "a prompt without quotes": (("run", "set", "the", "port", "--model", "m"), ("the port", "quotes")),
    "no model": (("run", "x"), ("--model",)),
    "no number": (("run", "x", "--model", "m", "--max-steps", "many"), ("--max-steps", "'many'")),
    "a record that is not there": (("replay", "gone.jsonl"), ("gone.jsonl", "No such file")),
    "tools for a replay that runs none": (("replay", "gone.jsonl", "--tools", "t.py"), ("--live-tools",)),
    "an answer without a question": (("run", "x", "--model", "m", "--answer", "yes"), ("--resume RECORD",)),
    "commands without a workspace": (("run", "x", "--model", "m", "--allow-run"), ("--workspace DIR",)),
}


@pytest.mark.parametrize("mistake", COMMANDS)
async def test_E_a_mistake_on_the_command_line_is_one_line_and_exit_code_2(mistake: str, tmp_path: Path) -> None:
    words, told = COMMANDS[mistake]
    done = await endstop(*words, cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert done.err.startswith("endstop")
    for word in told:
        assert word in done.err


async def test_E_quiet_does_not_hide_a_session_that_was_lost(tmp_path: Path) -> None:
    good = '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}'
    (tmp_path / "both.jsonl").write_text(f'{good}\n{{"of": "no format"}}\n')
    done = await endstop("import", "auto", "both.jsonl", "-o", "out", "--quiet", cwd=tmp_path)
    assert done.code == 0
    assert "both.jsonl, line 2" in done.err
    assert done.err.startswith("skipped:")


async def test_E_quiet_does_not_hide_lines_of_a_record_that_an_export_lost(tmp_path: Path) -> None:
    record = tmp_path / "session.jsonl"
    await engine().run("x", record=record)
    with record.open("a") as file:
        file.write('{"torn')
    done = await endstop("export", "openai", record, "-o", tmp_path / "out.json", "--quiet")
    assert "could not be read" in done.err
