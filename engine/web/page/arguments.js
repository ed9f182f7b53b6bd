// A call's arguments: texts of several lines as blocks in their language, the others as JSON.
import { codeBlock, paint } from "./code.js";
import { copyButton, recordedButton } from "./copy.js";
import { h } from "./dom.js";
import { fileOf, parsed, pretty } from "./text.js";

const SHELL = /^(?:command|cmd|script)$/;
const PROGRAM = /^(?:code|source|python)$/;

/** The nodes that show these arguments; a button switches to all of them as JSON, letter for letter. */
export function argumentsView(args) {
  const given = parsed(args);
  const tools = h("div", { class: "tools" }, copyButton("the arguments", () => pretty(args)));
  const body = h("div");
  const node = h("div", { class: "block" }, body, tools);
  const all = () => body.replaceChildren(json(pretty(args)));
  const texts = given && typeof given === "object" && !Array.isArray(given)
    ? Object.entries(given).filter(([, value]) => typeof value === "string" && value.trim().includes("\n")) : [];
  if (!texts.length) {
    all();
    return [node];
  }
  const rest = Object.fromEntries(Object.entries(given).filter(([name]) => !texts.some(([one]) => one === name)));
  const readable = () => body.replaceChildren(
    ...(Object.keys(rest).length ? [json(pretty(JSON.stringify(rest)))] : []),
    ...texts.flatMap(([name, text]) => [h("small", {}, name), codeBlock(text, languageFor(name, fileOf(given)))]));
  readable();
  tools.prepend(recordedButton((recorded) => (recorded ? all() : readable())));
  return [node];
}

const languageFor = (name, file) => (SHELL.test(name) ? "bash" : PROGRAM.test(name) ? "python" : file);

function json(text) {
  const pre = h("pre", { class: "args" }, text);
  paint(pre, text, "json");
  return pre;
}
