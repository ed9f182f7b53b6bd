// The place that a link names: shown as soon as it is there, or said to be missing.
import { counted } from "./text.js";

/** Milliseconds without news after which a place of a session that goes on is not there. */
const QUIET = 2000;

/** `show(place)` shows a place, false if it is not there yet; `missing(words)` is told of one that has not come, and of
 * null where it came after all. */
export function linkTarget(root, show, missing) {
  let goal = null;
  let timer = 0;
  let missed = false;

  function reach() {
    if (!goal || !show(goal)) return;
    if (missed) missing(null);
    aim(null);
  }

  /** Go to this place, once it is there. */
  function aim(place) {
    clearTimeout(timer);
    goal = place;
    missed = false;
  }

  /** So many events are read into `state`; `whole` if no more can come. */
  function read(state, whole) {
    clearTimeout(timer);
    if (!goal || missed || !state.runs.length) return;
    timer = setTimeout(() => {
      missed = true;
      missing(`This link leads nowhere: ${lacking(state, goal)}.`);
    }, whole ? 0 : QUIET);
  }

  function lacking(state, { run, step, call }) {
    const known = state.runs[run - 1];
    if (!known) return `this session has ${counted(state.runs.length, "run")}, and no run ${run}`;
    if (!root.querySelector(`.run[data-run="${run}"] .step[data-step="${step}"]`)) return `run ${run} has ${counted(known.steps, "step")}, and no step ${step}`;
    return `step ${step} has no call ${call}`;
  }

  return { aim, reach, read };
}
