// A long text, a piece at a time: its first lines, then as much as the reader asks for.
import { copyButton, recordedButton, saveButton, tool } from "./copy.js";
import { h, put, whenSeen } from "./dom.js";
import { clean, counted, number, parsed, pretty } from "./text.js";

const [LINES, CHARACTERS] = [12, 1500];
/** Characters that one press shows, that the page shows at all, and in which lines are counted. */
const [PIECE, MOST, COUNTED] = [100_000, 2_000_000, 5_000_000];

/** The end of this many lines, at most this many characters on. */
function after(text, from, lines, characters) {
  const piece = text.slice(from, from + characters);
  let at = 0;
  for (let line = 0; line < lines; line++) {
    const end = piece.indexOf("\n", at);
    if (end < 0) return from + (from + piece.length >= text.length || at === 0 ? piece.length : at);
    at = end + 1;
  }
  return from + at;
}

function linesOf(text) {
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** JSON in one line as several; null where the text is something else, or short. */
function unfolded(text) {
  const line = text.length > 80 && text.length <= PIECE && /^\s*[{[]/.test(text) && !text.trim().includes("\n");
  return line && parsed(text) !== undefined ? pretty(text) : null;
}

/** Members that say no more than how a command ended. */
const ABOUT = /^(?:metadata|exit_?code|duration\w*|wall_time\w*|success|is_?error|status|timed_?out|truncated|chunk_id|output|stdout|stderr)$/i;
const TAGGED = /^\s*<returncode>-?\d+<\/returncode>\s*<output>\n?([\s\S]*?)\n?<\/output>\s*$/;

/** What a shell printed, out of the envelope that a client put around it; null where there is none. */
function opened(text) {
  const tagged = TAGGED.exec(text);
  if (tagged) return tagged[1];
  const found = /^\s*\{/.test(text) ? parsed(text) : null;
  if (!found || typeof found !== "object" || !Object.keys(found).every((name) => ABOUT.test(name))) return null;
  const printed = [found.output, found.stdout, found.stderr].filter((part) => typeof part === "string");
  return printed.length ? printed.filter(Boolean).join("\n") : null;
}

/** What: for buttons, `the result of read_file`. File: what the call named, which tells the language. Form: class and
 * element. Gives `node`, and `all()` which shows as much as one press can. */
export function output(recorded, { what, file = "", form = "output", tag = "pre", save = "text.txt", lines = LINES } = {}) {
  const readable = tag === "pre" ? opened(recorded) ?? unfolded(recorded) : null;
  let text = readable ?? recorded;
  let shown = 0;
  let turn = 0; // a late colouring must not replace something newer
  const body = h(tag, { class: form });
  const tools = h("div", { class: "tools" });
  const more = tool("", () => (shown < Math.min(text.length, MOST) ? show(next()) : first()));
  const told = h("small", {});
  const foot = h("div", { class: "foot" }, more, told);
  const node = h("div", { class: "block" }, body, tools);

  const next = () => (text.length <= PIECE ? text.length : after(text, shown, Infinity, PIECE));

  function first() {
    shown = 0;
    const end = after(text, 0, lines, CHARACTERS);
    const oneMore = end < CHARACTERS && text.length - end < 200 && !text.slice(end).trimEnd().includes("\n");
    show(oneMore ? text.length : after(text, 0, lines - 2, CHARACTERS));
    if (shown < text.length) node.append(foot);
    else foot.remove();
  }

  function show(to) {
    const piece = clean(text.slice(shown, to));
    if (shown === 0) body.replaceChildren(piece);
    else body.append(piece);
    shown = to;
    turn += 1;
    if (tag === "pre" && to <= PIECE) colour(turn);
    const all = shown >= text.length;
    const count = text.length > COUNTED ? counted(text.length, "character") : counted(linesOf(text), "line");
    put(more, all || shown >= MOST ? "Show less" : text.length <= PIECE ? `Show all ${count}` : `Show more of ${count}`);
    put(told, all ? "" : text.length <= PIECE ? counted(text.length, "character")
      : `${number(shown)} of ${counted(text.length, "character")} shown${shown >= MOST ? ": download the rest" : ""}`);
  }

  function colour(mine) {
    whenSeen(body, async () => {
      const { languageOf, paint, shapeOf } = await import("./code.js");
      if (mine === turn) paint(body, text.slice(0, shown), shapeOf(text.slice(0, PIECE)) || languageOf(file), () => mine === turn);
    });
  }

  function dress() {
    if (tools.firstChild) return;
    if (readable !== null) tools.append(recordedButton((plain) => ((text = plain ? recorded : readable), first())));
    if (text.length > PIECE) tools.append(saveButton(save, () => recorded));
    if (text.length <= MOST) tools.append(copyButton(what, () => text));
  }

  first();
  whenSeen(node, dress);
  return { node, all: () => shown < text.length && show(next()) };
}

/** A picture that a tool returned; where its data is not recorded, or no picture, its address or type. */
export function picture({ data, media_type: type = "image/png", url }, name) {
  if (data && /^image\/(png|jpeg|gif|webp|avif)$/.test(type)) {
    return h("img", { src: `data:${type};base64,${data}`, alt: `a picture that ${name} returned`, loading: "lazy" });
  }
  return h("p", { class: "faint" }, url ? `a picture at ${url}` : `a picture of type ${type}`);
}
