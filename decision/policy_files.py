"""Policies from files: a shipped policy as the base, and the settings that differ.

A policy that `endstop fit` wrote names every setting, and says in its table `fitted` what is guaranteed of it. It is
read like the policy of a record: a setting that it does not name, because a later version added it, has its old
meaning. If a setting was changed by hand, the guarantee is void, and the file is refused until the table is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .errors import WrongUse, did_you_mean
from .limits import RECOMMENDED, Limits
from .policy import POLICIES, Policy
from .settings import Settings, settings_from_record
from .wrong_calls import explained

OFF = "off"
"""Written in a file for None, which TOML lacks: the setting is switched off."""

FITTED_FORMAT = 2
"""The `format` of the table `fitted`. Incremented when its meaning changes; a file with a higher one is refused."""


class Fitted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `endstop fit` guarantees of a policy, and by which data: the table `fitted` of its file."""

    format: int
    version: str
    """Version of endstop that fitted it."""
    date: str
    guarantee: str
    """The guarantee in words."""
    max_false_stops: float
    """The bound: at most this share of the units has a good run that is stopped too early."""
    confidence: float
    upper_bound: float
    """Exact upper bound of that share at this confidence, from the part of the data used for the test."""
    false_stops: int
    """Number of units of that part with a good run that was stopped too early."""
    tested: int
    """Number of units of that part with a good run."""
    unit: Literal["task", "run"]
    anchor: str
    """The anchor up to which a good run is needed."""
    tolerance: int
    """Number of steps before the anchor that may be lost."""
    sessions: int
    good: int
    bad: int
    ids: str
    """Digest of the ids and the labels."""
    seed: int
    settings: str
    """Digest of all settings of the file."""
    steps: dict[str, float] | None = None
    """The share of each kind of step in those sessions (`StepKind`), from 0 to 1; None in a file of format 1."""


@explained
def policy_from(data: Mapping[str, Any], where: str = "policy") -> Policy:
    """Build a policy from plain data (a parsed TOML file).

    Key `base` names the shipped policy to start from. `recommended` names a kind of task, whose limits are used unless
    `limits` overrides them. A setting that is None in Python is "off" in a file. `where` begins every error message.
    A table `fitted`, which `endstop fit` writes, is checked and left out of the policy.

    Raises WrongUse with the unknown key and the closest known one, or with the value and what is allowed.
    """
    given = dict(data)
    if "fitted" in given:
        return _fitted_policy(given, where)
    if "until" in given:
        raise WrongUse(f"{where}: [until] is not part of a policy: in Python it is Engine(until=Until(...))")
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
        made = _group(POLICIES["agent"], plain)
        assert isinstance(made, Policy)
        return made
    except WrongUse as error:
        raise WrongUse(f"{where}: {error}") from None


def _fitted_policy(data: Mapping[str, Any], where: str) -> Policy:
    """Return the policy of a file that `endstop fit` wrote. Raises WrongUse if its guarantee is not known to hold."""
    given = dict(data)
    fitted = fitted_from(given, where)
    del given["fitted"]
    if fitted.settings != _settings_digest(given):
        raise WrongUse(
            f"{where}: its settings were changed after `endstop fit` chose them, so that the guarantee in [fitted] is "
            "void: delete that table, or fit again"
        )
    plain: dict[str, Any] = {name: {} for name, value in _DEFAULTS.items() if isinstance(value, dict)}
    try:
        _merge(plain, given, _DEFAULTS, where)
    except WrongUse as error:
        raise WrongUse(f"{error}; endstop {fitted.version} fitted it, which may be newer than this one") from None
    try:
        return settings_from_record(Policy, plain)
    except (WrongUse, msgspec.ValidationError) as error:
        raise WrongUse(f"{where}: {error}") from None


def fitted_from(data: Mapping[str, Any], where: str) -> Fitted:
    """Return the table `fitted` of a policy file. Raises WrongUse if a newer endstop wrote it or it is damaged."""
    table = data["fitted"]
    made = table.get("format") if isinstance(table, Mapping) else None
    if isinstance(made, int) and made > FITTED_FORMAT:
        raise WrongUse(
            f"{where}: it was fitted by endstop {table.get('version', '(unknown)')}, which is newer than this one "
            f"(format {made}; this one knows up to {FITTED_FORMAT}): upgrade endstop, or delete the table [fitted]"
        )
    try:
        return msgspec.convert(table, Fitted)
    except msgspec.ValidationError as error:
        raise WrongUse(f"{where}, [fitted]: {error}: fit again, or delete the table") from None


def _settings_digest(settings: Mapping[str, Any]) -> str:
    """Return a digest of the settings of a file, without its name."""
    plain = {name: value for name, value in settings.items() if name not in ("name", "fitted")}
    return sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:16]


def with_setting(policy: Policy, name: str, value: Any) -> Policy:
    """Return the policy with one setting changed, named as in a file: `text`, `limits.steps`. `"off"` means None.

    Raises WrongUse for an unknown setting or a wrong value.
    """
    if name not in setting_names() and not (name in _OPTIONAL_GROUPS and value == OFF):
        raise WrongUse(f"there is no setting {name!r}{did_you_mean(name, setting_names())}")
    changed = _with(policy, POLICIES["agent"], name.split("."), None if value == OFF else value)
    assert isinstance(changed, Policy)
    return changed


def _with(group: Any, default: Any, path: Sequence[str], value: Any) -> Any:
    """Return a group of settings with the one at this path changed. default: the same group of the policy `agent`."""
    key, *rest = path
    if isinstance(group, Limits) and key == "steps":
        return group.with_steps(value)
    inner = getattr(default, key)
    changed = _with(getattr(group, key) or inner, inner, rest, value) if rest else value
    return replace(group, **{key: changed})


_OPTIONAL_GROUPS = ("limits.extend",)
"""Groups of settings that may be off as a whole."""


def setting_names(group: Settings | None = None, section: str = "") -> list[str]:
    """Return the names of all settings of a policy (or of a group, with this prefix), as in a file."""
    group = group or POLICIES["agent"]
    names: list[str] = []
    for name in group.__struct_fields__:
        value = getattr(group, name)
        names += setting_names(value, f"{section}{name}.") if isinstance(value, Settings) else [f"{section}{name}"]
    return names


def _group(default: Any, value: Any) -> Any:
    """Return a section as an object of the class of its default; any other value unchanged."""
    if not isinstance(default, Settings) or not isinstance(value, Mapping):
        return value
    return type(default)(**{name: _group(getattr(default, name), inner) for name, inner in value.items()})


def _merge(into: dict[str, Any], given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key, value in given.items():
        if key not in known:
            raise WrongUse(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")
        if isinstance(known[key], dict) and isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value, known[key], f"{where}, [{key}]")
        else:
            into[key] = None if value == OFF and not isinstance(known[key], str) else value


# ---- writing

_DEFAULTS = msgspec.to_builtins(POLICIES["agent"])


def fitted_policy_text(
    policy: Policy, fitted: Fitted, comment: str = "", tables: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Return the TOML file of a fitted policy: all settings but the name, which is the file's, and the table `fitted`.

    `fitted.settings` is computed here. comment: lines at the top, without `#`. tables: others of the file, which are no
    part of the policy (`until`).
    """
    plain = {name: value for name, value in msgspec.to_builtins(policy).items() if name != "name"}
    settings = _without_none(plain)
    table = msgspec.to_builtins(replace(fitted, settings=_settings_digest(settings)))
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, "", *_toml_lines({**settings, **tables, "fitted": table})]).lstrip("\n") + "\n"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items()}
    return OFF if value is None else value


def _toml_lines(settings: Mapping[str, Any], section: str = "") -> Iterator[str]:
    """Yield the lines of the values, then a section for each group."""
    groups = {name: value for name, value in settings.items() if isinstance(value, dict)}
    yield from (f"{name} = {_toml_value(value)}" for name, value in settings.items() if name not in groups)
    for name, group in groups.items():
        yield from ("", f"[{section}{name}]", *_toml_lines(group, f"{section}{name}."))


def _toml_value(value: Any) -> str:
    """Return a value in TOML. JSON escapes all but two of the characters that must be escaped."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
