"""The checks of `endstop.testing.faults` as pytest fixtures.

In conftest.py:

    pytest_plugins = ["endstop.testing.pytest_plugin"]

Each fixture is the function of the same name. It fails the test with the report, and takes `points` and `seed` from the
command line if the test gives none: `--faults-points 50` in a quick run, `--faults-points all` in a nightly one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

import pytest

from . import faults
from .faults import FaultReport

P = ParamSpec("P")
Check = Callable[P, FaultReport]
MANY_INPUTS = 100_000
"""Number of changed inputs with `--faults-points all`, because there are infinitely many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("endstop", "endstop.testing.faults")
    group.addoption(
        "--faults-points",
        type=_points,
        metavar="N",
        help="number of points that the fault checks try, or `all`, if a test does not set it",
    )
    group.addoption(
        "--faults-seed", type=int, metavar="N", help="seed for choosing the points that the checks try; 0 by default"
    )


def _points(text: str) -> int | str:
    """Return the value of `--faults-points`."""
    if text == "all":
        return text
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise pytest.UsageError(f"--faults-points is {text!r}: give the number of points to try, 1 or more, or all")
    return number


def _failing(check: Check[P], request: pytest.FixtureRequest, every: int | None = None) -> Check[P]:
    """Return the check with the options of the command line; its version fails the test that calls it.

    pytest shows the report of a check that finds nothing beside what the test prints, as with `-rP`.
    every: the points for `--faults-points all`.
    """
    config = request.config
    takes = inspect.signature(check).parameters
    given: dict[str, Any] = {"points": config.getoption("faults_points"), "seed": config.getoption("faults_seed")}
    options = {name: value for name, value in given.items() if value is not None and name in takes}
    if options.get("points") == "all":
        options["points"] = every

    @functools.wraps(check)
    def checked(*arguments: P.args, **named: P.kwargs) -> FaultReport:
        __tracebackhide__ = True
        report = check(*arguments, **{**options, **named})
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        request.node.add_report_section("call", check.__name__, str(report))
        return report

    return checked


@pytest.fixture
def check_cancel_points(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_cancel_points`, which then fails the test."""
    return _failing(faults.check_cancel_points, request)


@pytest.fixture
def check_cut_records(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_cut_records`, which then fails the test."""
    return _failing(faults.check_cut_records, request)


@pytest.fixture
def check_hostile_tools(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_hostile_tools`, which then fails the test."""
    return _failing(faults.check_hostile_tools, request)


@pytest.fixture
def check_hostile_subscribers(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_hostile_subscribers`, which then fails the test."""
    return _failing(faults.check_hostile_subscribers, request)


@pytest.fixture
def check_policy(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_policy`, which then fails the test."""
    return _failing(faults.check_policy, request)


@pytest.fixture
def check_redaction(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_redaction`, which then fails the test."""
    return _failing(faults.check_redaction, request)


@pytest.fixture
def check_store(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_store`, which then fails the test."""
    return _failing(faults.check_store, request)


@pytest.fixture
def check_leaks(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_leaks`, which then fails the test."""
    return _failing(faults.check_leaks, request)


@pytest.fixture
def check_fuzzed_inputs(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_fuzzed_inputs`, which then fails the test."""
    return _failing(faults.check_fuzzed_inputs, request, every=MANY_INPUTS)


@pytest.fixture
def check_fuzzed_responses(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_fuzzed_responses`, which then fails the test."""
    return _failing(faults.check_fuzzed_responses, request, every=MANY_INPUTS)


@pytest.fixture
def check_hostile_endpoints(request: pytest.FixtureRequest) -> Check[...]:
    """Return `faults.check_hostile_endpoints`, which then fails the test."""
    return _failing(faults.check_hostile_endpoints, request)
