"""`endstop setup`: puts endstop into the configuration of coding agents, and takes it out again."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ..agent_setup.agents import MODEL, PROXY_URL, SetupAgent, agents
from ..agent_setup.masked_diff import masked_diff
from ..agent_setup.plugin_folder import plugin_parts
from ..agent_setup.setup_changes import FileChange, is_set, setup_changes, undo_changes
from ..agent_setup.setup_parts import (
    HookOptions,
    PartName,
    ProxyAddress,
    SetupPart,
    hook_part,
    proxy_lines,
    proxy_part,
)
from ..base.state_folder import state_folder
from ..decision import WrongUse
from ..decision.errors import did_you_mean
from ..process.streams import StdStreams
from ..until import CHECK_SECONDS
from .commands import add_command
from .parser import Parser
from .views.tables import print_parts

if TYPE_CHECKING:
    from rich.console import RenderableType

PLUGIN = "plugin"
"""Stands in the place of an agent for the plugin's folder."""
_ABOUT = """
Without --write nothing is changed: what would be written is shown, without the values of your other settings. A copy of
each file is kept; --undo puts it back, or takes out only endstop's own lines if the file was changed since. Comments,
order, line ends, links and modes stay. No key is read or written.

The hook and the proxy begin by watching: they record, and say what they would have done. With --act they also act.

Without an agent: which agents are here, and what is set.
"""
_EXIT_CODES = {0: "done, shown, or nothing to change", 2: "usage error, or a file that cannot be changed"}
_EXAMPLES = (
    ("See which agents are here, and what is set", "endstop setup"),
    ("See what would be written", "endstop setup claude --until 'pytest -q'"),
    ("Do not let Claude Code end while the tests fail", "endstop setup claude --until 'pytest -q' --act --write"),
    ("Send Codex through the proxy", "endstop setup codex --proxy --write"),
    ("Put everything back", "endstop setup claude --undo"),
    ("Write the plugin of Claude Code and Codex", "endstop setup plugin ~/endstop-plugin --act --write"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "setup", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES)
    names = ", ".join(agents())
    parser.add_argument("agent", nargs="?", metavar="AGENT", help=f"one of {names}; or plugin")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder of the plugin")
    _add_options(parser)


def _add_options(parser: Parser) -> None:
    what = parser.add_argument_group("what is set up")
    what.add_argument("--hook", action="store_true", help="let the agent ask `endstop hook` at its events (default)")
    what.add_argument(
        "--proxy",
        nargs="?",
        const=PROXY_URL,
        metavar="URL",
        help=f"send the agent's requests to `endstop proxy` at this address (without a value: {PROXY_URL})",
    )
    what.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="CMD",
        help="send the agent on at its end while this command fails in its folder; repeatable",
    )
    what.add_argument(
        "--guard",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files that --until stands on: the agent's changes to them do not count; repeatable",
    )
    what.add_argument(
        "--until-timeout",
        type=float,
        metavar="S",
        help=f"seconds after which the check is stopped (default {CHECK_SECONDS:g})",
    )
    what.add_argument("--model", metavar="NAME", help=f"the model, where --proxy has to name one (default {MODEL})")
    what.add_argument("--act", action="store_true", help="tell, deny and stop; without it, only watch")
    how = parser.add_argument_group("where and how")
    how.add_argument("--project", action="store_true", help="the project's file in place of your own")
    how.add_argument("--write", action="store_true", help="write it; without it, only show it")
    how.add_argument("--undo", action="store_true", help="put back what was there before, at once")
    how.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    """Set up an agent, undo that, or list the agents; return the exit code. Raises WrongUse."""
    streams = StdStreams()
    environment = dict(os.environ)
    copies = state_folder(environment) / "setup"
    project = _project() if args.project else None
    _check(args)
    if args.agent is None:
        return _list(args, streams, environment, copies, project)
    if args.agent == PLUGIN:
        return _plugin(args, streams, copies)
    agent = agents()[args.agent]
    known = _parts(agent, args, environment, project, names=("hook", "proxy"))
    wanted: dict[PartName, bool] = {"hook": bool(args.hook or args.until), "proxy": bool(args.proxy)}
    names: tuple[PartName, ...] = tuple(name for name, is_wanted in wanted.items() if is_wanted)
    if not names:
        names = ("hook", "proxy") if args.undo else ("hook",) if agent.hook else ("proxy",)
    _check_agent(agent, args, names)
    asked = [part for part in known if part.name in names]
    changes = (undo_changes if args.undo else setup_changes)(asked, known, copies)
    shown = _shown(changes)
    _write(changes, args)
    if args.json:
        _print_json(streams, args, names, shown)
    else:
        print_parts(streams, _with_whole_commands(_explained(agent, args, names, shown, project)))
    return 0


def _plugin(args: argparse.Namespace, streams: StdStreams, copies: Path) -> int:
    """Write the folder of the plugin, or remove it."""
    if args.folder is None:
        raise WrongUse("endstop setup plugin needs a folder: endstop setup plugin DIR --write")
    folder = Path(os.path.abspath(args.folder))
    parts = plugin_parts(folder, _hook_options(args))
    changes = (undo_changes if args.undo else setup_changes)(parts, parts, copies)
    shown = _shown(changes)
    _write(changes, args)
    if args.json:
        _print_json(streams, args, ("plugin",), shown)
    else:
        print_parts(streams, _with_whole_commands(_plugin_explained(args, shown, folder)))
    return 0


class _Shown(NamedTuple):
    """A change as it is shown, from before it is written."""

    file: str
    changes: bool
    made: bool
    """Whether there was no file."""
    edited: bool
    """Whether it is endstop's own file, and stays because somebody has edited it since."""
    diff: list[str]


def _shown(changes: Sequence[FileChange]) -> list[_Shown]:
    return [
        _Shown(
            str(change.file.path),
            change.changes,
            change.file.content is None,
            change.edited,
            _diff(change) if change.changes else [],
        )
        for change in changes
    ]


def _write(changes: Sequence[FileChange], args: argparse.Namespace) -> None:
    """Write the changes, if that is asked for and all of them can be written. Raises WrongUse."""
    for change in changes:
        if change.changes:
            change.file.check_writable()
    if args.undo or args.write:
        for change in changes:
            change.write()


def _print_json(streams: StdStreams, args: argparse.Namespace, names: Sequence[str], shown: Sequence[_Shown]) -> None:
    whole = {
        "agent": args.agent,
        "parts": list(names),
        "written": args.undo or args.write,
        "files": [one._asdict() for one in shown],
    }
    streams.write_answer(json.dumps(whole, ensure_ascii=False) + "\n")


def _check(args: argparse.Namespace) -> None:
    """Raise WrongUse for options that do not go together."""
    if args.agent is None:
        given = [name for name in ("hook", "proxy", "until", "guard", "write", "undo", "act") if getattr(args, name)]
        if given:
            raise WrongUse(f"--{given[0]} needs an agent: one of {', '.join(agents())}, as in `endstop setup claude`")
        return
    if args.agent not in (*agents(), PLUGIN):
        raise WrongUse(f"unknown agent {args.agent!r}{did_you_mean(args.agent, (*agents(), PLUGIN))}")
    if args.folder is not None and args.agent != PLUGIN:
        raise WrongUse(f"{args.folder!r} is too much: only `endstop setup plugin` takes a folder")
    if args.agent == PLUGIN and (args.proxy or args.project):
        raise WrongUse(f"--{'proxy' if args.proxy else 'project'} is not for the plugin, which has only hooks")
    if any(not one.strip() for one in args.until):
        raise WrongUse("--until is empty: give a command, as in --until 'pytest -q'")
    if not args.until and (args.guard or args.until_timeout is not None):
        option = "--guard" if args.guard else "--until-timeout"
        raise WrongUse(f"{option} is about a check: give it with --until 'pytest -q'")
    if args.until_timeout is not None and not 1 <= args.until_timeout <= 86_400:
        raise WrongUse(f"--until-timeout is {args.until_timeout:g}: use seconds from 1 to 86400")
    if args.proxy is not None:
        _check_url(args.proxy)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        usable = False
    if not usable:
        raise WrongUse(f"--proxy is {url!r}: give an address such as {PROXY_URL}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise WrongUse("--proxy has a user, a password, a query or a fragment: give only scheme, host, port and path")


def _check_agent(agent: SetupAgent, args: argparse.Namespace, names: Sequence[PartName]) -> None:
    """Raise WrongUse for what this agent does not have."""
    if "hook" in names and agent.hook is None and not args.undo:
        raise WrongUse(f"{agent.title} has no hooks that endstop can use: set up the proxy with --proxy")
    if "proxy" in names and agent.proxy is None and not args.undo:
        raise WrongUse(f"the base URL of {agent.title} cannot be set in a file: set up the hook with --hook")
    if args.project and not agent.project_folder:
        raise WrongUse(f"{agent.title} has no file of a project: leave out --project")
    if args.act and args.undo:
        raise WrongUse("--act and --undo do not go together")


def _parts(
    agent: SetupAgent,
    args: argparse.Namespace,
    environment: Mapping[str, str],
    project: Path | None,
    names: Sequence[PartName],
) -> list[SetupPart]:
    """Return the parts that the agent has, with the options of the command line."""
    proxy = ProxyAddress(args.proxy or PROXY_URL, args.model or MODEL)
    found = [
        hook_part(agent, _hook_options(args), environment, project),
        proxy_part(agent, proxy, environment, project),
    ]
    return [part for part in found if part is not None and part.name in names]


def _hook_options(args: argparse.Namespace) -> HookOptions:
    return HookOptions(
        until=tuple(args.until),
        guard=tuple(args.guard),
        check_seconds=args.until_timeout or CHECK_SECONDS,
        own_timeout=args.until_timeout is not None,
        act=args.act,
        proxy=args.proxy or "",
    )


def _project() -> Path:
    """Return the root of the git work tree that the current folder is in, else the current folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


# ---- what is printed


def _explained(
    agent: SetupAgent,
    args: argparse.Namespace,
    names: Sequence[PartName],
    shown: Sequence[_Shown],
    project: Path | None,
) -> Iterator[RenderableType]:
    """Yield what was or would be changed, then what to do next."""
    yield from _diffs(shown)
    changed = any(one.changes for one in shown)
    if project is not None and project != Path.cwd():
        yield f"The project is the git work tree {project}."
    yield from _left(shown)
    if not changed:
        if shown and not any(one.edited for one in shown):
            yield f"{agent.title}: nothing to {'undo' if args.undo else 'change'}."
    elif args.undo:
        yield f"{agent.title}: put back. Start it again, so that it reads its configuration."
    elif args.write:
        yield f"{agent.title}: written. To undo it: {_undo_line(args)}"
    if not args.undo:
        yield from _next_steps(agent, args, names, changed)


def _next_steps(agent: SetupAgent, args: argparse.Namespace, names: Sequence[PartName], changed: bool) -> Iterator[str]:
    if changed and not args.write:
        yield "Nothing was written yet. To write it, add --write."
        return
    if "hook" in names and agent.hook is not None:
        if not agent.hook.tried:
            yield f"The form of {agent.title}'s hooks was read in its documentation, not tried."
        if agent.hook.why:
            yield agent.hook.why
        yield f"Try it: start {agent.programs[0]} in a project, give it a task, then: endstop audit --last"
        if not args.act:
            yield "The hook only watches. To let it tell, deny and stop, run the same command with --act."
    if "proxy" in names and agent.proxy is not None:
        options = ProxyAddress(args.proxy or PROXY_URL, args.model or MODEL)
        for line in proxy_lines(agent.proxy, options):
            yield f"  {line}"
        if agent.proxy.why:
            yield agent.proxy.why.replace("{model}", options.model)
        yield "Start the proxy, and leave it running:"
        yield f"  {_proxy_command(agent.proxy.upstream, options.url, args)}"
        if not args.act:
            yield "With --dry-run it only watches. Leave that out to let it cut and stop."


def _plugin_explained(args: argparse.Namespace, shown: Sequence[_Shown], folder: Path) -> Iterator[RenderableType]:
    yield from _diffs(shown)
    changed = any(one.changes for one in shown)
    if args.undo:
        yield from _left(shown)
        if changed or not any(one.edited for one in shown):
            yield f"The plugin: {'removed.' if changed else 'nothing to undo.'}"
        return
    if changed and not args.write:
        yield "Nothing was written yet. To write it, add --write."
        return
    yield f"The plugin: {'written.' if changed else 'nothing to change.'} To install it:"
    place = shlex.quote(str(folder))
    yield f"  claude plugin marketplace add {place} && claude plugin install endstop@endstop"
    yield f"  codex plugin marketplace add {place} && codex plugin add endstop@endstop"
    yield "Codex runs its hooks only once you have trusted them: start codex and type /hooks."


def _with_whole_commands(parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Yield the parts; the indented ones are commands to copy, and stay on one line."""
    from rich.text import Text

    for part in parts:
        yield Text(part, no_wrap=True) if isinstance(part, str) and part.startswith("  ") else part


def _left(shown: Sequence[_Shown]) -> Iterator[str]:
    for one in shown:
        if one.edited:
            yield f"{one.file} has changed since endstop wrote it, so it stays: delete it if you need nothing in it."


def _diffs(shown: Sequence[_Shown]) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in shown:
        for line in one.diff:
            yield Text(line, style=_style(line), no_wrap=True)


def _proxy_command(upstream: str, url: str, args: argparse.Namespace) -> str:
    words = ["endstop", "proxy", "--upstream", upstream, "--record", "runs/"]
    parts = urlsplit(url)
    default = urlsplit(PROXY_URL)
    if parts.hostname != default.hostname:
        words += ["--host", parts.hostname or ""]
    if parts.port and parts.port != default.port:
        words += ["--port", str(parts.port)]
    return shlex.join([*words, *(() if args.act else ("--dry-run",))])


def _undo_line(args: argparse.Namespace) -> str:
    return f"endstop setup {args.agent}{' --project' if args.project else ''} --undo"


def _diff(change: FileChange) -> list[str]:
    before, after = (
        None if content is None else content.decode("utf-8", "replace")
        for content in (change.file.content, change.content)
    )
    return masked_diff(str(change.file.path), before, after, None if change.whole else change.own)


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


# ---- the list


def _list(
    args: argparse.Namespace,
    streams: StdStreams,
    environment: Mapping[str, str],
    copies: Path,
    project: Path | None,
) -> int:
    rows = [_row(agent, args, environment, copies, project) for agent in agents().values()]
    if args.json:
        streams.write_answer(json.dumps({"agents": rows}, ensure_ascii=False) + "\n")
        return 0
    print_parts(streams, _table(rows))
    return 0


def _row(
    agent: SetupAgent,
    args: argparse.Namespace,
    environment: Mapping[str, str],
    copies: Path,
    project: Path | None,
) -> dict[str, Any]:
    program = next(filter(None, map(shutil.which, agent.programs)), None)
    home = agent.home(environment)
    row: dict[str, Any] = {
        "agent": agent.name,
        "title": agent.title,
        "program": program,
        "folder": str(home) if home.is_dir() else None,
        "hook": None,
        "proxy": None,
        "problems": [],
    }
    for where in dict.fromkeys((None, project or _project())):
        if where is not None and not agent.project_folder:
            continue
        for part in _parts(agent, args, environment, where, names=("hook", "proxy")):
            try:
                if is_set(part, copies):
                    row[part.name] = row[part.name] or str(part.path)
            except WrongUse as error:
                if str(error) not in row["problems"]:
                    row["problems"].append(str(error))
    return row


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("agent", "", "here", "hook", "proxy"):
        table.add_column(title, overflow="fold")
    for row in rows:
        here = _home(row["program"] or row["folder"] or "-")
        table.add_row(row["agent"], row["title"], here, *(_home(row[name] or "-") for name in ("hook", "proxy")))
    yield table
    for row in rows:
        for problem in row["problems"]:
            yield f"{row['title']}: {problem}"
    yield "Set one up: endstop setup AGENT"


def _home(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path
