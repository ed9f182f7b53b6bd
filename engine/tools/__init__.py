"""Tools: their definition, and ready-made ones for completion, questions, thoughts and work in a folder."""

from .control import ask_user, attempt_completion, finish_task, task_done, think
from .workspace import workspace_tools

__all__ = ["ask_user", "attempt_completion", "finish_task", "task_done", "think", "workspace_tools"]
