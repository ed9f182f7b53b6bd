"""Tools: their definition, and ready-made ones for completion, questions, thoughts and work in a folder."""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names

if TYPE_CHECKING:
    from .control import ask_user, attempt_completion, finish_task, report_blocked, task_done, think
    from .workspace import workspace_tools
else:
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "control": "ask_user attempt_completion finish_task report_blocked task_done think",
            "workspace": "workspace_tools",
        },
    )

__all__ = ["ask_user", "attempt_completion", "finish_task", "report_blocked", "task_done", "think", "workspace_tools"]
