"""A receiver of webhooks: a real HTTP server in a thread, whose answers a test chooses."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

Choice = tuple[int, dict[str, str], bytes]


@dataclass
class Taken:
    """One request. `fields`: names in lower case."""

    method: str
    path: str
    fields: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)


class Receiver:
    """`taken`: requests in the order of their arrival. `answer`: chooses status, header fields and content of each answer."""

    def __init__(self, consents: bool = True) -> None:
        self.taken: list[Taken] = []
        self.asked: list[Taken] = []
        self.answer: Callable[[Taken], Choice] = lambda taken: (204, {}, b"")
        self.consents = consents
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _take(self) -> Taken:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                return Taken(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)

            def _say(self, status: int, fields: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_OPTIONS(self) -> None:  # the name that http.server calls
                taken = self._take()
                receiver.asked.append(taken)
                origin = taken.fields.get("webhook-request-origin", "")
                self._say(200, {"webhook-allowed-origin": origin} if receiver.consents else {}, b"")

            def do_POST(self) -> None:  # the name that http.server calls
                taken = self._take()
                receiver.taken.append(taken)
                self._say(*receiver.answer(taken))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the overridden method
                """Print nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def bodies(self) -> list[bytes]:
        """Content of the requests."""
        return [each.body for each in self.taken]
