// What the list is asked for: a search, filters and an order, which are in the address.
import { listed, setListed } from "./address.js";
import { ask, mode } from "./api.js";
import { $, h, put } from "./dom.js";
import { mark } from "./table.js";
import { counted } from "./text.js";
import { STATUS } from "./words.js";

/** Milliseconds that somebody who types is waited for. */
const TYPING = 200;
const MENUS = ["status", "ending", "check", "tool", "agent", "model"];
/** Filters that links of a report name, with their labels: of each session one run is enough. A menu is shown once an
 * address has it. */
const COUNTED = { policy: "Policy", kind: "Kind of task", failed: "Failed tool", ended: "A run ended", run_ending: "A run ended so", work: "Work of a run",
  trouble: "A run went wrong", reached: "A run", ids: "Named" };
/** Menus that are of no use where all sessions are alike. */
const ALIKE = ["agent", "model"];
const SORTS = {
  "": "newest first", steps: "most steps", tokens: "most tokens", cost: "highest cost", duration: "longest", errors: "most failed calls",
  title: "by task", agent: "by agent", ending: "by ending",
};
/** Orders that begin with what is least. */
const ASCENDING = ["title", "agent", "ending"];
/** An order in words; a minus turns it round. */
const orderWords = (sort) => (sort === "oldest" ? "oldest first" : sort[0] === "-" ? `${SORTS[sort.slice(1)]}, turned round` : SORTS[sort] ?? sort);

const label = { status: (value) => STATUS[value]?.[2] ?? value, ids: (value) => value && counted(value.split(",").length, "session") };

/** Controls for these names of the query; `changed()` is called once the address has another one. */
export function filters(known, changed) {
  const form = $("filters");
  const control = (name) => form.elements.namedItem(name);
  let timer = 0;
  let typing = false;
  let facets = { status: Object.fromEntries(Object.keys(STATUS).map((one) => [one, null])) };
  let seen = "";

  for (const [name, words] of Object.entries(COUNTED)) {
    if (known.includes(name)) $("clear").before(h("label", { "data-for": name }, h("span", {}, words), h("select", { name })));
  }
  for (const part of form.querySelectorAll("[data-for]")) part.hidden = !known.includes(part.dataset.for);
  form.hidden = !known.length;
  $("columns").hidden = !known.includes("sort");

  /** Let the controls say what the address says. */
  function show() {
    const given = listed();
    for (const name of [...MENUS, ...Object.keys(COUNTED).filter((one) => known.includes(one))]) options(control(name), name, given[name] ?? "");
    choices(control("sort"), Object.entries(SORTS), given.sort ?? "", orderWords(given.sort ?? ""));
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
    choices(menu, [["", "all"], ...entries], chosen, name === "ids" ? words(chosen) : `${words(chosen)} (0)`);
    if (COUNTED[name] || (name === "status" && known.includes("ending"))) menu.closest("label").hidden = !chosen; // an address may still have one
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
    const turned = (name) => ({ "": "oldest", oldest: "" })[name] ?? `-${name}`;
    const heads = [...$("columns").querySelectorAll("th")];
    const names = heads.map((one) => one.firstChild.dataset.sort);
    const place = names.findIndex((name) => sort === name || sort === turned(name));
    mark(heads, place, (sort === names[place]) !== ASCENDING.includes(names[place]));
    heads.forEach((one, at) => (one.firstChild.onclick = () => choose({ sort: sort === names[at] ? turned(names[at]) : names[at] })));
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
