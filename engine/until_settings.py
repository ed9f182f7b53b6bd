"""The check that says when the work is done, as data: the table `until` of a policy file, and of a new session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from .check_answers import Check
from .decision import WrongUse
from .decision.errors import did_you_mean
from .until import CHECK_SECONDS, SHARE, Until


class UntilSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an `Until` whose checks are commands.

    The other fields are those of `Until`.
    """

    commands: tuple[str, ...]
    """At least one; all must succeed."""
    guard: tuple[str, ...] = ()
    score: str | None = None
    timeout: float = CHECK_SECONDS
    share: float = SHARE
    copy: bool = False
    from_failing: bool = True
    env: tuple[str, ...] = ()
    inside: str = ""

    def build(self, folder: str | None = None, more: Sequence[Check] = ()) -> Until:
        """Return the check. folder: where its commands run, as in `Until`. more: functions. Raises WrongUse."""
        options = structs.asdict(self)
        return Until(*options.pop("commands"), *more, folder=folder, **options)


OPERATOR_ONLY = ("env", "inside")
"""Fields that say where commands run and what they see: a client of a server may not set them."""


def until_settings_from(data: object, where: str, *, refused: Collection[str] = ()) -> UntilSettings:
    """Return the settings for plain data: a table with the fields above, a command, or a list of commands.

    where: begins every error message. refused: fields that may not be given.

    Raises WrongUse with the unknown key and the closest known one, or with the value and what is allowed.
    """
    if isinstance(data, str | list | tuple):
        data = {"commands": data}
    if not isinstance(data, Mapping):
        raise WrongUse(f"{where} is {data!r}: write a command, as in 'pytest -q', a list of commands, or a table")
    table = {**data}
    known = [name for name in UntilSettings.__struct_fields__ if name not in refused]
    for key in table:
        if key not in known:
            raise WrongUse(f"{where}: unknown key {key!r}{did_you_mean(str(key), known)}")
    if isinstance(table.get("commands"), str):
        table["commands"] = [table["commands"]]
    try:
        settings = msgspec.convert(table, UntilSettings)
    except msgspec.ValidationError as error:
        raise WrongUse(f"{where}: {error}") from None
    if not settings.commands or not all(command.strip() for command in settings.commands):
        raise WrongUse(f"{where}: commands needs a command, as in 'pytest -q', and none may be empty")
    try:
        settings.build()
    except WrongUse as error:
        raise WrongUse(f"{where}: {error}") from None
    return settings


def session_until(metadata: Mapping[str, Any]) -> UntilSettings | None:
    """Return the settings that are kept in the metadata of a session; None if it has none."""
    kept: Any = metadata.get(KEPT_AS)
    return None if kept is None else until_settings_from(kept, KEPT_AS)


def with_session_until(metadata: Mapping[str, Any], settings: UntilSettings | None) -> dict[str, Any]:
    """Return the metadata of a session with these settings kept in them. Raises WrongUse if they hold others."""
    if KEPT_AS in metadata:
        raise WrongUse(f"metadata: the key {KEPT_AS!r} is reserved: the check of a session is its `until`")
    return {**metadata} if settings is None else {**metadata, KEPT_AS: msgspec.to_builtins(settings)}


KEPT_AS = "endstop.until"
"""The key of a session's metadata that keeps its check, so that every process that continues the session has it."""
