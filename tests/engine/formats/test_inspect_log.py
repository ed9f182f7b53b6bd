"""Logs of Inspect, made by hand: samples in a JSON file and in an archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Image
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, SkippedSession, Unreadable, detect_format, find_sessions

from .heard import called, hear

USAGE = {"input_tokens": 7, "output_tokens": 4, "input_tokens_cache_read": 3, "total_tokens": 14, "reasoning_tokens": 2}


def says(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "role": "assistant", "content": content, "source": "generate", "model": "m-1", **more}


def user(content: Any, source: str | None = "input") -> dict[str, Any]:
    return {"role": "user", "content": content, "source": source}


def request(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    output = {"model": "m-1", "choices": [{"message": message, "stop_reason": "stop"}], "usage": USAGE}
    tools = [{"name": "bash", "description": "", "parameters": {"type": "object"}}]
    return {"event": "model", "tools": tools, "output": output, "completed": "2026-01-01T10:00:01+00:00", **more}


def sample(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "t1", "epoch": 1, "input": "Go", "target": "", "messages": list(messages), **more}


def log(*samples: dict[str, Any], **more: Any) -> dict[str, Any]:
    evaluation = {"task": "chores", "model": "vendor/m", "config": {}}
    return {"version": 2, "status": "success", "eval": evaluation, "samples": list(samples), **more}


CALLS = [
    {"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}},
    {"id": "c2", "function": "bash", "arguments": {}},
]


def test_a_sample_is_a_session_with_what_its_requests_say_of_each_response() -> None:
    first = says("a1", [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Look."}], tool_calls=CALLS)
    grader = says("g", "GRADE: C")
    data = log(
        sample(
            {"role": "system", "content": "Be brief."},
            user("Go"),
            first,
            {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": "attachment://x"},
            {"role": "tool", "tool_call_id": "c2", "content": "", "error": {"type": "timeout", "message": "late"}},
            user("Go on.", None),
            says("a2", "Done."),
            events=[{"event": "state"}, request(first), request(grader)],
            attachments={"x": "A" * 200},
            scores={"match": {"value": "C"}, "style": {"value": 0.5}},
            metadata={"odd": 1},
        )
    )
    assert detect_format(data) == "inspect"
    heard = hear("inspect", data)
    assert (heard.session.id, heard.session.model, heard.session.system) == ("t1.epoch-1", "vendor/m", "Be brief.")
    step, last = heard.of(ev.ResponseFinished)
    assert (step.message.text, step.message.reasoning) == ("Look.", (Reasoning("Hm."),))
    assert step.message.calls == (called("c1", "bash", '{"cmd":"ls"}'), called("c2", "bash"))
    assert step.usage == Usage(input_tokens=10, output_tokens=4, cached_tokens=3, reasoning_tokens=2)
    assert [(one.content, one.status) for one in heard.results] == [("A" * 200, "ok"), ("late", "error")]
    assert [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)] == ["user", "nudge"]
    assert [spec.name for spec in heard.session.tools] == ["bash"]
    assert heard.outcomes[0].verdict == "passed"
    assert heard.outcomes[0].evaluation == {"name": "inspect:match", "scores": {"match": "C", "style": 0.5}}
    lost = heard.session.losses
    assert (lost["other request"], lost["field: sample.metadata"], lost["field: eval.config"]) == (1, 1, 0)
    assert last.usage.estimated


def test_responses_without_ids_are_found_by_their_words_and_in_the_samples_output() -> None:
    said = {"role": "assistant", "content": "attachment://y"}
    by_event = sample(user("Go"), said, events=[request(said)], attachments={"y": "Long."})
    assert hear("inspect", log(by_event)).of(ev.ResponseFinished)[0].usage.output_tokens == 4
    plain = {"role": "assistant", "content": "Done."}
    by_output = sample(user("Go"), plain, output=request(plain)["output"])
    assert hear("inspect", log(by_output)).of(ev.ResponseFinished)[0].usage.input_tokens == 10
    whole = sample(user("Go"), plain, model_usage={"m": USAGE})
    assert hear("inspect", log(whole)).outcomes[0].usage.input_tokens == 10


@pytest.mark.parametrize(
    ("end", "stop", "status"),
    [
        ({"error": {"message": "it broke", "traceback": ""}}, "custom:error", "failed"),
        ({"limit": {"type": "message", "limit": 5}}, "step_limit", "exhausted"),
        ({"limit": {"type": "working", "limit": 5}}, "time_limit", "exhausted"),
        ({"limit": {"type": "custom", "limit": 5}}, "custom:limit", "exhausted"),
        ({"limit": {"type": "operator", "limit": 1}}, "cancelled", "cancelled"),
    ],
)
def test_an_error_or_a_limit_is_the_end(end: dict[str, Any], stop: str, status: str) -> None:
    heard = hear("inspect", log(sample(user("Go"), says("a", "Hm."), **end)))
    assert (heard.stops, heard.outcomes[0].status) == ([stop], status)


@pytest.mark.parametrize(("value", "verdict"), [("I", "failed"), (True, "passed"), (0.9, "failed"), ("P", "not_run")])
def test_scores_are_verdicts_where_they_say_right_or_wrong(value: Any, verdict: str) -> None:
    heard = hear("inspect", log(sample(user("Go"), says("a", "Hm."), scores={"match": {"value": value}})))
    assert heard.outcomes[0].verdict == verdict
    assert heard.session.losses["field: sample.scores"] == (verdict == "not_run")


def test_pictures_hidden_thoughts_and_the_providers_own_tools() -> None:
    picture = {"type": "image", "image": "data:image/png;base64,QUJD"}
    parts = [
        {"type": "reasoning", "reasoning": "xyz", "redacted": True},
        {"type": "tool_use", "tool_type": "web_search", "id": "w", "name": "web_search", "arguments": "", "result": ""},
        {"type": "text", "text": "Seen.", "citations": [1]},
    ]
    heard = hear("inspect", log(sample(user([picture]), says("a", parts))))
    assert heard.of(ev.RunStarted)[0].images == (Image(data=b"ABC", media_type="image/png"),)
    assert heard.of(ev.ResponseFinished)[0].message.reasoning == (Reasoning("", "xyz", True),)
    assert heard.session.losses["provider tool"] == heard.session.losses["part field: text.citations"] == 1


def test_samples_without_a_response_and_other_versions_are_named() -> None:
    found = FORMATS["inspect"].sessions(log(sample(user("Go")), sample(user("Go"), says("a", "Done."))))
    assert next(found).id == "t1.epoch-1"
    with pytest.raises(Unreadable, match="1 samples"):
        next(found)
    with pytest.raises(Unreadable, match="version 9"):
        list(FORMATS["inspect"].sessions(log(sample(user("Go")), version=9)))
    with pytest.raises(Unreadable, match="without samples"):
        list(FORMATS["inspect"].sessions(log()))


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_an_archive_has_a_file_for_each_sample(tmp_path: Path, header: str) -> None:
    path = tmp_path / "2026_chores.eval"
    whole = log()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(header, msgspec.json.encode({name: whole[name] for name in ("version", "eval")}))
        archive.writestr("summaries.json", "[]")
        for name in ("t1", "t2"):
            one = sample(user("Go"), says("a", "Done.")) | {"id": name}
            archive.writestr(f"samples/{name}_epoch_1.json", msgspec.json.encode(one))
        archive.writestr("samples/t3_epoch_1.json", b"{broken")
    found = list(find_sessions(path))
    sessions = [one for one in found if isinstance(one, FoundSession)]
    assert [one.id for one in sessions] == ["2026_chores.t1.epoch-1", "2026_chores.t2.epoch-1"]
    assert (sessions[0].format, sessions[0].session.model, sessions[0].place) == (
        "inspect",
        "vendor/m",
        "samples/t1_epoch_1.json",
    )
    (broken,) = (one for one in found if isinstance(one, SkippedSession))
    assert broken.place == "samples/t3_epoch_1.json"


def test_an_archive_without_a_header_is_none_of_inspect(tmp_path: Path) -> None:
    path = tmp_path / "mine.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/a.json", msgspec.json.encode([user("Go"), {"role": "assistant", "content": "Done."}]))
    (found,) = find_sessions(path)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("openai", "a", "samples/a.json")
    path.write_bytes(path.read_bytes()[:60])
    (torn,) = find_sessions(path)
    assert isinstance(torn, SkippedSession)
    assert torn.why.startswith("a damaged ZIP archive")


@pytest.mark.parametrize(
    ("named", "id"),
    [({"id": 3, "epoch": 2}, "log.3.epoch-2"), ({"id": "t1"}, "log.t1"), ({"epoch": 2}, "log.epoch-2"), ({}, "log")],
)
def test_a_sample_is_named_by_what_it_has(tmp_path: Path, named: dict[str, Any], id: str) -> None:
    one = {name: value for name, value in sample(user("Go"), says("a", "Done.")).items() if name not in ("id", "epoch")}
    path = tmp_path / "log.json"
    path.write_bytes(msgspec.json.encode(log(one | named)))
    (found,) = find_sessions(path)
    assert isinstance(found, FoundSession)
    assert found.id == id


def test_a_sample_alone_is_read_too() -> None:
    assert detect_format(sample(user("Go"), says("a", "Done."))) == "inspect"
    assert hear("inspect", sample(user("Go"), says("a", "Done."))).stops == ["text_final"]
