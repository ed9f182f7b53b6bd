"""Signatures are short in `help` and complete for a program."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import sys
from typing import Any

import msgspec
import pytest
from endstop.decision import Facts, Limits, Outcome, Policy, Prompts
from endstop.decision.signatures import ShortSignature

from ..test_exports import PUBLIC

SHORTENED = (Facts, Outcome, Policy, Prompts)
MAIN = ("Engine", "Run", "Session", "Policy", "Limits", "Outcome", "Hooks", "OpenAICompatible", "Fleet", "tool")


def _signature(name: str, package: str) -> str:
    try:
        return str(inspect.signature(getattr(importlib.import_module(package), name)))
    except (TypeError, ValueError):
        return ""


def test_no_public_name_has_a_signature_of_more_than_1200_characters() -> None:
    lengths = {name: len(_signature(name, package)) for package in PUBLIC for name in PUBLIC[package].split()}
    assert {name: length for name, length in lengths.items() if length > 1200} == {}


@pytest.mark.parametrize("kind", SHORTENED)
def test_the_parameters_of_a_short_signature_are_complete(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == [field.name for field in msgspec.structs.fields(kind)]
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            assert parameters[field.name].default == field.default


def test_a_short_signature_shows_the_defaults_that_are_short() -> None:
    text = str(inspect.signature(Policy))
    assert "closing_tokens=4000" in text
    assert "prompts=Prompts()" in text
    assert str(inspect.signature(Facts)).endswith(", ...)")


@pytest.mark.parametrize("name", MAIN)
def test_help_has_the_first_sentence_within_fifteen_lines_of_a_terminal(name: str) -> None:
    thing = getattr(importlib.import_module("endstop"), name)
    page = pydoc.render_doc(thing, renderer=pydoc.plaintext)
    lines = [line[start : start + 100] for line in page.splitlines() for start in range(0, max(1, len(line)), 100)]
    sentence = (thing.__doc__ or "").strip().splitlines()[0][:60]
    signature = inspect.signature(thing)
    one_a_line = sys.version_info >= (3, 13) and not isinstance(signature, ShortSignature)
    most = 15 + (len(signature.parameters) if one_a_line else 0)
    assert any(sentence in line for line in lines[:most])


def test_a_shortened_struct_still_compares_and_decodes() -> None:
    policy = Policy(limits=Limits(steps=3))
    assert msgspec.convert(msgspec.to_builtins(policy), Policy) == policy
