"""curl on one node in one HTTP version."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Final

from tests.interop.node import Node

CURL: Final = shutil.which("curl")
"""Where it is; None: it is not installed."""
VERSIONS: Final = ("--http1.1", "--http2-prior-knowledge")


class Curl:
    """curl on one node in one HTTP version."""

    def __init__(self, node: Node, version: str) -> None:
        self.node = node
        self.version = version
        self.tag = version.strip("-").replace(".", "").replace("-", "")

    def __call__(self, path: str, *arguments: str, content: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        """Send one request -> (status, fields, body); `content` is sent with --data-binary."""
        command = ["curl", "-sS", "--max-time", "20", self.version, "-D", "-", *arguments]
        if content is not None:
            command += ["--data-binary", "@-"]
        command.append(f"http://127.0.0.1:{self.node.port('http')}{path}")
        done = subprocess.run(command, input=content or b"", capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr.decode()
        rest = done.stdout
        while True:
            head, _, rest = rest.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            status = int(lines[0].split(" ")[1])
            if status != 100:
                break
        assert lines[0].startswith("HTTP/2" if "http2" in self.version else "HTTP/1.1")
        return status, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}, rest

    def receive(self, topic: str, query: str = "max=32&wait_ms=5000&invisible_ms=60000") -> list[dict[str, object]]:
        """Messages of `topic` for the group of this HTTP version; empty when there are none."""
        status, _, body = self(f"/v1/groups/g-{self.tag}/topics/{topic}:receive?{query}", "-X", "POST")
        assert status in (200, 204)
        return list(json.loads(body)["messages"]) if status == 200 else []

    def settle(self, verb: str, topic: str, receipts: list[str], **more: object) -> list[dict[str, object]]:
        """Results of `:ack`, `:nack` or `:extend`."""
        content = json.dumps({"receipts": receipts, **more}).encode()
        status, _, body = self(f"/v1/groups/g-{self.tag}/topics/{topic}:{verb}", content=content)
        assert status == 200
        return list(json.loads(body)["results"])
