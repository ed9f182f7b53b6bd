// Addresses of the page: the hash names what is open, the query what is listed. Both can be sent to somebody.

/** The views of a session; the first one has no name in the address. */
export const VIEWS = ["conversation", "changes", "calls", "requests", "decisions"];

/** What a hash names: `#s/ID`, `#s/ID/VIEW`, `#s/ID/RUN`, `#s/ID/RUN/step/N` or `#s/ID/RUN/step/N/call/CALL_ID`, each part
 * percent-encoded. Null without one; `{ wrong }` where it has another form. */
export function placeOf(hash) {
  if (hash.length < 2) return null;
  const [first, id, run, step, number, call, callId, ...more] = hash.slice(1).split("/").map(decoded);
  if (first === "s" && id && VIEWS.includes(run) && step === undefined) return { id, view: run };
  const place = { id, run: count(run), step: count(number), call: callId };
  const whole = first === "s" && id && !more.length && (run === undefined || place.run) && (step === undefined || (step === "step" && place.step !== undefined))
    && (call === undefined || (call === "call" && callId));
  return whole ? place : { wrong: hash };
}

/** The hash of a place. */
export function hashOf({ id, view, run, step, call }) {
  const parts = ["s", id, ...(view ? [view] : []), ...(run === undefined ? [] : [run]), ...(step === undefined ? [] : ["step", step]), ...(call === undefined ? [] : ["call", call])];
  return `#${parts.map(encodeURIComponent).join("/")}`;
}

const count = (text) => (/^\d{1,9}$/.test(text ?? "") ? Number(text) : undefined);

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Names of the query that the list understands. */
export const LISTED = ["q", "status", "ending", "check", "tool", "agent", "model", "errors", "sort", "policy", "kind", "failed", "ended", "run_ending", "work",
  "trouble", "reached", "ids"];

/** What the address says of the list, without what is empty or unknown. */
export function listed() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(LISTED.map((name) => [name, given.get(name) ?? ""]).filter(([, value]) => value));
}

/** Write what is listed into the address. `replace`: without a step for the back button. */
export function setListed(wanted, replace = false) {
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
  const url = `${location.pathname}${query && `?${query}`}${location.hash}`;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/** Let the address name a place in the session that is open, without a step for the back button. */
export const setPlace = (place) => history.replaceState(null, "", hashOf(place));
