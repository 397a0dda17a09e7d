"""Requests to the HTTP API of a node or a gateway."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.interop.node import Ports

ANSWER_S: Final = 60.0
LOST: Final = (urllib.error.URLError, http.client.HTTPException, OSError)
"""What a request raises that is refused, or has no answer."""


def request(node: Ports, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """(status, content), also of a refusal. In names of `headers`, `_` stands for `-`."""
    try:
        return _answered(node, method, path, body, headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def call(node: Ports, path: str, content: bytes | Mapping[str, object] = b"", **headers: str) -> Any:
    """A POST of bytes, or of a JSON document -> the JSON of the answer, None without content. Raises LOST."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    text = _answered(node, "POST", path, body, {"Content-Type": "application/json", **headers})[1]
    return json.loads(text) if text else None


def receive(
    node: Ports, group: str, topic: str, most: int = 32, wait_ms: int = 1_000, invisible_ms: int = 60_000
) -> list[dict[str, Any]]:
    """The messages that a group gets, as JSON; [] when there is none after `wait_ms`. Raises LOST."""
    query = f"max={most}&wait_ms={wait_ms}&invisible_ms={invisible_ms}"
    found = call(node, f"/v1/groups/{group}/topics/{topic}:receive?{query}")
    messages: list[dict[str, Any]] = found["messages"] if found else []
    return messages


def acknowledge(node: Ports, group: str, topic: str, receipts: Sequence[str]) -> list[dict[str, Any]]:
    """The result of each receipt. Raises LOST."""
    results: list[dict[str, Any]] = call(node, f"/v1/groups/{group}/topics/{topic}:ack", {"receipts": receipts})["results"]
    return results


def body_of(message: Mapping[str, Any]) -> bytes:
    """The body of a message in JSON."""
    return base64.b64decode(message["body"])


def _answered(node: Ports, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(f"http://127.0.0.1:{node.port('http')}{path}", body, fields, method=method)
    with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
        return answer.status, answer.read()
