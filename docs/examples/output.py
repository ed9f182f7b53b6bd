"""A run that ends with a typed output: the model gets a validation error and corrects its output.

    python docs/examples/output.py          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/output.py

Lines that are not blank, with imports: Pydantic AI's example of `output_type` (docs/output.md, "olympics.py", beside
version 2.33) has 9. The same program here has 10, with the provider's import: `CityLocation` with two fields, and the
body of `locate` in `asyncio.run`, whose output and usage are printed.
"""

from __future__ import annotations

import asyncio
import os

from endstop import Engine, Outcome
from endstop.decision import ToolResult
from endstop.providers import LiteLLM, Provider, Request, Scripted, call, say
from pydantic import BaseModel, Field


class CityLocation(BaseModel):
    """Where something takes place."""

    city: str
    country: str
    year: int = Field(ge=1896, description="Of the modern games.")


async def locate(model: Provider) -> Outcome[CityLocation]:
    return await Engine(model, output=CityLocation).run("Where were the Olympics held in 2012?")


def scripted(request: Request) -> object:
    """What a model would say: a text first, then a year that is none, then the output."""
    if len(request.messages) < 3:
        return say("They were held in London.")
    wrong = any(isinstance(message, ToolResult) for message in request.messages)
    return [call("final_result", city="London", country="United Kingdom", year=2012 if wrong else 12)]


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    outcome = await locate(LiteLLM(name) if name else Scripted(scripted))
    print(repr(outcome.output))
    print(f"{outcome.output.city}, after {outcome.steps} steps")
    print(outcome.answer)


if __name__ == "__main__":
    asyncio.run(main())
