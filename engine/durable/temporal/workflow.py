"""What the Temporal server keeps of a run while it waits or is in work: one activity, tried until it has ended.

The run itself cannot be in here: a workflow is repeated from its history, and must neither wait for anything but
Temporal nor ask a clock.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy

NAME = "endstop_run"
"""The type of the workflow, and of its activity."""
ACTIVITY = "run"
"""The id of its activity."""
_EVER = timedelta(days=3650)
"""A time limit must be given; how long a run may take is its policy's business."""
_AT_ONCE = timedelta(milliseconds=10)


@workflow.defn(name=NAME)
class RunWorkflow:
    """Gives the run to a process; to another one as soon as `lease` seconds have passed without a heartbeat."""

    @workflow.run
    async def run(self, job: RawValue, lease: float) -> None:
        """Until the work has returned; fails if it has raised."""
        await workflow.execute_activity(
            NAME,
            job,
            activity_id=ACTIVITY,
            start_to_close_timeout=_EVER,
            heartbeat_timeout=timedelta(seconds=lease),
            retry_policy=RetryPolicy(initial_interval=_AT_ONCE, backoff_coefficient=1, maximum_interval=_AT_ONCE),
        )
