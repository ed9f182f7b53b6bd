// What is shown, as a fold of the events, live or replayed. Lists only grow, and an item keeps its place and its kind;
// `stamp` is the number of the event that changed it last, so points are compared by places and stamps.

import { checks } from "./checks.js";
import { planOf, takesPlans } from "./plan.js";
import { counted, number, parsed, plain, questionText } from "./text.js";

export const begin = () => ({ stamp: 0, runs: [] });

/** Take one more event of a session. Changes `state`, and nothing else. */
export function take(state, event) {
  state.stamp += 1;
  if (event.type === "RUN_STARTED") {
    state.runs.push(started(state, event));
    if (event.origin) forked(state.runs.at(-1), event.origin);
    return;
  }
  const run = state.runs.at(-1);
  if (!run) return;
  run.stamp = state.stamp;
  run.t = Math.max(run.t, event.t ?? 0);
  if (event.type !== "USAGE_REPORTED") spend(run, event.usage);
  HEARD[event.type]?.(run, event);
}

export function fold(events, upTo = events.length) {
  const state = begin();
  for (let i = 0; i < upTo; i++) take(state, events[i]);
  return state;
}

const NOTHING = { input_tokens: 0, output_tokens: 0, cost_usd: null, estimated: false };

function started(state, event) {
  const carried = event.carried ?? {};
  const tools = event.tools ?? [];
  return {
    stamp: state.stamp, id: event.run_id, place: state.runs.length, prompt: event.prompt ?? null, t: 0, began: event,
    model: event.model ?? "", tools: new Map(tools.map((tool) => [tool.name, tool])),
    steps: carried.steps ?? 0, rounds: carried.rounds ?? 0,
    toolCalls: carried.tool_calls ?? 0, usage: { ...NOTHING, ...carried.usage }, earlier: carried.elapsed_ms ?? 0,
    refused: null, asked: new Map((carried.questions ?? []).map((question) => [question.call_id, question])),
    items: [], step: null, calls: new Map(), doing: "starting", previous: state.runs.at(-1) ?? null,
    planning: new Set(tools.filter(takesPlans).map((tool) => tool.name)), round: null, planned: 0,
    foreign: /^(?:import|follow):/.test(event.engine ?? ""),
    granted: carried.grants?.steps ?? 0, check: { name: "", answers: 0, of: null, scores: [] }, outcome: null,
  };
}

function forked(run, { session_id, run_id, at, changed = [], edited = [] }) {
  const other = [...changed, ...edited.map((id) => `result of ${id}`)].join(", ");
  const head = run_id === run.id ? `Copied from ${session_id}` : `Forked from ${session_id} at decision ${at}`;
  note(run, "quiet", "⑂", head, other && `with another ${other}`);
}

function spend(run, usage) {
  if (!usage) return;
  const sum = run.usage;
  sum.input_tokens += usage.input_tokens ?? 0;
  sum.output_tokens += usage.output_tokens ?? 0;
  if (usage.cost_usd != null) sum.cost_usd = (sum.cost_usd ?? 0) + usage.cost_usd;
  sum.estimated ||= usage.estimated ?? false;
}

/** Put something where the run is now: into its step or round, else after it. */
function add(run, item) {
  const inside = run.step && !run.step.done ? run.step : run.round ?? run;
  Object.assign(item, { t: run.t, inside, run: run.place + 1 });
  (inside === run ? run.items : inside.parts).push(item);
  touch(run, item, {});
  return item;
}

/** Change something, and with it its container. */
function touch(run, item, changes) {
  Object.assign(item, changes);
  for (let at = item; at; at = at.inside) at.stamp = run.stamp;
}

const note = (run, tone, sign, head, text = "") => add(run, { kind: "note", tone, sign, head, text });

/** Text and reasoning that goes on, of one attempt. */
function write(run, kind, attempt, delta) {
  const last = run.step?.parts.at(-1);
  if (last && last.kind === kind && last.attempt === attempt && !last.done) {
    touch(run, last, { text: last.text + delta });
  } else {
    settle(run);
    add(run, { kind, attempt, text: delta, done: false, void: false });
  }
}

/** What is being written is written. */
function settle(run, attempt = null) {
  for (const part of run.step?.parts.slice(-40) ?? []) {
    const writes = part.kind === "text" || part.kind === "reasoning";
    if (writes && !part.done && (attempt === null || part.attempt === attempt)) {
      touch(run, part, { done: true, until: run.t });
    }
  }
}

function endStep(run) {
  if (run.step && !run.step.done) touch(run, run.step, { done: true, until: run.t });
}

function strike(run, attempt) {
  for (const part of run.step?.parts ?? []) {
    if ((attempt === null || part.attempt === attempt) && "void" in part) touch(run, part, { void: true, done: true });
  }
}

/** A call of this run, or one that waits since an earlier one. */
export function known(run, id) {
  let call = run.calls.get(id);
  for (let one = run.previous; one && !call; one = one.previous) if (one.calls.get(id)?.status === null) call = one.calls.get(id);
  return call && !call.void ? call : null;
}

function set(run, id, changes) {
  const call = known(run, id);
  if (call) touch(run, call, changes);
}

function callOf(run, id, name, attempt = "") {
  const before = known(run, id);
  if (before) return before;
  const tool = run.tools.get(name);
  const call = add(run, {
    kind: "call", id, name, attempt, does: tool?.kind ?? "ordinary", reads: tool?.reads ?? false,
    args: "", done: false, running: false, ran: null, status: null, end: null, judged: null, proposed: [], result: "", images: [], void: false, thought: null,
  });
  run.calls.set(id, call);
  return call;
}

/** The call that waits for an answer: a sub-agent's question is that of its call. */
const asking = ({ asker, call_id }) => asker?.call_id ?? call_id;

const pose = (run, question) => add(run, { kind: "question", question, issues: question.pending_issues ?? [] });

const HEARD = {
  RUN_RESUMED(run, event) {
    if (event.interrupted_step != null) {
      if (run.step && !run.step.closing) run.steps -= 1;
      strike(run, null);
      endStep(run);
    }
    note(run, "quiet", "↯", "The run goes on where its process was killed");
  },
  RESUME_DIVERGED(run, { at, recorded, now }) {
    note(run, "warn", "≠", `From event ${at} on it differs: ${now}, not ${recorded}`);
  },
  ALARM_RAISED: (run, alarm) => add(run, { kind: "alarm", alarm }),
  MESSAGE_ADDED(run, { text, origin, message_id }) {
    add(run, { kind: "message", origin, text, id: message_id ?? "" });
  },
  CANCEL_REQUESTED(run, { cause }) {
    run.doing = "cancelling";
    note(run, "quiet", "⊘", "Asked to stop", cause);
  },
  ROUND_STARTED(run) {
    run.rounds += 1;
  },
  STEP_STARTED(run, { step, closing }) {
    run.steps += closing ? 0 : 1;
    run.step = null;
    if (run.round?.done || closing) run.round = null;
    if (run.planning.size && !closing) run.round ??= add(run, { kind: "round", number: ++run.planned, parts: [], done: false });
    run.step = add(run, { kind: "step", number: step, closing: closing ?? false, parts: [], done: false, usage: null });
    run.doing = "waiting for the model";
  },
  ATTEMPT_STARTED(run) {
    run.doing = "waiting for the model";
  },
  ATTEMPT_FAILED(run, event) {
    if (event.beside) {
      note(run, "quiet", "·", `${event.model ?? ""} was asked, too`, event.message);
      return;
    }
    settle(run, event.attempt);
    if (event.kind === "cancelled") return;
    strike(run, event.attempt);
    add(run, { kind: "failure", failure: event });
  },
  ATTEMPT_RETRACTED(run, { attempt }) {
    strike(run, attempt);
    note(run, "warn", "↺", `Attempt ${attempt} is void; another one takes its place`);
  },
  TEXT_MESSAGE_CONTENT(run, { attempt, delta }) {
    run.doing = "writing";
    write(run, "text", attempt, delta);
  },
  REASONING_MESSAGE_CONTENT(run, { attempt, delta, redacted }) {
    run.doing = "thinking";
    if (delta || redacted) write(run, "reasoning", attempt, redacted ? "(hidden by the provider)" : delta);
  },
  TOOL_CALL_START(run, { attempt, call_id, name }) {
    settle(run);
    run.doing = `calling ${name}`;
    callOf(run, call_id, name, attempt);
  },
  TOOL_CALL_ARGS(run, { call_id, delta }) {
    const call = run.calls.get(call_id);
    if (call) touch(run, call, { args: call.args + delta });
  },
  TOOL_CALL_END(run, { call_id }) {
    set(run, call_id, { done: true });
  },
  PROVIDER_TOOL_REPORTED(run, event) {
    const call = callOf(run, event.id, event.name, event.attempt);
    touch(run, call, { does: "provider", args: event.arguments ?? "", result: event.result ?? "", done: true, status: "ok", end: "unknown" });
  },
  RESPONSE_FINISHED(run, event) {
    const { step } = run;
    settle(run);
    if (!step) return;
    const { text = "", calls = [], reasoning = [] } = event.message ?? {};
    const attempt = event.attempt ?? "";
    const told = (kind) => step.parts.some((part) => part.kind === kind && part.attempt === attempt && !part.void);
    // a response that was not streamed, or was imported, is known from here alone
    if (reasoning.length && !told("reasoning")) {
      write(run, "reasoning", attempt, reasoning.map((one) => one.text || "(hidden by the provider)").join("\n"));
    }
    if (text && !told("text")) write(run, "text", attempt, text);
    settle(run);
    for (const { id, name, arguments: args } of calls) touch(run, callOf(run, id, name, attempt), { args: args ?? "", done: true });
    if (event.cut_for === "check") note(run, "good", "✂", "The response is cut, since the check is met", "nothing after this was read");
    if (event.cut_at) {
      add(run, { kind: "cut", call: run.calls.get(event.cut_at)?.name, ended: event.cut_at_end || event.raw_finish, rest: event.after_cut });
    } else if (event.finish === "length" || event.finish === "context_full" || event.truncated) {
      note(run, "warn", "✂", "The response broke off", "it reached the provider's length limit");
    } else if (event.finish === "content_filter") note(run, "warn", "⚠", "The provider's content filter blocked the response");
    touch(run, step, { usage: event.usage ?? null, model: event.model ?? "" });
    run.doing = calls.length ? "running tools" : "deciding";
  },
  STEP_FINISHED(run) {
    settle(run);
    endStep(run);
    run.doing = "deciding";
  },
  DECISION_MADE(run, { round, decision }) {
    add(run, { kind: "decision", round, decision });
    if (decision.do !== "go_on") run.round = null;
  },
  TOOL_EXECUTION_STARTED(run, { call_id, name }) {
    const call = callOf(run, call_id, name);
    touch(run, call, { running: true, ran: run.t });
    run.doing = call.does === "completion" ? "checking whether it is done" : `running ${name}`;
  },
  SUBAGENT_STARTED(run, event) {
    set(run, event.call_id, { agent: event });
  },
  TOOL_PROGRESS(run, { name, text = "" }) {
    run.doing = `${name}: ${text.slice(0, 99)}`;
  },
  TOOL_CALL_RESULT(run, event) {
    const { call_id, name, content, status = "ok", images = [], judged = null } = event;
    if (["ok", "error", "rejected"].includes(status)) run.toolCalls += 1;
    const call = callOf(run, call_id, name);
    const plan = run.planning.has(name) ? planOf(call.args, content) : null;
    touch(run, call, { running: false, done: true, status, end: judged?.end ?? "unknown", judged, result: content ?? "", plan, images, until: run.t });
    if (plan && run.round) touch(run, run.round, { goal: parsed(call.args).goal });
  },
  COMPLETION_ACCEPTED(run, event) {
    run.doing = "reported as done";
    set(run, event.call_id, { accepted: true, running: false, status: "ok", end: "succeeded" });
  },
  COMPLETION_REJECTED(run, { call_id, name, reason, by }) {
    if (by === "user") set(run, call_id, { status: "rejected", running: false });
    add(run, { kind: "rejected", name: name ?? "", reason, by });
  },
  PHASE_REPORTED(run, { percentage, summary = "", next_phase = null }) {
    if (run.round) run.round.done = true;
    if (run.round && percentage < 100) add(run, { kind: "thought", text: `${summary}\n→ ${percentage} % reported as done, next: ${next_phase}` });
    else add(run, { kind: "phase", percentage, summary, next: next_phase });
  },
  QUESTION_ASKED(run, event) {
    run.asked.set(event.call_id, event);
    run.doing = "about to ask you";
    set(run, asking(event), { asks: true, running: false, until: run.t, proposed: event.judged?.edits ?? [] });
    pose(run, event);
  },
  QUESTION_ANSWERED(run, { call_id, text, says, arguments: edited }) {
    const question = run.asked.get(call_id);
    run.asked.delete(call_id);
    const again = says === "unclear" && question;
    if (question && !again) set(run, asking(question), { asks: false });
    if (!question?.tool && question?.confirms == null) set(run, call_id, { status: "ok", end: "succeeded" });
    else if (edited) set(run, call_id, { args: JSON.stringify(edited) });
    add(run, { kind: "answered", question: question ? questionText(question) : "", text });
    if (again) pose(run, question);
  },
  THOUGHT_RECORDED(run, { call_id, text }) {
    if (known(run, call_id)?.does === "think") set(run, call_id, { thought: text });
    else add(run, { kind: "thought", text });
  },
  VERDICT_GIVEN: (run, { role, name, said, detail = "" }) => add(run, { kind: "verdict", role, name, said, detail }),
  ...checks(add, note),
  CONTEXT_COMPACTED: (run, event) => add(run, { kind: "compacted", event }),
  STAGE_FINISHED(run, { stage, status, detail = "" }) {
    if (stage === "run") run.doing = "evaluating";
    if (!["ok", "skipped", "absent"].includes(status) && stage !== "run") note(run, "quiet", "·", `${plain(stage)}: ${plain(status)}`, detail);
  },
  EVALUATION_FINISHED(run, { verdict, name = "", details = {} }) {
    add(run, { kind: "evaluation", verdict, name, details });
  },
  LIMIT_EXTENDED(run, { by, allowed }) {
    run.granted += by;
    const why = run.began.policy?.limits?.extend?.when === "ask" ? "" : ", since the work makes progress";
    note(run, "quiet", "▸", `${counted(by, "more step")} granted, ${allowed} in all${why}`);
  },
  LIMIT_REACHED(run) {
    note(run, "warn", "■", "A limit was reached: what was under way is cut off");
  },
  BUDGET_REFUSED(run, event) {
    run.refused = event;
    note(run, "warn", "■", "A budget shared with other runs is used up");
  },
  RUN_FINISHED(run, { outcome }) {
    settle(run);
    endStep(run);
    run.outcome = outcome;
    run.round = null;
    run.doing = "";
    add(run, { kind: "end", outcome });
  },
  /** No event of a record: the stream says so. */
  LAGGED(run, { missed }) {
    note(run, "warn", "…", missed === 1 ? "1 event is missing here" : `${number(missed)} events are missing here`, "this reader was too slow, and they are kept no longer");
  },
};

/** All calls of a session that stand, in order, each with its run. */
export const callsOf = (state) => state.runs.flatMap((run) => [...run.calls.values()].filter((call) => !call.void).map((call) => ({ run, call })));

/** Questions that wait for an answer at this point of the run. */
export const openQuestions = (run) => (run?.outcome?.status === "awaiting_input" ? run.outcome.questions ?? [] : []);
