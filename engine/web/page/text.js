// Text that others wrote, made harmless to show, and figures as people say them.

const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** The text without what a terminal would obey; what hides or reorders text is shown. */
export function clean(text) {
  const plain = text.includes("\x1b") ? text.replace(SEQUENCES, "") : text;
  return plain.replace(/\r\n/g, "\n").replace(HIDDEN, visible);
}

function visible(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `‹${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** In one line of at most this many characters. */
export function oneLine(text, longest) {
  const line = clean(text.slice(0, 4 * longest)).replace(/\s+/g, " ").trim();
  return line.length <= longest ? line : line.slice(0, longest - 1) + "…";
}

const LONGEST_JSON = 2_000_000;

/** What this JSON says; undefined if it is none, or too long to be taken apart while somebody waits. */
export function parsed(json) {
  if (json.length > LONGEST_JSON) return undefined;
  try {
    return JSON.parse(json);
  } catch {}
}

/** JSON with a member a line, values letter for letter; other text as it is. */
export function pretty(json) {
  if (parsed(json) === undefined) return json;
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[^\s"{}[\],:]+|[{}[\],:]/g)) {
    const closing = token === "}" || token === "]";
    if (closing) depth -= 1;
    if (closing) out += /[{[]$/.test(out) ? "" : line();
    else if (/[{[,]$/.test(out)) out += line();
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
  }
  return out;
}

/** The file that arguments name; "" where they name none. */
export function fileOf(given) {
  const named = given && typeof given === "object" ? ["path", "file_path", "file", "filename", "target_file", "notebook_path"].map((name) => given[name]) : [];
  return named.find((value) => typeof value === "string") ?? "";
}

/** A question in a line: of an approval without the arguments, which stand beside it. */
export const questionText = ({ text, tool }) => (tool ? `May ${tool} run?` : text);

/** Arguments that say what a file is to hold: edits.js shows them. */
const CHANGE = /^(?:old|new|search|replace|patch|diff|edits|insert_|content|file_text)/;

/** A call's arguments in one line; an ellipsis where something is left out. */
export function brief(json) {
  const given = parsed(json || "{}");
  if (!given || typeof given !== "object") return oneLine(json, 80);
  const file = fileOf(given);
  const shown = Object.entries(given).filter(([name]) => !file || !CHANGE.test(name));
  const said = shown.map(([name, value]) => `${name}=${oneLine(JSON.stringify(value), 60)}`);
  return oneLine(said.join(" "), 140) + (shown.length < Object.keys(given).length ? " …" : "");
}

/** A command as it was typed, or the arguments in one line. */
export function briefly(args) {
  const given = parsed(args || "{}");
  const command = given && typeof given === "object" && !fileOf(given) && Object.keys(given).length === 1 ? given.command ?? given.cmd ?? given.commands : undefined;
  return typeof command === "string" ? oneLine(command, 140) : brief(args);
}

const COMMAND = ["command", "cmd", "commands", "script", "code", "query", "pattern", "url", "prompt"];

/** The argument that matters: a command, a file and what is looked for; else the arguments in one line. */
export function gist(json, longest) {
  const given = parsed(json || "{}");
  if (!given || typeof given !== "object") return oneOf(json, longest);
  const command = COMMAND.map((name) => given[name]).find((value) => typeof value === "string" || Array.isArray(value));
  const text = Array.isArray(command) ? command.slice(/^(?:\/bin\/)?(?:ba|z)?sh$/.test(command[0]) ? 2 : 0).map((one) => `${one}`).join(" ") : command;
  const file = fileOf(given);
  return oneOf(file ? (text && text.length < 40 ? `${text} ${file}` : file) : (text ?? brief(json)), longest);
}

const oneOf = (text, longest) => (text.length > longest ? `${text.slice(0, longest)}…` : text);

// made once: to look up a language takes longer than to write some hundred numbers
const FIGURES = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const DAYS = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

export const number = (value) => FIGURES.format(value);
export const counted = (value, thing) => `${number(value)} ${thing}${value === 1 ? "" : "s"}`;
export const money = (value) => `$${value.toFixed(4)}`;
export const plain = (word) => word.replace(/^custom:/, "").replace(/_/g, " ");

export function duration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 1) return `${Math.round(milliseconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min` + (seconds % 60 ? ` ${String(Math.floor(seconds % 60)).padStart(2, "0")} s` : "");
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** A duration, and nothing where it is 0: histories of other agents have no times. */
export const lasted = (milliseconds) => (milliseconds ? duration(milliseconds) : "");

/** How long ago, in a word or two. */
export function ago(iso, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return DAYS.format(new Date(iso));
}

export function tokens(usage) {
  if (!usage || !(usage.input_tokens || usage.output_tokens)) return "";
  const about = usage.estimated ? "about " : "";
  return `${about}${counted(usage.input_tokens ?? 0, "token")} in, ${number(usage.output_tokens ?? 0)} out`;
}

/** The short name of a function, of its qualified one. */
export function called(name) {
  if (!name.includes("Command")) return name.slice(name.lastIndexOf(":") + 1);
  const command = /Command(?:Gate|Evaluator)\(['"](.*)['"]\)/s.exec(name);
  return command ? command[1] : name.slice(name.indexOf(":") + 1);
}
