// The strip of a session: a mark for each step, or for several in a row, and ticks for what matters.
import { h } from "./dom.js";

/** What a cell of the strip can hold: field, class, and words. */
const MARKS = [["changed", "changed", "changed something"], ["failed", "error", "a call with an error"], ["passed", "pass", "a check passed"],
  ["rejected", "reject", "a check did not pass"], ["asked", "ask", "a question"]];
/** Signs below the strip: the anchors, and any policy. */
const SIGNS = { "Said done": "❝", "Last change": "✎", "Last check that passed": "✔" };

/** The strip of each run, with a tick for each of the places (anchors, policies), and what the marks mean. `link(place)`
 * leads to a run and step. */
export function strips(runs, places, link) {
  const timed = runs.every((run) => run.ms);
  const made = runs.map((run) => stripOf(run, places.filter((one) => one.run === run.number), link));
  const buttons = ["Steps", "Time"].map((word, place) => h("button", { type: "button", "aria-pressed": place === 0, onclick: () => by(word) }, word));
  function by(word) {
    for (const button of buttons) button.ariaPressed = button.textContent === word;
    for (const one of made) one.by(word === "Time");
  }
  by("Steps");
  const shown = legend(runs);
  if (timed) shown.append(h("span", { role: "group", "aria-label": "Strip by" }, ...buttons));
  return [h("div", { class: "strips" }, ...made.map(({ node }) => node)), shown];
}

/** What the marks of these strips mean. */
export function legend(runs) {
  const found = (name) => runs.some((run) => run.cells.some((cell) => cell[name]));
  const sum = (name) => runs.reduce((all, run) => all + (run[name] ?? 0), 0);
  return h("p", { class: "legend" },
    ...MARKS.filter(([name]) => found(name)).map(([, kind, words]) => h("span", {}, h("i", { class: `cell has-${kind}` }), words)),
    ...[["after_change", "after-changed", "after the last change"], ["after_done", "after-done", "after it said it was done"]]
      .filter(([name]) => sum(name)).map(([name, kind, words]) => h("span", {}, h("i", { class: kind }), `${sum(name)} ${words}`)));
}

/** The strip of one run. */
export function stripOf({ number, cells, ms = 0, words, steps }, places, link) {
  const nodes = cells.map((cell) => cellOf(number, cell, link));
  const marked = nodes.filter((node) => node.href);
  const ticks = places.map((place) => ({ place, node: h("a", { class: "tick", href: link({ run: number, step: place.step }), "aria-label": place.words, title: place.words,
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

function cellOf(run, cell, link) {
  const held = MARKS.filter(([name]) => cell[name]);
  const kind = ["cell", ...held.map(([, one]) => `has-${one}`), ...(cell.zone ? [`after-${cell.zone}`] : [])].join(" ");
  if (!held.length) return h("i", { class: kind });
  const steps = cell.last ? `Steps ${cell.step} to ${cell.last}` : `Step ${cell.step}`;
  const words = `${steps}: ${held.map(([, , one]) => one).join(", ")}`;
  return h("a", { class: kind, href: link({ run, step: cell.step }), "aria-label": words, title: words });
}
