"""Changes that last, and those that a run takes back."""

from __future__ import annotations

from endstop.analysis.lasting_changes import LastingChanges
from endstop.decision.call_effects import call_effect, shell_command
from endstop.decision.shell_syntax import split_commands
from msgspec.json import encode


def lasting(*commands: str) -> tuple[int, ...]:
    """The steps whose changes last, if each of these commands is a step that changed something."""
    changes = LastingChanges()
    for step, command in enumerate(commands, 1):
        arguments = encode({"command": command}).decode()
        split = split_commands(shell_command("bash", arguments))
        changes.add(step, "bash", split, call_effect("bash", arguments).files)
    return changes.steps()


WRITE = "cat > reproduce.py <<'EOF'\nprint(1)\nEOF"
EDIT = "sed -i s/a/b/ src/a.py"


def test_an_edit_lasts_and_a_script_that_is_removed_again_does_not() -> None:
    assert lasting(WRITE, EDIT, "rm reproduce.py") == (2,)
    assert lasting(WRITE, EDIT) == (1, 2)


def test_removing_a_file_that_was_there_is_a_change() -> None:
    assert lasting("rm src/old.py") == (1,)
    assert lasting(EDIT, "rm src/a.py") == (1, 2)
    assert lasting(WRITE, EDIT, "rm reproduce.py src/a.py") == (1, 2, 3)


def test_a_removal_beside_another_change_is_one() -> None:
    assert lasting(WRITE, "rm reproduce.py && sed -i s/a/b/ src/a.py") == (1, 2)


def test_all_in_a_folder_that_the_run_made_goes_with_it() -> None:
    assert lasting("mkdir demo", "cat > demo/conf.py <<E\nE", "sed -i s/a/b/ demo/other.py", EDIT, "rm -rf demo") == (
        4,
    )
    assert lasting("mkdir demo", "cd demo && django-admin startproject x", "rm -rf demo") == ()


def test_paths_are_the_same_with_and_without_the_folder_before_them() -> None:
    assert lasting("cat > /app/t.py <<E\nE", "cd /app && rm t.py") == ()
    assert lasting("cat > ./t.py <<E\nE", "rm t.py") == ()


def test_what_checks_leave_behind_is_no_change() -> None:
    assert lasting("rm -rf .pytest_cache __pycache__") == ()


def test_a_copy_of_the_patch_is_no_change_but_a_patch_that_is_applied_is_one() -> None:
    assert lasting("git diff > work.patch") == ()
    assert lasting("cat > fix.patch <<E\nE\npatch -p0 < fix.patch") == (1,)


def test_a_file_that_is_written_again_after_its_removal_lasts() -> None:
    assert lasting(WRITE, "rm reproduce.py", WRITE) == (1, 3)


def test_a_commit_leaves_the_work_as_it_is() -> None:
    assert lasting(EDIT, "cd /app && git add -A && git reset -q scratch || true && git commit -m 'all'") == (1,)
    assert lasting("git reset --hard HEAD~1", "git -C a commit -am x", "git checkout a.py && git commit") == (1, 3)
