"""Results of calls that did not run, or not to their end: what the model reads in place of what a function returns."""

from __future__ import annotations

SKIPPED = "Not run: it stood after the completion of the task."
NOT_RUN_AFTER_QUESTION = "Not run: it stood after a question to the user. Once you have the answer, decide anew."
"""Result of a call that may write and came after a question in its response."""
NOT_RUN_WHILE_CLOSING = "Not run: the limit is reached."
"""Result of a call in the closing step."""
CANCELLED = "Cancelled while it was running or waiting to run."
"""Result of a call that a cancellation cut off."""
LIMIT_REACHED = "Not run to its end: a limit of the run was reached."
"""Result of a call that changed nothing and that a limit cut off or prevented."""
STOPPED_AT_LIMIT = (
    "Stopped while it was running, because a limit of the run was reached. Its effect is not known: find out what it "
    "is before you call it again."
)
"""Result of a call that may have changed something and that a limit cut off."""
STILL_RUNNING = "Cancelled, but it did not stop when it was told to: it was left behind, and may still be running."
"""Result of a cancelled call whose function kept running."""
STILL_RUNNING_AFTER = "{} It did not stop when it was told to, and was left behind: it may still be running."
"""Result of a call that exceeded a deadline and whose function kept running."""
