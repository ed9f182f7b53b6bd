"""Pydantic AI: an output validator that runs the check and asks the model to retry. It has no goal."""

from __future__ import annotations

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from trial import ATTEMPTS, PROMPT, Impossible, Trial, play


async def validator(trial: Trial) -> str:
    """Run an agent whose output is validated."""
    agent = Agent(
        OpenAIChatModel("m", provider=OpenAIProvider(base_url=trial.url, api_key="x")),
        tools=[trial.add_line, trial.look, trial.weaken_check],
        retries={"output": ATTEMPTS - 1},
    )

    @agent.output_validator
    def check(output: str) -> str:
        checked = trial.check()
        if checked.said == "impossible":
            raise Impossible(checked.reason)
        if not checked.met:
            raise ModelRetry(checked.reason)
        return output

    async with agent.run_stream_events(PROMPT) as events:
        async for _ in events:
            pass
    return "output"


if __name__ == "__main__":
    play(validator)
