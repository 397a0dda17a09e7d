"""The HTTP API as a webhook user calls it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.interop.node import Node, Ports


def hooked(folder: Path, *options: str, lines: str = "") -> Node:
    """A node whose sinks may be on loopback."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "headgate.toml"
    config.write_text(f'[webhook]\nallow = ["127.0.0.0/8"]\n{lines}')
    return Node(folder, "--config", str(config), *options)


class Api:
    """Calls of one user. `key`: `NAME:PASSWORD`."""

    def __init__(self, node: Ports, key: str = "") -> None:
        self._node = node
        self._key = key

    def call(self, method: str, path: str, body: object = None, **fields: str) -> tuple[int, Any]:
        """(status, JSON or bytes of the answer)."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._node.port('http')}{path}", data, method=method)
        for name, value in fields.items():
            request.add_header(name.replace("_", "-"), value)
        if self._key:
            import base64

            request.add_header("Authorization", "Basic " + base64.b64encode(self._key.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found = answer.read()
                return answer.status, json.loads(found) if found[:1] in (b"{", b"[") else found
        except urllib.error.HTTPError as error:
            found = error.read()
            return error.code, json.loads(found) if found[:1] == b"{" else found

    def subscribe(self, sink: str, source: str = "orders", credential: dict[str, str] | None = None, **config: Any) -> str:
        """The id of a new subscription."""
        document: dict[str, Any] = {"source": source, "sink": sink, "protocol": "HTTP", "config": config}
        if credential is not None:
            document["sinkcredential"] = credential
        status, found = self.call("POST", "/subscriptions", document)
        assert status == 201, found
        return str(found["id"])

    def send(self, body: bytes, topic: str = "orders", **fields: str) -> None:
        """One acknowledged message."""
        status, found = self.call("POST", f"/v1/topics/{topic}/messages", body, **fields)
        assert status == 201, found

    def status(self, identity: str) -> tuple[str, str]:
        """(status, reason) of a subscription."""
        found = self.call("GET", f"/subscriptions/{identity}")[1]
        return found["status"], found.get("reason", "")

    def attempts(self, identity: str) -> list[dict[str, Any]]:
        """Attempts, the newest first."""
        return list(self.call("GET", f"/subscriptions/{identity}/attempts")[1]["attempts"])
