// Markdown as elements of a fixed list with text inside: no HTML is made, so nothing in it can become any.
import { codeBlock } from "./code.js";
import { h } from "./dom.js";
import { clean } from "./text.js";

const TAGS = new Set(["p", "ul", "ol", "li", "blockquote", "thead", "tbody", "tr", "th", "td", "em", "strong", "s"]);
/** What a table scrolls in. */
const frames = new WeakMap();
/** The address of each link that is open. */
const addresses = new WeakMap();
const SAFE = /^(?:https?|mailto):/i;

/** The library, once a text has needed it. */
let parser = null;

async function load() {
  const { default: MarkdownIt } = await import("./vendor/markdown-it/markdown-it.min.js");
  const made = new MarkdownIt({ html: false, linkify: true, breaks: true });
  made.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false }); // config.py is not a host
  return made;
}

/** The nodes of a text; null where it cannot be parsed (it is nested too deep). */
export async function markdown(text) {
  const loaded = await (parser ??= load());
  const root = h("div");
  try {
    walk(loaded.parse(clean(text), {}), root);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
  return [...root.childNodes];
}

function walk(tokens, root) {
  const open = [root];
  for (const token of tokens) {
    const top = open.at(-1);
    if (token.nesting === 1) {
      const node = opened(token);
      top.append(frames.get(node) ?? node);
      open.push(node);
    } else if (token.nesting === -1) {
      const node = open.pop();
      if (addresses.has(node)) leadsTo(node);
    } else top.append(...single(token));
  }
}

function opened({ type, tag, attrs, hidden }) {
  const given = Object.fromEntries(attrs ?? []);
  if (hidden) return h("span");
  if (type === "heading_open") return h("p", { class: `heading ${tag}`, role: "heading", "aria-level": 5 });
  if (type === "link_open") return link(given.href ?? "");
  if (type === "table_open") {
    const table = h("table");
    frames.set(table, h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table" }, table));
    return table;
  }
  if (tag === "ol" && Number(given.start) > 1) return h("ol", { start: Number(given.start) });
  return h(TAGS.has(tag) ? tag : "span");
}

function link(address) {
  const node = SAFE.test(address) ? h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }) : h("span");
  addresses.set(node, address);
  return node;
}

/** Where the words of a link are not its address, say which host it leads to. */
function leadsTo(node) {
  let address = addresses.get(node);
  if (node.textContent === address) return;
  try {
    if (SAFE.test(address)) address = new URL(address).host || address;
  } catch {}
  if (node.textContent !== address) node.after(h("span", { class: "faint" }, ` (${address})`));
}

function single(token) {
  switch (token.type) {
    case "inline": {
      const inside = h("span");
      walk(token.children ?? [], inside);
      return inside.childNodes;
    }
    case "fence": return [codeBlock(token.content.replace(/\n$/, ""), token.info.trim().split(/[\s:{,]/)[0])];
    case "code_block": return [codeBlock(token.content.replace(/\n$/, ""), "")];
    case "code_inline": return [h("code", {}, token.content)];
    case "hr": return [h("hr")];
    case "softbreak":
    case "hardbreak": return [h("br")];
    case "image": return [h("span", { class: "faint" }, `[picture: ${token.content || "without words"}, at ${token.attrGet("src")}]`)];
    default: return [clean(token.content)];
  }
}
