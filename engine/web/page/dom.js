// Elements, and nothing but text in them: no string ever becomes markup.
import { clean } from "./text.js";

export const $ = (id) => document.getElementById(id);

/** An element: attributes, `on...` listeners, and children: elements, or strings, which are cleaned. */
export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, clean(String(value)));
  }
  element.append(...children.filter((child) => child != null).map((c) => (typeof c === "string" ? clean(c) : c)));
  return element;
}

/** The same for a picture. */
export function svg(tag, given, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A sign next to words that say the same. */
export const signed = (sign, more = "") => h("span", { class: `sign${more}`, "aria-hidden": "true" }, sign);

/** Set text only where it differs: nothing is laid out or read aloud again. */
export function put(element, text) {
  const shown = clean(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const BLOCK = 4000;

/** Text that grows, in blocks: a long one is not laid out again for each piece. */
export class Writer {
  constructor(element) {
    this.element = element;
    this.length = 0;
    this.block = null;
  }

  show(text) {
    if (text.length < this.length) {
      this.element.replaceChildren();
      this.length = 0;
      this.block = null;
    }
    for (let rest = text.slice(this.length); rest; ) {
      if (!this.block) this.element.append(h("div", {}, (this.block = document.createTextNode(""))));
      const end = this.block.length < BLOCK ? BLOCK : rest.indexOf("\n") + 1 || rest.length;
      const piece = rest.slice(0, end);
      this.block.appendData(clean(piece));
      if (this.block.length >= BLOCK && piece.endsWith("\n")) {
        this.block.data = this.block.data.slice(0, -1);
        this.block = null;
      }
      rest = rest.slice(end);
    }
    this.length = text.length;
  }
}

/** Nodes for the items of a list, by place; the stamp says whether one changed. */
export class Children {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.shown = [];
  }

  show(items) {
    while (this.shown.length > items.length) this.shown.pop().node.remove();
    items.forEach((item, place) => {
      let one = this.shown[place];
      if (one && one.stamp === item.stamp) return;
      if (!one) {
        one = this.make(item);
        this.parent.append(one.node);
        this.shown.push(one);
      }
      one.update?.(item);
      one.stamp = item.stamp;
    });
  }
}

/** Milliseconds that something has to stay in view: what only passes by, while a session loads, is left as it is. */
const STAY = 100;
const unseen = new WeakMap();
const inView = new Set();
let looking = 0;
const near = { rootMargin: "300px", scrollMargin: "300px" };
const sight = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
  }
  clearTimeout(looking);
  looking = setTimeout(look, STAY);
}, near);

function look() {
  for (const node of inView) {
    sight.unobserve(node);
    const work = unseen.get(node);
    unseen.delete(node);
    if (node.isConnected) work?.();
  }
  inView.clear();
}

/** Do this once the node is in view or nearly so; a later call for the same node takes the place of an earlier one. */
export function whenSeen(node, work) {
  unseen.set(node, work);
  inView.delete(node);
  sight.unobserve(node);
  sight.observe(node);
}
