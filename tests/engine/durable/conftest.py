"""Processes of the conformance suite are forked from one that has imported what takes long."""

from __future__ import annotations

import multiprocessing

multiprocessing.set_forkserver_preload(
    ["endstop.engine.durable.conformance.worker", "endstop.engine.durable.dbos.worker", "structlog"]
)
