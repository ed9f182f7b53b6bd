"""Measures how time grows with the length of the input, for every pattern and all that reads foreign text.

    python -m tests.growth                          # from 100 kB to 2 MB; from the root of the repository
    python -m tests.growth --small 8000 --large 32000 --families 20 --bound 1.5

All families are looked at, at two lengths below `--small`. The slowest of each pattern and reader, those that seem to
grow, and some others are then measured up to `--large`. Between these two lengths a text leaves the caches of the
processor, which looks like growth. So a family is too slow only if it also grows from half of `--large` to its double.

Exits with 1 if a family grows faster than the bound, or takes longer than a second for each megabyte. The table has the
worst family of each pattern and reader; `--all` writes all that were measured.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple, TypeVar

from .families import Family, families_of
from .measure import NOISE, SHORT, TIMES, exponent, seconds
from .patterns import Recorder, import_all

LONGEST = 5.0
"""Seconds after which a function is interrupted."""
TELLING = 0.1
"""Seconds below which nothing is said of the rate: what is done once for each input outweighs it."""
MOST_WRONG = 3
"""Families of one subject that are too slow, after which no more are tried."""
LOOKED_AT = (0.06, 0.24)
"""The lengths at which all families are looked at, as parts of the smaller length."""
SLOWEST = 4
"""Families of each subject that are measured because they are the slowest then."""
GROWING = 6
"""Families of each subject that are measured because they seem to grow then."""
OTHERS = 2
"""Families of each subject that are measured beside these."""


T = TypeVar("T")


class Measured(NamedTuple):
    """What one family takes of one function, at the smaller and the larger length."""

    name: str
    family: Family
    small: float
    large: float
    exponent: float
    per_megabyte: float


class Subject(NamedTuple):
    """A function, and the families that it is tried on."""

    name: str
    work: Callable[[str], object]
    families: Sequence[Family]
    share: float


class _TooLong(BaseException):
    """Ends what takes longer than it may."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _TooLong


def sample(families: Sequence[T], most: int | None) -> list[T]:
    """So many of the families, evenly spread; all for None."""
    if most is None or len(families) <= most:
        return list(families)
    return [families[at * len(families) // most] for at in range(most)]


def subjects(recorder: Recorder, folder: Path, most: int | None) -> Iterator[Subject]:
    """All patterns and readers. most: families of each."""
    from . import readers

    found = list(readers.readers(folder))
    for reader in found:
        for text in (
            "a b\n",
            "I could not do it. Shall I go on?\n",
            "Okay, I understand.",
            "$ ls > a.txt\nexit code 1\n",
        ):
            reader.read(text)  # compiles what is compiled when it is first used
    patterns = list(recorder.patterns())
    made = {pattern: families_of(pattern.pattern) for pattern in patterns}
    for pattern in patterns:
        for use in sorted(pattern.uses):
            yield Subject(f"{pattern} {use}", partial(pattern.apply, use), sample(made[pattern], most), 1.0)
    for reader in found:
        own = [
            family
            for pattern in patterns
            if pattern.module.startswith(reader.modules or "-")
            for family in sample(made[pattern], 12)
        ]
        yield Subject(
            reader.name, reader.read, sample([*readers.COMMON, *dict.fromkeys(own)], most and 4 * most), reader.share
        )


def choose(subject: Subject, small: int) -> list[Family]:
    """The families of a subject that are to be measured: see the head of the file."""
    if len(subject.families) <= SLOWEST:
        return list(subject.families)
    sizes = [int(small * subject.share * part) for part in LOOKED_AT]
    took = []
    for family in subject.families:
        times = [_bounded(partial(subject.work, family.text(size)), 1) for size in sizes]
        took.append((times[1], times[1] / max(times[0], SHORT / 4), family))
    slowest = sorted(took, key=lambda one: one[0])[-SLOWEST:]
    growing = sorted((one for one in took if one[0] > SHORT), key=lambda one: one[1])[-GROWING:]
    chosen = [*slowest, *growing, *sample(took, OTHERS)]
    return list(dict.fromkeys(family for _, _, family in chosen))


def measure(subject: Subject, small: int, large: int) -> Iterator[Measured]:
    """Each family of a subject."""
    small, large = int(small * subject.share), int(large * subject.share)
    slow = 0
    for family in subject.families:
        texts = family.text(small), family.text(large)
        took = [_bounded(partial(subject.work, text)) for text in texts]
        size = len(texts[1].encode("utf-8", "surrogatepass"))
        growth = exponent(took[0], took[1], len(texts[1]) / len(texts[0])) if took[1] > NOISE else 0.0
        yield Measured(subject.name, family, took[0], took[1], growth, took[1] / size * 1e6 * subject.share)
        slow += took[1] >= LONGEST
        if slow >= MOST_WRONG:
            return


def still_bad(subject: Subject, one: Measured, large: int, bound: float) -> bool:
    """Whether a family that seems too slow is so once more, and goes on to grow where no cache holds its texts."""
    (again,) = measure(subject._replace(families=[one.family]), large // 2, 2 * large)
    return is_bad(again, bound)


def _bounded(work: Callable[[], object], times: int = TIMES) -> float:
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        return seconds(work, times)
    except _TooLong:
        return LONGEST
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def is_bad(one: Measured, bound: float) -> bool:
    """Whether a family grows too fast or is too slow."""
    return one.exponent > bound or (one.per_megabyte > 1.0 and one.large > TELLING)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.growth")
    parser.add_argument("--small", type=int, default=100_000, metavar="N")
    parser.add_argument("--large", type=int, default=2_000_000, metavar="N")
    parser.add_argument("--bound", type=float, default=1.1, metavar="X", help="the largest exponent (default 1.1)")
    parser.add_argument("--families", type=int, metavar="N", help="families of each pattern (default: all)")
    parser.add_argument("--only", default="", metavar="NAME", help="only patterns and readers with this in their name")
    parser.add_argument("--all", type=Path, metavar="FILE", help="write what each family took")
    args = parser.parse_args(arguments)
    recorder = Recorder()
    recorder.record()
    import_all()
    recorder.end_of_imports()
    signal.signal(signal.SIGVTALRM, _interrupt)
    bad = count = 0
    with TemporaryDirectory() as folder, open(args.all or "/dev/null", "w") as table:
        for subject in subjects(recorder, Path(folder), args.families):
            if args.only not in subject.name:
                continue
            gc.freeze()  # so that to collect garbage takes no time
            tried = subject if args.families else subject._replace(families=choose(subject, args.small))
            found = list(measure(tried, args.small, args.large))
            wrong = [
                one for one in found if is_bad(one, args.bound) and still_bad(subject, one, args.large, args.bound)
            ]
            count, bad = count + len(subject.families), bad + len(wrong)
            for one in found:
                table.write(
                    f"{one.name}\t{one.family!r}\t{one.small:.4f}\t{one.large:.4f}\t{one.exponent:.2f}\t{one.per_megabyte:.3f}\n"
                )
            for one in wrong or sorted(found, key=lambda one: one.large)[-1:]:
                mark = "TOO SLOW" if wrong else "        "
                rate = f"{one.exponent:5.2f} {one.per_megabyte:7.3f} s/MB"
                print(f"{mark} {rate}  {one.name:50} {len(subject.families):5}  {tuple(one.family)!s:.90}", flush=True)
    print(f"{count} families, {bad} too slow")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
