"""Policies from files: a shipped policy as the base, and the settings that differ."""

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
"""Written in a file for None, which TOML does not have: the setting is switched off."""


def policy_from(data: Mapping[str, Any], where: str = "policy") -> Policy:
    """Build a policy from plain data (a parsed TOML file).

    Key `base` names the shipped policy to start from. `recommended` names a kind of task, whose limits are used unless
    `limits` overrides them. A setting that is None in Python is "off" in a file. `where` begins every error message.

    Raises WrongUse with the unknown key and the closest known one, or with the value and what is allowed.
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
        plain["limits"] = {}  # an unset limit is derived from the others, not taken from the base
    _merge(plain, given, msgspec.to_builtins(POLICIES[base]), where)
    try:
        return Policy(**{name: _group(name, value) for name, value in plain.items()})
    except WrongUse as error:
        raise WrongUse(f"{where}: {error}") from None


def with_setting(policy: Policy, name: str, value: Any) -> Policy:
    """Return the policy with one setting changed, named as in a file: `text`, `limits.steps`. `"off"` means None.

    Raises WrongUse for an unknown setting or a wrong value.
    """
    section, _, key = name.rpartition(".")
    group: Any = getattr(policy, section, None) if section else policy
    known = group.__struct_fields__ if isinstance(group, Settings) else ()
    if key not in known or isinstance(getattr(group, key), Settings):
        raise WrongUse(f"there is no setting {name!r}{did_you_mean(name, setting_names())}")
    changed = replace(group, **{key: None if value == OFF else value})
    return replace(policy, **({section: changed} if section else {key: getattr(changed, key)}))


def setting_names() -> list[str]:
    """The names of all settings, as in a file."""
    names = []
    for name in Policy.__struct_fields__:
        value = getattr(POLICIES["agent"], name)
        names += [f"{name}.{key}" for key in value.__struct_fields__] if isinstance(value, Settings) else [name]
    return names


def _group(name: str, value: Any) -> Any:
    """A section as an object of its class; any other value unchanged."""
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
