"""What the scripted agent does: so many steps, each with a reading call, a writing one, or both, then the completion.

The model, which is a process of its own, and those who check its side log go by the same script.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

ASK = "ask_user"
FINISH = "finish_task"
READS, WRITES = "look", "note"
_KINDS = ((READS,), (WRITES,), (READS, WRITES))


@dataclass(frozen=True, kw_only=True)
class Script:
    """One run: `steps` responses, the last of which completes it. It is the prompt, as JSON."""

    who: str
    """Which session: it stands in every line of the side logs."""
    steps: int = 40
    chunks: int = 3
    """Of text, before the calls."""
    pace: float = 0.002
    """Seconds between two chunks."""
    work: float = 0.003
    """Seconds that a tool's call takes."""
    ask: int = 0
    """The step that asks the user instead; 0 for none."""
    hold: int = 0
    """The step whose response is held in its middle until the gate is opened; 0 for none."""
    hold_call: int = 0
    """The step whose calls are held until the gate is opened; 0 for none."""
    spoil: int = 0
    """The step whose calls give letters that no database holds; 0 for none."""
    swell: int = 0
    """The step whose calls give a picture of three megabytes; 0 for none."""

    def calls(self, step: int) -> tuple[str, ...]:
        """The tools that a step calls."""
        if step >= self.steps:
            return (FINISH,)
        if step == self.ask:
            return (ASK,)
        return _KINDS[(step - 1) % len(_KINDS)]

    def step(self, results: int) -> int | None:
        """The step that comes after so many results; None if no step ends there."""
        for step in range(1, self.steps + 2):
            if results <= 0:
                return step if results == 0 else None
            results -= len(self.calls(step))
        return None

    def prompt(self) -> str:
        """What the session is told."""
        return json.dumps(asdict(self))

    def arguments(self, step: int, name: str) -> dict[str, Any]:
        """What a step's tool is called with."""
        if name == FINISH:
            return {"summary": f"{self.who} is done"}
        if name == ASK:
            return {"question": f"May {self.who} go on?"}
        gives = "bad" if step == self.spoil else "much" if step == self.swell else "text"
        return {"who": self.who, "step": step, "seconds": self.work, "held": step == self.hold_call, "gives": gives}


def script_of(text: str) -> Script | None:
    """The script that a user's message is; None for any other message."""
    try:
        given = json.loads(text)
    except ValueError:
        return None
    return Script(**given) if isinstance(given, dict) and "who" in given else None
