"""Ways in which a conformance case ends if it does not pass."""

from __future__ import annotations

import unittest

from ...decision.wrong_attributes import explained_attributes


class Nonconformance(AssertionError):
    """The adapter does not do what the case requires. The message says what was expected and what happened."""


@explained_attributes
class Cannot(unittest.SkipTest):
    """The adapter is declared to lack what the case needs. Shown as skipped by pytest and unittest."""
