// The check of the work (`until`): what its events add to a run, and how an answer is shown.

import { checkWords } from "./words.js";

/** What to do with the events of a check. `add`, `note`: add an item, or a note, to the run. */
export function checks(add, note) {
  return {
    CHECK_STARTED(run, { name }) {
      run.check.name = name;
    },
    /** `of` is not known to a check that is met: then it is the last one that was. */
    CHECK_ENDED(run, { said, detail = "", score = null, of = null, guard_changed: changed = [] }) {
      const { check } = run;
      if (said === "unknown") return void note(run, "quiet", "○", "Check: no answer", detail);
      const most = of ?? (said === "met" ? check.of : null);
      const now = score ?? (said === "met" ? most : null);
      const before = check.scores.at(-1) ?? null;
      Object.assign(check, { answers: check.answers + 1, of: most, scores: now === null ? check.scores : [...check.scores, now] });
      const change = now === null || before === null ? 0 : now - before;
      add(run, { kind: "check", number: check.answers, name: check.name, said, detail, score: now, of: most, change, changed });
    },
    BLOCK_REPORTED(run, { reason, accepted = false }) {
      note(run, "warn", "⚑", `Reported as impossible${accepted ? "" : ", handed back"}`, reason);
    },
  };
}

/** One answer of a check as a line. `line`, `folded`: make a line, and a part that opens. */
export function checkLine(item, line, folded) {
  const [tone, sign, words] = checkWords(item);
  return line(tone, sign, `Check ${item.number}`, words, item.detail ? folded("what it says", () => item.detail).node : null);
}
