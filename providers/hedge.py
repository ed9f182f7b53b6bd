"""Asking a second provider when the first is slow to begin."""

from __future__ import annotations

from ..decision import WrongUse
from .clock import Clock
from .provider import Provider
from .race import Race


class Hedge(Race):
    """The first provider has a head start of `after` seconds; then the next begins too, and so on.

    Who streams first is heard, as in `Race`. If all that have begun fail, the next begins at once. With `after` near
    the time within which nearly all responses begin, few requests are made twice, and the slow ones are cut short.
    """

    def __init__(self, *providers: Provider, after: float, clock: Clock | None = None) -> None:
        super().__init__(*providers, clock=clock)
        if not after > 0:
            raise WrongUse(f"Hedge: after is {after}: use seconds above 0 (for 0, use Race)")
        self._stagger = after

    @property
    def model(self) -> str:
        """The first one's model; who was heard stands with each response."""
        return self.provider.model
