"""What the cut of a response at its completion call saved."""

from __future__ import annotations

from .cost import Price
from .events import ResponseFinished
from .outcome import CutSavings


def saved_by_cut(response: ResponseFinished, price: Price | None) -> CutSavings | None:
    """Return what the cut of a response saved; None if it was not cut at a completion, or had ended there by itself."""
    if response.cut_at is None or response.cut_at_end or response.raw_finish:
        return None
    rest, priced = response.after_cut, int(price is not None)
    if rest is None:
        return CutSavings(cuts=1, priced=priced)
    tokens, calls = rest.output_tokens, len(rest.calls)
    cost = 0.0 if price is None else price.output_cost(tokens, response.usage.input_tokens)
    return CutSavings(
        cuts=1, measured=1, output_tokens=tokens, calls=calls, priced=priced, measured_priced=priced, cost_usd=cost
    )
