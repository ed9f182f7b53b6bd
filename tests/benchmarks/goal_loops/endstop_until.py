"""endstop: `Engine(until=...)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endstop import Engine, Impossible, Met, NotMet, Until, read_record, tool
from endstop.decision import WrongUse
from endstop.providers.openai_compatible import OpenAICompatible
from trial import IMPOSSIBLE, PROMPT, Trial, play


async def until(trial: Trial, *, copy: bool = False) -> str:
    """Run an engine until the check is met."""

    @tool(reads=True)
    async def look(n: int) -> str:
        """Look at the work."""
        return trial.look(n)

    def says_impossible(run: Any) -> Impossible | NotMet | Met:
        checked = trial.check()
        answers = {"met": Met(), "impossible": Impossible(checked.reason)}
        return answers.get(checked.said, NotMet(checked.reason))

    options = {"folder": trial.folder, "timeout": trial.timeout}
    goal = Until(trial.command, score=r"(\d+) passed, (-?\d+) failed", copy=copy, **options)
    if f"exit {IMPOSSIBLE}" in Path(trial.folder, "check.sh").read_text():  # a command cannot say it
        goal = Until(says_impossible, **options)
    record = Path(trial.sessions, "session.jsonl")
    async with OpenAICompatible("m", trial.url, api_key="x") as model:
        engine = Engine(model, tools=[tool(trial.add_line), look, tool(trial.weaken_check)], until=goal)
        try:
            if trial.resumed:
                recorded = read_record(record)
                session = engine.session(recorded.header.session_id, record=record)
                session.load(recorded.runs)
                async with session.start_resumed() as run:
                    outcome = await run.wait()
            else:
                outcome = await engine.run(PROMPT, record=record)
        except WrongUse as error:
            return f"WrongUse, {str(error).partition(':')[2].strip()[:40]}"
    return f"{outcome.stop_reason}, {outcome.work}"


if __name__ == "__main__":
    play(until)
