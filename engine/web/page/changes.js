// The files that a session changed, each with its changes in order; and those that it perhaps changed.
import { hashOf } from "./address.js";
import { editAt, editView } from "./edits.js";
import { h, whenSeen } from "./dom.js";
import { callsOf } from "./model.js";
import { counted, gist, oneLine } from "./text.js";

/** Files that are open from the start; the diffs of the others are made when they are opened. */
const OPEN = 12;

export function changesView(root, id) {
  return (state) => {
    const calls = callsOf(state);
    const many = state.runs.length > 1;
    const opened = new Map([...root.querySelectorAll("details[data-path]")].map((one) => [one.dataset.path, one.open]));
    const changed = new Map();
    for (const one of calls) for (const edit of one.call.judged?.edits ?? []) changed.set(edit.path, [...(changed.get(edit.path) ?? []), { ...one, edit }]);
    const files = [...changed].map(([path, edits], place) => h("li", {}, fileView(path, edits, id, many, opened.get(path) ?? place < OPEN)));
    root.replaceChildren(
      h("h3", { id: "files-changed" }, "Files changed"),
      files.length ? h("ul", { class: "files", "aria-labelledby": "files-changed" }, ...files) : h("p", { class: "faint" }, "No call is known to have changed a file."),
      ...perhaps(calls, id, many, new Set(changed.keys())),
    );
  };
}

const stepLink = ({ run, call }, id, many) => {
  const step = call.inside?.number;
  const words = `${many ? `Run ${run.place + 1}, step` : "Step"} ${step}`;
  return step === undefined ? h("span", {}, "After the last step") : h("a", { href: hashOf({ id, run: run.place + 1, step, call: call.id }) }, words);
};

function fileView(path, edits, id, many, open) {
  const body = h("div");
  const node = h("details", { "data-path": path, open, ontoggle: fill },
    h("summary", {}, h("code", {}, path), h("span", { class: "faint" }, ` ${counted(edits.length, "change")}`)), body);
  function fill() {
    if (!node.open || body.firstChild) return;
    body.append(...edits.map((one) => {
      const shown = editAt(one.call.args, one.edit);
      const place = h("div");
      if (shown) whenSeen(place, () => place.replaceChildren(editView(shown, true)));
      else place.append(h("pre", {}, gist(one.call.args, 4000)));
      return h("div", { class: "change" }, h("p", {}, stepLink(one, id, many), h("span", { class: "faint" }, ` by `), h("code", {}, one.call.name)), place);
    }));
  }
  fill();
  return node;
}

/** Programs that ran: the files that they name, and those whose effect is not known. */
function perhaps(calls, id, many, certain) {
  const named = calls.flatMap((one) => (one.call.judged?.perhaps ?? []).filter((path) => !certain.has(path)).map((path) => ({ ...one, path })));
  const silent = calls.filter(({ call }) => call.judged?.effect === "unknown" && call.end !== "failed" && !call.judged.perhaps?.length);
  if (!named.length && !silent.length) return [];
  const by = (one) => [h("code", {}, oneLine(gist(one.call.args, 200), 100) || one.call.name), ", ", stepLink(one, id, many)];
  const rest = h("details", {}, h("summary", {}, `${counted(silent.length, "program")} ran of which no effect on files is known`),
    h("ul", {}, ...silent.slice(0, 500).map((one) => h("li", {}, ...by(one)))));
  return [
    h("h3", { id: "perhaps-changed" }, "Perhaps changed"),
    h("p", { class: "faint" }, "A program ran, and what it did to files is not certain."),
    h("ul", { "aria-labelledby": "perhaps-changed" }, ...named.map((one) => h("li", {}, h("code", {}, one.path), ", by ", ...by(one))), ...(silent.length ? [h("li", {}, rest)] : [])),
  ];
}
