// A report: the document that this page holds (engine/http/document_page.py), drawn part by part.
import { $, h, put } from "../dom.js";
import { held } from "../embedded.js";
import { partViews } from "./parts.js";

const page = held("report");
const draw = partViews(page.view);

$("about").append(h("h1", {}, page.title), h("p", { class: "lead" }, page.lead));
$("document").append(...page.parts.flatMap(draw), ...page.sections.map((one) => h("section", { id: one.id, "aria-labelledby": `${one.id}-h` },
  h("h2", { id: `${one.id}-h` }, one.title), ...one.parts.flatMap(draw))));
put($("foot"), page.foot);
document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView(); // what it names is there only now
