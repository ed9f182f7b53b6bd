"""What the log says of an exception with which another library's tool tells the model to try again."""

from __future__ import annotations

import logging

import pytest
from endstop import Engine, tool
from endstop.providers import Scripted, call


class ModelRetry(Exception):
    """The exception of that name, as Pydantic AI has it."""


@tool
def look(city: str) -> str:
    """Look at a city."""
    raise KeyError(city) if city == "Ulm" else ModelRetry("name a larger city")


@pytest.mark.parametrize(("city", "hint"), [("Bonn", "write `InvalidArguments`"), ("Ulm", None)])
def test_an_exception_of_another_library_is_logged_with_ours(
    city: str, hint: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="endstop"):
        Engine(Scripted(call("look", city=city), "Done."), tools=[look]).run_sync("x")
    (raised,) = [record for record in caplog.records if "tool raised" in record.getMessage()]
    assert getattr(raised, "hint", None) == hint
