"""The console command as people and scripts use it, against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from endstop import read_record
from endstop.cli.factory import build_provider
from endstop.decision.events import ResponseFinished
from endstop.providers import Anthropic, LiteLLM, OpenAICompatible

from ...console import COMMAND, PATIENCE, Done, ended, endstop, environment, newly_started, python, started
from ...ports import held_port
from ...servers import CUT, NO_END, STALL, ChatServer, Refusal, call

SUMMARY = "The port in config.yaml is now 8080; it was 3000. Restart the server."


def model(server: ChatServer) -> tuple[str, ...]:
    return ("--model", "scripted", "--api-base", server.url)


async def run(server: ChatServer, *arguments: object, **options: Any) -> Done:
    return await endstop("run", "Set the port to 8080", *model(server), *arguments, **options)


# ---- a run


async def test_the_answer_is_all_that_stands_on_stdout() -> None:
    async with ChatServer([*["I", "am", "done."], call("finish_task", summary=SUMMARY)]) as server:
        done = await run(server)
    assert (done.code, done.out) == (0, SUMMARY + "\n")
    assert "Reported as done: " in done.err


async def test_json_is_one_object_with_the_three_axes_of_the_outcome() -> None:
    async with ChatServer([call("finish_task", summary=SUMMARY), call("finish_task", summary="again")]) as server:
        done = await run(server, "--json", "--max-steps", 7)
    outcome = done.json
    assert done.code == 0
    assert (outcome["status"], outcome["stop_reason"], outcome["answer"]) == ("completed", "completed", SUMMARY)
    assert (outcome["steps"], outcome["rounds"], outcome["requests"]) == (1, 1, 1)
    assert outcome["limits"]["steps"] == {"used": 1, "allowed": 7, "soft": False}
    assert (outcome["exceeded_limit"], outcome["verdict"], outcome["evaluation"]) == (False, "not_run", None)
    assert set(outcome["usage"]) == {
        "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd", "estimated"
    }  # fmt: skip
    assert outcome["run_id"].startswith("run_")
    assert outcome["session_id"].startswith("session_")


async def test_what_it_cost_is_shown_and_limited_by_the_price_that_is_given(tmp_path: Path) -> None:
    policy = _policy(tmp_path, "[limits]\ncost_usd = 0.000001")
    async with ChatServer(*[call("finish_task", summary=SUMMARY)] * 3) as server:
        done = await run(server, "--json", "--price", "1000,2000,500", "--policy", policy)
        told = await run(server, "--price", "1000,2000")
    usage = done.json["usage"]
    assert usage["cost_usd"] == pytest.approx((usage["input_tokens"] + 2 * usage["output_tokens"]) / 1000)
    assert done.json["limits"]["cost_usd"]["used"] == usage["cost_usd"]
    assert "$" in told.err


async def test_the_prompt_can_come_through_a_pipe() -> None:
    async with ChatServer("Hello.") as server:
        done = await endstop("run", *model(server), stdin="What is the größte Zahl?\n".encode())
    assert (done.code, done.out) == (0, "Hello.\n")
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "What is the größte Zahl?"}


async def test_a_prompt_that_is_no_utf8_is_sent_all_the_same() -> None:
    async with ChatServer("Hello.") as server:
        command = [COMMAND, "run", b"caf\xe9", *model(server)]
        done = await asyncio.to_thread(subprocess.run, command, env=environment(), timeout=60, capture_output=True)
    assert done.returncode == 0
    assert server.requests[0]["messages"][-1]["content"] == "caf\N{REPLACEMENT CHARACTER}"


async def test_finish_task_and_ask_user_are_offered_unless_told_otherwise() -> None:
    offered = []
    for arguments in ((), ("--no-presets",), ("--policy", "chat")):
        async with ChatServer("Hello.") as server:
            await run(server, *arguments)
            offered.append([tool["function"]["name"] for tool in server.requests[0].get("tools", [])])
    assert offered == [["finish_task", "ask_user"], [], ["ask_user"]]


async def test_settings_of_the_model_reach_the_model() -> None:
    async with ChatServer([call("finish_task", summary="Hello.")]) as server:
        await run(server, "--temperature", 0.5, "--seed", 7, "--tool-choice", "required")
    request = server.requests[0]
    assert (request["temperature"], request["seed"], request["tool_choice"]) == (0.5, 7, "required")


@pytest.mark.parametrize("way", ["openai", "litellm"])
async def test_B2_max_tokens_reaches_the_model_and_holds_where_the_model_does_not_care(
    way: str, tmp_path: Path
) -> None:
    words = [f"word{n} " for n in range(400)]
    async with ChatServer(*[words] * 3) as server:
        record = tmp_path / "r.jsonl"
        done = await run(server, "--provider", way, "--max-tokens", 50, "--no-closing", "--record", record, "--json")
    assert [request["max_tokens"] for request in server.requests] == [50, 50, 50]
    (recorded,) = read_record(record).runs
    responses = [event for event in recorded.events if isinstance(event, ResponseFinished)]
    assert [(r.finish, r.cut_for) for r in responses] == [("length", "response_tokens")] * 3
    assert all(50 < r.usage.output_tokens < 55 for r in responses)
    assert (done.json["stop_reason"], done.code) == ("no_answer", 3)


async def test_the_key_is_sent_if_it_is_set_and_none_is_required() -> None:
    async with ChatServer("Hello.", "Hello.") as server:
        await run(server)
        await run(server, env={"OPENAI_API_KEY": "sk-test"})
    assert [headers.get("Authorization") for headers in server.headers] == [None, "Bearer sk-test"]


async def test_quiet_leaves_nothing_but_the_answer() -> None:
    async with ChatServer("Hello.") as server:
        done = await run(server, "--quiet")
    assert (done.out, done.err) == ("Hello.\n", "")


async def test_explain_shows_each_rule_that_was_considered() -> None:
    async with ChatServer("Hello.") as server:
        done = await run(server, "--explain")
    assert "stop(text_final)" in done.err
    assert "P0 compaction" in done.err
    assert "P1 finish_reason" in done.err


async def test_the_workspace_tools_change_a_real_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("port: 3000\n")
    edit = call("edit_file", path="config.yaml", old="3000", new="8080")
    async with ChatServer(
        [call("read_file", path="config.yaml")], [edit, call("finish_task", summary=SUMMARY)]
    ) as server:
        done = await run(server, "--workspace", tmp_path)
    assert (done.code, (tmp_path / "config.yaml").read_text()) == (0, "port: 8080\n")
    assert "actions: edit_file config.yaml" in done.err
    assert "run_command" not in str(server.requests[0]["tools"])


TOOLS = """
import os, sys
from endstop import tool

print("imported")

@tool
def shout(word: str) -> str:
    "Say a word loudly."
    print("printed")
    os.system("echo from a child")
    os.write(1, b"from a descriptor\\n")
    import structlog
    structlog.get_logger().info("logged")
    return word.upper()
"""


@pytest.mark.parametrize("how", ["file", "module"])
async def test_what_tools_print_never_reaches_stdout(tmp_path: Path, how: str) -> None:
    (tmp_path / "loud_tools.py").write_text(TOOLS)
    place = tmp_path / "loud_tools.py" if how == "file" else "loud_tools"
    async with ChatServer([call("shout", word="hey")], "It shouted.") as server:
        done = await run(server, "--tools", place, "--json", cwd=tmp_path)
    assert done.json["answer"] == "It shouted."
    assert server.requests[1]["messages"][-1]["content"] == "HEY"
    assert [word in done.err for word in ("imported", "printed", "from a child", "from a descriptor", "logged")] == [
        True
    ] * 5


async def test_a_reader_of_the_answer_who_has_left_is_no_error() -> None:
    async with ChatServer("Hello.") as server:
        command = [COMMAND, "run", "Hi", *model(server)]
        read, write = os.pipe()
        os.close(read)
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment(), stdout=write, stderr=write, timeout=60, check=False
        )
        os.close(write)
    assert done.returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
async def test_where_descriptors_are_closed_nothing_lands_in_the_wrong_place(closed: str, tmp_path: Path) -> None:
    async with ChatServer("Hello.") as server:
        script = f'exec "$0" "$@" {closed}'
        command = ["/bin/sh", "-c", script, COMMAND, "run", "Hi", *model(server), "--record", str(tmp_path / "r.jsonl")]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment(), capture_output=True, timeout=60, check=False
        )
    assert done.returncode == 0
    assert done.stdout == (b"" if ">&-" in closed.split() else b"Hello.\n")
    assert (done.stderr == b"") == ("2>&-" in closed)
    assert b"Hello." not in done.stderr.replace(b"  Hello.", b"")
    assert read_record(tmp_path / "r.jsonl").damaged == []


async def test_draining_shows_what_the_cut_has_saved(tmp_path: Path) -> None:
    rest = [call("read_file", path="a"), "Let me check everything once more."]
    async with ChatServer([call("finish_task", summary=SUMMARY), *rest]) as server:
        done = await run(server, "--record", tmp_path / "r.jsonl", "--drain")
    assert done.code == 0
    assert "the cut saved about" in done.err
    assert "1 tool call (read_file)" in done.err


async def test_litellm_is_the_other_way_to_the_same_endpoint() -> None:
    async with ChatServer(["Working.", call("finish_task", summary=SUMMARY)]) as server:
        done = await run(server, "--provider", "litellm", "--json")
    assert (done.code, done.json["answer"]) == (0, SUMMARY)


# ---- how runs end, and the exit codes


async def test_a_run_at_its_limit_exits_with_3_and_says_used_and_allowed() -> None:
    async with ChatServer([call("nothing")], repeat=True) as server:
        done = await run(server, "--max-steps", 2, "--json")
    outcome = done.json
    assert (done.code, outcome["status"], outcome["stop_reason"]) == (3, "exhausted", "step_limit")
    assert outcome["limits"]["steps"]["used"] == outcome["limits"]["steps"]["allowed"] == 2
    assert outcome["exceeded_limit"]
    assert "--max-steps" in done.err


async def test_a_question_exits_with_5_and_is_shown() -> None:
    async with ChatServer([call("ask_user", question="Which of the two files?")]) as server:
        done = await run(server, "--json")
    assert (done.code, done.json["status"]) == (5, "awaiting_input")
    assert done.json["questions"][0]["text"] == "Which of the two files?"
    assert "Which of the two files?" in done.err


FAILURES = {
    "401": (
        Refusal(401, {"error": {"message": "Incorrect API key"}}),
        ["401", "Incorrect API key", "Check the API key"],
    ),
    "404": (Refusal(404, {"error": {"message": "no such model"}}), ["404", "no such model", "--model"]),
    "429": (Refusal(429, "slow down", {"retry-after": "7"}), ["429", "retry after 7 s"]),
    "500": (Refusal(500, "<html>oops</html>"), ["500", "oops"]),
    "no stream": (Refusal(200, "<html>Welcome</html>", {"content-type": "text/html"}), ["Welcome"]),
    "bad chunk": ([b"data: {not json}\n\n"], ["not json"]),
    "cut": (["Half of", CUT], ["broke off"]),
    "no end": (["Half of", NO_END], ["finish reason"]),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_whatever_the_provider_answers_is_a_failed_run_with_a_clear_word(case: str) -> None:
    response, words = FAILURES[case]
    async with ChatServer(response) as server:
        done = await run(server, "--json", "--retries", "0")
    assert (done.code, done.json["status"], done.json["stop_reason"]) == (4, "failed", "provider_error")
    assert [word for word in words if word not in done.err] == []
    assert "Traceback" not in done.err


async def test_what_may_pass_is_asked_again_and_what_may_not_is_not() -> None:
    script = [Refusal(429, "slow down", {"retry-after": "0"}), ["Half of", CUT], "All of it."]
    async with ChatServer(*script) as server:
        done = await run(server, "--json")
    assert (done.code, done.json["answer"], done.json["steps"], done.json["requests"]) == (0, "All of it.", 1, 3)
    assert "attempt 1.2 is void" in done.err
    async with ChatServer(FAILURES["401"][0], "never") as server:
        refused = await run(server)
        assert (refused.code, len(server.requests)) == (4, 1)


async def test_a_response_that_never_ends_is_given_up() -> None:
    async with ChatServer(["On and", STALL]) as server:
        done = await run(server, "--response-timeout", "0.5", "--retries", "0")
    assert done.code == 4
    assert "the response was not complete within 0.5 s" in done.err


async def test_a_refused_connection_names_the_place() -> None:
    with held_port() as port:
        done = await endstop("run", "Hi", "--model", "m", "--api-base", f"http://127.0.0.1:{port}/v1", "--json")
    assert (done.code, done.json["stop_reason"]) == (4, "provider_error")
    assert f"127.0.0.1:{port}" in done.err


# ---- wrong use, before any request


def _policy(folder: Path, text: str) -> Path:
    (folder / "policy.toml").write_text(text)
    return folder / "policy.toml"


def _bytes(folder: Path) -> Path:
    (folder / "policy.toml").write_bytes(b"\xff\xfe\x00")
    return folder / "policy.toml"


WRONG = {
    "no prompt in the pipe": (lambda folder: [], "prompt is empty"),
    "an empty prompt": (lambda folder: ["  "], "prompt is empty"),
    "no tokens": (lambda folder: ["Hi", "--max-tokens", "0"], "--max-tokens is 0: use 1 or more"),
    "no steps": (lambda folder: ["Hi", "--max-steps", "0"], "--max-steps is 0: use 1 or more"),
    "steps in words": (lambda folder: ["Hi", "--max-steps", "many"], "--max-steps"),
    "an unknown policy": (lambda folder: ["Hi", "--policy", "agnet"], "did you mean 'agent'"),
    "a policy file that is missing": (lambda folder: ["Hi", "--policy", "my.toml"], "my.toml: no such file"),
    "a policy that is a folder": (lambda folder: ["Hi", "--policy", folder], "is a folder"),
    "a policy that is no text": (lambda folder: ["Hi", "--policy", _bytes(folder)], "it is not UTF-8 text"),
    "a policy from a list": (lambda folder: ["Hi", "--policy", _policy(folder, "base = ['a']")], "unknown base ['a']"),
    "a policy with an unknown key": (
        lambda folder: ["Hi", "--policy", _policy(folder, "[limits]\nstep = 3")],
        "policy.toml, [limits]: unknown key 'step' (did you mean 'steps'?)",
    ),
    "a policy that is no TOML": (lambda folder: ["Hi", "--policy", _policy(folder, "limits")], "not valid TOML"),
    "a policy with a wrong value": (
        lambda folder: ["Hi", "--policy", _policy(folder, "[limits]\nsteps = 0")],
        "policy.toml: limits.steps is 0",
    ),
    "a policy that needs what is not offered": (
        lambda folder: ["Hi", "--policy", "strict", "--no-presets"],
        "no completion tool is offered",
    ),
    "a limit on cost where no price is known": (
        lambda folder: ["Hi", "--policy", _policy(folder, "[limits]\ncost_usd = 1")],
        "give its price with",
    ),
    "a price that is none": (lambda folder: ["Hi", "--price", "cheap"], "--price cheap: write IN,OUT"),
    "a price of one number": (lambda folder: ["Hi", "--price", "3"], "--price 3: write IN,OUT"),
    "a price below zero": (lambda folder: ["Hi", "--price", "3,-1"], "--price 3,-1: write IN,OUT"),
    "an unknown provider": (lambda folder: ["Hi", "--provider", "bedrock"], "'bedrock'"),
    "an api-base that is no URL": (lambda folder: ["Hi", "--api-base", "localhost:80"], "is not a URL"),
    "a workspace that is missing": (lambda folder: ["Hi", "--workspace", folder / "none"], "does not exist"),
    "a workspace that is a file": (lambda folder: ["Hi", "--workspace", _policy(folder, "")], "not a folder"),
    "commands without a workspace": (lambda folder: ["Hi", "--allow-run"], "--workspace DIR"),
    "a tools file that is missing": (lambda folder: ["Hi", "--tools", "nowhere.py"], "nowhere.py: no such file"),
    "a tools module that is missing": (
        lambda folder: ["Hi", "--tools", "no.such"],
        "neither a Python file nor an importable module",
    ),
    "a record in a folder that is missing": (lambda folder: ["Hi", "--record", folder / "a" / "b"], "No such file"),
    "draining into nothing": (lambda folder: ["Hi", "--drain"], "--record FILE"),
    "an unknown option": (lambda folder: ["Hi", "--no-such-thing"], "--no-such-thing"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_use_exits_with_2_before_any_request(case: str, tmp_path: Path) -> None:
    arguments, word = WRONG[case]
    async with ChatServer("Hello.") as server:
        done = await endstop("run", *model(server), *arguments(tmp_path), cwd=tmp_path)
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert word in done.err
    assert "Traceback" not in done.err


async def test_a_model_must_be_named() -> None:
    done = await endstop("run", "Hi")
    assert (done.code, done.out) == (2, "")
    assert "--model" in done.err


async def test_a_model_that_litellm_does_not_know_is_wrong_use() -> None:
    done = await endstop("run", "Hi", "--model", "no-such-model")
    assert (done.code, done.out) == (2, "")
    assert "no-such-model" in done.err
    assert "provider/model" in done.err


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["--model", "anthropic/claude-sonnet-4-5"], "ANTHROPIC_API_KEY"),
        (["--model", "gemini/gemini-2.5-flash"], "GEMINI_API_KEY"),
        (["--model", "gpt-4o", "--provider", "openai"], "OPENAI_API_KEY"),
    ],
)
async def test_a_missing_key_names_its_variable(arguments: list[str], variable: str, tmp_path: Path) -> None:
    done = await endstop("run", "Hi", *arguments, "--record", tmp_path / "r.jsonl")
    assert (done.code, done.out) == (2, "")
    assert variable in done.err
    assert not (tmp_path / "r.jsonl").exists()


async def test_a_file_that_holds_a_record_is_not_written_to(tmp_path: Path) -> None:
    async with ChatServer("Hello.", "Hello again.") as server:
        first = await run(server, "--record", tmp_path / "r.jsonl")
        before = (tmp_path / "r.jsonl").read_bytes()
        second = await run(server, "--record", tmp_path / "r.jsonl")
    assert (first.code, second.code, len(server.requests)) == (0, 2, 1)
    assert (tmp_path / "r.jsonl").read_bytes() == before


def test_version_and_wrong_use_import_nothing_heavy() -> None:
    code = """if True:
        import sys
        from endstop.cli.main import main
        for arguments in (["--version"], ["run", "--max-steps", "0", "--model", "m"], ["run", "Hi"]):
            try:
                main(arguments)
            except SystemExit:
                pass
        print(sorted({"litellm", "rich", "aiohttp", "structlog"} & set(sys.modules)), file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("endstop ")
    assert done.stderr.endswith("[]\n")


RECORD = Path(__file__).parents[2] / "records" / "hello.jsonl"


@pytest.mark.parametrize(
    "words",
    [
        ("replay", RECORD), ("report", RECORD), ("backtest", RECORD, "--policy", "strict"), ("audit", RECORD),
        ("export", "openai", RECORD), ("redact", RECORD, "-o", "redacted"), ("import", "--help"), ("race", "--help"),
        ("worker", "--help"), ("run", "--help"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
async def test_each_command_does_its_work_in_an_interpreter_that_has_imported_nothing(
    words: tuple[object, ...], tmp_path: Path
) -> None:
    """As users start it; other tests of this folder fork (`tests/forked.py`)."""
    async with newly_started(*words, cwd=tmp_path) as process:
        done = await ended(process)
    assert done.code == 0, done.err
    assert done.out or words[0] == "redact"


async def test_a_server_serves_in_an_interpreter_that_has_imported_nothing(tmp_path: Path) -> None:
    async with newly_started("serve", "--port", 0, "--store", "kept.db", cwd=tmp_path) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert b"http://" in await process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        done = await ended(process)
    assert (done.code, done.err) == (0, "")


def test_the_command_is_also_a_module() -> None:
    command = [sys.executable, "-m", "endstop.cli.main", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("endstop ")


@pytest.mark.parametrize("where", ["main", "another"])
async def test_a_program_that_calls_it_keeps_its_own_threads_and_goes_on(where: str, tmp_path: Path) -> None:
    """Only what the command itself has left hanging is a reason to leave the process."""
    code = f"""if True:
        import threading
        from endstop.cli.main import main

        over, codes = threading.Event(), []
        other = threading.Thread(target=over.wait)
        other.start()
        work = lambda: codes.append(main(["serve", "--port", "70000"]))
        if {where == "main"}:
            work()
        else:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        print(codes, other.is_alive())
        over.set()
    """
    (tmp_path / "program.py").write_text(code)
    done = await python(tmp_path / "program.py", cwd=tmp_path)
    assert (done.code, done.out) == (0, "[2] True\n"), done.err


# ---- Ctrl-C


@pytest.mark.parametrize(("number", "cause"), [(signal.SIGINT, "interrupt"), (signal.SIGTERM, "shutdown")])
async def test_a_signal_in_mid_stream_ends_cleanly_with_130(tmp_path: Path, number: int, cause: str) -> None:
    record = tmp_path / "r.jsonl"
    async with ChatServer(["One moment", STALL]) as server:
        start = newly_started if number == signal.SIGINT else started
        async with start("run", "Hi", *model(server), "--json", "--record", record) as process:
            async with asyncio.timeout(60):
                await server.stalled.wait()
            process.send_signal(number)
            done = await ended(process)
        async with asyncio.timeout(60):
            await server.left.wait()
    assert (done.code, done.json["status"]) == (130, "cancelled")
    last = read_record(record).runs[0].finished
    assert last is not None
    assert cause in last.outcome.detail
    assert (await endstop("replay", record)).code == 0


HANGING = """
import threading
from endstop import tool

@tool(timeout=None)
def hang(fifo: str) -> str:
    "Never return."
    with open(fifo, "w") as file:
        file.write("in")
    threading.Event().wait()

@tool(timeout=None)
async def stubborn(fifo: str) -> str:
    "Swallow every cancellation."
    import asyncio
    with open(fifo, "w") as file:
        file.write("in")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("swallowed", flush=True)
"""


async def _inside(fifo: Path) -> None:
    """Wait until the tool has said that it hangs."""
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(fifo.read_text) == "in"


async def test_a_signal_while_a_tool_hangs_in_its_thread_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(HANGING)
    record, fifo = tmp_path / "r.jsonl", tmp_path / "fifo"
    os.mkfifo(fifo)
    async with ChatServer([call("hang", fifo=str(fifo))]) as server:
        arguments = (*model(server), "--json", "--record", record, "--tools", tmp_path / "tools.py")
        async with started("run", "Hi", *arguments) as process:
            await _inside(fifo)
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                done = await ended(process)
    assert (done.code, done.json["status"]) == (130, "cancelled")
    recorded = read_record(record)
    assert recorded.damaged == []
    assert recorded.runs[0].finished is not None


async def test_the_second_signal_leaves_at_once_whatever_a_tool_does(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(HANGING)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with ChatServer([call("stubborn", fifo=str(fifo))]) as server:
        arguments = (*model(server), "--record", tmp_path / "r.jsonl", "--tools", tmp_path / "tools.py")
        async with started("run", "Hi", *arguments) as process:
            await _inside(fifo)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            async with asyncio.timeout(60):
                while b"swallowed" not in await process.stderr.readline():
                    pass
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                done = await ended(process)
    assert done.code == 130


INTERRUPTED = """
import os, signal, sys
from importlib.abc import MetaPathFinder

module, sys.argv[1:] = sys.argv[1], ["run", "Hi", "--model", "m"]

class Interrupts(MetaPathFinder):
    "Sends what Ctrl-C sends as soon as this module is looked for."

    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from endstop.cli.console_script import main

sys.exit(main())
"""


@pytest.mark.parametrize("module", ["endstop.cli.main", "endstop.cli.parser", "endstop.cli.run", "endstop.engine"])
def test_ctrl_c_during_the_imports_ends_with_130_and_no_traceback(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "endstop: interrupted\n")


# ---- replay


async def _recorded(folder: Path) -> Path:
    (folder / "config.yaml").write_text("port: 3000\n")
    edit = call("edit_file", path="config.yaml", old="3000", new="8080")
    async with ChatServer(
        [call("read_file", path="config.yaml")], [edit, call("finish_task", summary=SUMMARY)]
    ) as server:
        done = await run(server, "--workspace", folder, "--record", folder / "r.jsonl")
    assert done.code == 0
    return folder / "r.jsonl"


async def test_a_replay_decides_the_same_without_touching_anything(tmp_path: Path) -> None:
    record = await _recorded(tmp_path)
    (tmp_path / "config.yaml").unlink()
    done = await endstop("replay", record, "--json")
    assert (done.code, done.json["same"], done.json["runs"][0]["divergence"]) == (0, True, None)
    assert done.json["runs"][0]["outcome"]["answer"] == SUMMARY
    assert os.listdir(tmp_path) == ["r.jsonl"]


async def test_a_replay_with_live_tools_does_the_work_again(tmp_path: Path) -> None:
    record = await _recorded(tmp_path)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "config.yaml").write_text("port: 3000\n")
    done = await endstop("replay", record, "--live-tools", "--workspace", tmp_path / "again")
    assert (done.code, (tmp_path / "again" / "config.yaml").read_text()) == (0, "port: 8080\n")
    assert "the same" in done.out


async def test_a_record_that_was_changed_diverges_with_exit_code_1(tmp_path: Path) -> None:
    record = await _recorded(tmp_path)
    record.write_text(record.read_text().replace('"reason":"completed"', '"reason":"text_final"'))
    done = await endstop("replay", record)
    assert done.code == 1
    assert "the record says stop(text_final), the replay stop(completed)" in done.out


async def test_what_is_no_record_exits_with_2(tmp_path: Path) -> None:
    header = {"type": "HEADER", "format": "endstop-record", "version": "4.0", "session_id": "s"}
    cases = {"text.jsonl": "hello\n", "newer.jsonl": json.dumps(header) + "\n", "empty.jsonl": ""}
    for name, text in cases.items():
        (tmp_path / name).write_text(text)
    done = [await endstop("replay", tmp_path / name) for name in (*cases, "missing.jsonl")]
    assert [(d.code, d.out) for d in done] == [(2, "")] * 4
    assert "upgrade endstop" in done[1].err
    assert "No such file" in done[3].err


async def test_tools_without_live_tools_are_wrong_use(tmp_path: Path) -> None:
    done = await endstop("replay", await _recorded(tmp_path), "--workspace", tmp_path)
    assert done.code == 2
    assert "--live-tools" in done.err


async def test_claude_is_reached_on_its_own_wire_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    """Also when its record is resumed: the name stands in it as it was given."""
    record = tmp_path / "r.jsonl"
    async with MessagesServer() as url:
        given = ("--provider", "anthropic", "--api-base", url, "--record", record, "--json")
        done = await endstop("run", "Hi", "--model", "anthropic/claude-sonnet-4-5", *given, env=KEY)
        assert (done.code, done.json["answer"]) == (0, "Hello from claude-sonnet-4-5 with 32000 tokens and key sk-t.")
    (recorded,) = read_record(record).runs
    assert recorded.started.model == "anthropic/claude-sonnet-4-5"
    assert isinstance(build_provider("anthropic/claude-sonnet-4-5", None, None), Anthropic)
    assert isinstance(build_provider("anthropic/claude-sonnet-4-5", None, "litellm"), LiteLLM)
    assert isinstance(build_provider("anthropic/claude-sonnet-4-5", "http://127.0.0.1/v1", None), OpenAICompatible)


KEY = {"ANTHROPIC_API_KEY": "sk-t"}


class MessagesServer:
    """Says in Anthropic's format who was asked, with what limit and which key."""

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_post("/v1/messages", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        said = f"Hello from {asked['model']} with {asked['max_tokens']} tokens and key {request.headers['x-api-key']}."
        content = [{"type": "text", "text": said}]
        usage = {"input_tokens": 9, "output_tokens": 9}
        return web.json_response({"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage})
