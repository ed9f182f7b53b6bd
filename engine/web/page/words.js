// Words for states, results, checks and decisions. How a session ended stands in its verdict (engine/analysis/verdict.py).
import { RULES } from "./rule_words.js";
import { called, counted, duration, money, number, oneLine, plain } from "./text.js";

/** Of each status: tone, sign and word. Never the colour alone. */
export const STATUS = {
  queued: ["quiet", "…", "queued"],
  running: ["main", "◌", "running"],
  completed: ["quiet", "✔", "completed"],
  exhausted: ["warn", "■", "stopped"],
  failed: ["bad", "✘", "failed"],
  cancelled: ["quiet", "⊘", "cancelled"],
  awaiting_input: ["main", "?", "waits for an answer"],
  interrupted: ["warn", "↯", "interrupted"],
};

/** Whether a session of this status gets an end by itself. */
export const underWay = (status) => status === "running" || status === "queued";

export const yesNo = ({ tool, confirms, extends: steps }) => !!tool || confirms != null || !!steps;

/** Of each status of a result: tone, sign, and words unless all is well. */
export const RESULT = {
  ok: ["quiet", "✔", ""],
  error: ["bad", "✘", "error"],
  rejected: ["warn", "↩", "not accepted"],
  skipped: ["quiet", "–", "not run"],
  cancelled: ["quiet", "⊘", "cancelled"],
  invalid: ["bad", "✘", "invalid call, not run"],
  truncated: ["warn", "✂", "cut off inside the call, not run"],
  unknown: ["warn", "?", "unknown: the process died while it ran"],
  unanswered: ["quiet", "?", "never answered"],
  denied: ["warn", "⊘", "denied, not run"],
};

/** Of each end that a status of `ok` leaves open. */
const ENDS = {
  failed: ["bad", "✘", "failed"],
  nothing_found: ["bad", "✘", "exit code 1 and no output"],
  unknown: ["quiet", "·", ""],
};

/** Whether a call that ended so counts as an error, as in the list: any exit code but 0 is one. How it ended is judged in
 * decision/call_judgement.py, and comes with the event of its result. */
export const isFailure = (end) => end === "failed" || end === "nothing_found";

/** Tone, sign and words of a call's end: never a tick for one that is not known to have succeeded. */
export function resultOf({ status, end }) {
  if (!status) return ["main", "◌", ""];
  return (status === "ok" && ENDS[end]) || (RESULT[status] ?? ["quiet", "?", status]);
}

/** Tone, sign and word of a call's state, for everyone: a status that is not `ok` says more than the result does. */
export function stateOf(call) {
  if (!call.status) return ["main", "◌", call.asks ? "waits for an answer" : call.running ? "running" : call.done ? "not run yet" : "being written"];
  const [tone, sign, words] = resultOf(call);
  if (isFailure(call.end)) return [tone, sign, "failed"];
  return call.end === "succeeded" ? [tone, sign, "succeeded"] : [tone, sign, words || "unknown"];
}

/** Why a call was not run: engine/tool_calls.py skips calls with a completion, engine/loop.py those of a closing step. */
export function skippedWords({ inside, id }) {
  if (inside?.closing) return "not run: the limit is reached";
  const calls = (inside?.parts ?? []).filter((part) => part.kind === "call" && !part.void);
  const end = calls.findIndex((call) => call.does === "completion");
  if (end < 0) return "not run";
  const after = calls.findIndex((call) => call.id === id) > end;
  return after ? `not run: it stood after ${calls[end].name}` : `not run: ${calls[end].name} came in the same response`;
}

const scoreWords = (score, of) => (of === null ? `${score}` : `${score} of ${of}`);

/** Tone, sign and words of what a check said. */
export function checkWords({ said, name, score, of, change, changed }) {
  const files = changed.join(", ");
  if (said === "met") return files ? ["warn", "!", `\`${name}\` passes, but only with changed ${files}`] : ["good", "✔", `\`${name}\` passes`];
  const found = score === null ? "fails" : `${scoreWords(score, of)} pass`;
  const difference = change ? `, ${change > 0 ? "+" : ""}${change}` : "";
  return ["quiet", "◔", `${said === "impossible" ? "cannot be met" : found}${difference}${files && `, with the original ${files}`}`];
}

/** What is known of a response that was left at a completion call. */
export function cutWords({ call = "the completion", ended, rest }) {
  const { output_tokens: tokens, calls = [], whole = true } = rest ?? {};
  const words = [tokens && `about ${counted(tokens, "output token")}`, calls.length && `${counted(calls.length, "tool call")} (${oneLine(calls.join(", "), 200)})`]
    .filter(Boolean).join(" and ");
  if (ended || (rest && whole && !words)) return ["The response ended here", `nothing was cut off after ${call}`];
  return ["Cut here", words ? `this saved ${whole ? "" : "at least "}${words}` : `whether anything would have followed ${call} is unknown`];
}

export function failureWords(failure) {
  const status = failure.status ? `${failure.status}: ` : "";
  const wait = failure.retry_after != null ? ` (retry after ${failure.retry_after} s)` : "";
  return `${plain(failure.kind)}: ${status}${failure.message}${wait}`;
}

/** Tone, sign, head and words of an evaluation. */
export function evaluationWords({ verdict, name, details }) {
  const [tone, sign, said] = { passed: ["good", "✔", "passed"], failed: ["bad", "✘", "failed"] }[verdict] ?? ["quiet", "○", "got no verdict"];
  const labels = Object.hasOwn(details, "label") || /label/i.test(name);
  const by = labels ? `, by the labels${name ? ` in ${called(name)}` : ""}` : name ? `, by ${called(name)}` : "";
  return [tone, sign, "Evaluation", `the work ${said}${by}`];
}

/** A detail of a decision without the units that only a policy knows. */
const plainly = (text) => text.replace(/(\d+) points (?:for steps )?without progress/g, "steps without progress").replace(/[a-z]+(?:_[a-z]+)+/g, plain);

export const ruleWords = (rule) => RULES[rule] ?? plain(rule);

/** Reasons of a "go on" that are a rule's short ones, as a clause. */
const WHYS = {
  "calls answered": "the response called a tool",
  "completion handed back": "its completion was not accepted",
  "nothing says otherwise": "no rule says otherwise",
  "no rule spoke": "no rule says otherwise",
  "near a limit": "a limit is near, and the model is told so",
  "text alone is no end": "a text alone does not end the run",
  "the loop that was imported said this and went on": "its program went on",
  "a plain answer ends the run": "a plain answer ends it",
};

const because = (why) => (why ? oneLine(WHYS[why] ?? plainly(why), 200) : "");

/** A decision: what it did, and why, in the words of its rule. How the run ended stands in the verdict. */
export function decisionWords(decision) {
  const why = because(decision.detail || decision.why);
  if (decision.do === "stop") return `ended the run${why && `: ${why}`}`;
  if (decision.do === "pause") return decision.extend ? "asked for more steps" : "paused, because a question to the user is open";
  return `went on${why && `, because ${why}`}${decision.compact ? ", after compacting the context" : ""}`;
}

/** What a policy that only watches would have done. */
export const alarmWords = ({ policy, detail }) => `${policy} would have ended the run${detail && `: ${because(detail)}`}`;

/** A fact in a few words. */
export function fact(value) {
  if (value === null) return "none";
  if (Array.isArray(value)) return value.length ? `${value.length}: ${JSON.stringify(value)}` : "none";
  return typeof value === "string" ? value || '""' : JSON.stringify(value);
}

const BUDGETS = {
  steps: "steps", rounds: "rounds", tool_calls: "tool calls", input_tokens: "tokens in",
  output_tokens: "tokens out", cost_usd: "cost", seconds: "time",
};

export const budgetName = (name, scope) =>
  BUDGETS[name] + ({ session: " (session)", budget: " (shared)" }[scope] ?? "");

function amount(name, value) {
  if (name === "cost_usd") return money(value);
  return name === "seconds" ? duration(value * 1000) : number(value);
}

export function allowedWords({ name, used, hard, soft }) {
  const words = hard == null ? amount(name, used) : `${amount(name, used)} of ${amount(name, hard)}`;
  return soft == null ? words : `${words}, soft limit ${amount(name, soft)}`;
}
