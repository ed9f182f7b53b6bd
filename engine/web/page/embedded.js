// What a page that is a file holds in place of a server: a report, or sessions, and compressed their events and the requests
// of their steps, each in a script element that is read when it is asked for.

/** Whether this page is a file, with all that it shows in it. */
export const isFile = document.documentElement.dataset.mode === "file";

const read = new Map();

function once(name, make) {
  if (!read.has(name)) read.set(name, make(document.getElementById(`held-${name}`)?.textContent));
  return read.get(name);
}

/** What the page holds under this name, as JSON. */
export const held = (name) => once(name, (text) => JSON.parse(text ?? "null"));
const unpacked = (name) => once(name, async (text) => {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
});

/** The session that the page is about; the others are its sub-agents'. */
export const mainSession = () => held("sessions").sessions[0].id;

/** What a server would answer to this GET; undefined where the page does not hold it. */
export async function answer(path) {
  const [place, query] = path.split("?");
  const [kind, id, part] = place.split("/").map(decodeURIComponent);
  const { sessions } = held("sessions");
  if (kind === "agents") return { agents: [] };
  if (kind !== "sessions") return undefined;
  if (!id) return { sessions, next: null, total: sessions.length, reading: null };
  const number = numberOf(id);
  if (number < 0) return undefined;
  if (!part) return sessions[number];
  if (part === "verdict") return held("sessions").verdicts[number];
  if (part === "record") return new Response(await record(number), { headers: { "Content-Type": "application/x-ndjson" } });
  const asked = new URLSearchParams(query);
  if (part === "request") return requestOf(await unpacked(`requests-${number}`), Number(asked.get("run")), Number(asked.get("step")));
  return undefined;
}

const numberOf = (id) => held("sessions").sessions.findIndex((one) => one.id === id);

/** The events of a session, from its beginning, with what is known of its calls. */
export async function events(id) {
  const found = await unpacked(`events-${numberOf(id)}`);
  return found.events.map((event, place) => (found.judged[place] ? { ...event, judged: found.judged[place] } : event));
}

async function record(number) {
  const { header, events } = await unpacked(`events-${number}`);
  return `${[header, ...events].map((one) => JSON.stringify(one)).join("\n")}\n`;
}

/** A request of many: each names what it shares with the one before it, and its values by their place in a table. */
function requestOf({ values, requests }, run, step) {
  let messages = [];
  let found;
  for (const { kept, added, ...rest } of requests) {
    messages = [...messages.slice(0, kept), ...added];
    if (rest.run === run && rest.step === step) found = { ...rest, messages };
  }
  if (!found) return undefined;
  const { system, tools, settings } = found;
  return { ...found, system: values[system], tools: values[tools], settings: values[settings], messages: found.messages.map((at) => values[at]) };
}
