"""What a store says when it does not do what it was asked.

StoreError             (an OSError) the store cannot do it
├── LeaseLost          (and a LostRun) this process was given up
├── Held               another process has the session
├── Diverged           events do not go on from what is stored
├── NotAtRest          the session runs, or waits to run
└── Crowded            its owner has as many such sessions as may be
"""

from __future__ import annotations

from ..durability import LostRun


class StoreError(OSError):
    """The store could not do it: the disk is full, the database is away. What is wrong stands in its text."""


class LeaseLost(StoreError, LostRun):
    """The process that writes was given up: others may have its sessions by now, and it writes nothing more."""


class Held(StoreError):
    """The session is not to be had: another process holds it, or its run is over or not its latest one."""


class Diverged(StoreError):
    """Events do not go on from what is stored: somebody else has gone on with the run, or the database lost some."""


class NotAtRest(StoreError):
    """The session is running, or queued already."""


class Crowded(StoreError):
    """As many sessions of this owner run, or wait to run, as may."""
