// How a run ended, on a card of its own: the completion as the moment of success, and other ends calmly, with what to do.
import { h } from "./dom.js";
import { brief, called, counted, duration, money, oneLine, tokens } from "./text.js";
import { budgets } from "./model.js";
import { ending, reached } from "./words.js";

export function endCard(item) {
  const { run, files, written } = item;
  const { outcome } = run;
  const told = ending(run);
  const good = told.tone === "good";
  const above = outcome.stop_reason === "text_final";
  const asks = outcome.status === "awaiting_input";
  const node = h("article", { class: `card ${told.tone}${good ? " success" : ""}`, "data-status": outcome.status },
    h("h4", {}, h("span", { class: "sign", "aria-hidden": "true" }, told.sign), told.title, above ? h("small", {}, "the answer is the text above") : null),
    above || asks || !told.text ? null : h("div", { class: "words answer" }, told.text),
    list("Which limit", outcome.status === "exhausted" ? reached(budgets(run)) : []),
    list("Phases", (outcome.phases ?? []).filter((one) => one.summary !== outcome.answer).map(phase)),
    list("Still open", outcome.pending_issues ?? []),
    list("Files changed", files),
    list("What it did", files.length === written.length ? [] : written.map((c) => `${c.name} ${oneLine(brief(c.args), 60)}${c.status === "ok" ? "" : ` (${c.status})`}`), 8),
    evaluated(outcome),
    h("p", { class: "faint" }, figures(run)),
    told.advice ? h("p", {}, told.advice) : null,
    ["exhausted", "failed", "cancelled"].includes(outcome.status)
      ? h("p", { class: "actions" }, h("button", { type: "button", onclick: (event) => goOn(event.target) }, "Go on from here")) : null,
  );
  return { node, update() {} };
}

const goOn = (button) => button.dispatchEvent(new CustomEvent("go-on", { bubbles: true }));

function phase({ completion_percentage: percentage, summary, next_phase: next }) {
  return `${percentage ?? "?"} %${summary ? `: ${summary}` : ""}${next ? ` (next: ${next})` : ""}`;
}

function list(title, entries, most = 20) {
  if (!entries.length) return null;
  const more = entries.length > most ? [h("li", { class: "faint" }, `and ${entries.length - most} more`)] : [];
  return h("section", {}, h("h5", {}, title), h("ul", {}, ...entries.slice(0, most).map((entry) => h("li", {}, entry)), ...more));
}

function evaluated(outcome) {
  if (outcome.verdict === "not_run") return outcome.evaluation ? h("p", {}, "Evaluation without a verdict") : null;
  const passed = outcome.verdict === "passed";
  const by = outcome.evaluation?.name ? ` by ${called(outcome.evaluation.name)}` : "";
  return h("p", { class: passed ? "good" : "bad" }, h("strong", {}, `${passed ? "✔" : "✘"} Evaluation${by} ${outcome.verdict}`));
}

function figures({ outcome, model }) {
  const { usage = {} } = outcome;
  const allowed = outcome.limits?.steps?.allowed;
  const steps = allowed ? `${outcome.steps} of ${counted(allowed, "step")}` : counted(outcome.steps, "step");
  const cost = usage.cost_usd == null ? "" : money(usage.cost_usd);
  return [steps, tokens(usage), cost, duration(outcome.duration_ms), model].filter(Boolean).join(" · ");
}
