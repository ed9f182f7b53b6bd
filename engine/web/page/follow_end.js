// The timeline follows its end for as long as the reader is there.
import { $ } from "./dom.js";

/** `moving()`: whether something else scrolls now. */
export function followEnd(scroll, root, moving) {
  let stuck = true;
  let top = 0;

  function stick() {
    if (stuck) scroll.scrollTop = scroll.scrollHeight;
    top = scroll.scrollTop; // at once: the reader may scroll before the event of this comes
    tell();
  }

  const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 40;

  function scrolled() {
    if (scroll.scrollTop > top) stuck ||= atEnd() && !moving(); // what becomes shorter scrolls, too, but upwards
    else if (scroll.scrollTop < top && !atEnd()) stuck = false;
    top = scroll.scrollTop;
    tell();
  }

  function tell() {
    $("to-end").hidden = stuck || atEnd();
    scroll.classList.toggle("left", !stuck);
  }

  const watch = new ResizeObserver(stick);
  watch.observe(root);
  watch.observe(scroll);
  scroll.onscroll = scrolled;

  return {
    /** Follow the end from the next change of size on. */
    follow() {
      stuck = true;
    },
    /** Stay where the reader is. */
    leave() {
      stuck = false;
      tell();
    },
    /** To the end, now. */
    go() {
      stuck = true;
      stick();
    },
    close: () => watch.disconnect(),
  };
}
