"""Round trips of the SDKs: each sends to a node in every content mode that it has, and each receives from its webhooks."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.interop.cloudevents.receiving import Receiving
from tests.interop.node import Node
from tests.interop.webhooks.api import Api, hooked
from tests.interop.webhooks.receiver import Receiver
from tests.interop.workshop import CLIENTS, go_program, java_classpath, jvm, node_scripts
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

SUBJECT = "größe 100%"
PLAIN = "a/b"
"""The subject of events in binary mode: the SDKs do not percent-encode header fields, as the HTTP binding prescribes."""
PATIENCE_S = 90.0
SEND_S = 120.0


@dataclass(frozen=True)
class Sdk:
    """A program that sends and receives with one SDK.

    name      how its events name it
    command   builds it and returns the program with its first arguments
    modes     the ends of the ids of the events that it sends
    said      what it prints for each that was accepted
    """

    name: str
    command: Callable[[], Sequence[str]]
    modes: tuple[str, ...]
    said: str


SDKS = (
    Sdk(
        "js",
        lambda: ("node", str(node_scripts(CLIENTS / "nodejs_cloudevents", "the JavaScript SDK of CloudEvents") / "events.js")),
        ("binary", "structured"),
        "204",
    ),
    Sdk(
        "java",
        lambda: (*jvm(java_classpath(CLIENTS / "java" / "cloudevents", "the Java SDK of CloudEvents")), "Events"),
        ("binary", "json", "protobuf"),
        "204",
    ),
    Sdk(
        "go",
        lambda: (str(go_program(CLIENTS / "go" / "cloudevents", "the Go SDK of CloudEvents")),),
        ("binary", "structured"),
        "true",
    ),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with hooked(tmp_path_factory.mktemp("cloudevents")) as found:
        yield found


def judge(event: dict[str, Any], sender: str, subject: str, count: object = "7") -> None:
    """The event is what its sender made: attributes beyond ASCII, an extension, and data with the sender's own letters.

    `count`: an Integer is a string in header fields, and itself in other forms (CloudEvents 1.0.2, 3.1).
    """
    assert (event["type"], event["subject"]) == ("com.example.sent", subject)
    assert (type(event["count"]), event["count"]) == (type(count), count)
    data = json.loads(event["data"])
    assert data["text"] == "é"
    assert data["from"].lower().startswith(sender[:1])


def attributes(message: HTTPMessage) -> dict[str, Any]:
    """What the Python SDK reads."""
    event = from_http(message, JSONFormat(), CloudEvent)
    data = event.get_data()
    text = data.decode() if isinstance(data, bytes) else data if isinstance(data, str) else json.dumps(data)
    return {
        "id": event.get_id(), "type": event.get_type(), "subject": event.get_subject(), "count": event.get_extension("count"),
        "data": text,
    }  # fmt: skip


@pytest.mark.parametrize("sdk", SDKS, ids=[sdk.name for sdk in SDKS])
def test_what_an_sdk_sends_the_python_sdk_receives(node: Node, sdk: Sdk) -> None:
    command = sdk.command()
    topic = f"sent-by-{sdk.name}"
    with Receiver() as binary, Receiver() as structured:
        api = Api(node)
        api.subscribe(binary.url, topic)
        api.subscribe(structured.url, topic, payload="structured")
        url = f"http://127.0.0.1:{node.port('http')}/ce/{topic}"
        done = subprocess.run([*command, "send", url], capture_output=True, text=True, timeout=SEND_S, check=False)
        assert done.stdout.split() == [sdk.said] * len(sdk.modes), done.stdout + done.stderr
        wanted = {f"{sdk.name}-{mode}" for mode in sdk.modes}
        for receiver in (binary, structured):
            until(lambda taken=receiver.taken: len(taken) >= len(wanted), PATIENCE_S)  # type: ignore[misc]
            found = [attributes(HTTPMessage(each.fields, each.body)) for each in receiver.taken]
            assert {each["id"] for each in found} == wanted
            for each in found:
                in_fields = each["id"].endswith("binary")
                count = "7" if in_fields or receiver is binary else 7
                judge(each, sdk.name, PLAIN if in_fields else SUBJECT, count)


def sent(node: Node, topic: str, message: HTTPMessage) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.port('http')}/ce/{topic}", bytes(message.body), message.headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 204


@pytest.mark.parametrize("sdk", SDKS, ids=[sdk.name for sdk in SDKS])
def test_an_sdk_receives_what_the_python_sdk_sends(node: Node, sdk: Sdk) -> None:
    command = sdk.command()
    topic = f"taken-by-{sdk.name}"
    with Receiving([*command, "receive"]) as binary, Receiving([*command, "receive"]) as structured:
        api = Api(node)
        api.subscribe(binary.url, topic, verify=False)
        api.subscribe(structured.url, topic, payload="structured", verify=False)
        for mode in (to_binary, to_structured):
            named = {
                "specversion": "1.0", "id": f"python-{mode.__name__}", "source": "/python", "type": "com.example.sent",
                "subject": SUBJECT, "time": datetime(2026, 11, 21, 3, tzinfo=UTC), "count": "7",
                "datacontenttype": "application/json",
            }  # fmt: skip
            sent(node, topic, mode(CloudEvent(named, {"from": "Python", "text": "é"}), JSONFormat()))
        wanted = {"python-to_binary", "python-to_structured"}
        for receiver in (binary, structured):
            until(lambda one=receiver: len(one.lines) >= len(wanted), PATIENCE_S, lambda one=receiver: str(one.lines))  # type: ignore[misc]
            found = [json.loads(line) for line in receiver.lines]
            assert {each.get("id") for each in found} == wanted, found
            for each in found:
                # Their readers leave header fields as they are: HTTP binding, 3.1.3.2, has them decoded.
                judge(each, "python", quote(SUBJECT, safe="/") if receiver is binary else SUBJECT)
