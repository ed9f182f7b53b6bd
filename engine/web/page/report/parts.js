// The parts of a report: figures, tables, paragraphs, lists, charts, sessions.
import { h, svg } from "../dom.js";
import { table } from "../table.js";
import { histogram, lineChart } from "./charts.js";
import { sessionsView } from "./sessions.js";

/** Draws a part of a report, as elements. `view`: the address that links are relative to. */
export function partViews(view) {
  const link = (href, ...words) => (href ? h("a", { href: view + href }, ...words) : words);
  const figure = ({ name, value, more, link: href }) => h("div", {}, h("dt", {}, name),
    h("dd", {}, h("strong", {}, ...[link(href, value)].flat()), more ? h("small", {}, more) : null));
  const item = ({ name, text, link: href, more }) => h("li", {}, ...[name ? link(href, h(href ? "span" : "strong", {}, ...coded(name))) : []].flat(),
    name && text ? ": " : null, ...coded(text ?? ""), more ? h("p", { class: "faint" }, ...coded(more)) : null);

  function list({ title, items, most }) {
    const shown = items.slice(0, most || items.length);
    const node = h("ul", {}, ...shown.map(item));
    const more = items.length - shown.length;
    const button = more ? h("button", { type: "button", class: "tool", onclick: () => {
      node.append(...items.slice(shown.length).map(item));
      button.remove();
    } }, `Show ${more} more`) : null;
    return [title ? h("h3", {}, title) : null, node, button].filter(Boolean);
  }

  /** A column of a table whose rows are arrays of cells; those with rows inside rows stay in their order. */
  const column = ({ name, is_figure: isFigure }, place, flat) => ({
    name, isFigure,
    order: flat && name && ((row) => row[place].order ?? (isFigure && typeof row[place] === "string" ? null : textOf(row[place]).toLowerCase())),
    cell: (row) => cellView(row[place], place, isFigure),
  });
  function cellView(cell, place, isFigure) {
    const known = typeof cell === "string" ? { text: cell } : cell;
    const given = place ? (isFigure ? { class: "n" } : {}) : { scope: "row", class: known.inner ? "inner" : null };
    return h(place ? "td" : "th", given, ...[pictureOf(known) ?? link(known.link, known.text ?? "")].flat());
  }

  const DRAWN = {
    figures: ({ figures }) => h("dl", { class: "tiles" }, ...figures.map(figure)),
    note: ({ text, tone = "quiet" }) => h("p", { class: { quiet: "faint", main: "lead" }[tone] ?? `alarm ${tone}` }, ...coded(text)),
    list,
    table({ caption, heads, rows, note }) {
      const flat = rows.length > 1 && rows.every(([first]) => !first.inner);
      const shown = table({ caption, columns: heads.map((one, place) => column(one, place, flat)) });
      shown.show(rows);
      return [shown.node, ...(note ? [h("p", { class: "faint" }, ...coded(note))] : [])];
    },
    lines: lineChart,
    histogram,
    sessions: (part) => sessionsView(part, view),
  };
  return (part) => DRAWN[part.part](part);
}

const textOf = (cell) => (typeof cell === "string" ? cell : cell.text ?? "");

/** Text whose words between backticks are code. */
const coded = (text) => text.split("`").map((one, place) => (place % 2 ? h("code", {}, one) : one)).filter((one) => one !== "");

/** The bar or interval of a cell: the next cell says its value. */
function pictureOf({ bar, interval, tone = "main" }) {
  const picture = (kind, ...shapes) => svg("svg", { class: `bar ${kind} ${tone}`, "aria-hidden": "true" }, ...shapes);
  const share = (value) => `${(100 * value).toFixed(2)}%`;
  if (bar !== undefined) return picture("", svg("rect", { width: share(bar), height: "100%" }));
  if (!interval) return undefined;
  const [low, value, high, first, last] = interval;
  const at = (one) => share(0.02 + 0.96 * Math.min(1, Math.max(0, (one - first) / (last - first || 1))));
  return picture("tall", ...(first <= 0 && last >= 0 ? [svg("line", { x1: at(0), x2: at(0), y1: 0, y2: "100%", class: "zero" })] : []),
    svg("line", { x1: at(low), x2: at(high), y1: "50%", y2: "50%", class: "whisker" }), svg("circle", { cx: at(value), cy: "50%", r: 4 }));
}
