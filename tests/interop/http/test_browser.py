"""A page in headless Chromium, of another origin than the node: EventSource and WebSocket over kill -9, and a slow reader."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.interop.http.test_streams import send
from tests.interop.node import Node

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        CHROMIUM is None, reason="NO BROWSER WAS RUN: Chromium is not installed (Debian: apt-get install chromium)"
    ),
]

WAIT_S = 120.0
PAGE = """<!doctype html><title>streams</title><script>
const node = "http://127.0.0.1:NODE", path = "/v1/topics/browser:consume?text=true&from=";
const tell = (kind, text) => fetch("/told", {method: "POST", body: JSON.stringify({kind, text})});
const source = new EventSource(node + path + "first");
source.onmessage = event => tell("sse", JSON.parse(event.data).text);
source.onerror = () => tell("lost", String(source.readyState));

let cursor = "first";
function connect() {
  const socket = new WebSocket(node.replace("http", "ws") + path + cursor + "&credit=10");
  socket.onmessage = event => {
    const found = JSON.parse(event.data);
    if (found.cursor) cursor = found.cursor;
    if (found.type === "message") {
      tell("websocket", found.text);
      socket.send(JSON.stringify({type: "credit", messages: 1}));
    }
  };
  socket.onclose = () => setTimeout(connect, 200);
}
connect();

fetch(node + "/v1/topics/large:consume?from=first").then(async answer => {
  const reader = answer.body.getReader();
  const {value} = await reader.read();
  tell("slow", String(value.length));
  window.kept = reader;
});
</script>"""


class Host:
    """The web server of the page, on an origin of its own, which the page tells what it has heard."""

    def __init__(self) -> None:
        self.notified: dict[str, list[str]] = {"sse": [], "websocket": [], "slow": [], "lost": []}
        self.page = b""
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(host.page)

            def do_POST(self) -> None:
                found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                host.notified[found["kind"]].append(found["text"])
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002, the name is the base class's
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"


def until(found: Callable[[], bool], host: Host, what: str) -> None:
    """Wait until something is true."""
    limit = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < limit, (what, {kind: len(texts) for kind, texts in host.notified.items()})
        time.sleep(0.05)


def test_a_page_reconnects_without_a_gap_while_a_slow_reader_costs_little(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    host = Host()
    file = tmp_path / "headgate.toml"
    file.write_text(f'[http]\norigins = ["{host.url}"]\n')
    node = Node(tmp_path / "node", "--config", str(file))
    with node:
        host.page = PAGE.replace("NODE", str(node.port("http"))).encode()
        for _ in range(6):
            send(node, "large", *["x" * 20_000] * 100)
        send(node, "browser", "m0")
        browser = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                f"--user-data-dir={tmp_path / 'profile'}", host.url,
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            until(
                lambda: bool(host.notified["sse"] and host.notified["websocket"] and host.notified["slow"]),
                host,
                "the page is there",
            )
            sent = 1
            for _ in range(2):
                send(node, "browser", *[f"m{at}" for at in range(sent, sent + 20)])
                sent += 20
                node.kill()
                node.start()
                for at in range(sent, sent + 20):
                    send(node, "browser", f"m{at}")
                sent += 20
                found = re.search(r"^headgate_unread_held_bytes (\S+)$", node.admin("/metrics"), re.M)
                assert found is not None
                assert float(found.group(1)) < 1024 * 1024
            until(lambda: min(len(host.notified["sse"]), len(host.notified["websocket"])) >= sent, host, "all came")
            time.sleep(0.5)
            for kind in ("sse", "websocket"):
                assert sorted(host.notified[kind]) == sorted(f"m{at}" for at in range(sent)), kind
            assert host.notified["lost"], "its connection was lost, and made again"
        finally:
            browser.terminate()
            browser.wait(30)
            host.server.shutdown()
