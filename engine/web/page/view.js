// The timeline: each kind of item of model.js has a function that makes its node and says how to bring it up to date.
import { ask, path, words } from "./api.js";
import { endView, list } from "./answer.js";
import { Children, h, put, signed, whenSeen, Writer } from "./dom.js";
import { checkLine } from "./checks.js";
import { output, picture } from "./output.js";
import { foldLooks, lookOf } from "./looks.js";
import { prose } from "./prose.js";
import { askedView } from "./question.js";
import { linkTo, showStatus } from "./rows.js";
import { brief, briefly, called, counted, fileOf, lasted, number, oneLine, parsed, plain, pretty, tokens } from "./text.js";
import { alarmWords, cutWords, decisionWords, evaluationWords, fact, failureWords, isFailure, RESULT, resultOf, skippedWords, stateOf } from "./words.js";

/** Shows any state of the fold of session `id` in `root`, changing only what differs. */
export function timeline(root, id) {
  root.onclick = ({ target }) => target.closest(".request") && showRequest(id, target.closest(".step"));
  const runs = new Children(root, runView);
  return (state) => runs.show(state.runs);
}

function runView(run) {
  const body = h("div");
  const which = `Run ${run.place + 1}`;
  const asked = run.began.parent ? linkTo(run.began.parent.session_id, "Its caller asked") : "You asked";
  const head = run.prompt === null
    ? h("h3", {}, `${which} goes on after the answer`)
    : h("div", { class: "said you" }, h("h3", {}, run.place ? `${which}: ` : "", asked), said(run.prompt, "the prompt"));
  const items = new Children(body, itemView);
  const node = h("section", { class: "run", "aria-label": which, "data-run": run.place + 1 }, head, body);
  let folded = "";
  return {
    node,
    update(now) {
      items.show(now.items);
      const news = `${now.items.length} ${!!now.outcome}`;
      if (folded !== news) foldLooks(body);
      folded = news;
    },
  };
}

/** An item's node, which says what it is: what jumps and links look for (jump.js). */
function itemView(item) {
  const made = KINDS[item.kind](item);
  made.node.dataset.item = item.kind;
  return made;
}

/** The request of a step, in a panel that comes when it is asked for. */
async function showRequest(id, step) {
  const { openRequest } = await import("./request.js");
  openRequest(id, step.closest(".run").dataset.run, step.dataset.step);
}

const requestButton = (step) => h("button", { type: "button", class: "tool request", "aria-haspopup": "dialog", title: `What the model was sent in ${step}` }, "Request");

/** Words of a person or of the loop: as they are, the first lines of long ones. */
const said = (text, what) => output(text, { what, form: "words", tag: "blockquote", lines: 20 }).node;

/** Copies the address of the item that it is in; session.js acts on it. */
const linkButton = (what) => h("button", { type: "button", class: "link", title: `Copy the link to ${what}`, "aria-label": `Copy the link to ${what}` }, "#");

/** A step, or a round of plan, execute and think around its steps. */
function stepView({ kind, number, closing, run }) {
  const goal = h("span");
  const figures = h("span", { class: "faint" });
  const body = h("div");
  const parts = new Children(body, itemView);
  const title = closing ? "Closing step" : `${kind === "round" ? "Round" : "Step"} ${number}`;
  const label = run > 1 ? `${title} of run ${run}` : title;
  const place = kind === "step" ? { "data-step": number } : {};
  const node = h("section", { class: kind, "aria-label": label, ...place },
    h("h4", {}, title, goal, " ", figures, ...(kind === "step" ? [requestButton(title.toLowerCase()), linkButton(title.toLowerCase())] : [])), body);
  return {
    node,
    update(now) {
      node.dataset.done = now.done;
      if (kind === "step") node.dataset.look = lookOf(now);
      put(goal, now.goal ? `: ${oneLine(`${now.goal}`, 120)}` : "");
      const took = now.done && kind === "step" ? lasted(now.until - now.t) : "";
      put(figures, [took, now.model, tokens(now.usage)].filter(Boolean).join(" · "));
      parts.show(now.parts);
    },
  };
}

function textView() {
  const { node, show } = prose("text", "the text");
  return {
    node,
    update(part) {
      show(part.text, part.done);
      strike(node, part);
    },
  };
}

function reasoningView() {
  const label = h("span");
  const body = prose("thinking", "the reasoning");
  const node = h("details", { class: "reasoning", open: true }, h("summary", {}, label), body.node);
  return {
    node,
    update(part) {
      body.show(part.text, part.done);
      put(label, part.done ? ["Thought", lasted((part.until ?? part.t) - part.t)].filter(Boolean).join(" for ") : "Thinking …");
      if (node.dataset.done !== String(part.done)) node.open = !part.done;
      node.dataset.done = part.done;
      strike(node, part);
    },
  };
}

function strike(node, part) {
  node.classList.toggle("void", part.void);
  node.title = part.void ? "void: another attempt took its place" : "";
}

const KIND_WORDS = { completion: "signals completion", question: "asks", think: "thinks", provider: "run by the provider" };

function callView(first) {
  const sign = signed();
  const words = h("span", { class: "why" });
  const given = h("code", { class: "brief" });
  const took = h("span", { class: "faint" });
  const exit = h("span", { class: "exit" });
  const kind = KIND_WORDS[first.does];
  const head = h("div", { class: "call-head" }, sign, h("strong", {}, first.name), kind ? h("span", { class: "badge" }, kind) : null,
    words, exit, given, took, linkButton(`this call of ${oneLine(first.name, 60)}`));
  const live = h("pre", { class: "args" });
  const writer = new Writer(live);
  const all = argumentsOf(() => first);
  const edits = h("div");
  const result = h("div", { class: "result" });
  const node = h("div", { class: "call", "data-kind": first.does, "data-call": first.id }, head, live, edits, all.node, result);
  let thought = null;
  let told = null;
  let edited = null;
  let whole = null;
  node.addEventListener("show-all", () => whole?.all());
  return {
    node,
    update(call) {
      first = call;
      if (call.thought !== null) thought ??= node.appendChild(KINDS.thought({ text: call.thought }).node);
      node.classList.toggle("call", call.thought === null); // its thought is shown instead
      const [tone, mark, why] = resultOf(call);
      node.dataset.status = call.status ?? (call.running ? "running" : "writing");
      node.toggleAttribute("data-failed", isFailure(call.end));
      sign.className = `sign ${call.does === "completion" && call.status === "ok" ? "quiet" : tone}${call.status || call.asks ? "" : " turning"}`;
      put(sign, call.asks && !call.status ? "?" : mark);
      put(took, call.status && call.ran !== null ? lasted(call.until - call.ran) : "");
      const now = call.asks ? "waits for your answer" : call.done ? (call.running ? "running …" : "") : "writing …";
      const code = call.judged?.code;
      put(exit, code == null ? "" : `exit code ${code}`);
      words.className = `why ${call.accepted ? "quiet" : tone}${call.end === "unknown" && call.status === "ok" ? " faint" : ""}`;
      put(words, call.accepted ? "accepted" : call.status === "skipped" ? skippedWords(call) : call.status ? (call.status === "ok" || !why ? stateOf(call)[2] : why) : now);
      const short = call.done ? briefly(call.args) : "";
      put(given, call.plan || (kind && call.does !== "provider") ? "" : short);
      given.classList.toggle("more", short.includes("…"));
      live.hidden = call.done;
      writer.show(call.done ? "" : call.args);
      all.node.hidden = !call.done || call.args.length < 3 || (given.textContent !== "" && !short.includes("…") && !call.args.includes("\\n"));
      all.update();
      const news = `${call.status} ${call.end} ${call.asks} ${call.agent?.run_id}`;
      if (told !== news) whole = showResult(result, call);
      told = news;
      const changes = call.judged?.edits ?? call.proposed;
      if (edited !== changes) whenSeen(edits, () => edited === changes && showEdits(edits, call.args, changes));
      edited = changes;
      strike(node, call);
    },
  };
}

/** Something long behind a summary, filled in when it is opened. */
function folded(title, text, name = "") {
  const body = h("pre", { class: name });
  const node = h("details", { ontoggle: fill }, h("summary", {}, title), body);
  function fill() {
    put(body, node.open ? text() : "");
  }
  return { node, update: () => node.open && fill() };
}

async function showEdits(node, args, changes) {
  const { editAt, editView } = await import("./edits.js");
  const shown = changes.map((edit) => editAt(args, edit)).filter(Boolean);
  node.replaceChildren(...shown.map((edit) => editView(edit)));
  node.closest(".call")?.classList.toggle("edits", shown.length > 0);
}

/** A call's arguments, when they are opened: texts of several lines as separate blocks, or everything as recorded. */
function argumentsOf(call) {
  const body = h("div");
  const node = h("details", { class: "arguments", ontoggle: fill }, h("summary", {}, "arguments"), body);
  let shown = null;
  async function fill() {
    const { args } = call();
    if (!node.open || shown === args) return;
    shown = args;
    body.replaceChildren(h("pre", { class: "args" }, pretty(args)));
    const { argumentsView } = await import("./arguments.js");
    if (shown === args) body.replaceChildren(...argumentsView(args));
  }
  return { node, update: fill };
}

function showResult(node, call) {
  node.replaceChildren();
  if (call.agent) node.append(agentView(call));
  if (call.status === null) return null;
  if (call.plan) {
    node.append(...call.plan.map(planned));
    return null;
  }
  const special = !["ordinary", "provider"].includes(call.does) && !["error", "invalid"].includes(call.status);
  let whole = null;
  if (call.result && !special) {
    const form = resultOf(call)[0] === "bad" ? "output bad" : "output";
    const reads = call.status === "ok" && (call.reads || /read|view|cat|open|show|get|fetch/i.test(call.name));
    whole = output(call.result, { what: `the result of ${call.name}`, file: reads ? fileOf(parsed(call.args)) : "", form, save: `${call.name}.txt` });
    node.append(whole.node);
  }
  for (const image of call.images) node.append(picture(image, call.name));
  return whole;
}

/** The sub-agent that a call runs; the server knows how it ended. */
function agentView({ agent: { session_id: id, name, model, record }, asks, status }) {
  const state = h("span");
  const link = linkTo(id, `Sub-agent ${name} (${model})`);
  const node = h("div", { class: "note" }, link, state);
  function missing(error) {
    if (error.status === 404) link.replaceWith(link.textContent);
    put(state, error.status === 404 && record ? `its record is not listed here: ${oneLine(record, 200)}` : words(error));
  }
  if (!status) showStatus(state, asks ? "awaiting_input" : "running");
  else ask("GET", path(id)).then((session) => showStatus(state, session.status), missing);
  return node;
}

/** A step of a plan. */
function planned({ name, args, status, result }) {
  const [tone, mark, why] = status === "skipped" || !RESULT[status] ? ["quiet", "–", "not run"] : RESULT[status];
  return line(tone, mark, name, [brief(args), why, oneLine(result, 300)].filter(Boolean).join(" · ")).node;
}

/** A line that never changes. */
function line(tone, sign, head, text = "", ...more) {
  const told = h("div", {}, h("strong", {}, head), text ? `: ${text}` : "", ...more);
  return { node: h("div", { class: `note ${tone}` }, signed(sign), told) };
}

function quote(className, title, text, written = said(text, "the message")) {
  return { node: h("div", { class: `said ${className}` }, h("h4", {}, title), written) };
}

/** A text of the model that is whole from the start. */
function formatted(text, what) {
  const { node, show } = prose("written", what);
  show(text, true);
  return node;
}

function decisionView(item) {
  const body = h("div");
  async function fill() {
    if (body.firstChild) return;
    const { rulesOf } = await import("./decisions.js");
    if (!body.firstChild) body.append(...rulesOf(item));
  }
  return { node: h("details", { class: "decision", ontoggle: fill }, h("summary", {}, h("span", { "aria-hidden": "true" }, "⚖ "), `Decision: ${decisionWords(item.decision)}`), body) };
}

function verdictView({ role, name, said, detail }) {
  const who = `${plain(role)} ${called(name)}`;
  if (said === "failed") return line("bad", "✘", `${who} failed`, detail);
  if (role === "gate") return said === "accept" ? line("good", "✔", who, "accepts it") : line("quiet", "·", who, said);
  return line("quiet", role === "judge" ? "⚖" : "·", `${who}: ${plain(said)}`, detail);
}

function compactedView({ event }) {
  const how = { shorten_results: "older results shortened", summarise: "summarized by the model", compactor: "replaced by the compactor" }[event.strategy]
    ?? `the oldest ${counted(event.dropped ?? 0, "message")} dropped`;
  const vain = event.in_vain || event.not_enough;
  const sizes = `${counted(event.before_tokens ?? 0, "token")} became ${number(event.after_tokens ?? 0)}`;
  const put = (event.put_first ?? []).map((message) => message.text ?? message.content ?? "").filter(Boolean).join("\n\n");
  return line(vain ? "warn" : "loop", "▸", "Context compacted", `${how}, ${sizes}${vain ? ", which is not enough" : ""}`,
    put ? folded("their replacement", () => put).node : null);
}

function evaluationView(item) {
  const facts = Object.entries(item.details);
  return line(...evaluationWords(item), facts.length ? folded("details", () => facts.map(([key, value]) => `${plain(key)}: ${fact(value)}`).join("\n")).node : null);
}

/** At 100 % the end of the run says what was done. */
function phaseView({ percentage, summary, next }) {
  const node = h("div", { class: "phase" },
    h("strong", {}, `◔ ${percentage} % reported as done`), h("progress", { max: 100, value: percentage, "aria-label": "so far" }),
    percentage < 100 ? formatted(summary, "the summary") : null, next ? h("p", { class: "faint" }, `next: ${next}`) : null);
  return { node };
}

function rejectedView({ reason, by }) {
  const name = by.includes(":") ? ` by ${called(by)}` : by === "user" ? " by you" : "";
  return line("warn", "↩", `Not accepted as complete${name}`, reason);
}

const KINDS = {
  round: stepView,
  step: stepView,
  text: textView,
  reasoning: reasoningView,
  call: callView,
  note: (item) => line(item.tone, item.sign, item.head, item.text),
  failure: ({ failure }) => failure.kind === "degenerate"
    ? line("bad", "✘", "The response was cut", failure.message)
    : line("bad", "✘", "The request failed", failureWords(failure)),
  message: ({ origin, text }) => origin === "user" ? quote("you", "You, while it ran", text) : quote("loop", origin === "handler" ? "▸ A handler" : `▸ The loop: ${plain(origin)}`, text),
  thought: ({ text }) => quote("thought", "◇ Thought", text, formatted(text, "the thought")),
  question: ({ question, issues }) => quote("question", question.tool ? "? It asks for approval" : "? It asks", "",
    h("div", {}, question.tool ? askedView(question) : said(question.text, "the question"), list("Still open", issues))),
  answered: ({ question, text }) => quote("you", "You answered", question ? `${question}\n→ ${text}` : text),
  cut: (item) => {
    const [head, text] = cutWords(item);
    const { node } = line("quiet", "✂", head, text);
    node.classList.add("cut");
    return { node };
  },
  decision: decisionView,
  alarm: ({ alarm }) => line("warn", "!", "Alarm", alarmWords(alarm)),
  rejected: rejectedView,
  phase: phaseView,
  compacted: compactedView,
  verdict: verdictView,
  check: (item) => checkLine(item, line, folded),
  evaluation: evaluationView,
  end: endView,
};
