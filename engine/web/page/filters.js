// What the list is asked for: a search, filters and an order, which are in the address.
import { listed, setListed } from "./address.js";
import { ask, mode } from "./api.js";
import { $, h, put } from "./dom.js";
import { counted, plain } from "./text.js";
import { STATUS } from "./words.js";

/** Milliseconds that somebody who types is waited for. */
const TYPING = 200;
const MENUS = ["status", "reason", "tool", "agent", "model"];
/** Menus that are of no use where all sessions are alike. */
const ALIKE = ["agent", "model"];
const SORTS = {
  "": "newest first", oldest: "oldest first", steps: "most steps", "-steps": "fewest steps", tokens: "most tokens", "-tokens": "fewest tokens",
  cost: "highest cost", "-cost": "lowest cost", duration: "longest", "-duration": "shortest", errors: "most errors", "-errors": "fewest errors",
  title: "task, A to Z", "-title": "task, Z to A",
};
/** Orders in the menu; the others are reached by the headings of the columns. */
const OFFERED = ["", "oldest", "steps", "tokens", "cost", "duration", "errors", "title"];

const label = { status: (value) => STATUS[value]?.[2] ?? value, reason: plain };

/** Controls for these names of the query; `changed()` is called once the address has another one. */
export function filters(known, changed) {
  const form = $("filters");
  const control = (name) => form.elements.namedItem(name);
  let timer = 0;
  let typing = false;
  let facets = { status: Object.fromEntries(Object.keys(STATUS).map((one) => [one, null])) };
  let seen = "";

  for (const part of form.querySelectorAll("[data-for]")) part.hidden = !known.includes(part.dataset.for);
  form.hidden = !known.length;
  $("columns").hidden = !known.includes("sort");

  /** Let the controls say what the address says. */
  function show() {
    const given = listed();
    for (const name of MENUS) options(control(name), name, given[name] ?? "");
    choices(control("sort"), OFFERED.map((value) => [value, SORTS[value]]), given.sort ?? "", SORTS[given.sort] ?? given.sort);
    control("errors").checked = given.errors === "1";
    if (document.activeElement !== $("q")) $("q").value = given.q ?? "";
    const set = known.filter((name) => given[name] && name !== "sort" && name !== "q").length;
    put($("fold"), set ? `Filters (${set})` : "Filters");
    $("clear").hidden = !known.some((name) => given[name] && name !== "sort");
    headings(given.sort ?? "");
  }

  function options(menu, name, chosen) {
    const words = label[name] ?? ((value) => value);
    const entries = Object.entries(facets[name] ?? {}).map(([value, count]) => [value, count === null ? words(value) : `${words(value)} (${count})`]);
    choices(menu, [["", "all"], ...entries], chosen, `${words(chosen)} (0)`);
    if (ALIKE.includes(name)) menu.closest("label").hidden = !known.includes(name) || (entries.length < 2 && !chosen);
  }

  /** Fill a menu where it differs; what is chosen is always in it. */
  function choices(menu, entries, chosen, words) {
    const all = entries.some(([value]) => value === chosen) ? entries : [...entries, [chosen, words]];
    const now = JSON.stringify(all);
    if (menu.made !== now) menu.replaceChildren(...all.map(([value, text]) => Object.assign(h("option", {}, text), { value })));
    menu.made = now;
    menu.value = chosen;
  }

  function headings(sort) {
    for (const button of $("columns").querySelectorAll("button")) {
      const name = button.dataset.sort;
      const turned = { "": "oldest", oldest: "" }[name] ?? `-${name}`;
      const on = sort === name || sort === turned;
      button.ariaPressed = on;
      put(button.querySelector(".sign"), on ? ((sort === name) === (name !== "title") ? "↓" : "↑") : "");
      button.onclick = () => choose({ sort: sort === name ? turned : name });
    }
  }

  function choose(changes, replace = false) {
    setListed({ ...listed(), ...changes }, replace);
    changed();
  }

  form.onchange = ({ target }) => {
    if (target.id === "q" || !target.name) return;
    choose({ [target.name]: target.type === "checkbox" ? (target.checked ? "1" : "") : target.value });
  };
  $("q").oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(search, TYPING);
  };
  function search() {
    clearTimeout(timer);
    const q = $("q").value.trim();
    if (q === (listed().q ?? "")) return;
    choose({ q }, typing); // one step back for all that is typed
    typing = true;
  }
  $("q").onblur = () => {
    search();
    typing = false;
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    search();
  };
  $("clear").onclick = () => {
    $("q").value = "";
    setListed({ sort: listed().sort });
    changed();
    $("q").focus();
  };
  $("fold").onclick = () => {
    form.classList.toggle("unfolded");
    $("fold").ariaExpanded = form.classList.contains("unfolded");
  };
  show();

  return {
    show,
    /** Read the menus again where the list has changed. */
    async update({ total, reading }) {
      const now = JSON.stringify([total, reading]);
      if (mode !== "viewer" || now === seen) return;
      seen = now;
      facets = await ask("GET", "facets");
      if (!form.querySelector("select:focus")) show();
    },
    /** The agents of a server. */
    agents(names) {
      facets.agent = Object.fromEntries(names.map((name) => [name, null]));
      show();
    },
  };
}
