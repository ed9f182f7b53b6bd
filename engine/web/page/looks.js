// Where nothing happened: steps in a row that only looked at one file.
import { h } from "./dom.js";
import { clean } from "./text.js";
import { isFailure } from "./words.js";

/** Steps in a row that only looked at one file, and become one line. */
const LOOKS = 3;

/** So many steps in a row that only looked at one file become one line that opens. */
export function foldLooks(body) {
  let group = null;
  for (const node of [...body.children]) {
    if (node.matches(".looks")) {
      group = node.querySelector(".step") ? { file: node.dataset.look, fold: node } : (node.remove(), null);
      continue;
    }
    const file = node.dataset.look;
    if (!file || group?.file !== file) {
      group = file ? { file, nodes: [node] } : null;
      continue;
    }
    if (!group.fold && group.nodes.push(node) < LOOKS) continue;
    if (!group.fold) {
      group.fold = h("details", { class: "looks", "data-look": file }, h("summary"));
      group.nodes[0].before(group.fold);
      group.fold.append(...group.nodes);
    }
    group.fold.append(node);
    const steps = [...group.fold.querySelectorAll(".step")].map((one) => one.dataset.step);
    group.fold.firstChild.replaceChildren(`Steps ${steps[0]} to ${steps.at(-1)}: ${steps.length} looks at `, h("code", {}, file));
  }
}

/** The one file that all calls of a finished step looked at; "" where it did anything else. */
export function lookOf({ done, parts }) {
  const calls = parts.filter(({ kind }) => kind === "call");
  const file = calls[0]?.judged?.looked_at;
  const only = parts.every((part) => !part.void && ["text", "reasoning", "call"].includes(part.kind));
  return done && only && file && calls.every((call) => call.judged?.looked_at === file && !isFailure(call.end)) ? clean(file) : "";
}
