"""Stop rules of other projects, as policies that a backtest can put beside one's own.

Each policy is a project's rule alone, with the thresholds that it ships: an answer in plain text does not end a run, so
that what is saved is saved by the rule. What a limit can say is said by a limit; the rest are guards that look at the
latest calls (`recent_calls`), made from what the source does and none of its code. They run through the same `decide`
as ours, in a backtest only. Where the same rule can be said nearly in our settings, `settings` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..decision.decisions import Decision, GoOn, Pause, Stop
from ..decision.errors import WrongUse
from ..decision.facts import Facts
from ..decision.limits import Limits
from ..decision.policy import Degeneration, Patience, Policy
from ..decision.rules import Rule
from .recent_calls import CallFacts, RecentCall, RecentCalls, repeats_in_cycle

UNLIMITED = 10**9
"""Steps of a policy without a limit on them."""


class PublishedPolicy(Struct, frozen=True, kw_only=True):
    """The rule of another project, with what was read of it."""

    name: str
    """Its name on the command line and in tables."""
    project: str
    version: str
    repository: str
    """`owner/name` on GitHub; empty for a package that was read as it is installed."""
    commit: str
    sources: tuple[tuple[str, int], ...]
    """Files of the repository or the package, each with the line to look at."""
    says: str
    """What the rule does, in a sentence."""
    acts: Literal["stops", "asks", "tells, then stops"]
    """Whether it ends the run, asks the user whether to go on, or tells the model first."""
    settings: str = ""
    """Our settings that do the same where each response has one call; empty if there are none."""
    missing: str = ""
    """What of the project's rules is not said here, and why."""
    policy: Policy

    @property
    def links(self) -> tuple[str, ...]:
        """Links to the lines; paths for a package."""
        if not self.repository:
            return tuple(f"{path}, line {line}" for path, line in self.sources)
        base = f"https://github.com/{self.repository}/blob/{self.commit}"
        return tuple(f"{base}/{path}#L{line}" for path, line in self.sources)


# ---- the rules


def _recent(facts: Facts) -> RecentCalls:
    if not isinstance(facts, CallFacts):
        raise WrongUse("it looks at single calls, which are remembered in a backtest only")
    return facts.recent


def _count_same(calls: tuple[RecentCall, ...]) -> int:
    """How many of the latest calls in a row have the same name and arguments as the last one."""
    count = 0
    while count < len(calls) and calls[-1 - count].call == calls[-1].call:
        count += 1
    return count


def _most_in_a_row(facts: Facts) -> int:
    """The highest number of the same call in a row that was reached in the latest step."""
    return max((_count_same(calls) for calls in _recent(facts).at_each_call()), default=0) if facts.calls else 0


def _stop(rule: str, detail: str) -> Stop:
    return Stop(rule=rule, reason="stuck", detail=detail)


def _tell(rule: str, count: int) -> GoOn:
    return GoOn(rule=rule, say=f"{rule}: the same call {count} times", why=f"the same call {count} times")


def _same_calls(rule: str, stop_at: int, tell_at: tuple[int, ...] = ()) -> Callable[[Facts, Policy], Decision | None]:
    def judge(facts: Facts, policy: Policy) -> Decision | None:
        count = _most_in_a_row(facts)
        if count >= stop_at:
            return _stop(rule, f"the same call {count} times in a row")
        return _tell(rule, count) if count in tell_at else None

    return judge


def _ask_at_same_calls(rule: str, ask_at: int) -> Callable[[Facts, Policy], Decision | None]:
    def judge(facts: Facts, policy: Policy) -> Decision | None:
        return Pause(rule=rule, questions=()) if _most_in_a_row(facts) >= ask_at else None

    return judge


def _opencode(facts: Facts, policy: Policy) -> Decision | None:
    recent = _recent(facts)
    for calls in recent.at_each_call() if facts.calls else ():
        if _count_same(tuple(call for call in calls if call.step == recent.steps)) >= 3:
            return Pause(rule="opencode_doom_loop", questions=())
    return None


def _gemini(facts: Facts, policy: Policy) -> Decision | None:
    rule = "gemini_cli_loop"
    recent = _recent(facts)
    if not facts.calls or not any(repeats_in_cycle(calls, 5, 5) for calls in recent.at_each_call()):
        return None
    if recent.loops > 1:
        return _stop(rule, "a cycle of up to 5 calls five times, for the second time")
    return GoOn(rule=rule, say=f"{rule}: a cycle of up to 5 calls five times", why="a cycle of calls five times")


def _mistakes(facts: Facts, policy: Policy) -> Decision | None:
    errors = _recent(facts).error_steps
    if not facts.calls or errors < 3:
        return None
    return _stop("cline_mistakes", f"{errors} steps in a row in which no call succeeded")


def _openhands(facts: Facts, policy: Policy) -> Decision | None:
    rule, calls = "openhands_stuck", _recent(facts).calls[-10:]
    if facts.monologue >= 3:
        return _stop(rule, f"{facts.monologue} messages in a row")
    if not facts.calls:
        return None
    errors = 0
    while errors < len(calls) and calls[-1 - errors].error and _same_action(calls[-1 - errors], calls[-1]):
        errors += 1
    if errors == 3:
        return _tell(rule, errors)
    if errors > 3:
        return _stop(rule, f"the same call failed {errors} times in a row")
    if len(calls) >= 4 and all(_same_outcome(call, calls[-1]) for call in calls[-4:]):
        return _stop(rule, "the same call with the same result 4 times in a row")
    if len(calls) >= 6 and all(_same_outcome(calls[-n], calls[-n - 2]) for n in range(1, 5)):
        return _stop(rule, "two calls with the same results by turns, 6 calls")
    return None


def _same_action(one: RecentCall, other: RecentCall) -> bool:
    return (one.call, one.text) == (other.call, other.text)


def _same_outcome(one: RecentCall, other: RecentCall) -> bool:
    return _same_action(one, other) and (one.result, one.error) == (other.result, other.error)


def _fuse(facts: Facts, policy: Policy) -> Decision | None:
    rule = "trajectory_fuse"
    for calls in _recent(facts).at_each_call() if facts.calls else ():
        if _count_same(calls) >= 3:
            return _stop(rule, "the same call 3 times in a row")
        if repeats_in_cycle(calls, longest=6, times=2, shortest=2):
            return _stop(rule, "a cycle of 2 to 6 calls twice")
        if calls[-1].failures >= 4 and calls[-1].alike >= 3:
            return _stop(rule, f"{calls[-1].failures} calls of {calls[-1].tool} failed nearly alike")
    return None


def _browser_use(facts: Facts, policy: Policy) -> Decision | None:
    rule, recent = "browser_use_loop", _recent(facts)
    if not facts.calls:
        return None
    if recent.error_steps >= 6:
        return _stop(rule, f"{recent.error_steps} steps in a row failed")
    marks = [call.call for call in recent.calls if call.tool not in ("wait", "done", "go_back")][-20:]
    most = max(map(marks.count, set(marks)), default=0)
    return _tell(rule, most) if most >= 5 else None


def _messages(facts: Facts, policy: Policy) -> Decision | None:
    messages = 2 + facts.steps + facts.tool_calls
    return Stop(rule="inspect_messages", reason="step_limit", detail=f"{messages} messages") if messages >= 50 else None


def _guard(name: str, says: str, judge: Callable[[Facts, Policy], Decision | None]) -> Rule:
    return Rule("guard", name, says, ("recent",), judge)


PUBLISHED_RULES: tuple[Rule, ...] = (
    _guard("opencode_doom_loop", "Three equal calls in a row in one response: asks.", _opencode),
    _guard(
        "opencode_documented",
        "Three equal calls in a row: asks.",
        _ask_at_same_calls("opencode_documented", 3),
    ),
    _guard("gemini_cli_loop", "A cycle of up to five calls five times: tells, then stops.", _gemini),
    _guard("qwen_code_loop", "Five equal calls in a row: stops.", _same_calls("qwen_code_loop", 5)),
    _guard("cline_loop", "Equal calls in a row: tells at 3, stops at 5.", _same_calls("cline_loop", 5, (3,))),
    _guard("cline_mistakes", "Three steps in a row without a call that succeeded: stops.", _mistakes),
    _guard("roo_code_repetition", "Four equal calls in a row: asks.", _ask_at_same_calls("roo_code_repetition", 4)),
    _guard("openhands_stuck", "Equal calls with equal results, errors or messages: stops.", _openhands),
    _guard(
        "kimi_cli_repeat",
        "Equal calls in a row: tells from 3, stops at 12.",
        _same_calls("kimi_cli_repeat", 12, tuple(range(3, 12))),
    ),
    _guard("browser_use_loop", "Equal calls among the latest 20: tells. Six failed steps: stops.", _browser_use),
    _guard("trajectory_fuse", "Three equal calls, a cycle twice, four failures alike: stops.", _fuse),
    Rule("guard", "inspect_messages", "Fifty messages: stops.", ("steps", "tool_calls"), _messages),
)
"""The guards that the policies below name, beside ours."""


def guards_alone(policy: Policy, name: str) -> Policy:
    """The policy's guards without a limit on steps, and nothing else that ends a run or cuts a response."""
    return replace(
        policy,
        name=name,
        limits=replace(policy.limits, steps=UNLIMITED, soft_steps=None),
        degeneration=Degeneration(text=None, reasoning=None, arguments=None),
        reminder=None,
        closing=False,
        response_tokens=None,
        max_inner_steps=UNLIMITED,
        rules=("control_flow", "go_on"),
    )


def _policy(name: str, *guards: str, steps: int = UNLIMITED, cost_usd: float | None = None, **patience: Any) -> Policy:
    """A policy that does nothing but what these guards and limits say."""
    limits = [*(["step_limit"] if steps < UNLIMITED else []), *(["cost_limit"] if cost_usd is not None else [])]
    alone = guards_alone(Policy(guards=(*guards, *limits), patience=Patience(**patience)), name)
    return replace(alone, limits=Limits(steps=steps, cost_usd=cost_usd))


_STREAMED = "Its check for text that repeats itself looks at the stream of one response; ours is `degeneration`."

PUBLISHED: tuple[PublishedPolicy, ...] = (
    PublishedPolicy(
        name="opencode",
        project="opencode",
        version="dev",
        repository="sst/opencode",
        commit="9c094ad5581ded82524853d0b1f0881ab8964a21",
        sources=(("packages/opencode/src/session/processor.ts", 30),),
        says="Asks the user at the third identical call in a row within one response; never across responses (its "
        "issue 25254 says the same).",
        acts="asks",
        policy=_policy("opencode", "opencode_doom_loop"),
    ),
    PublishedPolicy(
        name="opencode-documented",
        project="opencode",
        version="as documented",
        repository="sst/opencode",
        commit="9dc1388d62a1ced4876f6d4597a26490c7352d10",
        sources=(("packages/web/src/content/docs/permissions.mdx", 165),),
        says="Asks the user at the third identical call in a row, across responses too.",
        acts="asks",
        settings='`repetition.by = "calls"`, `longest_cycle = 1`, `stop_at = 3`; stops instead of asking',
        policy=_policy("opencode-documented", "opencode_documented"),
    ),
    PublishedPolicy(
        name="gemini-cli",
        project="Gemini CLI",
        version="0.56.0-nightly",
        repository="google-gemini/gemini-cli",
        commit="5411f113cafae26161b4969b0237b8e1e024e2c2",
        sources=(
            ("packages/core/src/services/loopDetectionService.ts", 313),
            ("packages/core/src/core/client.ts", 814),
            ("packages/core/src/core/client.ts", 79),
        ),
        says="Tells the model when a cycle of one to five calls was made five times; stops the second time. 100 "
        "turns per prompt.",
        acts="tells, then stops",
        settings='`repetition.by = "calls"`, `longest_cycle = 5`, `nudge_at = [5]`, `stop_at = 6`',
        missing="From turn 30 on a model judges whether the conversation is a loop; a backtest calls no model. "
        + _STREAMED,
        policy=_policy("gemini-cli", "gemini_cli_loop", steps=100),
    ),
    PublishedPolicy(
        name="qwen-code",
        project="Qwen Code",
        version="main",
        repository="QwenLM/qwen-code",
        commit="00aa71b4a0a37df1c392eb9b90e1c53d008fdce5",
        sources=(("packages/core/src/services/loopDetectionService.ts", 45),),
        says="Stops at the fifth identical call in a row, whatever its settings.",
        acts="stops",
        settings='`repetition.by = "calls"`, `longest_cycle = 1`, `stop_at = 5`',
        missing="Eight overview commands of git in a row; its optional heuristics for single tools, reading and "
        "thoughts; 100 calls of which one was made six times. " + _STREAMED,
        policy=_policy("qwen-code", "qwen_code_loop"),
    ),
    PublishedPolicy(
        name="cline",
        project="Cline",
        version="3.0.56",
        repository="cline/cline",
        commit="21cb8d2525bcedf1f4b6890b27a74a14fe7451e4",
        sources=(
            ("apps/cli/src/runtime/defaults.ts", 6),
            ("sdk/packages/core/src/runtime/safety/loop-detection.ts", 85),
            ("sdk/packages/core/src/runtime/orchestration/session-runtime-orchestrator.ts", 1203),
            ("apps/cli/src/main.ts", 1070),
        ),
        says="Tells the model at the third identical call in a row and stops at the fifth; also stops after three "
        "steps in a row in which calls failed and none succeeded. Without auto-approval it asks the user "
        "instead of stopping.",
        acts="tells, then stops",
        settings='`repetition.by = "calls"`, `longest_cycle = 1`, `nudge_at = [3]`, `stop_at = 5`',
        policy=_policy("cline", "cline_loop", "cline_mistakes"),
    ),
    PublishedPolicy(
        name="roo-code",
        project="Roo Code",
        version="3.52.1",
        repository="RooCodeInc/Roo-Code",
        commit="cb836567180a3ff1da6d082f3178b90c3bd22a70",
        sources=(
            ("src/core/tools/ToolRepetitionDetector.ts", 50),
            ("packages/types/src/provider-settings.ts", 29),
        ),
        says="Asks the user at the fourth identical call in a row: its limit of 3 counts repetitions after the first.",
        acts="asks",
        settings='`repetition.by = "calls"`, `longest_cycle = 1`, `stop_at = 4`; stops instead of asking',
        missing="Three mistakes in a row, which each tool counts in its own way.",
        policy=_policy("roo-code", "roo_code_repetition"),
    ),
    PublishedPolicy(
        name="openhands",
        project="OpenHands SDK",
        version="1.43.1",
        repository="OpenHands/software-agent-sdk",
        commit="611629e6999ad398dc49c761721eefe18d5e6bd9",
        sources=(
            ("openhands-sdk/openhands/sdk/conversation/stuck_detector.py", 156),
            ("openhands-sdk/openhands/sdk/conversation/types.py", 150),
            ("openhands-sdk/openhands/sdk/conversation/conversation.py", 75),
        ),
        says="Stops at the fourth identical call with the same result, at the fourth identical call that fails "
        "(told at the third), at three messages in a row, or when two calls alternate three times; calls are "
        "identical only if the text beside them is. 500 steps.",
        acts="tells, then stops",
        missing="Its fifth check, for errors of the context window, is disabled in the source.",
        policy=_policy("openhands", "openhands_stuck", steps=500),
    ),
    PublishedPolicy(
        name="kimi-cli",
        project="Kimi CLI",
        version="1.49.0",
        repository="MoonshotAI/kimi-cli",
        commit="4a550effdfcb29a25a5d325bf935296cc50cd417",
        sources=(("src/kimi_cli/soul/toolset.py", 153), ("src/kimi_cli/config.py", 78)),
        says="Tells the model at each identical call in a row from the third on and stops at the twelfth; 1,000 steps.",
        acts="tells, then stops",
        settings='`repetition.by = "calls"`, `longest_cycle = 1`, `nudge_at = [3, …, 11]`, `stop_at = 12`',
        policy=_policy("kimi-cli", "kimi_cli_repeat", steps=1000),
    ),
    PublishedPolicy(
        name="goose",
        project="goose",
        version="main",
        repository="block/goose",
        commit="43025f8890d68643e43a6aec1ae0bb71c85cac5e",
        sources=(("crates/goose/src/agents/agent.rs", 62),),
        says="1,000 turns. Its check for repeated calls is built without a limit, so it never fires.",
        acts="stops",
        settings="`limits.steps = 1000`",
        policy=_policy("goose", steps=1000),
    ),
    PublishedPolicy(
        name="browser-use",
        project="browser-use",
        version="0.13.8",
        repository="browser-use/browser-use",
        commit="85ddbfedf609166b2d2c76c3d80506649fee82a9",
        sources=(
            ("browser_use/agent/views.py", 211),
            ("browser_use/agent/service.py", 2613),
            ("browser_use/agent/service.py", 2508),
        ),
        says="Tells the model while one of its last 20 calls was made 5 times or more; stops after six failed "
        "steps in a row, and after 500 steps.",
        acts="tells, then stops",
        missing="Pages that did not change: records have no pages. There, search queries are equal if they have the "
        "same words.",
        policy=_policy("browser-use", "browser_use_loop", steps=500),
    ),
    PublishedPolicy(
        name="trajectory-fuse",
        project="trajectory-fuse",
        version="0.3.0",
        repository="",
        commit="",
        sources=(
            ("trajectory_fuse/guard.py", 680),
            ("trajectory_fuse/guard.py", 710),
            ("trajectory_fuse/guard.py", 744),
        ),
        says="Stops at the third identical call in a row, at a cycle of two to six calls made twice, and at the "
        "fourth failure in a row of one tool with nine tenths of the words in common.",
        acts="stops",
        policy=_policy("trajectory-fuse", "trajectory_fuse"),
    ),
    PublishedPolicy(
        name="mini-swe-agent",
        project="mini-SWE-agent",
        version="2.4.6",
        repository="SWE-agent/mini-swe-agent",
        commit="a83fcae82d2a08f0ee0c688f9d137b3566c097f8",
        sources=(
            ("src/minisweagent/agents/default.py", 26),
            ("src/minisweagent/config/benchmarks/swebench.yaml", 112),
        ),
        says="3 US dollars; three malformed responses in a row; 250 steps for SWE-bench.",
        acts="stops",
        settings="`limits.cost_usd = 3`, `limits.steps = 250`, `patience.invalid_calls = 2`",
        policy=_policy("mini-swe-agent", "invalid_calls", steps=250, cost_usd=3.0, invalid_calls=2),
    ),
    PublishedPolicy(
        name="swe-agent",
        project="SWE-agent",
        version="1.1.0",
        repository="SWE-agent/SWE-agent",
        commit="3ea751c087f32b16e039a2233dd6eefecef325d5",
        sources=(("sweagent/agent/models.py", 73),),
        says="3 US dollars.",
        acts="stops",
        settings="`limits.cost_usd = 3`",
        missing="Three commands in a row that timed out, and half an hour of commands: records do not say so.",
        policy=_policy("swe-agent", cost_usd=3.0),
    ),
    PublishedPolicy(
        name="smolagents",
        project="smolagents",
        version="1.27.0.dev0",
        repository="huggingface/smolagents",
        commit="e3a5b8994b301983b91c0325546e9dc82eab8cf0",
        sources=(("src/smolagents/agents.py", 300),),
        says="20 steps.",
        acts="stops",
        settings="`limits.steps = 20`",
        policy=_policy("smolagents", steps=20),
    ),
    PublishedPolicy(
        name="vercel-ai",
        project="Vercel AI SDK, ToolLoopAgent",
        version="7.0.77",
        repository="vercel/ai",
        commit="ed857f50f112e23930b0c2dd8d532cc8bebbc911",
        sources=(("packages/ai/src/agent/tool-loop-agent.ts", 132),),
        says="20 steps. `generateText` and `streamText` make one step unless told otherwise.",
        acts="stops",
        settings="`limits.steps = 20`",
        policy=_policy("vercel-ai", steps=20),
    ),
    PublishedPolicy(
        name="openai-agents",
        project="OpenAI Agents SDK",
        version="0.22.0",
        repository="openai/openai-agents-python",
        commit="7f7a44f8dc0650296bd5ab6c745c9bcbaa6ac3b7",
        sources=(("src/agents/run_config.py", 44),),
        says="10 turns.",
        acts="stops",
        settings="`limits.steps = 10`",
        policy=_policy("openai-agents", steps=10),
    ),
    PublishedPolicy(
        name="pydantic-ai",
        project="Pydantic AI",
        version="2.33.0",
        repository="pydantic/pydantic-ai",
        commit="4fda38988f2939fa6ea9cdefcf120693e10ef491",
        sources=(("pydantic_ai_slim/pydantic_ai/usage.py", 429),),
        says="50 requests.",
        acts="stops",
        settings="`limits.steps = 50`",
        policy=_policy("pydantic-ai", steps=50),
    ),
    PublishedPolicy(
        name="crewai",
        project="crewAI",
        version="1.15.17",
        repository="crewAIInc/crewAI",
        commit="f4731f5025f861c78e3af0487cc80bf5e7c64782",
        sources=(("lib/crewai/src/crewai/agents/agent_builder/base_agent.py", 304),),
        says="25 iterations.",
        acts="stops",
        settings="`limits.steps = 25`",
        missing="In its text format a call that repeats the previous one gets an error and does not run.",
        policy=_policy("crewai", steps=25),
    ),
    PublishedPolicy(
        name="langgraph",
        project="LangGraph",
        version="1.2.11",
        repository="langchain-ai/langgraph",
        commit="f09cfe8ffc1eeffd68f4b628ed69c30f7cad229f",
        sources=(("libs/langgraph/langgraph/_internal/_config.py", 32),),
        says="10,007 supersteps: 5,003 model steps of an agent of two nodes, model and tools.",
        acts="stops",
        settings="`limits.steps = 5003`",
        policy=_policy("langgraph", steps=5003),
    ),
    PublishedPolicy(
        name="inspect-ai",
        project="Inspect, basic_agent",
        version="0.3.260",
        repository="UKGovernmentBEIS/inspect_ai",
        commit="499e6152e7b8fc8cbd8ac5283536572aa6e4ab17",
        sources=(("src/inspect_ai/solver/_basic_agent.py", 184),),
        says="50 messages, including those of the system and the user: 24 steps of one call each.",
        acts="stops",
        settings="`limits.steps = 24`",
        policy=_policy("inspect-ai", "inspect_messages"),
    ),
)
"""All of them, those with rules first, then those with limits."""

BY_NAME: dict[str, PublishedPolicy] = {one.name: one for one in PUBLISHED}


def rules_of(guards: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules of other projects if one of these guards is among them, else none."""
    return PUBLISHED_RULES if any(rule.name in guards for rule in PUBLISHED_RULES) else ()
