"""Harmless texts that are hard: all that repeats a little, or much, and is meant."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from random import Random

_WORDS = re.findall(
    r"\w+",
    "the a of in to and is was file test value error server user request order price page line count list name time "
    "build cache index field table query result limit retry socket worker branch commit review patch deploy",
)


def _sentence(random: Random, least: int = 5, most: int = 14) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(random.randint(least, most))).capitalize() + "."


def _tables(random: Random) -> Iterator[tuple[str, str]]:
    rows = [
        f"| {n} | {_sentence(random, 1, 2)} | {random.random():.3f} | {random.randint(0, 999)} |" for n in range(400)
    ]
    yield "a table of measurements", "\n".join(rows)
    yield "a table of ticks", "\n".join(f"| case {n} | ✔ | ✔ | {random.choice('✔✘')} | ✔ | ✔ |" for n in range(120))
    yield (
        "a table of numbers alone",
        "\n".join(" ".join(f"{random.randint(0, 9999):6}" for _ in range(12)) for _ in range(400)),
    )
    yield "a table that counts", "\n".join(f"| {n} | row {n} | {n * 10} |" for n in range(300))
    yield "a multiplication table", "\n".join(f"{a} x {b} = {a * b}" for a in range(1, 25) for b in range(1, 25))
    yield "a truth table", "\n".join(" ".join(f"{n:010b}") + " | " + str(n % 3 % 2) for n in range(1024))
    yield "squares", "\n".join(f"{n},{n * n},{n * n * n}" for n in range(1500))
    yield (
        "a CSV of prices",
        "\n".join(
            f"2026-{n // 28 % 12 + 1:02}-{n % 28 + 1:02},{100 + random.gauss(0, 3):.2f},{random.randint(1, 10**6)}"
            for n in range(1500)
        ),
    )


def _drawings(random: Random) -> Iterator[tuple[str, str]]:
    circle = [
        "".join("#" if (x - 60) ** 2 + (2 * (y - 30)) ** 2 < 55**2 else " " for x in range(120)) for y in range(60)
    ]
    yield "a filled circle", "\n".join(circle)
    yield "a filled rectangle", "\n".join(["#" * 80] * 60)
    yield "a frame", "\n".join(["+" + "-" * 78 + "+", *["|" + " " * 78 + "|"] * 50, "+" + "-" * 78 + "+"])
    yield "a wave", "\n".join(" " * int(30 + 29 * math.sin(n / 5)) + "*" for n in range(200))
    yield "rows of zeros", "\n".join(["0 " * 50] * 50)
    yield "rows of zeros with commas", "[\n" + ",\n".join(["  [" + ", ".join(["0"] * 64) + "]"] * 64) + "\n]"
    yield "an identity matrix", "\n".join(" ".join("01"[x == y] for x in range(100)) for y in range(100))
    yield "a matrix of bits", "\n".join(" ".join(random.choice("01") for _ in range(100)) for _ in range(150))
    yield (
        "a chess board",
        "\n".join(["r n b q k b n r", "p p p p p p p p", *[". . . . . . . ."] * 4, "P P P P P P P P"] * 20),
    )
    yield "a ruler", "-" * 1000 + "\n" + "=" * 1000 + "\n" + "*" * 1000
    yield "a progress bar", "\n".join(f"[{'=' * n}{' ' * (50 - n)}] {2 * n}%" for n in range(51))
    yield "emojis", "🙂" * 1000
    mandelbrot = []
    for y in range(48):
        row = ""
        for x in range(120):
            z, c, times = 0j, complex(x / 40 - 2.2, y / 20 - 1.2), 0
            while abs(z) < 2 and times < 11:
                z, times = z * z + c, times + 1
            row += " .:-=+*#%@$M"[times]
        mandelbrot.append(row)
    yield "a mandelbrot set", "\n".join(mandelbrot)


def _data(random: Random) -> Iterator[tuple[str, str]]:
    yield "base64", base64.b64encode(random.randbytes(30_000)).decode()
    yield "base64 of zeros", base64.b64encode(random.randbytes(500) + bytes(2_500) + random.randbytes(500)).decode()
    yield "base64 in lines", "\n".join(base64.b64encode(random.randbytes(57)).decode() for _ in range(400))
    yield (
        "a hex dump",
        "\n".join(f"{16 * n:08x}: " + " ".join(random.randbytes(2).hex() for _ in range(8)) for n in range(500)),
    )
    yield "a hex dump of zeros", "\n".join(f"{16 * n:08x}: " + " ".join(["0000"] * 8) for n in range(160))
    yield "JSON", json.dumps([{"id": n, "x": random.randint(0, 99), "ok": random.random() < 0.5} for n in range(800)])
    yield (
        "JSON with indents",
        json.dumps(
            [{"id": n, "name": _sentence(random, 2, 3), "tags": [], "parent": None} for n in range(300)], indent=4
        ),
    )
    yield "digits of a number", "3." + "".join(random.choice("0123456789") for _ in range(10_000))
    yield "numbers up to 1000", ", ".join(map(str, range(1, 1001)))
    yield "primes", " ".join(str(n) for n in range(2, 12_000) if all(n % d for d in range(2, int(n**0.5) + 1)))
    yield "DNA", "".join(random.choice("ACGT") for _ in range(20_000))
    yield "hashes", "\n".join(random.randbytes(20).hex() + f"  src/file_{n}.py" for n in range(500))


def _code(random: Random) -> Iterator[tuple[str, str]]:
    yield (
        "minified code",
        "".join(
            f"function {a}(e,t){{return e.{random.choice(_WORDS)}(t,{random.randint(0, 99)})}};var {a}{n}={a}(n,r);"
            for n in range(500)
            for a in [random.choice("abcdefgh")]
        ),
    )
    yield "code with equal lines", "def wait():\n" + "    asm('nop')\n" * 200 + "    return\n"
    yield (
        "code with equal ends",
        "\n\n".join(
            f"    if {random.choice(_WORDS)}_{n}:\n        return None\n    raise ValueError\n\n\n\n"
            for n in range(200)
        ),
    )
    yield "a switch", "\n".join(f"    case {n}: return {n};" for n in range(256))
    yield "an array", "\n".join(f"table[{n}] = {random.randint(0, 255)};" for n in range(600))
    yield "zeros in code", "const zeros = [" + ", ".join(["0"] * 1024) + "];"
    yield (
        "SQL",
        "\n".join(
            f"INSERT INTO t (id, name, at) VALUES ({n}, '{_sentence(random, 1, 2)}', NOW());" for n in range(500)
        ),
    )
    yield (
        "HTML",
        "\n".join(
            f'<li class="item"><a href="/p/{n}" title="{_sentence(random, 2, 3)}">{_sentence(random, 2, 3)}</a></li>'
            for n in range(400)
        ),
    )
    yield (
        "a patch",
        "\n".join(
            f"```\nedit {n}:{n}\n * @throws IOException if there is an underlying I/O problem\nend_of_edit\n```"
            for n in sorted(random.sample(range(4000), 200))
        ),
    )
    yield (
        "tests alike",
        "\n".join(
            f"def test_{a}_{b}():\n    assert call({a!r}, {b!r}) == {random.randint(0, 9)}\n"
            for a in _WORDS[:20]
            for b in _WORDS[20:40]
        ),
    )
    yield "types", "\n".join(f"export type {w.title()}Id = string & {{ readonly __brand: '{w}' }};" for w in _WORDS * 5)


def _prose(random: Random) -> Iterator[tuple[str, str]]:
    verse = "And the river runs, and the river runs,\nand nobody knows where the river runs.\n\n"
    yield (
        "a poem with a refrain",
        "".join("\n".join(_sentence(random) for _ in range(4)) + "\n\n" + verse for _ in range(40)),
    )
    bottles = [
        f"{n} bottles of beer on the wall, {n} bottles of beer.\nTake one down and pass it around, "
        f"{n - 1} bottles of beer on the wall.\n\n"
        for n in range(99, 0, -1)
    ]
    yield "99 bottles", "".join(bottles)
    yield "lines for detention", "I will not shout in class.\n" * 100
    yield "a paragraph eight times", (" ".join(_sentence(random) for _ in range(5)) + "\n\n") * 8
    yield "a list", "\n".join(f"{n}. {_sentence(random, 3, 6)}" for n in range(1, 500))
    yield "a list that counts", "\n".join(f"- item {n}" for n in range(1, 1001))
    yield "a task list", "\n".join(f"- [ ] Update `{w}.py` and run its tests" for w in _WORDS * 3)
    yield (
        "fizz buzz",
        "\n".join(
            "FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else str(n)
            for n in range(1, 1501)
        ),
    )
    yield (
        "a log",
        "\n".join(
            f"2026-11-22T05:{n // 60 % 60:02}:{n % 60:02}.{random.randint(0, 999):03}Z INFO worker {n * 7 % 8} "
            f"GET /health 200 in {random.randint(1, 40)} ms"
            for n in range(900)
        ),
    )
    yield "a log of one line", "\n".join(f"12:{n // 60:02}:{n % 60:02} INFO heartbeat ok" for n in range(300))
    yield "pytest", "\n".join(f"tests/test_{w}.py ......................... [{n}%]" for n, w in enumerate(_WORDS))
    yield "Chinese prose", "".join(chr(random.randint(0x4E00, 0x9FA5)) for _ in range(20_000))
    yield (
        "a Chinese list",
        "\n".join(
            f"第{n}步：检查文件{''.join(chr(random.randint(0x4E00, 0x9FA5)) for _ in range(6))}，然后继续。"
            for n in range(1, 600)
        ),
    )
    yield (
        "reasoning that comes back",
        "".join(
            f"Wait, let me look at `{random.choice(_WORDS)}` again. {_sentence(random)} Hmm, no: {_sentence(random)} "
            for _ in range(150)
        ),
    )
    yield "blank lines", "".join(_sentence(random) + "\n" * random.randint(1, 40) for _ in range(300))


def harmless() -> dict[str, str]:
    """Each by its name."""
    random = Random(7)
    return {name: text for kind in (_tables, _drawings, _data, _code, _prose) for name, text in kind(random)}
