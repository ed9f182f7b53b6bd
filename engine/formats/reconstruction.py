"""Reconstruction of what a transcript lacks: the policy, the decision that ended each run, the token usage."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    Facts,
    Limits,
    Message,
    Pause,
    Policy,
    Prompts,
    Stop,
    ToolSpec,
    Usage,
    decide,
)
from ..decision.decisions import IMPORTED
from ..decision.rules import LONGEST_WORD
from ..decision.settings import settings_from_record
from ..decision.transcript import estimate_tokens, message_size
from .imported_session import ImportedCompaction, ImportedEnding, ImportedSession

_UNLIMITED = 1_000_000
_FIRST = settings_from_record(Policy, {})
"""The first version's policy: a setting that came later has the value that means what was done before it existed."""
IMPORTED_POLICY = replace(
    _FIRST,
    name="imported",
    limits=Limits(steps=_UNLIMITED),
    reminder=None,
    flag_cost_usd=Policy().flag_cost_usd,
    closing=False,
    mixed="all",
    max_inner_steps=_UNLIMITED,
    inner_cancel=False,
    reject_after_failure=False,
    patience=replace(
        _FIRST.patience,
        empty_answers=_UNLIMITED,
        truncated=_UNLIMITED,
        refusals=_UNLIMITED,
        unfinished=_UNLIMITED,
        invalid_calls=_UNLIMITED,
        rejections=_UNLIMITED,
        echoes=_UNLIMITED,
        compactions=_UNLIMITED,
    ),
    repetition=replace(_FIRST.repetition, nudge_at=(), stop_at=None, results="said"),
    echo=replace(_FIRST.echo, phrases=(), shorter_than=0),
)
"""A policy without effect: it never stops, cuts or nudges. The actions of the other loop are in the events. Its results
are compared as in a run of today, for a backtest."""


def infer_policy(session: ImportedSession, tools: Sequence[ToolSpec]) -> Policy:
    """Return the policy of an imported session: `IMPORTED_POLICY`, with nudges after text if the other loop nudged."""
    if not any(spec.kind == "completion" for spec in tools):
        return IMPORTED_POLICY
    before: Message | None = None
    for imported in session.messages:
        if imported.failure is not None or isinstance(imported, ImportedCompaction):
            before = None
            continue
        if imported.origin == "nudge" and isinstance(before, AssistantMessage) and not before.calls:
            return replace(IMPORTED_POLICY, text="nudge", prompts=Prompts(text_is_no_end=imported.message.text))  # type: ignore[union-attr]
        before = imported.message
    return IMPORTED_POLICY


# ---- endings of runs


_CANCELLED = ImportedEnding(reason="cancelled", detail="cancelled from outside: user")


def final_decision(
    facts: Facts, policy: Policy, session: ImportedSession, *, last: bool, user_speaks: bool, interrupted: bool = False
) -> Stop | Pause:
    """Return the decision that ended a run: as the other loop reports it, otherwise inferred from the run's last state.

    `last`: it is the last run of the session, so that the ending of the session is the run's. `user_speaks`: the user's
    next message ended the run, so that a run in the middle of its work counts as cancelled by the user.
    `interrupted`: the other loop noted that the user interrupted the run.
    If our own rules decide the same, the decision is theirs, without a trace: no rule was asked during the run.
    `endstop replay` asks them again.
    """
    ending = session.ending if last else None
    if last and ending is None and session.torn and facts.accepted is None:
        ending = _unfinished_ending("its file is torn here, so that it is not known how it ended")
    interrupted = interrupted and facts.accepted is None
    wanted = ending or (_CANCELLED if interrupted else infer_ending(facts, user_speaks=user_speaks))
    if wanted is not _CANCELLED:
        decision = decide(facts, policy, traced=False)
        if isinstance(decision, Pause) and wanted.reason == "awaiting_input":
            return decision
        if isinstance(decision, Stop) and decision.reason == wanted.reason:
            return decision
    return Stop(rule=IMPORTED, reason=wanted.reason, detail=wanted.detail, status=wanted.status)


def infer_ending(facts: Facts, *, user_speaks: bool) -> ImportedEnding:
    """Infer how a run ended that no decision of ours ended, from what happened last."""
    if facts.accepted is not None:
        return ImportedEnding(reason="completed", detail="a completion was accepted")
    if facts.questions:
        return ImportedEnding(reason="awaiting_input", detail="the model waits for the user's answer")
    if facts.provider_error is not None:
        return ImportedEnding(reason="provider_error", detail=facts.provider_error)
    word = f" ({facts.raw_finish!r})" if facts.raw_finish else ""
    match facts.finish, facts.shape:
        case "content_filter", _:
            return ImportedEnding(reason="refusal", detail="the provider refused to answer")
        case "error", _:
            return ImportedEnding(reason="provider_error", detail=f"the response ended with an error{word}")
        case "retry", "text" | "empty":
            return ImportedEnding(reason="provider_error", detail=f"the provider gave the response up{word}")
        case "context_full", "text" | "empty":
            return ImportedEnding(
                reason="no_answer", detail=f"the model's context was full before its answer was whole{word}"
            )
        case "pause", "text" | "empty":
            return _unfinished_ending(f"the provider paused the last response{word}, and nothing follows")
        case "other", "text" | "empty" if facts.raw_finish:
            return _unfinished_ending(
                f"the last response ended with {facts.raw_finish[:LONGEST_WORD]!r}, a finish word that nobody knows "
                "here: if it means that the response is whole, say so with finish_words or --finish-word"
            )
        case _, "text":
            return ImportedEnding(reason="text_final", detail="a plain answer ended the run")
        case _, "empty":
            return ImportedEnding(reason="no_answer", detail="the last response held neither text nor a call")
        case _:
            pass
    if user_speaks:
        return _CANCELLED
    return _unfinished_ending("the transcript ends in the middle of the work, and does not say why")


def _unfinished_ending(detail: str) -> ImportedEnding:
    return ImportedEnding(reason="custom:unfinished", status="cancelled", detail=detail)


# ---- token usage


def estimate_usage(session: ImportedSession, tools: Sequence[ToolSpec]) -> None:
    """Set the usage of every response that has none.

    Its input is the last reported count plus an estimate, at 4 characters per token, of what was added since. If only
    the whole session has token counts, these are split over the responses in proportion to the estimates.
    """
    characters = len(session.system) + sum(
        len(spec.name) + len(spec.description) + len(str(spec.parameters)) for spec in tools
    )
    counted, at = 0, 0
    estimated: list[int] = []
    for place, imported in enumerate(session.messages):
        if isinstance(imported, ImportedCompaction):
            put_first = estimate_tokens(len(session.system) + sum(map(message_size, imported.put_first)))
            counted, at = imported.after_tokens or put_first, characters
            continue
        grown = message_size(imported.message)
        if isinstance(imported.message, AssistantMessage) and imported.failure is None:
            reported = imported.usage
            if reported is None or reported.estimated:
                context = counted + estimate_tokens(characters - at)
                written = 0 if reported is not None and reported.output_tokens else estimate_tokens(grown)
                usage = (reported or Usage()).for_cut_response(input_tokens=context, output_tokens=written)
                session.messages[place] = replace(imported, usage=usage)
            if reported is None:
                estimated.append(place)
            else:
                counted, at = reported.input_tokens + reported.output_tokens, characters + grown
        characters += grown
    if session.usage is not None and estimated and len(estimated) == _count_responses(session):
        _split_usage(session, session.usage)
        session.count_loss("usage split")
    elif estimated:
        session.count_loss("usage", len(estimated))


def _count_responses(session: ImportedSession) -> int:
    return sum(
        isinstance(imported.message, AssistantMessage) and imported.failure is None for imported in session.messages
    )


def _split_usage(session: ImportedSession, total: Usage) -> None:
    """Split the total over the responses. The sums of token counts are exact."""
    places = [place for place, imported in enumerate(session.messages) if imported.usage is not None]
    guesses = [imported.usage for imported in session.messages if imported.usage is not None]
    inputs = _proportional_shares(total.input_tokens, [usage.input_tokens for usage in guesses])
    cached = _proportional_shares(total.cached_tokens, [usage.input_tokens for usage in guesses])
    outputs = _proportional_shares(total.output_tokens, [usage.output_tokens for usage in guesses])
    reasoning = _proportional_shares(total.reasoning_tokens, [usage.output_tokens for usage in guesses])
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
        session.messages[place] = replace(session.messages[place], usage=usage)


def _proportional_shares(total: int, weights: Sequence[int]) -> list[int]:
    """Split `total` into whole numbers in proportion to the weights."""
    whole = sum(weights)
    if not whole:
        return [0] * (len(weights) - 1) + [total]
    shares, assigned, passed = [], 0, 0
    for weight in weights:
        passed += weight
        share = total * passed // whole - assigned
        shares.append(share)
        assigned += share
    return shares
