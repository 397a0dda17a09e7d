"""The admin port while the node starts: recovery keeps the loop busy, so a thread of its own answers."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from typing import Final, final

from gateway.observe.health import Health
from gateway.runtime.waiting.standby_page import Question, StandbyPage

TIMEOUT_S: Final = 5.0
"""Time that a client has for its request."""


@final
class StartupAdmin:
    """Answers /healthz with 200, /readyz with 503 and /metrics on the bound socket of the admin port, until `stop`."""

    def __init__(self, bound: socket.socket, health: Health, page: StandbyPage | None = None) -> None:
        """`page`: the metrics, once `health` says what a replica does; None: there are none before the node serves."""

        class StartupHandler(http.server.BaseHTTPRequestHandler):
            """Answers one request of a connection."""

            timeout = TIMEOUT_S

            def do_GET(self) -> None:
                """Answer one request and close."""
                if self.path == "/healthz":
                    self._answer(200, health.document())
                elif self.path == "/readyz":
                    self._answer(503, health.readiness())
                elif self.path == "/metrics" and page is not None and health.standby:
                    fields = self.headers
                    asked = Question(fields.get("Authorization", ""), self.client_address[0], fields.get("Host", ""))
                    self._send(*page.read(asked))
                else:
                    self._answer(503, {"reasons": health.reasons()})

            def _answer(self, status: int, document: dict[str, object]) -> None:
                self._send(status, "application/json", json.dumps(document).encode() + b"\n")

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if status == 503:
                    self.send_header("Retry-After", "1")
                elif status == 401:
                    self.send_header("WWW-Authenticate", 'Basic realm="headgate"')
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing: probes come every second."""

        self._server = http.server.ThreadingHTTPServer(bound.getsockname()[:2], StartupHandler, bind_and_activate=False)
        self._server.block_on_close = False  # a client that says nothing must not delay the start
        self._server.socket.close()
        self._server.socket = bound.dup()
        self._server.socket.listen(64)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="headgate-start", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more; connections that wait are taken by who listens next."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
