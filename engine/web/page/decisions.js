// What was decided after the steps of a session, in plain words; the rules that were asked stand behind each.
import { hashOf } from "./address.js";
import { h, put } from "./dom.js";
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
      all.length < steps ? h("p", { class: "faint" }, "After every other step it went on, because the response called a tool.") : "",
      all.length ? "" : h("p", { class: "faint" }, "No decision is recorded."));
  };
}

/** The rule that decided and all that were asked, filled in when it is opened. */
export function traceView({ round, decision }, summary = "details", name = "") {
  const body = h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": `Rules asked in round ${round}` });
  const node = h("details", { class: name, ontoggle: fill }, h("summary", {}, summary), body);
  function fill() {
    if (body.firstChild) return;
    const rule = decision.rule ? h("p", { class: "faint" }, `Decided in round ${round} by the rule for ${ruleWords(decision.rule)}, `, h("code", {}, decision.rule)) : "";
    const said = decision.detail || decision.why;
    body.append(rule, said ? h("pre", {}, said) : "");
    const rows = (decision.trace ?? []).map((one) => h("tr", one.said ? { class: "spoke" } : {},
      h("th", { scope: "row" }, h("code", {}, one.rule)),
      h("td", {}, ...Object.entries(one.saw ?? {}).map(([key, value]) => h("div", {}, h("code", {}, `${key} = ${oneLine(fact(value), 200)}`)))),
      h("td", {}, one.said ? h("code", {}, one.said) : "–")));
    const heads = ["Rule", "Saw", "Said"].map((word) => h("th", { scope: "col" }, word));
    if (!rows.length) return body.append(h("p", { class: "faint" }, "Which rules were asked is not recorded."));
    body.append(h("table", {}, h("caption", { class: "faint" }, "Each rule that was asked, in order"),
      h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
  }
  return node;
}
