"""Deep Agents: `RubricMiddleware`, whose grader is a model; here it has a tool that runs the check."""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from deepagents.middleware.rubric import RubricMiddleware
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from trial import ATTEMPTS, PROMPT, Trial, play


async def rubric(trial: Trial) -> str:
    """Run a deep agent with a rubric."""

    def run_check() -> str:
        """Run the check of the work."""
        checked = trial.check()
        return f"{checked.said}: {checked.reason}"

    def chat(name: str) -> ChatOpenAI:
        return ChatOpenAI(model=name, base_url=trial.url, api_key="x", max_retries=0)  # type: ignore[arg-type]

    tool: Any = StructuredTool.from_function
    middleware = RubricMiddleware(model=chat("grader"), tools=[tool(run_check)], max_iterations=ATTEMPTS)
    async with AsyncSqliteSaver.from_conn_string(f"{trial.sessions}/sessions.sqlite") as saver:
        agent: Any = create_deep_agent(
            chat("m"),
            [tool(trial.add_line), tool(trial.look), tool(trial.weaken_check)],
            middleware=[middleware],
            checkpointer=saver,
        )
        given = None if trial.resumed else {"messages": [("user", PROMPT)], "rubric": "`sh check.sh` passes."}
        config = {"configurable": {"thread_id": "s"}}
        async for _ in agent.astream(given, config, stream_mode="messages", durability="sync"):
            pass
        return str((await agent.aget_state(config)).values.get("_rubric_status"))


if __name__ == "__main__":
    play(rubric)
