"""Model server for tests of `until`: it claims to be done too early.

It does not run the check. What it knows of the result is what endstop writes into the conversation.
"""

from __future__ import annotations

import json
from typing import Any

from .endless_model import EndlessModel

SAID = "All done."
TOLD = "Not accepted as complete"


class CheckedModel(EndlessModel):
    """A model that calls `work` once, and again each time that it is told that it is not done; in between it claims.

    texter   claims with a text
    claimer  claims with `finish_task`
    worker   never claims
    """

    def __init__(self) -> None:
        super().__init__()
        self.works = 0
        """Calls of `work` so far."""
        self.said = SAID
        """What it claims with."""
        self._heard = 0

    def reply(self, body: dict[str, Any]) -> tuple[int, str, list[tuple[str, str, str]], bool]:
        """The next response."""
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
        told = json.dumps(body).count(TOLD)  # Claude Code says it twice
        claims = body["model"] != "worker" and self.works > 0 and told == self._heard
        self._heard = told
        if claims and body["model"] == "texter":
            return number, self.said, [], False
        self.works += not claims
        name, arguments = ("finish_task", {"summary": SAID}) if claims else ("work", {"n": number})
        return number, "", [(f"call_{number}", name, json.dumps(arguments))], False
