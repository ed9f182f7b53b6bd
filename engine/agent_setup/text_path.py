"""Paths into a document: names of members and indexes of items, and the same changes on the data as on the text."""

from __future__ import annotations

from typing import Any

Path = tuple[str | int, ...]
"""From the top of a document; empty for the whole."""


def has(data: Any, path: Path) -> bool:
    """Return whether there is something at the path."""
    for step in path:
        if not (step in data if isinstance(data, dict) else isinstance(data, list) and _is_index(step, data)):
            return False
        data = data[step]
    return True


def _is_index(step: str | int, data: list[Any]) -> bool:
    return isinstance(step, int) and step < len(data)


def at(data: Any, path: Path) -> Any:
    """Return what is at the path; None if nothing is."""
    if not has(data, path):
        return None
    for step in path:
        data = data[step]
    return data


def put(data: Any, path: Path, value: Any) -> None:
    """Set the member at the path, and make the objects on the way to it."""
    for step in path[:-1]:
        data = data.setdefault(step, {})
    data[path[-1]] = value


def add(data: Any, path: Path, item: Any) -> None:
    """Append to the list at the path, and make it if it is not there."""
    if at(data, path) is None:
        put(data, path, [])
    at(data, path).append(item)


def drop(data: Any, path: Path) -> None:
    """Remove the member or item at the path."""
    del at(data, path[:-1])[path[-1]]


def without_empty(data: Any) -> Any:
    """Return the data without members that are empty objects or lists: whether they are written says nothing."""
    if isinstance(data, dict):
        kept = {name: without_empty(value) for name, value in data.items()}
        return {name: value for name, value in kept.items() if value not in ({}, [])}
    return [without_empty(item) for item in data] if isinstance(data, list) else data
