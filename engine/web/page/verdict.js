// The verdict on a session, above its views. Its words are made in engine/analysis/verdict.py; here they are laid out.
import { hashOf } from "./address.js";
import { ask, path, readOnly } from "./api.js";
import { copyButton } from "./copy.js";
import { h, put, signed } from "./dom.js";
import { strips } from "./strip.js";
import { underWay } from "./words.js";

/** Class and sign of what is known of the work: green means checked. */
const KNOWN = { passed: ["passed", "✔"], failed: ["failed", "✘"], said: ["told", "❝"], unknown: ["unknown", "○"] };
/** The verdict on session `id`, asked for when the session is over. `say` announces it. */
export function sessionVerdict(root, id, { goOn, trouble, say }) {
  const view = verdictView(root, id, readOnly ? null : goOn);
  let early = readOnly ? ask("GET", `${path(id)}/verdict`) : null; // beside the session: it is what is read first
  early?.catch(() => {});
  let judged = ""; // what it is about that was asked for last

  /** Bring it up to date. Of what is under way it says how far it is. */
  function judge(session, status, step) {
    if (underWay(status)) {
      judged = "";
      early = null;
      return view.live(status === "queued" ? "It waits for a process that runs it." : step ? `It is running, at step ${step}.` : "It is running.");
    }
    const about = `${session.run_id} ${status} ${session.status} ${session.updated_at}`;
    if (judged === about) return;
    judged = about;
    show(about, ["exhausted", "failed", "cancelled"].includes(status) && !session.parent);
  }

  async function show(about, canGoOn) {
    const asked = early ?? ask("GET", `${path(id)}/verdict`);
    early = null;
    try {
      const found = await asked;
      if (judged !== about) return;
      view.show(found, canGoOn);
      say(found.sentence);
    } catch (error) {
      if (judged === about) trouble(error);
    }
  }

  return { judge, clear() {
    judged = "";
    view.clear();
  } };
}

/** The verdict in `root`. `goOn()`, where it is possible, leads to the box for the next message. */
function verdictView(root, id, goOn) {
  root.hidden = true;
  let shown = null;

  function show(verdict, open) {
    shown = verdict;
    const { anchors = [], notes = [], policies = [], strip = [] } = verdict;
    root.replaceChildren(
      sentence(verdict),
      ...notes.map((note) => h("p", { class: "notes" }, note)),
      ...(strip.some((run) => run.cells) ? strips(strip.filter((run) => run.cells), [...anchors, ...policies], (place) => hashOf({ id, ...place })) : []),
      h("p", { class: "row" }, ...anchors.map(placed)),
      policies.length ? h("div", { class: "row" }, h("span", { class: "name" }, "Other policies"),
        h("ul", { role: "list", "aria-label": "Other policies" }, ...policies.map((one) => h("li", {}, placed(one))))) : "",
      next(verdict.next, open && goOn) ?? "",
    );
    root.hidden = false;
  }

  /** While it runs there is little to say, and that changes all the time. */
  function live(words) {
    if (shown) root.replaceChildren();
    shown = null;
    if (!root.firstChild) root.append(sentence({ known: "unknown", sentence: "" }));
    put(root.querySelector(".words"), words);
    root.hidden = false;
  }

  const placed = ({ words, run, step, why }) => step
    ? h("a", { href: hashOf({ id, run, step }), title: why }, words)
    : h("span", { title: why }, words);

  function clear() {
    shown = null;
    root.hidden = true;
    root.replaceChildren();
  }

  return { show, live, clear };
}

function sentence({ known, sentence: words, facts }) {
  const [kind, sign] = KNOWN[known];
  return h("p", { class: `sentence ${kind}`, "data-known": known }, signed(sign), h("span", {}, h("span", { class: "words" }, words), facts ? h("span", { class: "facts" }, ` ${facts}.`) : ""));
}

function next(found, goOn) {
  if (goOn) return h("p", { class: "row" }, h("button", { type: "button", onclick: goOn }, "Go on from here"));
  if (!found) return null;
  return h("p", { class: "row next" }, h("span", {}, h("span", { class: "name" }, "Next: "), `${found.words}: `, h("code", {}, found.command)), copyButton("the command", () => found.command));
}
