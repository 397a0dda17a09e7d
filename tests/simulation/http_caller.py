"""A blocking HTTP/1.1 client: one connection, one request after the other."""

from __future__ import annotations

import json
from typing import Any

from tests.simulation.kit.links import Link
from tests.simulation.world import World


class HttpCaller:
    """An HTTP client. After its connection is lost it connects again with the next request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.link: Link | None = None
        self._data = b""

    def connected(self, link: Link) -> None:
        self.link, self._data = link, b""

    def lost(self) -> None:
        self.link = None

    def received(self, data: bytes) -> None:
        self._data += data

    def ask(
        self, method: str, target: str, body: bytes = b"", accept: str = "*/*", more: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request and wait for the answer. Returns (status, header fields with names in lower case, content)."""
        if self.link is None:
            self.world.dial("http", self)
            self.world.clock.run_until(lambda: self.link is not None)
        assert self.link is not None
        lines = {"host": "sim", "accept": accept, "content-length": str(len(body)), **(more or {})}
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        self._data = b""
        self.link.send(head.encode() + body)
        self.world.clock.run_until(self._whole)
        start, _, content = self._data.partition(b"\r\n\r\n")
        first, *answered = start.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in answered)}
        return int(first.split()[1]), fields, content

    def content(self) -> bytes:
        """What has come of the content of the last answer, as it is on the wire."""
        return self._data.partition(b"\r\n\r\n")[2]

    def _whole(self) -> bool:
        start, end, content = self._data.partition(b"\r\n\r\n")
        if not end:
            return False
        sizes = [line.partition(b":")[2] for line in start.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        return len(content) >= (int(sizes[0]) if sizes else 0)

    def receive(self, group: str, topic: str, most: int = 32) -> list[dict[str, Any]]:
        """Receive up to `most` messages. Returns their JSON documents."""
        status, _, content = self.ask("POST", f"/v1/groups/{group}/topics/{topic}:receive?max={most}")
        assert status in (200, 204), content
        found: list[dict[str, Any]] = json.loads(content)["messages"] if content else []
        return found
