"""Asking the gates whether an answer is good, be it a completion's or plain text that would end the run."""

from __future__ import annotations

from .context import Context
from .hook_runner import ask, progress, read_gate
from .hooks import qualified
from .tools.answers import Completion


async def ask_gates(context: Context, completion: Completion, call_id: str | None = None) -> tuple[str, str] | None:
    """Why it is handed back, and by which gate; None if all accept. The first that objects is the last one asked."""
    for gate in context.gates:
        verdict = await ask(context, "gate", gate, (completion, progress(context)), read_gate, call_id)
        if verdict.said != "accept":
            failed = "The check of the completion failed: " if verdict.said == "failed" else ""
            return failed + verdict.detail, qualified(gate)
    return None
