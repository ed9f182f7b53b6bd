// The views of a session: tabs over one panel each. The address names the one that is shown.
import { setPlace, VIEWS } from "./address.js";
import { $, h, put } from "./dom.js";
import { callsOf } from "./model.js";
import { number } from "./text.js";
import { isFailure } from "./words.js";

/** What makes each view; it comes when a reader first asks for it. */
const MADE = {
  changes: () => import("./changes.js").then((made) => made.changesView),
  calls: () => import("./calls.js").then((made) => made.callsView),
  requests: () => import("./requests.js").then((made) => made.requestsView),
  decisions: () => import("./decisions.js").then((made) => made.decisionsView),
};

/** Tabs for session `id`, whose views scroll in `scroll`. `leave()` is called when a reader chooses one. */
export function tabs(id, scroll, leave) {
  const bar = $("tabs");
  let chosen = VIEWS[0];
  const drawn = {};
  let closed = false;
  let state = null;
  const made = VIEWS.map((view) => h("button", {
    role: "tab", id: `tab-${view}`, "aria-controls": `panel-${view}`, onclick: () => choose(view),
  }, view[0].toUpperCase() + view.slice(1)));
  bar.replaceChildren(...made);
  bar.hidden = false;
  bar.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = made[(VIEWS.indexOf(chosen) + step + made.length) % made.length];
    next.click();
    next.focus();
  };

  async function draw() {
    const view = chosen;
    if (!MADE[view] || !state) return;
    const make = await MADE[view]();
    if (closed || chosen !== view || drawn[view] === state.stamp) return;
    const panel = $(`panel-${view}`);
    panel.view ??= make(panel, id);
    panel.view(state);
    drawn[view] = state.stamp;
  }

  function show(view) {
    chosen = view;
    for (const [place, name] of VIEWS.entries()) {
      made[place].ariaSelected = name === view;
      made[place].tabIndex = name === view ? 0 : -1;
      $(`panel-${name}`).hidden = name !== view;
    }
    draw();
  }
  show(chosen);

  /** Show a view, and let the address say so. */
  function choose(view) {
    leave();
    show(view);
    setPlace(view === VIEWS[0] ? { id } : { id, view });
    scroll.scrollTop = Math.min(scroll.scrollTop, bar.offsetTop);
  }

  return {
    show, choose,
    /** Bring the names of the tabs, and the view that is shown, up to date. */
    update(now) {
      state = now;
      const calls = callsOf(now);
      const files = new Set(calls.flatMap(({ call }) => call.judged?.files ?? []));
      put($("tab-changes"), `Changes ${number(files.size)}`);
      put($("tab-calls"), `Calls ${number(calls.length)} (${number(calls.filter(({ call }) => isFailure(call.end)).length)} failed)`);
      draw();
    },
    close() {
      bar.replaceChildren();
      bar.hidden = true;
      for (const view of VIEWS.slice(1)) {
        $(`panel-${view}`).replaceChildren();
        delete $(`panel-${view}`).view;
      }
      for (const view of VIEWS) $(`panel-${view}`).hidden = view !== VIEWS[0];
      closed = true;
    },
  };
}
