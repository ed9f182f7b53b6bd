"""The images: what their file says, and the proxy's commands, run here as another user without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from endstop.process.tokens import Tokens
from endstop.records.known_secrets import names_secret

from .agents import Provider, proxied
from .raw_http import raw_request

ROOT = Path(__file__).parents[3]
USER = 65532
READS_ALL = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *READS_ALL] if os.geteuid() == 0 else []
"""What runs a command as the image's user. It may read everything, as this interpreter may lie in root's own folder,
but write only to what is its own."""
NEEDS_SETPRIV = pytest.mark.skipif(
    bool(AS_USER) and shutil.which("setpriv") is None, reason="root needs setpriv (util-linux) to run as another user"
)


class Instruction(NamedTuple):
    name: str
    rest: str


def instructions() -> list[Instruction]:
    """The instructions of the file, without comments."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    told = (line.strip().partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return [Instruction(name, rest.strip()) for name, _, rest in told]


def stage(target: str) -> list[Instruction]:
    """The instructions of a stage, after those of the stages of this file that it begins with."""
    found: dict[str, list[Instruction]] = {}
    name = ""
    for one in instructions():
        if one.name == "FROM":
            base, _, name = one.rest.partition(" AS ")
            found[name] = [*found.get(base, [])]
        elif name:
            found[name].append(one)
    return found[target]


def only(name: str, target: str = "proxy") -> str:
    """What the only instruction of this name says in the stage of an image."""
    (found,) = (one.rest for one in stage(target) if one.name == name)
    return found


def command_of(text: str) -> list[str]:
    """The words of an instruction in its exec form, which needs no shell."""
    words = json.loads(text[text.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return words


TARGETS = ("server", "proxy")


def test_two_images_are_built_on_one_pinned_slim_base_and_hold_no_source() -> None:
    begun = [one.rest.partition(" AS ") for one in instructions() if one.name == "FROM"]
    bases = {name: base for base, _, name in begun}
    assert {base for base in bases.values() if base not in bases} == {"${PYTHON}"}
    (base,) = (one.rest for one in instructions() if one.name == "ARG")
    assert re.fullmatch(r"PYTHON=python:\d+\.\d+\.\d+-slim-\w+", base)
    assert [*bases][-1] == "proxy", "the one that is built without --target"
    for target in TARGETS:
        copied = [one.rest for one in stage(target) if one.name == "COPY"]
        assert [rest.split()[-1] for rest in copied] == ["/data", "/opt/endstop"]
        assert all("--from=" in rest for rest in copied)
        assert not [one for one in stage(target) if one.name == "RUN"]


def test_nothing_is_fetched_by_url_and_nothing_needs_a_shell() -> None:
    names = [one.name for one in instructions()]
    assert "ADD" not in names
    assert "://" not in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for one in instructions():
        if one.name in ("RUN", "ENTRYPOINT", "CMD", "HEALTHCHECK"):
            assert not {"sh", "bash"} & set(command_of(one.rest))


def test_no_secret_has_a_place_in_it() -> None:
    for one in instructions():
        if one.name in ("ENV", "ARG"):
            assert not any(names_secret(pair.partition("=")[0]) for pair in one.rest.split())
    assert "--tokens" not in only("ENTRYPOINT")


@pytest.mark.parametrize("target", TARGETS)
def test_the_user_is_nobody_and_owns_only_the_volume(target: str) -> None:
    assert only("USER", target) == f"{USER}:{USER}"
    volumes = json.loads(only("VOLUME", target))
    owned = [one.rest.split()[-1] for one in stage(target) if one.name == "COPY" and f"--chown={USER}" in one.rest]
    assert owned == volumes == ["/data"]
    names = [one.name for one in stage(target)]
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "COPY")


def test_all_that_the_build_copies_is_there_and_in_its_context() -> None:
    lets = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"}
    copied = [one.rest.split()[:-1] for one in instructions() if one.name == "COPY" and "--from" not in one.rest]
    names = {name for names in copied for name in names}
    assert names == lets
    assert all((ROOT / name).exists() for name in names)


@contextmanager
def volume() -> Iterator[Path]:
    """A folder of the image's user, in one that belongs to somebody else."""
    parent = Path(tempfile.mkdtemp(prefix="endstop-image-"))
    try:
        parent.chmod(0o755)
        data = parent / "data"
        (data / "records").mkdir(parents=True)
        if os.geteuid() == 0:
            for folder in (data, data / "records"):
                os.chown(folder, USER, USER)
        parent.chmod(0o555)
        yield data
    finally:
        parent.chmod(0o755)
        shutil.rmtree(parent)


def run_as(words: list[str], data: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a command of the image with its variables, on this interpreter, as its user where that is possible."""
    here = {"/opt/endstop/bin/python": [sys.executable]}
    endstop = [sys.executable, "-c", "from endstop.cli.console_script import main; raise SystemExit(main())"]
    first = endstop if words[0].endswith("/endstop") else here[words[0]]
    said = dict(pair.split("=") for pair in only("ENV").split())
    paths = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    return subprocess.Popen(
        [*AS_USER, *first, *(word.replace("/data", str(data)) for word in words[1:])],
        env={**paths, **said, "HOME": str(data), **environment},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@NEEDS_SETPRIV
def test_its_commands_run_as_another_user_who_can_write_to_the_volume_alone() -> None:
    serve = command_of(only("ENTRYPOINT"))
    serve[serve.index("--port") + 1] = "0"
    with volume() as data:
        upstream = ["--upstream", "http://127.0.0.1:9", "--budget", "cost_usd=1", "--budget-store", "/data/budgets.db"]
        proxy = run_as([*serve, *upstream], data, ENDSTOP_TOKEN="0123456789abcdef-own")
        try:
            assert proxy.stdout is not None
            ready = proxy.stdout.readline()
            found = re.search(r":(\d+), in front of", ready)
            assert found, ready + proxy.stderr.read() if proxy.stderr else ready
            check = [word.replace("8643", found[1]) for word in command_of(only("HEALTHCHECK"))]
            asked = run_as(check, data)
            assert asked.communicate(timeout=30) == ("", "")
            assert asked.returncode == 0
        finally:
            proxy.terminate()
            _, said = proxy.communicate(timeout=30)
        assert (proxy.returncode, said) == (0, "")
        asked = run_as(check, data)
        asked.communicate(timeout=30)
        assert asked.returncode != 0
        written = {path.relative_to(data).as_posix() for path in data.rglob("*")}
        assert written <= {"records", "budgets.db", "budgets.db-wal", "budgets.db-shm"}
        if os.geteuid() == 0:
            assert not [path for path in data.parent.parent.iterdir() if path.lstat().st_uid == USER]


@NEEDS_SETPRIV
def test_it_does_not_start_open_to_everybody() -> None:
    with volume() as data:
        proxy = run_as([*command_of(only("ENTRYPOINT")), "--upstream", "http://127.0.0.1:9"], data)
        _, said = proxy.communicate(timeout=30)
    assert proxy.returncode == 2
    assert "ENDSTOP_TOKEN" in said


@pytest.mark.parametrize("host", ["localhost", "elsewhere.example", ""])
async def test_health_says_only_that_the_proxy_lives_and_what_it_does(host: str, tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path, tokens=Tokens({"me": "0123456789abcdef-own"})) as (url, client, proxy):
        head = f"GET /endstop/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        answer = await raw_request(url, head.encode())
        assert answer.startswith(b"HTTP/1.1 200 ")
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert body == {"status": "ok", "proxy": "endstop", "acts": True, "checks": False}
        for path, method, status in (
            ("/endstop/health", "POST", 401),
            ("/endstop/health/x", "GET", 401),
            ("/endstop/metrics", "GET", 401),
        ):
            async with client.request(method, f"{url}{path}") as reply:
                assert reply.status == status
        assert not proxy.statistics.total.requests["passed"]


async def test_health_is_never_the_providers(tmp_path: Path) -> None:
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        for method in ("GET", "HEAD", "POST", "DELETE"):
            async with client.request(method, f"{url}/endstop/health") as reply:
                assert reply.status == (200 if method in ("GET", "HEAD") else 405)
    assert not provider.headers
