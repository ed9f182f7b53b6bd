"""Numbers and the words that follow them."""

from __future__ import annotations

import re

from endstop.base.plural import counted, inflected
from endstop.formats.exports import EXPORT_LOSSES
from endstop.formats.imported_session import LOSS_GROUPS, LOSSES


def test_one_is_singular_and_all_else_plural() -> None:
    assert [counted(n, "step") for n in (0, 1, 2, 12_345)] == ["0 steps", "1 step", "2 steps", "12,345 steps"]
    assert inflected(1, "cop(y|ies)") == "copy"
    assert counted(3, "token count(s) that (belongs|belong) to (it|them) (as told)") == (
        "3 token counts that belong to them (as told)"
    )


def test_each_loss_has_both_forms() -> None:
    for text in (*LOSSES.values(), *LOSS_GROUPS.values(), *EXPORT_LOSSES.values()):
        one, more = counted(1, text), counted(2, text)
        assert one[1:] != more[1:], text
        assert not re.search(r"\(s\)|\(es\)|\|", one + more), text
