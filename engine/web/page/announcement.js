// What is said to those who listen when something happens in a session that is open.
import { questionText } from "./text.js";
import { isFailure } from "./words.js";

/** The words for an event; none where it is not news. The end of a run is said by its verdict (verdict.js). */
export function announcement(event) {
  switch (event.type) {
    case "STEP_STARTED": return event.closing ? "Closing step" : `Step ${event.step}`;
    case "QUESTION_ASKED": return [`It asks: ${questionText(event)}`, ...(event.pending_issues ?? [])].join("\nstill open: ");
    case "COMPLETION_REJECTED": return "Not accepted as complete";
    case "TOOL_CALL_RESULT": return isFailure(event.judged?.end) ? `${event.name} failed` : "";
    default: return "";
  }
}
