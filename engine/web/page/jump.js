// Where a reader jumps to in the timeline: what a link names, the next error, the next decision.
import { hashOf } from "./address.js";
import { $, put } from "./dom.js";
import { counted } from "./text.js";

/** What counts as which, in the order of the timeline (view.js names the items). The end of a run is not an error, and
 * neither is a verdict on its work. */
export const KINDS = {
  error: "[data-failed], [data-item=failure]",
  decision: "[data-item=decision]",
};
/** The position of a marked place: this share of the height below the top. */
const BELOW = 0.12;
/** Frames in a row without a move after which a position is stable. */
const STILL = 3;
const LONGEST = 60;

/** Jumps in the timeline of session `id`. `say` speaks to those who listen, `went(place)` is told where the reader is. */
export function jumps(id, scroll, root, { say, went }) {
  let here = null;
  let moving = false;

  const all = (kind) => [...root.querySelectorAll(KINDS[kind])];

  function mark(node) {
    here?.classList.remove("here");
    here = node;
    node.classList.add("here");
    for (let fold = node.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
    bring(node);
  }

  /** Scroll to a node until its position is stable: steps out of sight have estimated heights. */
  function bring(node) {
    let [still, left] = [0, LONGEST];
    moving = true;
    (function again() {
      if (node !== here) return;
      const [before, wanted] = [scroll.scrollTop, scroll.getBoundingClientRect().top + BELOW * scroll.clientHeight];
      scroll.scrollTop += node.getBoundingClientRect().top - wanted;
      still = Math.abs(scroll.scrollTop - before) < 2 ? still + 1 : 0;
      moving = node.isConnected && still < STILL && --left > 0;
      if (moving) requestAnimationFrame(again);
    })();
  }

  /** The node of a place in the address, if it is there. */
  function nodeOf({ run, step, call }) {
    let node = root.querySelector(`.run[data-run="${run}"]`);
    if (node && step !== undefined) node = [...node.querySelectorAll(`.step[data-step="${step}"]`)].at(-1);
    if (node && call !== undefined) node = [...node.querySelectorAll("[data-call]")].findLast((one) => one.dataset.call === call);
    return node ?? null;
  }

  /** Show a place that an address names. False if it is not there. */
  function show(place) {
    const node = nodeOf(place);
    if (!node) return false;
    if (place.call !== undefined) {
      for (const fold of node.querySelectorAll("details")) fold.open = true;
      node.dispatchEvent(new Event("show-all"));
    }
    mark(node);
    return true;
  }

  /** Whether a node begins below the upper edge of what is seen; a step that is not seen is not laid out for it. */
  function below(node) {
    const edge = scroll.getBoundingClientRect().top + 1;
    const step = node.closest(".step") ?? node;
    const { top, bottom } = step.getBoundingClientRect();
    return bottom < edge ? false : top > edge ? true : node.getBoundingClientRect().top > edge;
  }

  function seen(node) {
    const [one, box] = [node.getBoundingClientRect(), scroll.getBoundingClientRect()];
    return one.bottom > box.top && one.top < box.bottom;
  }

  /** How many of these come before where the reader is, that place left out. */
  function before(nodes) {
    const anchor = here?.isConnected && (moving || seen(here)) ? here : null;
    const follows = anchor ? (node) => node !== anchor && anchor.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING : below;
    let [low, high] = [0, nodes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (follows(nodes[middle])) high = middle;
      else low = middle + 1;
    }
    return { next: low, previous: low - 1 - (nodes[low - 1] === anchor ? 1 : 0) };
  }

  /** To the next one of a kind, or with `back` the one before. At an end it goes on from the other one, and says so. */
  function next(kind, back = false) {
    const nodes = all(kind);
    if (!nodes.length) return tell(`no ${kind} here`);
    const at = before(nodes)[back ? "previous" : "next"];
    const wrapped = at < 0 || at >= nodes.length;
    const place = (at + nodes.length) % nodes.length;
    const node = nodes[place];
    mark(node);
    if (kind === "decision") node.open = true;
    went(placeOf(node));
    const turn = wrapped && nodes.length > 1 ? `, again from the ${back ? "end" : "start"}` : "";
    tell(`${kind} ${place + 1} of ${nodes.length}${turn}`, nameOf(node));
  }

  function tell(text, about = "") {
    put($("jumped"), text);
    say([text, about].filter(Boolean).join(": "));
  }

  /** The place of a node as an address has it: a node outside of steps belongs to the step before it. */
  function placeOf(node) {
    const run = node.closest(".run");
    let step = node.closest(".step");
    for (let one = node; !step && one && one !== run; one = one.previousElementSibling ?? one.parentElement) {
      if (one.matches(".step")) step = one;
    }
    const call = node.closest(".call");
    const number = step && { step: step.dataset.step };
    return { id, run: run.dataset.run, ...number, ...(step && call && { call: call.dataset.call }) };
  }

  /** Put the address of a place into the address bar and the clipboard. */
  async function copy(node) {
    const place = placeOf(node);
    went(place);
    mark(node);
    try {
      await navigator.clipboard.writeText(new URL(hashOf(place), location.href).href);
      tell("link copied");
    } catch {
      tell("the link is in the address bar");
    }
  }

  function clicked(event) {
    const button = event.target.closest(".link");
    if (button) copy(button.closest(".call, .step"));
  }
  root.addEventListener("click", clicked);

  return {
    show, next,
    get moving() {
      return moving;
    },
    /** Bring the counts up to date. */
    count() {
      for (const kind of Object.keys(KINDS)) {
        const found = root.querySelectorAll(KINDS[kind]).length;
        put($(`${kind}s`), counted(found, kind));
        for (const button of $(`${kind}-jump`).querySelectorAll("button")) button.disabled = !found;
      }
    },
    close() {
      here = null;
      root.removeEventListener("click", clicked);
      for (const part of ["jumped", "errors", "decisions"]) put($(part), "");
    },
  };
}

const nameOf = (node) => {
  const step = node.closest(".step")?.ariaLabel ?? "";
  const words = node.matches(".call") ? `${node.querySelector("strong").textContent} failed` : node.querySelector("summary, strong, h4")?.textContent ?? "";
  return [step, words].filter(Boolean).join(", ");
};
