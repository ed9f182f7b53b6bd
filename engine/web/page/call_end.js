/** Whether a call that ended so counts as an error, as in the list: any exit code but 0 is one. How it ended is judged in
 * decision/call_judgement.py, and comes with the event of its result. */
export const isFailure = (end) => end === "failed" || end === "nothing_found";
