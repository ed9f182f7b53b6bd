"""Recommended limits by kind of task, to begin with. What fits your own tasks, your records tell.

Each has a soft limit, at which the run is flagged and the model reminded, and a hard one, which ends the run as
exhausted. A task that needs more than the soft one is unusual; one that needs more than the hard one is lost.
"""

from __future__ import annotations

from .limits import Limits

RECOMMENDED: dict[str, Limits] = {
    "look_up": Limits(soft_steps=10, steps=20),
    "data_and_files": Limits(soft_steps=50, steps=100),
    "many_systems": Limits(soft_steps=100, steps=200),
    "open_search": Limits(soft_steps=200),
}
"""look_up: a question that a few calls answer. data_and_files: read, change and check files or tables.
many_systems: work across several services. open_search: research without a known end; its hard limit is twice the
soft one, as everywhere."""
