"""Titles of sessions: where a task begins in a prompt, and what tells tasks apart."""

from __future__ import annotations

import pytest
from endstop.analysis.endings import ENDINGS, short_ending
from endstop.analysis.programs import COMMON_FORMATS, PROGRAMS, program_name
from endstop.analysis.task_titles import OPENING_LENGTH, TaskTitles, session_name, task_opening
from endstop.formats.session_files import FORMATS
from hypothesis import given
from hypothesis import strategies as st

SWE = "We're currently solving the following issue within our repository. Here's the issue text:\nISSUE:\n"
UPLOADED = "I've uploaded a python code repository in the directory /home/a/b/c/worktrees/{}.\nConsider the tests."


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Fix the port.", "Fix the port."),
        (f"{SWE}Auth failed\n### Environment\n* Version: 3", "Auth failed"),
        (f"{SWE}<!-- read this\nfirst --><!-- and this -->\n**Describe the bug**\nIt hangs\n", "It hangs"),
        ("<pr_description>\nConsider the following:\nAn empty list fails\n</pr_description>\n# Rules", "An empty"),
        ("<uploaded_files>\n/w\n</uploaded_files>\n<issue_description>\n# Lost `x`\n</issue_description>", "Lost `x`"),
        ("Customer information:\nMei\n\nCustomer request:\nReturn the lamp.", "Return the lamp."),
        ("### Bug report\n- [x] I have searched\nIt hangs", "It hangs"),
        ("Write a <task> element", "Write a <task> element"),
        ("Description:\n", "Description:"),
        ("  \n ", ""),
        ("<!-- no end", "<!-- no end"),
        ("<issue></issue>", "<issue></issue>"),
    ],
)  # fmt: skip
def test_a_task_begins_where_its_issue_or_ticket_does(prompt: str, title: str) -> None:
    assert task_opening(prompt).text.partition("\n")[0].startswith(title)
    assert bool(title) == bool(task_opening(prompt).text)


def titles_of(*prompts: str) -> list[str]:
    titles = TaskTitles()
    tasks = [task_opening(prompt) for prompt in prompts]
    for task in tasks:
        titles.add(task.text, task.key)
    return [titles.title(task.text, task.key, f"file{number}") for number, task in enumerate(tasks)]


def test_what_all_prompts_begin_with_is_left_out() -> None:
    assert titles_of(*(UPLOADED.format(name) for name in ("vllm_core-01", "vllm_core-02", "sglang_core-7"))) == [
        "vllm_core-01",
        "vllm_core-02",
        "sglang_core-7",
    ]
    assert titles_of("Fix the failing test in a.py", "Fix the failing test in b.py") == [
        "Fix the failing test in a.py",
        "Fix the failing test in b.py",
    ]


def test_tasks_that_would_read_alike_get_the_names_of_their_files_and_one_task_has_one_title() -> None:
    same = "A long text that says the same in each of the prompts, word for word. " * 9
    assert [title.partition(":")[0] for title in titles_of(f"{same}Do a.", f"{same}Do b.")] == ["file0", "file1"]
    assert titles_of(f"{SWE}Auth failed", "Please.\n<issue>\nAuth failed\n</issue>\nGo.") == ["Auth failed"] * 2
    assert titles_of("", "Hello") == ["file0", "Hello"]


def test_the_version_changes_with_the_titles() -> None:
    titles = TaskTitles()
    first, second = (task_opening(UPLOADED.format(name)) for name in ("core-01", "core-02"))
    titles.add(first.text, first.key)
    alone, before = titles.title(first.text, first.key, "f"), titles.version(first.text)
    titles.add(second.text, second.key)
    assert titles.title(first.text, first.key, "f") != alone
    assert titles.version(first.text) != before
    known = titles.version(first.text)
    titles.add(second.text, second.key)
    assert titles.version(first.text) == known


WORDS = st.lists(st.sampled_from(("the", "fix", "port", "in", "a.py", "Now:", "go.", "\n")), max_size=40).map(" ".join)


@given(prompts=st.lists(st.one_of(WORDS, st.text()), min_size=1, max_size=8, unique=True), begin=WORDS)
def test_titles_are_lines_that_do_not_depend_on_the_order(prompts: list[str], begin: str) -> None:
    tasks = [task_opening(f"{begin} {prompt}") for prompt in prompts]
    ways = []
    for ordered in (tasks, tasks[::-1]):
        titles = TaskTitles()
        for task in ordered:
            titles.add(task.text, task.key)
        ways.append([titles.title(task.text, task.key, f"file{number}") for number, task in enumerate(tasks)])
    assert ways[0] == ways[1]
    assert all(title.strip() and "\n" not in title for title in ways[0])
    assert all(len(task.text) <= OPENING_LENGTH for task in tasks)


def test_a_session_is_named_by_its_file_its_folder_or_its_id() -> None:
    assert session_name("a/task_3.traj", True, "s1") == "task_3"
    assert session_name("a/gpt-5.2__x.traj.json", True, "s1") == "gpt-5.2__x"
    assert session_name("task_3/trajectory.json", True, "s1") == "task_3"
    assert session_name("trajectory.json", True, "s1") == "s1"
    assert session_name("a/task_3.jsonl", False, "s1") == "s1"


def test_every_format_is_of_a_program_or_of_many() -> None:
    assert PROGRAMS.keys() | COMMON_FORMATS == set(FORMATS)
    assert not PROGRAMS.keys() & COMMON_FORMATS
    assert [program_name(engine) for engine in ("0.2.0", "import:codex", "import:openai", "follow:Codex 1")] == [
        "endstop",
        "Codex",
        "unknown",
        "Codex",
    ]


def test_each_ending_has_other_words_and_no_word_of_the_code() -> None:
    words = [short_ending(key) for key in ENDINGS]
    assert len(set(words)) == len(words)
    assert [word for word in words if "_" in word or "custom:" in word] == []
    assert short_ending("custom:made_up") == "“made up”"
