"""Who a call is: what a tool's function, or its check, can ask about the call that it is running for.

@tool
async def pay(invoice: str) -> str:
"Pay an invoice."
await bank.pay(invoice, idempotency_key=this_call().key)
"""

from __future__ import annotations

from contextvars import ContextVar

from msgspec import Struct

from .context import Context
from .decision import WrongUse
from .durability import StepKey


class ThisCall(Struct, frozen=True):
    """One call of a tool."""

    session_id: str
    run_id: str
    step: int
    """From 1 in its run."""
    call_id: str
    again: bool = False
    """Whether it had begun before, in a process that died: it may have had its effect."""

    @property
    def step_key(self) -> StepKey:
        """Which durable step it is."""
        return StepKey(self.session_id, self.run_id, self.step, self.call_id)

    @property
    def key(self) -> str:
        """Its idempotency key: the same whichever process runs it, and no other call in the world has it."""
        return str(self.step_key)


PRESENT: ContextVar[ThisCall] = ContextVar("endstop_call")
"""The call that is running; a task and a thread that are begun inside it inherit it."""


def this_call() -> ThisCall:
    """The call that this function runs for, also in the thread of a sync one. Raises WrongUse outside of a call."""
    try:
        return PRESENT.get()
    except LookupError:
        raise WrongUse("this_call() is for a tool's function and its check, while a call of it runs") from None


def call_of(context: Context, call_id: str) -> ThisCall:
    """A call of the step under way."""
    facts = context.log.facts
    return ThisCall(facts.session_id, facts.run_id, facts.steps, call_id, context.began_before(call_id))
