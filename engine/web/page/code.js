// Program text: which language it is in, and its parts in colours. highlight.js and its grammars come when needed.
import { copyButton } from "./copy.js";
import { h, whenSeen } from "./dom.js";
import { clean, parsed } from "./text.js";

/** Grammars take quadratic time on long lines: longer text and longer lines stay plain, and all goes in pieces. */
const [LONGEST, PIECE, LINE] = [100_000, 4000, 400];

const GRAMMARS = {
  bash: () => import("./vendor/highlight/languages/bash.min.js"),
  c: () => import("./vendor/highlight/languages/c.min.js"),
  cpp: () => import("./vendor/highlight/languages/cpp.min.js"),
  css: () => import("./vendor/highlight/languages/css.min.js"),
  dockerfile: () => import("./vendor/highlight/languages/dockerfile.min.js"),
  go: () => import("./vendor/highlight/languages/go.min.js"),
  ini: () => import("./vendor/highlight/languages/ini.min.js"),
  java: () => import("./vendor/highlight/languages/java.min.js"),
  javascript: () => import("./vendor/highlight/languages/javascript.min.js"),
  json: () => import("./vendor/highlight/languages/json.min.js"),
  makefile: () => import("./vendor/highlight/languages/makefile.min.js"),
  php: () => import("./vendor/highlight/languages/php.min.js"),
  python: () => import("./vendor/highlight/languages/python.min.js"),
  ruby: () => import("./vendor/highlight/languages/ruby.min.js"),
  rust: () => import("./vendor/highlight/languages/rust.min.js"),
  sql: () => import("./vendor/highlight/languages/sql.min.js"),
  typescript: () => import("./vendor/highlight/languages/typescript.min.js"),
  xml: () => import("./vendor/highlight/languages/xml.min.js"),
  yaml: () => import("./vendor/highlight/languages/yaml.min.js"),
};

/** Names that Markdown and files use for a language. */
const NAMES = Object.fromEntries(Object.entries({
  bash: "sh shell zsh console bashrc", c: "h", cpp: "c++ cc cxx hpp hh", css: "scss less", dockerfile: "docker", go: "golang",
  ini: "toml cfg conf env properties editorconfig", javascript: "js mjs cjs jsx", json: "jsonl jsonc ipynb", makefile: "make mk",
  php: "", python: "py pyi python3 ipython", ruby: "rb rake", rust: "rs", typescript: "ts tsx mts", xml: "html htm svg vue xhtml",
  yaml: "yml", diff: "patch", java: "", sql: "",
}).flatMap(([language, names]) => [language, ...names.split(" ").filter(Boolean)].map((name) => [name, language])));

/** The language that a name in a fence or the name of a file says; "" where it is not known. */
export function languageOf(name) {
  const last = `${name}`.toLowerCase().split(/[/\\]/).at(-1);
  const word = last.includes(".") ? last.slice(last.lastIndexOf(".") + 1) : last;
  return Object.hasOwn(NAMES, word) ? NAMES[word] : "";
}

/** The language that its shape says. */
export function shapeOf(text) {
  if (/^\s*Traceback \(most recent call last\):/m.test(text.slice(0, 4000))) return "traceback";
  if (/^(?:diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(?:,\d+)? \+\d)/m.test(text.slice(0, 4000))) return "diff";
  return /^\s*[{[]/.test(text) && text.length <= LONGEST && parsed(text) !== undefined ? "json" : "";
}

const STARTS = /^(?:diff --git |@@ -\d+(?:,\d+)? \+\d|\*\*\* Begin Patch)/;
const INSIDE = /^(?:[ +\-\\@]|$|diff --git |index |new file|deleted file|similarity |rename |old mode|new mode|Binary files|\*\*\* )/;

/** A text in parts, each with whether it is a diff: a list of Markdown must not take its lines for points. What stands in
 * a fence is code already. */
export function diffParts(text) {
  const lines = text.split("\n");
  const parts = [];
  let [diff, fenced] = [false, false];
  lines.forEach((line, place) => {
    const next = lines[place + 1] ?? "";
    if (!diff && /^\s{0,3}(?:```|~~~)/.test(line)) fenced = !fenced;
    const now = !fenced && (STARTS.test(line) || (line.startsWith("--- ") && next.startsWith("+++ ")) || (diff && INSIDE.test(line)));
    if (!parts.length || now !== diff) parts.push({ text: line, diff: now });
    else parts.at(-1).text += `\n${line}`;
    diff = now;
  });
  return parts.filter((part) => part.text.trim());
}

/** A block of program text, with a button that copies it. */
export function codeBlock(text, name) {
  const pre = h("pre", { class: "code" }, text);
  const node = h("div", { class: "block" }, pre, h("div", { class: "tools" }, copyButton("the code", () => text)));
  const language = languageOf(name) || shapeOf(text);
  if (language === "diff") paint(pre, text, language);
  else whenSeen(pre, () => paint(pre, text, language));
  return node;
}

/** Colour the text in `node`, unless `now()` says that it holds another text by then. */
export async function paint(node, text, language, now = () => true) {
  const shown = clean(text);
  if (shown.length > LONGEST) return;
  let nodes = null;
  if (language === "diff") nodes = shown.split(/(?<=\n)/).map(diffLine);
  else if (language === "traceback") nodes = shown.split(/(?<=\n)/).map(tracebackLine);
  else if (Object.hasOwn(GRAMMARS, language) && !new RegExp(`[^\\n]{${LINE}}|\\n{40}`).test(shown)) nodes = await parts(shown, language, now);
  if (nodes && now()) node.replaceChildren(...nodes);
}

const grammars = new Map();

async function parts(text, language, now) {
  const { default: core } = await import("./vendor/highlight/core.min.js");
  if (!grammars.has(language)) {
    grammars.set(language, GRAMMARS[language]().then((grammar) => core.registerLanguage(language, grammar.default)));
  }
  await grammars.get(language);
  const nodes = [];
  for (const piece of pieces(text)) {
    await idle();
    if (!now()) return null;
    const { _emitter: found } = core.highlight(piece, { language, ignoreIllegals: true });
    nodes.push(...found.rootNode.children.map(coloured));
  }
  return nodes;
}

const idle = () => new Promise((go) => (window.requestIdleCallback ? requestIdleCallback(go, { timeout: 500 }) : setTimeout(go)));

/** Whole lines; a piece ends before a line that begins at the margin, where there is one. */
function* pieces(text) {
  for (let from = 0; from < text.length; ) {
    const piece = text.slice(from, from + PIECE);
    const ends = [...piece.matchAll(/\n(?=\S)/g)].at(-1)?.index ?? 0;
    const end = from + PIECE >= text.length ? piece.length : (ends > PIECE / 2 ? ends : piece.lastIndexOf("\n")) + 1 || piece.length;
    yield piece.slice(0, end);
    from += end;
  }
}

const COLOURS = Object.fromEntries(Object.entries({
  word: "keyword selector-tag template-tag tag", string: "string regexp char link addition",
  figure: "number literal symbol bullet variable template-variable deletion", remark: "comment quote meta doctag formula",
  name: "title section name attr attribute property built_in type class selector-class selector-id selector-attr selector-pseudo",
}).flatMap(([colour, scopes]) => scopes.split(" ").map((scope) => [scope, colour])));

function coloured(part) {
  if (typeof part === "string") return part;
  const scope = `${part.scope ?? ""}`.split(".")[0];
  return h("span", Object.hasOwn(COLOURS, scope) ? { class: COLOURS[scope] } : {}, ...part.children.map(coloured));
}

/** A line of a unified diff; its sign stays, so that it is not told by its colour alone. */
export function diffLine(line) {
  if (/^(?:\+\+\+|---|diff |index )/.test(line)) return h("span", { class: "remark" }, line);
  if (line.startsWith("@@")) return h("span", { class: "name" }, line);
  return line.startsWith("+") ? h("ins", {}, line) : line.startsWith("-") ? h("del", {}, line) : line;
}

function tracebackLine(line) {
  if (/^\s*File "/.test(line)) return h("span", { class: "name" }, line);
  return /^[A-Za-z_][\w.]*(?::|$)/.test(line) ? h("span", { class: "wrong" }, line) : line;
}
