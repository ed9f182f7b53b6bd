"""In which order workers of pytest-xdist collect files of tests, and are handed them: the longest first.

A worker that begins a long file when the others are nearly done is waited for by all. pytest-xdist goes by the number
of tests in a file, and some files of ten tests start servers, browsers or fleets, and take longer than others of two
hundred.

All workers collect all files. On a machine that has not run the tests before, pytest rewrites the assertions of each
file, which takes as long as all else of collection; so each worker begins in another place, and finds the rest done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling

T = TypeVar("T")
WITH_LITELLM = "tests/providers/"
"""Where tests import litellm in their own process, which takes 5 s of CPU and 190 MB: one worker has them all."""
TOGETHER = {"tests/test_imports.py": "tests/test_structure.py"}
"""Files that go with another one: both read the syntax of all our modules, which one worker does once, in 3 s."""
SECONDS_OF_A_TEST = 0.03
"""Of CPU, on average: what a file is taken for that is not named below."""
SECONDS = {
    WITH_LITELLM: 75,
    "tests/test_code_blocks.py": 36,
    "tests/engine/testing/test_fault_cuts.py": 27,
    "tests/engine/web/test_page.py": 27,
    "tests/engine/durable/test_dbos.py": 22,
    "tests/engine/work/test_guarded_files.py": 22,
    "tests/engine/cli/test_main.py": 20,
    "tests/fleet/test_signals.py": 20,
    "tests/growth/test_growth.py": 20,
    "tests/upgrade/test_upgrade.py": 18,
    "tests/engine/web/test_exported_page.py": 16,
    "tests/promises/test_cancel_points.py": 15,
    "tests/engine/cli/test_fit.py": 14,
    "tests/engine/test_approval_kills.py": 13,
    "tests/engine/web/test_ag_ui.py": 13,
    "tests/engine/web/test_page_places.py": 13,
    "tests/requirements/test_g_until.py": 13,
    "tests/engine/proxy/test_gemini_wire.py": 12,
    "tests/engine/proxy/test_until_exchange.py": 12,
    "tests/growth/test_spans.py": 12,
    "tests/engine/proxy/test_clients.py": 11,
    "tests/engine/web/test_page_content.py": 11,
    "tests/engine/proxy/test_trust.py": 10,
    "tests/engine/proxy/test_until_agent.py": 10,
    "tests/fleet/test_kills.py": 10,
    "tests/engine/analysis/test_fit.py": 9,
    "tests/engine/proxy/test_withheld_completion.py": 9,
    "tests/decision/test_phrases.py": 8,
    "tests/engine/service/test_shared.py": 8,
    "tests/engine/store/test_claiming.py": 8,
    "tests/engine/test_resume.py": 8,
    "tests/fleet/test_bad_input.py": 8,
    "tests/decision/test_assembler.py": 7,
    "tests/engine/proxy/test_wires.py": 7,
    "tests/engine/viewer/test_page_session.py": 7,
    "tests/engine/web/test_page_form.py": 7,
    "tests/engine/work/test_work_fingerprint.py": 7,
    "tests/engine/cli/test_help.py": 6,
    "tests/engine/durable/test_temporal.py": 6,
    "tests/engine/store/test_conformance.py": 6,
    "tests/engine/tools/test_mcp.py": 6,
    "tests/engine/viewer/test_page_list.py": 6,
    "tests/engine/web/test_openapi.py": 6,
    "tests/engine/web/test_protection.py": 6,
    "tests/engine/web/test_schemas.py": 6,
    "tests/promises/test_d3_clear_errors.py": 6,
    "tests/test_structure.py": 6,
    "tests/engine/proxy/test_leaving_agents.py": 5,
    "tests/engine/records/test_other_encoders.py": 5,
    "tests/engine/store/test_tokens.py": 5,
    "tests/engine/web/test_page_replay.py": 5,
    "tests/engine/web/test_report_links.py": 4,
    "tests/decision/test_degeneration.py": 3,
    "tests/decision/test_call_effects.py": 2,
    "tests/decision/test_compared_results.py": 1,
    "tests/decision/test_confirmation.py": 1,
}
"""Seconds of CPU of files that take long, with the processes that they start, or that take far less than most.

Only the order matters. They were measured on 2026-11-29 on two cores with a load of 20, where a browser or a server
costs several times what it costs alone. Files of the fleet wait for leases, and stand here with that.
tests/test_exports.py is not here, that it may come late: mypy, which `make test` runs beside the tests, has filled its
cache by then, and the one of its tests that runs mypy takes 0.7 s of CPU, and not 8.
"""


class Files(LoadFileScheduling):
    """`--dist loadfile`, in the order in which `sort` has put the files; files that share what takes long are one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would go by the number of tests again

    def _split_scope(self, nodeid: str) -> str:
        return _file(nodeid)


class Folder(pytest.Dir):
    """A folder that a worker collects from its own place on: the second of three begins after the first third."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        return from_own_place([*super().collect()], self.config.workerinput)  # type: ignore[attr-defined]


def from_own_place(inside: list[T], worker: Mapping[str, Any]) -> list[T]:
    """All that is in a folder, from this worker's place on. worker: its `workerinput`."""
    at = len(inside) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    return inside[at:] + inside[:at]


def sort(items: list[pytest.Item]) -> None:
    """Put those files first that take longest, in the same order in all workers. Within a file nothing changes."""
    tests = Counter(_file(item.nodeid) for item in items)
    seconds = {file: SECONDS.get(file, count * SECONDS_OF_A_TEST) for file, count in tests.items()}
    items.sort(key=lambda item: (-seconds[_file(item.nodeid)], _file(item.nodeid), item.nodeid.partition("::")[0]))


def _file(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return WITH_LITELLM if nodeid.startswith(WITH_LITELLM) else TOGETHER.get(file, file)
