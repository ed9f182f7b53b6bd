// Charts as SVG, each with its values in a table. A chart is as wide as its container: places across are shares of the
// width, those down are pixels, so that text keeps its size on a phone.
import { h, svg } from "../dom.js";
import { table } from "../table.js";
import { number } from "../text.js";

const HEIGHT = 230;
const [TOP, FOOT] = [46, HEIGHT - 40];
const [LEFT, RIGHT] = [11, 98];
/** Labels across: a phone has no room for more names, or for more numbers. */
const [NAMES, NUMBERS] = [7, 13];
/** Columns for which a histogram has room at least: one alone would fill the whole plot. */
const COLUMNS = 8;
/** Lines are told apart by dashes and by the shape of their points, not by colour alone. */
const DASHES = ["", "7 4", "2 4", "9 3 2 3"];
const SHAPES = ["M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z", "M-4 -4H4V4H-4Z", "M0 -5L5 0L0 5L-5 0Z", "M-4 4H4L0 -4Z"];
/** A lower bound is an open triangle that points to where the value may be. */
const BOUND = "M-5 3.5L5 3.5L0 -6Z";

const scale = (low, high, first, last) => (value) => first + ((value - low) / (high - low || 1)) * (last - first);
const share = (value) => `${value.toFixed(2)}%`;

/** Round numbers in even steps that cover `low` to `high`; whole ones with `whole`. */
export function ticks(low, high, whole = false) {
  const top = high > low ? high : low + 1;
  const raw = (top - low) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  if (whole) step = Math.max(1, Math.ceil(step));
  const first = Math.floor(low / step + 1e-9);
  return Array.from({ length: Math.ceil(top / step - 1e-9) - first + 1 }, (_, place) => Number(((first + place) * step).toFixed(10)));
}

const text = (x, y, words, anchor, kind) => svg("text", { x: share(x), y, "text-anchor": anchor, ...(kind && { class: kind }) }, words);
const line = (x1, x2, y1, y2, kind) => svg("line", { x1: share(x1), x2: share(x2), y1, y2, class: kind });

/** Lines at the ticks of the upright axis, with their values, and the names of both axes. */
function grid(values, y, unit, x) {
  const after = unit === "%" ? " %" : "";
  return [...values.flatMap((one) => [line(LEFT, 100, y(one), y(one), "grid"), text(LEFT - 1.4, y(one) + 4, `${number(one)}${after}`, "end")]),
    line(LEFT, LEFT, TOP - 10, FOOT, "axis"), line(LEFT, 100, FOOT, FOOT, "axis"), text(0, 12, unit, "start"), text((LEFT + RIGHT) / 2, HEIGHT - 6, x, "middle")];
}

/** A place across that is marked, with its label in a row of its own. */
const upright = (x, label, row) => [line(x, x, 18 + row * 14, FOOT, "flag"), text(x + (x > 60 ? -0.8 : 0.8), 26 + row * 14, label, x > 60 ? "end" : "start", "strong")];

/** The chart with its caption, and its values as a table. */
function chart({ title, caption }, shapes, below, heads, rows) {
  const values = table({ caption: title, columns: heads.map((name, place) => ({ name, isFigure: place > 0, cell: (row) => h(place ? "td" : "th", place ? { class: "n" } : { scope: "row" }, row[place]) })) });
  values.show(rows);
  return h("figure", {}, h("figcaption", {}, caption),
    svg("svg", { class: "plot", height: HEIGHT, role: "img", "aria-label": `${title}. Its values are in the table below.` }, ...shapes), ...below,
    h("details", {}, h("summary", {}, "as a table"), values.node));
}

export function histogram(part) {
  const { columns, marks = [], x, y } = part;
  const values = ticks(0, Math.max(...columns.map(([, height]) => height)), true);
  const up = scale(values[0], values.at(-1), FOOT, TOP);
  const wide = (RIGHT - LEFT) / Math.max(COLUMNS, columns.length);
  const first = (LEFT + RIGHT - columns.length * wide) / 2;
  const every = Math.ceil(columns.length / NAMES);
  const bars = columns.map(([covers, height], place) => svg("rect", { x: share(first + (place + 0.06) * wide), width: share(wide * 0.88), y: up(height), height: FOOT - up(height) },
    svg("title", {}, `${covers} ${x}: ${number(height)} ${y}`)));
  const last = columns.length - 1;
  const labels = columns.map(([, , label], place) => ((place === last || (place % every === 0 && last - place >= every / 2)) ? text(first + (place + 0.5) * wide, FOOT + 16, label, "middle") : null));
  const shapes = [...grid(values, up, y, x), ...bars, ...labels.filter(Boolean), ...marks.flatMap(([at, label], row) => upright(first + at * wide, label, row))];
  return chart(part, shapes, [], [x, y], columns.map(([covers, height]) => [covers, number(height)]));
}

export function lineChart(part) {
  const { lines, categories = [], marks = [], x, unit } = part;
  const points = lines.flatMap((one) => one.points);
  if (!points.length) return [];
  const ys = points.flatMap(([, y, low, high]) => [y, low ?? y, high ?? y]);
  const values = ticks(Math.min(0, ...ys), Math.max(...ys));
  const up = scale(values[0], values.at(-1), FOOT, TOP);
  const xs = [...new Set(points.map(([one]) => one))].sort((a, b) => a - b);
  const across = scale(xs[0], xs.at(-1), LEFT + 2, RIGHT - 2);
  const name = (value) => categories[value] ?? number(value);
  const every = Math.ceil(xs.length / NAMES);
  const named = categories.length ? xs.filter((_, place) => place % every === 0) : xs.length <= NUMBERS ? xs : ticks(xs[0], xs.at(-1)).filter((one) => one >= xs[0] && one <= xs.at(-1));
  const labels = named.flatMap((one) => [line(across(one), across(one), FOOT, FOOT + 5, "axis"), text(across(one), FOOT + 18, name(one), "middle")]);
  const drawn = lines.flatMap((one, place) => lineOf(one, place, across, up, categories.length > 0));
  const key = h("ul", { class: "key" }, ...lines.map(({ name: words, tone, meaning }, place) => h("li", {}, h("span", { class: tone }, sample(place)), meaning ? `${words}: ${meaning}` : words)));
  const percent = (value) => `${number(Math.round(100 * value) / 100)} ${unit}`;
  const cell = (found) => (found ? `${found[4] ? "≥ " : ""}${percent(found[1])}${found[2] == null ? "" : ` (${number(Math.round(10 * found[2]) / 10)} to ${number(Math.round(10 * found[3]) / 10)})`}` : "–");
  const rows = xs.map((one) => [name(one), ...lines.map((each) => cell(each.points.find(([at]) => at === one)))]);
  return chart(part, [...grid(values, up, unit, x), ...drawn, ...labels, ...marks.flatMap(([at, label], row) => upright(across(at), label, row))], [key], [x, ...lines.map((one) => one.name)], rows);
}

/** A line with its band and its points. Its corners cannot be shares of the width, so it is stretched to it. */
function lineOf({ name, points, tone }, place, across, up, apart) {
  const corners = (some) => some.map(([x, y]) => `${across(x).toFixed(2)},${up(y).toFixed(1)}`).join(" ");
  const banded = !apart && points.length > 1 && points.every(([, , low]) => low != null);
  const shapes = [
    ...(banded ? [svg("polygon", { class: "band", points: corners([...points.map(([x, , , high]) => [x, high]), ...points.map(([x, , low]) => [x, low]).reverse()]) })] : []),
    ...(apart ? [] : [svg("polyline", { class: "curve", points: corners(points), "stroke-dasharray": DASHES[place % DASHES.length] })]),
  ];
  const dots = points.map(([x, y, , , bound, words]) => svg("svg", { x: share(across(x)), y: up(y), class: `at ${tone}` },
    svg("path", { d: bound ? BOUND : SHAPES[place % SHAPES.length], class: bound ? "open" : "dot" }, svg("title", {}, words || `${name}: ${number(x)}, ${bound ? "at least " : ""}${number(Math.round(10 * y) / 10)}`))));
  return [svg("svg", { class: tone, viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: HEIGHT }, ...shapes), ...dots];
}

/** A piece of a line, for the key. */
const sample = (place) => svg("svg", { width: 36, height: 12, "aria-hidden": "true" },
  svg("line", { x1: 0, x2: 36, y1: 6, y2: 6, class: "curve", "stroke-dasharray": DASHES[place % DASHES.length] }), svg("svg", { x: 18, y: 6, class: "at" }, svg("path", { d: SHAPES[place % SHAPES.length], class: "dot" })));
