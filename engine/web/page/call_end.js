// How a call ended, and whether that counts as an error.

/** How a call ended, as decision/call_judgement.py says it: by its status. In a loop that is not ours a status may only
 * mean that nothing was recorded, so there the judgement comes with the event; without it the end is unknown. */
export function endOf(run, { status = "ok", judged }) {
  if (judged) return judged.end;
  if (status === "ok") return run.foreign ? "unknown" : "succeeded";
  return status === "error" || status === "invalid" || (status === "truncated" && !run.limited) ? "failed" : "unknown";
}

/** Whether a call that ended so counts as an error, as in the list: any exit code but 0 is one. */
export const isFailure = (end) => end === "failed" || end === "nothing_found";
