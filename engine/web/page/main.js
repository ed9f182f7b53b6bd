// The page: which session is open (the hash names it), a new one, the token, the keys.
import { placeOf, VIEWS } from "./address.js";
import { ask, asking, mode, readOnly, token, words } from "./api.js";
import { attempt, boxOf, sendByKey } from "./composer.js";
import { $, h, put } from "./dom.js";
import { isFile, mainSession } from "./embedded.js";
import { beside, changed, focusRow, listAgents, marked, refresh } from "./list.js";
import { openSession } from "./session.js";
import { oneLine } from "./text.js";

let open = null;

// speaking to those who listen, a little at a time

let spoken = [];
function say(text) {
  if (!text) return;
  if (!spoken.length) {
    setTimeout(() => {
      put($("said"), spoken.slice(-4).join(". "));
      spoken = [];
    }, 600);
  }
  spoken.push(text);
}

function connected(word, about, retry) {
  const node = $("connection");
  if (node.dataset.state === word && word !== "waiting") return;
  node.dataset.state = word;
  if (word === "waiting") {
    const seconds = Math.max(1, Math.round(about / 1000));
    node.replaceChildren(`Reconnecting in ${seconds} s … `, h("button", { onclick: retry }, "Now"));
  } else put(node, { connecting: "Connecting …", refused: "Not connected" }[word] ?? "");
}

function route() {
  const asked = placeOf(location.hash);
  const place = isFile && !asked?.id ? { id: mainSession() } : asked;
  put($("lost"), asked?.wrong ? `This link leads nowhere: ${oneLine(asked.wrong, 100)}` : "");
  if (place?.id && place.id === open?.id) return open.goTo(place);
  open?.close();
  open = null;
  const home = !place?.id;
  document.body.dataset.view = home ? "home" : "session";
  $("home").hidden = !home || readOnly;
  $("main").hidden = home && readOnly;
  $("list").role = $("main").hidden ? "main" : "navigation"; // one of them is what the page is about
  $("session").hidden = home;
  document.title = home && readOnly ? "Sessions · endstop" : "endstop";
  if (!home) open = openSession(place, { say, connected });
  marked(place?.id);
}

function arrived() {
  const before = open;
  changed();
  route();
  if (before && !open) home();
  else if (!open) return;
  else if (open !== before) $("title").focus({ preventScroll: true });
}

// a new session

async function agents() {
  try {
    const { agents: known } = await ask("GET", "agents");
    $("agent").replaceChildren(...known.map(({ name, model }) => h("option", { value: name }, model && model !== name ? `${name} (${model})` : name)));
    $("agent-label").hidden = known.length < 2;
    listAgents(known.map(({ name }) => name));
    const one = known.length === 1 ? known[0] : null;
    const tools = one?.tools?.length ? ` with the tools ${one.tools.join(", ")}` : "";
    put($("agents"), one ? `${one.name}${one.model ? ` on ${one.model}` : ""}${tools}` : "");
    noModel(known.length === 0);
  } catch (error) {
    put($("agents"), words(error));
  }
}

function noModel(none) {
  $("start").querySelector("button").disabled = none;
  if (none) {
    $("agents").replaceChildren("This server has no model, so it can show sessions but not start any. Start it again with one: ",
      h("code", {}, "endstop serve --model NAME"), ".");
  }
}

$("start").onsubmit = (event) => {
  event.preventDefault();
  const [box, chosen] = [$("prompt"), $("agent").value];
  if (!box.value.trim()) return;
  const error = $("start").querySelector(".error");
  attempt($("start").querySelector("button"), error, async () => {
    const body = { prompt: box.value, ...($("agent-label").hidden ? {} : { agent: chosen }) };
    try {
      const session = await ask("POST", "sessions", body);
      box.value = "";
      location.hash = `s/${encodeURIComponent(session.id)}`;
      refresh();
    } catch (problem) {
      if (problem.code === "no_model") noModel(true);
      throw problem;
    }
  });
};

asking.show = (wrong) =>
  new Promise((resolve) => {
    const box = $("token");
    put($("token-why"), wrong ? "The server does not know this token. Another one:" : "This server asks for a token. The person who started it knows it.");
    box.value = "";
    $("asking").showModal();
    $("asking").oncancel = (event) => event.preventDefault();
    $("token-form").onsubmit = (event) => {
      event.preventDefault();
      token.set(box.value.trim());
      box.value = "";
      $("asking").close();
      resolve();
    };
  });

const KEYS = {
  n: ["a new session", () => home()],
  "/": ["search in all sessions", () => searchBox()],
  j: ["the next session in the list", () => turn(1)],
  k: ["the session before it", () => turn(-1)],
  m: ["to the box: a message, an answer, a prompt", () => (boxOf() ?? $("prompt")).focus()],
  x: ["the next failed call or request; with Shift the one before", () => open?.next("error")],
  X: [null, () => open?.next("error", true)],
  d: ["the next decision; with Shift the one before", () => open?.next("decision")],
  D: [null, () => open?.next("decision", true)],
  e: ["to the end of the timeline", () => open?.toEnd()],
  t: ["open or close the traces of all decisions", () => traces()],
  ...Object.fromEntries(VIEWS.map((view, place) => [`${place + 1}`, [`the view of ${view === "conversation" ? "the conversation" : view}`, () => open?.view(view)]])),
  r: ["replay; then ← → by moment, Page keys by step, Space plays", () => open?.toggleReplay()],
  "?": ["this list", () => help()],
};
const OFF = "endstop-single-keys-off";
/** Whether single keys are off; a file that is shown in a sandbox has no place to keep it. */
const keysOff = () => kept((store) => store.getItem(OFF) !== null) ?? false;

function kept(use) {
  try {
    return use(localStorage);
  } catch {
    return undefined;
  }
}

/** Keys of which there is nothing to do in a mode. */
const WITHOUT = { server: ["/"], viewer: ["n", "m"], file: ["n", "m", "j", "k", "/"] }[mode];
for (const key of WITHOUT) delete KEYS[key];

function turn(step) {
  const hash = beside(step);
  if (hash) location.hash = hash;
}

function searchBox() {
  if (open) home();
  $("q").focus();
  $("q").select();
}

function traces() {
  const all = [...document.querySelectorAll(".decision")];
  const close = all.some((one) => one.open);
  for (const one of all) one.open = !close;
}

function help() {
  $("single").checked = !keysOff();
  $("shortcuts").replaceChildren(
    ...[...Object.entries(KEYS).map(([key, [what]]) => [key, what]).filter(([, what]) => what), ...(readOnly ? [] : [["Ctrl+Enter", "send what is in the box"], ["Esc", "leave the box"]])]
      .flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]));
  $("keys").showModal();
}

$("single").onchange = () => kept((store) => ($("single").checked ? store.removeItem(OFF) : store.setItem(OFF, "1")));
$("help").onclick = help;
document.addEventListener("keydown", (event) => {
  sendByKey(event);
  const typing = event.target.closest("input:not([type=range]), textarea, select, dialog");
  if (event.key === "Escape" && event.target.closest("textarea")) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || keysOff()) return;
  const known = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!known) return;
  event.preventDefault();
  known[1]();
});

$("skip").onclick = (event) => {
  event.preventDefault();
  if (open) $("scroll").focus();
  else home();
};

/** To the front, and there to the box for a prompt, or to the list. */
function home() {
  if (open) location.hash = "";
  else if (readOnly) focusRow();
  else $("prompt").focus();
  if (!open && location.hash) location.hash = "";
}
for (const link of [$("home-link"), $("new"), document.querySelector(".back")]) {
  link.onclick = (event) => {
    event.preventDefault();
    home();
  };
}
addEventListener("popstate", arrived);
$("new").hidden = readOnly;
$("report").hidden = mode !== "viewer";
route();
if (!readOnly) agents();
refresh();
