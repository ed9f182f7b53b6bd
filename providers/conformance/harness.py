"""What a model's side does with one request, whatever the wire looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...decision import AnyChunk
from ..errors import ProviderError
from ..record import Failure
from ..replay import error_of

Ending = Literal[
    "whole", "unfinished", "cut", "stalled", "pinging", "error", "garbled", "refused", "silent", "unreachable"
]
"""How an answer ends, once all has been said.

`whole`: as the wire's protocol says. `unfinished`: cleanly, but without a finish. `cut`: the connection is lost.
`stalled`: nothing more comes, and the connection stays. `pinging`: the same, but something that is no content comes
every now and then, to keep the connection. `error`: an error in the place of a chunk. `garbled`: a chunk
that cannot be read. And three that say nothing before: `refused` with a status, `silent` (no answer at all), and
`unreachable` (nobody listens).
"""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """One answer: what is said, how it ends, and what the adapter must make of that."""

    says: tuple[AnyChunk, ...] = ()
    """What the adapter must give; a wire's server puts it into the wire's words."""
    ends: Ending = "whole"
    failure: Failure | None = None
    """The error that must come out; its message is what the provider says."""
    refusing: bool = False
    """The text is a refusal in a place of its own, where the wire has one (OpenAI: `delta.refusal`)."""

    @property
    def error(self) -> ProviderError | None:
        """The error that must come out, fresh, for adapters that have no wire to make it from."""
        return None if self.failure is None else error_of(self.failure)
