// Server-sent events over fetch: the token goes in a header and never into an address. After a break it goes on where
// it was (Last-Event-ID), and each event comes once.
import { headers, Refused } from "./api.js";
import { events, isFile } from "./embedded.js";

const FIRST = 1000;
const LONGEST = 30_000;
/** The server says something every 15 s: a stream silent for longer is dead. */
const SILENCE = 40_000;

/** Follow `url` until `stop()`. `on.events(list)`, `on.state(word, about)`: connecting, open, waiting, stopped, refused. */
export function follow(url, on) {
  if (isFile) return readHeld(url, on);
  let last = "";
  const had = new Map();
  let wait = FIRST;
  let stopped = false;
  let paused = null;
  let abort = null;
  let judged = null;
  let wake = () => {};

  async function run() {
    while (!stopped) {
      try {
        if (paused) await paused.until;
        if (stopped) return;
        on.state("connecting");
        if (!(await read())) return on.state("stopped");
        throw new Error("the stream ended");
      } catch (error) {
        if (stopped) return;
        if (paused) continue;
        if (error instanceof Refused && !error.passing) return on.state("refused", error);
        const pause = wait * (0.75 + Math.random() / 2);
        on.state("waiting", pause);
        wait = Math.min(2 * wait, LONGEST);
        await new Promise((resolve) => {
          wake = resolve;
          setTimeout(resolve, pause);
        });
      }
    }
  }

  async function read() {
    abort = new AbortController();
    const { signal } = abort;
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE);
    };
    heard();
    try {
      const asked = { Accept: "text/event-stream", ...headers() };
      if (last) asked["Last-Event-ID"] = last;
      const response = await fetch(url, { headers: asked, signal, cache: "no-store" });
      if (response.status === 204) return false;
      if (!response.ok) throw await Refused.from(response);
      on.state("open");
      const parse = parser(take);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return true;
        heard();
        wait = FIRST;
        const events = parse(value);
        if (stopped) return false;
        if (events.length) on.events(events);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  function take({ id, event, data }) {
    if (event === "lagged") return { type: "LAGGED", ...JSON.parse(data) };
    if (event === "judged") judged = JSON.parse(data);
    if (event || !data) return null;
    const cut = id.lastIndexOf(":");
    const [run, place] = [id.slice(0, cut), id.slice(cut + 1).split(".").map(Number)];
    const [seq, resumed = 0] = place;
    const before = had.get(run) ?? { seq: 0, resumed: 0 };
    // The process died with events that were shown and not kept: everything is read again.
    if (resumed > before.resumed && seq <= before.seq) on.state("refused", { code: "last_event_id" });
    if (seq <= before.seq) return null;
    had.set(run, { seq, resumed });
    last = id;
    const heard = JSON.parse(data);
    if (judged?.run_id === run && judged.seq === seq) heard.judged = judged; // no part of the record: known of its call
    judged = null;
    return heard;
  }

  run();
  return {
    stop() {
      stopped = true;
      paused?.resume();
      abort?.abort();
      wake();
    },
    retry: () => wake(),
    pause() {
      let resume;
      const until = new Promise((resolve) => (resume = resolve));
      paused ??= { until, resume };
      abort?.abort();
    },
    resume() {
      paused?.resume();
      paused = null;
    },
  };
}

/** All events that the file holds, at once and as late as those of a server. */
function readHeld(url, on) {
  let stopped = false;
  events(decodeURIComponent(url.split("/")[1])).then((all) => {
    if (stopped) return;
    on.events(all);
    on.state("stopped");
  });
  return { stop: () => (stopped = true), retry() {}, pause() {}, resume() {} };
}

/** From pieces of a stream to events, as the HTML standard reads them. */
export function parser(take) {
  let rest = "";
  let fields = { id: "", event: "", data: "" };
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    const found = [];
    for (const line of lines) {
      if (line === "") {
        const event = fields.data || fields.event ? take({ ...fields, data: fields.data.slice(0, -1) }) : null;
        if (event) found.push(event);
        fields = { id: fields.id, event: "", data: "" };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") fields.data += value + "\n";
      else if (name === "id" || name === "event") fields[name] = value;
    }
    return found;
  };
}
