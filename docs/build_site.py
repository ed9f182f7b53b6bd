"""Builds the documentation site: `make site` writes it into `build/site`.

    python docs/build_site.py           # needs the extra `docs`, and no network

The pages in `docs/` are written for a code host: links to files of the project work there. `pages` copies them and
changes what a site needs otherwise: files outside `docs/` become pages or plain names, examples become pages, and each
public package gets a page for its docstrings. `broken` then reads the site that was built: a link or an anchor that
leads nowhere, or anything that a browser would load from another host, is an error.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from api_names import PACKAGES, own_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
COPIES = BUILD / "pages"
SITE = BUILD / "site"
MOVED = {"docs/README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages that have another name in the site, from the top of the project."""
CODE = r"^```.*?^```$|`[^`\n]+`"
LINK = r"(?P<before>!?\[(?P<text>[^\]\n]*(?:\n[^\]\n]+)?)\]\()(?P<target>[^)\s]+)\)"
CODE_OR_LINK = re.compile(f"{CODE}|{LINK}", re.DOTALL | re.MULTILINE)


def pages() -> dict[str, str]:
    """The text of each page of the site, by its path there."""
    found = {_place(path): _page(path) for path in _sources()}
    found |= {f"examples/{path.stem}.md": _example(path) for path in _examples()}
    found |= {f"reference/api/{package}.md": _package(package) for package in PACKAGES}
    found["examples/index.md"] = _list("Examples", "examples", found)
    found["decisions/index.md"] = _list("Decisions", "decisions", found)
    found["reference/api.md"] = _linked_names(found["reference/api.md"])
    return found


def navigation(entries: list[object], found: dict[str, str]) -> list[object]:
    """The navigation with each folder (`decisions/`) replaced by its pages."""
    whole: list[object] = []
    for entry in entries:
        match entry:
            case {**one} if len(one) == 1:
                ((title, inside),) = one.items()
                if isinstance(inside, list):
                    whole.append({title: navigation(inside, found)})
                elif str(inside).endswith("/"):
                    whole.append({title: _folder(str(inside), found)})
                else:
                    whole.append(one)
            case _:
                whole.append(entry)
    return whole


def llms_text(entries: list[object], found: dict[str, str]) -> str:
    """Return the pages of the navigation as `llms.txt` lists them: https://llmstxt.org (2024-09-03)."""
    about = yaml.safe_load(configuration()[0])
    lines = [f"# {about['site_name']}", "", f"> {about['site_description']}"]
    for section in navigation(entries, found):
        assert isinstance(section, dict)
        ((title, inside),) = section.items()
        lines += ["", f"## {title}", "", *_llms_lines(inside, found)]
    return "\n".join(lines) + "\n"


def _llms_lines(inside: object, found: dict[str, str]) -> Iterator[str]:
    """Yield a line with heading, address and first sentence for each page."""
    match inside:
        case str():
            prose = re.sub(r"(?ms)^```.*?^```$|^!\[[^\n]*$", "", found[inside])
            text = CODE_OR_LINK.sub(lambda link: link["text"] or link[0], prose)
            paragraphs = (part for part in text.split("\n\n")[1:] if re.match(r"[A-Za-z`]", part))
            sentence = re.split(r"(?<=\.)\s", " ".join(next(paragraphs, "").split()))[0].rstrip(":")
            yield f"- [{_heading(found[inside])}]({Path(inside).with_suffix('.html')}): {sentence}".removesuffix(": ")
        case list():
            for one in inside:
                yield from _llms_lines(one, found)
        case dict():
            for one in inside.values():
                yield from _llms_lines(one, found)


def build() -> None:
    """Write the site anew. Raises SystemExit if the generator finds something wrong."""
    shutil.rmtree(COPIES, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    found = pages()
    for name, text in found.items():
        path = COPIES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "pictures", COPIES / "pictures")
    shutil.copyfile(DOCS / "site.css", COPIES / "site.css")
    head, nav, tail = configuration()
    (COPIES / "llms.txt").write_text(llms_text(nav, found), encoding="utf-8")
    listed = yaml.safe_dump({"nav": navigation(nav, found)}, sort_keys=False, allow_unicode=True)
    (BUILD / "mkdocs.yml").write_text(head + listed + tail, encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    command = [zensical, "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if built.returncode:
        raise SystemExit(re.sub(r"\x1b\[[\d;]*m", "", built.stdout + built.stderr))


def broken(site: Path = SITE) -> Iterator[str]:
    """What leads nowhere in a built site, and what a browser would load from another host."""
    read = {path: _Read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    for path, page in read.items():
        name = path.relative_to(site).as_posix()
        yield from (f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc)
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].anchors:
                yield f"{name}: {link} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        for url in re.findall(r"url\(\s*['\"]?([^'\")]+)", path.read_text(encoding="utf-8")):
            if urlsplit(url).netloc:
                yield f"{path.relative_to(site).as_posix()}: loads {url}"


class _Read(HTMLParser):
    """The links, the loaded files and the anchors of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {"", "__top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag names."""
        named = {key: value or "" for key, value in attrs}
        self.anchors |= {named[key] for key in ("id", "name") if key in named}
        match tag:
            case "a" if "href" in named:
                self.links.append(named["href"])
            case "link" if named.get("rel") not in ("canonical", "next", "prev"):
                self.loads.append(named.get("href", ""))
            case "script" | "img" | "iframe" | "source" | "video" if named.get("src"):
                self.loads.append(named["src"])


def _sources() -> list[Path]:
    """The pages of the project that are pages of the site."""
    inside = [path for path in sorted(DOCS.rglob("*.md")) if path != DOCS / "README.md"]
    return [ROOT / name for name in MOVED] + inside


def _examples() -> list[Path]:
    return sorted((DOCS / "examples").glob("*.py"))


def _place(path: Path) -> str:
    """Where a page of the project stands in the site."""
    name = path.relative_to(ROOT).as_posix()
    return MOVED.get(name, name.removeprefix("docs/"))


def _page(path: Path) -> str:
    return site_links(path.read_text(encoding="utf-8"), path.parent, Path(_place(path)).parent)


def site_links(text: str, folder: Path, here: Path) -> str:
    """A text of a page in `folder` with its links as the site needs them, where it stands in `here`.

    A link to a file that is no page of the site becomes the file's name. Code stays as it is. Only the backslash before
    a pipe goes, which a code host needs in a table, and which the site's Markdown would show.
    """

    def anew(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None:
            return found[0] if found[0].startswith("```") else found[0].replace("\\|", "|")
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        name, _, anchor = target.partition("#")
        file = (folder / name).resolve()
        if (place := _target(file)) is None:
            return found["text"] if "`" in found["text"] else f"`{file.relative_to(ROOT).as_posix()}`"
        link = relpath(place, here)
        return f"{found['before']}{link}{'#' + anchor if anchor else ''})"

    return CODE_OR_LINK.sub(anew, text)


def _target(file: Path) -> str | None:
    """Where a file of the project stands in the site; None if it is no part of it."""
    name = file.relative_to(ROOT).as_posix()
    if file.parent == DOCS / "examples" and file.suffix == ".py":
        return f"examples/{file.stem}.md"
    if name in ("docs/decisions", "docs/examples"):
        return f"{file.name}/index.md"
    inside = name in MOVED or (name.startswith("docs/") and (file.suffix == ".md" or "docs/pictures/" in name))
    return _place(file) if inside else None


def _example(path: Path) -> str:
    """A page that shows a program, under the first sentence of its docstring."""
    source = path.read_text(encoding="utf-8")
    about = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0]
    return f"# {path.name}\n\n{' '.join(about.split())}\n\n```python\n{source.rstrip()}\n```\n"


def _package(package: str) -> str:
    """A page with the docstrings of a package's public names."""
    names = "\n\n".join(f"::: {name.path}" for name in own_names(package))
    return f"# {package}\n\n{PACKAGES[package]}\n\n{names}\n"


def _list(title: str, folder: str, found: dict[str, str]) -> str:
    """The page at the front of a folder: a link to each of its pages, by its heading."""
    names = sorted(name for name in found if name.startswith(f"{folder}/"))
    rows = [f"- [{_heading(found[name])}]({Path(name).name})" for name in names]
    return f"# {title}\n\n" + "\n".join(rows) + "\n"


def _folder(folder: str, found: dict[str, str]) -> list[object]:
    """The pages of a folder, after its front page: its `index.md`, or the page beside it that has its name."""
    fronts = [name for name in (f"{folder}index.md", f"{folder.removesuffix('/')}.md") if name in found]
    names = [name for name in found if name.startswith(folder) and name not in fronts]
    return [*fronts, *({_heading(found[name]): name} for name in names)]


def _heading(text: str) -> str:
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def _linked_names(page: str) -> str:
    """The page of all public names, each with a link to its docstring."""
    parts = re.split(r"^## `(.+)`$", page, flags=re.MULTILINE)
    for number in range(1, len(parts), 2):
        package = parts[number]
        for name in own_names(package):
            link = f"| [`{name.name}`](api/{package}.md#{name.path}) |"
            parts[number + 1] = parts[number + 1].replace(f"| `{name.name}` |", link)
        parts[number] = f"## `{package}`"
    return "".join(parts)


def configuration() -> tuple[str, list[object], str]:
    """`docs/mkdocs.yml`: what is before its navigation, the navigation, what is after it."""
    text = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    head, nav, tail = re.split(r"^(nav:\n(?: .*\n)+)", text, maxsplit=1, flags=re.MULTILINE)
    return head, yaml.safe_load(nav)["nav"], tail


def main() -> None:
    """Build and check."""
    build()
    if wrong := list(broken()):
        raise SystemExit("\n".join(["the site that was built:", *wrong]))
    print(f"the site is in {SITE.relative_to(ROOT)}: open {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
