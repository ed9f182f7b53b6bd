"""What a call does, and what its result says. The cases are made by hand; no sentence is from a recorded session."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from endstop.decision.call_effects import call_effect, effect_of
from endstop.decision.call_results import CallEnd, call_end, exit_code, has_failed, has_passed
from endstop.decision.call_verbs import Effect
from endstop.decision.shell_commands import MAX_LENGTH
from hypothesis import given, settings
from hypothesis import strategies as st

SHELL = {
    "reads": (
        "ls -la src", "cat setup.cfg", "cd lib && grep -rn 'def parse' . | head -20", "sed -n '10,40p' app.py",
        "find . -name '*.java' -type f 2>/dev/null", "git status --short", "git log --oneline | head",
        "git diff HEAD~1",
        "git -C repo show HEAD:README.md", "echo hello", "echo 'a > b'", 'echo "x; rm -rf /"', "cat a.txt 2>&1",
        "ls missing > /dev/null 2>&1", "nl -ba a.py | sed -n 1,5p", "awk '{print $1 > 0}' data.txt",
        "jq '.a > 3' f.json",
        "for f in *.py; do wc -l $f; done", "if [ -f a ]; then cat a; fi", "export A=1", "A=1",
        "total=$(wc -l < a.txt)",
        "curl -s http://localhost:8000/health", "tar -tzf a.tgz", "unzip -l a.zip", "pip list | grep attrs",
        "docker ps", "kubectl get pods -n web", "python --version", "diff <(sort a) <(sort b)", "which mvn javac",
        "source env/bin/activate && ls", "x=5; echo $((x > 3))", "git stash list", "npm ls --depth=0",
        "apt-cache search jq",
        "ls # > out.txt", "wget -qO- http://localhost/x", "test -f a && echo yes", "git branch --show-current",
        "names=()\nnames+=(\"$a b\")\necho $names", "node cli.js add --help", "service web status", "./run.sh --help",
        "python -c 'print(1)'", "python - <<'EOF'\nprint([].append(1))\nEOF", "dd if=a bs=1 count=4 2>/dev/null",
    ),
    "changes": (
        "echo x > a.txt", "echo x >> a.txt", "cat > a.py <<'EOF'\nprint(1)\nEOF", "cat <<EOF > a.py\nrm -rf b\nEOF",
        "sed -i 's/a/b/' f.py", "sed -i.bak -e 's/a/b/' f.py", "sed -Ei 's/a/b/' f.py", "perl -pi -e 's/a/b/' f.py",
        "ls | tee files.txt", "ls | tee -a 'my file.txt'",
        "mv a b", "cp -r a b", "rm -rf build", "mkdir -p a/b", "touch a",
        "patch -p1 < fix.diff",
        "git apply fix.diff", "git checkout -- a.py", "git commit -am 'done'", "git stash", "git restore a.py",
        "pip install -e .", "python -m pip install attrs", "npm install", "npm ci", "yarn add left-pad",
        "sudo apt-get install -y jq", "cargo add serde", "go get ./...", "chmod +x run.sh", "cd a && rm b",
        "FOO=1 BAR=2 touch a", "python - <<'EOF'\nopen('a.txt', 'w').write('x')\nEOF",
        "python3 -c \"from pathlib import Path; Path('a').write_text('x')\"",
        "node -e \"require('fs').writeFileSync('a.txt', 'x')\"", "bash -c 'rm a'", "bash -lc \"echo x > a\"",
        "find . -name '*.tmp' -delete", "find . -name '*.pyc' -exec rm {} +", "find . -name a | xargs rm -f",
        "find old -type f -exec rm {} \\;",
        "if true; then rm a; fi", "for f in *; do mv $f x_$f; done", "curl -o a.tgz http://localhost/a.tgz",
        "curl -X POST http://localhost/orders -d '{}'", "wget http://localhost/a", "tar xzf a.tgz", "black src",
        "ruff check --fix .", "ruff format .", "eslint --fix src", "prettier --write a.ts", "gofmt -w a.go",
        "cat > t.py <<EOF\nimport a\nEOF\npython t.py", "(cd a; rm b)", "x=$(rm a)", "make install",
        "kubectl apply -f a.yml",
        "timeout 30 rm a", "env A=1 rm a", "sort -u a > b && mv b a", "awk -i inplace '{print}' a",
        "ed -s a.py < script",
        "dd if=a of=b", "./configure --prefix /opt", "cmake -S . -B build",
    ),
    "checks": (
        "pytest -q", "python -m pytest tests/test_a.py -x", "python -m unittest discover", "tox -e py311", "mvn test",
        "mvn -q -pl core clean verify", "./mvnw test", "./gradlew :core:test --tests 'A.b'", "gradle build",
        "go test ./...",
        "go vet ./...", "cargo test --lib", "cargo check", "npm test", "npm run test:unit", "yarn test",
        "pnpm run lint",
        "npx jest a.test.ts", "vitest run", "make test", "make", "make clean && make", "make -j8 check",
        "ctest --output-on-failure",
        "bundle exec rspec", "vendor/bin/phpunit", "dotnet test", "ruff check .", "mypy src", "npx tsc --noEmit",
        "eslint src", "javac -cp . A.java", "cd core && pytest -q 2>&1 | tail -20", "PYTHONPATH=src pytest",
        "timeout 60 pytest", "uv run pytest", "poetry run pytest -q", "python manage.py test app",
        "python tests/runtests.py a",
        "python test_fix.py", "gcc -Wall a.c -o a", "cmake --build build",
        "pytest > /tmp/log.txt 2>&1; tail /tmp/log.txt",
        "pytest | tee out.log", "bash -c 'pytest -q'", "black --check .", "shellcheck a.sh", "coverage run -m pytest",
        "python -m mypy src", "sbt test", "rake spec", "bin/test sympy/core",
        "python setup_fast.py build_ext --inplace",
    ),
    "waits": ("sleep 30", "sleep 5 && cat log.txt", "wait"),
    "unknown": (
        "python reproduce.py", "./run.sh", "node app.js", "java -jar a.jar", "git add -A",
        "python -c 'import subprocess; subprocess.run(x)'",
        "bash build_all.sh", "psql -c 'select 1'",
    ),
}  # fmt: skip

TOOLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("read_file", {"path": "a.py"}, "reads"),
    ("Read", {"file_path": "/a.py"}, "reads"),
    ("view", {"path": "a.py"}, "reads"),
    ("Grep", {"pattern": "rm -rf"}, "reads"),
    ("Glob", {"pattern": "**/*.py"}, "reads"),
    ("codebase_search", {"query": "delete user"}, "reads"),
    ("list_code_definition_names", {"path": "."}, "reads"),
    ("WebFetch", {"url": "http://localhost"}, "reads"),
    ("get_user_details", {"user_id": "u1"}, "reads"),
    ("find_user_id_by_email", {"email": "a@example.org"}, "reads"),
    ("mcp__shop__get_order", {"id": 1}, "reads"),
    ("get_order", {"order_id": "#W7"}, "reads"),
    ("mcp__fs__read_text", {"path": "a"}, "reads"),
    ("searchFlights", {"to": "OSL"}, "reads"),
    ("calculate", {"expression": "2+2"}, "reads"),
    ("list_all_product_types", {}, "reads"),
    ("browser", {"action": "snapshot"}, "reads"),
    ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, "reads"),
    ("str_replace_editor", {"command": "view", "path": "a.py", "view_range": [1, 9]}, "reads"),
    ("notes", {"command": "view", "path": "a.md"}, "reads"),
    ("open", {"command": "open src/a.py 120"}, "reads"),
    ("search_dir", {"command": "search_dir 'rm' src"}, "reads"),
    ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, "changes"),
    ("Edit", {"file_path": "/a.py", "old_string": "a", "new_string": "b"}, "changes"),
    ("MultiEdit", {"file_path": "/a.py", "edits": []}, "changes"),
    ("Write", {"file_path": "/a.py", "content": "x"}, "changes"),
    ("write_to_file", {"path": "a.py", "content": "x"}, "changes"),
    ("replace_in_file", {"path": "a.py", "diff": "x"}, "changes"),
    ("search_and_replace", {"path": "a.py"}, "changes"),
    ("find_and_replace_text", {"document": "d1"}, "changes"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/a.py\n@@\n"}, "changes"),
    ("apply_patch", {"patch": "--- a/x.c\n+++ b/x.c\n@@"}, "changes"),
    ("apply_patch", {"command": "cat a.py", "patch": "--- a/x.c\n+++ b/x.c\n@@"}, "changes"),
    ("apply_patch", {"command": "cat a.py", "input": "a.py"}, "reads"),
    ("edit", {"command": "cat a.py", "path": "a.py"}, "changes"),
    ("edit", {"command": "cat a.py", "path": ""}, "reads"),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a.py"}, "changes"),
    ("str_replace_editor", {"command": "create", "path": "/b.py"}, "changes"),
    ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "changes"),
    ("memory", {"command": "delete", "path": "/memories/a"}, "changes"),
    ("edit", {"command": "edit 1:2\nimport os; ls\nend_of_edit"}, "changes"),
    ("create", {"command": "create a.py"}, "changes"),
    ("book_reservation", {"user_id": "u1"}, "changes"),
    ("cancel_pending_order", {"order_id": "#W1", "reason": "ordered by mistake"}, "changes"),
    ("updateCustomer", {"id": "c1"}, "changes"),
    ("send_certificate", {"user_id": "u1", "amount": 100}, "changes"),
    ("mcp__shop__modify_user_address", {"user_id": "u1"}, "changes"),
    ("transfer_to_human_agents", {"summary": "s"}, "changes"),
    ("delete_file", {"target_file": "a.py"}, "changes"),
    ("run_tests", {"path": "tests"}, "checks"),
    ("Bash", {"command": "npm test"}, "checks"),
    ("execute_bash", {"command": "pytest"}, "checks"),
    ("run_terminal_cmd", {"command": "tsc --noEmit"}, "checks"),
    ("shell", {"command": ["bash", "-lc", "cd a && cargo test"]}, "checks"),
    ("shell", {"command": ["pytest", "-q"]}, "checks"),
    ("exec_command", {"cmd": "rg -n todo"}, "reads"),
    ("shell", {"command": ["rg", "a;b > c"]}, "reads"),
    ("bash", {"commands": "echo x > /a\ncat /a"}, "changes"),
    ("bash", {"commands": ["cd a", "touch b"]}, "changes"),
    ("devbox", {"command": "rm a"}, "changes"),
    ("python", {"code": "open('a.csv', 'w')"}, "changes"),
    ("execute_ipython_cell", {"code": "print(df.head())"}, "reads"),
    ("BashOutput", {"bash_id": "b1"}, "waits"),
    ("process", {"action": "poll", "sessionId": "s"}, "waits"),
    ("sleep", {"seconds": 3}, "waits"),
    ("attempt_completion", {"result": "done"}, "controls"),
    ("submit", {}, "controls"),
    ("TodoWrite", {"todos": []}, "controls"),
    ("update_plan", {"plan": []}, "controls"),
    ("think", {"thought": "rm -rf"}, "controls"),
    ("ask_followup_question", {"question": "which?"}, "controls"),
    ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A"}, "controls"),
    ("Task", {"prompt": "delete it"}, "unknown"),
    ("frobnicate", {"x": 1}, "unknown"),
    ("use_mcp_tool", {"server_name": "s", "tool_name": "get_weather"}, "reads"),
    ("use_mcp_tool", {"server_name": "s", "tool_name": "create_issue"}, "changes"),
)


@pytest.mark.parametrize(
    ("command", "wanted"), [(command, effect) for effect, commands in SHELL.items() for command in commands]
)
def test_what_a_shell_command_does(command: str, wanted: str) -> None:
    assert effect_of("bash", json.dumps({"command": command})) == wanted


@pytest.mark.parametrize(("name", "arguments", "wanted"), TOOLS)
def test_what_a_call_does(name: str, arguments: dict[str, Any], wanted: str) -> None:
    assert effect_of(name, json.dumps(arguments)) == wanted


def test_what_is_declared_counts_before_what_a_name_says() -> None:
    assert effect_of("update_view", "{}", reads=True) == "reads"
    assert effect_of("frobnicate", "{}", reads=True) == "reads"
    assert effect_of("frobnicate", "{}", reads=False) == "changes"
    assert effect_of("get_user", "{}", reads=False) == "reads"
    assert effect_of("bash", '{"command": "python a.py"}', reads=False) == "unknown"
    assert effect_of("run_tests", "{}", reads=True) == "checks"


def test_a_command_can_change_and_check() -> None:
    found = call_effect("bash", json.dumps({"command": "sed -i s/a/b/ a.py && pytest -q"}))
    assert (found.effect, found.checks) == ("changes", True)
    assert not call_effect("bash", json.dumps({"command": "sed -i s/a/b/ a.py"})).checks


def test_arguments_that_are_no_json_are_the_command_of_a_shell() -> None:
    assert effect_of("bash", "rm a") == "changes"
    assert effect_of("bash", "{not json") == "unknown"
    assert effect_of("apply_patch", "*** Begin Patch\n*** Add File: a.py\n") == "changes"


FAILED = (
    "Error: reservation not found", "ERROR: no such order",
    "Traceback (most recent call last):\n  File 'a'\nKeyError: 'x'",
    "/bin/bash: line 1: mvn: command not found", "cat: a.txt: No such file or directory",
    "<returncode>1</returncode>\nx",
    "<returncode>127</returncode>\n<output>\n</output>", '{"output": "boom", "metadata": {"exit_code": 2}}',
    "some output\n[exit code: 1]", "Exit code 1\nboom", "exit code 2\nusage", "out\n\n(Command exited with code 1)",
    '{"error": "not found"}', '{"status": "error", "tool": "read", "error": "EISDIR"}', '{"success": false}',
    "Your proposed edit has introduced new syntax error(s). Please read", "[INFO] x\n[INFO] BUILD FAILURE\n[INFO] y\n"
    "[ERROR] Failed to execute goal", "Usage: edit <start_line>:<end_line>", "fatal: not a git repository",
    "Compiling a\nerror[E0308]: mismatched types\n --> a.rs:1", "a.c:3:5: error: expected ';'\n",
    "E: Unable to locate package jq", "make: *** [Makefile:3: all] Error 2",
    "<tool_use_error>String to replace not found",
    "starting\nException in thread \"main\" java.lang.NullPointerException\n\tat A.b(A.java:3)",
    "killed by signal 9 (KILL)\nx",
    "No session found for 12", "\nEXECUTION TIMED OUT", 'Validation failed for tool "edit":\n  - edits: must be array',
    "configure: error: no compiler",
    '{"content": [], "isError": true}', '{"id": 1, "is_error" : true}', '{"data": {"ok": false}}',
    "Permission denied", "validation failed\nValueError: bad", "Process exited with code 137.", "returncode=2",
)  # fmt: skip
FINE = (
    "", "ok", "a.py\nerror.py\nerrors.txt\ntest_failed.py",
    "<returncode>0</returncode>\n<output>\nerror: shown\n</output>",
    "<returncode>1</returncode>\n<output>\n</output>", "exit code 1\n(no output)",
    '{"output": "", "metadata": {"exit_code": 1}}',
    "exit code 0\nTraceback of a ray", '{"exit_code": 0, "output": "error"}', '{"error": null, "data": [1]}',
    '{"data": {"error": "x"}}', '{"ok": true, "status": "done", "success": true, "is_error": false}',
    "[File: a.py]",
    "[File: /a/errors.py (10 lines total)]\n1:raise ValueError\n2:# error: x",
    "class NotFound(Exception):\n    pass\n",
    '{"items": [{"message": "error in item"}]}', "3 passed in 0.1s", "a.py:12:    raise KeyError('x')",
    "The file /a.py has been edited.\n     1\terror", "Successfully replaced 1 block(s).",
    "12 files searched, none found",
    "def error(message):\n    print(message)\n", "Process exited with code 0.",
    "Errors are listed in the second chapter.",
    "commit abc\n    Fix error: bad quoting", "   575\t    raise ValueError('Error: x')", "0 errors, 0 warnings",
)  # fmt: skip


@pytest.mark.parametrize("content", FAILED)
def test_a_result_that_says_that_the_call_failed(content: str) -> None:
    assert has_failed(content)


@pytest.mark.parametrize("content", FINE)
def test_a_result_that_does_not_say_that_the_call_failed(content: str) -> None:
    assert not has_failed(content)


def test_the_status_of_a_result_counts_first() -> None:
    assert has_failed("fine", "error")
    assert has_failed("", "invalid")
    assert not has_failed("", "rejected")
    assert not has_failed("fine", "ok")
    assert has_failed("Exit code 1\nboom", "ok")


def test_what_was_read_is_not_what_happened() -> None:
    log = "start\nTraceback (most recent call last):\n  x\nKeyError: 'a'\n"
    assert has_failed(log)
    assert not has_failed(log, effect="reads")
    assert has_failed("grep: a.txt: No such file or directory", effect="reads")


TRACEBACK = 'Traceback (most recent call last):\n  File "{}", line 3, in <module>\n    f()\n    ~^^\nValueError: x'


@pytest.mark.parametrize(
    ("content", "effect", "wanted"),
    [
        ("<returncode>0</returncode>\n<output>\na\n</output>", "unknown", "succeeded"),
        ("a\n\nProcess exited with code 0.", "reads", "succeeded"),
        ("<returncode>2</returncode>\n<output>\n</output>", "reads", "failed"),
        ("<returncode>1</returncode>\n<output>\n</output>", "reads", "nothing_found"),
        ("\n\n(Command exited with code 1)", "unknown", "nothing_found"),
        ("", "reads", "unknown"),
        ("class A:\n    pass\n", "reads", "unknown"),
        ('{"order": 1, "status": "completed"}', "reads", "unknown"),
        ('{"success": true, "output": "a"}', "unknown", "succeeded"),
        ('{"content": [], "isError": false}', "unknown", "succeeded"),
        ("The file /a/b.py has been edited. Here is a snippet:\n  1\tx", "changes", "succeeded"),
        ("The file /a/b.py does not exist", "changes", "failed"),
        ("File created successfully at: /a/b.py", "changes", "succeeded"),
        ("Successfully wrote 3 bytes to /a", "changes", "succeeded"),
        ("Your command ran successfully and did not produce any output.", "changes", "unknown"),
        ("Archive created successfully\ntar: invalid option -- 'C'", "changes", "failed"),
        ("Created a.txt\ncat: b.txt: No such file or directory", "changes", "unknown"),
        ("Script created successfully.", "changes", "unknown"),
        ("Todos have been modified successfully.", "controls", "succeeded"),
        ("Ran 0 tests in 0.000s\n\nOK", "checks", "unknown"),
        ("12 passed in 0.3s", "checks", "succeeded"),
        ("12 passed in 0.3s", "reads", "unknown"),
        (TRACEBACK.format("a.py"), "unknown", "failed"),
        (f"start\n{TRACEBACK.format('a.py')}\n</output>\n(Command exited with code 0)", "unknown", "failed"),
        (f"<returncode>0</returncode>\n{TRACEBACK.format('a.py')}", "checks", "failed"),
        (f"<returncode>0</returncode>\n{TRACEBACK.format('a.py')}\nthe next line", "unknown", "succeeded"),
        (f"start\n{TRACEBACK.format('a.py')}", "reads", "unknown"),
        (f"start\n{TRACEBACK.format('<string>')}", "reads", "failed"),
        ("sh: 1: jq: command not found", "unknown", "failed"),
    ],
)
def test_how_a_call_ended_is_said_by_its_result_or_is_unknown(content: str, effect: Effect, wanted: str) -> None:
    assert call_end(content, "ok", effect) == wanted
    assert has_failed(content, "ok", effect) == (wanted == "failed")


def test_an_exit_code_in_what_was_read_is_none_of_the_call() -> None:
    script = "#!/bin/sh\n# 3) leaves with exit code 4\nfalse"
    assert exit_code(script) == 4
    assert exit_code(script, alone=True) is None
    assert exit_code("x\n[exit code: 4]", alone=True) == 4
    assert exit_code("    print(proc.returncode)\n    28\treturn 1") is None


def test_exit_codes() -> None:
    assert exit_code("Exit code 3\nx") == 3
    assert exit_code("x\n" * 1000 + "Process exited with code 0.") == 0
    assert exit_code("x\n" * 1000 + "exit code 1\n" + "x\n" * 1000) is None
    assert exit_code("") is None
    assert [exit_code(f"{words} 4") for words in ("returncode", "Return code:", "return_code =", "return-code")] == [
        4
    ] * 4
    assert exit_code("Exited with exit code 5") == 5
    assert exit_code("exit code 5, exit code 6" + "y" * 300) == 5
    assert exit_code("y" * 300 + "exit code 5, exit code 6") == 6
    assert exit_code("exits and returns") is None


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("==== 12 passed in 0.3s ====", True),
        ("==== 1 failed, 11 passed in 0.3s ====", False),
        ("2 errors in 0.4s", False),
        ("[INFO] BUILD SUCCESS", True),
        ("[INFO] BUILD FAILURE", False),
        ("Ran 5 tests in 0.1s\n\nOK", True),
        ("OK (5 tests)", True),
        ("Ran 5 tests in 0.1s\n\nFAILED (failures=1)", False),
        ("ok  \texample.org/a\t0.02s", True),
        ("--- FAIL: TestA (0.00s)\nFAIL", False),
        ("Tests:       3 passed, 3 total", True),
        ("Tests:       1 failed, 2 passed, 3 total", False),
        ("test result: ok. 4 passed; 0 failed; 0 ignored", True),
        ("test result: FAILED. 3 passed; 1 failed", False),
        ("Success: no issues found in 3 source files", True),
        ("a.py:1: error: bad\nFound 1 error in 1 file", False),
        ("All checks passed!", True),
        ("a.ts(1,2): error TS2322: no", False),
        ("no tests ran in 0.01s", None),
        ("Ran 0 tests in 0.000s", None),
        ("", None),
        ("<returncode>0</returncode>\n<output>\n</output>", True),
        ("<returncode>2</returncode>\n<output>\n</output>", False),
        ("<returncode>0</returncode>\n1 failed, 2 passed", False),
        ("3 examples, 0 failures", True),
        ("12 passing (30ms)", True),
        ("2 failing", False),
        ("hello", None),
        ('{"status": "error", "error": "refused"}', False),
        ("testing: warning: no tests to run\nPASS\nok  \tmod\t(cached) [no tests to run]", None),
        ("The last command <command>pytest</command> timed out and has been killed.", False),
        ("\x1b[31m1 failed\x1b[0m, 2 passed", False),
        ("ERROR: JAVA_HOME is set to an invalid directory", False),
        ("Traceback (most recent call last):\n  logged\nRan 1 test in 0.1s\n\nOK", True),
        ("bash: mvn: command not found", False),
    ],
)
def test_whether_a_check_passed(content: str, wanted: bool | None) -> None:
    assert has_passed(content) is wanted


TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="'\"\\;&|<>()`$ \nab-=#{}EOF", max_size=300),
    st.lists(st.sampled_from(["<<", "EOF", "\n", "'", '"', "\\", "$(", ")", "|", "> ", "rm ", "sed -i ", "bash -c ",
    "x"])).map("".join),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["command", "cmd", "path", "action", "code", "input", "tool_name", "x"]), inner, max_size=4
    ),
    max_leaves=10,
)  # fmt: skip
NAMES = st.sampled_from(
    ["bash", "edit", "str_replace_editor", "process", "apply_patch", "use_mcp_tool", "x", "get_a", ""]
)


@settings(max_examples=300)
@given(NAMES | st.text(), TEXTS | JSON.map(json.dumps) | TEXTS.map(lambda text: json.dumps({"command": text})))
def test_any_call_has_an_effect(name: str, arguments: str) -> None:
    found = call_effect(name, arguments)
    assert found.effect in ("reads", "changes", "checks", "waits", "controls", "unknown")
    assert found == call_effect(name, arguments)


@settings(max_examples=300)
@given(TEXTS, st.none() | st.sampled_from(["ok", "error"]))
def test_any_result_can_be_read(content: str, status: str | None) -> None:
    assert call_end(content, status) in get_args(CallEnd)
    assert has_failed(content, status) in (True, False)
    assert has_passed(content, status) in (True, False, None)


@given(st.sampled_from(["rm a; ", "'", '"', "\\", "(", "$((", "<<A\n", "> a ", "bash -c '", "a=b ", "((", "`"]))
def test_what_stands_behind_the_bound_of_a_command_is_not_read(piece: str) -> None:
    start = (piece * MAX_LENGTH)[:MAX_LENGTH]
    assert call_effect("bash", json.dumps({"command": start + "\nmake test"})) == call_effect(
        "bash", json.dumps({"command": start + "\ntouch a"})
    )


@given(st.sampled_from(["error ", "E", "a: ", ": not found\n", "1 ", "\n", "exit ", "Tests run: 1", "{", '"error": ']))
def test_what_stands_in_the_middle_of_a_long_result_is_not_read(piece: str) -> None:
    edge = (piece * 2_000)[:2_000]
    assert has_failed(edge + "x" * 100 + edge) == has_failed(edge + "y" * 90_000 + edge)
