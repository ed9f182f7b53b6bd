"""What each step is judged by, the memory behind it, and the guards that stop a run that brings nothing new."""

from __future__ import annotations

import itertools

import pytest
from endstop import Engine, Limits, Policy, tool
from endstop.decision import POLICIES, Facts, GoOn, Stop, ToolCall, WrongUse, decide, fold
from endstop.decision.events import MessageAdded, StepFinished, StepStarted
from endstop.decision.messages import ResultStatus, ToolSpec
from endstop.decision.novelty import NO_LINES, Marks, add_marks, distinct_lines, essential_text, marks_of
from endstop.decision.policy import Repetition, Stagnation, for_recorded_run
from endstop.decision.settings import settings_from_record
from endstop.decision.step_history import (
    POINTS,
    REMEMBERED_STEPS,
    StepHistory,
    StepJudgement,
    StepKind,
    add_points,
)
from endstop.providers import Scripted, call
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

Step = tuple[str, str, str] | tuple[str, str, str, ResultStatus] | None


def foreign(*steps: Step, history: StepHistory | None = None) -> StepHistory:
    """The history after steps of an imported session: name, arguments, result; None for a step without a call."""
    history = history or StepHistory.of([], foreign=True)
    for step in steps:
        if step is None:
            history = history.with_step(0, [])
        else:
            name, arguments, content, *status = step
            history = history.with_step(1, [(ToolCall("c", name, arguments), content, status[0] if status else "ok")])
    return history


def read(path: str, content: str) -> Step:
    return "read_file", f'{{"path": "{path}"}}', content


def edit(text: str, content: str = "edited") -> Step:
    return "edit_file", f'{{"path": "a.py", "text": "{text}"}}', content


def shell(command: str, content: str) -> Step:
    return "bash", f'{{"command": "{command}"}}', content


REFUSED = [shell("frob", "bash: frob: command not found")]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([None], "talk"),
        ([read("a.py", "import os")], "news"),
        ([read("a.py", "import os"), read("b.py", "import os")], "known"),
        ([read("a.py", "x = 1"), read("b.py", "x = 2")], "news"),
        ([read("a.py", "x = 1"), read("a.py", "x = 1")], "known"),
        ([read("a.py", "x = 1"), read("a.py", "x = 2")], "same_call_news"),
        ([read("a.py", "one\ntwo"), read("b.py", "two\nthree"), read("c.py", "one\nthree")], "answered"),
        ([edit("x")], "change"),
        ([edit("x"), edit("x")], "same_change"),
        ([edit("x"), edit("y"), edit("x")], "change_before"),
        ([edit("x"), read("a.py", "import os"), edit("x")], "same_change"),
        ([edit("x"), edit("y")], "change"),
        ([edit("x", "a\nb\nc\nd\ne"), edit("y", "a\nb\nc\nd\ne")], "change"),
        ([edit("x", "Error: no such file: a.py")], "failed_change"),
        ([edit("x", "Error: no such file"), edit("y", "Error: no such file")], "known_failed_change"),
        ([shell("frob", "bash: frob: command not found")], "failure"),
        (
            [shell("frob", "bash: frob: command not found"), shell("grob", "bash: grob: command not found")],
            "failure",
        ),
        ([shell("frob -a", "bash: no room"), shell("frob -b", "bash: no room: error: x")], "failure"),
        ([shell("frob", "bash: line 3: frob: command not found")] * 2, "repeated_failure"),
        ([shell("view -r 5", "Error: line 5"), shell("view -r 7", "Error: line 7")], "failure"),
        (
            [shell("frob", "bash: frob: command not found"), read("a.py", "import os"), *REFUSED],
            "old_failure",
        ),
        (
            [edit("x", "Error: 2 matches"), read("a.py", "import os"), edit("x", "Error: 2 matches")],
            "known_failed_change",
        ),
        ([edit("x", "Error: 2 matches"), edit("x", "Error: 2 matches")], "repeated_failure"),
        ([shell("python job.py", "")], "acted"),
        ([("click", '{"at": "#a"}', "clicked"), ("click", '{"at": "#b"}', "clicked")], "acted"),
        ([("click", '{"at": "#a"}', "clicked"), ("click", '{"at": "#a"}', "clicked")], "known"),
        ([("click", '{"at": "#a"}', "clicked"), ("tap", '{"at": "#a"}', "clicked")], "acted"),
        ([("get_row", '{"n": 1}', "row 1: fine"), ("get_row", '{"n": 2}', "row 2: fine")], "answered"),
        ([("search", '{"q": "a"}', "no results for a"), ("search", '{"q": "b"}', "no results for b")], "known"),
        ([shell("grep -rn foo .", "")], "nothing_found"),
        ([shell("grep -rn foo .", ""), shell("grep -rn foo .", "")], "known"),
        ([shell("sleep 30", "")], "waiting"),
        (
            [shell("pytest -q", "Error: timed out: bash has not returned in 120 seconds and must be restarted")],
            "waiting",
        ),
        ([shell("restart", "tool has been restarted.")], "waiting"),
        ([("think", '{"thought": "hm"}', "noted")], "none"),
        ([("finish", "{}", "no", "rejected")], "none"),
    ],
)
def test_what_a_step_brought(steps: list[Step], kind: str) -> None:
    assert foreign(*steps).judgement.brought == kind


def together(*steps: list[tuple[str, str, str]]) -> StepHistory:
    """The history after steps of several calls each, of an imported session."""
    history = StepHistory.of([], foreign=True)
    for step in steps:
        history = history.with_step(
            len(step),
            [
                (ToolCall(f"c{at}", name, arguments), content, "ok")
                for at, (name, arguments, content) in enumerate(step)
            ],
        )
    return history


def see(path: str, content: str) -> tuple[str, str, str]:
    return "read_file", f'{{"path": "{path}"}}', content


def run(command: str, content: str) -> tuple[str, str, str]:
    return "bash", f'{{"command": "{command}"}}', content


def write(text: str) -> tuple[str, str, str]:
    return "edit_file", f'{{"path": "a.py", "text": "{text}"}}', "edited"


LONG = "\n".join("abcdefghi")
BUSY = "Error: no room left"
OUT_OF_TIME = "Error: timed out: bash has not returned in 120 seconds and must be restarted"


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        pytest.param([[run("a", BUSY), run("b", BUSY)]], "failure", id="all fail"),
        pytest.param([[run("a", BUSY), see("b", "new")]], "news", id="the second does not fail"),
        pytest.param([[see("b", "new"), run("a", BUSY)]], "news", id="the first does not fail"),
        pytest.param([[run("a", OUT_OF_TIME), run("b", OUT_OF_TIME)]], "waiting", id="all run out of time"),
        pytest.param([[run("a", OUT_OF_TIME), run("b", BUSY)]], "failure", id="one runs out of time"),
        pytest.param([[see("a", "old")], [see("b", "new"), see("c", "old")]], "news", id="the first is new"),
        pytest.param([[see("a", "old")], [see("b", "old"), see("c", "new")]], "news", id="the second is new"),
        pytest.param([[see("a", "old")], [see("b", LONG), see("c", "old")]], "news", id="the first is new and long"),
        pytest.param([[see("a", "x = 1")], [see("b", "x = 2"), see("c", "x = 1")]], "news", id="a new number"),
        pytest.param([[see("a", "old")], [see("b", "old"), see("c", "")]], "known", id="one gives nothing back"),
        pytest.param([[see("b", ""), see("c", "")]], "nothing_found", id="none gives anything back"),
        pytest.param([[see("a", "old")], [run("sleep 3", ""), see("b", "old")]], "known", id="one waits"),
        pytest.param([[write("x"), see("b", "old")], [write("y"), see("b", "old")]], "change", id="another change"),
        pytest.param([[write("x"), see("b", "old")]] * 2, "same_change", id="the same change"),
        pytest.param(
            [[see("a", "p"), see("b", "q")], [see("a", "q"), see("b", "q")]],
            "same_call_news",
            id="the same calls with other known results",
        ),
        pytest.param([[see("a", "p"), see("b", "q")]] * 2, "known", id="the same calls with the same results"),
        pytest.param([[see("a", "p"), see("b", "q")], [see("b", "q"), see("a", "p")]], "known", id="in another order"),
    ],
)
def test_all_calls_of_a_step_count(steps: list[list[tuple[str, str, str]]], kind: str) -> None:
    assert together(*steps).judgement.brought == kind


def test_results_of_the_same_tools_are_compared_all_together() -> None:
    first = [see("a", "p"), see("b", "q")]
    assert together(first, [see("c", "p"), see("d", "q")]).judgement.same_results == 2
    assert together(first, [see("c", "r"), see("d", "q")]).judgement.same_results == 1
    assert together(first, [("cat", "{}", "p"), ("cat", "{}", "q")]).judgement.same_results == 1


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        pytest.param([shell("sleep 3", ""), shell("sleep 3", "")], "waiting", id="as before"),
        pytest.param([read("a", "tick"), shell("sleep 3", ""), shell("sleep 3", "tick")], "same_call_news", id="anew"),
        pytest.param([read("a", "tick"), shell("sleep 3", ""), shell("sleep 4", "tick")], "waiting", id="another"),
        pytest.param([shell("frob", BUSY), shell("sleep 3", ""), shell("sleep 3", BUSY)], "waiting", id="fails"),
        pytest.param([shell("sleep 3", "done")], "news", id="brings news"),
        pytest.param([shell("frob", BUSY), read("a", "new"), shell("grob", BUSY)], "old_failure", id="known failure"),
        pytest.param([("look", "{}", "fine", "error")], "failure", id="a failure by its status alone"),
        pytest.param([read("a", "def f():\n    pass\nError: boom\n" + "x\n" * 9)], "news", id="read about errors"),
    ],
)
def test_waiting_and_failures_at_their_boundaries(steps: list[Step], kind: str) -> None:
    assert foreign(*steps).judgement.brought == kind


@pytest.mark.parametrize(("lines", "kind"), [(8, "news"), (9, "answered")])
def test_digits_make_a_line_new_in_short_results_only(lines: int, kind: str) -> None:
    first, second = ("\n".join(f"row {start + number}" for number in range(lines)) for start in (100, 200))
    assert foreign(read("a", first), read("b", second)).judgement.brought == kind


@pytest.mark.parametrize(("length", "kind"), [(300, "answered"), (301, "news")])
def test_words_of_short_arguments_do_not_count_in_the_result(length: int, kind: str) -> None:
    def search(word: str) -> Step:
        arguments = f'{{"query": "{word}", "in": "'
        return "search", arguments + "x" * (length - len(arguments) - 2) + '"}', f"a page about {word}"

    assert foreign(search("apples"), search("plums")).judgement.brought == kind


def test_words_of_the_arguments_count_in_a_long_result() -> None:
    def page(word: str) -> str:
        return "\n".join(f"{word} {letter}" for letter in "abcdefghi")

    assert foreign(read("apples", page("apples")), read("plums", page("plums"))).judgement.brought == "news"


def test_what_a_tool_declares_to_read_may_speak_of_errors_and_fails_by_its_status() -> None:
    tools = [ToolSpec(name="look", description="", parameters={}, reads=True)]

    def brought(*results: tuple[str, ResultStatus]) -> str:
        history = StepHistory.of(tools, foreign=False)
        for number, (content, status) in enumerate(results):
            history = history.with_step(1, [(ToolCall("c", "look", f'{{"n": {number}}}'), content, status)])
        return history.judgement.brought

    assert brought(("Error: no such file", "ok")) == "news"
    assert brought(("no such file", "error")) == "failure"
    assert brought(("page 1", "ok"), ("page 2", "ok")) == "news"
    assert brought(("found 1", "ok"), ("found 0", "ok")) == "news"


def test_words_of_the_arguments_count_in_the_result_of_a_tool_of_ones_own() -> None:
    def brought(declared: bool) -> str:
        tools = [ToolSpec(name="look", description="", parameters={}, reads=True)]
        history = StepHistory.of(tools, foreign=not declared)
        for word in ("apples", "plums"):
            history = history.with_step(1, [(ToolCall("c", "look", f'{{"q": "{word}"}}'), f"a page of {word}", "ok")])
        return history.judgement.brought

    assert (brought(declared=True), brought(declared=False)) == ("news", "answered")


def test_the_same_thing_done_to_many_others_is_not_the_same_result() -> None:
    assert foreign(edit("x"), edit("y"), edit("z")).judgement.same_results == 1
    history = StepHistory.of([ToolSpec(name="send", description="", parameters={})], foreign=False)
    for number in range(3):
        history = history.with_step(1, [(ToolCall("c", "send", f'{{"n": {number}}}'), "sent", "ok")])
    assert history.judgement.same_results == 3


def test_half_a_character_is_judged_as_any_other() -> None:
    half = "\ud800"
    assert foreign((f"look{half}", f'{{"a": "{half}"}}', f"a{half}")).judgement.brought == "news"


def points_after(*kinds: StepKind) -> int:
    points = 0
    for kind in kinds:
        points = add_points(points, kind)
    return points


def test_points_fall_with_news_and_end_with_a_change() -> None:
    assert points_after("news", "known", "known", "known") == 3 * POINTS["known"] == 6
    assert points_after("known", "known", "known", "news") == 4
    assert points_after(*["repeated_failure"] * 500, "change") == 0


def ended(brought: StepKind) -> StepFinished:
    return StepFinished(step=1, judged=StepJudgement(brought, 1))


def test_the_facts_take_what_a_step_brought_from_its_end() -> None:
    facts = Facts()
    for kind in ("known", "known_failure"):
        facts = fold(facts, ended(kind))
    assert (facts.brought, facts.stalled_before, facts.stalled, facts.same_results) == ("known_failure", 2, 6, 1)
    older = fold(facts, StepFinished(step=3))
    assert (older.brought, older.stalled_before, older.stalled, older.same_results) == ("none", 6, 6, 1)


def test_a_message_of_the_user_begins_anew() -> None:
    facts = fold(fold(Facts(), ended("known_failure")), ended("known"))
    assert (facts.stalled, facts.points) == (6, (4, 6))
    anew = fold(facts, MessageAdded(text="Try the other file.", origin="user"))
    assert (anew.stalled, anew.points) == (0, ())
    assert fold(facts, MessageAdded(text="Go on.", origin="nudge")).stalled == 6


def test_what_tools_declare_counts_before_their_names() -> None:
    def spec(name: str, **more: bool) -> ToolSpec:
        return ToolSpec(name=name, description="", parameters={"type": "object"}, **more)

    tools = [spec("get_rows"), spec("insert", reads=True), spec("wait_for", polls=True)]
    own = StepHistory.of(tools, foreign=False)
    assert own.with_step(1, [(ToolCall("c", "get_rows"), "3 rows", "ok")]).judgement.brought == "change"
    assert own.with_step(1, [(ToolCall("c", "insert"), "3 rows", "ok")]).judgement.brought == "news"
    assert own.with_step(1, [(ToolCall("c", "wait_for"), "still running", "ok")]).judgement.brought == "none"


def test_parallel_calls_are_judged_together() -> None:
    history = StepHistory.of([], foreign=True)
    calls = [
        (ToolCall("1", "read_file", '{"path": "a"}'), "Error: not found", "ok"),
        (ToolCall("2", "read_file", '{"path": "b"}'), "something", "ok"),
    ]
    assert history.with_step(2, calls).judgement.brought == "news"  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from(["bash", "read_file", "edit_file", "x"]), st.text(), st.text())))
def test_no_text_is_too_odd_and_the_memory_stays_bounded(steps: list[tuple[str, str, str]]) -> None:
    history = foreign(*steps)
    assert len(history.lines) == len(NO_LINES)
    assert len(history.calls) <= REMEMBERED_STEPS
    assert foreign(*steps) == history, "pure: the same steps give the same history"


def test_the_memory_is_bounded_in_a_long_run() -> None:
    history = foreign(*[read(f"{number}.py", f"line {number} of it") for number in range(500)])
    assert (len(history.lines), len(history.calls), len(history.results)) == (len(NO_LINES), 32, 32)


def lines(*texts: bytes) -> Marks:
    return marks_of(texts, exact=True)


def test_lines_are_new_once() -> None:
    memory, new = add_marks(NO_LINES, lines(b"a", b"b"))
    assert (len(new.lines), new.whole != 0) == (2, True)
    assert add_marks(memory, lines(b"b", b"a"))[1].lines == []
    assert add_marks(memory, lines(b"a", b"b")) == (memory, Marks([], [], 0))
    assert len(add_marks(memory, lines(b"a", b"c"))[1].lines) == 1


def test_another_number_makes_a_line_new_only_where_digits_count() -> None:
    memory, _ = add_marks(NO_LINES, lines(b"took 12 ms"))
    new = add_marks(memory, lines(b"took 9 ms"))[1]
    assert (len(new.lines), len(new.exact)) == (0, 1)
    assert add_marks(memory, marks_of([b"took 9 ms"], exact=False))[1] == Marks([], [], 0)


def test_few_new_lines_are_taken_for_old_ones() -> None:
    def named(kind: str, count: int) -> Marks:
        letters = ["".join(three) for three in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3)]
        return marks_of([f"{kind} {letters[place]}".encode() for place in range(count)], exact=False)

    memory, _ = add_marks(NO_LINES, named("line", 8_000))
    assert len(add_marks(memory, named("other", 2_000))[1].lines) >= 1_995


def test_what_of_a_text_counts() -> None:
    assert list(distinct_lines("  a\n\n b 12 \r\na")) == [b"a", b"b 12"]
    assert essential_text("out\n(Open file: n/a)\n(Current directory: /x)\nbash-$") == "out"
    assert essential_text("Your command ran successfully and did not produce any output.") == ""
    assert essential_text("<returncode>0</returncode>\n<output>\n</output>") == ""
    assert essential_text("costs 3 > 2 $") == "costs 3 > 2 $"


# ---- the guards


@tool
async def boom(n: int) -> str:
    """Fail."""
    raise RuntimeError("disk")


@tool
async def work(n: int) -> str:
    """Work."""
    return "ok"


@tool(reads=True)
async def look(n: int) -> str:
    """Look."""
    return "nothing here"


LONG = Limits(steps=200)


def numbered(name: str) -> Scripted:
    numbers = itertools.count()
    return Scripted(lambda request: [call(name, n=next(numbers))])


@pytest.mark.parametrize(("name", "steps"), [("boom", 9), ("look", 8), ("work", 100)])
async def test_steps_that_bring_nothing_end_a_run_as_stuck(name: str, steps: int) -> None:
    outcome = await Engine(numbered(name), tools=[boom, work, look], policy=Policy(limits=LONG)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "stuck", steps)


@pytest.mark.parametrize(
    ("kinds", "stops_at"),
    [
        (["known"] * 20, 8),  # no run is stopped in its first 8 steps
        (["news"] * 10 + ["known"] * 20, 15),  # 2 points a step: told at the third, and then stopped at 10 points
        (["news"] * 10 + ["repeated_failure"] * 20, 14),  # told at the second step, and two more must follow
        (["news"] * 10 + ["known", "known", "news", "known"] * 20, 19),  # news in between takes points away
        (["repeated_failure", "change"] * 20, None),
    ],
)
def test_a_run_is_told_first_and_stopped_if_what_follows_brings_nothing(
    kinds: list[StepKind], stops_at: int | None
) -> None:
    facts, policy = Facts(), Policy(limits=LONG, repetition=Repetition(nudge_at=(3,)))
    said, stopped = False, None
    for number, kind in enumerate(kinds, 1):
        facts = fold(fold(facts, StepStarted(step=number, round=1)), ended(kind))
        decision = decide(facts, policy)
        said = said or (isinstance(decision, GoOn) and bool(decision.say))
        if isinstance(decision, Stop):
            stopped = number
            break
    assert stopped == stops_at
    assert said or stops_at is None


async def test_the_model_is_told_once_before() -> None:
    model = numbered("look")
    policy = Policy(limits=LONG)
    async with Engine(model, tools=[look], policy=policy).start("go") as run:
        events = [event async for event in run]
    nudges = [event.text for event in events if isinstance(event, MessageAdded) and event.origin == "nudge"]
    assert nudges == [policy.prompts.stagnation]


async def test_pages_of_bare_numbers_go_on() -> None:
    pages = itertools.count()

    async def rows() -> str:
        """Rows."""
        return "\n".join(f"{(page * 7 + row) * 31 % 997},{row}" for page in [next(pages)] for row in range(20))

    model = Scripted(lambda request: [call("rows")])
    outcome = await Engine(model, tools=[tool(reads=True)(rows)]).run("go")
    assert outcome.stop_reason == "step_limit"


async def test_polling_that_brings_another_number_goes_on() -> None:
    ticks = itertools.count()

    async def poll() -> str:
        """Poll."""
        return f"tick {next(ticks)}"

    model = Scripted(lambda request: [call("poll")])
    outcome = await Engine(model, tools=[tool(reads=True)(poll)]).run("go")
    assert outcome.stop_reason == "step_limit"


@pytest.mark.parametrize(
    "policy",
    [
        Policy(limits=LONG, stagnation=Stagnation(nudge_at=None, stop_at=None, same_results=None)),
        Policy(limits=LONG, repetition=Repetition(nudge_at=(), stop_at=None)),
        settings_from_record(Policy, {"limits": {"steps": 200}}),
    ],
    ids=["stagnation off", "repetition off", "a record that names no setting"],
)
async def test_it_can_be_switched_off(policy: Policy) -> None:
    outcome = await Engine(numbered("look"), tools=[look], policy=policy).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("step_limit", 200)


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"nudge_at": 0}, "1 or more"), ({"stop_at": 1}, "2 or more"), ({"same_results": 1}, "2 or more")],
)
def test_settings_out_of_range(settings: dict[str, int], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        Stagnation(**settings)


def test_shipped_policies_have_it() -> None:
    assert {policy.stagnation for policy in POLICIES.values()} == {Stagnation()}


def test_a_run_of_an_older_version_goes_on_with_the_defaults_of_its_time() -> None:
    older = settings_from_record(Policy, {"guards": ["stuck", "step_limit"], "limits": {"steps": 30}})
    mine = Policy(guards=(*older.guards, "stagnation", "no_progress"), limits=Limits(steps=50))
    kept = for_recorded_run(mine, older)
    assert kept.stagnation == settings_from_record(Stagnation, {})
    assert (kept.guards, kept.limits.steps) == (older.guards, 50), "what the user changed is changed"
    chosen = replace(mine, repetition=Repetition(same_text=9))
    assert for_recorded_run(chosen, older).repetition.same_text == 9
    assert for_recorded_run(mine, mine) == mine
