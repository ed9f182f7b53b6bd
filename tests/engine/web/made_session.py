"""A session of as many steps as a test of the page needs, each with a text and a call."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

HELLO = Path(__file__).parents[2] / "records" / "hello.jsonl"


def events_of(path: Path) -> list[dict[str, Any]]:
    """The events of a record, without its header and what came after its end."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if not line.startswith(('{"type":"HEADER', '{"type":"AFTER'))]


def run_of_steps(run_id: str, steps: int, *, failed: Collection[int] = (), prompt: str = "") -> list[dict[str, Any]]:
    """A run of this many steps that ends well; in those of `failed` the call fails. The call of step N is `N.1`."""
    start, *_, end = events_of(HELLO)
    events = [{**start, "run_id": run_id, **({"prompt": prompt} if prompt else {})}]
    decision = next(event for event in events_of(HELLO) if event["type"] == "DECISION_MADE")
    for step in range(1, steps + 1):
        attempt = f"{step}.1"
        status = {"status": "error"} if step in failed else {}
        events += [
            {"type": "STEP_STARTED", "step": step, "round": step},
            {"type": "ATTEMPT_STARTED", "attempt": attempt},
            *({"type": "TEXT_MESSAGE_CONTENT", "attempt": attempt, "delta": f"word {word} "} for word in range(4)),
            {"type": "TOOL_CALL_START", "attempt": attempt, "call_id": attempt, "name": "read_file"},
            {"type": "TOOL_CALL_ARGS", "attempt": attempt, "call_id": attempt, "delta": '{"path": "a"}'},
            {"type": "TOOL_CALL_RESULT", "call_id": attempt, "name": "read_file", "content": "text\n" * 30, **status},
            {"type": "STEP_FINISHED", "step": step},
            {**decision, "round": step, "decision": {**decision["decision"], "do": "go_on"}},
        ]
    events.append({**end, "outcome": {**end["outcome"], "run_id": run_id}})
    return [{**event, "seq": number, "t": number} for number, event in enumerate(events, 1)]
