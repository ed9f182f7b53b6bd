"""The fingerprint changes with the work, with nothing else, and runs nothing that the folder names."""

import functools
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endstop.work import file_states, git_files
from endstop.work.file_states import FileStates
from endstop.work.work_fingerprint import CACHE_TAG, WorkFingerprint
from hypothesis import given
from hypothesis import strategies as st

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _fill(folder: Path) -> None:
    write(folder / "main.py", "print(1)\n")
    write(folder / "package" / "module.py", "value = 1\n")
    write(folder / "run.sh").chmod(0o755)
    os.symlink("main.py", folder / "link")


@pytest.fixture(params=["git", "no git"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with four files, in a repository of its own or in none."""
    folder = tmp_path / "work"
    folder.mkdir()
    _fill(folder)
    if request.param == "git":
        commit(folder)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    _fill(folder)
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def _other_link(work: Path) -> None:
    (work / "link").unlink()
    os.symlink("run.sh", work / "link")


def _link_for_a_file(work: Path) -> None:
    (work / "main.py").unlink()
    os.symlink("package/module.py", work / "main.py")


def _link_for_a_folder(work: Path) -> None:
    (work / "package").rename(work.parent / "elsewhere")
    os.symlink(work.parent / "elsewhere", work / "package")


def _folder_for_a_file(work: Path) -> None:
    (work / "main.py").unlink()
    (work / "main.py").mkdir()


def _fifo_for_a_file(work: Path) -> None:
    (work / "main.py").unlink()
    os.mkfifo(work / "main.py")


def _same_size_same_times(work: Path) -> None:
    path = work / "main.py"
    before = path.stat()
    path.write_text("print(2)\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "other content": lambda work: write(work / "main.py", "print(1, 2)\n"),
    "other content of the same size, with the times of the old one": _same_size_same_times,
    "a new file": lambda work: write(work / "new.py"),
    "a new file in a new folder": lambda work: write(work / "a" / "b" / "new.py"),
    "a deleted file": lambda work: (work / "main.py").unlink(),
    "a renamed file": lambda work: (work / "main.py").rename(work / "other.py"),
    "an executable file": lambda work: (work / "main.py").chmod(0o755),
    "a file that is not executable any more": lambda work: (work / "run.sh").chmod(0o644),
    "another target of a link": _other_link,
    "a link instead of a file": _link_for_a_file,
    "a link instead of a folder with the same files": _link_for_a_folder,
    "a folder instead of a file": _folder_for_a_file,
    "a fifo instead of a file": _fifo_for_a_file,
    "a dangling link": lambda work: os.symlink("nowhere", work / "dangling"),
    "a name with a newline": lambda work: write(work / "a\nb"),
    "a name that is not UTF-8": lambda work: write(Path(os.fsdecode(os.fsencode(work) + b"/\xff\xfe"))),
    "a file of the name of a cache's tag": lambda work: write(work / "package" / CACHE_TAG, "not a tag"),
    "a tag at the root": lambda work: write(work / CACHE_TAG, TAG),
    "a package that is called as an artefact elsewhere": lambda work: write(work / "coverage" / "__init__.py"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_work_is_seen(work: Path, change: str) -> None:
    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    assert fingerprint.take() == before
    CHANGES[change](work)
    after = fingerprint.take()
    assert after != before
    assert fingerprint.take() == after
    assert WorkFingerprint(work).take() == after


def _touch(work: Path) -> None:
    os.utime(work / "main.py", (1, 1))
    (work / "package").touch()


def _there_and_back(work: Path) -> None:
    write(work / "main.py", "print(2)\n")
    write(work / "main.py", "print(1)\n")


def _written_anew(work: Path) -> None:
    text = (work / "main.py").read_text()
    (work / "main.py").unlink()
    write(work / "main.py", text)


def _cache(work: Path) -> None:
    write(work / "target" / CACHE_TAG, TAG)
    write(work / "target" / "debug" / "built")


NO_CHANGES: dict[str, Callable[[Path], object]] = {
    "touched": _touch,
    "changed and changed back": _there_and_back,
    "written anew": _written_anew,
    "mode bits that are not executable": lambda work: (work / "main.py").chmod(0o600),
    "an empty folder": lambda work: (work / "empty").mkdir(),
    "pytest's cache": lambda work: write(work / ".pytest_cache" / "v" / "nodeids"),
    "compiled modules": lambda work: write(work / "package" / "__pycache__" / "module.cpython-311.pyc"),
    "a compiled module beside its source": lambda work: write(work / "package" / "module.pyc"),
    "coverage's data": lambda work: write(work / ".coverage.host.1234"),
    "coverage's pages": lambda work: write(work / "htmlcov" / "index.html"),
    "node's cache": lambda work: write(work / "node_modules" / ".cache" / "babel" / "1.json"),
    "a folder that is tagged as a cache": _cache,
}


@pytest.mark.parametrize("event", NO_CHANGES)
def test_what_leaves_the_work_as_it_was_is_no_change(work: Path, event: str) -> None:
    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    NO_CHANGES[event](work)
    assert fingerprint.take() == before
    assert WorkFingerprint(work).take() == before


@pytest.fixture
def still_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system whose times are so coarse that a second change of a file bears the time of the first.

    It ends before `tmp_path`, whose files are removed by what stat really tells.
    """
    monkeypatch.setattr(file_states.os, "lstat", functools.cache(os.lstat))


@pytest.mark.usefixtures("still_clock")
def test_a_change_is_seen_although_stat_tells_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "main.py", "1")
    states = FileStates()
    before = states.read([str(path)])
    write(path, "2")
    assert states.read([str(path)]) != before


@pytest.mark.usefixtures("still_clock")
def test_a_file_that_has_not_changed_for_a_while_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "main.py", "1")
    monkeypatch.setattr(file_states, "RACY_NS", -1_000_000_000_000)  # as if it were read a thousand seconds later
    states = FileStates()
    before = states.read([str(path)])
    write(path, "2")  # of which stat tells nothing
    assert states.read([str(path)]) == before


def test_a_change_back_gives_the_former_fingerprint(work: Path) -> None:
    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    write(work / "main.py", "print(2)\n")
    changed = fingerprint.take()
    write(work / "main.py", "print(1)\n")
    assert changed != before
    assert fingerprint.take() == before


def test_the_place_of_a_folder_is_no_part_of_its_fingerprint(work: Path) -> None:
    before = WorkFingerprint(work).take()
    work.rename(work.parent / "a longer name")
    assert WorkFingerprint(work.parent / "a longer name").take() == before


def test_a_folder_named_by_a_link_is_the_folder(work: Path) -> None:
    os.symlink(work, work.parent / "named")
    assert WorkFingerprint(work.parent / "named").take() == WorkFingerprint(work).take()


def test_an_empty_folder_has_a_fingerprint(tmp_path: Path) -> None:
    assert len(WorkFingerprint(tmp_path).take()) == 32


def test_sockets_fifos_and_devices_are_never_opened(tmp_path: Path) -> None:
    """A fifo that is opened for reading waits for a writer; opened without waiting, it has a reader for a moment."""
    fingerprint = WorkFingerprint(tmp_path)
    empty = fingerprint.take()
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket has at most 107 bytes
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        assert fingerprint.take() != empty
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)


def test_files_that_come_and_go_during_the_walk_do_no_harm(work: Path) -> None:
    ended = threading.Event()

    def churn() -> None:
        number = 0
        while not ended.is_set():
            path = write(work / f"folder{number % 7}" / f"file{number % 50}")
            path.unlink()
            path.parent.rmdir()
            number += 1

    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            fingerprint.take()
    finally:
        ended.set()
        thread.join()
    assert fingerprint.take() == before


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder of a user whom modes bind, as root they do not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        if os.geteuid() != 0:
            yield Path(place)
            return
        os.chown(place, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(place)
        finally:
            os.seteuid(0)


def test_what_cannot_be_read_is_no_error_and_its_appearance_is_a_change(nobodys: Path) -> None:
    fingerprint = WorkFingerprint(nobodys)
    write(nobodys / "main.py")
    seen = [fingerprint.take()]
    write(nobodys / "secret").chmod(0)
    with pytest.raises(PermissionError):
        (nobodys / "secret").read_text()
    seen.append(fingerprint.take())
    write(nobodys / "closed" / "file")
    seen.append(fingerprint.take())
    (nobodys / "closed").chmod(0)
    seen.append(fingerprint.take())
    (nobodys / "closed").chmod(0o700)
    assert len(set(seen[:3])) == 3
    assert seen[3] == seen[1]  # what is in it is unknown, as if it were not there


def test_a_large_file_is_compared_by_size_and_time(work: Path) -> None:
    path = work / "large"
    with open(path, "wb") as file:
        file.truncate(file_states.MAX_FILE_BYTES + 1)
    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    os.utime(path, (1, 1))
    touched = fingerprint.take()
    assert touched != before
    os.truncate(path, file_states.MAX_FILE_BYTES)
    os.utime(path, (2, 2))
    smaller = fingerprint.take()
    os.utime(path, (3, 3))
    assert fingerprint.take() == smaller != touched


def test_one_call_reads_a_bounded_number_of_bytes(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_states, "MAX_READ_BYTES", 10)
    fingerprint = WorkFingerprint(work)
    before = fingerprint.take()
    write(work / "main.py", "print(123)\n")
    assert fingerprint.take() != before


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2"])), min_size=1, max_size=8))
def test_equal_files_have_equal_fingerprints_and_others_have_others(edits: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        fingerprint = WorkFingerprint(place)
        by_state = {(): fingerprint.take()}
        files: dict[str, str] = {}
        for name, text in edits:
            files[name] = text
            Path(place, name).write_text(text)
            state = tuple(sorted(files.items()))
            taken = fingerprint.take()
            assert by_state.setdefault(state, taken) == taken
        assert len(set(by_state.values())) == len(by_state)


class TestInARepository:
    def test_ignored_files_are_no_work(self, repository: Path) -> None:
        write(repository / ".gitignore", "built/\n*.log\n")
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / "built" / "program")
        write(repository / "a.log")
        assert fingerprint.take() == before

    @pytest.mark.parametrize("command", ["add --all", "commit -qam all", "rm -q --cached main.py", "tag v1", "gc -q"])
    def test_what_only_git_keeps_is_no_change(self, repository: Path, command: str) -> None:
        write(repository / "main.py", "print(2)\n")
        (repository / "run.sh").unlink()
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        git(repository, *command.split())
        assert fingerprint.take() == before

    def test_a_folder_below_the_root_is_only_that_folder(self, repository: Path) -> None:
        fingerprint = WorkFingerprint(repository / "package")
        before = fingerprint.take()
        write(repository / "main.py", "print(2)\n")
        assert fingerprint.take() == before
        write(repository / "package" / "module.py", "value = 2\n")
        assert fingerprint.take() != before

    def test_a_folder_that_the_repository_around_it_ignores_is_walked(self, repository: Path) -> None:
        write(repository / ".gitignore", "scratch/\n")
        write(repository / "scratch" / "file", "1")
        fingerprint = WorkFingerprint(repository / "scratch")
        before = fingerprint.take()
        write(repository / "scratch" / "file", "2")
        assert fingerprint.take() != before

    @pytest.mark.parametrize("name", ["lib", "other"])
    def test_repositories_inside_are_work(self, repository: Path, tmp_path: Path, name: str) -> None:
        write(tmp_path / "upstream" / "code.c")
        write(tmp_path / "upstream" / ".gitignore", "*.o\n")
        commit(tmp_path / "upstream")
        if name == "lib":
            git(repository, "submodule", "--quiet", "add", str(tmp_path / "upstream"), "lib")
        else:
            git(tmp_path, "clone", "--quiet", str(tmp_path / "upstream"), str(repository / "other"))
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / name / "code.o")
        assert fingerprint.take() == before
        write(repository / name / "code.c", "int x;\n")
        changed = fingerprint.take()
        write(repository / name / "new.c")
        assert len({before, changed, fingerprint.take()}) == 3

    def test_a_submodule_that_was_not_fetched_is_a_folder_like_others(self, repository: Path, tmp_path: Path) -> None:
        write(tmp_path / "upstream" / "code.c")
        commit(tmp_path / "upstream")
        git(repository, "submodule", "--quiet", "add", str(tmp_path / "upstream"), "lib")
        git(repository, "submodule", "--quiet", "deinit", "--force", "lib")
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / "lib" / "code.c")
        assert fingerprint.take() != before

    def test_a_locked_index_is_read_and_left_as_it_is(self, repository: Path) -> None:
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / ".git" / "index.lock")
        os.utime(repository / "main.py", (1, 1))  # git would refresh its index now
        index = (repository / ".git" / "index").read_bytes()
        assert fingerprint.take() == before
        assert (repository / ".git" / "index").read_bytes() == index
        assert (repository / ".git" / "index.lock").exists()

    def test_with_a_broken_index_the_folder_is_walked(self, repository: Path) -> None:
        (repository / ".git" / "index").write_bytes(b"broken")
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / "main.py", "print(2)\n")
        assert fingerprint.take() != before

    def test_conflicts_are_work_like_other_files(self, repository: Path) -> None:
        git(repository, "checkout", "-q", "-b", "other")
        write(repository / "main.py", "print('other')\n")
        git(repository, "commit", "-qam", "other")
        git(repository, "checkout", "-q", "-")
        write(repository / "main.py", "print('ours')\n")
        git(repository, "commit", "-qam", "ours")
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        with pytest.raises(subprocess.CalledProcessError):
            git(repository, "merge", "other")
        conflict = fingerprint.take()
        git(repository, "merge", "--abort")
        assert conflict != before == fingerprint.take()

    def test_a_fifo_in_the_place_of_a_gitignore_does_not_hold_us(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(git_files, "SECONDS", 0.2)
        os.mkfifo(repository / "package" / ".gitignore")
        fingerprint = WorkFingerprint(repository)
        before = fingerprint.take()
        write(repository / "main.py", "print(2)\n")
        assert fingerprint.take() != before


class TestNothingOfTheFolderIsRun:
    @pytest.fixture
    def trap(self, tmp_path: Path) -> Path:
        program = write(tmp_path / "trap", f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
        program.chmod(0o755)
        return program

    def configure(self, repository: Path, trap: Path) -> None:
        git(repository, "config", "core.fsmonitor", str(trap))
        git(repository, "config", "core.hooksPath", str(trap.parent / "hooks"))
        git(repository, "config", "filter.trap.clean", str(trap))
        git(repository, "config", "filter.trap.smudge", str(trap))
        git(repository, "config", "diff.trap.textconv", str(trap))
        git(repository, "config", "core.pager", str(trap))
        git(repository, "config", "alias.ls-files", f"!{trap}")
        write(repository / ".gitattributes", "* filter=trap diff=trap\n")
        for hook in ("post-index-change", "post-checkout", "reference-transaction"):
            write(trap.parent / "hooks" / hook, f"#!/bin/sh\n{trap}\n").chmod(0o755)

    def test_what_its_git_config_names(self, repository: Path, trap: Path) -> None:
        fingerprint = WorkFingerprint(repository)
        self.configure(repository, trap)
        write(repository / "main.py", "print(2)\n")
        fingerprint.take()
        WorkFingerprint(repository).take()
        assert not (trap.parent / "sprung").exists()
        git(repository, "status")  # so the trap is one
        assert (trap.parent / "sprung").exists()

    @pytest.mark.parametrize("how", ["absolute", "relative"])
    def test_a_git_that_is_in_it_and_on_the_path(
        self, repository: Path, trap: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        write(repository / "bin" / "git", trap.read_text()).chmod(0o755)
        inside = str(repository / "bin") if how == "absolute" else "bin"
        monkeypatch.setenv("PATH", inside + os.pathsep + os.environ["PATH"])
        monkeypatch.chdir(repository)
        WorkFingerprint(repository).take()
        assert not (trap.parent / "sprung").exists()
        subprocess.run(["git"], stdin=subprocess.DEVNULL, check=True)
        assert (trap.parent / "sprung").exists()

    def test_variables_of_git_do_not_lead_it_elsewhere(
        self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = WorkFingerprint(repository).take()
        (tmp_path / "other").mkdir()
        git(tmp_path / "other", "init", "--quiet")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
        assert WorkFingerprint(repository).take() == before

    def test_without_git_on_the_path_the_folder_is_walked(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with_git = WorkFingerprint(repository).take()
        monkeypatch.setenv("PATH", "")
        assert WorkFingerprint(repository).take() == with_git


def test_the_module_loads_nothing_heavy() -> None:
    code = "import sys, endstop.work.work_fingerprint; print({'asyncio', 'pydantic', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
