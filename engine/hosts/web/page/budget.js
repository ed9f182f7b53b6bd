// What is used of each limit, as bars: hard limits end at the right, soft ones and reminders are marks.
import { budgets } from "./model.js";
import { h, put } from "./dom.js";
import { tokens, money } from "./text.js";
import { allowedWords, budgetName } from "./words.js";

export function showBudget(root, run, t) {
  const all = budgets(run, t);
  const limited = new Set(all.map((one) => one.name));
  const bare = [limited.has("input_tokens") ? "" : tokens(run.usage), limited.has("cost_usd") || run.usage.cost_usd == null ? "" : money(run.usage.cost_usd)];
  const kept = root.shown?.length === all.length + 1 ? root.shown : build(root, all);
  all.forEach((one, place) => kept[place](one));
  kept[all.length](bare.filter(Boolean).join(" · "));
}

export function clearBudget(root) {
  root.replaceChildren();
  delete root.shown;
}

function build(root, all) {
  const made = all.map((one) => bar(one));
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
      put(label, `${name} ${allowedWords(one)}${full ? " ■" : over ? " !" : ""}`);
      fill.className = `fill ${full ? "bad" : over || one.used >= (one.reminder ?? Infinity) ? "warn" : "main"}`;
      fill.style.width = share(one.used);
      [[one.soft, "soft limit"], [one.reminder, "reminder"]].forEach(([value, words], place) => {
        marks[place].hidden = value == null;
        if (value == null) return;
        marks[place].style.left = share(value);
        marks[place].title = words;
      });
      track.setAttribute("aria-label", name);
      track.setAttribute("aria-valuenow", Math.min(one.used, end));
      track.setAttribute("aria-valuemax", end);
      track.setAttribute("aria-valuetext", allowedWords(one));
    },
  };
}
