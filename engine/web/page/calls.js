// The calls of a session as a table that can be sorted, and filtered by those that failed.
import { hashOf } from "./address.js";
import { h, put, signed } from "./dom.js";
import { callsOf } from "./model.js";
import { table } from "./table.js";
import { counted, gist, lasted, oneLine } from "./text.js";
import { isFailure, stateOf } from "./words.js";

/** Rows that are made at first. */
const FIRST = 500;

const took = ({ status, ran, until }) => (status && ran !== null ? until - ran : 0);
const ORDER = ["failed", "succeeded", "unknown"];

export function callsView(root, id) {
  let calls = [];
  let many = false;
  const columns = [
    { name: "Step", order: ({ run, call }) => run.place * 1e6 + (call.inside?.number ?? 0), cell: stepCell },
    { name: "Tool", order: ({ call }) => call.name, cell: ({ call }) => h("th", { scope: "row" }, h("code", {}, call.name)) },
    { name: "Argument", order: ({ call }) => gist(call.args, 200), cell: ({ call }) => h("td", {}, h("code", {}, oneLine(gist(call.args, 400), 160))) },
    { name: "State", order: ({ call }) => (ORDER.indexOf(stateOf(call)[2]) + 4) % 4, cell: stateCell },
    { name: "Return code", order: ({ call }) => call.judged?.code ?? -Infinity, cell: ({ call }) => h("td", {}, call.judged?.code == null ? "" : `${call.judged.code}`) },
    { name: "Time", order: ({ call }) => took(call), cell: ({ call }) => h("td", {}, lasted(took(call))) },
  ];
  const only = h("input", { type: "checkbox", onchange: () => draw() });
  const count = h("span", { class: "faint", role: "status" });
  const shown = table({ caption: "Calls", columns, most: FIRST, things: "call", kind: "calls", sorted: 0, seen: false });
  root.append(h("div", { class: "row" }, h("label", { class: "check" }, only, " failed"), count), shown.node);

  function stepCell({ run, call }) {
    const step = call.inside?.number;
    const place = `${many ? `${run.place + 1}.` : ""}${step ?? "–"}`;
    return h("td", {}, step === undefined ? place : h("a", { href: hashOf({ id, run: run.place + 1, step, call: call.id }), "aria-label": `Step ${place}` }, place));
  }

  function stateCell({ call }) {
    const [tone, sign, words] = stateOf(call);
    return h("td", { class: tone }, signed(sign), words);
  }

  function draw() {
    const found = calls.filter(({ call }) => !only.checked || isFailure(call.end));
    shown.show(found.map((one) => ({ ...one, given: isFailure(one.call.end) ? { class: "failed" } : {} })));
    put(count, found.length === calls.length ? counted(calls.length, "call") : `${found.length} of ${counted(calls.length, "call")}`);
  }

  return (state) => {
    calls = callsOf(state);
    many = calls.some(({ run }) => run.place > 0);
    draw();
  };
}
