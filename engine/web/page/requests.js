// What the model was sent and what came, as recorded, for each step.
import { ask, path, words } from "./api.js";
import { h } from "./dom.js";
import { output } from "./output.js";
import { json, requestParts } from "./request.js";
import { lasted, tokens } from "./text.js";

/** The steps of a run, those within rounds too. */
const stepsOf = (run) => run.items.flatMap((item) => (item.kind === "round" ? item.parts : [item])).filter(({ kind }) => kind === "step");

export function requestsView(root, id) {
  return (state) => {
    const open = new Set([...root.querySelectorAll("details[open][data-at]")].map((one) => one.dataset.at));
    root.replaceChildren(...state.runs.flatMap((run) => stepsOf(run).map((step) => stepView(run, step, id, state.runs.length > 1, open))));
    if (!root.firstChild) root.append(h("p", { class: "faint" }, "No request was made."));
  };
}

function stepView(run, step, id, many, open) {
  const at = `${run.place + 1}.${step.number}`;
  const body = h("div");
  const about = [step.model || run.model, tokens(step.usage), lasted(step.done ? step.until - step.t : 0)].filter(Boolean).join(" · ");
  const node = h("details", { class: "exchange", "data-at": at, ontoggle: fill, open: open.has(at) },
    h("summary", {}, h("strong", {}, `${many ? `Run ${run.place + 1}, step` : "Step"} ${step.number}`), h("span", { class: "faint" }, about ? ` ${about}` : "")), body);
  async function fill() {
    if (!node.open || body.firstChild) return;
    const sent = h("div", { "aria-busy": "true" }, h("p", { class: "faint" }, "Loading …"));
    body.append(h("h3", {}, "Sent"), sent, h("h3", {}, "Came"), ...came(step));
    try {
      sent.replaceChildren(...requestParts(await ask("GET", `${path(id)}/request?run=${run.place + 1}&step=${step.number}`)));
    } catch (error) {
      sent.replaceChildren(h("p", { class: "error", role: "alert" }, words(error)));
    }
    sent.ariaBusy = "false";
  }
  return node;
}

const long = (text, what) => output(text, { what, lines: 20 }).node;

/** The response of a step: its thoughts, its text and its calls, each as recorded. */
function came(step) {
  const found = step.parts.flatMap((part) => {
    if (part.kind === "reasoning") return [h("h4", {}, "Thought"), long(part.text, "the reasoning")];
    if (part.kind === "text") return [h("h4", {}, "Text"), long(part.text, "the text")];
    return part.kind === "call" ? [h("h4", {}, "Call of ", h("code", {}, part.name)), json(part.args || "{}")] : [];
  });
  return found.length ? found : [h("p", { class: "faint" }, "An empty response")];
}
