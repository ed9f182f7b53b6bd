// The request of a step, in a panel: what the model was given, whole.
import { ask, path, words } from "./api.js";
import { paint, shapeOf } from "./code.js";
import { copyButton, tool } from "./copy.js";
import { h } from "./dom.js";
import { output } from "./output.js";
import { counted, number, pretty } from "./text.js";

const SOURCES = {
  recorded: "As it was sent: made again from the record by the function that made it.",
  imported: "Only what the imported history holds. What the agent itself sent is not known.",
};
const ROLES = { system: "System", user: "User", assistant: "Model", tool: "Result" };

/** Opens the panel of a step of session `id`; Escape closes it, and the focus goes back to where it was. */
export async function openRequest(id, run, step) {
  const title = `Request of step ${step}`;
  const body = h("div", { class: "panel-body", "aria-busy": "true" }, h("p", { class: "faint" }, "Loading …"));
  const actions = h("div", { class: "row" }, h("h2", { id: "request-title" }, title));
  const close = tool("Close", () => dialog.close(), { autofocus: true });
  actions.append(close);
  const dialog = h("dialog", { class: "panel", "aria-labelledby": "request-title", onclose: () => dialog.remove(),
    onclick: (event) => event.target === dialog && dialog.close() }, actions, body);
  document.body.append(dialog);
  dialog.showModal();
  try {
    const request = await ask("GET", `${path(id)}/request?run=${run}&step=${step}`);
    close.before(copyButton("the request as JSON", () => JSON.stringify(request, null, 2)));
    body.replaceChildren(...requestParts(request));
  } catch (error) {
    body.replaceChildren(h("p", { class: "error", role: "alert" }, words(error)));
  }
  body.ariaBusy = "false";
}

/** The parts of a request: what it is, its system prompt, its messages and its tools. */
export function requestParts({ model, system, messages = [], tools = [], source, redacted, settings = {}, tool_choice: choice }) {
  const given = [model && `model ${model}`, choice && `tool choice ${choice}`,
    ...Object.entries(settings).map(([name, value]) => `${name} ${JSON.stringify(value)}`)].filter(Boolean);
  return [
    h("p", { class: source === "recorded" ? "" : "warn known" }, SOURCES[source] ?? `Source: ${source}`),
    redacted ? h("p", { class: "warn known" }, "Texts were redacted when it was recorded; the model was sent the originals.") : null,
    h("p", { class: "faint" }, [...given, counted(messages.length, "message"), counted(tools.length, "tool")].join(" · ")),
    section("System prompt", system ? [long(system, "the system prompt")] : [h("p", { class: "faint" }, "None")]),
    section(`Messages (${number(messages.length)})`, messages.map(message)),
    section(`Tools (${number(tools.length)})`, tools.map(toolView)),
  ].filter(Boolean);
}

const section = (title, nodes) => h("section", {}, h("h3", {}, title), ...nodes);

const long = (text, what, form = "words", tag = "blockquote") => output(text, { what, form, tag, lines: 20 }).node;

function message({ role, text, content, calls = [], reasoning = [], name, status, images = [] }) {
  const heading = [ROLES[role] ?? role, name && `of ${name}`, status && status !== "ok" && status].filter(Boolean).join(" ");
  const said = text ?? content ?? "";
  return h("div", { class: `message by-${role}` }, h("h4", {}, heading),
    ...reasoning.map((one) => h("div", { class: "reasoning" }, long(one.text || "(hidden by the provider)", "the reasoning"))),
    said ? (role === "tool" ? long(said, "the result", "output", "pre") : long(said, "the message")) : null,
    ...calls.map((call) => h("div", {}, h("strong", {}, call.name), json(call.arguments || "{}"))),
    images.length ? h("p", { class: "faint" }, counted(images.length, "picture")) : null,
    !said && !calls.length && !reasoning.length ? h("p", { class: "faint" }, "(empty)") : null);
}

export function json(text) {
  const shown = pretty(text);
  const pre = h("pre", { class: "code" }, shown);
  paint(pre, shown, shapeOf(shown));
  return pre;
}

function toolView({ name, description = "", parameters = {}, kind }) {
  const schema = h("div");
  const fill = () => schema.firstChild || schema.append(json(JSON.stringify(parameters)));
  return h("details", { class: "tool-spec", ontoggle: fill },
    h("summary", {}, h("strong", {}, name), kind && kind !== "ordinary" ? ` (${kind})` : "", h("span", { class: "faint" }, ` ${description.split("\n")[0].slice(0, 120)}`)),
    h("div", { class: "words" }, description), schema);
}
