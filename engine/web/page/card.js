// The card that shows how a run ended.
import { h, put, signed, svg } from "./dom.js";
import { prose } from "./prose.js";
import { brief, counted, lasted, money, oneLine, tokens } from "./text.js";
import { budgets } from "./budget.js";
import { isFailure } from "./call_end.js";
import { ending, reached, scoresWords, workOf } from "./words.js";

export function endCard(item) {
  const { run } = item;
  const { files, written } = done(item.ran);
  const { outcome } = run;
  const told = ending(run);
  const moment = outcome.status === "completed" && told.tone !== "bad";
  const above = outcome.stop_reason === "text_final";
  const asks = outcome.status === "awaiting_input";
  const advice = told.advice ? h("p", {}, told.advice) : null;
  const answer = prose("answer", "the answer");
  if (told.text) answer.show(told.text, true);
  const node = h("article", { class: `card ${told.tone}${moment ? " success" : ""}`, "data-status": outcome.status, "data-work": workOf(outcome) },
    h("h4", {}, signed(told.sign), told.title, above ? h("small", {}, "the answer is the text above") : null),
    told.who ? h("p", { class: "known" }, told.who) : null,
    above || asks || !told.text ? null : answer.node,
    scoreCurve(run.check),
    list("Which limit", outcome.status === "exhausted" ? reached(budgets(run)) : []),
    list("Phases", (outcome.phases ?? []).filter((one) => one.summary !== outcome.answer).map(phase)),
    list("Still open", outcome.pending_issues ?? []),
    list("Files changed", files),
    list("What it did", files.length === written.length ? [] : written.map((c) => `${c.name} ${oneLine(brief(c.args), 60)}${howItEnded(c)}`), 8),
    h("p", { class: "faint" }, figures(run)),
    advice,
    ["exhausted", "failed", "cancelled"].includes(outcome.status) && !run.began.parent
      ? h("p", { class: "actions" }, h("button", { onclick: (event) => goOn(event.target) }, "Go on from here")) : null,
  );
  return { node, update: (now) => asks && put(advice, now.answered ? "It was answered." : told.advice) };
}

const [WIDE, HIGH] = [160, 28];

/** The scores of a check as a line; null unless there are two. */
function scoreCurve({ scores, of }) {
  if (scores.length < 2) return null;
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const points = scores.map((score, place) =>
    [2 + (place * (WIDE - 4)) / (scores.length - 1), HIGH - 2 - ((score - low) * (HIGH - 4)) / (high - low || 1)].map(Math.round).join());
  const words = `Score of the check: ${scoresWords({ scores, of })}`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, height: HIGH, "aria-hidden": "true" },
    svg("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linejoin": "round" }));
  return h("p", { class: "scores" }, words, picture);
}

/** What was done, and to which files, as far as it is known. */
function done(ran) {
  const changing = ran.filter((call) => call.does === "ordinary" && !onlyRead(call));
  const written = changing.flatMap((call) => call.plan?.filter(({ status }) => status && status !== "skipped") ?? [call]);
  return { files: [...new Set(written.flatMap(filesOf))], written };
}

/** One of our tools declares it; of a call of another loop it is judged. */
const onlyRead = ({ reads, foreign, judged }) => (foreign ? !judged || judged.only_read : reads);

const filesOf = ({ judged }) => judged?.files ?? [];

const howItEnded = ({ status, end }) => (status !== "ok" ? ` (${status})` : isFailure(end) ? " (failed)" : "");

const goOn = (button) => button.dispatchEvent(new CustomEvent("go-on", { bubbles: true }));

function phase({ completion_percentage: percentage, summary, next_phase: next }) {
  return `${percentage ?? "?"} %${summary ? `: ${summary}` : ""}${next ? ` (next: ${next})` : ""}`;
}

/** What is open, or was done, in points; null if nothing was. */
export function list(title, entries, most = 20) {
  if (!entries.length) return null;
  const more = entries.length > most ? [h("li", { class: "faint" }, `and ${entries.length - most} more`)] : [];
  return h("section", {}, h("h5", {}, title), h("ul", {}, ...entries.slice(0, most).map((entry) => h("li", {}, entry)), ...more));
}

function figures(run) {
  const { outcome, model } = run;
  const { usage = {} } = outcome;
  const allowed = budgets(run).find((one) => one.name === "steps" && !one.scope)?.hard;
  const steps = allowed ? `${outcome.steps} of ${counted(allowed, "step")}` : counted(outcome.steps, "step");
  const cost = usage.cost_usd == null ? "" : money(usage.cost_usd);
  return [steps, tokens(usage), cost, lasted(outcome.duration_ms), model].filter(Boolean).join(" · ");
}
