// The one table of all pages: heads that are buttons and say how the rows are sorted, and no more rows than are asked for.
import { h, put } from "./dom.js";
import { counted } from "./text.js";

/** Let the head at this place, of these, say that it sorts. `down`: from the most to the least. */
export function mark(heads, place, down) {
  heads.forEach((head, at) => {
    if (at === place) head.ariaSort = down ? "descending" : "ascending";
    else head.removeAttribute("aria-sort");
  });
}

/** A head of a table; with `press`, a button. */
export function head(name, press, given = {}) {
  if (!name) return h("td", given);
  return h("th", { scope: "col", ...given }, press ? h("button", { type: "button", onclick: press }, name) : name);
}

/** A table with its rows. A column has a `name`, the `cell(row)`, whether it `isFigure`, and `order(row)`, by which it is
 * sorted, if it can be. `caption` names the table. `most` rows are shown until all are asked for; they are `things`.
 * `sorted`: the place of the column that the rows are sorted by from the start. */
export function table({ caption, columns, most = Infinity, things = "row", kind = "", sorted = -1, seen = true }) {
  let [rows, by, down, shown] = [[], sorted, false, most];
  const heads = columns.map(({ name, order, isFigure }, place) => head(name, order && (() => sort(place)), isFigure ? { class: "n" } : {}));
  const body = h("tbody");
  const more = h("button", { type: "button", class: "tool", hidden: true, onclick: () => ((shown = Infinity), draw()) });
  const node = h("div", {},
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": caption },
      h("table", { class: kind || null }, h("caption", { class: seen ? "faint" : "unseen" }, caption), h("thead", {}, h("tr", {}, ...heads)), body)), more);

  function sort(place) {
    const first = columns[place].isFigure; // of figures the largest are wanted
    [by, down] = [place, by === place ? !down : !!first];
    draw();
  }

  function draw() {
    const value = columns[by]?.order;
    const all = value ? rows.map((row) => [value(row), row]).sort(([a], [b]) => compare(a, b, down)).map(([, row]) => row) : rows;
    mark(heads, by, down);
    body.replaceChildren(...all.slice(0, shown).map((row) => h("tr", row.given ?? {}, ...columns.map(({ cell }) => cell(row)))));
    more.hidden = rows.length <= shown;
    put(more, `Show all ${counted(rows.length, things)}`);
  }

  return { node, show(given) {
    rows = given;
    draw();
  } };
}

/** What has no value stands last, either way. */
function compare(a, b, down) {
  if (a == null || b == null) return (a == null) - (b == null);
  return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
}
