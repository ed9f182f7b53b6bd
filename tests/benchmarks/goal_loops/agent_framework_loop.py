"""Microsoft Agent Framework: `AgentLoopMiddleware` with a function that runs the check."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent, AgentLoopMiddleware, AgentSession, FileHistoryProvider, tool
from agent_framework_openai import OpenAIChatCompletionClient
from trial import ATTEMPTS, PROMPT, Trial, play


async def loop(trial: Trial) -> str:
    """Run an agent in a loop. Its response does not say why the loop ended."""

    def should_continue(**_: Any) -> tuple[bool, str]:
        checked = trial.check()
        return checked.said == "not_met", checked.reason

    def next_message(*, feedback: str | None, **_: Any) -> str:
        return f"The check fails: {feedback}"

    agent = Agent(
        client=OpenAIChatCompletionClient(model="m", base_url=trial.url, api_key="x"),
        tools=[tool(one, approval_mode="never_require") for one in (trial.add_line, trial.look, trial.weaken_check)],
        middleware=[AgentLoopMiddleware(should_continue, max_iterations=ATTEMPTS, next_message=next_message)],
        context_providers=[FileHistoryProvider(trial.sessions)],
        require_per_service_call_history_persistence=True,
    )
    session = AgentSession(session_id="s")
    async for _ in agent.run("Go on." if trial.resumed else PROMPT, session=session, stream=True):
        pass
    return "returns"


if __name__ == "__main__":
    play(loop)
