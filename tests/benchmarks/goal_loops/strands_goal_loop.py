"""Strands Agents: the plugin `GoalLoop` with a function that runs the check."""

from __future__ import annotations

from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager
from strands.vended_plugins.goal import GoalLoop
from trial import ATTEMPTS, PROMPT, Trial, play


async def goal_loop(trial: Trial) -> str:
    """Run an agent with a goal loop."""

    def goal(response: Any, agent: Any, **_: Any) -> dict[str, Any]:
        checked = trial.check()
        return {"passed": checked.met, "feedback": checked.reason}

    loop = GoalLoop(goal=goal, max_attempts=ATTEMPTS)
    agent = Agent(
        model=OpenAIModel(client_args={"base_url": trial.url, "api_key": "x", "max_retries": 0}, model_id="m"),
        tools=[tool(trial.add_line), tool(trial.look), tool(trial.weaken_check)],
        plugins=[loop],
        session_manager=FileSessionManager(session_id="s", storage_dir=trial.sessions),
        callback_handler=None,
    )
    await agent.invoke_async("Go on." if trial.resumed else PROMPT)
    result = loop.last_result(agent)
    return result.stop_reason if result is not None else "no result"


if __name__ == "__main__":
    play(goal_loop)
