"""The checks of `endstop.testing.faults` as fixtures of pytest.

In conftest.py:

    pytest_plugins = ["endstop.testing.pytest_plugin"]

Each fixture is the function of its name. It fails the test with the report, and takes `points` and `seed` from the
command line where the test gives none: `--faults-points 50` in a quick run, `--faults-points all` in a nightly one.
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
"""Changed inputs with `--faults-points all`, as there is no end of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("endstop", "endstop.testing.faults")
    group.addoption(
        "--faults-points",
        type=_points,
        metavar="N",
        help="how many points the checks of faults try, or `all`, where a test does not say it",
    )
    group.addoption(
        "--faults-seed", type=int, metavar="N", help="chooses the points that the checks of faults try; 0 if left out"
    )


def _points(text: str) -> int | str:
    """The value of `--faults-points`."""
    if text == "all":
        return text
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise pytest.UsageError(f"--faults-points is {text!r}: give how many points to try, 1 or more, or all")
    return number


def _failing(check: Check[P], config: pytest.Config, every: int | None = None) -> Check[P]:
    """The check, with the options of the command line, and failing the test that calls it.

    every: the points that `--faults-points all` stands for.
    """
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
        print(report)
        return report

    return checked


@pytest.fixture
def check_cancel_points(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_cancel_points`, failing the test."""
    return _failing(faults.check_cancel_points, pytestconfig)


@pytest.fixture
def check_cut_records(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_cut_records`, failing the test."""
    return _failing(faults.check_cut_records, pytestconfig)


@pytest.fixture
def check_hostile_tools(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_hostile_tools`, failing the test."""
    return _failing(faults.check_hostile_tools, pytestconfig)


@pytest.fixture
def check_hostile_subscribers(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_hostile_subscribers`, failing the test."""
    return _failing(faults.check_hostile_subscribers, pytestconfig)


@pytest.fixture
def check_policy(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_policy`, failing the test."""
    return _failing(faults.check_policy, pytestconfig)


@pytest.fixture
def check_redaction(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_redaction`, failing the test."""
    return _failing(faults.check_redaction, pytestconfig)


@pytest.fixture
def check_store(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_store`, failing the test."""
    return _failing(faults.check_store, pytestconfig)


@pytest.fixture
def check_leaks(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_leaks`, failing the test."""
    return _failing(faults.check_leaks, pytestconfig)


@pytest.fixture
def check_fuzzed_inputs(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_fuzzed_inputs`, failing the test."""
    return _failing(faults.check_fuzzed_inputs, pytestconfig, every=MANY_INPUTS)


@pytest.fixture
def check_fuzzed_responses(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_fuzzed_responses`, failing the test."""
    return _failing(faults.check_fuzzed_responses, pytestconfig, every=MANY_INPUTS)


@pytest.fixture
def check_hostile_endpoints(pytestconfig: pytest.Config) -> Check[...]:
    """`faults.check_hostile_endpoints`, failing the test."""
    return _failing(faults.check_hostile_endpoints, pytestconfig)
