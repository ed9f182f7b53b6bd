"""What users get: the wheel holds every file of the rooms, and nothing else; the console script is there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from endstop import __version__

ROOT = Path(__file__).parent.parent
ROOMS = ("decision", "providers", "engine")
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from a copy of the checkout; needs no network."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed: `pip install .[test]` brings it")
    copy = tmp_path_factory.mktemp("wheel")
    for name in _files_of_the_rooms() | {"pyproject.toml", "README.md", "LICENSE"}:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    command = [sys.executable, "-c", BUILD, "dist"]
    built = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _files_of_the_rooms() -> set[str]:
    """What git tracks in the rooms, or would if it were added; without git, all but byte code."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *ROOMS]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        names = set(listed.splitlines())
    except (OSError, subprocess.CalledProcessError):
        paths = (path for room in ROOMS for path in (ROOT / room).rglob("*"))
        names = {path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}
    return {name for name in names if (ROOT / name).is_file()}


def test_every_file_of_the_rooms_is_in_the_wheel(wheel_files: set[str]) -> None:
    expected = {f"endstop/{name.removeprefix('engine/')}" for name in _files_of_the_rooms()}
    packed = {name for name in wheel_files if name.startswith("endstop/")}
    assert expected - packed == set(), "declare them in pyproject.toml: packages or package-data"
    assert packed - expected == set()


def test_nothing_but_endstop_lands_in_site_packages(wheel_files: set[str]) -> None:
    tops = {name.split("/", 1)[0] for name in wheel_files}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"endstop"}


def test_the_licence_is_in_the_wheel(wheel_files: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_files)


def test_each_room_says_that_it_is_typed(wheel_files: set[str]) -> None:
    assert {"endstop/py.typed", "endstop/decision/py.typed", "endstop/providers/py.typed"} <= wheel_files


def _package(folder: str) -> str:
    """`engine/` is `endstop` itself, and what lies in it lies in there."""
    place = folder.removeprefix("engine").removeprefix("/")
    return ".".join(["endstop", *place.split("/")]) if place else "endstop"


def test_the_list_of_packages_is_the_list_of_folders(project: dict[str, Any]) -> None:
    folders = {Path(name).parent.as_posix() for name in _files_of_the_rooms() if name.endswith(".py")}
    assert set(project["tool"]["setuptools"]["packages"]) == {_package(folder) for folder in folders}


def test_each_folder_of_python_is_a_package_and_not_a_namespace() -> None:
    folders = {(ROOT / name).parent for name in _files_of_the_rooms() if name.endswith(".py")}
    assert [f for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_the_installed_version_is_that_of_the_code() -> None:
    assert version("endstop") == __version__, "install again: pip install ."


def test_the_console_script_can_be_imported(project: dict[str, Any]) -> None:
    (script,) = entry_points(group="console_scripts", name="endstop")
    assert script.value == project["project"]["scripts"]["endstop"]
    assert callable(script.load())


def test_constraints_pin_each_dependency_once_and_say_nothing_of_where_it_comes_from(project: dict[str, Any]) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(line.count("==") == 1 and " " not in line and "/" not in line for line in pins)
    names = [pin.split("==")[0].lower().replace("_", "-") for pin in pins]
    assert len(names) == len(set(names))
    extras = project["project"]["optional-dependencies"]
    asked = [*project["project"]["dependencies"], *chain(*extras.values())]
    named = {re.split(r"[\[<>=!]", dependency)[0].lower() for dependency in asked}
    assert named - {"endstop"} - set(names) == set()  # an extra may ask for our own others


def test_the_page_about_the_installation_has_a_row_for_each_extra(project: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "start" / "installation.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name for cell in first_cells for name in re.findall(r"`([\w-]+)`", cell)}
    for_users = project["project"]["optional-dependencies"].keys() - {"test", "docs", "bench"}
    assert for_users - named == set()


def test_the_makefile_tries_the_lowest_and_the_highest_litellm_that_the_package_allows(project: dict[str, Any]) -> None:
    (asked,) = project["project"]["optional-dependencies"]["litellm"]
    lowest, highest = re.findall(r">=([\d.]+),<=([\d.]+)", asked)[0]
    tried = re.findall(r"^LITELLMS \?= (\S+) (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert tried == [(lowest, highest)]
