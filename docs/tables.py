"""Writes the tables of rules, guards, events, stop reasons and settings into the documentation, from the code.

    python docs/tables.py       (or `make docs`)

A page gets a table where it has a pair of markers: `<!-- table: rules -->` and `<!-- end -->`.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, NoneType
from typing import Any, NamedTuple, get_args, get_origin

from endstop.analysis.endings import ENDINGS as SENTENCES
from endstop.analysis.published_policies import PUBLISHED, PublishedPolicy
from endstop.base.metrics_registry import Metric
from endstop.cli.exit_codes import EXIT_CODES
from endstop.decision import GUARDS, POLICIES, RECOMMENDED, RULES, STATUS_OF, Event, Policy, Rule, WrongUse
from endstop.decision.argument_types import IN_A_FILE, describe_type
from endstop.decision.finish_words import ACTIONS, documented_words
from endstop.decision.other_names import other_name
from endstop.decision.settings import Settings, setting_types
from endstop.decision.until_rules import ALL_GUARDS, ALL_RULES
from endstop.evaluation import EVALUATED_STATUSES
from endstop.observers.agent_metrics import RUN_METRICS
from endstop.proxy.proxy_metrics import PROXY_METRICS
from endstop.service.service_metrics import FLEET_METRICS, HTTP_METRICS, RECEIVED_METRICS, SERVICE_METRICS
from endstop.web.ag_ui.protocol import custom_name
from endstop.web.ag_ui.translate import HANDLERS
from msgspec import Struct

ROOT = Path(__file__).parent.parent
PAGES = (
    "docs/guides/ag_ui.md",
    "docs/guides/coming_from.md",
    "docs/guides/metrics.md",
    "docs/explanation/architecture.md",
    "docs/reference/api.md",
    "docs/reference/command_line.md",
    "docs/reference/endings.md",
    "docs/reference/events.md",
    "docs/reference/finish_words.md",
    "docs/reference/policies.md",
    "docs/reference/published_rules.md",
)
MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rules() -> str:
    """The priorities, first to last."""
    return _rule_table("rule", RULES)


def guards() -> str:
    """What may turn a go-on into something else."""
    return _rule_table("guard", GUARDS)


def events() -> str:
    """The union of events, in its order."""
    rows = []
    for kind in Event.__args__:
        about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        rows.append((f"`{kind.__struct_config__.tag}`", f"`{kind.__name__}`", about))
    return _table(("in the record", "in Python", "what happened"), rows)


def event_fields() -> str:
    """Each event with its fields."""
    return "".join(_event_section(kind) for kind in Event.__args__)


def _event_section(kind: type[Struct]) -> str:
    about = inspect.cleandoc(kind.__doc__ or "")
    types = inspect.get_annotations(kind)
    rows = [(f"`{name}`", f"`{types[name]}`", _meanings(kind).get(name, "")) for name in types]
    table = f"\n{_table(('field', 'type', 'meaning'), rows)}" if rows else ""
    return f"\n## `{kind.__struct_config__.tag}`\n\nIn Python `{kind.__name__}`. {about}\n{table}"


def api() -> str:
    """The public names of each package."""
    return _printed("docs/api_names.py")


def command_line() -> str:
    """Every command with its options, from the parser."""
    return _printed("docs/command_line.py")


def ag_ui() -> str:
    """What each of our events becomes in AG-UI."""
    rows = []
    for kind in Event.__args__:
        told = inspect.getdoc(HANDLERS[kind]) or "" if kind in HANDLERS else "`CUSTOM`."
        told = told.replace("`CUSTOM`", f"`CUSTOM` `{custom_name(kind)}`")
        rows.append((f"`{kind.__struct_config__.tag}`", told))
    return _table(("ours", "in AG-UI"), rows)


METRICS = {
    "Of the store, the same in each process": FLEET_METRICS,
    "Of a process with a service": SERVICE_METRICS,
    "Of the runs that it executes": RUN_METRICS,
    "Of its HTTP interface": HTTP_METRICS,
    "Of a server with `--otlp`": RECEIVED_METRICS,
    "Of the proxy": PROXY_METRICS,
}
"""Every metric, by what it is of."""


def metrics() -> str:
    """Every metric with its kind, labels and meaning, one table for each group."""
    head = ("name", "kind", "labels", "unit", "meaning")
    tables = []
    for of, table in METRICS.items():
        rows = [
            (f"`{m.name}`", m.kind, ", ".join(f"`{label}`" for label in m.labels), _unit_of(m), m.meaning)
            for m in table
        ]
        tables.append(f"\n### {of}\n\n{_table(head, rows)}")
    return "".join(tables)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _unit_of(metric: Metric) -> str:
    if metric.unit:
        return metric.unit
    return next((unit for unit in ("seconds", "tokens") if f"_{unit}" in metric.name), "")


def statuses() -> str:
    """Each status with the stop reasons that lead to it."""
    reasons: dict[str, list[str]] = {}
    for reason, status in STATUS_OF.items():
        reasons.setdefault(status, []).append(f"`{reason}`")
    return _table(("status", "stop reasons"), [(f"`{status}`", ", ".join(them)) for status, them in reasons.items()])


class Ending(NamedTuple):
    """What a reader needs to know about a stop reason."""

    cause: str
    """What ended the run, in one short sentence."""
    go_on: str
    """How to continue. Settings and options in backquotes are checked against the code."""
    by: str = ""
    """What ends the run, if it is neither a rule nor a guard."""


AGAIN = "Give the session its next prompt."
EVERY_RULE = (*ALL_RULES, *ALL_GUARDS)
"""The built-in rules and guards, with those of a run with a check."""
ENDINGS = {
    "completed": Ending("The model called a completion tool, and its handler and all gates accepted.", AGAIN),
    "text_final": Ending(
        "The model answered in plain text, and the policy or your text rule accepts that as the end.",
        f"{AGAIN} If text must not end a run: `text`.",
    ),
    "judged": Ending("The judge decided after a round that the task is complete.", AGAIN),
    "handled": Ending("A prompt handler answered; the model was not asked.", AGAIN),
    "until_met": Ending("The check of `until` is met.", AGAIN),
    "awaiting_input": Ending(
        "The model asked a question, a completion or a call needs the user's approval, or the run needs more steps.",
        "To answer: `session.answer(call_id, text)` or `--resume RECORD --answer TEXT`. "
        "To approve a call: `session.approve(call_id)` or `--approve CALL_ID`. "
        "To grant steps: `session.extend(20)` or `--extend 20`.",
        "`control_flow`, `step_limit`",
    ),
    "step_limit": Ending(
        "The run reached its limit on steps or rounds, or asked for more steps and the user said no.",
        "Raise `--max-steps N`, `limits.steps` or `limits.rounds`.",
    ),
    "token_limit": Ending(
        "The run reached its limit on input or output tokens.",
        "Raise `limits.input_tokens` or `limits.output_tokens`.",
    ),
    "cost_limit": Ending(
        "The run reached its cost limit, or the budget that it shares is spent.",
        "Raise `limits.cost_usd` or the `Budget`.",
    ),
    "time_limit": Ending("The run reached its time limit.", "Raise `limits.seconds`."),
    "tool_call_limit": Ending("The run reached its limit on tool calls.", "Raise `limits.tool_calls`."),
    "stuck": Ending(
        "The model repeated its calls or its text, or its steps made no progress.",
        "Say in the prompt what to do differently. Mark a tool that waits with `polls=True`. "
        "Settings: `repetition`, `stagnation`.",
    ),
    "degenerate": Ending(
        "A response repeated itself without end, and so did its retry.",
        "Try again, or use another model or `temperature`. If the repetition was intended: `degeneration.text`, "
        "`degeneration.reasoning`, `degeneration.arguments`, `degeneration.unwatched`.",
    ),
    "compaction_stalled": Ending(
        "Repeated compactions left the context over its threshold.",
        "Use a model with a larger context. Settings: `compaction.window`, `compaction.strategies`, "
        "`patience.compactions`.",
    ),
    "completion_rejected": Ending(
        "A gate or the completion tool itself rejected too many completions.",
        "`detail` has the last reason; the record has all of them (`COMPLETION_REJECTED`). Correct the work or the "
        "gate. Setting: `patience.rejections`.",
    ),
    "no_answer": Ending(
        "Too many responses in a row were empty, cut off by length, echoes, announcements or reports of unfinished "
        "work.",
        "Use another model or more `max_tokens`. Settings: `patience.empty_answers`, `patience.truncated`, "
        "`patience.echoes`, `patience.announcements`, `patience.partial_reports`, `echo.phrases`.",
    ),
    "invalid_calls": Ending(
        "Too many steps in a row had only invalid calls.",
        "The results in the record say what was wrong. Improve the tool descriptions. "
        "Setting: `patience.invalid_calls`.",
    ),
    "until_stalled": Ending(
        "Too many changes in a row brought the check of `until` no further.",
        "`detail` has what it says. Correct the check or the task. Setting: `patience.checks`.",
    ),
    "blocked": Ending(
        "The check of `until`, or the model itself, said that the task cannot be done.",
        "`detail` names the obstacle. Remove it, then prompt again.",
    ),
    "refusal": Ending(
        "The provider's content filter blocked too many responses in a row.",
        "Rephrase the prompt or use another model. Setting: `patience.refusals`.",
    ),
    "provider_error": Ending(
        "The provider returned an error, and no retry or fallback is left.",
        "`detail` has its message. Correct the key, `--model`, `--api-base` or the network, then prompt again. "
        "A session of a server whose provider is away is `interrupted` instead, and resumed.",
    ),
    "internal_error": Ending(
        "One of your rules or the engine raised an error, or the record could not be written.",
        "`detail` has the error. Correct the rule or the disk, or report a bug.",
        "the engine",
    ),
    "cancelled": Ending(
        "The run was cancelled: `run.cancel()`, a cancelled caller, Ctrl-C or a shutdown.",
        f"{AGAIN} Interrupted calls have the result `cancelled`.",
        "the engine",
    ),
}
KILLED = (
    "none",
    "The process was killed; the record has no end.",
    "-",
    "-",
    "-",
    "no",
    "`--resume RECORD`, without a prompt.",
)


def sentences() -> str:
    """The sentence of each ending, with what helps next."""
    given = {"record": "RECORD", "approvals": "--approve CALL_ID", "steps": 15, "more": 60}
    rows = [
        (
            f"`{key}`",
            ending.sentence.format(step="N", of=", 30 of 30", name="NAME"),
            f"{ending.next}: `{ending.command.format_map(given)}`" if ending.command else "-",
        )
        for key, ending in SENTENCES.items()
    ]
    return _table(("ending", "sentence", "what helps next, with a record of endstop"), rows)


def endings() -> str:
    """Each stop reason: its cause, what stops with it, status, exit code, evaluation, how to go on."""
    rows = []
    for reason, status in STATUS_OF.items():
        ending = ENDINGS[reason]
        by = ending.by or ", ".join(f"`{rule.name}`" for rule in EVERY_RULE if reason in _reasons(rule))
        evaluated = "yes" if status in EVALUATED_STATUSES else "no"
        code = str(EXIT_CODES[status])
        rows.append((f"`{reason}`", ending.cause, by, f"`{status}`", code, evaluated, ending.go_on))
    head = ("stop reason", "cause", "rule or guard", "status", "exit code", "evaluated", "how to continue")
    return _table(head, [*rows, KILLED])


def settings() -> str:
    """Every setting of a policy, with its default, its values and what it means, from the source."""
    return _table(("setting", "default", "values", "meaning"), list(_settings("", Policy())))


def policies() -> str:
    """The shipped policies by what they set differently."""
    values = {key: dict(_leaves("", policy)) for key, policy in POLICIES.items()}
    names = [name for name in values["agent"] if name != "name" and len({v.get(name) for v in values.values()}) > 1]
    rows = [(f"`{key}`", *(_default(them.get(name)) for name in names)) for key, them in values.items()]
    return _table(("policy", *(f"`{name}`" for name in names)), rows)


def _leaves(path: str, group: Struct) -> Iterable[tuple[str, Any]]:
    for name in group.__struct_fields__:
        value = getattr(group, name)
        yield from _leaves(f"{path}{name}.", value) if isinstance(value, Struct) else [(path + name, value)]


def recommended() -> str:
    """The recommended limits by kind of task."""
    rows = [(f"`{task}`", str(limits.soft_steps), str(limits.steps)) for task, limits in RECOMMENDED.items()]
    return _table(("kind of task", "soft steps", "hard steps"), rows)


def finish_reasons() -> str:
    """What the loop does, by our own words."""
    return _table(("finish reason", "what the loop does"), [(f"`{reason}`", does) for reason, does in ACTIONS.items()])


def finish_words() -> str:
    """Every finish word that a vendor publishes."""
    rows = [
        (one.wire, f"[{one.vendor}]({one.source})", f"`{one.word}`", one.meaning, f"`{one.does}`")
        for one in documented_words()
    ]
    return _table(("wire", "vendor and source", "word", "meaning", "finish reason"), rows)


def before_after() -> str:
    """What the example measures."""
    return _printed("docs/examples/before_after.py")


def steps_golden() -> str:
    """How many steps the project's golden records took."""
    return _printed("docs/steps.py", "golden")


def steps_foreign() -> str:
    """How many steps foreign sessions took; empty where they are not."""
    return _printed("docs/steps.py", "foreign")


def _printed(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _settings(path: str, group: Struct) -> Iterable[tuple[str, str, str, str]]:
    for name in group.__struct_fields__:
        value = getattr(group, name)
        meaning = _meanings(type(group))[name]
        if isinstance(value, Struct):
            about = " ".join((inspect.getdoc(type(value)) or "").split())
            yield f"**`{path}{name}`**", "", "", about
            yield from _settings(f"{path}{name}.", value)
        else:
            yield f"`{path}{name}`", _default(value), _values(type(group), name), meaning


def _values(group: type[Settings], name: str) -> str:
    """What a setting takes: its type, and the bounds that are found by trying."""
    kind = setting_types(group)[name]
    off = ', or "off"' if _takes(group, name, None) and getattr(group(**{name: None}), name) is None else ""
    of = [part for part in get_args(kind) if part not in (NoneType, Ellipsis)] or [kind]
    if not {int, float} & set(of):
        return describe_type(kind, IN_A_FILE).replace(" or ", ", ").replace("'", "`") + off
    whole, many = int in of, get_origin(kind) is tuple
    taken = [n for n in (TRIED if whole else TRIED_SHARES) if _takes(group, name, (n,) if many else n)]
    least, most = taken[0], taken[-1]
    words = ["whole numbers" if many else "whole number" if whole else "number"]
    words.append(f"{least} or more" if whole else "above 0" if least > 0 else "0 or more")
    if most < (TRIED if whole else TRIED_SHARES)[-1]:
        words[-1] = f"{least} to {most}" if whole else f"{words[-1]}, {'at most' if most == 1 else 'below'} 1"
    return ", ".join(words) + off


TRIED = (-1, 0, 1, 2, *range(3, 20), 1_000, 10**9)
TRIED_SHARES = (-1.0, 0.0, 1e-9, 0.5, 1.0, 1e9)


def _takes(group: type[Settings], name: str, value: Any) -> bool:
    try:
        group(**{name: value})
    except WrongUse:
        return False
    return True


@cache
def _meanings(kind: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of those it inherits from."""
    found: dict[str, str] = {}
    for one in reversed([k for k in kind.__mro__ if k.__module__.startswith("endstop")]):
        tree = ast.parse(Path(inspect.getfile(one)).read_text(encoding="utf-8"))
        classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        body = next(node.body for node in classes if node.name == one.__name__)
        for field, after in pairwise(body):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def _default(value: Any) -> str:
    match value:
        case None:
            return "off"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.4g}"
        case tuple():
            return ", ".join(f"`{item}`" for item in value) or "none"
        case str():
            shown = value.replace("\n", "\\n")
            return f'"{shown}"' if shown else "empty"
        case _:
            return str(value)


def _reasons(rule: Rule) -> set[str]:
    """The stop reasons that stand as constants in a rule's function and in those of ours that it calls."""
    seen: set[CodeType] = set()
    waiting, found = [rule.judge], set()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        found |= {word for word in (*function.__code__.co_consts, *cells) if isinstance(word, str)}
        called = [function.__globals__.get(name) for name in function.__code__.co_names]
        waiting += [other for other in called if getattr(other, "__module__", "").startswith("endstop.decision")]
    return found & set(STATUS_OF)


def published() -> str:
    """The rules of other projects, and where they were read."""
    rows = [
        (f"`{one.name}`", f"{one.project} {one.version}", one.says, one.settings or "-", one.missing or "-", _read(one))
        for one in PUBLISHED
    ]
    return _table(("name", "read in", "rule", "our settings", "left out", "source"), rows)


def _read(one: PublishedPolicy) -> str:
    links = zip(one.links, one.sources, strict=True)
    return ", ".join(
        f"[{Path(path).name}:{line}]({link})" if one.repository else f"`{path}`, line {line}"
        for link, (path, line) in links
    )


COMING_FROM = {
    "pydantic_ai": """
        endstop: AgentRunResult ModelRetry UsageLimits UsageLimitExceeded BinaryContent TestModel
        endstop: ToolOutput NativeOutput PromptedOutput
        Engine: instructions output_type deps_type model_settings retries end_strategy toolsets history_processors
        Engine.: run_stream iter tool output_validator override instrument
        Engine.run: user_prompt message_history usage_limits usage deferred_tool_results
        Limits: request_limit tool_calls_limit total_tokens_limit output_tokens_limit
        Outcome.: data all_messages new_messages
        Run.: stream_text stream_output
        tool: takes_ctx retries requires_approval sequential
        RunContext.: tool_call_id retry run_step
    """,
    "openai_agents": """
        endstop: Agent Runner RunResult RunResultStreaming RunContextWrapper function_tool MaxTurnsExceeded
        endstop: SQLiteSession AgentOutputSchema
        Engine: instructions model tools_to_final_output handoffs input_guardrails output_guardrails mcp_servers
        Engine: tool_use_behavior output_type hooks
        Engine.run: starting_agent input context max_turns run_config session previous_response_id
        Outcome.: final_output new_items raw_responses interruptions to_input_list last_agent
        Run.: stream_events current_turn is_complete
        tool: name_override description_override failure_error_function needs_approval strict_mode
        ModelOptions: temperature max_tokens reasoning extra_args
    """,
    "langgraph": """
        endstop: create_react_agent create_agent StateGraph ToolNode InMemorySaver GraphRecursionError ToolRuntime
        endstop: ToolStrategy ProviderStrategy
        Engine: prompt response_format checkpointer store state_schema context_schema interrupt_before pre_model_hook
        Engine: post_model_hook recursion_limit debug
        Engine.: invoke ainvoke astream astream_events batch get_state update_state with_retry with_fallbacks
        Engine.run: config thread_id stream_mode
        Outcome.: structured_response messages
        tool: args_schema return_direct infer_schema parse_docstring
    """,
}
"""Names of other libraries, by library and by what of ours they are asked of (`decision/other_names.toml`)."""


THEIRS = {
    "endstop": "",
    "Engine": "Agent(",
    "Engine.": "agent.",
    "Engine.run": "agent.run(",
    "Limits": "UsageLimits(",
    "ModelOptions": "ModelSettings(",
    "Outcome.": "result.",
    "Run.": "run.",
    "RunContext.": "ctx.",
}
"""How they write what comes before a name."""


def coming_from(library: str) -> str:
    """What to write for the names of a library that a first program uses."""
    rows = []
    for line in COMING_FROM[library].strip().splitlines():
        owner, _, names = line.strip().partition(": ")
        place = {
            "endstop": "",
            "Engine": "Engine(",
            "Engine.": "agent.",
            "Outcome.": "result.",
            "Run.": "run.",
            "Limits": "UsageLimits(",
        }
        before = place.get(owner, owner if owner.endswith(".") else f"{owner}(")
        before = before.replace("RunContext.", "ctx.").replace("Engine(", "Agent(").replace("Engine.run(", "agent.run(")
        for name in names.split():
            entry = other_name(owner, name)
            if entry:
                after = "=...)" if before.endswith("(") else ""
                rows.append((f"`{before}{name}{after}`", entry.removeprefix(": ").removeprefix("write ")))
    return _table(("there", "here"), rows)


TABLES: dict[str, Callable[[], str]] = {
    **{f"from_{library}": partial(coming_from, library) for library in COMING_FROM},
    "published": published,
    "rules": rules,
    "guards": guards,
    "events": events,
    "event_fields": event_fields,
    "api": api,
    "command_line": command_line,
    "ag_ui": ag_ui,
    "metrics": metrics,
    "statuses": statuses,
    "endings": endings,
    "sentences": sentences,
    "settings": settings,
    "recommended": recommended,
    "policies": policies,
    "finish_reasons": finish_reasons,
    "finish_words": finish_words,
    "before_after": before_after,
    "steps_golden": steps_golden,
    "steps_foreign": steps_foreign,
}


def rendered(page: str) -> str:
    """The page with every table written anew, but for one whose data is not here."""

    def anew(found: re.Match[str]) -> str:
        table = TABLES[found["name"]]()
        return found[1] + table + found[3] if table else found[0]

    return MARKED.sub(anew, page)


def _rule_table(what: str, lines: Iterable[Rule]) -> str:
    rows = [(r.priority, f"`{r.name}`", r.says, ", ".join(f"`{fact}`" for fact in r.sees) or "-") for r in lines]
    if what == "guard":
        return _table((what, "says", "looks at"), [row[1:] for row in rows])
    return _table(("", what, "says", "looks at"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def main() -> None:
    """Write every page that has markers."""
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        if (new := rendered(page)) != page:
            path.write_text(new, encoding="utf-8")
            print(f"wrote the tables of {name}")


if __name__ == "__main__":
    main()
