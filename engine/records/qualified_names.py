"""Resolves old qualified names (`module:name`) in records, YAML files and databases to today's modules.

`endstop.engine.archive.redaction:Redaction` is `endstop.records.redaction:Redaction` now. Python code gets no old
names, because nothing was published under them. CHANGELOG.md has all of them.
"""

from __future__ import annotations

_MOVED = {
    "endstop.engine": "endstop",
    "endstop.engine.answers": "endstop.tools.results",
    "endstop.engine.archive": "endstop.records",
    "endstop.engine.archive.pool": "endstop.records.parallel",
    "endstop.engine.archive.zst": "endstop.records.compression",
    "endstop.engine.bus": "endstop.event_bus",
    "endstop.engine.durable.queue": "endstop.durability",
    "endstop.engine.durable.steps": "endstop.durability",
    "endstop.engine.fleet": "endstop.batch",
    "endstop.engine.hosts.web": "endstop.web",
    "endstop.engine.intents": "endstop.hooks",
    "endstop.engine.judge": "endstop.hooks",
    "endstop.engine.mcp_connection": "endstop.tools.mcp",
    "endstop.engine.presets": "endstop.tools",
    "endstop.engine.presets.command": "endstop.tools.shell",
    "endstop.engine.presets.plan_execute_think": "endstop.plan_execute_think",
    "endstop.engine.record": "endstop.records.reader",
    "endstop.engine.replay.playing": "endstop.replay.replay",
    "endstop.engine.results": "endstop.tools.results",
    "endstop.engine.schema": "endstop.tools.schema",
    "endstop.engine.subscribers": "endstop.observers",
    "endstop.engine.toolbox": "endstop.tools.tool",
    "endstop.engine.tools": "endstop.tools.tool",
    "endstop.engine.tools_mcp": "endstop.tools.mcp",
    "endstop.engine.tools_yaml": "endstop.tools.yaml",
}
"""Old name of a module -> new name. A package's entry applies to all modules in it, unless a longer name has an
entry."""


def current_module(module: str) -> str:
    """The new name of a module that was renamed; any other name is returned unchanged."""
    place, rest = module, ""
    while place and place not in _MOVED:
        place, _, last = place.rpartition(".")
        rest = f".{last}{rest}"
    return _MOVED[place] + rest if place else module


def current_name(name: str) -> str:
    """The new name of a function or class, written as `module:name`, whose module may have been renamed."""
    module, colon, rest = name.partition(":")
    return current_module(module) + colon + rest
