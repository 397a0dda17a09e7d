"""A real node as the target of events and WebHooks: rules over source and type, TLS, consent by callback, large events."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.webhooks.api import Api, hooked
from tests.interop.webhooks.receiver import Receiver
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS = """
[http]
webhook_rate = 60
webhook_callbacks = ["127.0.0.1"]
[[http.event_routes]]
source = "/shop/*"
type = "order.made"
topic = "routed-orders"
[[http.event_routes]]
type = "alarm.*"
topic = "routed-alarms/all"
[proxy]
peers = ["127.0.0.1"]
"""
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/me", "ce-type": "t", "content-type": "text/plain"}
FAR = b"PROXY TCP4 203.0.113.9 203.0.113.10 4711 443\r\n"
"""As if the connection came from another machine."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with hooked(tmp_path_factory.mktemp("receiving"), "--admin", "root:a-long-password", lines=SETTINGS) as found:
        yield found


@pytest.fixture
def api(node: Node) -> Api:
    return Api(node, "root:a-long-password")


def event(identity: str, source: str, kind: str) -> dict[str, str]:
    """An event in JSON."""
    return {"specversion": "1.0", "id": identity, "source": source, "type": kind}


def ids(api: Api, topic: str) -> set[str]:
    """Ids of the events of a topic."""
    found: set[str] = set()
    _, queues = api.call("GET", f"/v1/topics/{topic}/queues")
    for each in queues["queues"]:
        _, read = api.call("GET", f"/v1/topics/{topic}/queues/{each['queue']}?offset=0&max=32")
        found |= {message["attributes"]["id"] for message in read["messages"]}
    return found


def test_events_are_routed_by_source_and_type(api: Api) -> None:
    batch = [
        event("1", "/shop/7", "order.made"), event("2", "/shop/7", "order.paid"), event("3", "/x", "alarm.fire"),
        event("4", "/shop/7", "alarm.theft"), event("5", "/shop/8", "order.made"),
    ]  # fmt: skip
    kind = "application/cloudevents-batch+json"
    status, found = api.call("POST", "/", json.dumps(batch).encode(), content_type=kind)
    assert (status, [each["status"] for each in found["results"]]) == (207, [200, 404, 200, 200, 200])
    assert (ids(api, "routed-orders"), ids(api, "routed-alarms")) == ({"1", "5"}, {"3", "4"})
    status, found = api.call("POST", "/", b"x", **{name.replace("-", "_"): value for name, value in EVENT.items()})
    assert (status, found["code"]) == (404, "topic-not-found")


def test_a_large_event_is_taken_and_delivered(api: Api) -> None:
    """HTTP binding, 3: 64 KiB and more pass."""
    data = bytes(range(256)) * 4_096
    fields = {name.replace("-", "_"): value for name, value in EVENT.items()}
    with Receiver() as receiver:
        for payload in ("binary", "structured"):
            api.subscribe(f"{receiver.url}/{payload}", "large-events", verify=False, payload=payload)
        assert api.call("POST", "/ce/large-events", data, **{**fields, "content_type": "application/x-own"})[0] == 204
        until(lambda: len(receiver.taken) >= 2, 60)
        found = {each.path: each for each in receiver.taken}
        assert found["/binary"].body == data
        assert json.loads(found["/structured"].body)["id"] == "1"


def ask(node: Node, method: str, target: str, fields: dict[str, str], secure: bool, far: bool) -> http.client.HTTPResponse:
    """One request, inside TLS or not, from this machine or behind a proxy's header."""
    stream = socket.create_connection(("127.0.0.1", node.port("http")), timeout=30)
    if far:
        stream.sendall(FAR)
    if secure:
        context = ssl._create_unverified_context()  # the node has made its certificate itself
        stream = context.wrap_socket(stream, server_hostname="localhost")
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    body = b"x" if method == "POST" else b""
    request = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    stream.sendall(request.encode() + body)
    answer = http.client.HTTPResponse(stream)
    answer.begin()
    answer.read()
    stream.close()
    return answer


AUTHORIZED = {"Authorization": "Basic cm9vdDphLWxvbmctcGFzc3dvcmQ="}
DELIVERY = {**EVENT, **AUTHORIZED, "WebHook-Request-Origin": "a.example"}


@pytest.mark.parametrize(
    ("secure", "far", "status"), [(True, True, 204), (True, False, 204), (False, False, 204), (False, True, 403)]
)
def test_a_delivery_inside_tls_is_taken(node: Node, secure: bool, far: bool, status: int) -> None:
    """HTTP WebHook, 2.1: and no other one from another machine; a handshake gets no consent there."""
    assert ask(node, "POST", "/ce/secured", DELIVERY, secure, far).status == status
    assert ask(node, "POST", "/ce/secured", {**EVENT, **AUTHORIZED}, secure, far).status == 204
    asked = ask(node, "OPTIONS", "/ce/secured", {"WebHook-Request-Origin": "a.example"}, secure, far)
    consent = (asked.getheader("webhook-allowed-origin"), asked.getheader("webhook-allowed-rate"))
    assert (asked.status, consent) == (204, ("a.example", "60") if status == 204 else (None, None))


def test_a_token_of_the_query_is_in_no_log(node: Node) -> None:
    for target in ("/ce/t?access_token=forged-secret", "/?access_token=forged-secret"):
        assert ask(node, "POST", target, EVENT, True, True).status == 401
        assert ask(node, "POST", target, EVENT, False, True).status == 403
    assert "forged-secret" not in node.text()


def test_a_target_that_was_deleted_is_gone_for_deliveries(tmp_path: Path) -> None:
    """HTTP WebHook 1.0.2, 2.2; a sender of ours suspends its subscription then. Producers make the topic again as ever."""
    delivery = {**EVENT, "webhook-request-origin": "shop.example"}
    node = Node(tmp_path)
    node.start()
    try:
        api = Api(node)
        assert api.call("POST", "/ce/retired", b"x", **delivery)[0] == 204, "a new target is made"
        assert api.call("DELETE", "/v1/topics/retired")[0] == 204
        status, problem = api.call("POST", "/ce/retired/eu", b"x", **delivery)
        assert (status, problem["code"]) == (410, "topic-deleted")
        batch = {"webhook-request-origin": "shop.example", "content-type": "application/cloudevents-batch+json"}
        told = [{"id": "2", "source": "/s", "type": "t", "specversion": "1.0"}]
        status, answer = api.call("POST", "/ce/retired", told, **batch)
        assert [each["status"] for each in answer["results"]] == [410]
        node.kill()
        node.start()
        assert api.call("POST", "/ce/retired", b"x", **delivery)[0] == 410, "after a restart, too"
        assert api.call("POST", "/ce/retired", b"x", **EVENT)[0] == 204
        assert api.call("POST", "/ce/retired", b"x", **delivery)[0] == 204
        assert api.call("DELETE", "/v1/topics/retired")[0] == 204
        assert api.call("PUT", "/v1/topics/retired", {})[0] in (200, 201, 204)
        assert api.call("POST", "/ce/retired", b"x", **delivery)[0] == 204
    finally:
        node.kill()


def test_consent_is_sent_to_a_callback(node: Node) -> None:
    """HTTP WebHook, 4.1.3: with a POST, to a host of the setting, over the courier of deliveries; then not in the answer."""
    with Receiver() as receiver:
        asked = {"WebHook-Request-Origin": "a.example", "WebHook-Request-Callback": f"{receiver.url}/confirm?id=1&key=c2VjcmV0"}
        answer = ask(node, "OPTIONS", "/ce/t", asked, False, False)
        assert (answer.status, answer.getheader("allow")) == (204, "OPTIONS, POST")
        assert answer.getheader("webhook-allowed-origin") is None
        until(lambda: bool(receiver.taken), 60)
        (taken,) = receiver.taken
        assert (taken.path, taken.body) == ("/confirm?id=1&key=c2VjcmV0", b"")
        assert (taken.fields["webhook-allowed-origin"], taken.fields["webhook-allowed-rate"]) == ("a.example", "60")
        # A host that is not on the list is not called, whatever its spelling: the answer has the consent.
        asked["WebHook-Request-Callback"] = receiver.url.replace("127.0.0.1", "localhost")
        assert ask(node, "OPTIONS", "/ce/t", asked, False, False).getheader("webhook-allowed-origin") == "a.example"
        until(lambda: "webhook_consents_sent_total 1" in node.admin("/metrics"), 60)
        assert len(receiver.taken) == 1
    assert "c2VjcmV0" not in node.text()


def test_a_subscription_is_granted_by_its_callback(tmp_path: Path) -> None:
    """The node asks itself as a sink, which consents at the callback URL: both sides of WebHook 4.1.3 over real sockets."""
    config = tmp_path / "headgate.toml"
    node = Node(tmp_path, "--config", str(config))
    node.choose_ports()
    url = f"http://127.0.0.1:{node.port('http')}"
    config.write_text(
        f'[webhook]\nallow = ["127.0.0.0/8"]\ncallback = "{url}"\n'
        '[http]\nwebhook_callbacks = ["127.0.0.1"]\nwebhook_rate = 6000\n'
    )  # fmt: skip
    with node:
        api = Api(node)
        identity = api.subscribe(f"{url}/ce/granted", "asking")
        until(lambda: api.status(identity)[0] == "active", 60)
        fields = {name.replace("-", "_"): value for name, value in EVENT.items()}
        assert api.call("POST", "/ce/asking", b"x", **fields)[0] == 204
        until(lambda: api.call("GET", "/v1/topics/granted")[0] == 200 and ids(api, "granted") == {"1"}, 60)
        # Without the key, or with another one, nobody consents; and an id that is not there is answered alike.
        for target in (f"{identity}:consent", f"{identity}:consent?key=0", "unknown:consent?key=0"):
            for method in ("GET", "POST"):
                status, found = api.call(method, f"/subscriptions/{target}")
                assert (status, found["code"]) == (404, "subscription-not-found")
        _, shown = api.call("GET", f"/subscriptions/{identity}")
        assert "consent" not in json.dumps(shown)
