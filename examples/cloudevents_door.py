"""CloudEvents with the official SDK, in binary and in structured mode: `python -m examples.cloudevents_door [host:port]`."""

from __future__ import annotations

import sys
import urllib.request

from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent


def main(address: str = "127.0.0.1:8080") -> None:
    """Both events are stored in topic `doors`, with their type as tag."""
    attributes = {"type": "com.example.door.opened", "source": "/doors/front", "datacontenttype": "application/json"}
    for mode, message in {
        "binary": to_binary_event(CloudEvent(attributes | {"id": "1"}, {"by": "key"})),
        "structured": to_structured_event(CloudEvent(attributes | {"id": "2"}, {"by": "hand"})),
    }.items():
        request = urllib.request.Request(f"http://{address}/ce/doors", message.body, message.headers, method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            print(f"{mode}: {answer.status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
