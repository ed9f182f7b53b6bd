"""Tools from YAML: what a file may say, what a model may call, and how a bad file is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, InvalidArguments, Tool, tools_from_yaml
from endstop.cli.factory import load_tools
from endstop.decision import WrongUse
from endstop.providers import Scripted, call
from endstop.tools import finish_task
from endstop.tools.tool import TOOL_TIMEOUT

HANDLERS = '''
from endstop import Tool, tool

calls = []

def set_port(port, host="localhost"):
    calls.append(port)
    return f"{host}:{port}, call {len(calls)}"

async def anything(**given):
    return given

@tool(kind="think", timeout=5)
def muse(thought: str) -> str:
    """Think aloud."""
    return thought

number = 3
'''


def written(folder: Path, text: str, handlers: str = HANDLERS) -> Path:
    (folder / "handlers.py").write_text(handlers)
    path = folder / "tools.yaml"
    path.write_text(text)
    return path


def one(folder: Path, *lines: str) -> Tool:
    """The tool `t`, with these lines instead of the usual ones."""
    given = {"name": "t", "description": "Do it.", "handler": "handlers.py:anything", "parameters": "{}"}
    extra = "\n".join(lines)
    usual = "\n".join(f"{key}: {value}" for key, value in given.items() if f"{key}:" not in extra)
    body = "\n".join("    " + line for line in f"{usual}\n{extra}".splitlines())
    return tools_from_yaml(written(folder, f"tools:\n  -\n{body}\n"))[0]


def test_the_short_form_names_types_and_the_word_optional_does_what_it_says(tmp_path: Path) -> None:
    tool = one(tmp_path, "handler: handlers.py:set_port", "parameters: {port: integer, host: optional string}")
    assert tool.spec.parameters == {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "host": {"type": "string"}},
        "required": ["port"],
    }
    assert tool.parse('{"port": 80, "invented": 1}') == {"port": 80}


def test_a_parameter_may_have_a_schema_of_its_own_with_a_default(tmp_path: Path) -> None:
    tool = one(tmp_path, "parameters:", "  level: {type: string, enum: [low, high], default: low}")
    assert tool.parse("{}") == {"level": "low"}
    with pytest.raises(InvalidArguments, match="level: 'top' is not one of"):
        tool.parse('{"level": "top"}')


def test_a_whole_json_schema_is_passed_on_and_checked(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}},
        "required": ["steps"],
        "$defs": {"step": {"type": "string", "maxLength": 3}},
    }
    tool = one(tmp_path, f"parameters: {json.dumps(schema)}")
    assert tool.spec.parameters == schema
    with pytest.raises(InvalidArguments, match=r"steps\.1: 'long' is too long"):
        tool.parse('{"steps": ["a", "long"]}')


@pytest.mark.parametrize(
    ("text", "what"), [("{", "not JSON"), ("[1]", "not a JSON object"), ("{}", "'port' is a required")]
)
def test_arguments_that_do_not_fit_are_explained_to_the_model(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InvalidArguments, match=what):
        one(tmp_path, "parameters: {port: integer}").parse(text)


def test_kind_reads_polls_and_timeout_mean_what_they_mean_in_python(tmp_path: Path) -> None:
    tool = one(tmp_path, "kind: completion", "reads: true", "polls: true", "timeout: null")
    assert (tool.kind, tool.spec.reads, tool.spec.polls, tool.timeout) == ("completion", True, True, None)
    assert (one(tmp_path).timeout, one(tmp_path, "timeout: 2").timeout) == (TOOL_TIMEOUT, 2.0)


def test_what_is_left_out_comes_from_the_handler(tmp_path: Path) -> None:
    (tool,) = tools_from_yaml(written(tmp_path, "[{name: ponder, handler: 'handlers.py:muse'}]"))
    assert (tool.name, tool.kind, tool.timeout, tool.spec.description) == ("ponder", "think", 5, "Think aloud.")
    assert tool.spec.parameters["required"] == ["thought"]
    (end,) = tools_from_yaml(written(tmp_path, "tools: {end: {handler: 'endstop.tools:finish_task'}}"))
    assert end.spec.parameters == finish_task.spec.parameters
    assert end.spec.description == finish_task.spec.description


async def test_the_model_calls_it_and_all_tools_of_a_file_share_one_module(tmp_path: Path) -> None:
    text = """
    tools:
      a: {description: A., handler: "handlers.py:set_port", parameters: {port: integer}}
      b: {description: B., handler: "handlers.py:set_port", parameters: {port: integer}}
    """
    provider = Scripted([call("a", port=1), call("b", port=2)], "done")
    await Engine(provider, tools=tools_from_yaml(written(tmp_path, text))).run("go")
    results: Any = provider.requests[1].messages[-2:]
    assert [result.content for result in results] == ["localhost:1, call 1", "localhost:2, call 2"]


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside_the_yaml.py").write_text("def work(x: int):\n    'Work.'\n    return x\n")
    (tool,) = tools_from_yaml(written(tmp_path, "[{name: w, handler: 'beside_the_yaml:work'}]"))
    assert tool.spec.parameters["properties"] == {"x": {"type": "integer"}}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("knid: completion", r"unknown key 'knid' \(did you mean 'kind'\?\)"),
        ("kind: complete", r"unknown kind 'complete' \(did you mean 'completion'\?\)"),
        ("kind: null", "unknown kind None"),
        ("reads: maybe", "reads is 'maybe': write true or false"),
        ("timeout: -1", "timeout is -1"),
        ("timeout: true", "timeout is True"),
        ("timeout: .nan", "timeout is nan"),
        ("description: ''", "description is empty"),
        ("description: [a]", "description is a list: write a text"),
        ("parameters: {port: int}", r"parameter 'port': unknown type 'int' \(did you mean 'integer'\?\)"),
        ("parameters: {port: }", "parameter 'port': unknown type None"),
        ("parameters: {on: string}", "parameter True is not text"),
        ("parameters: [port]", "parameters is a list"),
        ("parameters: {type: object, properties: {a: {type: int}}}", "not a JSON schema"),
        ("parameters: {a: {type: string, default: 2026-01-01}}", "not JSON: "),
        ("parameters: {a: {$ref: '#/$defs/b'}}", "points to nothing"),
        ("parameters: {a: {$ref: 'http://example.com/x'}}", "points to nothing"),
        ("handler: handlers.py", "write it as file.py:function"),
        ("handler: handlers.py:set_prot", r"no 'set_prot' in it \(did you mean 'set_port'\?\)"),
        ("handler: handlers.py:number", "'number' is not a function"),
        ("handler: nothing.py:set_port", "no file .*nothing.py"),
        ("handler: no_such_module:set_port", "no module 'no_such_module'"),
        ("handler: handlers.py:set_port\nparameters: {prot: integer}", r"no argument 'prot' \(did you mean 'port'\?\)"),
        ("handler: handlers.py:set_port\nparameters: {host: string}", "needs 'port', which may be missing: add it"),
        ("handler: handlers.py:set_port\nparameters: {port: optional integer}", "needs 'port', .*: require it"),
    ],
)
def test_a_bad_tool_is_refused_with_its_file_its_name_and_what_is_wrong(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(WrongUse, match=rf"tools\.yaml, tool 't'.*{what}"):
        one(tmp_path, *line.splitlines())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it has no tools"),
        ("tools: []", "it has no tools"),
        ("tols: []", r"unknown key 'tols' \(did you mean 'tools'\?\)"),
        ("tools: nothing", "`tools` is a text"),
        ("tools: [3]", "tool 1: it is 3"),
        ("tools: [{handler: 'a:b'}]", "tool 1: key 'name' is missing"),
        ("tools: [{name: t, handlr: x}]", "tool 't': unknown key 'handlr'"),
        ("tools: [{name: t, description: d}]", "tool 't': key 'handler' is missing"),
        ("tools: [{name: two words, handler: 'a:b'}]", "name 'two words': use"),
        ("tools: {t: {description: a, description: b}}", "not valid YAML: key 'description' twice"),
        ("tools: [", "not valid YAML"),
        ("tools: [{name: t, handler: 'handlers.py:set_port'}]", "tool 't' has no description"),
        (
            "- &a {name: t, description: d, parameters: {}, handler: 'handlers.py:anything'}\n- *a",
            "two tools have this name",
        ),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(WrongUse, match=rf"tools\.yaml.*{what}"):
        tools_from_yaml(written(tmp_path, text))


def test_a_handler_file_that_cannot_be_imported_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "[{name: t, handler: 'handlers.py:f'}]", handlers="1 / 0")
    with pytest.raises(WrongUse, match=r"tool 't': handler .* cannot be imported: ZeroDivisionError"):
        tools_from_yaml(path)
    with pytest.raises(WrongUse, match=r"missing\.yaml cannot be read: No such file"):
        tools_from_yaml(tmp_path / "missing.yaml")


def test_the_command_line_takes_a_yaml_file_and_says_where_a_bad_one_came_from(tmp_path: Path) -> None:
    path = written(tmp_path, "[{name: t, description: d, parameters: {}, handler: 'handlers.py:anything'}]")
    assert [tool.name for tool in load_tools([str(path)])] == ["t"]
    path.write_text("tools: 3")
    with pytest.raises(WrongUse, match=r"--tools .*tools\.yaml: `tools` is 3"):
        load_tools([str(path)])


async def test_a_check_stands_beside_its_handler(tmp_path: Path) -> None:
    from endstop import Happened

    handlers = HANDLERS + "\nfrom endstop import Happened\n\ndef is_set(**given):\n    return Happened(given)\n"
    text = (
        "tools: [{name: t, description: d, handler: 'handlers.py:anything', check: 'handlers.py:is_set', parameters: }]"
    )
    (tool,) = tools_from_yaml(written(tmp_path, text, handlers))
    assert tool.check is not None
    assert tool.check(port=1) == Happened({"port": 1})
    assert one(tmp_path).check is None


def test_a_check_that_is_not_there_is_refused_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"check 'handlers.py:is_there': there is no 'is_there' in it"):
        one(tmp_path, "check: handlers.py:is_there")
    with pytest.raises(WrongUse, match=r"check: .* is a tool; a check is not a function that a model calls"):
        one(tmp_path, "check: handlers.py:muse")


def test_an_approval_is_true_or_a_function_and_a_tool_keeps_its_own(tmp_path: Path) -> None:
    handlers = HANDLERS + (
        "\nfrom endstop import tool\n\ndef needed(arguments):\n    return True\n"
        "\n@tool(approval=True)\ndef careful() -> str:\n    'Act.'\n    return 'x'\n"
    )
    entries = (
        "{name: a, description: d, handler: 'handlers.py:anything', parameters: , approval: true}",
        "{name: b, description: d, handler: 'handlers.py:anything', parameters: , approval: 'handlers.py:needed'}",
        "{name: c, handler: 'handlers.py:careful'}",
        "{name: d, handler: 'handlers.py:careful', approval: false}",
    )
    tools = tools_from_yaml(written(tmp_path, f"tools: [{', '.join(entries)}]", handlers))
    assert [tool.spec.approval for tool in tools] == [True, True, True, False]
    assert callable(tools[1].approval)
    with pytest.raises(WrongUse, match="approval"):
        one(tmp_path, "approval: 7")
