// What is used of each limit, as bars: hard limits end them, soft ones and reminders are marks.
import { h, put } from "./dom.js";
import { counted, tokens, money } from "./text.js";
import { allowedWords, budgetName } from "./words.js";

const LIMITS = ["steps", "rounds", "tool_calls", "input_tokens", "output_tokens", "cost_usd", "seconds"];

/** What an imported session has where its agent's limit on steps is not known (engine/formats/reconstruction.py). */
const UNKNOWN = 1_000_000;

/** Each limit that is set and known, with what is used of it at time `t`. */
export const budgets = (run, t) => all(run, t).filter((one) => one.name !== "steps" || one.hard === null || one.hard < UNKNOWN);

function all(run, t) {
  const { policy = {}, before = {} } = run.began;
  const used = (name) => ({
    steps: run.steps, rounds: run.rounds, tool_calls: run.toolCalls, seconds: (t + run.earlier) / 1000,
  })[name] ?? run.usage[name] ?? 0;
  const spent = (name) => used(name) + (name === "seconds" ? (before.elapsed_ms ?? 0) / 1000 : before[name] ?? before.usage?.[name] ?? 0);
  const set = (limits, scope, of) => LIMITS.filter((name) => limits?.[name] != null || limits?.[`soft_${name}`] != null)
    .map((name) => ({ name, scope, used: of(name), hard: limits[name] ?? null, soft: limits[`soft_${name}`] ?? null,
      reminder: policy.reminder && limits[name] != null ? policy.reminder * limits[name] : null }));
  const flag = run.usage.cost_usd != null && policy.limits?.cost_usd == null && { soft_cost_usd: policy.flag_cost_usd };
  const steps = policy.limits?.steps != null && { steps: policy.limits.steps + run.granted };
  const found = [...set({ ...policy.limits, ...steps, ...flag }, "", used), ...set(policy.session_limits, "session", spent)];
  if (run.refused) {
    found.push({ name: run.refused.limit, scope: "budget", used: run.refused.used, hard: run.refused.allowed, soft: null });
  }
  return found;
}

export function showBudget(root, run, t) {
  const all = budgets(run, t);
  const limited = new Set(all.map((one) => one.name));
  const bare = [limited.has("steps") || !run.steps ? "" : counted(run.steps, "step"), limited.has("input_tokens") ? "" : tokens(run.usage), limited.has("cost_usd") || run.usage.cost_usd == null ? "" : money(run.usage.cost_usd)];
  const kept = root.shown?.length === all.length + 1 ? root.shown : build(root, all);
  all.forEach((one, place) => kept[place](one));
  kept[all.length](bare.filter(Boolean).join(" · "));
}

export function clearBudget(root) {
  root.replaceChildren();
  delete root.shown;
}

function build(root, all) {
  const made = all.map(bar);
  const figures = h("span", { class: "faint" });
  root.replaceChildren(...made.map(({ node }) => node), figures);
  root.shown = [...made.map(({ update }) => update), (text) => put(figures, text)];
  return root.shown;
}

function bar() {
  const label = h("span", { class: "label" });
  const fill = h("div", { class: "fill" });
  const marks = [h("div", { class: "mark" }), h("div", { class: "mark faint" })];
  const track = h("div", { class: "track", role: "meter", "aria-valuemin": 0 }, fill, ...marks);
  const node = h("div", { class: "limit" }, label, track);
  return {
    node,
    update(one) {
      const end = one.hard ?? Math.max(one.soft ?? 0, one.used) ?? 1;
      const share = (value) => `${Math.min(100, (100 * value) / (end || 1)).toFixed(1)}%`;
      const full = one.hard != null && one.used >= one.hard;
      const over = one.soft != null && one.used > one.soft;
      const name = budgetName(one.name, one.scope);
      const words = allowedWords(one);
      put(label, `${name} ${words}${full ? " ■" : over ? " !" : ""}`);
      fill.className = `fill ${full ? "bad" : over || one.used >= (one.reminder ?? Infinity) ? "warn" : "main"}`;
      fill.style.width = share(one.used);
      [[one.soft, "soft limit"], [one.reminder, "reminder"]].forEach(([value, title], place) => {
        marks[place].hidden = value == null;
        if (value == null) return;
        marks[place].style.left = share(value);
        marks[place].title = title;
      });
      Object.assign(track, { ariaLabel: name, ariaValueNow: Math.min(one.used, end), ariaValueMax: end, ariaValueText: words });
    },
  };
}
