// The list of messages that were sent and that the running agent has not taken yet.
import { $, h } from "./dom.js";

export function unheardMessages() {
  const unheard = [];

  function show() {
    $("unheard").replaceChildren(...unheard.map(({ text }) => h("li", {}, h("strong", {}, "Waits until the next step: "), text)));
  }

  return {
    show,
    add(id, text) {
      unheard.push({ id, text });
      show();
    },
    /** Drop a message that the session now has. */
    forget({ message_id: message, text }) {
      const place = unheard.findIndex((one) => (message ? one.id === message : one.text === text));
      if (place >= 0) unheard.splice(place, 1);
      show();
    },
  };
}
