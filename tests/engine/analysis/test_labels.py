"""Labels of other programs: the files in which they stand, and the sessions that they find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop.analysis.label_files import Label, read_label_file
from endstop.analysis.labels import Labels, RunNames, unmatched_warning
from endstop.decision import Policy, WrongUse
from endstop.decision.events import Origin, RunStarted, SessionSource
from hypothesis import given
from hypothesis import strategies as st


def file_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "labels"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(tmp_path: Path, text: str) -> dict[str, bool]:
    """The labels of a file by model and id."""
    return {f"{one.model}:{one.id}".lstrip(":"): one.good for one in read_label_file(file_of(tmp_path, text))}


# ---- forms of files

SWE_BENCH_REPORT = {
    "total_instances": 6, "submitted_instances": 5, "resolved_instances": 1, "schema_version": 2,
    "submitted_ids": ["a__a-1", "a__a-2", "a__a-3", "a__a-4"], "completed_ids": ["a__a-1", "a__a-2"],
    "incomplete_ids": ["a__a-5"], "resolved_ids": ["a__a-1"], "unresolved_ids": ["a__a-2"],
    "empty_patch_ids": ["a__a-3"], "error_ids": ["a__a-4"],
}  # fmt: skip
"""As SWE-bench's harness writes it."""


def test_a_report_of_swe_bench_names_the_resolved_and_what_failed(tmp_path: Path) -> None:
    labels = read(tmp_path, json.dumps(SWE_BENCH_REPORT, indent=1))
    assert labels == {"a__a-1": True, "a__a-2": False, "a__a-3": False}, "an error of the evaluation is no verdict"


def test_the_older_results_of_swe_bench_are_read_too(tmp_path: Path) -> None:
    older = {
        "no_generation": ["d__d-3"],
        "no_logs": ["d__d-4"],
        "applied": ["d__d-1", "d__d-2"],
        "resolved": ["d__d-1"],
    }
    assert read(tmp_path, json.dumps(older)) == {"d__d-1": True, "d__d-2": False, "d__d-3": False}


def test_reports_of_instances_are_labels_by_their_id(tmp_path: Path) -> None:
    one = {"astropy__astropy-1": {"patch_exists": True, "resolved": True, "tests_status": {"FAIL_TO_PASS": {}}}}
    assert read(tmp_path, json.dumps(one)) == {"astropy__astropy-1": True}


@pytest.mark.parametrize(
    "text",
    [
        '{"x/a": {"model": "m", "resolved": true}, "x/b": {"model": "m", "resolved": false}}',
        '[{"id": "x/a", "model": "m", "reward": 1.0}, {"id": "x/b", "model": "m", "reward": 0.99}]',
        "instance_id,model,resolved\nx/a,m,true\nx/b,m,False\n",
        "\ufeffSession ID;Model Name;Verdict\r\nx/a;m;passed\r\n\r\nx/b;m;FAILED\r\n",
        "note\tid\tmodel\tcorrect\n1\tx/a\tm\t1\n2\tx/b\tm\t0\n3\tx/c\tm\t\n4\tx/d\tm\tunknown\n",
        '\n{"run_id": "x/a", "model": "m", "good": "yes"}\n\n{"session": "x/b", "model": "m", "label": "bad"}\n',
    ],
)
def test_every_form_says_the_same(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == {"m:x/a": True, "m:x/b": False}


@pytest.mark.parametrize("text", ['{"a": true, "b": false}', '{"a": 1, "b": 0.5}', '{"a": "resolved", "b": "wrong"}'])
def test_an_object_of_ids_holds_any_verdict(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == {"a": True, "b": False}


def test_results_of_tau_bench_are_named_as_the_import_names_them(tmp_path: Path) -> None:
    results = [{"task_id": 0, "trial": 1, "reward": 1.0, "traj": []}, {"task_id": 3, "trial": 0, "reward": 0.0}]
    assert read(tmp_path, json.dumps(results)) == {"task-0.trial-1": True, "task-3.trial-0": False}


def test_a_label_knows_where_it_stands_and_what_it_said(tmp_path: Path) -> None:
    path = file_of(tmp_path, "id,reward\na,0.5\n")
    assert read_label_file(path) == [Label(id="a", good=False, value="0.5", where=f"{path}, line 2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,resolved\na,perhaps\n", r"labels, line 2: the verdict is 'perhaps': write true or false"),
        ("id,reward\na,4.5\n", r"line 2: the verdict is '4.5': .* a number up to 1, which alone is good"),
        ("id,reward\na,inf\n", r"line 2: the verdict is 'inf'"),
        ("id,resolved\n,true\n", r"line 2: no id: write one under session_id"),
        ("id,resolved\na,true,x\n", r"line 2: 3 cells, but the header has 2"),
        ("id,resolved\na,true\nb,true\na,false\n", r"line 4: a is bad here, but good in .*line 2: keep one"),
        ("name,stars\na,5\n", r"not in a known form of labels. For CSV, write a header"),
        ("Some notes on the runs.\n", r"not in a known form of labels"),
        ('{"a": [1, 2]}', r"not in a known form of labels: 'a' holds list"),
        ('{"a": {"score": 1}}', r"'a': its object has no verdict"),
        ('{"a": {"resolved": {"x": 1}}}', r"'a': the verdict is \{'x': 1\}"),
        ('{"resolved": ["a"], "unresolved": ["a"]}', r"a is in `resolved` and in `unresolved`"),
        ('{"resolved_ids": [17]}', r"resolved_ids: 17 is not an id"),
        ('[{"id": "a", "resolved": true}, 3]', r"element 2 is not an object"),
        ('[{"id": "a"}]', r"element 1: no verdict: write one under resolved"),
        ('[{"id": "a", "resolved": tr', r"is not valid JSON"),
        ('{"id": "a", "resolved": true}\n{"id": "b", \n', r"line 2 is not valid JSON"),
        ("id,resolved\na,\n", r"holds no labels: write one per line"),
        ("{}", r"holds no labels"),
        ("", r"holds no labels"),
        (b"id,resolved\na,\xff\n", r"is not UTF-8 text \(at byte 14\)"),
    ],
)
def test_a_file_that_is_wrong_is_told_where_and_what_to_write(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        read_label_file(file_of(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"cannot read the labels .*nowhere: No such file"):
        Labels.read(tmp_path / "nowhere")


# ---- joining


def labels_of(*labels: tuple[str, bool] | tuple[str, bool, str]) -> Labels:
    made = [Label(id=id, good=good, model=next(iter(model), ""), where=id) for id, good, *model in labels]
    return Labels(made, "labels.csv")


def run_of(session: str = "s", **fields: Any) -> RunNames:
    return RunNames(**{"run_id": f"run_{session}", "session_id": session, **fields})


def imported(file: str, id: str = "", place: str = "", **fields: Any) -> RunNames:
    return run_of("x-17", source=SessionSource(file=file, place=place, id=id or Path(file).stem), **fields)


TRAJECTORY = imported("java/gpt-4o/dubbo-7.traj", model="")


@pytest.mark.parametrize(
    ("id", "run", "record"),
    [
        ("run_s", run_of(), "r.jsonl"),
        ("s", run_of(), "r.jsonl"),
        ("r", run_of(), "r.jsonl"),
        ("r.jsonl.zst", run_of(), "out/r.jsonl.zst"),
        ("./out/r.jsonl.zst", run_of(), "out/r.jsonl.zst"),
        ("out/r", run_of(), "out/r.jsonl.zst"),
        ("out\\r", run_of(), "out/r.jsonl"),
        ("out/s", run_of(), "out/r.jsonl"),
        ("gpt-4o/s", run_of(model="gpt-4o"), "r.jsonl"),
        ("gpt-4o/s", run_of(model="azure/gpt-4o"), "r.jsonl"),
        ("azure/gpt-4o/s", run_of(model="azure/gpt-4o"), "r.jsonl"),
        ("dubbo-7", TRAJECTORY, "r.jsonl"),
        ("dubbo-7.traj", TRAJECTORY, "r.jsonl"),
        ("gpt-4o/dubbo-7", TRAJECTORY, "r.jsonl"),
        ("java/gpt-4o/dubbo-7.traj", TRAJECTORY, "r.jsonl"),
        ("task_1", imported("task_1/task_1.traj.json"), "r.jsonl"),
        ("apache/dubbo:pr-7", imported("gpt-4o/apache__dubbo-7.traj"), "r.jsonl"),
        ("gpt-4o/apache/dubbo:pr-7", imported("gpt-4o/apache__dubbo-7.traj"), "r.jsonl"),
        ("task-0.trial-1", imported("a/airline.jsonl", "airline.task-0.trial-1", "line 3"), "r.jsonl"),
        ("airline.task-0.trial-1", imported("a/airline.jsonl", "airline.task-0.trial-1", "line 3"), "r.jsonl"),
        ("a/task-0.trial-1", imported("a/airline.jsonl", "airline.task-0.trial-1", "line 3"), "r.jsonl"),
    ],
)
def test_an_id_finds_its_session_with_and_without_folders_and_suffix(id: str, run: RunNames, record: str) -> None:
    assert labels_of((id, True)).verdict_for(run, record) is True
    assert labels_of((id, False)).verdict_for(run, Path(record)) is False


@pytest.mark.parametrize(
    ("id", "run"),
    [
        ("gpt-4/dubbo-7", TRAJECTORY),
        ("apache/dubbo:pr-71", imported("gpt-4o/apache__dubbo-7.traj")),
        ("dubbo", TRAJECTORY),
        ("gpt-4o", TRAJECTORY),
        ("ubbo-7", TRAJECTORY),
        ("airline", imported("a/airline.jsonl", "airline.task-0.trial-1", "line 3")),
        ("trial-1", imported("a/airline.jsonl", "airline.task-0.trial-1", "line 3")),
    ],
)
def test_an_id_finds_no_other_session(id: str, run: RunNames) -> None:
    assert labels_of((id, True)).verdict_for(run, "r.jsonl") is None


def test_ids_that_repeat_over_models_are_told_apart_by_model_or_folder() -> None:
    labels = labels_of(("dubbo-7", True, "gpt-4o"), ("dubbo-7", False, "other"), ("llama/dubbo-7", True))
    assert labels.verdict_for(TRAJECTORY, "a.jsonl") is True
    assert labels.verdict_for(imported("dubbo-7.traj", model="x/other"), "b.jsonl") is False
    assert labels.verdict_for(imported("dubbo-7.traj", model="llama"), "c.jsonl") is True
    assert labels.verdict_for(imported("fourth/dubbo-7.traj"), "d.jsonl") is None
    assert (labels.statistics.used, labels.statistics.sessions, labels.statistics.unlabelled) == (3, 4, 1)


def test_a_label_of_two_sessions_is_an_error_that_names_both() -> None:
    labels = labels_of(("dubbo-7", True))
    labels.verdict_for(TRAJECTORY, "a.jsonl")
    assert labels.verdict_for(TRAJECTORY, "a.jsonl") is True, "the same session may be asked for again"
    with pytest.raises(WrongUse, match=r"dubbo-7 is good in dubbo-7 matches two sessions: a.jsonl and b.jsonl"):
        labels.verdict_for(imported("java/other/dubbo-7.traj"), "b.jsonl")


def test_two_labels_of_a_session_agree_or_are_an_error_that_names_both() -> None:
    assert labels_of(("dubbo-7", True), ("gpt-4o/dubbo-7", True)).verdict_for(TRAJECTORY, "a.jsonl") is True
    with pytest.raises(WrongUse, match=r"a.jsonl has two labels that contradict each other: .* is good .* is bad"):
        labels_of(("dubbo-7.traj", True), ("x-17", False)).verdict_for(TRAJECTORY, "a.jsonl")


@pytest.mark.parametrize(("verdict", "good"), [("passed", False), ("failed", True)])
def test_a_label_never_overrides_the_verdict_of_a_record(verdict: Any, good: bool) -> None:
    run = run_of(verdict=verdict)
    with pytest.raises(WrongUse, match=f"a.jsonl {verdict} its evaluation, but s is"):
        labels_of(("s", good)).verdict_for(run, "a.jsonl")
    assert labels_of(("s", not good)).verdict_for(run, "a.jsonl") is not good


def test_a_sessions_label_is_about_its_last_run_and_a_runs_about_that_run() -> None:
    runs = [run_of(run_id=f"run_{number}") for number in range(3)]
    assert labels_of(("s", True)).verdicts_of(runs, "a.jsonl") == (None, None, True)
    assert labels_of(("s", True), ("run_0", False)).verdicts_of(runs, "a.jsonl") == (False, None, True)
    assert labels_of(("t", True)).verdicts_of((), "a.jsonl") == ()


def test_a_fork_of_an_imported_session_is_not_that_session() -> None:
    started = RunStarted(run_id="r", session_id="x", policy=Policy(), source=SessionSource(file="a/task_1.json"))
    assert labels_of(("task_1", True)).verdict_for(started, "a.jsonl") is True
    fork = RunStarted(
        run_id="r2", session_id="y", policy=Policy(), source=started.source,
        origin=Origin(session_id="x", run_id="r", at=3),
    )  # fmt: skip
    assert labels_of(("task_1", True)).verdict_for(fork, "b.jsonl") is None


def test_labels_that_find_nothing_are_listed_and_none_found_is_an_error() -> None:
    labels = labels_of(("s", True), *((f"gone_{number}", False) for number in range(7)))
    labels.verdict_for(run_of("other"), "other.jsonl")
    with pytest.raises(WrongUse, match=r"labels.csv: none of its 8 labels matches a session. Labels are for s, gone_0"):
        labels.check_used()
    labels.verdict_for(run_of(), "r.jsonl")
    labels.check_used()
    assert unmatched_warning(labels.statistics) == (
        "labels.csv: 7 of 8 labels match no session: gone_0, gone_1, gone_2, gone_3, gone_4, ..."
    )
    alone = labels_of(("s", True))
    alone.verdict_for(run_of(), "r.jsonl")
    assert unmatched_warning(alone.statistics) is None


NAMES = st.sampled_from(["a", "b", "a-2", "m/a", "n/a", "m/b", "f/m/a", "a.traj", "m/a.traj", "r0", "r1", "run_s"])
MODELS = st.sampled_from(["", "m", "n"])
LABELS = st.lists(st.tuples(NAMES, st.booleans(), MODELS), unique_by=lambda one: (one[0], one[2]), max_size=8)
SESSIONS = st.lists(
    st.builds(
        lambda session, file, model, verdict: run_of(
            session, source=file and SessionSource(file=file, id=Path(file).stem), model=model, verdict=verdict
        ),
        st.sampled_from(["a", "b", "a-2"]),
        st.sampled_from([None, "f/m/a.traj", "f/n/a.traj", "m/b.traj", "a.traj"]),
        MODELS,
        st.sampled_from(["not_run", "not_run", "passed", "failed"]),
    ),
    max_size=6,
)


@given(LABELS, SESSIONS)
def test_every_label_is_of_one_session_at_most_and_no_session_has_two_verdicts(
    labels: list[tuple[str, bool, str]], sessions: list[RunNames]
) -> None:
    join = labels_of(*labels)
    owners: dict[tuple[str, bool, str], str] = {}
    for number, session in enumerate(sessions):
        record = f"out/r{number}.jsonl"
        mine = [label for label in labels if _found_alone(label, session, record)]
        verdicts = {good for _, good, _ in mine}
        recorded = {session.verdict == "passed"} if session.verdict != "not_run" and mine else set()
        if len(verdicts | recorded) > 1 or any(label in owners for label in mine):
            with pytest.raises(WrongUse):
                join.verdict_for(session, record)
            return
        verdict = join.verdict_for(session, record)
        assert ({verdict} if verdict is not None else set()) == verdicts
        owners.update(dict.fromkeys(mine, record))
    told = join.statistics
    assert (told.given, told.used, told.sessions) == (len(labels), len(owners), len(sessions))
    assert told.unlabelled == len(sessions) - len(set(owners.values()))
    assert list(told.unmatched) == [label[0] for label in labels if label not in owners]


def _found_alone(label: tuple[str, bool, str], session: RunNames, record: str) -> bool:
    """Whether the label finds this session where there is no other label and no verdict."""
    unjudged = RunNames(
        run_id=session.run_id, session_id=session.session_id, model=session.model, source=session.source
    )
    return labels_of(label).verdict_for(unjudged, record) is not None
