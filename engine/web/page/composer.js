// The box under the timeline. Its use follows from the state of the session.
import { ask, words } from "./api.js";
import { $, h } from "./dom.js";
import { askedView } from "./question.js";
import { counted, pretty } from "./text.js";
import { underWay, yesNo } from "./words.js";

/** What was typed and not sent, by what it is for: no event loses it. */
const drafts = new Map();
let boxes = 0;

/** Show the box for a session of this status. */
export function compose(root, id, status, questions, on) {
  const key = [id, status, ...questions.map((one) => `${one.call_id} ${yesNo(one)} ${one.text}`)].join();
  if (root.dataset.key === key) return;
  const focused = root.contains(document.activeElement);
  root.dataset.key = key;
  root.replaceChildren(...forms(id, status, questions, on));
  if (focused) (boxOf() ?? root.querySelector("button"))?.focus();
}

function forms(id, status, questions, on) {
  const post = (to, body) => ask("POST", `sessions/${id}/${to}`, body);
  if (underWay(status)) {
    const when = status === "queued" ? "before" : "while";
    return [form(id, `Add a message ${when} it runs`, "Send", (text) => post("messages", { text }).then((said) => on.said(said, text)))];
  }
  if (status === "awaiting_input") return questions.flatMap((question) => answerForms(id, question, post, on));
  if (status === "interrupted") {
    const error = fault();
    const resume = () => attempt(button, error, () => post("resume").then(on.changed));
    const button = h("button", { class: "primary", onclick: resume }, "Resume");
    const why = on.trouble() ?? "The process that ran this session died.";
    return [h("p", {}, `${why.replace(/\.$/, "")}. What was done is kept, and it can go on from there.`), button, error];
  }
  return [form(id, "Go on with a new prompt", "Go on", (prompt) => post("runs", { prompt }).then(on.changed))];
}

const fault = () => h("p", { class: "error", role: "alert" });

const TEXT = ["textarea", { rows: 2 }];
const STEPS = ["input", { type: "number", min: 1, max: 999_999, placeholder: "or how many" }];

function form(key, title, verb, send, [kind, more] = TEXT) {
  const name = `box-${++boxes}`;
  const box = h(kind, { id: name, required: true, oninput: () => drafts.set(key, box.value), ...more });
  box.value = drafts.get(key) ?? "";
  const error = fault();
  const button = h("button", { class: "primary", hidden: !verb }, verb);
  const submit = (event) => {
    event.preventDefault();
    const text = box.value;
    if (text.trim()) attempt(button, error, async () => {
      await send(text);
      if (box.value !== text) return;
      box.value = "";
      drafts.delete(key);
    });
  };
  return h("form", { onsubmit: submit }, h("label", { for: name }, title), h("div", { class: "row" }, box, button), error);
}

/** The form for an answer; for a call that waits, also one for other arguments. */
function answerForms(id, question, post, on) {
  const call = question.call_id;
  const [key, edits] = [`${id} ${call}`, `${id} ${call} {}`];
  const send = async (to, body) => {
    const now = await post(to, body);
    drafts.delete(key);
    drafts.delete(edits);
    on.changed(now);
  };
  const answer = (text) => send("answers", { text, call_id: call });
  const steps = question.extends;
  const sure = yesNo(question);
  const made = form(key, steps ? question.text : "", steps ? "Grant" : sure ? "" : "Answer", answer, steps ? STEPS : TEXT);
  made.classList.add("question");
  const label = made.querySelector("label");
  if (!steps) label.append(askedView(question));
  if (sure && !question.tool) label.prepend(h("strong", { class: "asks" }, steps ? "More steps?" : "Please confirm"));
  for (const issue of question.pending_issues ?? []) label.append(h("small", {}, `\nstill open: ${issue}`));
  if (!sure) return [made];
  const error = made.querySelector(".error");
  const say = (word, text, more = {}) => h("button", { type: "button", ...more, onclick: (event) => attempt(event.target, error, () => answer(typeof text === "string" ? text : text())) }, word);
  if (steps) {
    made.querySelector(".row").prepend(say(counted(steps, "more step"), String(steps)), say("End the run", "no"));
    return [made];
  }
  const why = made.querySelector("textarea");
  why.placeholder = "why not";
  why.required = false;
  const refusal = () => (why.value.trim() ? why.value.trim().replace(/^(?!no\b)/i, "No, ") : "no");
  const [yes, no] = question.tool ? ["Allow", "Deny"] : ["Yes", "No"];
  made.querySelector(".row").prepend(say(yes, "yes", { class: "primary" }), say(no, refusal));
  if (!question.tool) return [made];
  const given = () => on.args(call) ?? JSON.stringify(question.arguments);
  return [made, editor(edits, given, (text) => {
    if (!JSON.parse(text)) throw new SyntaxError("The arguments are a JSON object.");
    return send("approvals", `{"call_id":${JSON.stringify(call)},"approved":true,"arguments":${text}}`); // letter for letter
  })];
}

/** Other arguments for a call. */
function editor(key, given, send) {
  const made = form(key, "All arguments, as JSON", "Run with these", send);
  const box = made.querySelector("textarea");
  box.className = "json";
  box.spellcheck = false;
  const fill = () => {
    box.value ||= pretty(given());
    box.rows = Math.min(12, box.value.split("\n").length + 1);
  };
  return h("details", { open: drafts.has(key), ontoggle: fill }, h("summary", {}, "Edit the arguments"), made);
}

/** Do it, with the button disabled meanwhile; a failure is shown next to it. */
export async function attempt(button, error, act) {
  button.disabled = true;
  error.textContent = "";
  try {
    await act();
  } catch (problem) {
    error.textContent = words(problem);
    error.scrollIntoView({ block: "nearest" });
  } finally {
    button.disabled = false;
  }
}

/** Ctrl+Enter, or Cmd+Enter, sends the form that it is pressed in. */
export function sendByKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form && !event.isComposing) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
}

export const boxOf = () => $("composer").querySelector("textarea");

/** Lead to the box, with a message that goes on. */
export function goOn() {
  const box = boxOf();
  if (!box) return;
  box.value ||= "Go on.";
  box.focus();
  box.select();
}
