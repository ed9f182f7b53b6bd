// The verdict on a session, above its views. Its words are made in engine/analysis/verdict.py; here they are laid out.
import { hashOf } from "./address.js";
import { ask, path, readOnly } from "./api.js";
import { copyButton } from "./copy.js";
import { h, put, signed } from "./dom.js";
import { underWay } from "./words.js";

/** Class and sign of what is known of the work: green means checked. */
const KNOWN = { passed: ["passed", "✔"], failed: ["failed", "✘"], said: ["told", "❝"], unknown: ["unknown", "○"] };
/** What a cell of the strip can hold: field, class, and words. */
const MARKS = [["changed", "changed", "changed something"], ["failed", "error", "a call with an error"], ["passed", "pass", "a check passed"],
  ["rejected", "reject", "a check did not pass"], ["asked", "ask", "a question"]];
/** Signs below the strip: the anchors, and any policy. */
const SIGNS = { "Said done": "❝", "Last change": "✎", "Last check that passed": "✔" };

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
      ...(strip.some((run) => run.cells) ? strips(strip.filter((run) => run.cells), [...anchors, ...policies]) : []),
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

  function strips(runs, places) {
    const timed = runs.every((run) => run.ms);
    const made = runs.map((run) => stripOf(run, places.filter((one) => one.run === run.number)));
    const buttons = ["Steps", "Time"].map((word, place) => h("button", { type: "button", "aria-pressed": place === 0, onclick: () => by(word) }, word));
    function by(word) {
      for (const button of buttons) button.ariaPressed = button.textContent === word;
      for (const one of made) one.by(word === "Time");
    }
    by("Steps");
    const found = (name) => runs.some((run) => run.cells.some((cell) => cell[name]));
    const sum = (name) => runs.reduce((all, run) => all + (run[name] ?? 0), 0);
    const legend = h("p", { class: "legend" },
      ...MARKS.filter(([name]) => found(name)).map(([, kind, words]) => h("span", {}, h("i", { class: `cell has-${kind}` }), words)),
      ...[["after_change", "after-changed", "after the last change"], ["after_done", "after-done", "after it said it was done"]]
        .filter(([name]) => sum(name)).map(([name, kind, words]) => h("span", {}, h("i", { class: kind }), `${sum(name)} ${words}`)),
      ...(timed ? [h("span", { role: "group", "aria-label": "Strip by" }, ...buttons)] : []));
    return [h("div", { class: "strips" }, ...made.map(({ node }) => node)), legend];
  }

  function stripOf({ number, cells, ms = 0, words, steps }, places) {
    const nodes = cells.map((cell) => cellOf(number, cell));
    const marked = nodes.filter((node) => node.href);
    const ticks = places.map((place) => ({ place, node: h("a", { class: "tick", href: hashOf({ id, run: number, step: place.step }), "aria-label": place.words, title: place.words,
      "data-sign": SIGNS[place.name] ?? `▴${place.name.slice(0, 1)}` }) }));
    const node = h("div", { class: "strip", role: "group", "aria-label": words, onkeydown: walk }, h("div", { class: "cells" }, ...nodes), ...ticks.map((one) => one.node));
    node.style.flexGrow = steps;
    rove(marked[0]);

    /** One stop for Tab, and arrow keys from mark to mark. */
    function rove(to) {
      for (const one of marked) one.tabIndex = one === to ? 0 : -1;
    }
    function walk(event) {
      const at = marked.indexOf(event.target);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: marked.length - 1 }[event.key];
      if (at < 0 || to === undefined || !marked[to]) return;
      event.preventDefault();
      event.stopPropagation();
      rove(marked[to]);
      marked[to].focus();
    }
    /** Lay out by time, or by steps. */
    function by(time) {
      const ends = cells.map((_, place) => cells[place + 1]?.t ?? Math.max(ms, cells.at(-1).t ?? 0));
      const wide = cells.map(({ t = 0 }, place) => (time ? Math.max(ends[place] - t, ms / 400) : 1));
      const all = wide.reduce((sum, one) => sum + one, 0) || 1;
      let sum = 0;
      const starts = wide.map((one) => (sum += one) - one / 2);
      nodes.forEach((one, place) => (one.style.flexGrow = wide[place]));
      const taken = new Map();
      for (const one of ticks) {
        const at = Math.max(0, cells.findLastIndex((cell) => cell.step <= one.place.step));
        const beside = taken.get(at) ?? 0;
        taken.set(at, beside + 1);
        const share = starts[at] / all;
        one.node.style.left = `calc(${(100 * share).toFixed(2)}% ${share > 0.5 ? "-" : "+"} ${beside * 1.1}rem)`; // never over the edge
      }
    }
    return { node, by };
  }

  function cellOf(run, cell) {
    const held = MARKS.filter(([name]) => cell[name]);
    const kind = ["cell", ...held.map(([, one]) => `has-${one}`), ...(cell.zone ? [`after-${cell.zone}`] : [])].join(" ");
    if (!held.length) return h("i", { class: kind });
    const steps = cell.last ? `Steps ${cell.step} to ${cell.last}` : `Step ${cell.step}`;
    const words = `${steps}: ${held.map(([, , one]) => one).join(", ")}`;
    return h("a", { class: kind, href: hashOf({ id, run, step: cell.step }), "aria-label": words, title: words });
  }

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
