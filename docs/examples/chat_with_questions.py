"""A chat as in Slack: channels with threads, a bot that asks back, and people who write whenever they like.

    python docs/examples/chat_with_questions.py          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/chat_with_questions.py

A thread is a session. A message in it starts a run; where the model asks with `ask_user`, the run pauses, the question
is posted, and the next message in that thread is its answer. A message that comes while a run is going waits for its
turn (to have the run hear it, see `Run.say`). Threads do not wait for each other.

To connect a real chat: call `Chat.heard` for each message, and let `post` send one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from endstop import Engine, Session, tool
from endstop.decision import Outcome, ToolResult
from endstop.providers import LiteLLM, Provider, Scripted, call, say
from endstop.tools import ask_user, finish_task


class Place(NamedTuple):
    """A thread of a channel."""

    channel: str
    thread: str


Post = Callable[[Place, str], Awaitable[None]]


@dataclass
class Thread:
    """One conversation, and what was said in it that nobody has answered yet."""

    session: Session
    inbox: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None


class Chat:
    """Answers in threads. Leaving it ends the runs that are going."""

    def __init__(self, engine: Engine, post: Post) -> None:
        self._engine = engine
        self._post = post
        self._threads: dict[Place, Thread] = {}

    async def __aenter__(self) -> Chat:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        tasks = [thread.task for thread in self._threads.values() if thread.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._engine.__aexit__(*exc)

    def heard(self, place: Place, text: str) -> None:
        """Take a message. Returns at once: the answer is posted when it is there."""
        thread = self._threads.get(place)
        if thread is None:
            thread = self._threads[place] = Thread(self._engine.session(f"{place.channel}/{place.thread}"))
        thread.inbox.put_nowait(text)
        if thread.task is None or thread.task.done():
            thread.task = asyncio.create_task(self._answer_all(place, thread))

    async def quiet(self) -> None:
        """Wait until everything that was said is answered."""
        await asyncio.gather(*(thread.inbox.join() for thread in self._threads.values()))

    async def _answer_all(self, place: Place, thread: Thread) -> None:
        while not thread.inbox.empty():
            text = thread.inbox.get_nowait()
            try:
                await self._post(place, told(await reply(thread.session, text)))
            finally:
                thread.inbox.task_done()


async def reply(session: Session, text: str) -> Outcome:
    """Answer the open question, or send a separate message."""
    if session.questions:
        return await session.answer(session.questions[0].call_id, text)
    return await session.run(text)


def told(outcome: Outcome) -> str:
    """What the people in the thread read of an outcome."""
    if outcome.status == "awaiting_input":
        return outcome.questions[0].text
    if outcome.status == "completed":
        return outcome.answer
    return f"I could not finish this ({outcome.stop_reason}). {outcome.detail}"


@tool
async def book_room(day: str) -> str:
    """Book the meeting room for a day."""
    return f"The room is yours on {day}."


def provider() -> Provider:
    """The model that the environment names, or a script that does what a model would."""
    model = os.environ.get("ENDSTOP_MODEL")
    return LiteLLM(model) if model else Scripted(as_a_model_would)


def as_a_model_would(request):
    last = request.messages[-1]
    if isinstance(last, ToolResult):
        if last.name == "ask_user":
            return call("book_room", day=last.content)
        return call("finish_task", summary=last.content)
    if "room" in last.text:
        return call("ask_user", question="For which day?")
    return say(f"You said: {last.text}")


async def main() -> None:
    async def post(place: Place, text: str) -> None:
        print(f"#{place.channel} {place.thread}   bot: {text}", flush=True)

    def write(place: Place, text: str) -> None:
        print(f"#{place.channel} {place.thread}   you: {text}", flush=True)
        chat.heard(place, text)

    rooms, lunch = Place("office", "rooms"), Place("office", "lunch")
    async with Chat(Engine(provider(), tools=[book_room], presets=[finish_task, ask_user]), post) as chat:
        write(rooms, "We need a room.")
        await chat.quiet()  # the bot has asked back, and its run is paused
        write(lunch, "Soup again?")  # another thread goes on meanwhile
        await chat.quiet()
        write(rooms, "Friday")  # the answer to the question
        write(rooms, "Thank you!")  # waits for its turn
        await chat.quiet()


if __name__ == "__main__":
    asyncio.run(main())
