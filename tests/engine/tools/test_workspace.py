"""The workspace tools: what they do, and that they stay inside."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from endstop import Engine
from endstop.decision import ToolResult, WrongUse
from endstop.providers import Scripted, call
from endstop.tools import finish_task, workspace_tools
from endstop.tools.workspace import MAX_FILE_BYTES, WorkspaceError, WorkspaceFolder
from hypothesis import given, settings
from hypothesis import strategies as st

SECRET = "the secret outside"


class Tools:
    """The tools of a folder, called as a model calls them."""

    def __init__(self, folder: Path, *, allow_run: bool = False) -> None:
        self.offered = {tool.name: tool for tool in workspace_tools(folder, allow_run=allow_run)}

    async def __call__(self, name: str, /, **arguments: Any) -> str:
        tool = self.offered[name]
        result = await tool.run(tool.parse(json.dumps(arguments)))
        assert isinstance(result, str)
        return result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text(SECRET)
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "deep.txt").write_text(SECRET)
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("import os\n\nPORT = 80\n")
    (root / "README.md").write_text("# An app\n")
    return root


@pytest.fixture
def use(root: Path) -> Tools:
    return Tools(root, allow_run=True)


# ---- what is offered


def test_a_missing_folder_is_wrong_use_when_the_tools_are_made(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"workspace '.*nowhere' does not exist: "):
        workspace_tools(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(WrongUse, match="is not a folder"):
        workspace_tools(str(tmp_path / "file"))


def test_the_command_tool_is_offered_only_if_it_is_allowed(root: Path) -> None:
    names = ["list_files", "read_file", "search_files", "edit_file", "write_file"]
    assert [tool.name for tool in workspace_tools(root)] == names
    assert [tool.name for tool in workspace_tools(root, allow_run=True)] == [*names, "run_command"]


def test_the_tools_that_only_read_say_so_and_no_description_names_a_tool(use: Tools) -> None:
    assert {name for name, tool in use.offered.items() if tool.spec.reads} == {
        "list_files",
        "read_file",
        "search_files",
    }
    for tool in use.offered.values():
        assert not any(name in json.dumps([tool.spec.description, tool.spec.parameters]) for name in use.offered)
        assert all(argument["description"] for argument in tool.spec.parameters["properties"].values())


async def test_a_folder_that_is_given_as_a_relative_path_stays_the_same_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    use = Tools(Path("workspace"))
    monkeypatch.chdir("/")
    assert "PORT" in await use("read_file", path="src/app.py")


async def test_an_agent_works_in_the_folder_and_errors_reach_it_in_one_sentence(root: Path) -> None:
    provider = Scripted(
        [call("read_file", path="src/main.py"), call("read_file", path="../outside.txt")],
        [call("edit_file", path="src/app.py", old="PORT = 80", new="PORT = 8080")],
        [call("finish_task", summary="The port is 8080.")],
    )
    outcome = await Engine(provider, tools=workspace_tools(root), presets=[finish_task]).run("Set the port to 8080")
    assert outcome.status == "completed"
    results = [message for message in provider.requests[-1].messages if isinstance(message, ToolResult)]
    assert [(result.status, result.content) for result in results] == [
        ("error", "FileNotFoundError: 'src/main.py' does not exist in the workspace"),
        ("error", "WorkspaceError: '../outside.txt' is outside the workspace"),
        ("ok", "Replaced one passage in src/app.py, line 3."),
    ]
    assert (root / "src" / "app.py").read_text() == "import os\n\nPORT = 8080\n"


# ---- list


async def test_a_listing_is_sorted_recursive_and_without_version_control(root: Path, use: Tools) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").touch()
    (root / ".gitignore").touch()
    (root / "link").symlink_to("src")
    os.mkfifo(root / "pipe")
    assert await use("list_files") == (
        ".gitignore\nREADME.md\nlink (link)\npipe (not an ordinary file)\nsrc/\nsrc/app.py"
    )
    assert await use("list_files", path="src") == "src/app.py"
    assert await use("list_files", path="link/..") == await use("list_files")


async def test_a_large_folder_is_named_with_its_size_and_listed_by_its_own_path(root: Path, use: Tools) -> None:
    (root / "many").mkdir()
    for number in range(310):
        (root / "many" / f"{number:03}").touch()
    assert await use("list_files") == "README.md\nmany/ (310 entries, not listed)\nsrc/\nsrc/app.py"
    lines = (await use("list_files", path="many")).split("\n")
    assert lines[0] == "many/000"
    assert lines[299:] == ["many/299", "[the first 300 of 310 entries]"]


async def test_listing_says_so_of_empty_missing_and_no_folders(root: Path, use: Tools) -> None:
    (root / "empty").mkdir()
    assert await use("list_files", path="empty") == "(an empty folder)"
    with pytest.raises(FileNotFoundError, match="'nowhere' does not exist"):
        await use("list_files", path="nowhere")
    with pytest.raises(NotADirectoryError, match=r"'README.md', or a part of it, is not a folder"):
        await use("list_files", path="README.md")


async def test_names_that_cannot_be_printed_do_not_break_a_listing(root: Path, use: Tools) -> None:
    (root / "src" / "a\nb").touch()
    Path(os.fsdecode(os.fsencode(root) + b"/src/\xff")).touch()
    listed = await use("list_files", path="src")
    assert listed == "src/a\ufffdb\nsrc/app.py\nsrc/\ufffd"
    assert listed.encode()


# ---- read


async def test_a_file_is_read_whole_or_by_a_range_of_lines(root: Path, use: Tools) -> None:
    assert await use("read_file", path="src/app.py") == "import os\n\nPORT = 80"
    assert await use("read_file", path="./src/../src/app.py", start_line=3) == "PORT = 80\n[lines 3 to 3 of 3]"
    assert await use("read_file", path=str(root / "src/app.py"), max_lines=1) == "import os\n[lines 1 to 1 of 3]"
    with pytest.raises(WorkspaceError, match="has only 3 lines"):
        await use("read_file", path="src/app.py", start_line=4)


async def test_a_text_with_crlf_and_a_byte_order_mark_reads_as_plain_lines(root: Path, use: Tools) -> None:
    (root / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (root / "empty.txt").touch()
    assert await use("read_file", path="dos.txt") == "one\ntwo"
    assert await use("read_file", path="empty.txt") == "(an empty file)"


async def test_what_is_read_of_a_huge_file_is_bounded_and_says_so(root: Path, use: Tools) -> None:
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(100_000)))
    text = await use("read_file", path="long.txt", max_lines=10_000_000)
    assert text.endswith("line 1999\n[lines 1 to 2000 of 100000]")
    (root / "wide.txt").write_text("x" * 60_000 + "\nnext")
    text = await use("read_file", path="wide.txt")
    assert len(text) < 50_200
    assert text.endswith("[line 1 is cut: it has 60000 characters; lines 1 to 1 of 2]")
    with (root / "huge.txt").open("wb") as file:
        file.write("é\n".encode() * (MAX_FILE_BYTES // 3 + 1))
        file.truncate(10_000_000_000)  # sparse: takes no room
    text = await use("read_file", path="huge.txt", max_lines=1)
    assert text.startswith("é\n[lines 1 to 1 of ")
    assert "only the first 5000000 bytes" in text
    with pytest.raises(WorkspaceError, match=r"'huge.txt' is too large to be edited here"):
        await use("edit_file", path="huge.txt", old="a", new="b")


async def test_files_that_are_no_text_say_what_they_are(root: Path, use: Tools) -> None:
    (root / "image.png").write_bytes(b"\x89PNG\0\0")
    (root / "latin.txt").write_bytes(b"one\ncaf\xe9\n")
    os.mkfifo(root / "pipe")
    (root / "circle").symlink_to("circle")
    for path, kind, message in [
        ("image.png", WorkspaceError, "'image.png' is a binary file, not text"),
        ("latin.txt", WorkspaceError, "'latin.txt' is not UTF-8 text: byte 0xe9 in line 2"),
        ("pipe", WorkspaceError, "'pipe' is not an ordinary file"),
        ("circle", WorkspaceError, "'circle' is a link that leads in a circle"),
        ("src", IsADirectoryError, "'src' is a folder, not a file"),
        (".", IsADirectoryError, "'.' is a folder, not a file"),
        ("none", FileNotFoundError, "'none' does not exist in the workspace"),
        ("none/a", FileNotFoundError, "'none/a' does not exist in the workspace"),
        ("README.md/a", NotADirectoryError, "'README.md/a', or a part of it, is not a folder"),
        ("a\0b", WorkspaceError, "a path has at most 4096 characters, and none of them is a null"),
        ("a" * 5000, WorkspaceError, "a path has at most 4096 characters, and none of them is a null"),
        ("a" * 300, WorkspaceError, f"'{'a' * 300}' cannot be used: File name too long"),
    ]:
        with pytest.raises(kind) as error:
            await use("read_file", path=path)
        assert str(error.value) == message


# ---- search


async def test_a_search_shows_file_and_line_of_each_hit_sorted(root: Path, use: Tools) -> None:
    (root / "src" / "a.js").write_bytes(b"let port = 1;\r\n  let PORT = 2;\r\n")
    assert await use("search_files", pattern=r"PORT\b.*\d$") == "src/app.py:3: PORT = 80"
    assert await use("search_files", pattern="PORT") == "src/a.js:2: let PORT = 2;\nsrc/app.py:3: PORT = 80"
    assert await use("search_files", pattern="(?i)port = 1", path="src") == "src/a.js:1: let port = 1;"
    assert await use("search_files", pattern="PORT", path="src/app.py") == "src/app.py:3: PORT = 80"
    assert await use("search_files", pattern="nothing") == "(no hits)"
    with pytest.raises(FileNotFoundError, match="'nowhere' does not exist"):
        await use("search_files", pattern="a", path="nowhere")


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*", "a.py b.js src/c.py src/in/d.ts"),
        ("", "a.py b.js src/c.py src/in/d.ts"),
        ("*.py", "a.py src/c.py"),
        ("**/*.py", "a.py src/c.py"),
        ("./src/*.py", "src/c.py"),
        ("src/**", "src/c.py src/in/d.ts"),
        ("src/**/*.{js,ts}", "src/in/d.ts"),
        ("?.js", "b.js"),
        ("*.p", ""),
        ("a,b.py", ""),
    ],
)
async def test_a_glob_chooses_the_files(tmp_path: Path, glob: str, files: str) -> None:
    (tmp_path / "src" / "in").mkdir(parents=True)
    for name in ("a.py", "b.js", "src/c.py", "src/in/d.ts"):
        (tmp_path / name).write_text("here")
    found = await Tools(tmp_path)("search_files", pattern="here", glob=glob)
    assert [line.split(":")[0] for line in found.split("\n") if ":" in line] == files.split()


async def test_a_search_skips_binary_files_links_and_version_control(root: Path, use: Tools) -> None:
    (root / ".git").mkdir()
    for name in (".git/config", "latin.txt", "binary"):
        (root / name).write_bytes(b"needle \xe9" + (b"\0" if name == "binary" else b""))
    (root / "out").symlink_to("../outer")
    (root / "self").symlink_to(".")
    os.mkfifo(root / "pipe")
    assert await use("search_files", pattern="needle|secret") == "latin.txt:1: needle \ufffd"


async def test_a_search_skips_what_checks_leave_behind_unless_it_is_asked_for(root: Path, use: Tools) -> None:
    (root / ".pytest_cache" / "v").mkdir(parents=True)
    (root / ".pytest_cache" / "v" / "lastfailed").write_text("test_app.py")
    (root / "built").mkdir()
    (root / "built" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    (root / "built" / "app.d").write_text("test_app.py")
    (root / "test_app.py").write_text("def test_app(): pass\n")
    assert await use("search_files", pattern="test_app") == "test_app.py:1: def test_app(): pass"
    inside = await use("search_files", pattern="test_app", path=".pytest_cache")
    assert inside == ".pytest_cache/v/lastfailed:1: test_app.py"
    assert await use("search_files", pattern="test_app", path="built") == "built/app.d:1: test_app.py"


async def test_the_hits_of_a_search_are_bounded(root: Path, use: Tools) -> None:
    (root / "many.txt").write_text(("x" * 1000 + "\n") * 150)
    lines = (await use("search_files", pattern="x{5}")).split("\n")
    assert len(lines) == 101
    assert all(len(line) < 300 for line in lines)
    assert lines[-1] == "[the first 100 hits, there are more: narrow pattern, path or glob]"


async def test_a_pattern_that_is_none_is_told_why_and_none_takes_for_ever(root: Path, use: Tools) -> None:
    with pytest.raises(WorkspaceError, match=r"^'\(a' is not a usable regular expression: unclosed group$"):
        await use("search_files", pattern="(a")
    with pytest.raises(WorkspaceError, match="look-around, including look-ahead and look-behind, is not supported"):
        await use("search_files", pattern="(?=a)")
    with pytest.raises(WorkspaceError, match=r"^'\*\.\{py' is not a usable glob: "):
        await use("search_files", pattern="a", glob="*.{py")
    (root / "a.txt").write_text("a" * 5000 + "b")
    with anyio.fail_after(60):  # Python's own would take longer than the universe
        assert await use("search_files", pattern="(a+)+$", path="a.txt") == "(no hits)"


# ---- edit


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\ntwo\nthree\n", b"one\n2\n2\nthree\n"),
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\n2\r\nthree\r\n"),
        (b"one\r\ntwo\r\nthree", b"one\r\n2\r\n2\r\nthree"),
        (b"a\r\none\ntwo\nthree\nb\r\n", b"a\r\none\n2\n2\nthree\nb\r\n"),
        (b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n", b"\xef\xbb\xbfone\r\n2\r\n2\r\nthree\r\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_an_edit_keeps_the_newlines_of_the_file(
    root: Path, use: Tools, before: bytes, after: bytes, newline: str
) -> None:
    (root / "text").write_bytes(before)
    old, new = f"one{newline}two{newline}th", f"one{newline}2{newline}2{newline}th"
    assert (await use("edit_file", path="text", old=old, new=new)).startswith("Replaced one passage in text, line ")
    assert (root / "text").read_bytes() == after


def test_an_edit_changes_its_passage_and_not_a_byte_before_or_after_it(root: Path, use: Tools) -> None:
    edit = use.offered["edit_file"].function
    file = root / "f"

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=30), st.data())
    def holds(pieces: list[str], data: Any) -> None:
        start = data.draw(st.integers(0, len(pieces)))
        end = data.draw(st.integers(start, len(pieces)))
        plain, old = ("".join(part).replace("\r\n", "\n") for part in (pieces, pieces[start:end]))
        file.write_bytes("".join(pieces).encode())
        if old and plain.find(old) == plain.rfind(old):
            edit("f", old, "X")
            assert file.read_bytes().decode() == "".join([*pieces[:start], "X", *pieces[end:]])
        else:
            with pytest.raises(WorkspaceError):
                edit("f", old, "X")
            assert file.read_bytes().decode() == "".join(pieces)

    holds()


async def test_an_edit_says_why_it_cannot_be_made(root: Path, use: Tools) -> None:
    file = root / "src" / "app.py"
    file.write_text("a = 1\nb = 1\nc = 1\naaa\n")
    for old, new, message in [
        ("d = 1", "x", "old does not occur in 'src/app.py': read it and copy the passage exactly"),
        ("= 1", "x", "old occurs 3 times in 'src/app.py', first in lines 1 and 2: include more of the text"),
        ("aa", "x", "old occurs 2 times in 'src/app.py', first in lines 4 and 4: include more of the text"),
        ("", "x", "old is empty: give the passage that is to be replaced"),
        ("a = 1", "a = 1", "old and new are the same, so nothing would change"),
    ]:
        with pytest.raises(WorkspaceError) as error:
            await use("edit_file", path="src/app.py", old=old, new=new)
        assert str(error.value).startswith(message)
    assert file.read_text() == "a = 1\nb = 1\nc = 1\naaa\n"
    with pytest.raises(FileNotFoundError, match="'none' does not exist"):
        await use("edit_file", path="none", old="a", new="b")


# ---- write


async def test_writing_makes_the_folders_above_and_says_whether_the_file_is_new(root: Path, use: Tools) -> None:
    assert await use("write_file", path="a/b/c.txt", content="é\r\n") == "Created a/b/c.txt (4 bytes)."
    assert await use("write_file", path="a/b/c.txt", content="") == "Replaced a/b/c.txt (0 bytes)."
    assert (root / "a" / "b" / "c.txt").read_bytes() == b""


async def test_a_write_is_one_move_that_keeps_the_mode_and_leaves_nothing_behind(root: Path, use: Tools) -> None:
    script = root / "run.sh"
    script.write_text("old text")
    script.chmod(0o751)
    with script.open() as reader:
        await use("write_file", path="run.sh", content="new")
        await use("edit_file", path="run.sh", old="new", new="newer")
        assert reader.read() == "old text"  # who has it open sees the old file, never half of the new one
    assert script.read_text() == "newer"
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    await use("write_file", path="fresh", content="")
    (root / "usual").touch()
    assert (root / "fresh").stat().st_mode == (root / "usual").stat().st_mode
    assert sorted(os.listdir(root)) == ["README.md", "fresh", "run.sh", "src", "usual"]


async def test_what_is_no_file_is_not_written_over(root: Path, use: Tools) -> None:
    os.mkfifo(root / "pipe")
    (root / "circle").symlink_to("circle")
    for path, kind in [
        ("src", IsADirectoryError),
        (".", IsADirectoryError),
        ("README.md/a", NotADirectoryError),
        ("pipe", WorkspaceError),
        ("circle", WorkspaceError),
        ("a" * 300, WorkspaceError),
    ]:
        with pytest.raises(kind):
            await use("write_file", path=path, content="x")
    assert sorted(os.listdir(root)) == ["README.md", "circle", "pipe", "src"]


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/config", "src/.hg/hgrc", "link/config", ".git"])
async def test_version_control_is_not_written(root: Path, use: Tools, path: str) -> None:
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")
    with pytest.raises(WorkspaceError, match="belongs to version control"):
        await use("write_file", path=path, content="x")
    assert os.listdir(root / ".git") == []


# ---- inside


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "src/../../outside.txt",
        "none/../../outside.txt",
        "{outer}/outside.txt",
        "/etc/hostname",
        "../workspace-other/a",
        "to_file",
        "to_folder/deep.txt",
        "chain/deep.txt",
        "src/up/outside.txt",
        "dangling",
        "src/up/workspace/to_file",
        "to_folder/new.txt",
        "to_folder/new/new.txt",
    ],
)
async def test_no_path_and_no_link_leads_outside(root: Path, use: Tools, path: str) -> None:
    (root.parent / "workspace-other").mkdir()
    (root.parent / "workspace-other" / "a").write_text(SECRET)
    (root / "to_file").symlink_to("../outside.txt")
    (root / "to_folder").symlink_to(root.parent / "outer")
    (root / "chain").symlink_to("to_folder")
    (root / "src" / "up").symlink_to("../..")
    (root / "dangling").symlink_to("../new.txt")
    before = _outside(root.parent)
    path = path.format(outer=root.parent)
    for name, arguments in [
        ("read_file", {}),
        ("list_files", {}),
        ("search_files", {"pattern": "."}),
        ("edit_file", {"old": SECRET, "new": "x"}),
        ("write_file", {"content": "x"}),
    ]:
        with pytest.raises(WorkspaceError, match="is outside the workspace"):
            await use(name, path=path, **arguments)
    assert _outside(root.parent) == before


async def test_links_that_stay_inside_work_and_writing_keeps_them(root: Path, use: Tools) -> None:
    (root / "code").symlink_to("src")
    (root / "main").symlink_to("code/app.py")
    (root / "later").symlink_to("src/later.py")
    assert "PORT" in await use("read_file", path="main")
    await use("edit_file", path="main", old="80", new="81")
    await use("write_file", path="later", content="x")
    assert (root / "main").is_symlink()
    assert (root / "src" / "app.py").read_text().endswith("81\n")
    assert (root / "src" / "later.py").read_text() == "x"
    assert "src/app.py" in await use("list_files", path="code")


async def test_a_workspace_that_is_itself_a_link_is_the_folder_it_leads_to(root: Path) -> None:
    (root.parent / "link").symlink_to("workspace")
    use = Tools(root.parent / "link")
    assert await use("list_files") == "README.md\nsrc/\nsrc/app.py"
    with pytest.raises(WorkspaceError, match="is outside"):
        await use("read_file", path="../outside.txt")


def test_a_link_put_there_after_the_path_was_checked_is_not_followed(root: Path) -> None:
    folder = WorkspaceFolder(os.path.realpath(root))
    inside, file = folder.parts("src/deep.txt"), folder.parts("README.md")
    (root / "src" / "app.py").unlink()
    (root / "src").rmdir()
    (root / "src").symlink_to("../outer")
    (root / "README.md").unlink()
    (root / "README.md").symlink_to("../outside.txt")
    for parts in (inside, file):
        with pytest.raises((NotADirectoryError, WorkspaceError)):
            folder.read("x", parts)
        with pytest.raises((NotADirectoryError, WorkspaceError)):
            folder.write("x", parts, b"gone")
    with pytest.raises(NotADirectoryError):
        folder.entries("x", inside[:-1])
    with pytest.raises(WorkspaceError):
        list(folder.files("x", file))
    assert {text for text in _outside(root.parent).values() if text is not None} == {SECRET}


OUTWARD = ["..", "to_file", "to_folder", "chain", "sub/chain", "up", "sub/up", "slash", "sub/back", "dangling"]
INWARD = ["", ".", "a.txt", "sub", "inside", "inner", "sub/inside", "circle", "new", "~", ".git", "sub/dangling"]
BEYOND = ["secret.txt", "secrets", "secrets/secret.txt", "workspace", "new", "OUTER"]
PATHS = st.one_of(
    st.sampled_from([*OUTWARD, *INWARD, *BEYOND]),
    st.builds("{}/{}".format, st.sampled_from(OUTWARD), st.sampled_from([*BEYOND, *OUTWARD])),
    st.lists(st.sampled_from([*OUTWARD, *INWARD, *BEYOND, "/"]), max_size=5).map("/".join),
    st.text(max_size=8),
)
CALLS: list[tuple[str, Callable[[str], tuple[str, ...]]]] = [
    ("read_file", lambda path: (path,)),
    ("list_files", lambda path: (path,)),
    ("search_files", lambda path: (".", path)),
    ("edit_file", lambda path: (path, "the", "THE")),
    ("write_file", lambda path: (path, "the text")),
]


def test_no_sequence_of_paths_reads_or_writes_outside(tmp_path: Path) -> None:
    outer = Path(os.path.realpath(tmp_path))
    (outer / "workspace").mkdir()
    functions = {tool.name: tool.function for tool in workspace_tools(outer / "workspace")}

    @settings(max_examples=80, deadline=None)
    @given(st.lists(st.tuples(PATHS, st.permutations(CALLS)), min_size=1, max_size=6))
    def holds(tries: list[tuple[str, list[Any]]]) -> None:
        _plant_links(outer)
        before = _outside(outer)
        for path, calls in tries:
            for tool, arguments in calls:
                try:
                    said = functions[tool](*arguments(path.replace("OUTER", str(outer))))
                except (OSError, WorkspaceError) as error:
                    said = str(error)
                assert SECRET not in said
                assert "never-named" not in said
        assert _outside(outer) == before

    holds()


def _plant_links(outer: Path) -> None:
    for name in ("workspace", "secrets"):
        shutil.rmtree(outer / name, ignore_errors=True)
    (outer / "secret.txt").write_text(SECRET)
    (outer / "secrets").mkdir()
    for name in ("secret.txt", "a.txt", "never-named"):
        (outer / "secrets" / name).write_text(SECRET)
    workspace = outer / "workspace"
    (workspace / "sub" / "new").mkdir(parents=True)
    (workspace / "a.txt").write_text("the text")
    for name, target in {
        "to_file": "../secret.txt",
        "to_folder": "../secrets",
        "chain": "sub/chain",
        "sub/chain": "../to_folder",
        "up": "..",
        "slash": "/",
        "sub/back": "../..",
        "sub/up": "../up/workspace/up",
        "dangling": "../new",
        "sub/dangling": str(outer / "secrets" / "new"),
        "inside": "a.txt",
        "inner": "sub",
        "sub/inside": "../inner/new/a.txt",
        "circle": "sub/circle",
        "sub/circle": "../circle",
    }.items():
        (workspace / name).symlink_to(target)


def _outside(outer: Path) -> dict[str, str | None]:
    """Each path beside the workspace, and its text."""

    def found() -> Iterator[tuple[str, str | None]]:
        for path in sorted(outer.rglob("*")):
            if path.is_relative_to(outer / "workspace"):
                continue
            yield str(path), path.read_text() if path.is_file() else None

    return dict(found())


# ---- run


async def test_a_command_runs_in_the_folder_and_shows_its_exit_code_and_all_output(root: Path, use: Tools) -> None:
    assert await use("run_command", command="pwd; echo oops >&2; exit 3") == f"exit code 3\n{root}\noops\n"
    assert await use("run_command", command="cat") == "exit code 0\n(no output)"
    assert await use("run_command", command="kill -TERM $$") == "killed by signal 15 (SIGTERM)\n(no output)"
    assert await use("run_command", command="printf 'a\\377b'") == "exit code 0\na\ufffdb"


async def test_of_long_output_the_beginning_and_the_end_are_kept(use: Tools) -> None:
    text = await use("run_command", command="seq 1000000; exit 1")
    assert text.startswith("exit code 1\n1\n2\n3\n")
    assert "\n[... 6868896 bytes left out ...]\n" in text
    assert text.endswith("\n999999\n1000000\n")
    assert len(text) < 20_100


async def test_a_command_ends_with_its_shell_and_takes_the_background_with_it(root: Path, use: Tools) -> None:
    with anyio.fail_after(60), _Alive(root) as alive:
        assert await use("run_command", command=f"{alive.hold}; sleep 1000 & echo started") == (
            "exit code 0\nstarted\n"
        )
        await alive.until_nobody_is_left()


async def test_a_command_that_takes_too_long_is_killed_with_all_it_started(root: Path, use: Tools) -> None:
    with anyio.fail_after(60), _Alive(root) as alive:
        for seconds in (0.3, 3, 30):  # until the shell has had the time to come so far
            with pytest.raises(TimeoutError) as error:
                await use("run_command", command=f"{alive.hold}; sleep 1000 & echo so far; sleep 1000", timeout=seconds)
            if "so far" in str(error.value):
                break
        assert str(error.value) == f"the command was killed after {seconds:g} seconds\nso far"
        await alive.until_nobody_is_left()


async def test_a_cancelled_command_is_killed_with_all_it_started(root: Path, use: Tools) -> None:
    with anyio.fail_after(60), _Alive(root) as alive:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: use("run_command", command=f"{alive.hold}; sleep 1000 & (sleep 1000 & wait)"))
            await alive.until_started()
            tasks.cancel_scope.cancel()
        await alive.until_nobody_is_left()


async def test_cancelling_the_run_kills_the_command(root: Path) -> None:
    with anyio.fail_after(60), _Alive(root) as alive:
        provider = Scripted([call("run_command", command=f"{alive.hold}; sleep 1000 & sleep 1000")])
        engine = Engine(provider, tools=workspace_tools(root, allow_run=True))
        async with engine.start("go") as run:
            await alive.until_started()
            run.cancel()
            async for _ in run:
                pass
        assert run.outcome.status == "cancelled"
        await alive.until_nobody_is_left()


class _Alive:
    """A named pipe that a command and all that it starts hold open: at its end, none of them is left."""

    def __init__(self, root: Path) -> None:
        self._path = root / "alive"
        self.hold = "exec 9>alive; echo >&9"

    def __enter__(self) -> _Alive:
        os.mkfifo(self._path)
        self._pipe = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pipe)

    async def until_started(self) -> None:
        await anyio.wait_readable(self._pipe)
        assert os.read(self._pipe, 1) == b"\n"

    async def until_nobody_is_left(self) -> None:
        piece = b"\n"
        while piece:
            await anyio.wait_readable(self._pipe)
            piece = os.read(self._pipe, 100)


async def test_a_command_does_not_see_the_keys_that_the_model_is_paid_with(
    use: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("LC_TIME", "C")
    text = await use("run_command", command="env")
    assert "sk-planted" not in text
    assert "LC_TIME=C" in text
