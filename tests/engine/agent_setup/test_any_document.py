"""Documents of every form, as hypothesis writes them: what is not endstop's is kept, and comes back."""

from __future__ import annotations

import json
from typing import Any

from endstop.agent_setup.document_edits import Entry, syntax_of, with_entries, without_entries
from endstop.agent_setup.json_text import JsonSyntax
from hypothesis import given, settings
from hypothesis import strategies as st

ENTRIES = [
    Entry("add", ("hooks", event), {"matcher": "*", "hooks": [{"type": "command", "command": "/opt/endstop hook"}]})
    for event in ("Stop", "PreToolUse")
] + [Entry("put", ("env", "BASE"), "http://127.0.0.1:8643"), Entry("default", ("version",), 1)]
NAMES = st.sampled_from(["a", "b\"'", "é//", "{", "other", "x/*"])
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-1, 1) | NAMES
GROUPS = st.lists(
    st.just({"hooks": [{"type": "command", "command": "their own"}]}) | st.just({"hooks": [], "matcher": "x"}),
    max_size=2,
)
OTHERS = st.dictionaries(
    NAMES, st.recursive(SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3))
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.fixed_dictionaries({}, optional={"Stop": GROUPS, "SessionStart": GROUPS}),
        "env": st.dictionaries(NAMES, NAMES, max_size=2),
        "version": st.integers(0, 3),
    },
).flatmap(lambda ours: OTHERS.map(lambda others: {**others, **ours}))


@st.composite
def texts(draw: st.DrawFn, comments: bool) -> str:
    """A document with white space, and comments, wherever they may stand."""
    gaps = ["", "", " ", "\n", "\t", "\r\n  "] + (["/* , } */", " // [ \n", '// "\n'] if comments else [])

    def gap() -> str:
        return draw(st.sampled_from(gaps))

    def written(data: Any) -> str:
        if isinstance(data, dict):
            inner = [f"{gap()}{json.dumps(name)}{gap()}:{gap()}{written(value)}{gap()}" for name, value in data.items()]
        elif isinstance(data, list):
            inner = [f"{gap()}{written(value)}{gap()}" for value in data]
        else:
            return json.dumps(data, ensure_ascii=draw(st.booleans()))
        last = f",{gap()}" if comments and inner and draw(st.booleans()) else ""
        brackets = "{}" if isinstance(data, dict) else "[]"
        return f"{brackets[0]}{','.join(inner) or gap()}{last}{brackets[1]}"

    return f"{gap()}{written(draw(DOCUMENTS))}{gap()}"


def _check(text: str, syntax: JsonSyntax) -> None:
    before = syntax.load(text)
    done = with_entries(syntax, text, ENTRIES, text)
    data = syntax.load(done)
    for entry in ENTRIES[:2]:
        assert entry.value in data["hooks"][entry.path[1]]
    assert data["env"]["BASE"] == "http://127.0.0.1:8643"
    assert data["version"] == before.get("version", 1)
    assert with_entries(syntax, done, ENTRIES, text) == done
    rest = iter(done)
    kept = [character for character in text if not character.isspace()]
    assert all(character in rest for character in kept), "only insertions"
    undone = without_entries(syntax, done, ENTRIES, text)
    assert syntax.load(undone) == before
    rest = iter(undone)
    assert all(character in rest for character in kept), "comments and forms of values"


@settings(max_examples=40)
@given(texts(comments=False))
def test_json_keeps_all_that_is_not_endstops(text: str) -> None:
    _check(text, JsonSyntax(comments=False))


@settings(max_examples=40)
@given(texts(comments=True))
def test_json_with_comments_keeps_all_that_is_not_endstops(text: str) -> None:
    _check(text, JsonSyntax(comments=True))


@settings(max_examples=40)
@given(texts(comments=False))
def test_json_is_read_as_python_reads_it(text: str) -> None:
    assert JsonSyntax(comments=False).load(text) == json.loads(text)


@given(st.text(st.sampled_from('{}[]",:/*\\ntruefals0123.eE- \n'), max_size=30))
def test_what_is_no_json_is_refused_as_python_refuses_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = ValueError
    try:
        read = JsonSyntax(comments=False).load(text)
    except ValueError:
        read = ValueError
    assert read == expected


TOML_LINES = st.sampled_from(
    [
        'model = "a"',
        'model_provider = "b" # mine',
        "# a comment",
        "",
        'text = """\n[model_providers.endstop]\nmodel_provider = "no"\n"""',
        'list = [\n  "[a]",\n]',
    ]
)
TOML_TABLES = st.lists(
    st.sampled_from(
        [
            '[model_providers.other]\nname = "o"',
            '# above\n[mcp.x]\nmodel_provider = "theirs"',
            "[[lists]]\na = 1",
            "[profiles]\n\n",
        ]
    ),
    max_size=3,
    unique=True,
)
TOML_ENTRIES = [
    Entry("put", ("model_provider",), "endstop"),
    Entry("put", ("model_providers", "endstop"), {"name": "n", "base_url": "http://127.0.0.1:8643/v1"}),
]


@given(st.lists(TOML_LINES, max_size=5, unique=True), TOML_TABLES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_toml_keeps_all_that_is_not_endstops(lines: list[str], tables: list[str], newline: str, ended: bool) -> None:
    text = "\n".join([*lines, *tables]).replace("\n", newline) + (newline if ended else "")
    syntax = syntax_of("toml")
    before = syntax.load(text)
    done = with_entries(syntax, text, TOML_ENTRIES, text)
    data = syntax.load(done)
    assert (data["model_provider"], data["model_providers"]["endstop"]) == ("endstop", TOML_ENTRIES[1].value)
    assert with_entries(syntax, done, TOML_ENTRIES, text) == done
    undone = without_entries(syntax, done, TOML_ENTRIES, text)
    assert syntax.load(undone) == before
    assert undone.split() == text.split()


YAML_TOPS = st.lists(
    st.sampled_from(
        [
            "name: mine",
            "# a comment",
            "",
            "rules: [a, b]",
            "prompt: |\n  models:\n    - name: no\n",
            "other:\n  - a: 1\n    b: |+\n      text\n\n  - c",
        ]
    ),
    max_size=4,
    unique=True,
)
YAML_MODELS = st.sampled_from(
    [
        "",
        "models:",
        "models: []",
        "models: [{name: a}, {name: b}] # mine",
        "models:\n- name: a\n  x: 1",
        "models:\n  # first\n  - name: a\n    roles:\n      - chat\n\n  - {name: b}\n  # last\n",
    ]
)
YAML_ENTRIES = [
    Entry("default", ("name",), "endstop"),
    Entry("add", ("models",), {"name": "m through endstop", "apiBase": "http://127.0.0.1:8643/v1/", "roles": ["chat"]}),
]


@given(YAML_TOPS, YAML_MODELS, YAML_TOPS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_yaml_keeps_all_that_is_not_endstops(
    above: list[str], models: str, below: list[str], newline: str, ended: bool
) -> None:
    below = [one for one in below if one not in above]
    text = "\n".join([*above, models, *below]).replace("\n", newline) + (newline if ended else "")
    syntax = syntax_of("yaml")
    before = syntax.load(text)
    done = with_entries(syntax, text, YAML_ENTRIES, text)
    data = syntax.load(done)
    assert data["models"] == [*(before.get("models") or []), YAML_ENTRIES[1].value]
    assert with_entries(syntax, done, YAML_ENTRIES, text) == done
    undone = syntax.load(without_entries(syntax, done, YAML_ENTRIES, text))
    assert {name: value for name, value in undone.items() if value} == {
        name: value for name, value in before.items() if value
    }
