"""The one place where tools are registered: by name, each with its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from ..decision import Policy, ToolSpec, WrongUse
from .tool import Tool


class Toolbox(Mapping[str, Tool]):
    """The tools of an engine. Two of one name are refused."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise WrongUse(f"{tool!r} is no tool: put @tool on the function")
            if tool.name in self._tools:
                raise WrongUse(f"two tools are called {tool.name!r}: rename one, as in tool.renamed('other')")
            self._tools[tool.name] = tool
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @cached_property
    def characters(self) -> int:
        """Characters of the tools as a model reads them, about."""
        return sum(len(spec.name) + len(spec.description) + len(str(spec.parameters)) for spec in self.specs)

    @property
    def can_complete(self) -> bool:
        """Whether a completion tool is among them."""
        return any(tool.kind == "completion" for tool in self._tools.values())

    def only(self, names: Iterable[str]) -> Toolbox:
        """These tools of it, in this order."""
        wanted = tuple(names)
        return self if wanted == tuple(self._tools) else Toolbox(self._tools[name] for name in wanted)

    def under(self, policy: Policy) -> Toolbox:
        """What of it is offered under this policy. Raises WrongUse if the policy cannot work with it."""
        if policy.completion == "none":
            return Toolbox(tool for tool in self._tools.values() if tool.kind != "completion")
        if policy.completion == "required" and not self.can_complete:
            raise WrongUse(
                f"policy {policy.name!r} ends a run only by a completion (completion = 'required'), "
                "but no completion tool is offered: add one, or choose another policy"
            )
        return self
