"""Agents and configurations, set up and undone: every file is what it was, byte for byte."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from endstop.agent_setup.json_text import JsonSyntax
from endstop.agent_setup.setup_parts import HookOptions
from endstop.decision import WrongUse

from .configurations import SECRET, Home, tree

JSON = f"""{{
  "theme": "dark",
  "env": {{"TOKEN": "{SECRET}"}},
  "hooks": {{
    "PreToolUse": [{{"matcher": "Bash", "hooks": [{{"type": "command", "command": "lint.sh"}}]}}],
    "Stop": [
      {{"hooks": [{{"type": "command", "command": "say done"}}]}}
    ]
  }},
  "number": 1.50e+2
}}
"""
TOML = f"""# mine
model = "o9" # {SECRET}
model_provider = "openai"
long = \"\"\"
[model_providers.endstop]
\"\"\"

# the first server
[mcp_servers.x]
args = [
  "[a]",
]
"""
YAML = f"""name: mine
version: 1.0.0
schema: v1
models:
  # the quick one
  - name: quick
    apiKey: {SECRET}
    prompt: |
      - name: not a model

# the rest
rules: [a, b]
"""
PARTS = {
    "claude": "hook",
    "codex": "hook",
    "qwen": "hook",
    "gemini": "hook",
    "opencode": "hook",
    "cursor": "hook",
    "pi": "proxy",
    "continue": "proxy",
}
FULL = {"continue": YAML}


def _content(agent: str) -> str:
    return FULL.get(agent, JSON)


def _comments(agent: str) -> str:
    if agent == "continue":
        return YAML
    commented = JSON.replace('"theme"', '// my colours\n  "theme"').replace("+2\n", "+2, /* the last */ // one\n")
    return commented if agent in ("qwen", "gemini", "cursor") else JSON


def _tabs(agent: str) -> str:
    return YAML if agent == "continue" else JSON.replace("  ", "\t")


STATES: dict[str, Callable[[str], bytes | None]] = {
    "absent": lambda agent: None,
    "empty": lambda agent: b"",
    "an empty document": lambda agent: b"{}" if agent != "continue" else b"# nothing yet\n",
    "an empty document on lines": lambda agent: b"{\n\n}\n" if agent != "continue" else b"\n\n",
    "with other hooks": lambda agent: _content(agent).encode(),
    "with comments": lambda agent: _comments(agent).encode(),
    "CRLF": lambda agent: _comments(agent).replace("\n", "\r\n").encode(),
    "byte order mark": lambda agent: b"\xef\xbb\xbf" + _content(agent).encode(),
    "tabs": lambda agent: _tabs(agent).encode(),
    "no line end at the end": lambda agent: _content(agent).rstrip("\n").encode(),
    "on one line": lambda agent: b'{"a": {"b": [1, 2]}, "c": "d"}' if agent != "continue" else b"models: [{name: a}]",
}


def _written(home: Home, content: bytes | None, mode: int = 0o640) -> None:
    if content is not None:
        home.path.parent.mkdir(parents=True)
        home.path.write_bytes(content)
        home.path.chmod(mode)


def _home(tmp_path: Path, agent: str, part: str | None = None) -> Home:
    return Home(tmp_path, agent, part or PARTS[agent])


@pytest.mark.parametrize("agent", PARTS)
def test_every_state_of_a_file_comes_back_byte_for_byte_and_twice_changes_nothing(agent: str, tmp_path: Path) -> None:
    wrong = []
    for name, content in STATES.items():
        home = _home(tmp_path / name, agent)
        home.folder.mkdir()
        if agent != "opencode" or content(agent) is None:  # its plugin is a file of endstop's own
            _written(home, content(agent))
        before = tree(home.folder)
        first, second = home.set_up(), home.set_up()
        mode = home.path.stat().st_mode & 0o777
        expected = 0o640 if before and agent != "opencode" else 0o600
        if not (first and not second and home.undo() and tree(home.folder) == before and mode == expected):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("agent", [name for name in PARTS if name not in ("opencode", "continue")])
def test_what_the_person_had_stays_where_it_was(agent: str, tmp_path: Path) -> None:
    wrong = []
    for name in ("with other hooks", "with comments", "CRLF", "byte order mark", "tabs", "on one line"):
        home = _home(tmp_path / name, agent)
        home.folder.mkdir()
        content = STATES[name](agent)
        assert content is not None
        _written(home, content)
        home.set_up()
        if not _is_within(content, home.path.read_bytes()):
            wrong.append(name)
    assert wrong == []


def _is_within(before: bytes, after: bytes) -> bool:
    """Whether all bytes stand in the new content, in their order: only insertions were made."""
    rest = iter(after)
    return all(byte in rest for byte in before)


@pytest.mark.parametrize("agent", PARTS)
def test_an_edit_made_since_stays_when_it_is_undone(agent: str, tmp_path: Path) -> None:
    home = _home(tmp_path, agent)
    if agent in ("opencode", "continue"):
        pytest.skip("one is a file of its own, the other has its own test")
    _written(home, JSON.encode())
    home.set_up()
    home.path.write_text(home.path.read_text().replace('"dark"', '"light"'))
    assert home.undo()
    assert home.path.read_text() == JSON.replace('"dark"', '"light"')


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_plugin_that_was_edited_stays_with_the_edit(is_kept: bool, tmp_path: Path) -> None:
    home = _home(tmp_path, "opencode")

    def forget() -> None:
        if not is_kept:
            shutil.rmtree(home.copies)

    home.set_up(HookOptions(until=("make",), act=True))
    forget()
    assert home.undo()  # whatever the options were
    assert not home.path.exists()
    home.set_up()
    forget()
    edited = home.path.read_text() + "// mine\n"
    home.path.write_text(edited)
    assert not home.undo()
    assert home.path.read_text() == edited
    assert home.set_up()
    assert home.undo()
    assert home.path.read_text() == edited


def test_an_edit_of_yaml_made_since_stays_when_it_is_undone(tmp_path: Path) -> None:
    home = _home(tmp_path, "continue")
    _written(home, YAML.encode())
    home.set_up()
    assert [model["name"] for model in yaml.safe_load(home.path.read_text())["models"]] == [
        "quick",
        "gpt-5.5 through endstop",
    ]
    home.path.write_text(home.path.read_text().replace("1.0.0", "2.0.0"))
    assert home.undo()
    assert home.path.read_text() == YAML.replace("1.0.0", "2.0.0")


@pytest.mark.parametrize("content", [None, "", "# nothing\n", TOML, TOML.replace("\n", "\r\n"), TOML.rstrip("\n")])
def test_codex_is_sent_through_the_proxy_and_back(content: str | None, tmp_path: Path) -> None:
    home = _home(tmp_path, "codex", "proxy")
    _written(home, None if content is None else content.encode())
    before = tree(tmp_path)
    assert home.set_up()
    assert not home.set_up()
    data = tomllib.loads(home.path.read_bytes().decode())
    assert data["model_provider"] == "endstop"
    assert data["model_providers"]["endstop"]["base_url"] == "http://127.0.0.1:8643/v1"
    assert data.get("mcp_servers") == tomllib.loads(content or "").get("mcp_servers")
    assert home.undo()
    assert tree(tmp_path) == before


def test_a_value_that_was_replaced_comes_back_beside_an_edit(tmp_path: Path) -> None:
    home = _home(tmp_path, "codex", "proxy")
    _written(home, TOML.encode())
    home.set_up()
    home.path.write_text(home.path.read_text().replace('"o9"', '"o10"'))
    assert home.undo()
    assert home.path.read_text() == TOML.replace('"o9"', '"o10"')


@pytest.mark.parametrize(
    ("agent", "content", "said"),
    [
        ("claude", '{\n  "a": 1,\n  "b" 2\n}', "line 3, column 7: expected :"),
        ("claude", '{"a": 1', "line 1, column 8: the file ends here, but expected , or }"),
        ("claude", '{"a": 1} // mine', "line 1, column 10: a comment, which this agent does not read"),
        ("claude", '{"a": 1,}', "line 1, column 8: a comma after the last one"),
        ("claude", '{"hooks": []}', "line 1, column 11: hooks is not an object"),
        ("qwen", '{"hooks": {"Stop": {}}}', "line 1, column 20: hooks.Stop is not a list"),
        ("gemini", "[]", "line 1, column 1: the document is not an object"),
        ("cursor", '{"a": "b\nc"}', "line 1, column 7: a string that is not closed"),
        ("pi", "[" * 5000, "nested deeper than 200 levels"),
        ("claude", b'{"a":\n"\xff"}', "line 2, column 2: not UTF-8"),
        ("continue", "name: a\n  b: [", "line 2, column"),
        ("continue", "models: 5\n", "line 1, column 9: models is not a list"),
    ],
)
def test_a_broken_file_is_told_with_its_place_and_left_as_it_is(
    agent: str, content: str | bytes, said: str, tmp_path: Path
) -> None:
    home = _home(tmp_path, agent)
    _written(home, content if isinstance(content, bytes) else content.encode())
    before = tree(tmp_path)
    with pytest.raises(WrongUse) as told:
        home.set_up()
    assert str(home.path) in str(told.value)
    assert said in str(told.value)
    assert tree(tmp_path) == before
    assert not home.copies.exists()


def test_broken_toml_is_told_with_its_place(tmp_path: Path) -> None:
    home = _home(tmp_path, "codex", "proxy")
    _written(home, b'model = "a"\nx = = 1\n')
    with pytest.raises(WrongUse, match="line 2, column 5"):
        home.set_up()


@pytest.mark.parametrize("agent", PARTS)
def test_a_link_stays_and_its_target_is_changed(agent: str, tmp_path: Path) -> None:
    home = _home(tmp_path, agent)
    target = tmp_path / "dotfiles" / "settings"
    target.parent.mkdir()
    if agent != "opencode":
        target.write_text(_content(agent))
    home.path.parent.mkdir(parents=True)
    home.path.symlink_to(os.path.relpath(target, home.path.parent))
    before = tree(tmp_path)
    assert home.set_up()
    assert home.path.is_symlink()
    assert target.exists()
    assert home.undo()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("agent", PARTS)
def test_a_read_only_file_or_folder_is_refused_and_nothing_is_kept(agent: str, tmp_path: Path) -> None:
    home = _home(tmp_path, agent)
    home.path.parent.mkdir(parents=True)
    if agent != "opencode":
        home.path.write_text(_content(agent))
        home.path.chmod(0o440)
        with pytest.raises(WrongUse, match="is read-only"):
            home.set_up()
        home.path.chmod(0o640)
    home.path.parent.chmod(0o500)
    before = tree(tmp_path)
    try:
        with pytest.raises(WrongUse, match="is read-only"):
            home.set_up()
        assert tree(tmp_path) == before
        assert not home.copies.exists()
    finally:
        home.path.parent.chmod(0o700)


def test_a_link_to_itself_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    def made(name: str, make: Callable[[Path], Any]) -> Home:
        home = _home(tmp_path / name, "claude")
        home.path.parent.mkdir(parents=True)
        make(home.path)
        return home

    for home in (
        made("loop", lambda path: path.symlink_to(path.name)),
        made("folder", lambda path: path.mkdir()),
        made("pipe", lambda path: os.mkfifo(path)),
    ):
        with pytest.raises(WrongUse, match=r"settings\.json"):
            home.set_up()


def test_members_of_the_same_name_are_changed_where_agents_read_them(tmp_path: Path) -> None:
    home = _home(tmp_path, "claude")
    _written(home, b'{"hooks": {}, "hooks": {"Stop": []}}')
    home.set_up()
    assert len(JsonSyntax(comments=False).load(home.path.read_text())["hooks"]["Stop"]) == 1
