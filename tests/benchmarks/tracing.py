"""Measures what tracing adds to a step and to a chunk, side by side in one process.

    python tests/benchmarks/tracing.py [--rounds 7] [--steps 100] [--chunks 40] [--write]

The model is a script, so that what is divided by is the engine alone: over a network a step costs several times as
much, and the ratio is that much smaller. `off` is the engine without tracing, `unsampled` with a sampler that drops
all, `spans` with spans that are made and dropped by the exporter, `content` with all that was said in them. The order
turns from round to round, ratios are taken within a round, and the median of the rounds is printed. `sdk` is what
OpenTelemetry's SDK alone costs: at the end of each step it starts and ends the same two spans with all attributes.

`--write` sets the line of `spans`, with one chunk, in the table of goals of docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from statistics import median

from endstop import Engine, Run, tool
from endstop.decision import Event, Limits, Policy
from endstop.decision.events import StepFinished
from endstop.observers import traced
from endstop.providers import Scripted, call, say
from goals import PAGE, write_line
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF


class Drop(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def dropping() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Drop()))
    return provider


@tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def engine(steps: int, chunks: int) -> Engine:
    made = 0

    def script(request):
        nonlocal made
        made += 1
        if made % steps == 0:
            return call("finish_task", summary="Done.")
        return [say("word " * chunks, pieces=chunks), call("add", a=made, b=1)]

    return Engine(Scripted(script), tools=[add], policy=Policy(limits=Limits(steps=steps + 1)))


def off(made: Engine) -> Engine:
    return made


def unsampled(made: Engine) -> Engine:
    return traced(made, TracerProvider(sampler=ALWAYS_OFF))


def spans(made: Engine) -> Engine:
    return traced(made, dropping())


def content(made: Engine) -> Engine:
    return traced(made, dropping(), content=True)


class Keep(Drop):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.kept += spans
        return SpanExportResult.SUCCESS


@cache
def spans_of_a_step() -> list[ReadableSpan]:
    """The spans of a step of a traced run, as they reach an exporter. First called where no event loop runs."""
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(keep))
    asyncio.run(traced(engine(2, 1), provider).run("Add."))
    return keep.kept[:2]


def sdk(made: Engine) -> Engine:
    tracer, made_before = dropping().get_tracer("endstop"), spans_of_a_step()

    def on_event(event: Event) -> None:
        if type(event) is StepFinished:
            for one in made_before:
                tracer.start_span(one.name, kind=one.kind, attributes=one.attributes).end()

    @asynccontextmanager
    async def after_each_step(run: Run) -> AsyncIterator[None]:
        run.context.log.add_sink(on_event)
        yield

    return made.with_middleware(after_each_step)


KINDS: tuple[Callable[[Engine], Engine], ...] = (off, unsampled, spans, content, sdk)


def once(kind: Callable[[Engine], Engine], steps: int, chunks: int) -> float:
    """Milliseconds of CPU a step."""

    async def run() -> float:
        one = kind(engine(steps, chunks))
        began = time.process_time()
        outcome = await one.run("Add.")
        spent = time.process_time() - began
        assert outcome.stop_reason == "completed", outcome
        return spent * 1000 / outcome.steps

    return asyncio.run(run())


def main() -> None:
    options = argparse.ArgumentParser(description="what tracing adds to a step")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--chunks", type=int, default=40)
    options.add_argument("--write", action="store_true", help="set the line of the page's table of goals")
    given = options.parse_args()
    spans_of_a_step()
    for kind in KINDS:
        once(kind, 50, given.chunks)
    for chunks in (1, given.chunks):
        rounds: list[dict[str, float]] = []
        for number in range(given.rounds):
            turn = number % len(KINDS)
            rounds.append({k.__name__: once(k, given.steps, chunks) for k in (*KINDS[turn:], *KINDS[:turn])})
        print(f"{given.steps} steps of {chunks} chunks of text and a call, {given.rounds} rounds:")
        for name in rounds[0]:
            each = median(done[name] for done in rounds)
            ratio = median(done[name] / done["off"] for done in rounds)
            print(f"  {name:10} {each:6.3f} ms CPU a step   x {ratio:.2f}")
            if given.write and (chunks, name) == (1, "spans"):
                write_line(PAGE, "tracing", f"{each:.2f} ms, {ratio:.2g}x", ratio)


if __name__ == "__main__":
    main()
