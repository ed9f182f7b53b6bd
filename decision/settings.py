"""Base class of all groups of settings: values are checked on construction, whether from Python or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import force_setattr

from .argument_types import IN_A_FILE, describe_type, fits
from .errors import WrongUse
from .wrong_calls import ExplainedStruct

_Group = TypeVar("_Group", bound="Settings")


class Settings(ExplainedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """A group of settings. A wrong value raises WrongUse with the setting's name, its value and what is allowed."""

    section: ClassVar[str] = ""
    """Prefix of the settings' names in messages, with a trailing dot: the section of the file."""
    legacy_defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings that older records lack, each with the value that stands for the behaviour of that time. A record
    without such a setting is read with this value, never with today's default."""

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)).items():
            value = getattr(self, name)
            if value is default:
                continue
            kind = setting_types(type(self))[name]
            if isinstance(value, float) and not isfinite(value):
                raise WrongUse(f"{self.section}{name} is {value}: use a finite number, or leave it out")
            if not fits(value, kind):
                raise WrongUse(f"{self.section}{name} is {value!r}: use {describe_type(kind, IN_A_FILE)}")
            if isinstance(value, list):
                force_setattr(self, name, tuple(value))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these settings changed. It is checked like a new one.

        changes: new values by the name of the setting; a group of settings is one value, as in
            `policy.replace(limits=policy.limits.replace(steps=50))`. Raises WrongUse for a value that cannot be.
        """
        kept = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(**(kept | changes))


@cache
def _defaults(group: type[Struct]) -> dict[str, Any]:
    """Return the default of each setting of a group, which need not be checked."""
    fields, defaults = group.__struct_fields__, group.__struct_defaults__
    required = len(fields) - len(defaults)
    return dict(zip(fields, (*[NODEFAULT] * required, *defaults), strict=True))


@cache
def setting_types(group: type[Struct]) -> dict[str, Any]:
    """Return the type of each setting of a group."""
    hints = get_type_hints(group)
    return {name: hints[name] for name in group.__struct_fields__}


def settings_from_record(group: type[_Group], data: Any) -> _Group:
    """Build settings from the plain data of a record.

    A setting that the data lacks gets its value from `legacy_defaults`, or its default if it is not listed there.
    Raises msgspec.ValidationError for data of another form, WrongUse for a value out of range.
    """
    return msgspec.convert(_with_old_meaning(group, data), group)


def settings_to_record(settings: Settings) -> dict[str, Any]:
    """Return the settings that `settings_from_record` would not fill in by itself, as plain data.

    If a default is changed later, its old value must be added to `legacy_defaults`; a test holds every default.
    """
    base = settings_from_record(type(settings), {})
    written: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value, read = getattr(settings, name), getattr(base, name)
        if value == read and type(value) is type(read):
            continue
        group = isinstance(value, Settings) and isinstance(read, Settings)
        written[name] = settings_to_record(value) if group else msgspec.to_builtins(value)
    return written


def _with_old_meaning(group: type[Struct], data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    filled = dict(data)
    if issubclass(group, Settings):
        for name, value in group.legacy_defaults.items():
            filled.setdefault(name, value)
    for name, kind in setting_types(group).items():
        if isinstance(kind, type) and issubclass(kind, Settings):
            filled[name] = _with_old_meaning(kind, filled.get(name, {}))
    return filled
