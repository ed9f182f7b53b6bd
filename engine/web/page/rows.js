// The rows of the list: as many nodes as are seen, however many sessions there are.
import { hashOf, placeOf } from "./address.js";
import { $, h, put, signed } from "./dom.js";
import { ago, counted, duration, money, number, oneLine, plain } from "./text.js";
import { STATUS } from "./words.js";

/** Rows made above and below those that are seen. */
const SPARE = 8;
/** A row's height before one was measured. */
const GUESS = 64;

export const linkTo = (id, ...words) => h("a", { href: hashOf({ id }) }, ...words);

/** Sign and word of a status. */
export function showStatus(element, status) {
  const [tone, sign, word] = STATUS[status] ?? ["quiet", "·", status];
  if (element.dataset.status === status) return;
  element.dataset.status = status;
  element.className = `status ${tone}`;
  element.replaceChildren(signed(sign, status === "running" ? " turning" : ""), word);
}

const openId = () => placeOf(location.hash)?.id;

/** Rows in `list`. `near()` is called where the last ones are seen. */
export function rows(list, near) {
  const nodes = new Map();
  let sessions = [];
  let total = null;
  let active = null; // the row that Tab leads to
  let drawing = 0;

  const height = () => list.firstElementChild?.offsetHeight || GUESS;
  const placeOfRow = (id) => sessions.findIndex((one) => one.id === id);

  function draw() {
    cancelAnimationFrame(drawing);
    drawing = 0;
    let row = height();
    shown(row);
    if (height() !== row) shown((row = height()));
  }

  function shown(row) {
    const { top } = list.getBoundingClientRect();
    const first = Math.max(0, Math.floor(-top / row) - SPARE);
    const last = Math.min(sessions.length, Math.ceil((innerHeight - top) / row) + SPARE);
    if (placeOfRow(active) < 0) active = sessions.some((one) => one.id === openId()) ? openId() : sessions[0]?.id ?? null;
    const at = placeOfRow(active);
    const places = [...new Set([at, ...Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place)])].filter((place) => place >= 0).sort((a, b) => a - b);
    const wanted = new Set(places.map((place) => sessions[place].id));
    for (const [id, one] of nodes) {
      if (wanted.has(id)) continue;
      one.node.remove();
      nodes.delete(id);
    }
    list.style.height = `${sessions.length * row}px`;
    places.forEach((place, number) => {
      const session = sessions[place];
      if (!nodes.has(session.id)) nodes.set(session.id, entry());
      const { node, link, update } = nodes.get(session.id);
      update(session);
      node.style.top = `${place * row}px`;
      node.ariaPosInSet = place + 1;
      node.ariaSetSize = total ?? -1;
      link.tabIndex = session.id === active ? 0 : -1;
      if (list.children[number] !== node) list.insertBefore(node, list.children[number] ?? null);
    });
    if (last >= sessions.length - SPARE) near();
  }

  const soon = () => (drawing ||= requestAnimationFrame(draw));

  /** Make a row the one that Tab leads to, and bring it into sight. */
  function reveal(id, focus = false) {
    if (placeOfRow(id) < 0) return;
    active = id;
    draw();
    const { node, link } = nodes.get(id);
    node.scrollIntoView({ block: "nearest" });
    draw();
    if (focus) link.focus({ preventScroll: true });
  }

  function pressed(event) {
    const page = Math.max(1, Math.floor(innerHeight / height()) - 3);
    const here = placeOfRow(active);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: sessions.length - 1, PageDown: here + page, PageUp: here - page }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey || !sessions.length) return;
    event.preventDefault();
    reveal(sessions[Math.min(Math.max(to, 0), sessions.length - 1)].id, true);
  }

  list.addEventListener("keydown", pressed);
  list.addEventListener("focusin", (event) => {
    const id = [...nodes].find(([, { node }]) => node.contains(event.target))?.[0];
    if (!id || id === active) return;
    active = id;
    soon();
  });
  const scrolled = ({ target }) => target.contains(list) && soon(); // the timeline scrolls at each step that comes
  addEventListener("scroll", scrolled, { capture: true, passive: true });
  new ResizeObserver(soon).observe(list);
  addEventListener("resize", soon);

  return {
    reveal,
    /** Show these sessions, of `all` (null: not known) that there are. */
    show(given, all) {
      [sessions, total] = [given, all];
      list.classList.toggle("found", sessions.some((one) => one.match));
      draw();
    },
    /** The row of the open session, or the one that Tab leads to. */
    focus: () => reveal(openId() ?? active ?? sessions[0]?.id, true),
    /** The hash of the session this many places after the open one. */
    beside(step) {
      const here = placeOfRow(openId());
      const there = sessions[here < 0 ? 0 : Math.min(Math.max(here + step, 0), sessions.length - 1)];
      return there && hashOf({ id: there.id });
    },
  };
}

function entry() {
  const parts = Object.fromEntries(["status", "reason", "title", "trouble", "made", "steps", "tokens", "took", "errors", "excerpt"].map((name) => [name, h("span", { class: name })]));
  const when = h("time", { class: "when" });
  const { status, reason, title, trouble, made, steps, tokens, took, errors, excerpt } = parts;
  const link = h("a", {},
    h("span", { class: "stands" }, status, reason), when, h("span", { class: "task" }, title, trouble),
    h("span", { class: "figures" }, errors, steps, tokens, took, made), excerpt);
  const node = h("li", {}, link);
  let before = "";
  return {
    node, link,
    update(session) {
      link.ariaCurrent = openId() === session.id ? "page" : null;
      put(when, ago(session.created_at));
      const now = JSON.stringify(session);
      if (now === before) return;
      before = now;
      const { match } = session;
      link.setAttribute("href", hashOf({ id: session.id, ...(match && { run: match.run, ...(match.step && { step: match.step }) }) }));
      showStatus(status, session.status);
      put(reason, session.stop_reason && session.stop_reason !== session.status ? plain(session.stop_reason) : "");
      put(title, oneLine(session.title || "(no prompt)", 300));
      const wrong = session.trouble && session.file ? `⚠ ${oneLine(session.trouble, 160)}` : "";
      link.title = [oneLine(session.title || "", 600), wrong].filter(Boolean).join("\n");
      put(trouble, wrong);
      node.className = session.status === "unreadable" ? "unreadable" : "";
      put(made, [session.agent, session.model].filter(Boolean).join(" · "));
      figure(steps, session.steps, "step");
      figure(tokens, session.tokens, "token");
      put(took, session.duration_ms ? duration(session.duration_ms) : "");
      figure(errors, session.errors, "error");
      tokens.title = session.cost_usd == null ? "" : money(session.cost_usd);
      when.dateTime = session.created_at;
      when.title = new Date(session.created_at).toLocaleString();
      found(excerpt, match?.excerpt);
    },
  };
}

/** A figure; in a table its heading is its unit. */
function figure(element, value, unit) {
  if (!value) return element.replaceChildren();
  const words = counted(value, unit);
  element.replaceChildren(number(value), h("span", { class: "unit" }, words.slice(number(value).length)));
}

/** Where a text was found, with each of its places marked. */
function found(element, excerpt) {
  const wanted = $("q").value.trim().toLowerCase();
  if (!excerpt || !wanted) return put(element, excerpt ?? "");
  const pieces = [];
  const lower = excerpt.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    pieces.push(excerpt.slice(from, at), h("mark", {}, excerpt.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  element.replaceChildren(...pieces.map((one) => (typeof one === "string" ? oneLineKept(one) : one)), oneLineKept(excerpt.slice(from)));
}

const oneLineKept = (text) => h("span", {}, text.replace(/\s+/g, " "));
