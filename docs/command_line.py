"""The commands of `endstop` with their options, exit codes and examples, read from the parser.

python docs/command_line.py     # prints them, for docs/reference/command_line.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from endstop.cli.commands import HEADINGS, build_whole_parser
from endstop.cli.parser import Parser


def page() -> Iterator[str]:
    """All commands, under the headings of `endstop --help`."""
    commands = build_whole_parser().commands()
    yield from ("| | |", "| --- | --- |")
    for title, names in HEADINGS.items():
        links = ", ".join(f"[`{name}`](#endstop-{name})" for name in names)
        yield f"| {title} | {links} |"
    for names in HEADINGS.values():
        for name in names:
            yield from _command(commands[name])


def _command(parser: Parser) -> Iterator[str]:
    yield from ("", f"## {parser.prog}", "", parser.description or "")
    yield from ("", "```text", parser.format_usage(), "```")
    for title, content in parser.help_blocks():
        yield ""
        if isinstance(content, str):
            yield _escaped(content)
        elif isinstance(content, Mapping):
            if title == "options" and list(content) == ["-h, --help"]:
                continue
            yield from (f"| {title} | |", "| --- | --- |")
            yield from (f"| `{_escaped(term)}` | {_escaped(meaning)} |" for term, meaning in content.items())
        else:
            yield from (f"```{'sh' if title == 'examples' else 'text'}", *content, "```")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    print("\n".join(page()))
