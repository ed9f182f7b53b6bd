// What a run gave at its end, and what it left open. How it ended stands in the verdict (verdict.js).
import { h } from "./dom.js";
import { prose } from "./prose.js";

/** The end of a run: its answer, unless that is the text above. */
export function endView({ outcome }) {
  const { answer, status, stop_reason: reason } = outcome;
  const given = answer && status === "completed" && reason !== "text_final";
  const text = prose("written", "the answer");
  if (given) text.show(answer, true);
  return { node: h("article", { class: `end${given ? " said" : ""}`, "data-status": status },
    h("h4", {}, given ? "Answer" : status === "awaiting_input" ? "The run paused here" : "The run ends here"), given ? text.node : null) };
}

/** What is open, in points; null if nothing is. */
export function list(title, entries, most = 20) {
  if (!entries.length) return null;
  const more = entries.length > most ? [h("li", { class: "faint" }, `and ${entries.length - most} more`)] : [];
  return h("section", {}, h("h5", {}, title), h("ul", {}, ...entries.slice(0, most).map((entry) => h("li", {}, entry)), ...more));
}
