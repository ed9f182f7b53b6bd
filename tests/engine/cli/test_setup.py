"""`endstop setup`: what it shows, writes, undoes and refuses."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from endstop.agent_setup.agents import agents
from endstop.agent_setup.plugin_folder import plugin_files
from endstop.agent_setup.setup_parts import HookOptions, ProxyAddress, proxy_lines, proxy_part
from endstop.base.version import __version__

from ...agents.agents import agents as driven_agents
from ...console import Done, endstop
from ..agent_setup.configurations import SECRET, hook_commands

SETTINGS = f'{{\n  "env": {{"TOKEN": "{SECRET}", "OTHER": 1}},\n  "apiKeyHelper": "echo {SECRET}"\n}}\n'


class Person:
    """A home folder, and the command started in a folder of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "project"
        (self.project / "below").mkdir(parents=True)

    async def setup(self, *words: str, cwd: Path | None = None) -> Done:
        env = {"HOME": str(self.home), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": ""}
        return await endstop("setup", *words, env=env, cwd=cwd or self.project)

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


async def test_without_write_it_shows_what_it_would_write_and_writes_nothing(person: Person) -> None:
    path = person.write(".claude/settings.json", SETTINGS)
    done = await person.setup("claude", "--until", "pytest -q")
    assert (done.code, done.err) == (0, "")
    assert f"--- {path}\n+++ {path}\n@@ " in done.out
    assert "hook --until 'pytest -q' --watch" in done.out
    assert "Nothing was written yet. To write it, add --write." in done.out
    assert path.read_text() == SETTINGS
    assert not (person.home / ".local").exists()


async def test_no_value_of_another_setting_is_shown_or_copied_where_others_can_read_it(person: Person) -> None:
    path = person.write(".claude/settings.json", SETTINGS)
    person.write(".config/opencode/opencode.json", json.dumps({"model": SECRET, "provider": {"x": {"apiKey": SECRET}}}))
    person.write(".codex/config.toml", f'model_provider = "{SECRET}" # {SECRET}\n')
    person.write(".continue/config.yaml", f"models: [{{name: a, apiKey: {SECRET}}}]\n")
    shown = []
    for agent in ("claude", "opencode", "codex", "continue"):
        for words in (("--proxy",), ("--proxy", "--write"), ("--proxy", "--json"), ("--undo",)):
            shown.append(await person.setup(agent, *words))
    shown.append(await person.setup("claude", "--hook", "--write"))
    shown.append(await person.setup())
    assert [done for done in shown if SECRET in done.out + done.err or done.code] == []
    assert "ANTHROPIC_BASE_URL" in shown[0].out
    copies = person.home / ".local/state/endstop/setup"
    (copy,) = copies.rglob("before")
    assert copy.read_text() == SETTINGS
    assert path.read_text() != SETTINGS
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (copies, copy.parent, copy, copy.with_name("kept.json"))]
    assert modes == [0o700, 0o700, 0o600, 0o600]
    assert SECRET not in copy.with_name("kept.json").read_text()


async def test_hook_and_proxy_share_a_file_and_each_is_taken_out_alone(person: Person) -> None:
    path = person.write(".claude/settings.json", SETTINGS)
    for words in (("--hook",), ("--proxy",)):
        assert (await person.setup("claude", *words, "--write")).code == 0
    both = json.loads(path.read_text())
    assert both["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8643"
    assert len(hook_commands(path.read_text())) == 6
    await person.setup("claude", "--hook", "--undo")
    assert hook_commands(path.read_text()) == []
    assert json.loads(path.read_text())["env"]["ANTHROPIC_BASE_URL"]
    await person.setup("claude", "--undo")
    assert path.read_text() == SETTINGS


async def test_other_options_replace_what_was_set_and_undo_still_restores_the_beginning(person: Person) -> None:
    path = person.write(".claude/settings.json", SETTINGS)
    lines = (["--until", "a"], ["--until", "b c", "--act"], ["--proxy", "http://127.0.0.1:9"], ["--proxy"])
    for words in lines:
        assert (await person.setup("claude", *words, "--write")).code == 0
    commands = hook_commands(path.read_text())
    assert len(commands) == 6
    assert all("--until 'b c'" in one and "--watch" not in one for one in commands)
    stops = json.loads(path.read_text())["hooks"]["Stop"]
    assert [hook["timeout"] for group in stops for hook in group["hooks"]] == [630]
    again = await person.setup("claude", "--until", "b c", "--act", "--write")
    assert "Claude Code: nothing to change." in again.out
    await person.setup("claude", "--undo")
    assert path.read_text() == SETTINGS


async def test_an_address_of_ones_own_is_taken_out_although_the_file_was_changed(person: Person) -> None:
    path = person.write(".claude/settings.json", "{}\n")
    await person.setup("claude", "--proxy", "http://127.0.0.1:9", "--write")
    path.write_text(path.read_text().replace("{\n", '{\n  "theme": "dark",\n', 1))
    await person.setup("claude", "--undo")
    assert json.loads(path.read_text()) == {"theme": "dark"}


async def test_undo_without_the_copy_takes_out_what_is_endstops(person: Person) -> None:
    path = person.write(".claude/settings.json", SETTINGS)
    await person.setup("claude", "--until", "x", "--write")
    for file in (person.home / ".local/state/endstop/setup").rglob("*.json"):
        file.write_text("torn")
    done = await person.setup("claude", "--undo")
    assert done.code == 0
    assert path.read_text() == SETTINGS


async def test_a_file_of_the_project_is_that_of_the_git_work_tree(person: Person) -> None:
    (person.project / ".git").mkdir()
    done = await person.setup("claude", "--project", "--write", cwd=person.project / "below")
    path = person.project / ".claude" / "settings.json"
    assert f"The project is the git work tree {person.project}." in done.out
    assert len(hook_commands(path.read_text())) == 6
    (row,) = [row for row in (await person.setup("--json")).json["agents"] if row["agent"] == "claude"]
    assert (row["hook"], row["proxy"]) == (str(path), None)
    await person.setup("claude", "--project", "--undo")
    assert not path.parent.exists()


async def test_the_list_says_what_is_here_and_what_is_set(person: Person) -> None:
    await person.setup("codex", "--proxy", "--write")
    person.write(".gemini/settings.json", "{broken")
    rows = {row["agent"]: row for row in (await person.setup("--json")).json["agents"]}
    assert list(rows) == list(agents())
    assert rows["codex"]["proxy"] == str(person.home / ".codex/config.toml")
    assert rows["codex"]["folder"] == str(person.home / ".codex")
    assert rows["qwen"]["folder"] is rows["qwen"]["hook"] is None
    assert "line 1, column 2" in rows["gemini"]["problems"][0]
    text = (await person.setup()).out
    assert "~/.codex/config.toml" in text
    assert "Set one up: endstop setup AGENT" in text


async def test_what_is_to_be_done_next_is_said(person: Person) -> None:
    codex = await person.setup("codex", "--hook", "--write")
    assert "/hooks" in codex.out
    assert "To undo it: endstop setup codex --undo" in codex.out
    assert "With --act" not in codex.out
    assert "only watches" in codex.out
    gemini = await person.setup("gemini", "--proxy", "http://127.0.0.1:9000", "--act")
    assert "  export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9000\n" in gemini.out
    upstream = "https://generativelanguage.googleapis.com"
    assert f"  endstop proxy --upstream {upstream} --record runs/ --port 9000\n" in gemini.out
    assert "was read in its documentation, not tried" in (await person.setup("cursor", "--write")).out


WRONG = {
    ("claud",): "did you mean 'claude'?",
    ("--write",): "--write needs an agent",
    ("pi", "--hook"): "pi has no hooks that endstop can use",
    ("cursor", "--proxy"): "cannot be set in a file",
    ("pi", "--project"): "pi has no file of a project",
    ("claude", "--until", " "): "--until is empty",
    ("claude", "--guard", "x"): "--guard is about a check",
    ("claude", "--until", "x", "--until-timeout", "0"): "use seconds from 1 to 86400",
    ("claude", "--proxy", "here"): "give an address such as",
    ("claude", "--proxy", "http://me:secret@x"): "give only scheme, host, port and path",
    ("claude", "--undo", "--act"): "do not go together",
    ("claude", "folder"): "only `endstop setup plugin` takes a folder",
    ("plugin",): "needs a folder",
}


async def test_a_mistake_is_told_with_exit_code_2_and_nothing_is_written(person: Person) -> None:
    wrong = []
    for words, said in WRONG.items():
        done = await person.setup(*words, "--write")
        if done.code != 2 or said not in done.err or done.out:
            wrong.append((words, done))
    assert wrong == []
    assert [path.name for path in person.home.iterdir()] == ["project"]


async def test_one_file_that_cannot_be_written_leaves_the_others_as_they_were(person: Person) -> None:
    person.write(".codex/config.toml", "a = 1").chmod(0o400)
    done = await person.setup("codex", "--hook", "--proxy", "--write")
    assert (done.code, "config.toml is read-only" in done.err) == (2, True)
    assert not (person.home / ".codex/hooks.json").exists()


async def test_the_plugin_is_written_found_the_same_and_removed(person: Person) -> None:
    done = await person.setup("plugin", "tool", "--until", "pytest -q", "--act", "--write")
    assert done.code == 0
    folder = person.project / "tool"
    assert f"claude plugin marketplace add {folder}" in done.out
    assert "nothing to change" in (await person.setup("plugin", "tool", "--until", "pytest -q", "--act", "--write")).out
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == set(plugin_files(HookOptions()))
    assert (await person.setup("plugin", "tool", "--write")).code == 0  # other options
    await person.setup("plugin", "tool", "--undo")
    assert not folder.exists()


async def test_a_plugin_file_that_was_edited_stays_and_that_is_said(person: Person) -> None:
    await person.setup("opencode", "--write")
    (path,) = (person.home / ".config/opencode/plugins").iterdir()
    edited = path.read_text() + "// mine\n"
    path.write_text(edited)
    done = await person.setup("opencode", "--undo")
    assert done.code == 0
    assert path.read_text() == edited
    assert "has changed since endstop wrote it" in " ".join(done.out.split())
    files = json.loads((await person.setup("opencode", "--undo", "--json")).out)["files"]
    assert {file["file"]: file["edited"] for file in files}[str(path)]
    assert not any(file["changes"] for file in files)


def test_the_plugin_has_the_version_of_the_package_and_asks_the_command_of_the_path() -> None:
    files = plugin_files(HookOptions(until=("pytest -q",), act=True))
    data = {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}
    claude, codex = (data[f"plugins/endstop/.{name}-plugin/plugin.json"] for name in ("claude", "codex"))
    (listed,) = data[".claude-plugin/marketplace.json"]["plugins"]
    assert {one["version"] for one in (claude, codex, listed)} == {__version__}
    assert "pipx install endstop" in claude["description"]
    hooks = {
        **data["plugins/endstop/hooks/hooks.json"]["hooks"],
        **data["plugins/endstop/hooks/claude_code.json"]["hooks"],
    }
    known = agents()["claude"].hook
    assert known is not None
    assert set(hooks) == {*known.prompt, *known.tool, *known.end}
    commands = hook_commands(json.dumps(hooks))
    assert {command.partition(" --timeout")[0] for command in commands} == {"endstop hook --until 'pytest -q'"}
    assert "__" not in "".join(files.values())


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("endstop ")]


@pytest.mark.parametrize("name", [name for name, agent in agents().items() if agent.proxy])
def test_the_proxys_settings_are_those_of_the_guide_which_are_measured(name: str) -> None:
    agent = agents()[name]
    assert agent.proxy is not None
    told = driven_agents()[name].setup
    assert agent.proxy.upstream == told.upstream
    part = proxy_part(agent, ProxyAddress(), {"HOME": "/"})
    if part is None:
        lines = [line for line in _lines(told.shell) if not line.startswith("export OPENAI_MODEL")]
        assert proxy_lines(agent.proxy, ProxyAddress()) == lines
        return
    if name == "claude":
        assert _lines(told.shell) == [f"export {part.entries[0].path[-1]}={part.entries[0].value}"]
        return
    ((path, text),) = told.files.items()
    read: Any = {"toml": tomllib.loads, "yaml": yaml.safe_load}.get(part.syntax, json.loads)
    data = read(text)
    assert str(part.path) == f"/{path}"
    for entry in part.entries:
        there = data
        for step in entry.path:
            there = there[step]
        if entry.kind == "add":
            assert [{**entry.value, "name": "gpt-5.5"}] == there
        else:
            assert entry.value == there
