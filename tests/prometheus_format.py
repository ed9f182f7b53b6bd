"""A strict reader of Prometheus' text format (0.0.4), for tests: it refuses what Prometheus refuses, and more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass
class Exposition:
    """What a text says."""

    kinds: dict[str, str] = field(default_factory=dict)
    """The kind of each metric, by its name."""
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """The value of a sample. Raises KeyError if there is none."""
        return self.samples[name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values of a metric with one label, by its values."""
        return {dict(labels)[label]: value for (of, labels), value in self.samples.items() if of == name}


def read(text: str) -> Exposition:
    """Read a text. Raises AssertionError if it is not in the format."""
    assert not text or text.endswith("\n")
    found, name = Exposition(), ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in found.kinds, f"{name} twice"
            found.kinds[name] = kind
            continue
        matched = _SAMPLE.fullmatch(line)
        assert matched is not None, line
        family = re.sub(r"_(bucket|sum|count)$", "", matched["name"])
        assert (family if found.kinds.get(family) == "histogram" else matched["name"]) == name, line
        key = matched["name"], _labels(matched["labels"] or "")
        assert key not in found.samples, line
        found.samples[key] = float(matched["value"])
    for histogram in (name for name, kind in found.kinds.items() if kind == "histogram"):
        _check_histogram(found, histogram)
    return found


def _labels(text: str) -> frozenset[tuple[str, str]]:
    found, place = [], 0
    while place < len(text):
        matched = _LABEL.match(text, place)
        assert matched is not None, text
        value = re.sub(r'\\[\\"n]', lambda escaped: _ESCAPED[escaped[0]], matched["value"])
        found.append((matched["name"], value))
        place = matched.end()
    assert len(dict(found)) == len(found), text
    return frozenset(found)


def _check_histogram(found: Exposition, name: str) -> None:
    rows: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    for (of, labels), value in found.samples.items():
        if of == f"{name}_bucket":
            others = frozenset(pair for pair in labels if pair[0] != "le")
            rows.setdefault(others, []).append((float(dict(labels)["le"]), value))
    assert rows, name
    for labels, buckets in rows.items():
        assert buckets == sorted(buckets), name
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), name
        assert buckets[-1] == (float("inf"), found.samples[f"{name}_count", labels]), name
        assert (f"{name}_sum", labels) in found.samples, name
