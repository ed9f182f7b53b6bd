"""A check may do what it likes in a copy: the folder stays as it is, and nothing of the copy is left."""

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from endstop.work import folder_copy
from endstop.work.folder_copy import FolderCopy, copy_of


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    write(folder / "main.py", "print(1)\n")
    write(folder / "package" / "module.py", "value = 1\n")
    write(folder / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def repository(work: Path) -> Path:
    write(work / ".gitignore", "built/\nnode_modules/\n")
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "all")
    return work


class TestFiles:
    def test_contents_modes_and_times_are_those_of_the_folder(self, work: Path) -> None:
        os.utime(work / "main.py", (1_000_000_000, 1_000_000_000))
        write(work / "empty", "")
        (work / "closed").mkdir(mode=0o500)
        with copy_of(work) as copy:
            assert copy.name == "work"
            assert (copy / "main.py").read_text() == "print(1)\n"
            assert (copy / "main.py").stat().st_mtime == 1_000_000_000
            assert (copy / "package" / "module.py").read_text() == "value = 1\n"
            assert stat.S_IMODE((copy / "run.sh").stat().st_mode) == 0o755
            assert (copy / "empty").read_bytes() == b""
            assert stat.S_IMODE((copy / "closed").stat().st_mode) == 0o700  # so that a check can be cleaned up after

    def test_what_is_written_in_the_copy_is_not_in_the_folder(self, work: Path) -> None:
        with copy_of(work) as copy:
            (copy / "main.py").write_text("broken")
            write(copy / "new.py")
            (copy / "package" / "module.py").unlink()
            assert (copy / "run.sh").stat().st_nlink == 1
        assert (work / "main.py").read_text() == "print(1)\n"
        assert sorted(os.listdir(work)) == ["main.py", "package", "run.sh"]
        assert (work / "package" / "module.py").exists()

    def test_a_file_larger_than_one_read_is_whole(self, work: Path) -> None:
        content = os.urandom(3_000_001)
        (work / "large").write_bytes(content)
        with copy_of(work) as copy:
            assert (copy / "large").read_bytes() == content

    @pytest.mark.parametrize("first", [0, 5])
    def test_where_the_kernel_cannot_copy_or_stops_on_the_way_all_is_read(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, first: int
    ) -> None:
        def copy_file_range(reading: int, writing: int, _count: int) -> int:
            if first and os.lseek(reading, 0, os.SEEK_CUR) == 0:
                return os.write(writing, os.read(reading, first))
            raise OSError("between these file systems it cannot be done")

        monkeypatch.setattr(os, "copy_file_range", copy_file_range, raising=False)
        with copy_of(work) as copy:
            assert (copy / "main.py").read_text() == "print(1)\n"

    def test_names_that_are_not_utf8_and_odd_ones(self, work: Path) -> None:
        write(work / "a\nb")
        write(Path(os.fsdecode(os.fsencode(work) + b"/\xff\xfe")))
        with copy_of(work) as copy:
            assert sorted(os.listdir(os.fsencode(copy))) == sorted(os.listdir(os.fsencode(work)))

    def test_what_is_neither_file_nor_folder_is_left_out(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        os.mkfifo(work / "fifo")
        monkeypatch.chdir(work)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
            with copy_of(work) as copy:
                assert sorted(os.listdir(copy)) == ["main.py", "package", "run.sh"]

    def test_a_folder_that_does_not_exist_is_an_error_and_leaves_nothing(self, work: Path) -> None:
        with pytest.raises(FileNotFoundError), copy_of(work / "nothing"):
            pass

    def test_a_temporary_directory_inside_the_folder_is_not_copied_into_itself(
        self, work: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(work))
        with copy_of(work) as copy:
            assert sorted(os.listdir(copy)) == ["main.py", "package", "run.sh"]
        assert sorted(os.listdir(work)) == ["main.py", "package", "run.sh"]


class TestRemoval:
    def test_nothing_is_left_of_a_copy(self, work: Path) -> None:
        with copy_of(work) as copy:
            pass
        assert not copy.parent.exists()

    def test_folders_that_the_check_closed_are_removed(self, work: Path) -> None:
        outside = write(work.parent / "outside" / "file")
        with copy_of(work) as copy:
            write(copy / "a" / "b" / "c")
            (copy / "a" / "b").chmod(0)
            (copy / "a").chmod(0o500)
            os.symlink(outside.parent, copy / "outside")
        assert not copy.parent.exists()
        assert outside.exists()

    def test_a_check_that_fails_leaves_nothing_either(self, work: Path) -> None:
        with pytest.raises(ZeroDivisionError), copy_of(work) as copy:
            raise ZeroDivisionError
        assert not copy.parent.exists()


class TestLinks:
    @pytest.mark.parametrize(
        ("place", "text", "copied"),
        [
            ("link", "main.py", "main.py"),
            ("package/link", "../main.py", "../main.py"),
            ("link", "package", "package"),
            ("link", "nowhere", "nowhere"),
            ("link", "link", "link"),
            ("package/link", "../../outside", "{parent}/outside"),
            ("link", "{parent}/outside", "{parent}/outside"),
            ("link", "/dev/null", "/dev/null"),
            ("link", "{folder}/main.py", "{copy}/main.py"),
            ("link", "{alias}/main.py", "{copy}/main.py"),
            ("link", "{folder}", "{copy}"),
        ],
    )
    def test_a_link_leads_to_the_same_within_the_copy_or_outside(
        self, work: Path, place: str, text: str, copied: str
    ) -> None:
        os.symlink(work, work.parent / "alias")
        names = {"folder": str(work), "parent": str(work.parent), "alias": str(work.parent / "alias")}
        os.symlink(text.format(**names), work / place)
        with copy_of(work.parent / "alias") as copy:
            assert os.readlink(copy / place) == copied.format(copy=copy, **names)

    def test_a_link_to_a_folder_is_not_walked(self, work: Path) -> None:
        os.symlink("..", work / "package" / "around")
        os.symlink("/", work / "root")
        with copy_of(work) as copy:
            assert (copy / "root").is_symlink()
            assert (copy / "package" / "around").is_symlink()


class TestLargeFolders:
    @pytest.mark.parametrize("name", ["built", "node_modules", "package/node_modules"])
    def test_a_large_one_that_git_ignores_is_a_link(self, repository: Path, name: str) -> None:
        for number in range(folder_copy.LARGE_FILES + 1):
            write(repository / name / str(number), "")
        with copy_of(repository) as copy:
            assert os.readlink(copy / name) == str(repository / name)

    def test_one_large_file_is_enough(self, repository: Path) -> None:
        (repository / "built").mkdir()
        os.truncate(write(repository / "built" / "large"), folder_copy.LARGE_BYTES + 1)
        with copy_of(repository) as copy:
            assert (copy / "built").is_symlink()

    def test_a_small_one_is_copied(self, repository: Path) -> None:
        write(repository / "built" / "program")
        with copy_of(repository) as copy:
            assert not (copy / "built").is_symlink()
            assert (copy / "built" / "program").exists()

    def test_a_large_one_that_is_work_is_copied(self, repository: Path) -> None:
        for number in range(folder_copy.LARGE_FILES + 1):
            write(repository / "many" / str(number), "")
        with copy_of(repository) as copy:
            assert not (copy / "many").is_symlink()

    def test_packages_are_linked_without_git_too(self, work: Path) -> None:
        for number in range(folder_copy.LARGE_FILES + 1):
            write(work / ".venv" / "lib" / str(number), "")
        with copy_of(work) as copy:
            assert (copy / ".venv").is_symlink()

    def test_one_that_has_to_be_whole_is_copied(self, repository: Path, tmp_path: Path) -> None:
        for number in range(folder_copy.LARGE_FILES + 1):
            write(repository / "built" / str(number), "")
        (tmp_path / "place").mkdir()
        copy = FolderCopy(repository, str(tmp_path / "place"), whole=["built/7"])
        assert copy.linked == set()
        assert (copy.path / "built" / "7").exists()


class TestGit:
    def changed(self, folder: Path) -> set[str]:
        return set(git(folder, "--no-optional-locks", "status", "--porcelain").split("\n")) - {""}

    def test_the_copy_is_a_repository_with_the_same_history_and_the_same_changes(self, repository: Path) -> None:
        write(repository / "main.py", "print(2)\n")
        write(repository / "new.py")
        git(repository, "add", "new.py")
        with copy_of(repository) as copy:
            assert git(copy, "log", "--format=%H %s") == git(repository, "log", "--format=%H %s")
            assert git(copy, "branch", "--show-current") == "main\n"
            assert self.changed(copy) == self.changed(repository) == {" M main.py", "A  new.py"}
            assert git(copy, "diff") == git(repository, "diff") != ""

    def test_what_git_does_in_the_copy_is_not_in_the_folder(self, repository: Path) -> None:
        write(repository / "main.py", "print(2)\n")
        before = (repository / ".git" / "index").read_bytes(), git(repository, "for-each-ref"), self.changed(repository)
        objects = set((repository / ".git" / "objects").rglob("*"))
        with copy_of(repository) as copy:
            git(copy, "commit", "--quiet", "--all", "--message", "another")
            git(copy, "checkout", "--quiet", "-b", "other", "HEAD~1")
            git(copy, "tag", "v1")
            git(copy, "stash", "list")
        after = (repository / ".git" / "index").read_bytes(), git(repository, "for-each-ref"), self.changed(repository)
        assert after == before
        assert set((repository / ".git" / "objects").rglob("*")) == objects
        assert (repository / "main.py").read_text() == "print(2)\n"

    def test_a_config_that_names_another_work_tree_does_not_lead_out_of_the_copy(self, repository: Path) -> None:
        git(repository, "config", "core.worktree", str(repository))
        with copy_of(repository) as copy:
            assert git(copy, "rev-parse", "--show-toplevel").strip() == os.path.realpath(copy)
            write(copy / "main.py", "print(3)\n")
            git(copy, "checkout", "--quiet", "main.py")
            assert (copy / "main.py").read_text() == "print(1)\n"

    def test_a_lock_is_not_copied(self, repository: Path) -> None:
        write(repository / ".git" / "index.lock")
        write(repository / ".git" / "refs" / "heads" / "main.lock")
        with copy_of(repository) as copy:
            git(copy, "commit", "--quiet", "--allow-empty", "--message", "another")

    def test_hooks_are_not_copied(self, repository: Path) -> None:
        write(repository / ".git" / "hooks" / "pre-commit", "#!/bin/sh\nexit 1\n").chmod(0o755)
        with copy_of(repository) as copy:
            git(copy, "commit", "--quiet", "--allow-empty", "--message", "another")

    def test_a_linked_work_tree_becomes_a_repository_of_its_own(self, repository: Path, tmp_path: Path) -> None:
        git(repository, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
        write(tmp_path / "side" / "main.py", "print(2)\n")
        with copy_of(tmp_path / "side") as copy:
            assert git(copy, "branch", "--show-current") == "side\n"
            assert self.changed(copy) == {" M main.py"}
            git(copy, "commit", "--quiet", "--all", "--message", "another")
        assert self.changed(tmp_path / "side") == {" M main.py"}
        assert self.changed(repository) == set()

    def test_a_submodule_is_copied_as_files(self, repository: Path, tmp_path: Path) -> None:
        write(tmp_path / "upstream" / "code.c")
        git(tmp_path / "upstream", "init", "--quiet")
        git(tmp_path / "upstream", "add", "--all")
        git(tmp_path / "upstream", "commit", "--quiet", "--message", "all")
        git(repository, "submodule", "--quiet", "add", str(tmp_path / "upstream"), "lib")
        with copy_of(repository) as copy:
            assert (copy / "lib" / "code.c").exists()
            assert not (copy / "lib" / ".git").exists()
            git(copy, "status")

    def test_a_folder_below_the_root_has_no_repository(self, repository: Path) -> None:
        with copy_of(repository / "package") as copy:
            assert os.listdir(copy) == ["module.py"]

    @pytest.mark.parametrize("text", ["gitdir: /\n", "gitdir: /nothing\n", "nonsense", "", "gitdir: .\n", "\0\n"])
    def test_a_git_file_that_names_no_repository_is_left_out(self, work: Path, text: str) -> None:
        write(work / ".git", text)
        with copy_of(work) as copy:
            assert not (copy / ".git").exists()
