"""OpenAI Agents SDK: an output guardrail that runs the check. It has no goal: a guardrail that trips ends the run."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    output_guardrail,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from trial import PROMPT, Trial, play


async def guardrail(trial: Trial) -> str:
    """Run an agent with an output guardrail."""
    set_tracing_disabled(True)

    @output_guardrail
    def check(context: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
        checked = trial.check()
        return GuardrailFunctionOutput(output_info=checked.reason, tripwire_triggered=not checked.met)

    async with AsyncOpenAI(base_url=trial.url, api_key="x", max_retries=0) as client:
        agent = Agent(
            name="mine",
            model=OpenAIChatCompletionsModel("m", client),
            tools=[function_tool(one) for one in (trial.add_line, trial.look, trial.weaken_check)],
            output_guardrails=[check],
        )
        streamed = Runner.run_streamed(agent, PROMPT)
        async for _ in streamed.stream_events():
            pass
    return "output"


if __name__ == "__main__":
    play(guardrail)
