"""The engine that was chosen on the command line: model, tools, policy and all that belongs to them."""

from __future__ import annotations

import argparse
from typing import cast

from ..engine import Engine
from ..providers import ToolChoice
from .factory import (
    evaluator_of,
    gates_of,
    guarded,
    limited,
    policy_of,
    presets_of,
    prices_of,
    provider_of,
    tools_of,
    workspace_of,
)
from .options import finish_words_of, redaction_of, sampling_of
from .resuming import Resumed


def engine_of(given: argparse.Namespace, resumed: Resumed | None = None) -> Engine:
    """What was chosen: on the command line first, then by the record that the run goes on from. Raises WrongUse."""
    started = resumed.started if resumed is not None else None
    if started is None or given.policy is not None:
        policy = policy_of("agent" if given.policy is None else given.policy, closing=True)
    else:
        policy = started.policy
    if resumed is not None:
        resumed.check(given)
    policy = limited(policy, given.max_steps, given.max_tokens, closing=not given.no_closing)
    own = [*tools_of(given.tools), *workspace_of(given.workspace, given.allow_run, given.env)]
    presets = presets_of(own, not given.no_presets)
    tools = own
    if resumed is not None:
        policy = resumed.policy(policy)
        tools = resumed.tools(own, presets if given.policy else (), wanted=not given.no_presets)
        presets = []
    provider = provider_of(
        given.model or (started.model if started else None),
        given.api_base,
        given.provider,
        first=given.first_timeout,
        between=given.content_timeout,
    )
    return Engine(
        guarded(provider, given.retries, given.response_timeout),
        prices=prices_of(given.price, provider, started),
        tools=tools,
        presets=presets,
        redact=redaction_of(given),
        policy=policy,
        system=started.system if started else None,
        gates=gates_of(given.gate, given.workspace, given.env),
        evaluate=evaluator_of(given.evaluate, given.workspace, given.reference_workspace, given.evaluate_plain),
        tool_choice=given.tool_choice or cast(ToolChoice, started.tool_choice if started else "auto"),
        settings=(started.settings if started else {}) | sampling_of(given),
        finish_words=(started.finish_words if started else {}) | finish_words_of(given),
    )
