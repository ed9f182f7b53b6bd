"""A page in one file: no network, nothing to build, readable on a phone, in light and in dark, without a mouse.

What may run or be loaded is bound by the page itself: its policy (CSP) allows nothing from outside and no script but
its own, by hash, so that what a model or a tool wrote could not do anything even if it came through unescaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape

from .._sanitize import clean


def page(title: str, lead: object, *sections: Markup, foot: object = "", script: str = "") -> str:
    """The whole file. `lead` is the sentence that says most; `script` is ours and is needed to read nothing."""
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = join(
        tag("header", tag("h1", title), tag("p", lead, class_="lead")),
        tag("main", *sections),
        tag("footer", tag("p", foot)) if foot else "",
        Markup(f"<script>{script}</script>") if script else "",
        between="\n",
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def section(id: str, heading: str, *content: object) -> Markup:
    """A part of the page under a heading of its own; empty if it has no content."""
    if not any(content):
        return Markup()
    return tag("section", tag("h2", heading, id=f"{id}-h"), *content, id=id, aria_labelledby=f"{id}-h")


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], *, figures: Iterable[int] = ()
) -> Markup:
    """A table with a caption; the first cell of a row is its head. Cells of the columns in `figures` stand right.

    Where it is wider than a phone it can be moved sideways, with the keyboard too.
    """
    right = frozenset(figures)

    def cell(name: str, number: int, content: object, **more: object) -> Markup:
        return tag(name, content, class_="n" if number in right else None, **more)

    lines = [
        tag("tr", *(cell("td", n, one) if n else cell("th", n, one, scope="row") for n, one in enumerate(row)))
        for row in rows
    ]
    if not lines:
        return Markup()
    top = tag(
        "tr", *(cell("th", n, one, scope="col") if text(one) else tag("td") for n, one in enumerate(head))
    )  # nothing is no head
    whole = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *lines))
    return tag("div", whole, class_="wide", role="group", tabindex="0", aria_label=caption)


def figure(picture: Markup, caption: str, data: Markup | str = "") -> Markup:
    """A plot under its caption, and its figures as a table for whoever wants them."""
    if not picture:
        return Markup()
    below = tag("details", tag("summary", "as a table"), data) if data else ""
    return tag("figure", tag("figcaption", caption), picture, below)


def tiles(figures: Iterable[tuple[str, object, object]]) -> Markup:
    """Figures at a glance: what it is, the figure, and a few words more."""
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("small", more) if text(more) else ""))
            for name, value, more in figures
        ),
        class_="tiles",
    )


def bullets(items: Iterable[object], class_: str | None = None) -> Markup:
    """A list; empty if it has no items."""
    lines = [tag("li", item) for item in items]
    return tag("ul", *lines, class_=class_) if lines else Markup()


# HTML and SVG as text, with everything escaped that is not markup already.

VOID = frozenset({"br", "link", "meta"})
"""Elements that have no content and no end."""


class Markup(str):
    """Text that is markup: it is never escaped again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as markup: what is markup stays, all else is cleaned of control characters and escaped."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(clean(str(value)), quote=True))


def foreign(value: str) -> Markup:
    """Text that a model, a tool or a user wrote: whatever its direction of writing, it stays within itself."""
    return tag("bdi", value)


def join(*parts: object, between: str = "") -> Markup:
    """The parts one after the other."""
    return Markup(between.join(map(text, parts)))


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element. `class_` is `class`, `_` is `-`; an attribute that is None is left out, one that is True is bare."""
    given = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            given.append(f" {key}")
        elif value is not None and value is not False:
            given.append(f' {key}="{text(value)}"')
    opening = f"<{name}{''.join(given)}>"
    if name in VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(*content)}</{name}>")


# How pages look: one sheet, with the colours of light and dark in one table each.
#
# The tones are told apart by people who see colours otherwise (after Okabe and Ito, Color Universal Design, 2008),
# each stands out from the page at 3 to 1 and from the words on it at 4.5 to 1 (WCAG 2.2, 1.4.3 and 1.4.11), which a
# test holds; and nothing is said by colour alone.

LIGHT = {
    "page": "#ffffff",
    "raised": "#f5f7f9",
    "ink": "#1d2730",
    "faint": "#55626f",
    "line": "#d5dce2",
    "on": "#ffffff",
    "main": "#2f6da8",
    "good": "#1a7558",
    "warn": "#8f5c08",
    "bad": "#b5382a",
    "loop": "#7d4c97",
    "quiet": "#66727f",
}
DARK = {
    "page": "#12171c",
    "raised": "#1b2229",
    "ink": "#e3e8ed",
    "faint": "#a2aeba",
    "line": "#35404b",
    "on": "#0d1115",
    "main": "#74ade0",
    "good": "#4fc09a",
    "warn": "#e0ac50",
    "bad": "#f0887a",
    "loop": "#c3a0d8",
    "quiet": "#93a0ad",
}
"""page: behind everything. raised: behind tiles. ink and faint: words. line: rules. on: words on a tone. The others are
the tones of marks: main (the usual), good, warn, bad, loop (what the loop said), quiet (of no weight)."""
TONES = ("main", "good", "warn", "bad", "loop", "quiet")


def _colours(table: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in table.items())


STYLE = (
    f":root{{color-scheme:light dark;{_colours(LIGHT)}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_colours(DARK)}}}}}"
    + "".join(f".{tone}{{--tone:var(--{tone})}}" for tone in TONES)
    + """
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1rem 4rem;max-width:62rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.25rem 0 .25rem}
p{margin:.5rem 0;max-width:44rem}
.lead{font-size:1.15rem}
.faint,footer,figcaption,caption,small{color:var(--faint)}
small,.faint,footer,figcaption,caption{font-size:.875rem}
a{color:var(--main)}
:focus-visible{outline:3px solid var(--main);outline-offset:2px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.5rem;margin:1rem 0}
@media(min-width:44rem){.tiles{grid-template-columns:repeat(4,1fr)}}
.tiles div{background:var(--raised);border-radius:.4rem;padding:.6rem .75rem}
.tiles dt{font-size:.875rem;color:var(--faint)}
.tiles dd{margin:0}
.tiles strong{display:block;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:.75rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;min-width:min(100%,24rem);
overflow-wrap:normal}
caption{text-align:left;padding-bottom:.25rem;position:sticky;left:0;max-width:calc(100vw - 2rem)}
th,td{padding:.25rem .9rem .25rem 0;text-align:left;vertical-align:top;font-weight:400}
thead th,thead td{color:var(--faint);font-size:.8rem;border-bottom:1px solid var(--line);vertical-align:bottom}
tbody th{overflow-wrap:break-word;min-width:6.5rem;max-width:11rem}
@media(min-width:44rem){tbody th{min-width:9rem;max-width:24rem}}
.n{text-align:right;white-space:nowrap}
td:has(>svg.bar){width:30%;min-width:5.5rem}
svg.bar{display:block;width:100%;height:.75rem;margin-top:.3rem}
svg.tall{height:1.1rem;margin-top:.1rem}
figure{margin:1rem 0}
figcaption{margin-bottom:.25rem}
svg.plot{display:block;width:100%;max-width:44rem;overflow:visible}
svg text{font-size:12px;fill:var(--faint);font-family:inherit}
svg .strong{fill:var(--ink)}
svg .name{fill:var(--tone);font-weight:600;paint-order:stroke;stroke:var(--page);stroke-width:4px}
svg rect,svg circle{fill:var(--tone)}
.grid{stroke:var(--line)}
.zero,.tick{stroke:var(--faint)}
.at{overflow:visible}
.open{fill:var(--page);stroke:var(--tone);stroke-width:2}
.bound{stroke-dasharray:5 4}
.flag{stroke:var(--ink);stroke-dasharray:3 3}
.whisker{stroke:var(--tone);stroke-width:2.5}
.curve{fill:none;stroke:var(--tone);stroke-width:2;vector-effect:non-scaling-stroke}
.band{fill:var(--tone);opacity:.18}
details>summary{cursor:pointer}
.advice{padding:0;list-style:none}
.advice li{border-left:4px solid var(--tone,var(--warn));padding:.1rem 0 .1rem .75rem;margin:.75rem 0}
.advice p{margin:0}
code{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.92em}
"""
    + """
.key,.cells{display:flex;flex-wrap:wrap;gap:3px;list-style:none;padding:0;margin:.5rem 0}
.key li{display:flex;align-items:center;gap:.35rem;margin-right:.9rem;font-size:.875rem}
.cell{display:inline-flex;align-items:center;justify-content:center;flex:none;width:1.25rem;height:1.25rem;
border-radius:3px;background:var(--tone);color:var(--on);font:600 .75rem/1 system-ui,sans-serif}
.said{width:auto;background:none;color:var(--loop);font-size:.8rem}
.after{background:repeating-linear-gradient(135deg,var(--tone) 0 3px,transparent 3px 6px);color:transparent;
box-shadow:inset 0 0 0 1.5px var(--tone)}
.repeated{border-radius:50%}
.flagged{outline:2px solid var(--ink);outline-offset:1px;margin:0 3px}
.session{border-bottom:1px solid var(--line)}
.session>summary{padding:.6rem 0;display:grid;grid-template-columns:1.1rem 1fr;column-gap:.25rem}
.session>summary::before{content:"\\25B8";color:var(--faint)}
.session[open]>summary::before{content:"\\25BE"}
.session>summary::-webkit-details-marker{display:none}
.session>summary>*{grid-column:2}
.session>summary>.who{grid-row:1}
.session>summary h3{display:inline;margin:0;font-size:.95rem;font-weight:600}
.why{color:var(--bad);font-size:.875rem}
.known{font-size:.875rem;font-weight:600}.known.good{color:var(--good)}.known.main{color:var(--main)}
.known.warn{color:var(--warn)}.known.bad{color:var(--bad)}.known.quiet{color:var(--faint);font-weight:400}
.strip{display:block;height:.5rem;border-radius:2px;margin:.3rem 0;min-width:4px}
.inside{padding:0 0 1rem 1.35rem}
.inside td,.inside th{font-size:.85rem;padding-block:.15rem}
.inside tbody th{min-width:3rem}
.inside td:not(.n){min-width:9rem}
@media(max-width:30rem){.inside{padding-left:0}.inside td:not(.n){min-width:8rem}.inside tbody th{min-width:2rem}}
.find{display:flex;flex-wrap:wrap;gap:.75rem;align-items:end;margin:.75rem 0}
.find label{font-size:.875rem;color:var(--faint);display:grid;gap:.15rem}
.find input,.find select,button{font:inherit;font-size:.95rem;color:var(--ink);background:var(--raised);
border:1px solid var(--quiet);border-radius:.3rem;padding:.35rem .5rem;min-height:2.5rem;max-width:100%}
[hidden]{display:none!important}
@media(forced-colors:active){.cell,.strip,svg.bar rect{forced-color-adjust:none}}
@media print{details:not([open])>*:not(summary){display:none}.find{display:none}}
"""
)
