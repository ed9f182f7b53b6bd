"""The files of docs/operations: each command in them is one that endstop takes, and they agree with each other."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from endstop.cli import proxy, serve
from endstop.cli.commands import build_whole_parser
from endstop.cli.variables import PREFIX, variable_of

ROOT = Path(__file__).parent.parent
OPERATIONS = ROOT / "docs" / "operations"
GUIDE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
UNITS = sorted(OPERATIONS.glob("*.service"))
COMPOSE: Mapping[str, Any] = yaml.safe_load((OPERATIONS / "compose.yaml").read_text(encoding="utf-8"))
OWN = {name: service for name, service in COMPOSE["services"].items() if name != "postgres"}
WORKER_PORT = 8644
"""Port at which a worker in a container says whether it can work."""


class Unit(NamedTuple):
    name: str
    settings: dict[str, list[str]]

    def only(self, name: str) -> str:
        (value,) = self.settings[name]
        return value


def read_unit(path: Path) -> Unit:
    settings: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return Unit(path.name, settings)


def commands() -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Where a command stands, its words from the name of the command on, and its variables."""
    for path in UNITS:
        unit = read_unit(path)
        program, *words = shlex.split(unit.only("ExecStart"))
        assert program == "/opt/endstop/bin/endstop"
        given = "ENDSTOP_UPSTREAM=http://127.0.0.1:9" if words[0] == "proxy" else "ENDSTOP_MODEL=m"
        variables = dict(pair.split("=", 1) for pair in [given, *shlex.split(unit.only("Environment"))])
        del variables["HOME"]
        yield unit.name, [word.replace("%i", "1") for word in words], variables
    for name, service in OWN.items():
        before = ["proxy"] if name == "proxy" else []
        filled = {key: re.sub(r"\$\{\w+(:[-?])?(.*)\}", r"\2", text) for key, text in service["environment"].items()}
        yield f"compose.yaml: {name}", [*before, *service["command"]], filled


@pytest.mark.parametrize(("where", "words", "variables"), [*commands()])
def test_every_option_and_variable_is_one_of_the_command(
    where: str, words: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = build_whole_parser().commands()[words[0]]
    options = {option for action in parser._actions for option in action.option_strings}
    assert {word for word in words if word.startswith("--")} <= options
    known = {variable_of(action) for action in parser._actions}
    assert {name for name in variables if name.startswith(PREFIX)} <= known
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    args = parser.parse_args(words[1:])
    assert args.grace == 30
    assert words[0] != "proxy" or args.budget, "a proxy with --budget-store and without a budget does not start"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_few_rights_and_stops_after_its_sessions(path: Path) -> None:
    unit = read_unit(path)
    for name, value in (("DynamicUser", "yes"), ("ProtectSystem", "strict"), ("NoNewPrivileges", "yes")):
        assert unit.only(name) == value
    assert unit.only("SystemCallErrorNumber") == "EPERM"
    assert unit.only("CapabilityBoundingSet") == ""
    assert unit.only("Restart") == "on-failure"
    assert unit.only("RestartPreventExitStatus") == "2"
    assert int(unit.only("TimeoutStopSec")) >= 30 + 10
    state = unit.only("StateDirectory")
    written = re.findall(r"%S/([\w%-]+)", f"{unit.only('ExecStart')} {unit.only('Environment')}")
    assert unit.only("WorkingDirectory") == f"%S/{state}"
    assert set(written) == {state}
    assert path.name in GUIDE
    loaded = [credential.partition(":") for credential in unit.settings["LoadCredential"]]
    assert {name for name, _, _ in loaded} == set(re.findall(r"%d/(\w+)", unit.only("ExecStart")))
    assert all(file in GUIDE for _, _, file in loaded)
    assert unit.only("EnvironmentFile").removeprefix("-") in GUIDE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    paths = []
    for unit in UNITS:
        path = tmp_path / unit.name.replace("@", "@1")
        path.write_text(unit.read_text(encoding="utf-8").replace("/opt/endstop/bin/endstop", sys.executable))
        paths.append(path)
    done = subprocess.run(["systemd-analyze", "verify", *paths], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_services_of_the_compose_file_have_few_rights_and_its_secrets_are_files() -> None:
    assert OWN.keys() == {"server", "worker", "proxy"}
    for service in OWN.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert int(service["stop_grace_period"].removesuffix("s")) >= 30 + 10
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    for name, service in COMPOSE["services"].items():
        files = set(re.findall(r"/run/secrets/(\w+)", str(service)))
        assert files == set(service["secrets"]), name
    assert {name: secret["file"] for name, secret in COMPOSE["secrets"].items()} == {
        name: f"./secrets/{name}" for name in ("postgres_password", "store", "tokens")
    }
    assert all(f"secrets/{name}" in GUIDE for name in COMPOSE["secrets"])
    assert "/docs/operations/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert OWN["worker"]["deploy"] == {"replicas": 2}


def test_ports_and_paths_agree_with_the_commands_the_images_and_the_guide() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert OWN["server"]["ports"] == [f"127.0.0.1:{serve.PORT}:{serve.PORT}"]
    assert OWN["proxy"]["ports"] == [f"127.0.0.1:{proxy.PORT}:{proxy.PORT}"]
    for port in (serve.PORT, proxy.PORT):
        assert f"EXPOSE {port}\n" in dockerfile
        assert str(port) in GUIDE
    for name, port in (("server", serve.PORT), ("worker", WORKER_PORT)):
        check = OWN[name]["healthcheck"]["test"]
        assert check[:3] == ["CMD", "/opt/endstop/bin/python", "-c"]
        assert f"{port}, timeout" in check[3]
        assert "'/ready'" in check[3]
    assert OWN["worker"]["command"][OWN["worker"]["command"].index("--health-port") + 1] == str(WORKER_PORT)
    targets = {service["build"]["target"] for service in OWN.values() if "build" in service}
    assert targets == set(re.findall(r"FROM runtime AS (\w+)", dockerfile))
    for service in OWN.values():
        (volume,) = service["volumes"]  # a volume without a name would be left behind by each container
        name, _, folder = volume.partition(":")
        assert name in COMPOSE["volumes"]
        assert folder == "/data"


LOGGING_CALLS = {"log_info", "log_warning", "log_error", "Outage"}
LOGGING = (ROOT / "docs" / "guides" / "logging.md").read_text(encoding="utf-8")


def _logged() -> Iterator[str]:
    """The lines that a server, a worker or the proxy may log, as far as they stand in the code as they are."""
    for package in ("service", "web", "proxy", "process", "durable", "follow", "store", "cli"):
        for path in (ROOT / "engine" / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(text)), *_]) if (
                        name in LOGGING_CALLS
                    ):
                        yield text
                    case ast.Subscript(value=ast.Attribute(attr="outages"), slice=ast.Constant(value=str(text))):
                        yield text


def test_the_guide_says_what_each_line_of_the_log_means() -> None:
    lines = set(_logged())
    assert {"evicted a dead process", "the store is unreachable", "runs are not recorded"} <= lines
    unexplained = {
        line for line in lines if f"`{line}`" not in LOGGING and f"`{line.partition(':')[0]}: ...`" not in LOGGING
    }
    assert unexplained == set()
