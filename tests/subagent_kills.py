"""Trials of SIGKILL around the approvals of sub-agents' calls: those of `approval_kills.py`, one level down.

    python -m tests.subagent_kills 100                      # from the root of the repository

The caller's response has two calls of a sub-agent, each of which makes one call that needs approval. The yes is given
to the caller; the effect happens in the sub-agent's run.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from endstop import Engine, read_record
from endstop.decision import AssistantMessage, UserMessage
from endstop.decision import events as ev
from endstop.providers import Request, Scripted, call, say
from endstop.replay import replay
from endstop.tools import finish_task

from .approval_kills import Trial, print_trials, run_trials

IDS = ("d1", "d2")


class SubagentTrial(Trial):
    """One trial whose calls are those of sub-agents."""

    def engine(self) -> Engine[Any, Any]:
        """The caller, whose two sub-agents make a call each."""

        def below(request: Request) -> Any:
            id = next(message.text for message in request.messages if isinstance(message, UserMessage))
            begun = any(isinstance(message, AssistantMessage) for message in request.messages)
            return say(f"{id} is gone.") if begun else [call("delete", what=id, id=id)]

        def above(request: Request) -> Any:
            if request.attempt.startswith("1."):
                return [call("helper", prompt=id, id=f"c_{id}") for id in IDS]
            return call("finish_task", summary="done")

        helper = Engine(Scripted(below), tools=self.tools()).as_tool("helper", "Deletes.")
        return Engine(Scripted(above), tools=[helper], presets=[finish_task])

    def below(self) -> dict[str, Path]:
        """The records of the sub-agents, by the id of their call."""
        found = {}
        for path in self.record.parent.rglob("helper-*.jsonl"):
            prompt = next((run.started.prompt for run in read_record(path).runs), None)
            found |= {} if prompt is None else {prompt: path}
        return found

    async def answered(self, id: str) -> bool:
        """Whether the yes to this call is in the sub-agent's record and in its caller's."""
        path = self.below().get(id)
        asked = ((path, id), (self.record, f"c_{id}/{id}"))
        return all(where is not None and id in _approved(where) for where, id in asked)

    async def check(self) -> Counter[str]:
        """Assert what has to hold, once a process has ended by itself; returns how the calls ended."""
        log, times = self.lines(), self.check_effects(*(f"c_{id}/{id}" for id in IDS))
        ends = Counter[str]()
        for id, path in self.below().items():
            runs = read_record(path).runs
            results = [e for run in runs for e in run.events if isinstance(e, ev.ToolCallResult)]
            assert [e.call_id for e in results] == [id], results
            status = results[0].status
            assert status in ("ok", "unknown"), results
            assert status == "unknown" or times[id] == 1, f"{id} ended well without an effect: {log}"
            assert not self._with_check or (status, times[id]) == ("ok", 1), (status, log)
            assert (await replay(str(path))).same
            ends[status] += 1
        assert ends.total() == len(IDS), ends
        finished = read_record(self.record).runs[-1].finished
        assert finished is not None
        assert finished.outcome.status == "completed"
        assert finished.outcome.subagents is not None
        assert finished.outcome.subagents.runs == len(IDS)
        assert (await replay(str(self.record))).same
        return ends


def _approved(path: Path) -> set[str]:
    events = [event for run in read_record(path).runs for event in run.events]
    return {event.call_id for event in events if isinstance(event, ev.QuestionAnswered) and event.says == "yes"}


def when_effects_come(chance: float) -> float:
    """When to kill, as a part of the time that a whole process takes: the effects come at once, the rest takes long."""
    return chance**4


def main() -> None:
    """Run as many trials as the command line says, and print what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(10**6))
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="subagent_kills") as folder:
        counted = run_trials(SubagentTrial, args.count, args.seed, Path(folder), when_effects_come)
    print_trials(f"{args.count} trials, seed {args.seed}", counted, time.monotonic() - began)


if __name__ == "__main__":
    main()
