// Text that a model wrote: plain while it comes, and as Markdown once it is whole and in view.
import { copyButton, recordedButton } from "./copy.js";
import { h, whenSeen, Writer } from "./dom.js";

/** Characters above which a text stays plain. */
const LONGEST = 200_000;
const MARKS = /^(?:diff --git |@@ -\d|\*\*\* Begin Patch)|^ {0,3}(?:#{1,6} |[-*+] |\d{1,9}[.)] |>|```|~~~|\|)|\*\*\S|__\S|`[^`\n]+`|\]\(|https?:\/\/|^\S.*\n(?:===|---)/m;

/** `show(text, done)` brings `node` up to date; `what` says what it is, for the button that copies it. */
export function prose(name, what) {
  const body = h("blockquote", { class: `${name} words` });
  const tools = h("div", { class: "tools" });
  const node = h("div", { class: "block" }, body, tools);
  let writer = new Writer(body);
  let [text, whole] = ["", false];

  function plain() {
    if (tools.firstChild) tools.replaceChildren();
    if (!body.classList.contains("markdown")) return;
    body.className = `${name} words`;
    body.replaceChildren();
    writer = new Writer(body);
  }

  async function dress() {
    if (!whole || tools.firstChild || !text.trim()) return;
    tools.append(copyButton(what, () => text));
    if (!MARKS.test(text)) return;
    if (text.length > LONGEST) return tools.prepend(h("small", {}, "Plain: too long to format"));
    const asked = text;
    const { markdown } = await import("./markdown.js");
    const { codeBlock, diffParts } = await import("./code.js");
    const made = await Promise.all(diffParts(asked).map(({ text: part, diff }) => (diff ? [codeBlock(part, "diff")] : markdown(part))));
    const nodes = made.includes(null) ? null : made.flat();
    if (!nodes || !whole || text !== asked || tools.childElementCount > 1) return;
    const formatted = () => {
      body.className = `${name} markdown`;
      body.replaceChildren(...nodes);
    };
    formatted();
    tools.prepend(recordedButton((recorded) => {
      if (!recorded) return formatted();
      body.className = `${name} words`;
      body.replaceChildren();
      new Writer(body).show(asked);
    }));
  }

  return {
    node,
    show(now, done) {
      if (now === text && done === whole) return;
      plain();
      [text, whole] = [now, done];
      writer.show(text);
      if (done) whenSeen(node, dress);
    },
  };
}
