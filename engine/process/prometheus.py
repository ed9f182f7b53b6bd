"""Counts in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Family: TypeAlias = tuple[str, str, str, Mapping[str, float]]
"""Name, kind (`counter` or `gauge`), label, and the counts by the label's value; without a label the key is ""."""


def prometheus_text(prefix: str, families: Iterable[Family]) -> str:
    """Format the families as text. Each name starts with the prefix and `_`."""
    return "".join(_family(f"{prefix}_{name}", kind, label, values) for name, kind, label, values in families)


def _family(name: str, kind: str, label: str, values: Mapping[str, float]) -> str:
    lines = [f"# TYPE {name} {kind}"]
    for value, count in sorted(values.items()):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'{name}{{{label}="{quoted}"}} {count}' if label else f"{name} {count}")
    return "\n".join([*lines, ""])
