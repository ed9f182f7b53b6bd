"""The environment that `make` installs into: without a pip of its own where that of PYTHON can do its work."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLDER_PIP = """#!/bin/sh
case "$*" in *"pip --python"*) echo "no such option: --python" >&2; exit 2;; esac
exec {python} "$@"
"""


def _made(python: object, env: Path) -> list[Path]:
    """The environment without anything installed, and where its site-packages are."""
    stamp = f"{env}/.python-{sys.version_info[0]}.{sys.version_info[1]}"
    _make(stamp, f"PYTHON={python}", f"VENV={env}")
    return list(env.glob("lib/python3*/site-packages"))


def _make(*words: str) -> str:
    # the environment of `make test`, in which tests run, is no part of the question
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", *words], cwd=ROOT, env=plain, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("ensurepip") is None, reason="this Python cannot bring a pip")
@pytest.mark.parametrize("older", [False, True], ids=["pip of PYTHON", "older pip of PYTHON"])
def test_an_environment_has_its_own_pip_only_where_that_of_python_is_too_old(older: bool, tmp_path: Path) -> None:
    wrapped = tmp_path / "python"
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    able = [base, "-m", "pip", "--python", base, "--version"]
    older = older or subprocess.run(able, capture_output=True, timeout=300, check=False).returncode != 0
    wrapped.write_text(OLDER_PIP.format(python=base) if older else f'#!/bin/sh\nexec {base} "$@"\n')
    wrapped.chmod(0o755)
    env = tmp_path / "env"
    (packages,) = _made(wrapped, env)
    assert (packages / "pip").is_dir() is older
    assert (env / ".own-pip").exists() is older
    # what make would do next installs there, and runs
    (line,) = [
        line for line in _make("-n", f"{env}/.core", f"PYTHON={wrapped}", f"VENV={env}").splitlines() if "pip" in line
    ]
    pip = line.partition("&& $(")[2].rpartition(" install ")[0]
    listed = subprocess.run(
        ["/bin/sh", "-c", f"$({pip} list --format json"], capture_output=True, text=True, timeout=300, check=False
    )
    assert listed.returncode == 0, listed.stderr
    assert ('"pip"' in listed.stdout) is older
    assert "endstop" not in listed.stdout, "it looks into the environment, not at PYTHON"
