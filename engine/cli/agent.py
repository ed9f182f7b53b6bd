"""The engine for the options of `run`, `serve` and `worker`, and for `endstop run --resume` and `--fork RECORD`.

A resumed or forked run keeps the model, policy, tools and settings of its record unless options replace them. The parts
that a record cannot hold must be given again: endpoint, tool functions, gates, evaluator.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from ..answers import Answer
from ..base.sanitize import one_line
from ..decision import Facts, Policy, Question, WrongUse, fold
from ..decision.events import RunStarted
from ..engine import Engine
from ..fork import ForkPoint
from ..option_groups import Hooks, ModelOptions, RecordOptions
from ..providers import ToolChoice
from ..providers.endpoint_url import mask_url
from ..records.reader import RecordedRun, SessionRecord, read_record
from ..run import Run
from ..session import Session
from ..session_record import read_session_record
from ..tools import workspace_tools
from ..tools.control import CONTROL_TOOLS
from ..tools.output import NAME as OUTPUT_TOOL
from ..tools.tool import Tool
from ..user_message import Prompt
from .factory import (
    build_evaluator,
    build_gates,
    build_prices,
    build_provider,
    build_workspace_tools,
    load_object,
    load_policy,
    load_tools,
    preset_tools,
    with_limits,
    with_retries,
)
from .options import build_redaction, parse_finish_words, sampling_settings
from .question_prompt import is_interactive
from .until_options import build_until, options_given, settings_of


def build_engine(args: argparse.Namespace, resumed: ResumedSession | None = None) -> Engine:
    """Return the engine for these options; what they leave out comes from the record to resume. Raises WrongUse."""
    started = resumed.started if resumed is not None else None
    policy = chosen_policy(args, started)
    if resumed is not None:
        resumed.check(args)
    own = [*load_tools(args.tools), *build_workspace_tools(args.workspace, args.allow_run, args.env)]
    provider = build_provider(
        args.model or (started.model if started else None),
        args.api_base,
        args.provider,
        first=args.first_timeout,
        between=args.content_timeout,
    )
    until = build_until(args, args.workspace, provider)
    presets = preset_tools(own, not args.no_presets, asks=until is None or asks_user(args))
    output = load_object("--output-type", args.output_type)
    tools = own
    if resumed is not None:
        policy = resumed.policy(policy)
        tools = resumed.tools(own, presets if args.policy else (), wanted=not args.no_presets, output=output)
        presets = []
    return Engine(
        with_retries(provider, args.retries, args.response_timeout, args.wait_for_provider),
        prices=build_prices(args.price, provider, started),
        tools=tools,
        presets=presets,
        output=output,
        deps=load_object("--deps", args.deps),
        record_options=RecordOptions(redact=build_redaction(args), strict_resume=getattr(args, "strict_resume", False)),
        policy=_with_questions(policy, args) if until is not None and resumed is None else policy,
        until=until,
        system=started.system if started else None,
        hooks=Hooks(
            gates=build_gates(args.gate, args.workspace, args.env),
            evaluate=build_evaluator(args.evaluate, args.workspace, args.reference_workspace, args.evaluate_plain),
        ),
        model_options=ModelOptions(
            tool_choice=args.tool_choice or cast(ToolChoice, started.tool_choice if started else "auto"),
            settings=(started.settings if started else {}) | sampling_settings(args),
            finish_words=(started.finish_words if started else {}) | parse_finish_words(args),
        ),
    )


def asks_user(args: argparse.Namespace) -> bool:
    """Return whether a person at this terminal is asked when a run pauses. Never for a server or a worker."""
    if not hasattr(args, "no_input"):
        return False
    return not (args.no_input or args.quiet or args.json) and is_interactive()


def _with_questions(policy: Policy, args: argparse.Namespace) -> Policy:
    """Return the policy of a run with a check; if a person is there, a question in a text is asked."""
    return replace(policy, question="ask") if policy.question == "as_text" and asks_user(args) else policy


def chosen_policy(args: argparse.Namespace, started: RunStarted | None = None) -> Policy:
    """Return the policy for these options; without `--policy`, that of the record to resume, if there is one."""
    if started is None or args.policy is not None:
        policy = load_policy("agent" if args.policy is None else args.policy, closing=True)
    else:
        policy = started.policy
    return with_limits(policy, args.max_steps, args.max_tokens, closing=not args.no_closing)


Start = Callable[[], Run]


@dataclass(frozen=True, slots=True)
class ResumedSession:
    """A session to resume, from its record.

    If its last run left questions open, it needs their answers; if its last run was killed, that run continues; any
    other session needs a new prompt.
    """

    record: SessionRecord
    questions: tuple[Question, ...]
    """The open questions."""

    @property
    def last(self) -> RecordedRun:
        """The last run."""
        return self.record.runs[-1]

    @property
    def started(self) -> RunStarted:
        """The first event of the last run, with its model, policy and tools."""
        return self.last.started

    @property
    def killed(self) -> bool:
        """Whether the process of the last run was killed: it has no last event."""
        return self.last.finished is None

    @property
    def same_run(self) -> bool:
        """Whether resuming continues the last run instead of starting a new one."""
        return self.killed and not self.questions

    @property
    def continues(self) -> bool:
        """Whether the run keeps the gates and the evaluator that the last run began with."""
        return self.killed or bool(self.questions)

    def check(self, args: argparse.Namespace) -> None:
        """Raise WrongUse if an option is missing for something that the record holds only by name, such as a gate.

        Without the gate the run would silently follow other rules.
        """
        path, functions = self.record.path, self.started.functions
        if self.started.endpoint and args.api_base is None and args.provider is None:
            raise WrongUse(
                f"{path}: its model was reached at {self.started.endpoint}: give --api-base again, "
                "or --provider litellm to reach it in another way"
            )
        if "redaction" in functions and build_redaction(args) is None:
            raise WrongUse(f"{path} was redacted when it was written: give --redact again, with its words and patterns")
        for role, option in (("gate", "gate"), ("evaluator", "evaluate"), ("until", "until")):
            is_given = getattr(args, option) or (role == "evaluator" and args.evaluate_plain)
            is_given = is_given or (role == "until" and (args.until_criteria or settings_of(args).commands))
            if self.continues and role in functions and not is_given:
                names = ", ".join(one_line(name.partition(":")[2], 200) for name in functions[role])
                raise WrongUse(
                    f"{path}: its run began with {names}: give --{option} again, with the same or another command"
                )

    def policy(self, policy: Policy) -> Policy:
        """Return the policy for the resumed run.

        Raises WrongUse if the last run continues and began with another policy: its record states one for all of it.
        """
        if self.same_run and policy != self.started.policy:
            raise WrongUse(
                f"{self.record.path}: its last run was killed and goes on with the policy that it began with: leave "
                "out --policy, --max-steps, --max-tokens and --no-closing, and give them with a new prompt once it "
                "has ended"
            )
        return policy

    def tools(self, own: Sequence[Tool], defaults: Sequence[Tool], *, wanted: bool, output: Any = None) -> list[Tool]:
        """Return the recorded tools in their order, then, for a new run, any others. Raises WrongUse if one is missing.

        own: the tools of `--tools` and `--workspace`.
        defaults: presets to add for a new run.
        wanted: whether recorded presets may be offered again (no `--no-presets`).
        output: the type of the output, whose tool the engine adds.
        """
        shipped = CONTROL_TOOLS if wanted else ()
        available = {tool.name: tool for tool in (*shipped, *own)}
        specs = [spec for spec in self.started.tools if output is None or spec.name != OUTPUT_TOOL]
        missing = [spec.name for spec in specs if spec.name not in available]
        if missing:
            raise WrongUse(f"{self.record.path} offers tools that are missing now: {_how_to_provide(missing)}")
        recorded = [available[spec.name] for spec in specs]
        if self.same_run:
            return recorded
        names = {tool.name for tool in recorded}
        return recorded + [tool for tool in (*own, *defaults) if tool.name not in names]

    def starts(
        self, session: Session, prompt: Prompt | None, answers: Sequence[str], others: Mapping[str, Answer]
    ) -> list[Start]:
        """Return the runs to start, one after another; each but the last takes one answer and waits for the next.

        answers: those of `--answer`. others: those of other options, by call id. Raises WrongUse.
        """
        path = self.record.path
        answered: list[tuple[str, Answer]] = [*self._match_answers(answers), *others.items()]
        if len(dict(answered)) < len(answered):
            raise WrongUse("a question is given two answers")
        if prompt is not None and answered:
            raise WrongUse("PROMPT and an answer cannot be combined: give one of them")
        if prompt is not None and self.same_run:
            raise WrongUse(f"{path}: its last run was killed: resume it first, without a PROMPT")
        if prompt is None and not answered and self.questions:
            waits = any(question.tool is not None for question in self.questions)
            asks = any(question.extends for question in self.questions)
            options = "--approve CALL_ID, --deny CALL_ID or --answer TEXT" if waits else "--answer TEXT"
            options = f"--extend N, {options}" if asks else options
            raise WrongUse(f"{path} waits for an answer: give it with {options}\n{_listed(self.questions)}")
        if prompt is None and not answered and not self.killed:
            ended = self.last.finished
            how = ended.outcome.stop_reason if ended is not None else ""
            raise WrongUse(f"{path}: its last run has ended ({how}): write a PROMPT to go on with")
        session.load(self.record.runs)
        starts: list[Start] = [session.start_resumed] if self.killed else []
        starts += [partial(session.start_answers, {call_id: given}) for call_id, given in answered]
        return starts if prompt is None else [*starts, partial(session.start, prompt)]

    def _match_answers(self, answers: Sequence[str]) -> list[tuple[str, str]]:
        """Return each answer, with the call id of its question. Raises WrongUse."""
        path, open_ids = self.record.path, [question.call_id for question in self.questions]
        matched: dict[str, str] = {}
        for answer in answers:
            if not open_ids:
                raise WrongUse(f"{path}: no question is open: leave out --answer")
            named, equals, text = answer.partition("=")
            if not (equals and named in open_ids):
                if len(open_ids) > 1:
                    raise WrongUse(
                        f"{path} has several open questions: write --answer CALL_ID=TEXT\n{_listed(self.questions)}"
                    )
                named, text = open_ids[0], answer
            if named in matched:
                raise WrongUse(f"--answer is given twice for {named}")
            if not text.strip():
                raise WrongUse("--answer is empty")
            matched[named] = text
        return list(matched.items())


@dataclass(frozen=True, slots=True)
class ForkedSession(ResumedSession):
    """A recorded session, and the decision in it at which `endstop run --fork` begins a new session."""

    point: ForkPoint
    """The decision."""

    @property
    def last(self) -> RecordedRun:
        """The run that is forked."""
        return self.point.run

    @property
    def same_run(self) -> bool:
        """Always False: a fork is a new run, whose policy and tools may differ from those of its origin."""
        return False

    @property
    def continues(self) -> bool:
        """Always True."""
        return True

    def fork(self, engine: Engine, path: str, prompt: Prompt | None, results: Sequence[str], *, drain: bool) -> Session:
        """Return the fork, whose record is written to `path`.

        results: `CALL_ID=TEXT` or `CALL_ID=@FILE`. Raises WrongUse.
        """
        session = engine.session(self.record.header.session_id, drain=drain)
        edited, run = _parse_results(results), self.point.number + 1
        return session.fork(at=self.point.at, run=run, prompt=prompt, results=edited, record=path, source=self.record)


def _parse_results(given: Sequence[str]) -> dict[str, str]:
    """Return the new texts by call id. Raises WrongUse."""
    results: dict[str, str] = {}
    for one in given:
        call_id, equals, text = one.partition("=")
        if not (call_id and equals):
            raise WrongUse(f"--result {one_line(one, 100)}: write CALL_ID=TEXT, or CALL_ID=@FILE")
        if call_id in results:
            raise WrongUse(f"--result is given twice for {call_id}")
        results[call_id] = _read_text(call_id, text[1:]) if text.startswith("@") else text
    return results


def _read_text(call_id: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise WrongUse(f"--result {call_id}=@{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"--result {call_id}=@{path}: it is not UTF-8 text (at byte {error.start})") from None


def read_forked(path: str, at: int, run: str | None) -> ForkedSession:
    """Read the record at this path, and find the decision at which to fork it. Raises WrongUse."""
    record = read_record(path)
    return ForkedSession(record, (), ForkPoint.find(record, at, int(run) if run and run.isdecimal() else run))


def read_resumed(path: str) -> ResumedSession:
    """Return the session to resume, from the record at this path. Raises WrongUse."""
    record = read_session_record(path)
    facts = Facts()
    for event in record.runs[-1].events:
        facts = fold(facts, event)
    return ResumedSession(record, facts.questions)


def options_to_repeat(args: argparse.Namespace) -> str:
    """Return the options that the record does not hold and that the user has to repeat to resume its session."""
    written: list[str] = []
    for name in (
        "api_base",
        "provider",
        "tools",
        "workspace",
        "gate",
        "env",
        "evaluate",
        "evaluate_plain",
        "reference_workspace",
    ):
        value = getattr(args, name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                written += [f"--{name.replace('_', '-')}", mask_url(one) if name == "api_base" else one]
    written += options_given(args)
    written += ["--allow-run"] if args.allow_run else []
    written += ["--redact"] if args.redact else []
    written += ["--redact-phones"] if args.redact_phones else []
    written += [part for word in args.redact_words for part in ("--redact-word", word)]
    written += [part for pattern in args.redact_patterns for part in ("--redact-pattern", pattern)]
    return shlex.join(written)


def _listed(questions: Iterable[Question]) -> str:
    return "\n".join(f"  {question.call_id}: {one_line(question.text, 300)}" for question in questions)


def _how_to_provide(missing: Sequence[str]) -> str:
    ours = [tool.name for tool in workspace_tools(".", allow_run=True)]
    shipped = [tool.name for tool in CONTROL_TOOLS]
    hints = []
    if any(name in ours for name in missing):
        hints.append("give --workspace DIR" + (" --allow-run" if "run_command" in missing else "") + " again")
    if OUTPUT_TOOL in missing:
        hints.append("give --output-type FILE:NAME again")
    if any(name not in (*ours, *shipped, OUTPUT_TOOL) for name in missing):
        hints.append("give --tools FILE again")
    if any(name in shipped for name in missing):
        hints.append("leave out --no-presets")
    return f"{', '.join(missing)} ({', '.join(hints)})"
