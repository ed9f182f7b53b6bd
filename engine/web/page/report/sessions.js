// The sessions of a report: a table with the strip of each, filtered by why they are shown and by words.
import { hashOf } from "../address.js";
import { h, put, signed, whenSeen } from "../dom.js";
import { legend, stripOf } from "../strip.js";
import { table } from "../table.js";
import { counted } from "../text.js";

/** Class and sign of what is known of the work, by its tone, as in the verdict: green means checked. */
const KNOWN = { good: ["passed", "✔"], bad: ["failed", "✘"], main: ["told", "❝"], warn: ["warn", "❝"], quiet: ["unknown", "○"] };

export function sessionsView({ sessions, most }, view) {
  const link = (place) => view + hashOf(place);
  const rows = sessions.map((one) => ({ ...one, words: [one.task, one.id, one.record, one.ending, one.known, one.origin ?? "", ...(one.reasons ?? [])].join("\n").toLowerCase() }));
  const text = (name, of) => ({ name, order: of, cell: (one) => h("td", {}, of(one)) });
  const shown = table({ caption: "Sessions", seen: false, most, things: "session", kind: "sessions", columns: [
    { name: "Task", order: ({ task }) => task.toLowerCase(), cell: ({ id, task, record, origin }) => h("th", { scope: "row" }, h("a", { href: link({ id }), title: `${id}\n${record}` }, task),
      origin ? h("small", {}, origin) : "") },
    text("Ended", ({ ending }) => ending),
    { name: "Work", order: ({ known }) => known, cell: ({ known, tone }) => h("td", { class: `known ${KNOWN[tone][0]}` }, signed(KNOWN[tone][1]), known) },
    { name: "Steps", isFigure: true, order: ({ steps }) => steps, cell: ({ steps }) => h("td", { class: "n" }, `${steps}`) },
    { name: "Cost", isFigure: true, order: ({ cost_usd: cost }) => cost ?? null, cell: ({ cost }) => h("td", { class: "n" }, cost) },
    text("Why shown", ({ reasons = [] }) => reasons.join(", ")),
    { name: "Strip", cell: stripCell },
  ] });

  function stripCell({ id, strip = [], anchors = [] }) {
    const cell = h("td", { class: "drawn" });
    whenSeen(cell, () => {
      const made = strip.map((run) => stripOf(run, anchors.filter((one) => one.run === run.number), (place) => link({ id, ...place })));
      for (const one of made) one.by(false);
      cell.replaceChildren(h("div", { class: "strips" }, ...made.map(({ node }) => node)));
    });
    return cell;
  }

  const reasons = [...new Set(sessions.flatMap((one) => one.reasons ?? []))];
  const why = h("select", { onchange: draw }, h("option", { value: "" }, "all"), ...reasons.map((one) => h("option", {}, one)));
  const words = h("input", { type: "search", autocomplete: "off", oninput: draw });
  const found = h("span", { class: "faint", role: "status" });
  function draw() {
    const wanted = words.value.trim().toLowerCase();
    const fits = rows.filter((one) => (!why.value || one.reasons?.includes(why.value)) && one.words.includes(wanted));
    shown.show(fits);
    put(found, `${fits.length} of ${counted(rows.length, "session")}`);
  }
  draw();
  return [h("div", { class: "find row" }, h("label", {}, "Why shown ", why), h("label", {}, "Containing ", words), found),
    shown.node, legend(sessions.flatMap((one) => one.strip ?? []))];
}
