"""Whatever the agent does to guarded files is named, and a real check in the pristine copy is not fooled by it."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endstop.decision import WrongUse
from endstop.work import guarded_files
from endstop.work.guarded_files import GuardedFiles
from endstop.work.watched_files import named_files, watched_patterns
from hypothesis import given
from hypothesis import strategies as st

WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b  # of another size\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
PASSES = "def test_add():\n    pass\n"
LEAVES = "import os\nos._exit(0)\n"
COMMAND = "python -m pytest -q"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder whose work is wrong, as its test says."""
    folder = tmp_path / "project"
    write(folder / "calc.py", WRONG)
    write(folder / "tests" / "test_calc.py", TEST)
    write(folder / "tests" / "data" / "numbers.txt", "1 2 3\n")
    write(folder / "tests" / "strange\nname.txt", "text\n")
    write(folder / "check.sh", "#!/bin/sh\nexec python -m pytest -q\n").chmod(0o755)
    os.symlink("data/numbers.txt", folder / "tests" / "link.txt")
    return folder


@pytest.fixture
def guarded(project: Path) -> Iterator[GuardedFiles]:
    with GuardedFiles(
        project, ["tests/**", "check.sh"], named=named_files(COMMAND, project), watched=watched_patterns(COMMAND)
    ) as files:
        yield files


def check(folder: Path, *command: str) -> int:
    """Run the check, and return its exit code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYT")}
    environment |= {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    words = command or (sys.executable, "-m", "pytest", "-q")
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=60)
    return done.returncode


def _replaced_by_link(target: str) -> Callable[[Path], None]:
    def replace(project: Path) -> None:
        (project / "tests" / "test_calc.py").unlink()
        os.symlink(target, project / "tests" / "test_calc.py")

    return replace


def _link_outside(project: Path) -> None:
    _replaced_by_link(str(write(project.parent / "outside.py", PASSES)))(project)


def _folder_replaced_by_link(project: Path) -> None:
    write(project.parent / "elsewhere" / "test_calc.py", PASSES)
    (project / "tests").rename(project.parent / "former")
    os.symlink(project.parent / "elsewhere", project / "tests")


def _fifo(project: Path) -> None:
    (project / "tests" / "test_calc.py").unlink()
    os.mkfifo(project / "tests" / "test_calc.py")


def _folder_in_its_place(project: Path) -> None:
    (project / "tests" / "test_calc.py").unlink()
    write(project / "tests" / "test_calc.py" / "test_other.py", PASSES)


def _link_to_a_folder_with_conftest(project: Path) -> None:
    write(project.parent / "elsewhere" / "conftest.py", LEAVES)
    write(project.parent / "elsewhere" / "test_other.py", PASSES)
    os.symlink(project.parent / "elsewhere", project / "more")


def _hidden_as_a_cache(project: Path) -> None:
    write(project / "more" / "pyvenv.cfg", "home = /usr\n")
    write(project / "more" / "CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")
    write(project / "more" / "conftest.py", LEAVES)


def _same_size_same_time(project: Path) -> None:
    path = project / "tests" / "test_calc.py"
    before = path.stat()
    path.write_text(TEST.replace("== 3", "!= 3"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


TEST_FILE, STRANGE = "tests/test_calc.py", "tests/strange\nname.txt"
ATTACKS: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "deleted": (lambda at: (at / TEST_FILE).unlink(), {TEST_FILE}),
    "emptied": (lambda at: (at / TEST_FILE).write_text(PASSES), {TEST_FILE}),
    "of the same size and time": (_same_size_same_time, {TEST_FILE}),
    "renamed": (lambda at: (at / TEST_FILE).rename(at / "tests/calc.txt"), {TEST_FILE, "tests/calc.txt"}),
    "a link to nothing": (_replaced_by_link("/dev/null"), {TEST_FILE}),
    "a dangling link": (_replaced_by_link("nowhere.py"), {TEST_FILE}),
    "a link to a file outside": (_link_outside, {TEST_FILE}),
    "a link to itself": (_replaced_by_link("test_calc.py"), {TEST_FILE}),
    "a fifo": (_fifo, {TEST_FILE}),
    "a folder": (_folder_in_its_place, {TEST_FILE, f"{TEST_FILE}/test_other.py"}),
    "its folder is a link": (
        _folder_replaced_by_link,
        {"tests", TEST_FILE, "tests/data/numbers.txt", "tests/link.txt", STRANGE},
    ),
    "a new conftest.py": (lambda at: write(at / "conftest.py", LEAVES), {"conftest.py"}),
    "a new conftest.py beside it": (lambda at: write(at / "tests/conftest.py", LEAVES), {"tests/conftest.py"}),
    "a conftest.py in a folder behind a link": (_link_to_a_folder_with_conftest, {"more"}),
    "a conftest.py in what calls itself a cache": (_hidden_as_a_cache, {"more/conftest.py"}),
    "a pytest.py": (lambda at: write(at / "pytest.py", LEAVES), {"pytest.py"}),
    "a package pytest": (lambda at: write(at / "pytest/__main__.py", LEAVES), {"pytest/__main__.py"}),
    "settings": (
        lambda at: write(at / "pytest.ini", "[pytest]\naddopts = --collect-only\n"),
        {"pytest.ini"},
    ),
    "a name with a newline": (lambda at: (at / STRANGE).write_text("other"), {STRANGE}),
    "a link elsewhere": (
        lambda at: ((at / "tests/link.txt").unlink(), os.symlink("/etc/hostname", at / "tests/link.txt")),
        {"tests/link.txt"},
    ),
    "not executable any more": (lambda at: (at / "check.sh").chmod(0o644), {"check.sh"}),
    "another check": (lambda at: (at / "check.sh").write_text("#!/bin/sh\nexit 0\n"), {"check.sh"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_is_named_and_the_pristine_copy_is_not_fooled(project: Path, guarded: GuardedFiles, attack: str) -> None:
    assert guarded.changed() == ()
    before = snapshot(project, guarded.paths)
    attempt, named = ATTACKS[attack]
    attempt(project)
    assert set(guarded.changed()) == named
    with guarded.pristine_copy() as copy:
        assert snapshot(copy, guarded.paths) == before
        assert check(copy, "./check.sh") == 1, "the work is wrong"
        (copy / "calc.py").write_text(RIGHT)
        assert check(copy) == 0
    assert not copy.parent.exists()
    assert (project / "calc.py").read_text() == WRONG


@pytest.mark.parametrize(
    "attack",
    ["emptied", "a link to a file outside", "its folder is a link", "a new conftest.py", "a pytest.py", "settings"],
)
def test_in_the_folder_itself_the_same_check_is_fooled(project: Path, attack: str) -> None:
    """Otherwise the test above would prove nothing."""
    ATTACKS[attack][0](project)
    assert check(project) == 0


def snapshot(folder: Path, paths: tuple[str, ...]) -> dict[str, tuple[str | bytes, bool, int]]:
    """What each path is: a link's target or a file's content, whether it is executable, and its time."""
    found: dict[str, tuple[str | bytes, bool, int]] = {}
    for path in paths:
        place = folder / path
        about = place.lstat()
        link = stat.S_ISLNK(about.st_mode)
        content = os.readlink(place) if link else place.read_bytes()
        found[path] = (content, bool(about.st_mode & stat.S_IXUSR), 0 if link else about.st_mtime_ns)
    return found


def test_what_is_work_is_in_the_pristine_copy_as_the_agent_left_it(project: Path, guarded: GuardedFiles) -> None:
    (project / "calc.py").write_text(RIGHT)
    write(project / "new" / "module.py", "value = 1\n")
    (project / TEST_FILE).write_text(PASSES)
    with guarded.pristine_copy() as copy:
        assert (copy / "calc.py").read_text() == RIGHT
        assert (copy / "new" / "module.py").exists()
        assert (copy / TEST_FILE).read_text() == TEST
        assert check(copy) == 0


def test_a_change_that_is_taken_back_is_none(project: Path, guarded: GuardedFiles) -> None:
    (project / TEST_FILE).write_text(PASSES)
    assert guarded.changed() == (TEST_FILE,)
    (project / TEST_FILE).write_text(TEST)
    assert guarded.changed() == ()


def test_new_files_of_the_work_and_traces_of_a_check_are_no_change(project: Path, guarded: GuardedFiles) -> None:
    write(project / "calc2.py", RIGHT)
    check(project)
    assert (project / "tests" / "__pycache__").exists()
    assert guarded.changed() == ()


def test_compiled_modules_do_not_come_into_the_copy(project: Path, guarded: GuardedFiles) -> None:
    write(project / "tests" / "__pycache__" / "test_calc.cpython-311.pyc", "poison")
    with guarded.pristine_copy() as copy:
        assert not (copy / "tests" / "__pycache__").exists()


def test_a_file_that_cannot_be_read_any_more_is_put_back() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        root = os.geteuid() == 0
        if root:  # whom modes do not bind
            os.chown(place, 65534, 65534)
            os.seteuid(65534)
        try:
            path = write(Path(place) / "work" / "tests" / "test_a.py", PASSES)
            with GuardedFiles(Path(place) / "work", ["tests"]) as guarded:
                path.chmod(0)
                assert guarded.changed() == ("tests/test_a.py",)
                with guarded.pristine_copy() as copy:
                    assert (copy / "tests" / "test_a.py").read_text() == PASSES
                with pytest.raises(WrongUse, match="cannot be read"):
                    GuardedFiles(Path(place) / "work", ["tests"])
                with GuardedFiles(Path(place) / "work", [], watched=["tests"]) as watched:
                    assert watched.changed() == ()
        finally:
            if root:
                os.seteuid(0)


def test_guarded_and_watched_files_are_told_apart(project: Path) -> None:
    with GuardedFiles(project, ["tests/**"], named=["./check.sh"], watched=["conftest.py", "tests"]) as guarded:
        write(project / "conftest.py", LEAVES)
        write(project / "tests" / "conftest.py", LEAVES)
        (project / "check.sh").unlink()
        assert {path: guarded.guards(path) for path in guarded.changed()} == {
            "check.sh": True,
            "conftest.py": False,
            "tests/conftest.py": True,
        }


def test_a_link_in_the_place_of_a_guarded_folder_is_guarded(project: Path) -> None:
    with GuardedFiles(project, ["tests/**"], watched=["pytest.ini"]) as guarded:
        _folder_replaced_by_link(project)
        assert all(guarded.guards(path) for path in guarded.changed())


class TestMistakes:
    @pytest.mark.parametrize("pattern", ["nothing/**", "*.rb", "./test_calc.py", ".git/config"])
    def test_a_pattern_that_fits_nothing(self, project: Path, pattern: str) -> None:
        write(project / ".git" / "config", "")
        with pytest.raises(WrongUse, match=r"fits no file in .*: name files that exist"):
            GuardedFiles(project, [pattern])

    def test_patterns_that_endstop_adds_may_fit_nothing(self, project: Path) -> None:
        with GuardedFiles(project, [], named=["./nothing.sh"], watched=["*.rb"]) as guarded:
            assert guarded.paths == ()
            write(project / "nothing.sh", "exit 0\n")
            assert guarded.changed() == ("nothing.sh",)

    @pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "!tests", ""])
    def test_a_pattern_that_is_none(self, project: Path, pattern: str) -> None:
        with pytest.raises(WrongUse, match="pattern"):
            GuardedFiles(project, [pattern])

    def test_more_than_can_be_kept(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guarded_files, "MAX_BYTES", 2_000_000)
        with open(project / "tests" / "large.bin", "wb") as file:
            file.truncate(3_000_000)
        with pytest.raises(WrongUse, match=r"3 MB, of which 3 MB fit 'tests/\*\*'; at most 2 MB"):
            GuardedFiles(project, ["check.sh", "tests/**"])


class TestDependencies:
    def test_installed_packages_are_not_searched(self, project: Path) -> None:
        write(project / ".venv" / "lib" / "python3.11" / "site-packages" / "numpy" / "conftest.py", "")
        write(project / "env" / "pyvenv.cfg", "")
        write(project / "env" / "lib" / "conftest.py", "")
        write(project / "node_modules" / "x" / "package.json", "{}")
        with GuardedFiles(project, [], watched=["conftest.py", "package.json"]) as guarded:
            assert guarded.paths == ()

    def test_a_pattern_that_names_them_does(self, project: Path) -> None:
        packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
        write(packages / "known.pth", "")
        with GuardedFiles(project, [], watched=watched_patterns("pytest")) as guarded:
            write(packages / "new.pth", "import os; os._exit(0)\n")
            assert guarded.changed() == (".venv/lib/python3.11/site-packages/new.pth",)
            with guarded.pristine_copy() as copy:
                assert [path.name for path in copy.glob(".venv/lib/*/*/*.pth")] == ["known.pth"]

    def test_a_large_folder_of_them_is_copied_only_if_something_guarded_in_it_changed(self, project: Path) -> None:
        packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
        for number in range(1001):
            write(packages / f"{number}.py", "")
        write(packages / "known.pth", "")
        with GuardedFiles(project, [], watched=watched_patterns("pytest")) as guarded:
            with guarded.pristine_copy() as copy:
                assert (copy / ".venv").is_symlink()
            (packages / "known.pth").write_text("import os; os._exit(0)\n")
            with guarded.pristine_copy() as copy:
                assert not (copy / ".venv").is_symlink()
                assert (copy / packages.relative_to(project) / "known.pth").read_text() == ""
            assert (packages / "known.pth").read_text() != ""


def test_no_command_can_reach_the_originals(project: Path) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    with GuardedFiles(project, ["tests"]) as guarded:
        new = set(os.listdir(tempfile.gettempdir())) - before
        (project / TEST_FILE).write_text(PASSES)
        assert not [name for name in new if name.startswith(("endstop", "tmp"))]
        with guarded.pristine_copy() as copy:
            assert (copy / TEST_FILE).read_text() == TEST


def test_closing_twice_does_no_harm(project: Path) -> None:
    guarded = GuardedFiles(project, ["tests"])
    guarded.close()
    guarded.close()


def test_a_link_that_was_absolute_leads_into_the_copy_when_it_is_put_back(project: Path) -> None:
    os.symlink(project / "calc.py", project / "tests" / "work.py")
    with GuardedFiles(project, ["tests"]) as guarded:
        (project / "tests" / "work.py").unlink()
        with guarded.pristine_copy() as copy:
            assert Path(os.readlink(copy / "tests" / "work.py")) == copy / "calc.py"


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "link", "folder"]), st.sampled_from(["a", "b", "b/c", "d"])),
    max_size=6,
)


@given(STEPS, STEPS)
def test_a_pristine_copy_has_the_guarded_files_of_the_start_whatever_was_done(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "work")
        (folder / "g").mkdir(parents=True)
        _do(folder / "g", before, "1")
        with GuardedFiles(folder, [], watched=["g"]) as guarded:
            start = _tree(folder / "g")
            assert guarded.changed() == ()
            _do(folder / "g", after, "2")
            assert (guarded.changed() == ()) == (_tree(folder / "g") == start)
            with guarded.pristine_copy() as copy:
                assert _tree(copy / "g") == start


def _do(folder: Path, steps: list[tuple[str, str]], text: str) -> None:
    for act, name in steps:
        path = folder / name
        try:
            if act == "write":
                path.write_text(text)
            elif act == "delete":
                path.unlink()
            elif act == "link":
                os.symlink("a", path)
            else:
                path.mkdir()
        except OSError:
            pass  # not possible after the steps before


def _tree(folder: Path) -> dict[str, str]:
    """The files and links of a folder; folders do not count."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(place, name)))]:
            path = Path(place, name)
            found[str(path.relative_to(folder))] = os.readlink(path) if path.is_symlink() else path.read_text()
    return found


def test_what_changes_after_the_mark_is_the_users_and_what_changed_before_is_not(
    project: Path, guarded: GuardedFiles
) -> None:
    write(project / "tests" / "test_calc.py", PASSES)
    write(project / "tests" / "test_agent.py", PASSES)
    guarded.mark()
    write(project / "check.sh", "exit 3\n").chmod(0o700)
    write(project / "tests" / "test_user.py", TEST)
    (project / "tests" / "link.txt").unlink()
    guarded.adopt()
    assert guarded.changed() == ("tests/test_agent.py", "tests/test_calc.py")
    write(project / "check.sh", "exit 0\n")
    with guarded.pristine_copy() as copy:
        assert (copy / "check.sh").read_text() == "exit 3\n"
        assert stat.S_IMODE((copy / "check.sh").stat().st_mode) == 0o700
        assert (copy / "tests" / "test_calc.py").read_text() == TEST
        assert (copy / "tests" / "test_user.py").read_text() == TEST
        assert not (copy / "tests" / "test_agent.py").exists()
        assert not os.path.lexists(copy / "tests" / "link.txt")


def test_the_users_version_of_a_file_that_the_agent_had_changed_is_the_original_from_then_on(
    project: Path, guarded: GuardedFiles
) -> None:
    guarded.adopt()  # without a mark nothing is taken
    write(project / "check.sh", "exit 0\n")
    assert guarded.changed() == ("check.sh",)
    guarded.mark()
    guarded.adopt()
    assert guarded.changed() == ("check.sh",)
    guarded.mark()
    write(project / "check.sh", "exit 4\n")
    guarded.adopt()
    assert guarded.changed() == ()
