"""Runs the model's commands and MCP servers with a short environment, and leaves none of their processes behind.

They see an allow-list of our environment variables, so that no key reaches them unless it is passed on explicitly:
neither in variables nor through the parent process, a reaper with the same short environment (`child_reaper.py`). When
the reaper ends, it kills all descendants.

Limits: a command runs as the same user and may read what that user may read. On Linux our memory and environment are
closed to it by `harden_process` (`cli/hardening.py`), which only our own command line calls, and for root by the
reaper. Other systems have no subreapers, so a process that leaves the command's process group survives.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio.to_thread

from ..decision import WrongUse

ALLOWED = frozenset(
    {
        # user and place
        "HOME", "LOGNAME", "USER", "SHELL", "PATH", "PWD", "TMPDIR", "TEMP", "TMP", "TZ", "HOSTNAME",
        # language and terminal
        "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "CI",
        # network access
        "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
        # toolchains
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION", "PYTHONPATH", "PYTHONHOME",
        "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED",
        "JAVA_HOME", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT",
        "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CARGO_HOME", "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "NODE_PATH", "NVM_DIR", "NVM_BIN", "PNPM_HOME", "VOLTA_HOME", "FNM_DIR",
        "GEM_HOME", "GEM_PATH", "RBENV_ROOT", "DOTNET_ROOT", "SDKMAN_DIR", "ASDF_DIR", "ASDF_DATA_DIR",
        "CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "MAKELEVEL",
        "PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
        "DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
        "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS",
    }
)  # fmt: skip
"""Environment variables that commands see, in addition to `LC_*` and proxies without credentials."""
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"})
_REAPER = str(Path(__file__).with_name("child_reaper.py"))
LONGEST_OUTPUT = 200_000
"""Most bytes of a command's output that are kept, from its end."""
LEAVING_SECONDS = 5.0
"""Maximum seconds for the reaper to kill the remaining processes of a command."""


def child_environment(names: Collection[str] = ()) -> dict[str, str]:
    """Return the environment that a command sees: the allow-list and the variables in `names`."""
    return {name: value for name, value in os.environ.items() if name in names or _is_allowed(name, value)}


def _is_allowed(name: str, value: str) -> bool:
    if name.upper() in _PROXIES:
        return "@" not in value  # a URL with user and password is a secret
    return name in ALLOWED or name.startswith("LC_")


def check_variable_names(names: object) -> tuple[str, ...]:
    """Return the names of environment variables as a tuple. Raises WrongUse for values that cannot be such names."""
    if isinstance(names, str) or not isinstance(names, Collection):
        raise WrongUse(f"env takes a list of variable names: write env=[{names!r}]")
    for name in names:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise WrongUse(f"env: {name!r} is not the name of a variable: write it as in env=['DATABASE_URL']")
    return tuple(names)


class ChildProcess:
    """A command running under its reaper."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: socket.socket) -> None:
        self.process = process
        """The reaper. It exits with the command's status after all descendants are gone."""
        self._lifeline = lifeline

    def kill(self) -> None:
        """Kill the command and all its descendants."""
        self._lifeline.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVING_SECONDS)
            return
        self.process.kill()


@contextmanager
def start_child(
    command: str | Sequence[str], *, folder: str | None, output: int, env: dict[str, str]
) -> Iterator[ChildProcess]:
    """Start a command, through the shell if it is a string. Leaving the block kills it and all its descendants.

    output: file descriptor for its standard output and error.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _REAPER, str(theirs.fileno()), *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
            env=env,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    running = ChildProcess(process, ours)
    try:
        yield running
    finally:
        running.kill()


async def run_command(
    command: str | Sequence[str], folder: str | None, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Return the exit code and output of a command; a string is passed to the shell.

    Every process that it starts ends with it, also on cancellation. env: its environment; None for that of this
    process. Raises FileNotFoundError if the program does not exist.
    """
    visible = dict(os.environ) if env is None else dict(env)
    if not isinstance(command, str) and shutil.which(command[0]) is None:
        raise FileNotFoundError(f"there is no command {command[0]!r}")
    with tempfile.TemporaryFile() as output:
        with start_child(command, folder=folder, output=output.fileno(), env=visible) as running:
            code = await anyio.to_thread.run_sync(running.process.wait, abandon_on_cancel=True)
        output.seek(max(0, output.seek(0, os.SEEK_END) - LONGEST_OUTPUT))
        return code, output.read().decode("utf-8", "replace")
