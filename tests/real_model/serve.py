"""A small real model behind an OpenAI-compatible server on loopback.

    python serve.py PORT [--template chat.jinja] [--model model.gguf] [--parallel 1] [--first-task]

Runs llama.cpp's own HTTP server through xllamacpp, on one thread, prints
``READY http://127.0.0.1:PORT/v1`` once the model is loaded, and runs until it
is killed (SIGTERM or SIGINT). Port 0 takes any free port. ``--parallel`` answers
so many requests together, still on one thread. ``--first-task`` changes the
template: the task of which it reminds the model is the first prompt, and not
the latest message of the user, which may be a nudge.
"""

import argparse
import signal
from pathlib import Path

import xllamacpp

HERE = Path(__file__).resolve().parent


def params(port: int, template: str, model: Path, parallel: int) -> xllamacpp.CommonParams:
    p = xllamacpp.CommonParams()
    p.model.path = str(model)
    p.hostnames, p.port = ["127.0.0.1"], port
    p.use_jinja, p.chat_template = True, template
    p.n_ctx, p.n_parallel, p.n_batch = 8192 if parallel == 1 else 3072 * parallel, parallel, 128
    p.sse_ping_interval = 1  # a hang-up is noticed when a ping is written
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.n_gpu_layers = 0
    p.ui = False
    return p


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("port", type=int)
    ap.add_argument("--template", type=Path, default=HERE / "chat.jinja")
    ap.add_argument("--model", type=Path, default=HERE / "model.gguf")
    ap.add_argument("--parallel", type=int, default=1)
    ap.add_argument("--first-task", action="store_true")
    args = ap.parse_args()
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before any thread starts
    template = args.template.read_text()
    if args.first_task:
        template = template.replace(
            "message.role == 'user' %}{% set", "message.role == 'user' and not ns.task %}{% set"
        )
    server = xllamacpp.Server(params(args.port, template, args.model, args.parallel))
    print(f"READY {server.listening_address}/v1", flush=True)
    signal.sigwait(stop)


if __name__ == "__main__":
    main()
