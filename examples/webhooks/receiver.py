"""A receiver of webhooks: consents, checks signatures, refuses what says so, and prints what it takes.

    python -m examples.webhooks.receiver 9000 whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

A request with "fail" in its content is answered 500 until the receiver gets POST /mend.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOLERANCE_S = 300
"""A signature that is older, or from further ahead, is refused: it may have been recorded."""


def is_signed(secret: str, fields: Any, body: bytes) -> bool:
    """Whether a request has a signature of Standard Webhooks by this secret."""
    stamp = fields.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE_S:
        return False
    signed = f"{fields['webhook-id']}.{stamp}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(each, wanted) for each in fields.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    secret = ""
    mended = False

    def do_OPTIONS(self) -> None:
        """The handshake: whoever asks may send."""
        self.send_response(200)
        self.send_header("WebHook-Allowed-Origin", self.headers.get("WebHook-Request-Origin", "*"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """One event in binary mode: attributes in `ce-` fields, data in the content."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        status = 204
        if self.path == "/mend":
            Receiver.mended = True
        elif self.secret and not is_signed(self.secret, self.headers, body):
            status = 401
        elif b"fail" in body and not self.mended:
            status = 500
        print(f"{status} {self.headers.get('ce-type', self.path)} {body.decode('utf-8', 'replace')}", flush=True)
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """`do_POST` prints what there is to say."""


if __name__ == "__main__":
    Receiver.secret = sys.argv[2] if len(sys.argv) > 2 else ""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listens on {server.server_address[1]}", flush=True)
    server.serve_forever()
