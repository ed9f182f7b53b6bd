"""`Progress`: a run so far, as the user's functions see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from .decision import Facts, Message
from .providers import Prices
from .tools.run_context import DepsT, RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Generic[DepsT]):
    """State of the run so far, as a gate, a judge, a check, a prompt handler or a compactor sees it."""

    facts: Facts
    messages: Sequence[Message]
    record: str | None = None
    """Path of the record so far, if one is kept."""
    prices: Prices = field(default_factory=Prices)
    """Prices of all known models, for a judge or a compactor that asks another model."""
    context: RunContext[DepsT] = field(default_factory=RunContext)
    """Ids and dependencies of the run, and the owner and metadata of its session."""
