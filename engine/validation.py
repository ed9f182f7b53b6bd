"""Check the arguments of an engine and its sessions, so that a wrong one fails early, with its name and a remedy.

Every check raises WrongUse.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

from .budget import Budget
from .decision import Policy, Rule, ToolSpec, WrongUse
from .decision.errors import function_name
from .decision.limits import STOP_REASONS
from .providers import Provider, ToolChoice
from .providers._wrapper import iter_leaf_providers
from .tools.function_roles import check_functions
from .tools.not_tools import not_a_tool
from .tools.schema import without_keywords
from .tools.tool import Tool, Toolbox

CALLABLE_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
"""Tool names that at least one provider accepts: Anthropic up to 128 characters, Gemini also dots and colons."""


def check_prompt(prompt: Any, role: str = "prompt") -> None:
    """Check that a prompt, or another message of the user, is a text that is not blank."""
    if isinstance(prompt, str):
        if prompt.strip():
            return
        raise WrongUse(f"the {role} is empty: say something")
    if isinstance(prompt, list | tuple):
        hint = (
            "write one text, and go on with a conversation in a session: session = engine.session(); "
            "await session.run(text); many prompts at once are engine.run_many([...])"
        )
    elif isinstance(prompt, bytes | bytearray):
        hint = "decode it first: prompt.decode()"
    else:
        hint = "write a text"
    raise WrongUse(f"the {role} is {preview(prompt)}, of type {type(prompt).__name__}: {hint}")


def check_recorded_functions(recorded: Mapping[str, Sequence[str]], brought: Mapping[str, Sequence[str]]) -> None:
    """Refuse to continue a run without a hook of a role that it began with: it could end differently, unnoticed.

    Any function in that role is accepted, because functions get new names.
    """
    for role, names in recorded.items():
        if role not in brought:
            raise WrongUse(
                f"the run began with a {role.replace('_', ' ')}, {', '.join(names)}, which a record cannot hold: "
                "give it to the engine again, or another one in its place"
            )


def check_recorded_tools(recorded: Sequence[ToolSpec], brought: Toolbox) -> None:
    """Refuse to continue a run with other tools than it began with: the model has seen them and may have called them.

    A new description, new bounds of a value and additional tools are accepted.
    """
    missing = [spec.name for spec in recorded if spec.name not in brought]
    if missing:
        raise WrongUse(
            f"the run began with tools that are missing now: {', '.join(missing)}: give them to the engine again, "
            "or tools of these names with the same parameters"
        )
    for spec in recorded:
        now = brought[spec.name].spec
        kept = ("parameters", "kind", "reads") if spec.kind == "ordinary" else ("parameters", "kind")
        changed = [name for name in kept if _comparable(getattr(now, name)) != _comparable(getattr(spec, name))]
        if changed:
            raise WrongUse(
                f"tool {spec.name!r} has changed since the run began, in its {' and '.join(changed)}: "
                "give it to the engine as it was"
            )


_BESIDE_THE_SHAPE = frozenset(
    "description title minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems".split()
)
"""Keywords of a JSON schema that describe the meaning or the size of a value, not its structure."""


def _comparable(value: Any) -> Any:
    return without_keywords(value, _BESIDE_THE_SHAPE)


def preview(value: Any) -> str:
    """Return the repr of a value in at most 80 characters."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__} without a repr"
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_tuple(role: str, functions: Iterable[Callable[..., Any]]) -> tuple[Any, ...]:
    """Return the functions of one role as a tuple. Raises WrongUse if they are not a sequence."""
    if callable(functions) or isinstance(functions, str) or not isinstance(functions, Iterable):
        raise WrongUse(f"{role} takes several functions: write {role}=[{functions!r}]")
    return tuple(functions)


def check_tools(role: str, tools: Any) -> None:
    """Check that tools are a sequence, and that their names are ones that a model can call."""
    if isinstance(tools, Tool):
        raise WrongUse(f"{role} is {preview(tools)}: {role} takes several tools: write {role}=[{tools.name}]")
    if inspect.isroutine(tools):
        raise WrongUse(f"{role} is {preview(tools)}: {role} takes several tools: write {role}=[{function_name(tools)}]")
    if tools is None:
        raise WrongUse(f"{role} is None: leave it out, or write {role}=[]")
    if isinstance(tools, Mapping) and all(isinstance(tool, Tool) for tool in tools.values()):
        raise WrongUse(f"{role} is a mapping: {role} takes the tools themselves: write {role}=[*{role}.values()]")
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise WrongUse(f"{role} takes several tools: {not_a_tool(tools)}")
    for tool in tools:
        name = getattr(tool, "name", None)
        if isinstance(name, str) and not CALLABLE_NAME.fullmatch(name):
            raise WrongUse(
                f"{role}: no model can call a tool by the name {name!r}: use 1 to 128 letters, digits, _ and -, "
                "as in tool(name='read_file')"
            )


def check_provider(provider: Any) -> None:
    """Check that a provider is an object with a method `stream`."""
    if isinstance(provider, type):
        raise WrongUse(f"provider: {provider.__name__} is a class: create an instance, as in {provider.__name__}(...)")
    if not callable(getattr(provider, "stream", None)):
        hint = "; see endstop.providers"
        if isinstance(provider, list | tuple):
            hint = ": write Fallback(one, another), or engine.race([one, another], prompt)"
        elif type(provider).__name__ == "Engine":
            hint = ": an engine is no provider; give the one that it has, or its model's name"
        elif type(provider).__name__ in ("TestModel", "FunctionModel"):
            hint = ": in a test write Scripted(...) of endstop.providers"
        raise WrongUse(f"provider: {provider!r} has no method `stream`{hint}")


def check_policy(policy: Any) -> None:
    """Check that a policy is a `Policy`."""
    if not isinstance(policy, Policy):
        hint = ""
        if isinstance(policy, Mapping):
            hint = ": write policy_from({...}), or Policy(...)"
        elif policy is Policy:
            hint = " but the class itself: write Policy()"
        elif type(policy).__name__ in ("Limits", "UsageLimits"):
            hint = ": write policy=Policy(limits=Limits(...))"
        raise WrongUse(f"policy: {policy!r} is not a Policy{hint}")


def check_tool_choice(tool_choice: Any) -> None:
    """Check that a tool choice is one that providers know."""
    if tool_choice not in get_args(ToolChoice):
        raise WrongUse(f"tool_choice is {tool_choice!r}: use one of {', '.join(get_args(ToolChoice))}")


def check_buffer(buffer: Any) -> None:
    """Check that the buffer is a whole number of events, 1 or more."""
    if type(buffer) is not int or buffer < 1:
        raise WrongUse(f"buffer is {buffer!r}: use a whole number of events, 1 or more")


def check_size(name: str, size: Any) -> None:
    """Check that a size is a whole number of bytes, 0 or more, or None."""
    if size is not None and (type(size) is not int or size < 0):
        raise WrongUse(f"{name} is {size!r}: use a whole number of bytes, 0 or more, or None for none")


def check_prices(prices: Any) -> None:
    """Check that prices are a `Prices`, or an object with its method `of`."""
    if prices is not None and not callable(getattr(prices, "of", None)):
        raise WrongUse(f"prices is {preview(prices)}: write prices=Prices({{'model': Price(input=..., output=...)}})")


def check_clock(clock: Any) -> None:
    """Check that a clock has the methods of `Clock`."""
    for method in ("now", "wall", "sleep", "deadline"):
        if not callable(getattr(clock, method, None)):
            raise WrongUse(f"clock is {preview(clock)}, without {method}(): leave it out, or give a Clock")


def checked_rules(rules: Any) -> tuple[Rule, ...]:
    """Return the rules as a tuple. Raises WrongUse unless they are a sequence of `Rule`."""
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise WrongUse(f"rules takes several rules: write rules=[{preview(rules)}]")
    checked: tuple[Rule, ...] = tuple(rules)
    for rule in checked:
        if not isinstance(rule, Rule):
            raise WrongUse(f"rules: {preview(rule)} is not a Rule: write Rule(name=..., says=..., ...)")
    check_functions(rules=tuple(rule.judge for rule in checked))
    return checked


def check_named(rules: Sequence[Rule], policy: Policy) -> None:
    """Check that the policy names each of the user's rules: it would never ask one that it leaves out."""
    for rule in rules:
        if rule.name not in policy.rules and rule.name not in policy.guards:
            place = "guards" if rule.priority == "guard" else "rules"
            raise WrongUse(
                f"rules: policy {policy.name!r} does not name {rule.name!r}, so it would never be asked: add it, as in "
                f"Policy({place}=(*Policy().{place}, {rule.name!r}))"
            )


def check_record(record: Any) -> None:
    """Check that a record is the path of a file, a `Journal`, or None."""
    if record is None:
        return
    if isinstance(record, str | os.PathLike):
        if not os.fspath(record) or os.path.isdir(record):
            raise WrongUse(f"record is {str(record)!r}, a folder: name a file in it")
        return
    if not all(callable(getattr(record, method, None)) for method in ("write", "flush", "close")):
        raise WrongUse(f"record is {preview(record)}: write the path of a file, or leave it out")


def check_ends(policy: Policy) -> None:
    """Check that a run must end: without a limit on steps it needs another hard limit."""
    limits, session = policy.limits, policy.session_limits
    if limits.steps is None and all(
        getattr(group, name) is None for group in (limits, session) for name in STOP_REASONS
    ):
        raise WrongUse(
            f"policy {policy.name!r} has no limit of steps and no other hard limit, so nothing would end a run whose "
            "model never does: set limits.steps, limits.seconds or limits.cost_usd"
        )


def check_combination(policy: Policy, judge: object, tools: Sequence[object], tool_choice: ToolChoice) -> None:
    """Check that settings do not contradict each other."""
    if judge is not None and "judged" not in policy.guards:
        raise WrongUse("judge: policy.guards leaves out 'judged', so the judge's verdict would have no effect")
    if tool_choice == "required" and not tools:
        raise WrongUse("tool_choice is 'required', but no tools are offered")


def check_output(policy: Policy, hooks: Any, tool_choice: ToolChoice, tools: Sequence[Tool]) -> None:
    """Check that with an output type only its completion tool may end a run as completed."""
    if policy.completion == "none" or tool_choice == "none":
        what = "tool_choice" if tool_choice == "none" else f"policy {policy.name!r}: completion"
        raise WrongUse(
            f"output: {what} is 'none', and the output comes through a completion tool: leave one of them out"
        )
    for role in ("judge", "text_rule"):
        if getattr(hooks, role) is not None:
            raise WrongUse(f"output: a {role} would end a run without an output: check the output in a gate instead")
    for tool in tools:
        if tool.kind == "completion" or tool.spec.completes:
            raise WrongUse(
                f"output: tool {tool.name!r} completes a run, too, without an output: leave it out, or leave output out"
            )


def check_measurable(
    policy: Policy, budget: Budget | None, provider: Provider, known_prices: Callable[[], Mapping[str, object]]
) -> None:
    """Check that a limit on cost has a known price for each model, or a provider that reports the cost.

    A provider declares with `reports_cost = False` that its responses never name their cost; without that attribute it
    is expected to report it.
    """
    sections = {"limits": policy.limits, "session_limits": policy.session_limits}
    limited = [f"{name}.cost_usd" for name, limits in sections.items() if limits.cost_usd is not None]
    limited += ["Budget.cost_usd"] if budget is not None and "cost_usd" in budget.limits else []
    if not limited:
        return
    silent = [leaf.model for leaf in iter_leaf_providers(provider) if not getattr(leaf, "reports_cost", True)]
    unknown = sorted(set(silent) - set(known_prices()))
    if unknown:
        raise WrongUse(
            f"{limited[0]} is set, but the price of model {unknown[0]!r} is not known: "
            f"give its price with prices=Prices({{{unknown[0]!r}: Price(input=..., output=...)}}), or with "
            "--price IN,OUT on the command line; or limit tokens instead"
        )


def check_budget(policy: Policy, budget: Any) -> None:
    """Check that a budget is a `Budget` whose limits end a run under this policy."""
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise WrongUse(f"budget: {budget!r} is not a Budget, as in Budget(cost_usd=5)")
    for limit in budget.limits:
        if STOP_REASONS[limit] not in policy.guards:
            raise WrongUse(
                f"budget: policy.guards leaves out {STOP_REASONS[limit]!r}, so no run would end at the budget's {limit}"
            )
