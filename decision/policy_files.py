"""A policy from what stands in a file: a shipped one as its base, and the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from .errors import WrongUse, did_you_mean
from .limits import RECOMMENDED
from .policy import POLICIES, Policy
from .settings import Settings

OFF = "off"
"""What stands in a file, which has no None, for a setting that is switched off."""


def policy_from(data: Mapping[str, Any], where: str = "policy") -> Policy:
    """A policy from plain data (a parsed TOML file).

    Key `base` names the shipped policy that it starts from, `recommended` the recommended limits for a kind of task,
    over which `limits` are laid. A setting that can be None in Python is "off" in a file.

    Raises WrongUse that names the key and the nearest known one, or the value and the expected type.
    """
    given = dict(data)
    base = given.pop("base", "agent")
    if not isinstance(base, str) or base not in POLICIES:
        raise WrongUse(f"{where}: unknown base {base!r}{did_you_mean(str(base), POLICIES)}")
    plain = msgspec.to_builtins(POLICIES[base])
    task = given.pop("recommended", None)
    if task is not None and not (isinstance(task, str) and task in RECOMMENDED):
        raise WrongUse(f"{where}: unknown kind of task in recommended: {task!r}{did_you_mean(str(task), RECOMMENDED)}")
    if task is not None:
        plain["limits"] = msgspec.to_builtins(RECOMMENDED[task])
    elif "limits" in given:
        plain["limits"] = {}  # limits depend on each other: unset ones are derived anew
    _merge(plain, given, msgspec.to_builtins(POLICIES[base]), where)
    try:
        return Policy(**{name: _group(name, value) for name, value in plain.items()})
    except WrongUse as error:
        raise WrongUse(f"{where}: {error}") from None


def with_setting(policy: Policy, name: str, value: Any) -> Policy:
    """The policy with one setting changed, by its name as in a file: `text`, `limits.steps`. `"off"` is None.

    Raises WrongUse for a setting that does not exist or does not take the value.
    """
    section, _, key = name.rpartition(".")
    group: Any = getattr(policy, section, None) if section else policy
    known = group.__struct_fields__ if isinstance(group, Settings) else ()
    if key not in known or isinstance(getattr(group, key), Settings):
        raise WrongUse(f"there is no setting {name!r}{did_you_mean(name, setting_names())}")
    changed = replace(group, **{key: None if value == OFF else value})
    return replace(policy, **({section: changed} if section else {key: getattr(changed, key)}))


def setting_names() -> list[str]:
    """Every setting of a policy by its name in a file."""
    names = []
    for name in Policy.__struct_fields__:
        value = getattr(POLICIES["agent"], name)
        names += [f"{name}.{key}" for key in value.__struct_fields__] if isinstance(value, Settings) else [name]
    return names


def _group(name: str, value: Any) -> Any:
    """A section as its settings; anything else as it is."""
    default = getattr(POLICIES["agent"], name)
    return type(default)(**value) if isinstance(default, Settings) and isinstance(value, Mapping) else value


def _merge(into: dict[str, Any], given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key, value in given.items():
        if key not in known:
            raise WrongUse(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")
        if isinstance(known[key], dict) and isinstance(value, Mapping):
            _merge(into[key], value, known[key], f"{where}, [{key}]")
        else:
            into[key] = None if value == OFF and not isinstance(known[key], str) else value
