"""What an adapter must do, one function each: it takes a trial, and complains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...decision import AnyChunk
from ..errors import ProviderError
from .harness import Trial

Check = Callable[[Trial], Awaitable[None]]


async def gives(trial: Trial) -> None:
    """The response comes out as it was said."""
    chunks: list[AnyChunk] = []
    await trial.listen(chunks)
    trial.compare(chunks, trial.script[0].says)


def fails(*kinds: str) -> Check:
    """The response comes to nothing: as the failure that its behaviour names, or as one of these kinds."""

    async def check(trial: Trial) -> None:
        chunks: list[AnyChunk] = []
        try:
            await trial.listen(chunks)
        except ProviderError as error:
            _compare(trial, error, kinds)
            trial.compare(chunks, trial.script[0].says)
            return
        last = chunks[-1] if chunks else "nothing at all"
        trial.complain(f"it should have failed, and ended like a whole response, with {last!r}")

    return check


def _compare(trial: Trial, error: ProviderError, kinds: tuple[str, ...]) -> None:
    behaviour = trial.script[0]
    failure = behaviour.failure
    assert failure is not None, "a case that fails has a failure"
    trial.check_keys(error)
    if error.kind not in (kinds or (failure.kind,)):
        wanted = " or ".join(kinds or (failure.kind,))
        trial.complain(f"it failed as {error.kind!r} ({error.message}), and should have as {wanted!r}")
    if behaviour.ends in ("refused", "error") and failure.message not in error.message:
        trial.complain(f"the provider's words {failure.message!r} are not in the error: {error.message!r}")
    if behaviour.ends == "refused":
        given, expected = (error.status, error.retry_after), (failure.status, failure.retry_after)
        if given != expected:
            trial.complain(f"status and retry_after of the error are {given}, and should be {expected}")


async def shows_no_key(trial: Trial) -> None:
    """The provider's repr is fit for logs."""
    await gives(trial)
    if trial.site.key in repr(trial.provider):
        trial.complain("its repr shows the key")


async def keeps_apart(trial: Trial) -> None:
    """Two streams at once, read in turn, hold what was said in each."""
    async with trial.stream() as one, trial.stream() as two:
        open_streams = [(one, first := list[AnyChunk]()), (two, second := list[AnyChunk]())]
        while open_streams:
            for stream, chunks in tuple(open_streams):
                try:
                    trial.take(await anext(stream), chunks)
                except StopAsyncIteration:
                    open_streams.remove((stream, chunks))
    trial.compare(first, trial.script[0].says)
    trial.compare(second, trial.script[1].says)


async def opens_again(trial: Trial) -> None:
    """It answers before it is entered, inside, inside twice, after one of two has left, and after all have."""
    await gives(trial)
    for _ in range(2):
        async with trial.opened():
            async with trial.opened():
                await gives(trial)
            await gives(trial)
    await gives(trial)
