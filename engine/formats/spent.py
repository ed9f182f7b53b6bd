"""What each response of a foreign session cost: as it says, else estimated as the engine does it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..decision import AssistantMessage, ToolSpec, Usage
from ..decision.transcript import rough_tokens, size
from .transcript import Foreign


def fill_in(foreign: Foreign, tools: Sequence[ToolSpec]) -> None:
    """Give every response a usage.

    One that has none is estimated: what the last report counted, and 4 characters a token for what has come since.
    Where only the whole session has token counts, they are split in the proportion of these estimates.
    """
    characters = len(foreign.system) + sum(
        len(spec.name) + len(spec.description) + len(str(spec.parameters)) for spec in tools
    )
    counted, at = 0, 0
    estimated: list[int] = []
    for place, said in enumerate(foreign.said):
        grown = size(said.message)
        if isinstance(said.message, AssistantMessage) and said.failed is None:
            if said.usage is None:
                context = counted + rough_tokens(characters - at)
                usage = Usage(input_tokens=context, output_tokens=rough_tokens(grown), estimated=True)
                foreign.said[place] = replace(said, usage=usage)
                estimated.append(place)
            else:
                counted, at = said.usage.input_tokens + said.usage.output_tokens, characters + grown
        characters += grown
    if foreign.usage is not None and estimated and len(estimated) == _responses(foreign):
        _split(foreign, foreign.usage)
        foreign.lose("usage split")
    elif estimated:
        foreign.lose("usage", len(estimated))


def _responses(foreign: Foreign) -> int:
    return sum(isinstance(said.message, AssistantMessage) and said.failed is None for said in foreign.said)


def _split(foreign: Foreign, total: Usage) -> None:
    """Split the whole over the responses; the sums stay exact."""
    places = [place for place, said in enumerate(foreign.said) if said.usage is not None]
    guesses = [said.usage for said in foreign.said if said.usage is not None]
    inputs = _shares(total.input_tokens, [usage.input_tokens for usage in guesses])
    cached = _shares(total.cached_tokens, [usage.input_tokens for usage in guesses])
    outputs = _shares(total.output_tokens, [usage.output_tokens for usage in guesses])
    reasoning = _shares(total.reasoning_tokens, [usage.output_tokens for usage in guesses])
    weight = sum(usage.input_tokens + usage.output_tokens for usage in guesses) or 1
    for number, place in enumerate(places):
        share = (guesses[number].input_tokens + guesses[number].output_tokens) / weight
        usage = Usage(
            input_tokens=inputs[number],
            output_tokens=outputs[number],
            cached_tokens=cached[number],
            reasoning_tokens=reasoning[number],
            cost_usd=None if total.cost_usd is None else total.cost_usd * share,
            estimated=True,
        )
        foreign.said[place] = replace(foreign.said[place], usage=usage)


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in the proportion of the weights, whose sum is the total."""
    whole = sum(weights)
    if not whole:
        return [0] * (len(weights) - 1) + [total]
    shares, given, passed = [], 0, 0
    for weight in weights:
        passed += weight
        share = total * passed // whole - given
        shares.append(share)
        given += share
    return shares
