"""Options of `endstop serve`, `worker` and `proxy` from environment variables, and the store from a file."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from endstop.cli.commands import build_whole_parser
from endstop.cli.main import main
from endstop.cli.options import read_store
from endstop.cli.variables import variable_of
from endstop.decision import WrongUse

SERVED = ("serve", "worker", "proxy")


def parsed(*words: str) -> argparse.Namespace:
    return build_whole_parser().parse_args(words)


def test_a_variable_counts_more_than_the_default_and_an_option_more_than_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert parsed("serve").port == 8642
    monkeypatch.setenv("ENDSTOP_PORT", "9000")
    assert parsed("serve").port == 9000
    assert parsed("serve", "--port", "9001").port == 9001
    assert parsed("serve", "--port=9001").port == 9001
    assert parsed("proxy", "--upstream", "http://127.0.0.1:1").port == 9000


def test_a_required_option_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDSTOP_UPSTREAM", "http://127.0.0.1:1")
    assert parsed("proxy").upstream == "http://127.0.0.1:1"


def test_a_switch_takes_one_or_zero(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for value, quiet in (("1", True), ("true", True), ("0", False), ("OFF", False), ("", False)):
        monkeypatch.setenv("ENDSTOP_QUIET", value)
        assert parsed("serve").quiet is quiet, value
    monkeypatch.setenv("ENDSTOP_UNTIL_FROM_FAILING", "0")
    assert parsed("serve").until_from_failing is False
    monkeypatch.setenv("ENDSTOP_QUIET", "loud")
    with pytest.raises(SystemExit) as left:
        parsed("serve")
    assert left.value.code == 2
    assert "ENDSTOP_QUIET: 'loud' is neither 1 nor 0" in capsys.readouterr().err


def test_a_repeatable_option_has_a_value_on_each_line_and_is_replaced_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENDSTOP_GATE", "make test\npytest -q, then more\n\n")
    assert parsed("serve").gate == ["make test", "pytest -q, then more"]
    assert parsed("serve", "--gate", "true").gate == ["true"]


def test_a_value_may_begin_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDSTOP_MODEL", "--port")
    assert parsed("serve").model == "--port"


def test_a_value_that_is_not_valid_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value, said in (
        ("ENDSTOP_PORT", "many", "--port is from ENDSTOP_PORT"),
        ("ENDSTOP_PORT", "99999", "--port is from ENDSTOP_PORT"),
        ("ENDSTOP_RATE", "-1", "--rate is from ENDSTOP_RATE"),
        ("ENDSTOP_LOG_FORMAT", "xml", "--log-format is from ENDSTOP_LOG_FORMAT"),
        ("ENDSTOP_STORE_FILE", "/nowhere/url", "--store-file is from ENDSTOP_STORE_FILE"),
    ):
        with monkeypatch.context() as set_here:
            set_here.setenv(name, value)
            try:
                code: object = main(["serve"])
            except SystemExit as left:
                code = left.code
        err = capsys.readouterr().err
        assert code == 2, err
        assert said in err
        assert err.count("\n") == 1


def test_help_is_shown_whatever_the_variables_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENDSTOP_PORT", "many")
    with pytest.raises(SystemExit) as left:
        parsed("serve", "--help")
    assert left.value.code == 0
    assert "ENDSTOP_GRACE" in capsys.readouterr().out


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDSTOP_PORT", "tcp://10.0.0.11:8642")
    assert parsed("serve").port == 8642


def test_other_commands_read_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDSTOP_MAX_STEPS", "many")
    assert parsed("run", "Go").max_steps is None


def test_each_option_has_a_variable_of_its_own_which_is_none_of_the_others() -> None:
    commands = build_whole_parser().commands()
    for command in SERVED:
        names = [variable_of(action) for action in commands[command]._actions if variable_of(action)]
        assert len(names) == len(set(names)) > 20
        assert "ENDSTOP_TOKEN" not in names, "the token itself, as it was before"


def test_the_store_is_read_from_a_file_and_from_one_place_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:s3cret@db/endstop\n")
    assert read_store(parsed("worker", "--store-file", str(secret))) == "postgresql://me:s3cret@db/endstop"
    monkeypatch.setenv("ENDSTOP_STORE_FILE", str(secret))
    assert read_store(parsed("worker")) == "postgresql://me:s3cret@db/endstop"
    assert read_store(parsed("worker", "--store", "postgresql://other/db")) == "postgresql://other/db"
    monkeypatch.setenv("ENDSTOP_STORE", "postgresql://third/db")
    with pytest.raises(SystemExit):
        parsed("worker")
    assert "ENDSTOP_STORE_FILE" in capsys.readouterr().err
    secret.write_text("")
    with pytest.raises(WrongUse, match="write the path or URL"):
        read_store(parsed("worker", "--store-file", str(secret)))
    secret.write_bytes(b"\xff\xfe")
    with pytest.raises(WrongUse, match="UTF-8"):
        read_store(parsed("worker", "--store-file", str(secret)))
