"""Docstrings of public names say what their parameters are."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, get_overloads

import pytest
from endstop import Engine, Run, Session

from .test_exports import PUBLIC

PACKAGES = ("endstop", "endstop.providers")
LEAST = 0.95
"""Share of the parameters of public names that a docstring has to name."""


def _parameters(thing: Any) -> list[str]:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _described_fields(kind: type) -> Iterator[str]:
    """Yield the names of the fields that have a docstring of their own."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return
    assert isinstance(body, ast.ClassDef)
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield ast.unparse(field.target)


@cache
def _text(thing: Any) -> str:
    kinds = thing.__mro__[:-1] if inspect.isclass(thing) else ()
    texts = [inspect.getdoc(thing), *(kind.__doc__ for kind in kinds), *(kind.__init__.__doc__ for kind in kinds)]
    fields = [name for kind in kinds for name in _described_fields(kind)]
    return " ".join([text or "" for text in texts] + fields)


def _unnamed(thing: Any) -> list[str]:
    return [name for name in _parameters(thing) if not re.search(rf"\b{name}\b", _text(thing))]


def test_docstrings_name_nearly_all_parameters_of_public_names() -> None:
    things = {
        name: getattr(importlib.import_module(package), name)
        for package in PACKAGES
        for name in PUBLIC[package].split()
    }
    total = sum(len(_parameters(thing)) for thing in things.values())
    unnamed = {name: missing for name, thing in things.items() if (missing := _unnamed(thing))}
    assert sum(map(len, unnamed.values())) <= (1 - LEAST) * total, unnamed


@pytest.mark.parametrize("kind", [Engine, Session, Run])
def test_docstrings_name_all_parameters_of_what_is_called_first(kind: type) -> None:
    methods = {name: method for name, method in vars(kind).items() if inspect.isfunction(method) and name[0] != "_"}
    unnamed = {name: [one for one in _unnamed(method) if one != "self"] for name, method in methods.items()}
    internal = {"copy_from", "load", "load_fork", "begin_as_recorded", "attach", "drive"}
    assert {name: missing for name, missing in unnamed.items() if missing and name not in internal} == {}


def test_each_overload_of_the_engine_takes_what_the_engine_takes() -> None:
    parameters = inspect.signature(Engine.__init__).parameters.values()
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    overloads = get_overloads(Engine.__init__)
    assert len(overloads) == 2
    assert [list(inspect.signature(one).parameters) for one in overloads] == [names] * 2
