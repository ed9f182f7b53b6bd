// The list of sessions: what the address asks for, kept up to date while the page is seen.
import { LISTED, listed } from "./address.js";
import { ask, mode, words } from "./api.js";
import { $, put } from "./dom.js";
import { filters } from "./filters.js";
import { rows } from "./rows.js";
import { counted, number } from "./text.js";

const EVERY = 3000;
const WHILE_READING = 700;
const PAGE = 50;
/** What each server can filter and sort by; the rest of an address is not asked of it. */
const KNOWN = { server: ["status", "agent"], viewer: LISTED, file: [] }[mode];

let sessions = [];
let next = null;
let total = null;
let timer = 0;
let asked = 0;
let loading = false;
let sought = null; // the open session, until the list has it
let reading = false;
let wanted = chosen();

const shown = rows($("sessions"), more);
export const { beside, focus: focusRow } = shown;
const controls = filters(KNOWN, changed);
export const { agents: listAgents } = controls;

/** What the address asks for, as a query of the interface. */
function chosen() {
  const given = listed();
  return new URLSearchParams(KNOWN.filter((name) => given[name]).map((name) => [name, given[name]])).toString();
}

const page = (query) => ask("GET", `sessions?${[query, wanted].filter(Boolean).join("&")}`);

/** Read the first pages again, and go on doing so. */
export async function refresh() {
  clearTimeout(timer);
  const number = ++asked;
  let every = EVERY;
  try {
    const size = Math.min(200, Math.max(PAGE, sessions.length));
    const found = await page(`limit=${size}`);
    if (number !== asked) return;
    const ids = new Set(found.sessions.map((one) => one.id));
    const older = found.next === null || sessions.length <= size ? [] : sessions.slice(size).filter((one) => !ids.has(one.id));
    sessions = [...found.sessions, ...older];
    if (!older.length) next = found.next;
    if (found.reading || found.searching) every = WHILE_READING;
    tell(found);
    controls.update(found);
  } catch (error) {
    if (number !== asked) return;
    put($("list-note"), words(error));
  }
  clearTimeout(timer);
  if (!document.hidden && mode !== "file") timer = setTimeout(refresh, every);
}

/** Read the page after the last one. */
async function more() {
  if (loading || next === null) return;
  loading = true;
  const [number, before] = [asked, next];
  try {
    const found = await page(`limit=${2 * PAGE}&before=${encodeURIComponent(before)}`);
    if (wanted !== chosen() || before !== next) return;
    const known = new Set(sessions.map((one) => one.id));
    sessions = [...sessions, ...found.sessions.filter((one) => !known.has(one.id))];
    next = found.next;
    tell(found);
  } catch (error) {
    if (number === asked) put($("list-note"), words(error));
  } finally {
    loading = false;
  }
}

/** Whether files are still being read, so that a session may be found later. */
export const isReading = () => reading;

function tell({ total: all = null, reading: read = null, searching = null }) {
  reading = read !== null;
  total = all ?? (next === null ? sessions.length : null);
  put($("total"), total === null ? "" : number(total));
  $("total").title = total === null ? "" : counted(total, "session");
  const under = read ?? searching;
  $("reading").hidden = !under;
  if (under) {
    const doing = reading ? "Reading" : "Searching";
    Object.assign($("reading-bar"), { max: under.total, value: under.done, ariaLabel: `${doing} files` });
    put($("reading-words"), `${doing} files: ${number(under.done)} of ${number(under.total)}. The list is not complete yet.`);
  }
  const none = wanted ? "No session matches." : mode === "viewer" ? "There are no records here. Records that are added (*.jsonl, *.jsonl.zst) appear automatically." : "No sessions yet.";
  $("list").classList.toggle("bare", mode === "viewer" && !sessions.length && !wanted && !under);
  put($("list-note"), sessions.length || under ? "" : none);
  $("more").hidden = next === null;
  shown.show(sessions, total);
  if (sessions.some((one) => one.id === sought)) reveal();
}

/** Bring the open session into sight, once. */
function reveal() {
  shown.reveal(sought);
  sought = null;
}

/** The address asks for something else, maybe. */
export function changed() {
  controls.show();
  if (wanted === chosen()) return;
  wanted = chosen();
  [sessions, next, total] = [[], null, null];
  $("list").scrollTop = 0;
  refresh();
}

/** Show which session is open. */
export function marked(id) {
  shown.show(sessions, total);
  sought = id;
  if (sessions.some((one) => one.id === id)) reveal();
}

$("more").onclick = more;
$("q").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || !sessions.length) return;
  event.preventDefault();
  focusRow();
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
