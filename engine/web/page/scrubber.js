// Replay: a range over the moments of a session, at the recorded pace.
import { $, put } from "./dom.js";
import { duration } from "./text.js";

const MOMENTS = {
  RUN_STARTED: "the run begins",
  STEP_STARTED: "the request",
  MESSAGE_ADDED: (event) => (event.origin === "user" ? "a message of yours" : `the loop's ${event.origin.replace("_", " ")}`),
  ATTEMPT_FAILED: "the request failed",
  ATTEMPT_RETRACTED: "an attempt is void",
  RESPONSE_FINISHED: (event) => (event.cut_at || event.cut_for ? "the response, cut" : "the response"),
  TOOL_CALL_RESULT: (event) => `result of ${event.name}`,
  THOUGHT_RECORDED: "a thought",
  PHASE_REPORTED: (event) => `${event.percentage} % done`,
  COMPLETION_REJECTED: "not accepted as complete",
  COMPLETION_ACCEPTED: "accepted as complete",
  QUESTION_ASKED: "a question",
  QUESTION_ANSWERED: "the answer",
  CONTEXT_COMPACTED: "context compacted",
  CHECK_ENDED: "what the check says",
  BLOCK_REPORTED: "reported as impossible",
  DECISION_MADE: (event) => `decision of round ${event.round}`,
  EVALUATION_FINISHED: "the evaluation",
  RUN_FINISHED: "the end",
};

/** The moments worth stopping at. */
function momentsOf(events) {
  const moments = [];
  const times = [];
  let [before, latest, step] = [0, 0, 0];
  events.forEach((event, place) => {
    if (event.type === "RUN_STARTED") [before, step] = [latest, 0];
    if (event.type === "STEP_STARTED") step = event.step;
    latest = Math.max(latest, before + (event.t ?? 0));
    times.push(latest);
    const said = MOMENTS[event.type];
    const words = typeof said === "string" ? said : said?.(event);
    if (words) moments.push({ position: place + 1, t: latest, step, first: event.type === "STEP_STARTED", words });
  });
  return { moments, times };
}

/** Begin a replay; `move(n)` shows the state after n events. Returns how to end it. */
export function scrub(events, move) {
  const { moments, times } = momentsOf(events);
  const [range, play, moment] = [$("position"), $("play"), $("moment")];
  let position = events.length;
  let clock = 0;
  let frame = 0;

  function tell(place) {
    const { t, step, words } = moments[place];
    const text = `${step ? `step ${step}: ` : ""}${words}, at ${duration(t)}`;
    put(moment, `${place + 1} of ${moments.length} · ${text}`);
    range.ariaValueText = text;
  }

  function show(to) {
    position = to;
    const place = Math.max(0, moments.findLastIndex((one) => one.position <= to));
    range.value = place;
    tell(place);
    move(to);
  }

  function tick(now) {
    clock += (now - tick.before) * Number($("speed").value);
    tick.before = now;
    let to = position;
    while (to < events.length && times[to] <= clock) to += 1;
    if (to > position) show(to);
    if (to >= events.length) return halt();
    frame = requestAnimationFrame(tick);
  }

  function halt() {
    cancelAnimationFrame(frame);
    frame = 0;
    play.textContent = "▶ Play";
  }

  function toggle() {
    if (frame) return halt();
    if (position >= events.length) show(moments[0].position);
    clock = times[position - 1] ?? 0;
    tick.before = performance.now();
    play.textContent = "❚❚ Pause";
    frame = requestAnimationFrame(tick);
  }

  function jump(place) {
    halt();
    show(moments[Math.min(Math.max(place, 0), moments.length - 1)].position);
  }

  range.max = moments.length - 1;
  range.oninput = () => jump(Number(range.value));
  range.onkeydown = (event) => {
    const here = Number(range.value);
    if (event.key === "PageDown") jump(moments.findLastIndex((one, place) => place < here && one.first));
    else if (event.key === "PageUp") jump(next(here));
    else if (event.key === " ") toggle();
    else return;
    event.preventDefault();
  };
  const next = (here) => {
    const found = moments.findIndex((one, place) => place > here && one.first);
    return found < 0 ? moments.length - 1 : found;
  };
  play.onclick = toggle;
  show(events.length);
  return halt;
}
