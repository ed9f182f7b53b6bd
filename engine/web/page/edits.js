// What a call changes in a file, as a diff. Which files it changes, and where its arguments hold the texts, is judged in Python.
import { diffLine } from "./code.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { output } from "./output.js";
import { counted, parsed } from "./text.js";

/** Pairs of lines that are compared at most; a larger edit is shown as all of the old and all of the new. */
const MOST_PAIRS = 1_000_000;
const [AROUND, FIRST] = [3, 40];

/** A change of a file as decision/file_edits.py tells it, with its texts taken from the arguments of its call; null where
 * they do not hold them. */
export function editAt(args, { path, how = "other", old, new: now, at = "" }) {
  const [before, after] = [old, now].map((place) => place && textAt(args, place));
  if (typeof after !== "string" || (old && typeof before !== "string")) return null;
  if (how === "replace") return { path, lines: compared(before, after) };
  if (how === "patch") return { path, lines: after.split("\n") };
  if (how === "write") return { path, text: after };
  return { path, lines: [...(at ? [`@@ line ${at.replace(":", " to ")} @@`] : []), ...signedLines("+", after)] };
}

function textAt(args, [names, start, end]) {
  const text = names.reduce((value, name) => value?.[name], names.length ? parsed(args) : args);
  return typeof text === "string" ? text.slice(start, end ?? undefined) : undefined;
}

const signedLines = (sign, text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n").map((line) => sign + line));

/** The lines of two texts with " ", "-" or "+" before each: the longest common sequence stays. */
export function compared(before, after) {
  const [old, now] = [before, after].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  let [head, tail] = [0, 0];
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const [a, b] = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)];
  const same = (lines) => lines.map((line) => ` ${line}`);
  return [...same(old.slice(0, head)), ...middle(a, b), ...same(old.slice(old.length - tail))];
}

function middle(a, b) {
  if (a.length * b.length > MOST_PAIRS) return [...a.map((line) => `-${line}`), ...b.map((line) => `+${line}`)];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push(` ${a[i++]}`, ...(j++, []));
    else if (j >= b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) lines.push(`-${a[i++]}`);
    else lines.push(`+${b[j++]}`);
  }
  return lines;
}

/** Only what changes and a few lines around it. */
function near(lines) {
  const changed = lines.map((line) => /^[-+]/.test(line));
  if (!changed.includes(true) || lines.some((line) => /^(?:@@|\*\*\*)/.test(line))) return lines;
  const kept = lines.map((_, at) => changed.slice(Math.max(0, at - AROUND), at + AROUND + 1).includes(true));
  const shown = [];
  for (let at = 0; at < lines.length; at++) {
    if (kept[at]) shown.push(lines[at]);
    else if (at === 0 || kept[at - 1]) {
      const until = kept.indexOf(true, at);
      shown.push(`@@ ${counted((until < 0 ? lines.length : until) - at, "line")} unchanged @@`);
    }
  }
  return shown;
}

/** An edit as a diff with its file and how many lines it adds and takes away; a file that is written whole, as it is. */
export function editView({ path, lines, text }, known = false) {
  if (text !== undefined) return fileView(path, text, known);
  const all = near(lines);
  const count = (sign) => lines.filter((line) => line.startsWith(sign) && !/^(?:\+\+\+|---) /.test(line)).length;
  const pre = h("pre", { class: "code diff" });
  const show = (many) => pre.replaceChildren(...all.slice(0, many).map((line) => diffLine(`${line}\n`)));
  show(FIRST);
  const more = all.length <= FIRST ? null : h("button", { type: "button", class: "tool", onclick: () => (show(all.length), more.remove()) }, `Show all ${counted(all.length, "line")}`);
  const head = h("div", { class: "edit-head" }, known ? null : h("code", {}, path || "edit"),
    h("span", { class: "good" }, `+${count("+")}`), h("span", { class: "bad" }, `−${count("-")}`),
    h("span", { class: "unseen" }, " lines added and removed"));
  return h("div", { class: "edit block", role: "group", "aria-label": `Changes in ${path || "a file"}` }, head, pre,
    more, h("div", { class: "tools" }, copyButton("the diff", () => lines.join("\n"))));
}

function fileView(path, text, known) {
  const head = h("div", { class: "edit-head" }, known ? null : h("code", {}, path), h("small", {}, `the whole file, ${counted(text.replace(/\n$/, "").split("\n").length, "line")}`));
  return h("div", { class: "edit", role: "group", "aria-label": `Content of ${path}` }, head, output(text, { what: "the file", file: path, form: "code" }).node);
}
