// What somebody is asked: a text, or whether a call may run, with its arguments one a line.
import { h } from "./dom.js";

/** The question, to read: of an approval the name of the tool and its arguments, and no JSON around them. */
export function askedView({ text, tool, arguments: given }) {
  if (!tool) return h("span", { class: "words" }, text || "A question for you");
  const rows = Object.entries(given ?? {}).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, typeof value === "string" ? value : flat(value)))]);
  return h("span", {}, "May ", h("code", {}, tool), " run?", rows.length ? h("dl", { class: "given" }, ...rows) : null);
}

/** A value without braces and quotes: `a, b` or `name: value, name: value`. */
function flat(value) {
  if (Array.isArray(value)) return value.map(flat).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, one]) => `${name}: ${flat(one)}`).join(", ");
  return `${value}`;
}
