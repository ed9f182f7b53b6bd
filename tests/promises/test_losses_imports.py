"""D4: every message, text, call, result and thought of a session is in its record, or is counted as lost."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import events as ev
from endstop.decision.messages import AssistantMessage, ToolResult
from endstop.formats import FoundSession, ImportedMessage, SkippedSession, events_of, find_sessions

from ..console import endstop
from ..engine.formats.heard import answer, call, hear, says, user
from ..shared_data import SESSIONS, SHARED

MADE = SHARED / "data" / "foreign_made"
ABSENT = pytest.mark.skipif(not MADE.is_dir(), reason="the recorded material is not here")

Tally = Counter[str]
"""`characters` that are no white space, `calls`, `results`, `thoughts`; messages as `users` and `responses`."""


# ---- an independent reading: plain JSON, and nothing of the importers


def letters(text: Any) -> int:
    return len("".join(text.split())) if isinstance(text, str) else 0


def read_content(content: Any) -> Tally:
    """What a message's content holds, as OpenAI's, Anthropic's and the responses API have it."""
    tally: Tally = Counter()
    if isinstance(content, str):
        tally["characters"] = letters(content)
    for part in content if isinstance(content, list) else [content] if isinstance(content, dict) else []:
        if isinstance(part, str):
            tally["characters"] += letters(part)
            continue
        match part.get("type"):
            case "tool_use":
                tally["calls"] += 1
            case "tool_result":
                tally["results"] += 1
                tally += read_content(part.get("content"))
            case "thinking" | "reasoning":
                tally["thoughts"] += 1
            case _:
                tally["characters"] += letters(part.get("text"))
    return tally


def read_message(message: dict[str, Any]) -> Tally:
    """A chat message, a line around one, or an item of a response."""
    kind = message.get("type")
    inside = message.get("message")
    if isinstance(inside, dict):
        return read_message({**inside, "role": inside.get("role") or message.get("role")})
    if kind == "function_call":
        return Counter(calls=1)
    if kind == "function_call_output":
        return Counter(results=1) + read_content(message.get("output"))
    if kind == "reasoning":
        return Counter(thoughts=1)
    tally = read_content(message.get("content"))
    tally["calls"] += len(message.get("tool_calls") or ())
    tally["results"] += message.get("role") == "tool"
    tally["thoughts"] += bool(message.get("reasoning_content"))
    return tally


def read_messages(messages: Iterable[Any]) -> Tally:
    total: Tally = Counter()
    for message in messages:
        total += read_message(message)
    return total


# ---- what became of it


def told(found: FoundSession) -> Tally:
    """The same in a record. What the import itself says of calls without a result is no result."""
    foreign = found.session
    events = events_of(foreign, "s", found.format)
    given = {said.message.call_id for said in foreign.messages if isinstance(said.message, ToolResult)}
    tally: Tally = Counter(characters=letters(foreign.system))
    for event in events:
        match event:
            case ev.RunStarted(prompt=prompt) if prompt is not None:
                tally += Counter(characters=letters(prompt), users=1)
            case ev.MessageAdded(text=text):
                tally += Counter(characters=letters(text), users=1)
            case ev.ContextCompacted(put_first=messages):
                tally += Counter(characters=sum(letters(m.text) for m in messages), users=len(messages))
            case ev.AttemptFailed(message=text):
                tally += Counter(characters=letters(text), responses=1)
            case ev.QuestionAnswered(text=text):
                tally += Counter(characters=letters(text), results=1)
            case ev.ResponseFinished(message=message):
                tally += Counter(
                    characters=letters(message.text),
                    responses=1,
                    calls=len(message.calls),
                    thoughts=len(message.reasoning),
                )
            case ev.ToolCallResult(call_id=id, content=content) if id in given:
                tally += Counter(characters=letters(content), results=1)
            case _:
                pass
    lost = foreign.losses
    tally["users"] -= lost["system in the middle"]
    tally["characters"] += lost["characters"]
    tally["calls"] += lost["call"]
    tally["thoughts"] += lost["thought"]
    tally["results"] += lost["answer"] + lost["result without a call"] + lost["second result"]
    tally["characters"] -= len("[image]") * (lost["image"] + sum(len(r.images) for r in results_in(foreign.messages)))
    for kind, times in lost.items():  # a word in brackets stands in the place of a part that is not known
        group, _, name = kind.partition(": ")
        tally["characters"] -= letters(f"[{name}]") * times if group == "content part" else 0
    return +tally


def results_in(said: Iterable[ImportedMessage]) -> Iterator[ToolResult]:
    return (one.message for one in said if isinstance(one.message, ToolResult))


def only(path: Path, format: str) -> list[FoundSession]:
    """All sessions of a file; that one is skipped is no way to lose nothing."""
    sessions = list(find_sessions(path, format))
    assert not [one for one in sessions if isinstance(one, SkippedSession)], sessions
    return [one for one in sessions if isinstance(one, FoundSession)]


# ---- chat messages


def users_in(messages: Iterable[Any]) -> int:
    """Messages of the user: those that only hold results are none."""
    count = 0
    for message in messages:
        content = message.get("content")
        results = isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)
        texts = isinstance(content, str) or any(letters(part.get("text")) for part in content or ())
        count += message.get("role") == "user" and (texts or not results)
    return count


def check_chat(path: Path, messages: list[dict[str, Any]], found: FoundSession) -> None:
    stands = read_messages(messages)
    stands["users"] = users_in(messages)
    stands["responses"] = sum(message.get("role") == "assistant" for message in messages)
    assert told(found) == +stands, path


def check_lines(path: Path, found: FoundSession) -> None:
    """A transcript of Claude Code's: each line has a block of a response, whose id they share."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    beside = [
        read_content(line.get("content"))
        for line in lines
        if "message" not in line and line.get("subtype") != "compact_boundary"  # which is an event in the record
    ]  # what was queued, and notes
    lines = [line for line in lines if "message" in line]
    kept = [line for line in lines if not line.get("isSidechain")]
    messages = [line["message"] for line in kept]
    own = [m for m in messages if m.get("model") == "<synthetic>" and "API Error" not in json.dumps(m)]
    failed = {line["uuid"] for line in kept if line.get("isApiErrorMessage")}
    own = [m for m in own if not any(line["message"] is m and line["uuid"] in failed for line in kept)]
    stands = sum(beside, read_messages(line["message"] for line in lines))
    stands["users"] = users_in(messages)
    ids = {m["id"] for m in messages if m["role"] == "assistant" and not any(m is one for one in own)}
    stands["responses"] = len(ids)
    tally, lost = told(found), found.session.losses
    left = lost["rewound"] + lost["last words"]  # whose messages these were is not counted
    if left:
        spoken = ("users", "responses")
        assert sum(tally.pop(name) for name in spoken) + left == sum(stands.pop(name) for name in spoken), path
    assert tally == +stands, path


def check_file(path: Path) -> None:
    """Whatever stands in a file of the recorded material."""
    if path.suffix == ".jsonl" and "cc_" in str(path):
        (found,) = only(path, "claude-code")
        check_lines(path, found)
        return
    data = json.loads(path.read_text(encoding="utf-8"))
    (found,) = only(path, "openai")
    check_chat(path, data["messages"] if isinstance(data, dict) else data, found)


# ---- the other formats


def check_tau(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    found = only(path, "tau-bench")
    assert len(found) == len(lines)
    for data, one in zip(lines, found, strict=True):
        stands = read_messages(data["traj"])
        stands["users"] = users_in(data["traj"]) - one.session.losses["last words"]
        stands["responses"] = sum(message["role"] == "assistant" for message in data["traj"])
        assert told(one) == +stands, data["task_id"]


def check_cline(path: Path) -> None:
    """Each reply is a stream of server-sent events, as text or in hexadecimal digits, or a whole JSON body."""
    stands: Tally = Counter()
    for entry in json.loads(path.read_text(encoding="utf-8")):
        if not entry["path"].split("?")[0].endswith("/chat/completions"):
            continue
        response = entry["response"]
        if isinstance(response, list) and all(isinstance(part, str) for part in response):
            packed = bytes.fromhex("".join(response))
            response = (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode()
        if not isinstance(response, str):
            response = json.dumps(response)
        bodies = [line[5:] for line in response.splitlines() if line.startswith("data:") and "[DONE]" not in line]
        calls, thought = set(), ""
        for body in bodies or [response]:
            for choice in json.loads(body).get("choices") or ():
                delta = choice.get("delta") or choice.get("message") or {}
                stands["characters"] += letters(delta.get("content"))
                thought += delta.get("reasoning_content") or delta.get("reasoning") or ""
                calls |= {call["index"] for call in delta.get("tool_calls") or ()}
        stands += Counter(calls=len(calls), thoughts=1 if thought else 0, responses=1)
    (found,) = only(path, "cline")
    assert told(found) == +stands, path


MARKS = re.compile(r"```(?:bash)?|DISCUSSION")


def check_swe(path: Path) -> None:
    """A history whose actions are calls, or texts in marks; what is shown beside the session is the system prompt's."""
    data = json.loads(path.read_text(encoding="utf-8"))
    (found,) = only(path, "swe-agent")
    entries = [entry for entry in data["history"] if not entry.get("is_demo")]
    spoken = [entry for entry in entries if entry["role"] == "assistant"]
    lost, tally = found.session.losses, told(found)
    responses = [e.message for e in events_of(found.session, "s", "swe-agent") if isinstance(e, ev.ResponseFinished)]
    assert len(responses) + lost["own words"] == len(spoken), path
    assert tally["calls"] == sum(len(entry.get("tool_calls") or ()) or bool(entry.get("action")) for entry in spoken)
    said = 0
    for entry, message in zip(spoken, responses, strict=False):
        content, text = letters_of(entry["content"]), letters(message.text)
        said += text
        if text != content:
            (call,) = message.calls
            missing = content - text - letters(json.loads(call.arguments)["command"])
            assert 0 <= missing <= sum(map(letters, MARKS.findall(entry["content"]))), (path, entry["content"])
    heard = sum(letters_of(entry["content"]) for entry in entries if entry["role"] != "assistant")
    demonstrations = [entry for entry in data["history"] if entry.get("is_demo")]
    shown = sum(letters_of(entry["content"]) for entry in demonstrations)
    given = [step["observation"] for step in (data.get("trajectory") or ())[-1:] if entries[-1] is spoken[-1]]
    assert tally["characters"] - said == heard + shown + sum(map(letters, given)), path


def letters_of(content: Any) -> int:
    return read_content(content)["characters"]


# ---- all that was recorded


def samples(archive: str, every: int, tmp_path: Path, names: Callable[[str], bool]) -> list[Path]:
    """Each so-manieth file of an archive of the recorded material."""
    whole = io.BytesIO(lzma.decompress((SHARED / "data" / archive).read_bytes()))  # once: tarfile goes back, for each
    with tarfile.open(fileobj=whole) as tar:
        members = sorted((m for m in tar.getmembers() if m.isfile() and names(m.name)), key=lambda m: m.name)
        chosen = members[::every]
        tar.extractall(tmp_path, members=chosen, filter="data")
    return [tmp_path / member.name for member in chosen]


@ABSENT
@pytest.mark.parametrize("path", sorted(MADE.glob("cc_*.jsonl")), ids=lambda path: path.stem)
def test_D4_transcripts_of_claude_code_lose_nothing_unsaid(path: Path) -> None:
    if path.stem == "cc_sidefile":  # a sub-agent's file is a session of its own
        (found,) = only(path, "claude-code")
        messages = [json.loads(line)["message"] for line in path.read_text(encoding="utf-8").splitlines()]
        stands = read_messages(messages) + Counter(users=users_in(messages))
        stands["responses"] = sum(message["role"] == "assistant" for message in messages)
        assert told(found) == +stands
    else:
        check_file(path)


@ABSENT
def test_D4_the_recorded_sessions_lose_nothing_unsaid() -> None:
    check_tau(SESSIONS / "tau-bench" / "gpt-4o-airline.jsonl")
    for path in sorted((SESSIONS / "cline").glob("*.json")):
        check_cline(path)
    for path in sorted((SESSIONS / "swe-agent").glob("*.traj")):
        check_swe(path)


@ABSENT
def test_D4_trajectories_of_swe_agent_lose_nothing_unsaid(tmp_path: Path) -> None:
    for path in samples("swe_java.tar.xz", 12, tmp_path, lambda name: name.endswith(".traj")):
        check_swe(path)


@ABSENT
def test_D4_sessions_with_a_known_end_lose_nothing_unsaid(tmp_path: Path) -> None:
    for path in samples("known_ends.tar.xz", 20, tmp_path, lambda name: name.endswith((".json", ".jsonl", ".traj"))):
        check_swe(path) if path.suffix == ".traj" else check_file(path)


@ABSENT
def test_D4_what_no_format_reads_is_named_once() -> None:
    (named,) = find_sessions(MADE / "gemini.json")
    assert isinstance(named, SkippedSession)
    assert not named.aside
    assert named.why == "this is messages of the Gemini API, which endstop does not read yet"


@ABSENT
@pytest.mark.parametrize(
    ("name", "format", "stands"),
    [
        ("langchain.json", "langchain", Counter(characters=7, calls=1, results=1, users=1, responses=2)),
        ("pydantic_ai.json", "pydantic-ai", Counter(characters=28, calls=1, results=1, users=1, responses=2)),
        ("sharegpt.jsonl", "sharegpt", Counter(characters=20, users=2, responses=2)),
    ],
)
def test_D4_messages_of_frameworks_lose_nothing_unsaid(name: str, format: str, stands: Tally) -> None:
    """`stands` was counted by hand."""
    sessions = only(MADE / name, "auto")
    assert sessions
    assert {found.format for found in sessions} == {format}
    for found in sessions:
        assert told(found) == stands


@ABSENT
def test_D4_the_hand_made_files_lose_nothing_unsaid() -> None:
    items = json.loads((MADE / "resp_items.json").read_text())
    (found,) = only(MADE / "resp_items.json", "openai")
    assert told(found) == read_messages(items) + Counter(users=1, responses=2)
    (found,) = only(MADE / "responses.json", "auto")
    output = json.loads((MADE / "responses.json").read_text())["output"]
    assert told(found) == read_messages(output) + Counter(responses=1), "all items of an output are one response"
    for found in only(MADE / "finetune.jsonl", "auto"):
        assert told(found) == Counter(characters=9, calls=1, results=1, users=1, responses=2)
    (found,) = only(MADE / "mini2.traj.json", "auto")
    messages = json.loads((MADE / "mini2.traj.json").read_text())["messages"]
    left_with = Counter(results=1)  # with what the agent handed in, which is the result of its last call
    assert messages[-1]["role"] == "exit"
    assert told(found) == read_messages(messages) + left_with + Counter(users=1, responses=4)


# ---- one by one


def test_D4_the_last_step_is_read_where_it_stands_in_the_trajectory_alone() -> None:
    step = {"response": "Submit.\n```\nsubmit\n```", "thought": "Submit.", "action": "submit", "observation": "diff"}
    first = {"response": "Look.\n```\nls\n```", "thought": "Look.", "action": "ls", "observation": "a.py"}
    asked = {"role": "user", "content": "Fix it", "agent": "primary"}
    spoke = {"role": "assistant", "content": first["response"], "thought": "Look.", "action": "ls", "agent": "primary"}
    shown = {"role": "user", "content": "a.py", "agent": "primary"}
    for history in ([asked, spoke], [asked, spoke, shown]):
        data = {"history": history, "trajectory": [first, step], "info": {"exit_status": "submitted"}}
        heard = hear("swe-agent", data)
        assert [message.text for message in heard.said if isinstance(message, AssistantMessage)] == ["Look.", "Submit."]
        assert [result.content for result in heard.results] == ["a.py", "diff"]
        assert heard.stops == ["completed"]
    bare = [asked, {"role": "assistant", "content": "I am reading.", "agent": "primary"}]
    steps = [{"response": "I am reading.", "action": "", "observation": "no action"}, step]
    heard = hear("swe-agent", {"history": bare, "trajectory": steps, "info": {"exit_status": "submitted"}})
    assert [message.text for message in heard.said if isinstance(message, AssistantMessage)][-1] == "Submit."
    data["trajectory"] = [{"response": "x", "action": "y"}, {"response": "z", "action": "w", "observation": "o"}]
    lost = hear("swe-agent", data).session.losses
    assert (lost["step"], lost["characters"]) == (1, 2), "whose place is not known"


def test_D4_lines_of_cursors_kind_are_read() -> None:
    def line(role: str, *parts: Any) -> dict[str, Any]:
        return {"role": role, "message": {"content": list(parts)}}

    text, used = {"type": "text", "text": "Look."}, {"type": "tool_use", "name": "ls", "input": {"path": "."}}
    lines = [line("user", {"type": "text", "text": "Fix it"}), line("assistant", text, used), line("assistant", text)]
    heard = hear("cursor", lines)
    assert [len(e.message.calls) for e in heard.of(ev.ResponseFinished)] == [1, 0]
    assert [e.message.text for e in heard.of(ev.ResponseFinished)] == ["Look.", "Look."]
    assert [e.prompt for e in heard.of(ev.RunStarted)] == ["Fix it"]


def test_D4_messages_in_another_form_are_no_empty_steps(tmp_path: Path) -> None:
    strange = [{"role": role, "parts": ["hello"]} for role in ("user", "assistant", "assistant")]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(strange))
    (skipped,) = find_sessions(path)
    assert isinstance(skipped, SkippedSession)
    assert skipped.why == "it contains no response of a model in a supported form (not supported: parts)"
    heard = hear("openai", [*strange, user("go"), says("ok")])
    assert heard.session.losses["another form"] == 3
    assert heard.session.losses["message field: parts"] == 3
    assert heard.outcomes[-1].steps == 1


def test_D4_items_of_a_response_keep_their_calls_results_and_thoughts() -> None:
    items = [
        user("Weather?"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Ask."}], "encrypted_content": "xx"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "grep", "input": "sun"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "yes"}]},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny"}]},
    ]
    heard = hear("openai", items)
    first, second = heard.of(ev.ResponseFinished)
    assert [(call.name, call.arguments) for call in first.message.calls] == [
        ("weather", '{"city": "Paris"}'), ("grep", '{"input":"sun"}'),
    ]  # fmt: skip
    assert [(block.text, block.signature) for block in first.message.reasoning] == [("Ask.", "xx")]
    assert second.message.text == "Sunny"
    assert [result.content for result in heard.results] == ["sunny", "yes"]
    assert heard.session.losses["item: web_search_call"] == 1


def test_D4_an_exchange_in_items_is_read_with_its_end() -> None:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Half"}]}]
    response: dict[str, Any] = {"object": "response", "output": output, "model": "m", "status": "completed"}
    data = {"request": {"input": [user("go")], "instructions": "Be brief."}, "response": response}
    heard = hear("openai", data)
    assert (heard.stops, heard.session.system, heard.outcomes[0].answer) == (["text_final"], "Be brief.", "Half")
    response |= {"status": "failed", "error": {"code": "server_error", "message": "overloaded"}}
    assert hear("openai", data).stops == ["provider_error"]


@pytest.mark.parametrize(
    ("messages", "lost"),
    [
        ([user("a", parts=[1]), says("b")], {"message field: parts": 1}),
        ([user("a"), says("b", annotations=[{"url": "x"}], audio=None)], {"message field: annotations": 1}),
        ([user("a"), says("b", refusal="no")], {"message field: refusal": 1, "characters": 2}),
        ([user("a"), says(None, call("1", "t"), function_call={"name": "u"}), answer("1")], {"call": 1}),
        ([user([{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}]), says("b")], {"thought": 1}),
        ([user("a"), says("b"), {"role": "critic", "content": "bad one"}], {"role: critic": 1, "characters": 6}),
        ([user("a"), says("b"), answer("9", "late")], {"result without a call": 1, "characters": 4}),
        ([user([{"type": "text", "text": "a", "citations": [1]}]), says("b")], {"part field: text.citations": 1}),
        ([user([{"type": "document", "text": "abc"}]), says("b")], {"content part: document": 1, "characters": 3}),
    ],
)
def test_D4_each_field_of_a_message_is_read_or_counted(messages: list[Any], lost: dict[str, int]) -> None:
    heard = hear("openai", messages)
    guessed = {"time", "usage", "finish reason"}
    assert {kind: times for kind, times in heard.session.losses.items() if kind not in guessed} == lost


def test_D4_results_in_the_users_role_are_results_in_every_format() -> None:
    used = {"type": "tool_use", "id": "1", "name": "ls", "input": {}}
    given = {"type": "tool_result", "tool_use_id": "1", "content": "a.py"}
    messages = [user("go"), {"role": "assistant", "content": [used]}, user([given]), says("ok")]
    for format in ("openai", "anthropic"):
        assert [result.content for result in hear(format, messages).results] == ["a.py"]


def test_D4_of_two_lists_of_messages_the_second_is_counted() -> None:
    data = {"messages": [user("a"), says("b")], "history": [user("c"), says("dd", call("1", "t"))]}
    lost = hear("openai", data).session.losses
    assert (lost["field: history"], lost["characters"], lost["call"]) == (1, 3, 1)


def test_D4_words_of_claude_code_in_the_models_name_are_no_response() -> None:
    own = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "No response requested."}]}
    lines = [
        {"type": "user", "sessionId": "s", "message": user("go")},
        {"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": "Done."}},
        {"type": "assistant", "sessionId": "s", "message": own},
        {"type": "system", "sessionId": "s", "subtype": "api_error"},
    ]
    heard = hear("claude-code", lines)
    assert [e.message.text for e in heard.of(ev.ResponseFinished)] == ["Done."]
    lost = heard.session.losses
    assert (lost["own words"], lost["characters"]) == (1, 20)
    assert len(heard.of(ev.AttemptFailed)) == 1, "a request that failed is in the record"


async def test_D4_the_command_line_names_every_loss(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([user("a", parts=[1]), says("b"), {"role": "critic", "content": "bad"}]))
    done = await endstop("import", "openai", str(path), "-o", str(tmp_path / "out"))
    assert "lost: 1 field of messages that is not read (parts): left out" in done.err
    assert "lost: 3 characters of text (without white space) in what was left out" in done.err
    assert "things of other kinds" not in done.err
