"""The commands of `endstop` with their options, exit codes and examples, read from the parser.

python docs/command_line.py     # prints them, for docs/reference/command_line.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from endstop.cli.commands import HEADINGS, build_whole_parser
from endstop.cli.parser import Parser
from endstop.cli.variables import ABOUT, variable_of


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
    yield from _variables(commands)


def _variables(commands: Mapping[str, Parser]) -> Iterator[str]:
    """The options that may also be environment variables."""
    served = {name: parser for name, parser in commands.items() if parser.variables}
    used: dict[str, dict[str, str]] = {}
    for name, parser in served.items():
        for action in parser._actions:
            variable = variable_of(action)
            if variable is not None:
                used.setdefault(variable, {})[name] = action.option_strings[0]
    yield from ("", "## Variables", "", " ".join(ABOUT.split()), "")
    yield from ("| variable | option | of |", "| --- | --- | --- |")
    for variable, options in sorted(used.items()):
        of = ", ".join(f"`{name}`" for name in options)
        yield f"| `{variable}` | `{next(iter(options.values()))}` | {of} |"


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
