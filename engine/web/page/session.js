// One session, open: its stream, its fold, its head, and the box under it.
import { setPlace } from "./address.js";
import { ask, at, mode, path, readOnly, token, tokenAfter, words } from "./api.js";
import { clearBudget, showBudget } from "./budget.js";
import { announcement } from "./announcement.js";
import { attempt, compose, goOn } from "./composer.js";
import { $, h, put } from "./dom.js";
import { followEnd } from "./follow_end.js";
import { jumps } from "./jump.js";
import { isReading, refresh } from "./list.js";
import { begin, fold, known, openQuestions, take } from "./model.js";
import { showStatus } from "./rows.js";
import { scrub } from "./scrubber.js";
import { follow } from "./stream.js";
import { tabs } from "./tabs.js";
import { linkTarget } from "./target.js";
import { lasted, oneLine } from "./text.js";
import { unheardMessages } from "./unheard.js";
import { sessionVerdict } from "./verdict.js";
import { timeline } from "./view.js";
import { underWay } from "./words.js";

/** Milliseconds of a frame for us; the rest is the browser's. */
const SHARE = 10;
const SLICE = 100;
const QUIET = 5000; // milliseconds without an event after which the page asks how a running session is
const TURNING = ["RUN_STARTED", "RUN_RESUMED", "RUN_FINISHED"];

/** Milliseconds between counts of what can be jumped to. */
const COUNT_EVERY = 300;
/** Milliseconds after which a session is asked for again, while its file may still be read. */
const AGAIN = 1000;

/** Open a session, at a place in it (address.js). `say` announces to screen readers, `connected` shows the state of the stream. */
export function openSession(place, { say, connected }) {
  const { id } = place;
  const events = [];
  let session = null;
  let state = begin();
  let folded = 0;
  let live = false; // what was there before is read, so what comes now is news
  let queued = false;
  let closed = false;
  let stream = null;
  let replay = null;
  let heardAt = performance.now();
  let askedAt = heardAt;
  const unheard = unheardMessages();
  let counting = 0;
  let again = 0;
  const [scroll, root] = [$("scroll"), $("timeline")];
  const jump = jumps(id, scroll, root, { say, went: (there) => (end.leave(), setPlace(there)) });
  const end = followEnd(scroll, root, () => jump.moving);
  const target = linkTarget(root, jump.show, (words) => trouble(words && new Error(words)));
  root.replaceChildren();
  let show = timeline(root, id);
  const verdict = sessionVerdict($("verdict"), id, { goOn, trouble: (error) => trouble(error), say: (words) => live && say(words) });
  const views = tabs(id, scroll, () => end.leave());

  // events

  function heard(list) {
    live ||= caughtUp();
    for (const event of list) {
      events.push(event);
      if (event.type === "MESSAGE_ADDED" && event.origin === "user") unheard.forget(event);
      if (live) say(announcement(event));
    }
    heardAt = performance.now();
    if (list.some((event) => TURNING.includes(event.type))) reload();
    schedule();
  }

  const caughtUp = () => session !== null && folded === events.length && (folded > 0 || underWay(session.status));

  function schedule() {
    if (!queued && !closed) requestAnimationFrame(frame);
    queued = true;
  }

  function frame() {
    queued = false;
    if (closed) return;
    const until = performance.now() + SHARE;
    do {
      for (const end = Math.min(folded + SLICE, events.length); folded < end; folded++) take(state, events[folded]);
      if (!replay) show(state);
      reach();
    } while (folded < events.length && performance.now() < until);
    if (!replay) head(state);
    counting ||= setTimeout(count, COUNT_EVERY);
    if (folded < events.length) schedule();
  }

  /** Go to another place in this session. */
  function goTo(there) {
    trouble(null);
    views.show(there.view ?? "conversation");
    target.aim(there.run === undefined ? null : there);
    if (there.run === undefined) return;
    end.leave();
    reach();
  }

  function reach() {
    if (!replay) target.reach();
    const whole = folded === events.length && state.runs.length >= (session?.runs?.length ?? Infinity) && state.runs.at(-1)?.outcome;
    target.read(state, whole);
  }

  function count() {
    counting = 0;
    if (closed) return;
    jump.count();
    views.update(replay ? replay.state : state);
  }

  // the head and the box

  const running = () => session !== null && status() === "running";

  function status() {
    const run = state.runs.at(-1);
    if (!run) return session.status;
    if (!run.outcome) return (run.id === session.run_id || session.runs?.some((one) => one.id === run.id)) && session.status !== "queued" ? session.status : "running";
    return run.id === session.run_id ? run.outcome.status : session.status;
  }

  function head(shown) {
    if (!session) return;
    const now = status();
    const run = shown.runs.at(-1);
    put($("title"), session.title || "(no prompt)");
    document.title = `${oneLine(session.title || id, 80)} · endstop`;
    showStatus($("status"), replay ? run?.outcome?.status ?? "running" : now);
    const since = now === "running" && !replay ? performance.now() - heardAt : 0;
    const time = run && (replay || underWay(now)) && (since ? `${Math.floor((run.t + since) / 1000)} s` : lasted(run.t));
    put($("doing"), [replay ? "replay" : "", session.agent, replay ? run?.doing : { interrupted: "", queued: "waits for a process that runs it" }[now] ?? run?.doing, time].filter(Boolean).join(" · "));
    if (run && !run.outcome && underWay(now)) showBudget($("budget"), run, run.t + since);
    else clearBudget($("budget"));
    $("status").hidden = !replay && !underWay(now) && now !== "interrupted";
    if (!replay) verdict.judge(session, now, run?.steps);
    $("cancel").hidden = readOnly || !underWay(now);
    $("delete").hidden = readOnly || underWay(now) || session.parent;
    $("replay").hidden = !replay && (underWay(now) || events.length === 0);
    if (readOnly) return;
    $("composer").hidden = replay !== null || session.parent;
    if (run || now !== "awaiting_input") compose($("composer"), id, now, now === "awaiting_input" ? questions() : [], { said, changed, trouble: () => session.trouble, args: (call) => known(state.runs.at(-1), call)?.args });
  }

  function questions() {
    const asked = openQuestions(state.runs.at(-1));
    return asked.length ? asked : session.questions ?? (session.question ? [session.question] : []);
  }

  async function reload() {
    askedAt = performance.now();
    try {
      session = await ask("GET", path(id));
      if (!closed) schedule();
    } catch (error) {
      trouble(error);
    }
    refresh();
  }

  function changed(answer) {
    session = { ...session, ...answer };
    end.follow();
    reload();
  }

  function said({ message_id: message }, text) {
    if (events.some((event) => event.message_id && event.message_id === message)) return;
    unheard.add(message, text);
  }

  const trouble = (error) => put($("trouble"), error ? words(error) : "");

  function next(kind, back = false) {
    views.show("conversation");
    jump.next(kind, back);
  }

  function toEnd() {
    views.show("conversation");
    setPlace({ id });
    end.go();
  }

  // replay

  function move(position) {
    if (position < replay.at || !replay.state) Object.assign(replay, { state: fold(events, position), at: position });
    for (; replay.at < position; replay.at++) take(replay.state, events[replay.at]);
    show(replay.state);
    head(replay.state);
    counting ||= setTimeout(count, COUNT_EVERY);
  }

  function toggleReplay() {
    const on = replay === null;
    $("replay").ariaPressed = on;
    $("scrubber").hidden = !on;
    end.follow();
    if (on) {
      replay = { at: 0, state: null, halt: () => {} };
      replay.halt = scrub(events.slice(), move);
      $("position").focus();
    } else {
      replay.halt();
      replay = null;
      schedule();
    }
  }

  // buttons

  const act = (button, method, below, then = () => {}) =>
    attempt(button, $("trouble"), async () => then(await ask(method, path(id) + below, undefined, below === "/record")));

  async function save(response) {
    const link = h("a", { href: URL.createObjectURL(await response.blob()), download: `${id}.jsonl` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  $("cancel").onclick = () => act($("cancel"), "POST", "/cancel", changed);
  $("download").onclick = () => act($("download"), "GET", "/record", save);
  $("replay").onclick = toggleReplay;
  $("to-end").onclick = toEnd;
  const sure = $("delete");
  sure.textContent = "Delete";
  sure.onblur = () => (sure.textContent = "Delete");
  sure.onclick = () => {
    if (sure.textContent === "Delete") sure.textContent = "Delete for good?";
    else act(sure, "DELETE", "", () => (location.hash = ""));
  };
  for (const [kind, [back, forth]] of ["error", "decision"].map((kind) => [kind, $(`${kind}-jump`).querySelectorAll("button")])) {
    back.onclick = () => next(kind, true);
    forth.onclick = () => next(kind);
  }

  // the stream

  function listen() {
    if (closed || stream) return;
    let broken = false;
    const used = token.get();
    stream = follow(at(path(id) + "/events"), {
      events: heard,
      state(word, about) {
        connected(word, about, () => stream?.retry());
        if (word === "open" && broken) reload();
        if (word === "waiting") {
          broken = true;
          live = false;
        }
        if (word !== "refused") return;
        if (about.status === 401) tokenAfter(used).then(restart);
        else if (about.code === "last_event_id") restart();
        else trouble(about);
      },
    });
  }

  function restart() {
    stream?.stop();
    stream = null;
    events.length = folded = 0;
    live = false;
    state = begin();
    root.replaceChildren();
    show = timeline(root, id);
    listen();
  }

  /** A hidden tab holds no connection: browsers have six a server. */
  function seen() {
    if (document.hidden) stream?.pause();
    else stream?.resume();
  }
  document.addEventListener("visibilitychange", seen);
  const clock = setInterval(() => {
    if (replay || !session || (!running() && session.status !== "running")) return; // the last event may come before the status
    head(state);
    if (performance.now() - Math.max(heardAt, askedAt) > QUIET) reload(); // no event says that a run is interrupted
  }, 1000);

  function nameOnly() {
    put($("title"), session.title);
    $("tabs").hidden = true;
    showStatus($("status"), session.status);
  }

  async function start() {
    trouble(null);
    unheard.show();
    try {
      session = await ask("GET", path(id));
    } catch (error) {
      if (closed) return;
      if (error.status === 404 && isReading()) again = setTimeout(start, AGAIN);
      put($("title"), "This session cannot be shown");
      $("to-end").hidden = true;
      return trouble(error);
    }
    if (closed) return;
    $("download").hidden = false;
    if (mode === "viewer") put($("about-record"), session.trouble ? `⚠ ${oneLine(session.trouble, 400)}` : "");
    if (session.status === "unreadable") return nameOnly();
    $("jumps").hidden = false;
    if (readOnly && !underWay(session.status)) end.leave(); // who reads what is over begins at its beginning
    head(state);
    listen();
  }

  goTo(place);
  start();
  return {
    id, goTo, next,
    view: views.choose,
    toggleReplay: () => $("replay").hidden || toggleReplay(),
    toEnd,
    close() {
      closed = true;
      clearInterval(clock);
      if (replay) toggleReplay();
      stream?.stop();
      end.close();
      jump.close();
      views.close();
      target.aim(null);
      clearTimeout(counting);
      clearTimeout(again);
      document.removeEventListener("visibilitychange", seen);
      root.replaceChildren();
      clearBudget($("budget"));
      verdict.clear();
      $("composer").replaceChildren();
      delete $("composer").dataset.key;
      for (const part of ["title", "doing", "status", "trouble", "unheard", "about-record"]) put($(part), "");
      $("status").className = "status";
      delete $("status").dataset.status;
      for (const part of ["cancel", "delete", "replay", "download", "jumps", "to-end"]) $(part).hidden = true;
      connected("open");
    },
  };
}
