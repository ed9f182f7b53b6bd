"""Which commands run tests, and which scripts decide by their exit code."""

from __future__ import annotations

from endstop.analysis.tested_commands import read_script, run_script, runs_tests, stem
from hypothesis import given
from hypothesis import strategies as st

RUN = (
    "pytest", "pytest -n 4 tests", "./venv/bin/pytest -q", "python -m pytest tests/test_a.py", "python3.11 -m unittest",
    "python -m coverage run -m pytest", "python manage.py test app", "./tests/runtests.py model_fields",
    "python3 tests/runtests.py forms", "mvn test", "./mvnw -q test -Dtest=A", "./gradlew :core:test",
    "mvn clean install",
    "npm test", "npm run test:unit", "yarn test", "cargo test --lib -- blobs", "go test ./...", "make test",
    "make -j4 check",
    "dotnet test", "tox -e py311", "node --test", "python setup.py test", "ctest --output-on-failure", "jest src",
)  # fmt: skip
DO_NOT = (
    "", "ls tests", "cat test_a.py", "grep -r test .", "pytest --collect-only", "pytest --version",
    "python -m pip install x",
    "python", "python x.py", "python -c pass", "mvn compile", "mvn package -DskipTests", "cargo build",
    "go build ./...",
    "go vet ./...", "npm install", "npm run build", "make", "make all", "make -n test", "ruff check .", "mypy .", "tsc",
    "git checkout test", "echo pytest", "cargo test --no-run",
)  # fmt: skip


def test_runners_of_many_languages_run_tests() -> None:
    assert [command for command in RUN if not runs_tests(command.split())] == []


def test_builds_linters_listings_and_other_programs_run_none() -> None:
    assert [command for command in DO_NOT if runs_tests(command.split())] == []


def test_the_script_that_a_command_runs_is_its_program_or_what_an_interpreter_is_given() -> None:
    assert run_script(["python3", "-u", "a/test_x.py", "1"]) == "a/test_x.py"
    assert run_script(["./test_x"]) == "./test_x"
    assert run_script(["bash", "-c", "x"]) is None
    assert run_script(["python", "-m", "x"]) is None
    assert run_script(["ls", "a.py"]) is None
    assert run_script(["/usr/bin/env", "x"]) is None
    assert run_script([]) is None


def test_a_script_decides_if_it_asserts_or_exits_with_a_code_and_does_not_only_print() -> None:
    deciding = (
        "assert f(1) == 2", "    assert x", "self.assertEqual(a, b)", "assert_array_equal(a, b)", "sys.exit(1)",
        "exit(1)",
        "raise SystemExit(2)", "unittest.main()", "process.exit(1)", "assert(a == b);",
    )  # fmt: skip
    assert [text for text in deciding if not read_script("reproduce.py", text).decides] == []
    printing = ("print('FAIL')", "sys.exit(0)", "exit()", "def test_x(): print(1)", "# an assertion", "insert(1)", "")
    assert [text for text in printing if read_script("test_x.py", text).decides] == []


def test_a_script_that_applies_a_patch_and_stops_if_it_cannot_is_no_check() -> None:
    text = "s = open('a.py').read()\nassert 'old' in s\nopen('a.py', 'w').write(s.replace('old', 'new'))\n"
    assert read_script("apply_fix.py", text) == (False, True)
    assert read_script("test_round_trip.py", text) == (True, True)


def test_a_program_has_the_stem_of_the_source_that_it_was_built_from() -> None:
    assert stem("/app/test_equality.cpp") == stem("./test_equality") == "test_equality"


@given(st.lists(st.text(max_size=20), max_size=6), st.text(max_size=200))
def test_no_command_and_no_text_is_too_odd(words: list[str], text: str) -> None:
    assert runs_tests(words) in (True, False)
    assert run_script(words) is None or run_script(words) in words
    assert read_script("a.py", text).decides in (True, False)


CATCHES = (
    "try:\n    assert x\nexcept Exception as e:\n    print(e)",
    "try:\n    assert x\nexcept:\n    pass",
    "def test():\n    assert x\ntry:\n    test()\nexcept (ValueError, AssertionError) as e:\n    print('failed', e)",
    "class T(TestCase):\n    def test(self):\n        self.assertEqual(1, 2)\ntry:\n    T().test()\nexcept:\n    0",
    "import sys\nsys.exit(0)",
    "exit()",
)
FAILS = (
    "assert x",
    "try:\n    assert x\nexcept AssertionError:\n    print('no')\n    sys.exit(1)",
    "try:\n    assert x\nexcept AssertionError:\n    raise",
    "try:\n    assert x\nexcept ValueError:\n    pass",
    "try:\n    f()\nexcept Exception:\n    pass\nassert x",
    "raise AssertionError('no')",
    "ok = f()\nsys.exit(0 if ok else 1)",
    "unittest.main()",
    "const a = 1;\nassert(a === 1);",
)


def test_a_script_that_catches_its_failed_assertions_does_not_decide() -> None:
    assert [text for text in CATCHES if read_script("a.py", text).decides] == []
    assert [text for text in FAILS if not read_script("a.py", text).decides] == []


def test_what_a_script_writes_to_a_temporary_folder_is_no_work() -> None:
    assert not read_script("a.py", "import shutil, tempfile\nshutil.rmtree(tempfile.mkdtemp())").writes
    assert read_script("a.py", "import shutil\nshutil.rmtree('src')").writes


def test_deep_and_broken_scripts_are_read_without_an_error() -> None:
    for text in (
        "assert " + "(" * 5_000,
        "assert " + "a." * 50_000 + "b",
        "assert 1\0",
        "assert " + "-" * 90_000 + "1",
    ):
        assert read_script("a.py", text).decides
