"""Which files decide what a check says, told from its command."""

import os
from pathlib import Path

import pytest
from endstop.work.path_patterns import PathPattern
from endstop.work.watched_files import named_files, watched_patterns
from hypothesis import given
from hypothesis import strategies as st


def watches(command: str, path: str) -> bool:
    return any(PathPattern(pattern).fits(path) for pattern in watched_patterns(command))


PYTEST = (
    "pytest",
    "conftest.py pytest.py pytest.ini pyproject.toml tests/data/x.json a/test_b.py sitecustomize.py x.pth",
)
COMMANDS = {
    "pytest": "pytest",
    "pytest -q tests": "pytest",
    "cd x && pytest -q": "pytest",
    "env A=1 pytest": "pytest",
    "A=1 B=2 pytest -x": "pytest",
    "uv run pytest": "pytest",
    "uv run --frozen pytest": "pytest",
    "poetry run pytest": "pytest",
    "poetry run python -m pytest": "pytest",
    "timeout 60 pytest": "pytest",
    "timeout -k 5 60 python3.12 -m pytest": "pytest",
    "coverage run -m pytest": "pytest",
    "python -m coverage run -m pytest": "pytest",
    ".venv/bin/python -m pytest": "pytest",
    "/usr/local/bin/pytest": "pytest",
    "ruff check . && mypy -p x && pytest": "pytest",
    "pytest -q | tail -5": "pytest",
    "bash -c 'pytest -q'": "pytest",
    'sh -lc "cd x; pytest"': "pytest",
    "eval pytest": "pytest",
    "(pytest -q)": "pytest",
    "time pytest": "pytest",
    "nice -n 5 pytest": "pytest",
    "python -m unittest": "unittest",
    "python -m unittest discover -s tests": "unittest",
    "tox -e py311": "tox",
    "python -m tox": "tox",
    "nox": "nox",
    "python manage.py test": "django",
    "npm test": "npm",
    "npm run test:unit -- --ci": "npm",
    "pnpm test": "npm",
    "yarn test": "npm",
    "bun test": "npm",
    "npx jest": "jest",
    "npx --yes vitest run": "vitest",
    "pnpm exec jest": "jest",
    "npm exec -- mocha": "mocha",
    "node --test": "node",
    "cargo test --all": "cargo",
    "cargo nextest run": "cargo",
    "go test ./...": "go",
    "make -C sub test": "make",
    "gmake": "make",
    "mvn -q verify": "maven",
    "./mvnw test": "maven",
    "./gradlew test": "gradle",
    "gradle check": "gradle",
    "ctest --output-on-failure": "ctest",
    "cmake --build build && ctest --test-dir build": "ctest",
    "bundle exec rspec": "rspec",
    "vendor/bin/phpunit": "phpunit",
    "dotnet test": "dotnet",
}
WATCHED = {
    "pytest": "conftest.py a/conftest.py pytest.py pytest/__init__.py pytest.ini pyproject.toml setup.cfg tox.ini"
    " tests/data/x.json a/test_b.py a/b_test.py sitecustomize.py usercustomize.py a/x.pth"
    " .venv/lib/python3.12/site-packages/x.pth",
    "unittest": "tests/test_a.py test_a.py unittest/__init__.py sitecustomize.py",
    "tox": "tox.ini conftest.py tests/a.py",
    "nox": "noxfile.py conftest.py",
    "django": "app/tests.py app/tests/test_a.py manage.py",
    "npm": "package.json packages/a/package.json src/a.test.ts src/__tests__/a.js jest.config.js .npmrc",
    "jest": "package.json jest.config.ts src/a.spec.tsx src/__snapshots__/a.snap babel.config.js",
    "vitest": "vitest.config.ts vite.config.ts vitest.workspace.ts a.test.ts",
    "mocha": ".mocharc.yml test/a.js",
    "node": "test/a.js a.test.mjs package.json",
    "cargo": "Cargo.toml crates/a/Cargo.toml build.rs tests/a.rs .cargo/config.toml rust-toolchain.toml",
    "go": "a/b_test.go a/testdata/x go.mod go.work",
    "make": "Makefile GNUmakefile makefile rules.mk tests/run.sh",
    "maven": "pom.xml src/test/java/ATest.java module/src/test/java/ATest.java .mvn/jvm.config mvnw",
    "gradle": "build.gradle build.gradle.kts settings.gradle gradle/wrapper.jar app/src/test/A.kt gradlew",
    "ctest": "CMakeLists.txt a/CMakeLists.txt b.cmake tests/a.c",
    "rspec": "spec/a_spec.rb .rspec Gemfile",
    "phpunit": "phpunit.xml phpunit.xml.dist tests/ATest.php",
    "dotnet": "A.Tests/ATests.cs a.csproj a.sln Directory.Build.props",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_tests_and_settings_of_a_known_runner_are_watched(command: str) -> None:
    files = WATCHED[COMMANDS[command]].split()
    assert [path for path in files if not watches(command, path)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_work_is_not_watched(command: str) -> None:
    work = "src/main.py src/latest.py attest.py src/main.ts src/main.rs main.go src/main/java/A.java lib/a.rb A.cs"
    assert [path for path in work.split() if watches(command, path)] == []


@pytest.mark.parametrize(
    "command", ["", "true", "./check.sh", "ruff check .", "echo pytest", "grep -r pytest .", "'", "$X"]
)
def test_a_command_without_a_known_runner_watches_nothing(command: str) -> None:
    assert watched_patterns(command) == ()


@given(st.text(st.sampled_from("pytest -c'\"$(){}|&;\n\\`<>=./ bash cd eval ~"), max_size=40))
def test_no_command_is_an_error(command: str) -> None:
    for pattern in watched_patterns(command):
        PathPattern(pattern)
    named_files(command, os.path.dirname(__file__))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = """
    check.sh ci/check.sh check.py main.py calc.py src/app.py src/tests/test_app.py tests/test_a.py tests/test_b.py
    build/Makefile build/other.mk setup.cfg ci/pytest.ini .venv/bin/pytest .venv/bin/python a/[odd]*name.sh .git/hooks/x
    """
    for name in files.split():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
    return tmp_path


NAMED = {
    "./check.sh": ["check.sh"],
    "bash ci/check.sh": ["ci/check.sh"],
    "bash -e -u ci/check.sh main.py": ["ci/check.sh"],
    "bash -o pipefail -e check.sh": ["check.sh"],
    "bash check.sh -c main.py": ["check.sh"],
    "python -W error check.py": ["check.py"],
    "sh -c ./check.sh": ["check.sh"],
    "bash -c 'cd ci && ./check.sh'": ["ci/check.sh"],
    "cd ci && ./check.sh": ["ci/check.sh"],
    "cd ci; cd .. ; ./check.sh": ["check.sh"],
    "source ci/check.sh": ["ci/check.sh"],
    ". ci/check.sh": ["ci/check.sh"],
    "{folder}/ci/check.sh": ["ci/check.sh"],
    "python check.py": ["check.py"],
    "uv run check.py": ["check.py"],
    "python check.py main.py": ["check.py"],
    "python -m pytest tests/test_a.py": ["tests/test_a.py"],
    "pytest tests/test_a.py::test_x tests/test_b.py": ["tests/test_a.py", "tests/test_b.py"],
    "pytest 'tests/test_a.py::test_x[1-a b]'": ["tests/test_a.py"],
    "pytest tests/": ["tests"],
    "pytest src/tests": ["src/tests"],
    "pytest src": [],
    "pytest .": [],
    "pytest -c ci/pytest.ini": ["ci/pytest.ini"],
    "pytest --rootdir=src/tests": ["src/tests"],
    "make -f build/Makefile": ["build/Makefile"],
    "make --file=build/Makefile check": ["build/Makefile"],
    ".venv/bin/pytest -q": [".venv/bin/pytest"],
    ".venv/bin/python -m pytest": [".venv/bin/python"],
    "sh 'a/[odd]*name.sh'": ["a/[odd]*name.sh"],
    "rm -f main.py": [],
    "ruff check --config=setup.cfg src": ["setup.cfg"],
    "ruff check src": [],
    "mypy main.py": [],
    "diff main.py calc.py": [],
    "python -c 'import main'": [],
    "python nothing.py": [],
    "bash ../outside.sh": [],
    "sh .git/hooks/nothing": [],
    "pytest tests/nothing.py": [],
    "echo check.sh": [],
}


@pytest.mark.parametrize("command", NAMED)
def test_files_that_a_command_names_as_its_check_are_found(folder: Path, command: str) -> None:
    (folder.parent / "outside.sh").touch()
    patterns = [PathPattern(text) for text in named_files(command.replace("{folder}", str(folder)), folder)]
    everything = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    found = {path for path in everything if any(pattern.fits(path) for pattern in patterns)}
    files = {inner for path in NAMED[command] for inner in everything if inner == path or inner.startswith(path + "/")}
    assert found == files
    assert len(patterns) == len(NAMED[command])


def test_a_program_that_path_finds_in_the_folder_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_files("pytest -q", folder) == ()
    monkeypatch.setenv("PATH", f"{folder}/.venv/bin:{os.environ['PATH']}")
    assert named_files("pytest -q", folder) == ("./.venv/bin/pytest",)
    assert named_files("timeout 60 pytest -q", folder) == ("./.venv/bin/pytest",)


def test_of_a_file_behind_a_link_the_link_is_named(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "check.sh").touch()
    os.symlink(outside, folder / "linked")
    assert named_files("bash linked/check.sh", folder) == ("./linked",)
    os.symlink(outside / "check.sh", folder / "check2.sh")
    assert named_files("./check2.sh", folder) == ("./check2.sh",)
