"""What all wrappers have in common: they stand for the providers that they hold, and open and close them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

from ..decision import WrongUse
from .provider import Provider


class Wrapper:
    """Holds one provider or several. Its model and endpoint are those of the first."""

    def __init__(self, *providers: Provider) -> None:
        for provider in providers:
            if not callable(getattr(provider, "stream", None)):
                raise WrongUse(f"{type(self).__name__}: {provider!r} is no provider: it has no method `stream`")
        if not providers:
            raise WrongUse(f"{type(self).__name__} wraps a provider: name one")
        self.providers = providers

    @property
    def provider(self) -> Provider:
        """The first provider, for wrappers of one the only one."""
        return self.providers[0]

    @property
    def model(self) -> str:
        """The model's name, for records and people."""
        return self.provider.model

    @property
    def endpoint(self) -> str:
        """Where the model is reached, if that was set by hand."""
        return str(getattr(self.provider, "endpoint", ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.providers))})"

    async def __aenter__(self) -> Self:
        opened: list[AbstractAsyncContextManager[Any]] = []
        try:
            for provider in self.providers:
                if isinstance(provider, AbstractAsyncContextManager):
                    await provider.__aenter__()
                    opened.append(provider)
        except BaseException:
            for one in reversed(opened):
                await one.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exc: Any) -> None:
        for provider in reversed(self.providers):
            if isinstance(provider, AbstractAsyncContextManager):
                await provider.__aexit__(*exc)


def leaves(provider: Provider) -> Iterator[Provider]:
    """The providers inside of all wrappers: those that reach a model."""
    if isinstance(provider, Wrapper):
        for inner in provider.providers:
            yield from leaves(inner)
    else:
        yield provider
