"""Measures endstop beside other frameworks and writes their table into docs/explanation/performance.md.

    python tests/benchmarks/peers.py [--bench DIR] [--peers A,B] [--rounds 2] [--scenarios seq,stop,growth]

The other contenders, the harness and its mock server are those of a benchmark beside the checkout, which is copied into
a temporary folder; peer_endstop.py is put among its peers. Each contender has an environment of its own, made with
`venv` and pip under .venv-peers/. Scenario by scenario, each has its turn once a round; figures are divided by those of
the first one, the floor, in the same round, and only then is the median taken.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from run import HERE, ROOT, say
from table import commit, processor, write_page

VENVS = ROOT / ".venv-peers"
PARTS = ("decision", "providers", "engine", "pyproject.toml", "README.md", "LICENSE")
PEERS = "floor:aiohttp-bytes-orjson,endstop,openai_agents,pydantic_ai,langgraph,sdk:litellm"
PATIENCE = 240.0  # seconds that one scenario of one contender may take
Result = dict[str, Any]
Round = dict[tuple[str, str], Result]  # (scenario, contender) -> what the harness printed, or why it `failed`


class Environments:
    """What each contender runs in. `wanted` is a name of an environment -> what is installed there."""

    def __init__(self, bench: Path) -> None:
        lines = (bench / "setup.sh").read_text().partition("<<LIST\n")[2].partition("\nLIST")[0].splitlines()
        self.wanted = {name: packages for name, *packages in map(str.split, lines)}
        self.of: dict[str, str] = runpy.run_path(str(bench / "bench.py"))["PEERS"]
        self.of |= {"endstop": "endstop", "endstop:threads": "endstop"}

    def python(self, name: str) -> str:
        return str(VENVS / name / "bin" / "python")

    def make(self, name: str) -> None:
        stamp, known = VENVS / name / ".ready", " ".join(self.wanted.get(name, []))
        pip = [self.python(name), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-qq"]
        if not stamp.exists():
            subprocess.run([sys.executable, "-m", "venv", VENVS / name], check=True)
        elif stamp.read_text() == known and name != "endstop":
            return
        say(f"installing into {VENVS.name}/{name}")
        with tempfile.TemporaryDirectory(prefix="endstop-source-") as source:
            if name == "endstop":  # as it is now, and from a copy: a build would leave its folder in the checkout
                for part in PARTS:
                    (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, Path(source, part))
                pip += ["--constraint", str(ROOT / "constraints.txt"), source]
            subprocess.run([*pip, *self.wanted.get(name, [])], check=True)
        stamp.write_text(known)

    def versions(self, name: str) -> str:
        packages = [one.partition("[")[0] for one in self.wanted.get(name, [name])]
        asked = "import sys, importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
        return subprocess.check_output([self.python(name), "-c", asked, *packages], text=True).strip()


def once(python: str, bench: Path, peer: str, scenario: str, base: str) -> Result:
    """One scenario of one contender, in a process of its own."""
    command = [python, bench / "harness.py", peer, scenario, "--base", base]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=bench)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {PATIENCE:g} s"}
    _, found, told = done.stdout.rpartition("RESULT ")
    if not found:
        return {"failed": (done.stderr.strip().splitlines() or ["no result"])[-1][:200]}
    result: Result = json.JSONDecoder().raw_decode(told)[0]
    return result | result.pop("chatty", {})


def table(rounds: list[Round], peers: list[str]) -> str:
    """One line a contender: medians, with the ratio to the floor behind them; of counts the highest."""

    def all_of(scenario: str, peer: str, figure: str) -> dict[int, float]:
        found = {number: done.get((scenario, peer), {}).get(figure) for number, done in enumerate(rounds)}
        return {number: value for number, value in found.items() if value is not None}

    def timed(scenario: str, peer: str, figure: str) -> str:
        ours, floor = all_of(scenario, peer, figure), all_of(scenario, peers[0], figure)
        ratios = [value / floor[number] for number, value in ours.items() if floor.get(number)]
        times = f" ({median(ratios):.3g}x)" if ratios else ""
        return f"{median(ours.values()):.3g}{times}" if ours else "-"

    def counted(peer: str, figure: str) -> str:
        return f"{max(found.values()):g}" if (found := all_of("stop", peer, figure)) else "-"

    lines = [
        "| | CPU of a step, ms | of step 10 of 200, ms | of step 193, ms | CPU of a chunk, µs "
        "| finish call to return, ms | chunks sent after the finish call | `add` run after it | extra requests |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for peer in peers:
        figures = (("seq", "cpu_ms_step"), ("growth", "cpu_ms_at_10"), ("growth", "cpu_ms_at_193"))
        figures += (("seq", "cpu_us_chunk_20000"), ("seq", "finish_to_return_ms"))
        cells = [timed(scenario, peer, figure) for scenario, figure in figures]
        cells.append(f"{counted(peer, 'sent_after_finish')} of {counted(peer, 'planned_after_finish')}")
        cells += [counted(peer, "adds_run_after_finish_call"), counted(peer, "extra_requests")]
        lines.append(f"| {peer} | {' | '.join(cells)} |")
    sessions = [peer for peer in peers if all_of("conc200", peer, "cpu_ms_session")]
    if sessions:
        lines += [
            "",
            "| 200 sessions at once | CPU of a session, ms | sessions a second | failed |",
            "|---|--:|--:|--:|",
        ]
    for peer in sessions:
        rate, errors = all_of("conc200", peer, "sessions_s"), all_of("conc200", peer, "errors")
        cpu = timed("conc200", peer, "cpu_ms_session")
        lines.append(f"| {peer} | {cpu} | {median(rate.values()):.1f} | {sum(errors.values()):g} |")
    failed = {f"{peer}, {what}: {r['failed']}" for done in rounds for (what, peer), r in done.items() if "failed" in r}
    return "\n".join([*lines, *(f"\nFailed: {one}." for one in sorted(failed))])


def measure(chosen: argparse.Namespace, bench: Path) -> None:
    environments, peers = Environments(bench), chosen.peers.split(",")
    if unknown := [peer for peer in peers if peer not in environments.of]:
        say(f"no such peer: {', '.join(unknown)}. There are: {', '.join(environments.of)}")
        raise SystemExit(2)
    used = dict.fromkeys(environments.of[peer] for peer in peers)
    for name in ("server", *used):
        environments.make(name)
    versions = "; ".join(environments.versions(name) for name in used)
    began, load, rounds = time.monotonic(), os.getloadavg()[0], []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [environments.python("server"), bench / "mock_server.py", str(port)]
    with subprocess.Popen(command, cwd=bench, stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None or server.stdout.readline().strip() != "ready":
                raise SystemExit("the mock server did not start")
            for number in range(chosen.rounds):
                rounds.append(done := Round())
                for scenario in chosen.scenarios.split(","):
                    for peer in peers:
                        python, since = environments.python(environments.of[peer]), time.monotonic()
                        got = done[scenario, peer] = once(python, bench, peer, scenario, f"http://127.0.0.1:{port}/v1")
                        say(f"{number + 1} {scenario} {peer} {time.monotonic() - since:.0f} s {got.get('failed', '')}")
                    head = (
                        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {commit(ROOT)}, in {number + 1} "
                        f"rounds (the last up to {scenario}), {time.monotonic() - began:.0f} s. {processor()}, "
                        f"{os.cpu_count()} cores, load {load:.1f} before the start; CPython {sys.version.split()[0]}; "
                        f"{versions}. In brackets: times `{peers[0]}`."
                    )
                    text = f"{head}\n\n{table(rounds, peers)}"
                    # Each time: what is there counts, whatever happens to the rest.
                    write_page(chosen.page, text, "peers")
        finally:
            server.terminate()
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bench", type=Path, default=ROOT.parent / "shared" / "bench", help="the peer benchmark")
    parser.add_argument("--peers", default=PEERS, help=f"the first is the floor; {PEERS} if left out")
    parser.add_argument("--scenarios", default="seq,stop,growth", help="of seq, growth, stop and conc200")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "explanation" / "performance.md")
    chosen = parser.parse_args()
    if not (chosen.bench / "harness.py").is_file():
        say(f"There is no peer benchmark at {chosen.bench}: name its folder with --bench DIR.")
        raise SystemExit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="endstop-peers-") as folder:
        bench = Path(folder, "bench")
        shutil.copytree(chosen.bench, bench, copy_function=shutil.copyfile)
        for inside in (bench, bench / "peers"):
            inside.chmod(0o755)  # the original may be read-only
        shutil.copyfile(HERE / "peer_endstop.py", bench / "peers" / "endstop.py")
        measure(chosen, bench)


if __name__ == "__main__":
    main()
