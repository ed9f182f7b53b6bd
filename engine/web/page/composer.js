// The box under the timeline. What it is for follows from how the session stands.
import { ask, words } from "./api.js";
import { $, h } from "./dom.js";
import { underWay, yesNo } from "./words.js";

const ENDED = ["completed", "exhausted", "failed", "cancelled"];

/** Show the box for a session of this status. What was typed stays for the same thing. */
export function compose(root, id, status, questions, on) {
  const key = [id, status, ...questions.map((one) => `${one.call_id} ${yesNo(one)}`)].join();
  if (root.dataset.key === key) return;
  const focused = root.contains(document.activeElement);
  const kept = [`${id},running`, `${id},queued`].some((one) => root.dataset.key?.startsWith(one)) && ENDED.includes(status) ? root.querySelector("textarea")?.value : "";
  root.dataset.key = key;
  root.replaceChildren(...forms(id, status, questions, on));
  const box = root.querySelector("textarea");
  if (box && kept) box.value = kept;
  if (focused) (box ?? root.querySelector("button"))?.focus();
}

function forms(id, status, questions, on) {
  if (underWay(status)) {
    return [form(status === "queued" ? "Add a message before it runs" : "Add a message while it runs", "Send", (text) => ask("POST", `sessions/${id}/messages`, { text }).then((said) => on.said(said, text)))];
  }
  if (status === "awaiting_input") {
    return questions.map((question) => answerForm(question, (text) =>
      ask("POST", `sessions/${id}/answers`, { text, call_id: question.call_id }).then(on.changed)));
  }
  if (status === "interrupted") {
    const error = h("p", { class: "error", role: "alert" });
    const resume = () => attempt(button, error, () => ask("POST", `sessions/${id}/resume`).then(on.changed));
    const button = h("button", { type: "button", class: "primary", onclick: resume }, "Resume");
    const why = on.trouble() ?? "The process that ran this session died.";
    return [h("p", {}, `${why} What was done is kept, and it can go on from there.`), button, error];
  }
  if (ENDED.includes(status)) {
    return [form("Go on with a new prompt", "Go on", (prompt) => ask("POST", `sessions/${id}/runs`, { prompt }).then(on.changed))];
  }
  return [];
}

function form(title, verb, send, more = []) {
  const name = `box-${verb.replace(" ", "-")}-${Math.random().toString(36).slice(2, 8)}`;
  const box = h("textarea", { id: name, rows: 2, required: true });
  const error = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: "primary" }, verb);
  const submit = (event) => {
    event.preventDefault();
    const text = box.value;
    if (text.trim()) attempt(button, error, () => send(text).then(() => { if (box.value === text) box.value = ""; }));
  };
  return h("form", { onsubmit: submit }, h("label", { for: name }, title),
    h("div", { class: "row" }, box, button, ...more), error);
}

function answerForm(question, send) {
  const made = form(question.text || "A question for you", "Answer", send);
  made.classList.add("question");
  const label = made.querySelector("label");
  label.prepend(h("strong", { class: "asks" }, yesNo(question) ? "Please confirm" : "It asks you"));
  for (const issue of question.pending_issues ?? []) label.append(h("small", {}, `\nstill open: ${issue}`));
  if (!yesNo(question)) return made;
  const error = made.querySelector(".error");
  const say = (text) => h("button", { type: "button", onclick: (event) => attempt(event.target, error, () => send(text)) }, text === "yes" ? "Yes" : "No");
  made.querySelector("textarea").setAttribute("placeholder", "or say why not");
  made.querySelector(".row").prepend(say("yes"), say("no"));
  return made;
}

/** Do it, with the button off meanwhile; what goes wrong is said beside it. */
export async function attempt(button, error, act) {
  button.disabled = true;
  error.textContent = "";
  try {
    await act();
  } catch (problem) {
    error.textContent = words(problem);
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
