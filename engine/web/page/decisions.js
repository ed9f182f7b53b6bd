// What was decided after the steps of a session, in plain words; the rules that were asked stand behind each.
import { hashOf } from "./address.js";
import { h } from "./dom.js";
import { oneLine } from "./text.js";
import { alarmWords, decisionWords, fact, ruleWords } from "./words.js";

/** The decisions of a run, each with the step before it. */
function* decided(run) {
  let step = null;
  for (const item of run.items.flatMap((one) => (one.kind === "round" ? [...one.parts, one] : [one]))) {
    if (item.kind === "step") {
      step = item.number;
      for (const part of item.parts) if (["decision", "alarm"].includes(part.kind)) yield [step, part];
    } else if (["decision", "alarm"].includes(item.kind)) yield [step, item];
  }
}

export function decisionsView(root, id) {
  return (state) => {
    const all = state.runs.flatMap((run) => [...decided(run)].map(([step, item]) => ({ run, step, item })));
    const steps = state.runs.reduce((sum, run) => sum + run.steps, 0);
    root.replaceChildren(
      h("ol", { class: "decided" }, ...all.map(({ run, step, item }) => h("li", {},
        step === null ? "Before the first step" : h("a", { href: hashOf({ id, run: run.place + 1, step }) }, `${state.runs.length > 1 ? `Run ${run.place + 1}, step` : "Step"} ${step}`), ": ",
        item.kind === "alarm" ? alarmWords(item.alarm) : decisionWords(item.decision),
        item.kind === "alarm" ? null : traceView(item)))),
      all.length < steps ? h("p", { class: "faint" }, state.runs.some((run) => run.foreign) ? "After the other steps its program went on. Why is not recorded." : "After every other step it went on, because the response called a tool.") : "",
      all.length ? "" : h("p", { class: "faint" }, "No decision is recorded."));
  };
}

function traceView(item) {
  const body = h("div");
  return h("details", { ontoggle: () => body.firstChild || body.append(...rulesOf(item)) }, h("summary", {}, "details"), body);
}

/** The rule that decided, what it said, and all rules that were asked. */
export function rulesOf({ round, decision }) {
  const said = decision.detail || decision.why;
  const rows = (decision.trace ?? []).map((one) => h("tr", one.said ? { class: "spoke" } : {},
    h("th", { scope: "row" }, h("code", {}, one.rule)),
    h("td", {}, ...Object.entries(one.saw ?? {}).map(([name, value]) => h("div", {}, h("code", {}, `${name} = ${oneLine(fact(value), 200)}`)))),
    h("td", {}, one.said ? h("code", {}, one.said) : "–")));
  const heads = ["Rule", "Saw", "Said"].map((word) => h("th", { scope: "col" }, word));
  return [
    decision.rule ? h("p", { class: "faint" }, `Decided in round ${round} by the rule for ${ruleWords(decision.rule)}, `, h("code", {}, decision.rule)) : "",
    said ? h("pre", {}, said) : "",
    !rows.length ? h("p", { class: "faint" }, "Which rules were asked is not recorded.")
      : h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": `Rules asked in round ${round}` },
        h("table", {}, h("caption", { class: "faint" }, "Each rule that was asked, in order"), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
  ].filter(Boolean);
}
