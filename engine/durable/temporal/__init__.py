"""A durable engine on a Temporal server: `pip install "endstop[temporal]"`."""

from .queue import Temporal

__all__ = ["Temporal"]
