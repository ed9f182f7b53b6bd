"""Decisions for another loop: `Follower`, with the same rules, facts and records as the engine."""

from .followed_response import Cut
from .follower import Follower

__all__ = ["Cut", "Follower"]
