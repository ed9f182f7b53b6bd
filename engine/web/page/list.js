// The list of sessions: newest first, kept up to date while the page is seen.
import { hashOf, placeOf } from "./address.js";
import { ask, words } from "./api.js";
import { $, h, put, signed } from "./dom.js";
import { ago, counted, plain } from "./text.js";
import { STATUS } from "./words.js";

const EVERY = 3000;
const PAGE = 50;

let sessions = [];
let next = null;
let timer = 0;
let asked = 0;
const nodes = new Map();

/** Read the first pages again, and go on doing so. */
export async function refresh() {
  clearTimeout(timer);
  const number = ++asked;
  try {
    const size = Math.min(200, Math.max(PAGE, sessions.length));
    const page = await ask("GET", `sessions?limit=${size}${chosen()}`);
    if (number !== asked) return;
    const ids = new Set(page.sessions.map((one) => one.id));
    const older = page.next === null || sessions.length <= size ? [] : sessions.slice(size).filter((one) => !ids.has(one.id));
    sessions = [...page.sessions, ...older];
    if (!older.length) next = page.next;
    marked();
    put($("list-note"), sessions.length ? "" : $("filter").value ? "No session has this status." : "No sessions yet.");
  } catch (error) {
    put($("list-note"), words(error));
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, EVERY);
}

const chosen = () => ($("filter").value ? `&status=${$("filter").value}` : "");

async function more() {
  try {
    const page = await ask("GET", `sessions?limit=${PAGE}${chosen()}&before=${encodeURIComponent(next)}`);
    const known = new Set(sessions.map((one) => one.id));
    sessions.push(...page.sessions.filter((one) => !known.has(one.id)));
    next = page.next;
    marked();
  } catch (error) {
    put($("list-note"), words(error));
  }
}

/** Show the list, and which session is open. */
export function marked() {
  const ids = new Set(sessions.map((one) => one.id));
  for (const [id, one] of nodes) {
    if (ids.has(id)) continue;
    one.node.remove();
    nodes.delete(id);
  }
  const list = $("sessions");
  sessions.forEach((session, place) => {
    if (!nodes.has(session.id)) nodes.set(session.id, entry(session.id));
    const { node, update } = nodes.get(session.id);
    update(session);
    if (list.children[place] !== node) list.insertBefore(node, list.children[place] ?? null);
  });
  $("more").hidden = next === null;
}

export const linkTo = (id, ...words) => h("a", { href: hashOf({ id }) }, ...words);

function entry(id) {
  const status = h("span", { class: "status" });
  const title = h("span", { class: "title" });
  const figures = h("small");
  const when = h("time");
  const link = linkTo(id, title, status, h("small", {}, figures, " ", when));
  const node = h("li", {}, link);
  return {
    node,
    update(session) {
      showStatus(status, session.status);
      put(title, session.title || "(no prompt)");
      const why = session.stop_reason && session.stop_reason !== session.status ? plain(session.stop_reason) : "";
      put(figures, [session.agent, session.steps ? counted(session.steps, "step") : "", why].filter(Boolean).join(" · ") + " ·");
      put(when, ago(session.created_at));
      when.dateTime = session.created_at;
      link.ariaCurrent = placeOf(location.hash)?.id === id ? "page" : null;
    },
  };
}

/** Sign and word of a status. */
export function showStatus(element, status) {
  const [tone, sign, word] = STATUS[status] ?? ["quiet", "·", status];
  if (element.dataset.status === status) return;
  element.dataset.status = status;
  element.className = `status ${tone}`;
  element.replaceChildren(signed(sign, status === "running" ? " turning" : ""), word);
}

/** The link so many places after the one that is open. */
export function beside(step) {
  const links = [...$("sessions").querySelectorAll("a")];
  const here = links.findIndex((link) => link.ariaCurrent);
  return links[here < 0 ? 0 : Math.min(Math.max(here + step, 0), links.length - 1)];
}

$("filter").append(...Object.entries(STATUS).map(([value, [, , word]]) => h("option", { value }, word)));
$("more").onclick = more;
$("filter").onchange = () => {
  [sessions, next] = [[], null];
  refresh();
};
document.addEventListener("visibilitychange", () => document.hidden || refresh());
