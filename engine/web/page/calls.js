// The calls of a session as a table that can be sorted, and filtered by those that failed.
import { hashOf } from "./address.js";
import { h, put, signed } from "./dom.js";
import { callsOf } from "./model.js";
import { counted, gist, lasted, oneLine } from "./text.js";
import { isFailure, stateOf } from "./words.js";

/** Rows that are made at first. */
const FIRST = 500;

const took = ({ status, ran, until }) => (status && ran !== null ? until - ran : 0);
const ORDER = ["failed", "succeeded", "unknown"];
const COLUMNS = [
  ["Step", ({ run, call }) => run.place * 1e6 + (call.inside?.number ?? 0)],
  ["Tool", ({ call }) => call.name],
  ["Argument", ({ call }) => gist(call.args, 200)],
  ["State", ({ call }) => (ORDER.indexOf(stateOf(call)[2]) + 4) % 4],
  ["Return code", ({ call }) => call.judged?.code ?? -Infinity],
  ["Time", ({ call }) => took(call)],
];

export function callsView(root, id) {
  let [by, down, most] = [0, false, FIRST];
  let calls = [];
  const only = h("input", { type: "checkbox", onchange: () => draw() });
  const count = h("span", { class: "faint", role: "status" });
  const heads = COLUMNS.map(([name], place) => h("th", { scope: "col" }, h("button", { type: "button", onclick: () => sort(place) }, name, signed(""))));
  const body = h("tbody");
  const more = h("button", { type: "button", class: "tool", onclick: () => ((most = Infinity), draw()) });
  root.append(h("div", { class: "row" }, h("label", { class: "check" }, only, " failed"), count),
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Calls" }, h("table", { class: "calls" }, h("thead", {}, h("tr", {}, ...heads)), body)), more);

  function sort(place) {
    [by, down] = [place, by === place && !down];
    draw();
  }

  function draw() {
    const value = COLUMNS[by][1];
    const shown = calls.filter(({ call }) => !only.checked || isFailure(call.end)).map((one) => [value(one), one]);
    shown.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
    heads.forEach((head, place) => {
      if (place === by) head.ariaSort = down ? "descending" : "ascending";
      else head.removeAttribute("aria-sort");
      put(head.querySelector(".sign"), place === by ? (down ? "↓" : "↑") : "");
    });
    const many = calls.some(({ run }) => run.place > 0);
    body.replaceChildren(...shown.slice(0, most).map(([, one]) => row(one, id, many)));
    put(count, shown.length === calls.length ? counted(calls.length, "call") : `${shown.length} of ${counted(calls.length, "call")}`);
    more.hidden = shown.length <= most;
    put(more, `Show all ${counted(shown.length, "call")}`);
  }

  return (state) => {
    calls = callsOf(state);
    draw();
  };
}

function row({ run, call }, id, many) {
  const [tone, sign, words] = stateOf(call);
  const step = call.inside?.number;
  const place = `${many ? `${run.place + 1}.` : ""}${step ?? "–"}`;
  return h("tr", isFailure(call.end) ? { class: "failed" } : {},
    h("td", {}, step === undefined ? place : h("a", { href: hashOf({ id, run: run.place + 1, step, call: call.id }), "aria-label": `Step ${place}` }, place)),
    h("th", { scope: "row" }, h("code", {}, call.name)),
    h("td", {}, h("code", {}, oneLine(gist(call.args, 400), 160))),
    h("td", { class: tone }, signed(sign), words),
    h("td", {}, call.judged?.code == null ? "" : `${call.judged.code}`),
    h("td", {}, lasted(took(call))));
}
