"""Ready-made tools: completion, question and think, and those that work in a folder."""

from .control import ask_user, attempt_completion, finish_task, task_done, think
from .workspace import workspace_tools

__all__ = ["ask_user", "attempt_completion", "finish_task", "task_done", "think", "workspace_tools"]
