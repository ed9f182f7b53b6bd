"""Trials of SIGKILL around the approvals of sub-agents' calls: those of `approval_kills.py`, one level down.

    python -m tests.subagent_kills 100                      # from the root of the repository

The caller's response has two calls of a sub-agent, each of which makes one call that needs approval. The yes is given
to the caller; the effect happens in the sub-agent's run.
"""

from __future__ import annotations

import argparse
import asyncio
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

from .approval_kills import AGAIN, LIVES, Trial, calibrate

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
        log = self.lines()
        effects = [line.split() for line in log if line.startswith("did ")]
        times = Counter(id for _, id, _ in effects)
        assert all(recorded == "True" for *_, recorded in effects), f"an effect before its yes was recorded: {log}"
        if effects:
            begun = next(number for number, line in enumerate(log) if line.startswith("did "))
            assert {f"yes c_{id}/{id}" for id in IDS} <= set(log[:begun]), f"an effect before a yes: {log}"
        assert max(times.values(), default=0) <= 1, f"an effect twice: {log}"
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


def run_trials(count: int, seed: int, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Run trials; returns where kills hit, and how calls ended. Raises AssertionError for a trial that failed."""
    chance, trials, hits = random.Random(seed), list[SubagentTrial](), Counter[str]()
    whole = calibrate(SubagentTrial, folder)
    for number in range(count):
        place = folder / f"trial{number}"
        place.mkdir()
        trial = SubagentTrial(place, with_check=chance.random() < 0.5, together=chance.random() < 0.5)
        for life in range(LIVES):
            kills = life < LIVES - 1 and (life == 0 or chance.random() < AGAIN)
            moment = whole * chance.random() ** 4  # the effects come at once, and what follows takes long
            if not trial.life(moment if kills else None):
                break
            hits[trial.where()] += 1
        trials.append(trial)
    ends = Counter[str]()
    for trial in trials:  # after the last fork: a check leaves threads behind
        ends += asyncio.run(trial.check())
    return hits, ends


def main() -> None:
    """Run as many trials as the command line says, and print what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(10**6))
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="subagent_kills") as folder:
        hits, ends = run_trials(args.count, args.seed, Path(folder))
    print(f"{args.count} trials, seed {args.seed}, {hits.total()} kills, {time.monotonic() - began:.0f} s")
    for where, number in hits.most_common():
        print(f"  {number:5} kills {where}")
    for status, number in ends.most_common():
        print(f"  {number:5} calls ended {status}")
    print("no effect before the yes, none twice, none lost unless `unknown`; every record replays the same")


if __name__ == "__main__":
    main()
