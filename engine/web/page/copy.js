// Small buttons next to a text: copy it, save it, show it another way.
import { $, h, put } from "./dom.js";
import { clean } from "./text.js";

export const tool = (words, onclick, given = {}) => h("button", { type: "button", class: "tool", onclick, ...given }, words);

/** Copies what `text()` returns, as it is shown: nothing in it is obeyed where it is pasted. */
export function copyButton(what, text) {
  let back = 0;
  const button = tool("Copy", async () => {
    const done = await copy(clean(text()));
    put(button, done ? "Copied" : "Not copied");
    put($("said"), done ? `Copied ${what}` : `The browser does not allow copying ${what}: select it`);
    clearTimeout(back);
    back = setTimeout(() => put(button, "Copy"), 2000);
  }, { title: `Copy ${what}` });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // no clipboard: the page came over plain HTTP, or the reader refused it
  }
}

function copySelected(text) {
  const before = document.activeElement;
  const box = h("textarea", { class: "unseen", "aria-hidden": "true" });
  box.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  before?.focus({ preventScroll: true });
  return done;
}

/** Saves what `text()` returns, letter for letter. */
export function saveButton(name, text) {
  return tool("Download", () => {
    const link = h("a", { href: URL.createObjectURL(new Blob([text()], { type: "text/plain" })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, { title: `Download ${name}` });
}

/** Switches between a text that was made readable and what is recorded: `show(recorded)`. */
export function recordedButton(show) {
  const button = tool("As recorded", () => {
    const recorded = button.ariaPressed !== "true";
    button.ariaPressed = recorded;
    show(recorded);
  }, { "aria-pressed": "false", title: "The text as it is recorded" });
  return button;
}
