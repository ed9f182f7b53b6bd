"""Work on many files, with real processes."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.records import parallel as pool
from endstop.records.parallel import FileFailure, map_files

PATIENCE = 60.0
WORK = '''
import os
import signal
from pathlib import Path

from endstop.decision import WrongUse


def read(path: Path) -> str:
    return path.read_text() + "!"


def pick(path: Path) -> object:
    """Do what the file says."""
    match path.read_text():
        case "wrong":
            raise WrongUse(f"{path.name} is no record")
        case "raise":
            raise ZeroDivisionError("by zero")
        case "exit":
            raise SystemExit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(7)
        case "odd":
            return lambda: 0
        case "deep":
            return pick(path)
        case "large":
            return "x" * 3_000_000
        case "memory":
            raise MemoryError
        case text:
            return text


def hang(path: Path) -> None:
    """Say that it has begun, and end only when it is ended: then tidy up."""
    Path(str(path) + ".begun").touch()
    try:
        signal.pause()
    finally:
        Path(str(path) + ".begun").unlink()


def who(path: Path) -> int:
    return os.getpid()
'''


@pytest.fixture
def work(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Functions of a module that worker processes can import."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "work_of_tests.py").write_text(WORK)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("work_of_tests")
    sys.modules.pop("work_of_tests")


def files(folder: Path, *contents: str) -> list[Path]:
    paths = [folder / f"{number:03}" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    return paths


@pytest.mark.parametrize("processes", [1, 2])
def test_the_results_come_in_the_order_of_the_files(work: ModuleType, tmp_path: Path, processes: int) -> None:
    paths = files(tmp_path, *map(str, range(100)))
    told: list[tuple[int, int]] = []
    results = list(map_files(work.read, paths, processes=processes, progress=lambda *far: told.append(far)))
    assert results == [(path, f"{number}!") for number, path in enumerate(paths)]
    assert told[0] == (0, 100)
    assert told[-1] == (100, 100)
    assert told == sorted(told)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_fails_is_named_and_the_others_are_done(work: ModuleType, tmp_path: Path, processes: int) -> None:
    contents = ["a", "wrong", "raise", "b", "exit", "deep", "memory", "large", "c"]
    results = [result for _, result in map_files(work.pick, files(tmp_path, *contents), processes=processes)]
    said = [result.message if isinstance(result, FileFailure) else result for result in results]
    assert said[1] == "001 is no record"
    assert said[2] == "ZeroDivisionError: by zero"
    assert said[4] == "SystemExit: 3"
    assert "RecursionError" in str(said[5])
    assert "MemoryError" in str(said[6])
    assert [said[0], said[3], said[7], said[8]] == ["a", "b", "x" * 3_000_000, "c"]
    assert [isinstance(result, FileFailure) for result in results].count(True) == 5
    assert isinstance(results[1], FileFailure)
    assert results[1].path == tmp_path / "001"


def test_a_worker_that_is_killed_costs_its_file_only(work: ModuleType, tmp_path: Path) -> None:
    contents = ["kill" if number in (0, 7, 8, 49) else str(number) for number in range(50)]
    contents[20] = "leave"
    results = [result for _, result in map_files(work.pick, files(tmp_path, *contents), processes=2)]
    failed = {number: result.message for number, result in enumerate(results) if isinstance(result, FileFailure)}
    assert set(failed) == {0, 7, 8, 20, 49}
    assert failed[7] == "its worker process was killed by SIGKILL, probably because memory ran out"
    assert failed[20] == "its worker process was ended with exit code 7"
    assert all(result == str(number) for number, result in enumerate(results) if number not in failed)


def test_a_result_that_cannot_be_handed_over_is_that_files_failure(work: ModuleType, tmp_path: Path) -> None:
    results = [result for _, result in map_files(work.pick, files(tmp_path, "a", "odd", "b"), processes=2)]
    assert results[0], results[2] == ("a", "b")
    assert isinstance(results[1], FileFailure)
    assert "its result cannot be pickled" in results[1].message


def test_few_small_files_need_no_process_and_many_large_ones_get_them(work: ModuleType, tmp_path: Path) -> None:
    paths = files(tmp_path, *["x"] * 20)
    assert {pid for _, pid in map_files(work.who, paths)} == {os.getpid()}
    with open(paths[3], "wb") as file:
        file.truncate(pool.MIN_PARALLEL_BYTES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
        pids = {pid for _, pid in map_files(work.who, paths)}
    assert os.getpid() not in pids


def test_no_more_is_done_ahead_than_a_bounded_number_of_files(work: ModuleType, tmp_path: Path) -> None:
    paths = files(tmp_path, *["x"] * 600)
    ahead: list[int] = []
    done = 0

    def tell(finished: int, total: int) -> None:
        ahead.append(finished - done)

    for _ in map_files(work.read, paths, processes=2, progress=tell):
        done += 1
    assert done == 600
    assert max(ahead) <= 2 * pool.MAX_AHEAD_PER_WORKER + 1


def test_leaving_the_loop_ends_the_workers(work: ModuleType, tmp_path: Path) -> None:
    paths = files(tmp_path, *["x"] * 200)
    results = map_files(work.who, paths, processes=2)
    pids = {pid for _, (_, pid) in zip(range(100), results, strict=False)}
    results.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(str(pid)), 0)


def test_what_no_worker_can_do_is_wrong_use(tmp_path: Path) -> None:
    paths = files(tmp_path, "a", "b")
    with pytest.raises(WrongUse, match="cannot be sent to a worker process"):
        list(map_files(lambda path: path, paths, processes=2))
    with pytest.raises(WrongUse, match="processes is 0"):
        map_files(str, paths, processes=0)
    assert list(map_files(str, [], processes=4)) == []


def test_workers_that_cannot_begin_are_told_and_not_tried_for_each_file(
    work: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert work.__file__ is not None
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(Path(work.__file__).parent)])
    with pytest.raises(WrongUse, match="ended with exit code 1 before it started"):
        list(map_files(work.read, files(tmp_path, *["x"] * 50), processes=2))
    assert "No module named 'work_of_tests'" in capfd.readouterr().err


SCRIPT = """
    import sys
    from pathlib import Path
    from endstop.records.parallel import map_files
    from work_of_tests import hang

    if __name__ == "__main__":
        paths = [Path(name) for name in sys.argv[1:]]
        for path, result in map_files(hang, paths, processes=2):
            print(result)
"""


def test_ctrl_c_ends_all_processes_at_once_and_quietly(work: ModuleType, tmp_path: Path) -> None:
    paths = files(tmp_path, *["x"] * 40)
    process = start(work, tmp_path, paths)
    try:
        begun = wait_for_two(paths)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)  # ends once no process holds stderr open any more
    finally:
        end(process)
    assert begun == 2
    assert list(tmp_path.glob("*.begun")) == [], "each had the time to tidy up"
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1, err
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_workers_end_when_whoever_started_them_is_killed(work: ModuleType, tmp_path: Path) -> None:
    paths = files(tmp_path, *["x"] * 40)
    process = start(work, tmp_path, paths, script=SCRIPT.replace("hang", "read"), stall=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # workers are there, and the pipe is not read on: all wait
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        process.stdout.read()  # ends once nobody holds it open any more
    finally:
        end(process)


def start(
    work: ModuleType, folder: Path, paths: list[Path], script: str = SCRIPT, stall: bool = False
) -> subprocess.Popen[str]:
    """A process group of its own that works on these files."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(script))
    assert work.__file__ is not None
    found = os.pathsep.join(filter(None, (str(Path(work.__file__).parent), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, program, *paths],
        env={**os.environ, "PYTHONPATH": found, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if stall else subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_two(paths: list[Path]) -> int:
    """Wait until two files are being worked on."""
    folder = paths[0].parent
    for _ in range(int(PATIENCE * 100)):
        begun = len(list(folder.glob("*.begun")))
        if begun == 2:
            return begun
        signal.sigtimedwait([], 0.01)
    raise TimeoutError(f"{begun} files begun")


def end(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
