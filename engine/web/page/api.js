// What is asked of the server, or of the file where the page is one (embedded.js). The token stays in this tab
// (sessionStorage) and goes in a header only.
import { answer, isFile } from "./embedded.js";

const ROOT = isFile ? "" : new URL("../", import.meta.url);
const KEY = "endstop-token";

/** `server` (endstop serve), `viewer` (endstop view: files, read only) or `file` (one exported session). */
export const mode = document.documentElement.dataset.mode;
export const readOnly = mode !== "server";

export const token = {
  get: () => (isFile ? "" : sessionStorage.getItem(KEY) ?? ""),
  set: (value) => sessionStorage.setItem(KEY, value),
};
export const headers = () => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});
export const at = (path) => (isFile ? path : new URL(path, ROOT).href);

export const path = (id) => `sessions/${encodeURIComponent(id)}`;

/** The server's no, in its own words. */
export class Refused extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  /** Whether it may be otherwise in a moment. */
  get passing() {
    return this.status === 429 || this.status >= 500;
  }

  static async from(response) {
    let problem = {};
    try {
      problem = await response.json();
    } catch {}
    const detail = problem.detail || problem.title || `The server answered ${response.status}.`;
    return new Refused(response.status, problem.code ?? "", detail);
  }
}

let asked = null;

/** Shows a box for a token and resolves once there is one. */
export const asking = { show: async () => {} };

/** JSON, or with `raw` the Response. `body`: an object or its text. Raises Refused, or TypeError where nobody answers. */
export async function ask(method, path, body, raw = false) {
  if (isFile) return held(method, path);
  for (;;) {
    const used = token.get();
    const response = await fetch(at(path), {
      method, cache: "no-store",
      headers: { ...headers(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: typeof body === "object" ? JSON.stringify(body) : body,
    });
    if (response.status === 401) {
      await tokenAfter(used);
      continue;
    }
    if (!response.ok) throw await Refused.from(response);
    if (raw || response.status === 204) return response;
    return response.json();
  }
}

async function held(method, path) {
  const found = method === "GET" ? await answer(path) : undefined;
  if (found === undefined) throw new Refused(404, "not_found", "This file does not hold it.");
  return found;
}

/** Wait until there is another token than this one. */
export async function tokenAfter(used) {
  if (token.get() !== used) return;
  asked ??= asking.show(used !== "").finally(() => {
    asked = null;
  });
  await asked;
}

export const words = (error) => (error instanceof TypeError ? "The server does not answer." : error.message);
