"""The matrix as docs/access.md has it.

python -m tests.simulation.matrix.page     prints the table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.simulation.matrix import coap, grpc, http, mqtt, remoting
from tests.simulation.matrix.operation import OPERATIONS

HEAD = "| Operation | Rights | remoting | gRPC | MQTT | HTTP, CloudEvents, streams | CoAP |\n|---|---|---|---|---|---|---|\n"


def table() -> str:
    """A row for each operation: its rights, and what it is called by each protocol."""
    columns: list[Mapping[str, list[str]]] = [
        _named(remoting.REQUESTS.values()),
        _named(grpc.REQUESTS.values()),
        _named(mqtt.REQUESTS.values()),
        _of_http(),
        _named(coap.ALL),
    ]
    rows = []
    for name, operation in OPERATIONS.items():
        cells = [", ".join(f"`{each}`" for each in column.get(name, ())) for column in columns]
        rows.append(f"| {name} | {operation.rights} | {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def _named(groups: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group in groups:
        for name, request in group.items():
            found.setdefault(request.operation, []).append(name)
    return found


def _of_http() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, requests in http.REQUESTS.items():
        for operation in dict.fromkeys(request.operation for request in requests):
            found.setdefault(operation, []).append(name)
    return found


if __name__ == "__main__":
    print(table(), end="")
