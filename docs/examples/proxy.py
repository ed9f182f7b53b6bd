"""`endstop proxy` before an agent loop written by hand, whose model does not stop: once without it, once with it.

    python docs/examples/proxy.py

The provider is a script on this machine. It sets a port, calls `finish_task` and goes on talking; asked again it checks
the port for ever. The agent speaks chat completions by plain HTTP, and ends when a response calls nothing. Only its
base URL differs between the two runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import Request, urlopen

PATIENCE = 10  # requests after which the agent gives up
TALK = 2_000  # chunks that the model sends after its completion call
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("set_port", "check_port", "finish_task")]
STEPS = [("set_port", '{"port": 8080}'), ("finish_task", '{"summary": "The port is 8080."}'), ("check_port", "{}")]
COMMAND = [sys.executable, "-m", "endstop.cli.main", "proxy"]


class Provider(BaseHTTPRequestHandler):
    """A model that does not stop, behind chat completions."""

    requests = 0

    def do_POST(self):
        """Answer a request by the number of results in it."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        Provider.requests += 1
        results = sum(message["role"] == "tool" for message in messages)
        name, arguments = STEPS[min(results, 2)]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with suppress(ConnectionError):  # the proxy has left
            function = {"name": name, "arguments": arguments}
            self.send({"tool_calls": [{"index": 0, "id": f"c{results}", "type": "function", "function": function}]})
            for _ in range(TALK if name == "finish_task" else 0):
                self.send({"content": "And now I check that again. "})
            self.send({}, "tool_calls")

    def send(self, delta, finish=None):
        """Send a chunk."""
        chunk = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def log_message(self, *args):
        """Print nothing."""


def agent(base_url):
    """Return how the run ended, and the number of characters that the model wrote outside its calls."""
    messages, talk = [{"role": "user", "content": "Set the port to 8080."}], 0
    for _ in range(PATIENCE):
        body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": True}
        request = Request(f"{base_url}/chat/completions", json.dumps(body).encode(), {"Authorization": "Bearer sk-x"})
        text, calls = "", []
        with urlopen(request) as reply:
            for line in reply:
                if line.startswith(b"data: {"):
                    delta = json.loads(line[6:])["choices"][0]["delta"]
                    text += delta.get("content") or ""
                    calls += delta.get("tool_calls") or []
        if not calls:
            return f"answered: {text}", talk
        talk += len(text)
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return "gave up", talk


def show(name, base_url):
    Provider.requests = 0
    ended, talk = agent(base_url)
    print(f"{name}: {Provider.requests} requests, {talk:,} characters of talk after the work; it {ended}", flush=True)


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
upstream = f"http://127.0.0.1:{server.server_port}/v1"
show("without a proxy", upstream)

with subprocess.Popen([*COMMAND, "--upstream", upstream, "--port", "0"], stdout=subprocess.PIPE, text=True) as proxy:
    said = proxy.stdout.readline()  # endstop proxy listens at http://127.0.0.1:..., in front of ...
    show("endstop proxy  ", said.split()[4].rstrip(",") + "/v1")
    proxy.terminate()
server.shutdown()
server.server_close()
