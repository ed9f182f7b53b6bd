"""D4: what a session holds in the formats of agents and benchmarks is in its record, or is counted as lost.

Each format has a session made by hand, and a count of its own: it walks the raw JSON and asks nothing of the importers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import FORMATS, FoundSession
from msgspec import Struct

from ..engine.formats import (
    test_atif,
    test_claude_code,
    test_cline_cli,
    test_codex,
    test_continue_cli,
    test_copilot_cli,
    test_cursor,
    test_gemini_cli,
    test_gptme,
    test_inspect_log,
    test_kimi_cli,
    test_langchain_messages,
    test_mini_swe_agent,
    test_openai_agents,
    test_opencode,
    test_openhands,
    test_otlp_spans,
    test_pi,
    test_pydantic_messages,
    test_qwen_code,
    test_sharegpt,
    test_tau2_bench,
    test_trae,
)
from ..engine.formats.heard import says, user
from .test_losses_imports import Tally, letters, only, read_content, read_message, read_messages, told

RECORDED = {"openai", "anthropic", "cline", "tau-bench", "swe-agent"}
"""Formats that `test_losses_imports.py` compares, on recorded sessions."""


def counted(text: Any = "", **more: int) -> Tally:
    return Counter(characters=letters(text), **more)


# ---- a session of each format, and its count


def codex() -> list[Any]:
    made = test_codex
    return [
        made.META,
        made.says("user", "<environment_context>here</environment_context>"),
        made.says("user", "Fix it"),
        made.item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}]),
        made.says("assistant", "I look."),
        made.asks("c1", arguments='{"command":["ls"]}'),
        made.item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin"),
        made.answers("c1", "a file"),
        made.item("custom_tool_call_output", call_id="c2", output=[{"type": "input_text", "text": "patched"}]),
        made.asks("c3"),
        made.answers("c3", "Exit code: 1\nOutput:\nno"),
        made.item("web_search_call", id="w"),
        made.says("user", "And now?"),
        made.says("assistant", "Fixed."),
    ]


def count_codex(lines: list[Any]) -> Tally:
    stands, model = counted(lines[0]["payload"]["base_instructions"]["text"]), False
    for line in lines[1:]:
        item = line["payload"]
        kind = item["type"].removeprefix("custom_").replace("tool_call", "function_call")
        own = kind in ("reasoning", "function_call") or item.get("role") == "assistant"
        stands["responses"] += own and not model
        model = own or (model and kind == "web_search_call")
        stands["users"] += item.get("role") == "user"
        stands += read_message({**item, "type": kind})
    return stands


def count_cline_cli(data: Any) -> Tally:
    tally: Tally = Counter(characters=letters(data["system_prompt"]))
    for message in data["messages"]:
        for block in message["content"]:
            results = block.get("content") if isinstance(block.get("content"), list) else []
            tally += read_content([{**block, "content": "" if results else block.get("content")}])
            tally["characters"] += letters(json.dumps(results, separators=(",", ":"))) if results else 0
        # what stands beside results is no message of its own
        tally["responses"] += message["role"] == "assistant"
        tally["users"] += message["role"] == "user" and message["content"][0]["type"] == "text"
    return tally


def count_continue_cli(data: Any) -> Tally:
    tally: Tally = Counter()
    for entry in data["history"]:
        message = entry["message"]
        tally += counted(message["content"], calls=len(message.get("toolCalls", ())))
        tally["users" if message["role"] == "user" else "responses"] += 1
        for item in entry["contextItems"]:
            tally += counted(item["content"])
        for state in entry.get("toolCallStates", ()):
            tally["results"] += state["status"] in ("done", "errored", "canceled")
            tally["characters"] += sum(letters(item["content"]) for item in state["output"])
    return tally


def count_gptme(lines: list[Any]) -> Tally:
    """A call is a line of a response: what stands before its arguments is no text."""
    tally: Tally = Counter()
    for line in lines:
        role, content = line["role"], line["content"]
        said = [one for one in content.split("\n@")[0].split("\n") if one] if role == "assistant" else [content]
        tally += counted("".join(said), calls=content.count("\n@") if role == "assistant" else 0)
        tally["results" if "call_id" in line else {"user": "users", "assistant": "responses"}.get(role, "system")] += 1
    del tally["system"]
    return tally


def gemini_cli() -> dict[str, Any]:
    made = test_gemini_cli
    calls = [made.call("c1", "success", {"output": "A"}), made.call("c2", "error", {"error": "no such file"})]
    thoughts = [{"subject": "Reading", "description": "All."}, {"subject": "Then", "description": "More."}]
    return made.session(
        made.message("user", "Read"),
        made.message("gemini", "I read.", toolCalls=calls, thoughts=thoughts, tokens=made.TOKENS),
        made.message("user", [{"text": "And"}, {"text": "on"}]),
        made.message("gemini", [{"text": "Done."}]),
    )


def count_gemini_cli(data: Any) -> Tally:
    stands: Tally = Counter()
    for message in data["messages"]:
        stands += read_content(message["content"])
        stands["users" if message["type"] == "user" else "responses"] += 1
        stands["thoughts"] += len(message.get("thoughts", ()))
        for call in message.get("toolCalls", ()):
            stands["calls"] += 1
            for part in call["result"]:
                stands += counted("".join(part["functionResponse"]["response"].values()), results=1)
    return stands


def qwen_code() -> list[Any]:
    made = test_qwen_code
    lines = made.Transcript()
    lines.add("user", made.text("Read"))
    lines.add("assistant", made.text("Hm.", thought=True), made.text("I read."), made.asks("c1"), made.asks("c2"))
    lines.add("tool_result", made.answers("c1", output="A"), toolCallResult={"status": "success"})
    lines.add("tool_result", made.answers("c2", error="none"), toolCallResult={"status": "error"})
    lines.add("user", made.text("A task is done."), subtype="notification")
    lines.add("assistant", made.text("Done."))
    return lines.lines


def count_qwen_code(lines: list[Any]) -> Tally:
    stands: Tally = Counter()
    for line in lines:
        stands["users"] += line["type"] == "user"
        stands["responses"] += line["type"] == "assistant"
        for part in line["message"]["parts"]:
            if "functionResponse" in part:
                stands += counted("".join(part["functionResponse"]["response"].values()), results=1)
            elif "functionCall" in part or part.get("thought"):
                stands["thoughts" if part.get("thought") else "calls"] += 1
            else:
                stands += counted(part["text"])
    return stands


def pi() -> list[Any]:
    made = test_pi
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "sig"}
    return [
        made.HEADER,
        made.user("Read"),
        made.says("I read.", "toolUse", thought, made.asks("c1"), made.asks("c2")),
        made.answers("c1", {"type": "text", "text": "A"}, isError=False),
        made.answers("c2", {"type": "text", "text": "none"}, isError=True),
        made.line("compaction", summary="It did a lot.", tokensBefore=9),
        made.says("Done."),
        made.user("On"),
        made.says("Yes."),
    ]


def count_pi(lines: list[Any]) -> Tally:
    stands: Tally = Counter()
    for line in lines[1:]:
        message = line.get("message") or {"role": "user", "content": [{"type": "text", "text": line["summary"]}]}
        stands[{"user": "users", "assistant": "responses", "toolResult": "results"}[message["role"]]] += 1
        for part in message["content"]:
            if part["type"] in ("toolCall", "thinking"):
                stands["calls" if part["type"] == "toolCall" else "thoughts"] += 1
            else:
                stands += counted(part["text"])
    return stands


def copilot_cli() -> list[Any]:
    made = test_copilot_cli
    return [
        made.START,
        made.event("system.message", content="Be brief.", role="system"),
        made.event("user.message", content="List", transformedContent="<now/> List"),
        made.says("r1", "I list.", "c1", reasoningText="Hm."),
        made.says("r1", "", "c2"),
        made.answers("c1", "A"),
        made.answers("c2", "none", shellExecution={"exitCode": 1}),
        made.event("system.notification", content="An agent is done."),
        made.says("r2", "Done."),
    ]


def count_copilot_cli(lines: list[Any]) -> Tally:
    stands: Tally = Counter(responses=len({line["data"].get("apiCallId") for line in lines} - {None}))
    for line in lines[1:]:
        data = line["data"]
        stands += counted(data.get("content"), calls=len(data.get("toolRequests", ())))
        stands += counted(data.get("result", {}).get("content"), results="result" in data)
        stands["thoughts"] += "reasoningText" in data
        stands["users"] += line["type"] in ("user.message", "system.notification")
    return stands


def kimi_cli() -> list[Any]:
    made = test_kimi_cli
    return [
        made.METADATA,
        made.line("config.update", systemPrompt="Be brief."),
        made.said("Read"),
        made.step("step.begin"),
        made.part("think", "Hm."),
        made.part("text", "I read."),
        made.step("tool.call", toolCallId="c1", name="Read", args={"path": "a"}),
        made.step("tool.call", toolCallId="c2", name="Read", args={"path": "b"}),
        made.step("tool.result", toolCallId="c2", result={"output": "none", "isError": True}),
        made.step("tool.result", toolCallId="c1", result={"output": [{"type": "text", "text": "A"}]}),
        made.END,
        made.said("A task is done.", "system_trigger"),
        made.step("step.begin"),
        made.part("text", "Done."),
        made.step("step.end", finishReason="end_turn"),
    ]


def count_kimi_cli(lines: list[Any]) -> Tally:
    stands = counted(lines[1]["systemPrompt"])
    for line in lines[2:]:
        event, message = line.get("event", {}), line.get("message")
        stands += read_message(message) + Counter(users=1) if message else Counter()
        stands[
            {"step.begin": "responses", "tool.call": "calls", "tool.result": "results"}.get(event.get("type"), "")
        ] += 1
        stands += counted(event.get("part", {}).get("text"), thoughts="think" in event.get("part", {}))
        stands += read_content(event.get("result", {}).get("output"))
    del stands[""]
    return stands


def count_opencode(data: Any) -> Tally:
    stands: Tally = Counter()
    for message in data["messages"]:
        parts = message["parts"]
        spoken = [part for part in parts if part["type"] == "text"]
        tools = [part["state"] for part in parts if part["type"] == "tool"]
        stands["users"] += len(spoken) if message["info"]["role"] == "user" else 0
        stands["responses"] += sum(part["type"] == "step-start" for part in parts)
        stands["thoughts"] += sum(part["type"] == "reasoning" for part in parts)
        stands += counted("".join(part["text"] for part in spoken), calls=len(tools), results=len(tools))
        stands += counted("".join(tool.get("output", "") + tool.get("error", "") for tool in tools))
    return stands


def count_cursor(data: Any) -> Tally:
    stands: Tally = Counter()
    before = "start"
    for bubble in data["bubbles"].values():
        tool = bubble.get("toolFormerData")
        by = (tool.get("modelCallId") or tool["toolCallId"]) if tool else "user" if bubble["type"] == 1 else "words"
        began = by != before and not (tool and before == "words")
        stands["users"] += by == "user"
        stands["responses"] += by != "user" and began
        stands += counted(bubble["text"], thoughts="thinking" in bubble)
        before = by
        if tool:
            stands += counted(tool.get("result", "") + tool.get("error", ""), calls=1, results=1)
    return stands


def atif() -> dict[str, Any]:
    made = test_atif
    calls = [*made.CALLS, {"tool_call_id": "c2", "function_name": "read", "arguments": {}}]
    shown = made.observed({"source_call_id": "c1", "content": "A"}, {"source_call_id": "c2", "content": "none"})
    return made.trajectory(
        made.step("system", "Be brief."),
        made.step("user", "Go"),
        made.step("agent", "Look.", reasoning_content="Hm.", tool_calls=calls, observation=shown),
        made.step("agent", "ls", observation=made.observed({"content": [{"type": "text", "text": "a.txt"}]})),
        made.step(
            "agent", "by rule", llm_call_count=0, tool_calls=made.CALLS, observation=made.observed({"content": "x"})
        ),
        made.step("agent", "Done."),
    )


def count_atif(data: Any) -> Tally:
    stands: Tally = Counter()
    for step in data["steps"]:
        results = step.get("observation", {}).get("results", ())
        ruled = step.get("llm_call_count") == 0
        stands += counted(step["message"], calls=len(step.get("tool_calls", ())))
        stands["users"] += step["source"] == "user"
        stands["responses"] += step["source"] == "agent" and not ruled
        stands["thoughts"] += "reasoning_content" in step
        for result in results:
            stands += read_content(result["content"])
            stands["results" if "source_call_id" in result or ruled else "users"] += 1
    return stands


def inspect() -> dict[str, Any]:
    made = test_inspect_log
    first = made.says(
        "a1", [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Look."}], tool_calls=made.CALLS
    )
    return made.log(
        made.sample(
            {"role": "system", "content": "Be brief."},
            made.user("Go"),
            first,
            {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": "attachment://x"},
            {"role": "tool", "tool_call_id": "c2", "content": "", "error": {"type": "timeout", "message": "late"}},
            made.user("Go on.", None),
            made.says("a2", "Done."),
            events=[made.request(first)],
            attachments={"x": "A" * 200},
        )
    )


def count_inspect(data: Any) -> Tally:
    (sample,) = data["samples"]
    stands: Tally = Counter()
    for message in sample["messages"]:
        content = message["content"]
        if isinstance(content, str) and content.startswith("attachment://"):
            content = sample["attachments"][content.partition("//")[2]]
        stands += read_message({**message, "content": content}) + counted(message.get("error", {}).get("message"))
        stands["users"] += message["role"] == "user"
        stands["responses"] += message["role"] == "assistant"
    return stands


def tau2_bench() -> dict[str, Any]:
    made = test_tau2_bench
    both = {"role": "tool", "tool_messages": [made.answer("a"), made.answer("b", error=True)]}
    own = [made.user(None, made.call("u", "user")), made.answer("u", "user"), made.user("It blinks.")]
    asked = made.says(None, made.call("a"), made.call("b"))
    spoken = [
        made.GREETING,
        made.user("Help"),
        asked,
        both,
        made.says("Look at it."),
        *own,
        made.says("Good."),
        made.STOP,
    ]
    return made.simulation(*spoken)


def count_tau2_bench(data: Any) -> Tally:
    """The greeting and the last words are left out with their characters; what the user calls with them, too."""
    said = [one for message in data["messages"] for one in message.get("tool_messages", [message])]
    stands = read_messages(said)
    stands["users"] = sum(one["role"] == "user" and not one["tool_calls"] for one in said) - 1
    stands["responses"] = sum(one["role"] == "assistant" for one in said) - 1
    stands["thoughts"] = sum(bool(one.get("raw_data")) for one in said)
    return stands


def mini_swe_agent() -> dict[str, Any]:
    made = test_mini_swe_agent
    refused = says("I am done.")
    return made.trajectory(
        made.acts("ls\ncat a.txt"), made.output("a.txt"), made.acts("false"), made.output("", code=1), refused,
        user("Give one action."), made.acts(made.SUBMIT), user("diff --git"), submission="diff --git",
    )  # fmt: skip


def count_mini_swe_agent(data: Any) -> Tally:
    """The action leaves the text for the arguments of its call, with the marks around it."""
    stands: Tally = Counter()
    acted = False
    for message in data["messages"]:
        if message["role"] == "assistant":
            text, mark, _ = message["content"].partition("```bash")
            acted = bool(mark)
            stands += counted(text, calls=acted, responses=1, thoughts="extra" in message)
        else:
            ran = acted and message["role"] == "user"
            stands += counted(message["content"], results=ran, users=message["role"] == "user" and not ran)
            acted = False
    return stands


def trae() -> dict[str, Any]:
    return test_trae.WHOLE


def count_trae(data: Any) -> Tally:
    """A request repeats the results of the step before it."""
    stands: Tally = Counter()
    for asked in data["llm_interactions"]:
        for message in asked["input_messages"]:
            stands += counted(
                message["content"] or "", users=message["role"] == "user" and "tool_result" not in message
            )
        stands["calls"] += len(asked["response"]["tool_calls"] or ())
        stands += counted(asked["response"]["content"], responses=1)
    for step in data["agent_steps"]:
        for result in step["tool_results"] or ():
            stands += counted(result["result"] or result["error"], results=1)
    return stands


def openhands() -> list[Any]:
    made = test_openhands
    both = made.response("r1", "c1", "c2")
    return [
        made.event(0, "agent", action="system", args={"content": "Be brief.", "tools": []}),
        made.asks(1, "Go"),
        made.event(2, "user", action="recall", args={"query": "x"}),
        made.acts(3, "c1", both),
        made.acts(4, "c2", both),
        made.observes(5, 3, "A"),
        made.observes(6, 4, "none", success=False),
        made.observes(7, 0, "Say it otherwise.", kind="error"),
        made.event(8, "agent", action="message", args={"content": "Done.", "wait_for_response": True}),
    ]


def count_openhands(events: list[Any]) -> Tally:
    stands: Tally = Counter()
    responses: dict[str, Any] = {}
    for event in events:
        beside = event.get("tool_call_metadata")
        if beside is not None:
            responses[beside["model_response"]["id"]] = beside["model_response"]["choices"][0]["message"]
        elif "observation" in event:
            caused = event["cause"] != 0
            stands += counted(event["content"], results=caused, users=not caused)
        elif event["action"] != "recall":
            said = event["action"] == "message"
            asked = said and event["source"] == "user"
            stands += counted(event["args"]["content"], users=asked, responses=said and not asked)
    return stands + read_messages(responses.values()) + Counter(responses=len(responses))


def count_openhands_sdk(events: list[Any]) -> Tally:
    """The thought of a response stands at its first action; the summary of a condensation is left out and counted."""
    acts = [event for event in events if event["kind"] == "ActionEvent"]
    ids = {event["llm_response_id"] for event in acts}
    stands: Tally = Counter(calls=len(acts), responses=len(ids), thoughts=len(ids))
    for event in events:
        spoken = event.get("llm_message")
        stands += read_content(spoken["content"]) if spoken else Counter()
        stands["users" if event["source"] == "user" else "responses"] += bool(spoken)
        stands += read_content(event.get("thought")) + counted(event.get("system_prompt", {}).get("text"))
        stands += counted(event.get("summary"))
        if "tool_call_id" in event and event not in acts:
            words = event.get("error") or event.get("rejection_reason") or event["observation"]["content"]
            stands += read_content(words) + Counter(results=1)
    return stands


def claude_code() -> list[Any]:
    made = test_claude_code
    lines = made.Transcript()
    lines.user("Fix it")
    lines.model("m1", {"type": "thinking", "thinking": "Hm."})
    lines.model("m1", made.text("Looking."))
    lines.model("m1", made.use("t1", "Read", path="a"), made.use("t2", "Read", path="b"))
    lines.user([made.result("t1", "A"), made.result("t2", "none", is_error=True)])
    lines.model("m2", made.text("Done."))
    return lines.lines


def count_claude_code(lines: list[Any]) -> Tally:
    messages = [line["message"] for line in lines]
    ids = {message.get("id") for message in messages} - {None}
    return read_messages(messages) + Counter(users=1, responses=len(ids))


def sharegpt() -> dict[str, Any]:
    made = test_sharegpt
    call = '{"name": "look", "arguments": {"at": 1}}'
    return made.talk(
        made.turn("system", "Be brief."),
        made.turn("human", "Go"),
        made.turn("function_call", call),
        made.turn("observation", "blue"),
        made.turn("gpt", f"Look. <tool_call>{call}</tool_call><tool_call>{call}</tool_call>"),
        made.turn("tool", "<tool_response>red</tool_response><tool_response>green</tool_response>"),
        made.turn("narrator", "So it went."),
        made.turn("gpt", "Done."),
    )


def count_sharegpt(data: Any) -> Tally:
    stands: Tally = Counter()
    for turn in data["conversations"]:
        who, value = turn["from"], turn["value"]
        calls = 1 if who == "function_call" else value.count("<tool_call>")
        results = 1 if who == "observation" else value.count("<tool_response>")
        words = re.sub(r"<tool_call>.*</tool_call>|</?tool_response>", "", "" if who == "function_call" else value)
        stands += counted(words, calls=calls, results=results)
        stands["users"] += who == "human"
        stands["responses"] += who in ("gpt", "function_call")
    return stands


def count_langchain(messages: list[Any]) -> Tally:
    stands: Tally = Counter()
    names = {"human": "users", "ai": "responses", "tool": "results", "system": "systems"}
    for message in messages:
        in_blocks = read_content(message["content"])
        in_blocks["calls"] = len(message.get("tool_calls", ())) + len(message.get("invalid_tool_calls", ()))
        stands += in_blocks + Counter([names[message["type"]]])
    del stands["systems"]
    return stands


def pydantic_ai() -> list[Any]:
    made = test_pydantic_messages
    calls = [made.calls(id, {"at": id}) for id in "abc"]
    return [
        made.asks(made.part("system-prompt", "Be brief."), made.part("user-prompt", "Go")),
        made.says(made.part("thinking", "Hm."), made.part("text", "Look."), *calls),
        made.asks(
            made.returns("a", "blue"),
            made.returns("b", "none", outcome="failed"),
            made.part("retry-prompt", "Again.", tool_name="look", tool_call_id="c"),
        ),
        made.says(made.part("text", "Hm, hm.")),
        made.asks(made.part("retry-prompt", "Call a tool.")),
        made.says(made.part("text", "Done.")),
    ]


def count_pydantic_ai(messages: list[Any]) -> Tally:
    stands: Tally = Counter(responses=sum(message["kind"] == "response" for message in messages))
    for part in (part for message in messages for part in message["parts"]):
        kind, result = part["part_kind"], "tool_call_id" in part
        stands["calls"] += kind == "tool-call"
        stands["thoughts"] += kind == "thinking"
        stands["results"] += kind != "tool-call" and result
        stands["users"] += kind in ("user-prompt", "retry-prompt") and not result
        stands += counted("" if kind == "thinking" else part.get("content"))
    return stands


def otlp() -> dict[str, Any]:
    made = test_otlp_spans
    return made.file(made.span(1, made.today(1)), made.span(2, made.today(3)))


def plain(value: dict[str, Any]) -> Any:
    """What a value of OTLP/JSON says."""
    ((kind, inside),) = value.items()
    if kind == "arrayValue":
        return [plain(one) for one in inside["values"]]
    if kind == "kvlistValue":
        return {one["key"]: plain(one["value"]) for one in inside["values"]}
    return inside


def count_otlp(data: Any) -> Tally:
    """The last request holds all that was said before it."""
    (resource,) = data["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    last = {one["key"]: plain(one["value"]) for one in scope["spans"][-1]["attributes"]}
    (system,) = last["gen_ai.system_instructions"]
    stands = counted(system["content"])
    for message in (*last["gen_ai.input.messages"], *last["gen_ai.output.messages"]):
        stands["users"] += message["role"] == "user"
        stands["responses"] += message["role"] == "assistant"
        for part in message["parts"]:
            kind = {"reasoning": "thoughts", "tool_call": "calls", "tool_call_response": "results"}.get(part["type"])
            words = part.get("response") or (part["content"] if kind is None else "")
            stands += counted(words, **({kind: 1} if kind else {}))
    return stands


class Compared(Struct, frozen=True):
    """A format with a session made by hand, and what a reading of the JSON alone counts in it."""

    data: Callable[[], Any]
    count: Callable[[Any], Tally]


COMPARED = {
    "atif": Compared(atif, count_atif),
    "claude-code": Compared(claude_code, count_claude_code),
    "cline-cli": Compared(lambda: test_cline_cli.WHOLE, count_cline_cli),
    "codex": Compared(codex, count_codex),
    "continue-cli": Compared(lambda: test_continue_cli.WHOLE, count_continue_cli),
    "copilot-cli": Compared(copilot_cli, count_copilot_cli),
    "cursor": Compared(lambda: test_cursor.conversation(*test_cursor.BUBBLES), count_cursor),
    "gemini-cli": Compared(gemini_cli, count_gemini_cli),
    "gptme": Compared(lambda: test_gptme.WHOLE, count_gptme),
    "inspect": Compared(inspect, count_inspect),
    "kimi-cli": Compared(kimi_cli, count_kimi_cli),
    "langchain": Compared(lambda: test_langchain_messages.MESSAGES, count_langchain),
    "mini-swe-agent": Compared(mini_swe_agent, count_mini_swe_agent),
    "opencode": Compared(lambda: test_opencode.export(*test_opencode.MESSAGES), count_opencode),
    "openhands": Compared(openhands, count_openhands),
    "openhands-sdk": Compared(lambda: test_openhands.CONVERSATION, count_openhands_sdk),
    "otlp": Compared(otlp, count_otlp),
    "pi": Compared(pi, count_pi),
    "pydantic-ai": Compared(pydantic_ai, count_pydantic_ai),
    "qwen-code": Compared(qwen_code, count_qwen_code),
    "sharegpt": Compared(sharegpt, count_sharegpt),
    "tau2-bench": Compared(tau2_bench, count_tau2_bench),
    "trae": Compared(trae, count_trae),
}
"""Of Cursor, OpenCode and OpenHands also databases and folders are read: their own tests hold these to be equal."""


@pytest.mark.parametrize("format", COMPARED)
def test_D4_a_session_of_each_format_is_in_its_record(format: str) -> None:
    compared = COMPARED[format]
    data = compared.data()
    (session,) = FORMATS[format].sessions(data)
    found = FoundSession(session=session, format=format, id="s", source="", place="")
    stands = +compared.count(data)
    assert {"characters", "calls", "results", "users", "responses"} <= stands.keys()
    assert told(found) == stands


def test_D4_a_database_of_the_agents_sdk_is_in_its_record(tmp_path: Path) -> None:
    items = test_openai_agents.ITEMS
    (found,) = only(test_openai_agents.make_database(tmp_path / "chats.db", {"alice": items}), "openai-agents")
    assert told(found) == read_messages(items) + Counter(users=1, responses=2)


def test_D4_every_format_is_compared() -> None:
    assert set(FORMATS) == RECORDED | COMPARED.keys() | {"openai-agents"}
