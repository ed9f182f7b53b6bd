"""Text that an adapter or the proxy gives an agent in place of a response, once a decision has ended its run.

A person reads it in the agent's terminal: it says what happened, since when, and how to go on. What programs read is
the code beside it (`Stop.reason`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base.sanitize import one_line
from ..decision import Stop
from ..decision.limits import STOP_REASONS
from .follower import Follower

COMPLETED = "The task is complete."
"""Answer of a completed run whose model reported nothing."""
LONGEST_QUOTE = 120
"""Maximum number of characters of a text that is quoted."""

Words = Callable[[Stop, Follower], str]


def end_text(stop: Stop, follower: Follower | None) -> str:
    """Return the text with which the agent ends: the model's own report of a completed task, or one marked as ours.

    follower: of the run that `stop` ended; None if it is not followed.
    """
    if stop.reason == "until_met":
        return f"{COMPLETED} {stop.detail}."
    if stop.final_status == "completed":
        outcome = None if follower is None else follower.outcome
        return (outcome.answer if outcome is not None else "") or COMPLETED
    return f"[{stopped_text(stop, follower)} The task may be unfinished.]"


def stopped_text(stop: Stop, follower: Follower | None) -> str:
    """Return why a run was stopped and how to go on, in sentences."""
    if stop.final_status == "completed":
        return f"endstop ended this run: the task is complete ({stop.detail}). {GO_ON}"
    words = what_happened(stop, follower)
    advice = _HOW.get(stop.reason, GO_ON)
    return f"endstop stopped this run: {words}. {advice}"


def what_happened(stop: Stop, follower: Follower | None) -> str:
    """Return what led to a stop, as a part of a sentence; with the calls that are repeated if the run is followed."""
    words = stop.detail if follower is None else _WHAT.get(stop.rule, _detail)(stop, follower)
    return (words or "a rule of its policy ended it").rstrip(".")


GO_ON = "A new prompt goes on from here."
_OTHERWISE = "Say what to do differently, or start endstop with --policy FILE, in it a higher"
_HOW: Mapping[str, str] = {
    "stuck": f"{_OTHERWISE} `stop_at`, `same_text` or `claims` under [repetition], or `stop_at` under [stagnation].",
    "invalid_calls": f"{_OTHERWISE} `invalid_calls` under [patience].",
    "completion_rejected": f"{_OTHERWISE} `rejections` under [patience].",
    "compaction_stalled": "Begin anew with a shorter conversation.",
    "until_stalled": "Say what to do differently, or start endstop with another --until.",
    "blocked": "Clear what is in the way, and say so in a new prompt.",
    **dict.fromkeys(
        STOP_REASONS.values(), "A new prompt has the whole limit again; limits are set in the file of --policy."
    ),
}
"""How a person goes on, by stop reason."""


def _detail(stop: Stop, follower: Follower) -> str:
    return stop.detail


def _stuck(stop: Stop, follower: Follower) -> str:
    facts, settings = follower.facts, follower.policy.repetition
    times = facts.repetitions.times(settings.longest_cycle, settings.by)
    calls, steps = follower.recent.repeated(times)
    if settings.stop_at is not None and times >= settings.stop_at and calls:
        did = "came" if settings.by == "calls" else "gave the same result"
        return f"the {calls} {did} {times} times" + (f" ({steps})" if steps else "")
    if settings.same_text is not None and facts.same_texts >= settings.same_text:
        return f'the model said the same {facts.same_texts} times: "{one_line(facts.latest_text, LONGEST_QUOTE)}"'
    if settings.claims is not None and facts.claims >= settings.claims:
        since = f"requests {facts.steps - facts.claims + 1} to {facts.steps}"
        did = (
            f"the model reported the work as done in {facts.claims} requests in a row, with calls that changed nothing"
        )
        return f'{did} ({since}): "{one_line(facts.latest_text, LONGEST_QUOTE)}"'
    if settings.monologue is not None and facts.monologue >= settings.monologue:
        return f"the model made no call in {facts.monologue} requests in a row"
    return stop.detail


def _stagnation(stop: Stop, follower: Follower) -> str:
    facts, settings, latest = follower.facts, follower.policy.stagnation, follower.recent.latest
    last = f"; the latest call was {latest}" if latest else ""
    if settings.stop_at is not None and facts.stalled >= settings.stop_at:
        since = f"requests {facts.progressed + 1} to {facts.steps}"
        return f"nothing new came of its calls ({since}): they failed, were repeated or returned what was known{last}"
    return f"its tools gave the same results {facts.same_results} times in a row, whatever they were asked{last}"


def _invalid_calls(stop: Stop, follower: Follower) -> str:
    facts, latest = follower.facts, follower.recent.latest
    since = f"requests {facts.steps - facts.invalid_steps + 1} to {facts.steps}"
    last = f"; the latest was {latest}" if latest else ""
    return f"{facts.invalid_steps} requests in a row made only calls that no tool takes ({since}){last}"


_WHAT: Mapping[str, Words] = {"stuck": _stuck, "stagnation": _stagnation, "invalid_calls": _invalid_calls}
"""What happened, by the guard that stopped the run. What any other rule says of itself is for people already."""
