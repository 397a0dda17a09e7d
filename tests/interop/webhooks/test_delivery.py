"""Webhooks out of a real node to a real receiver: delivery, failures, repair, kill -9, signatures."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloudevents.v1.http import from_http
from standardwebhooks import Webhook, WebhookVerificationError

from protocols.cloudevents import formats, http
from tests.interop.node import Node
from tests.interop.webhooks.api import Api, hooked
from tests.interop.webhooks.receiver import Receiver, Taken
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
SECRETS = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with hooked(tmp_path_factory.mktemp("webhooks")) as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


def ask(seconds: float, condition: Any, said: Any = lambda: "") -> None:
    until(condition, seconds, said)


def test_one_curl_subscribes_and_one_delivers(node: Node, receiver: Receiver) -> None:
    document = {"source": "curled", "sink": f"{receiver.url}/hook", "protocol": "HTTP"}
    url = f"http://127.0.0.1:{node.port('http')}"
    made = subprocess.run(
        ["curl", "-s", "-S", "--fail", f"{url}/subscriptions", "-d", json.dumps(document)], capture_output=True, check=True
    )
    identity = json.loads(made.stdout)["id"]
    subprocess.run(
        [
            "curl", "-s", "-S", "--fail", f"{url}/ce/curled", "-H", "ce-id: 1", "-H", "ce-source: /me", "-H", "ce-type: made",
            "-H", "ce-specversion: 1.0", "-H", "content-type: application/json", "-d", '{"n":1}',
        ],
        check=True,
    )  # fmt: skip
    ask(30, lambda: receiver.taken)
    taken = receiver.taken[0]
    event = from_http(taken.fields, taken.body)
    assert (event["id"], event["source"], event["type"], event.data) == ("1", "/me", "made", {"n": 1})
    assert receiver.asked[0].fields["webhook-request-origin"] == "headgate"
    assert taken.fields["webhook-request-origin"] == "headgate"
    api = Api(node)
    ask(10, lambda: api.attempts(identity))
    assert api.status(identity) == ("active", "")
    (attempt,) = api.attempts(identity)
    assert (attempt["status"], attempt["outcome"], attempt["number"]) == (204, "delivered", 1)
    assert api.call("DELETE", f"/subscriptions/{identity}")[0] == 204
    assert api.call("GET", f"/subscriptions/{identity}")[0] == 404


def test_what_is_sent_right_after_the_answer_is_delivered(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    api.send(b"before", "right-after")
    api.subscribe(receiver.url, "right-after", verify=False)
    for number in range(50):
        api.send(b"%d" % number, "right-after")
    ask(30, lambda: len(receiver.taken) >= 50)
    assert sorted(receiver.bodies()) == sorted(b"%d" % number for number in range(50))


def test_failures_are_retried_then_dead_letters_and_redriven(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    receiver.answer = lambda taken: (500, {}, b"not yet" * 1_000) if taken.body == b"bad" else (200, {}, b"")
    identity = api.subscribe(receiver.url, "failing", retry=2, backoffDelay="PT0.1S", verify=False)
    api.send(b"bad", "failing", mq_prop_colour="red")
    api.send(b"good", "failing")
    ask(30, lambda: any(each["outcome"] == "dead-letter" for each in api.attempts(identity)))
    tries = [each for each in reversed(api.attempts(identity)) if each["status"] == 500]
    assert [each["number"] for each in tries] == [1, 2, 3]
    assert [each["outcome"] for each in tries] == ["retried", "retried", "dead-letter"]
    assert all(len(each["answer"]) == 1_024 for each in tries)
    assert len({each.fields["webhook-id"] for each in receiver.taken if each.body == b"bad"}) == 1
    group = f"webhook_{identity}"
    status, found = api.call("GET", f"/v1/topics/%25DLQ%25{group}/queues/0?offset=0&max=10")
    assert status == 200
    assert found["messages"][0]["properties"]["knativeerrorcode"] == "500"
    receiver.answer = lambda taken: (200, {}, b"")
    assert api.call("POST", f"/subscriptions/{identity}:redrive")[1] == {"redriven": 1}
    ask(30, lambda: receiver.bodies().count(b"bad") == 4)
    assert api.call("POST", f"/subscriptions/{identity}:redrive")[1] == {"redriven": 0}
    again = [each for each in receiver.taken if each.body == b"bad"][-1]
    assert again.fields["ce-source"] == "/topics/failing"


def test_pause_resume_test_and_410(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    identity = api.subscribe(receiver.url, "paused", verify=False)
    assert api.call("POST", f"/subscriptions/{identity}:pause")[1]["status"] == "paused"
    api.send(b"waits", "paused")
    status, found = api.call("POST", f"/subscriptions/{identity}:test")
    assert (status, found["attempts"][0]["outcome"]) == (200, "delivered")
    assert [each.fields["ce-type"] for each in receiver.taken] == ["io.headgate.test"]
    api.call("POST", f"/subscriptions/{identity}:resume")
    ask(30, lambda: b"waits" in receiver.bodies())
    receiver.answer = lambda taken: (410, {}, b"")
    api.send(b"gone", "paused")
    ask(30, lambda: api.status(identity)[0] == "suspended")
    assert "410" in api.status(identity)[1]
    receiver.answer = lambda taken: (200, {}, b"")
    api.call("POST", f"/subscriptions/{identity}:resume")
    ask(30, lambda: receiver.bodies().count(b"gone") == 2)


def test_no_consent_suspends(node: Node) -> None:
    api = Api(node)
    with Receiver(consents=False) as receiver:
        identity = api.subscribe(receiver.url, "unasked")
        api.send(b"x", "unasked")
        ask(30, lambda: api.status(identity)[0] == "suspended")
        assert "does not consent" in api.status(identity)[1]
        assert receiver.taken == []


@pytest.mark.parametrize("sink", ["http://10.0.0.1/", "http://[::1]:1/", "https://[::ffff:10.0.0.1]/"])
def test_addresses_that_are_not_allowed_are_refused_at_once(node: Node, receiver: Receiver, sink: str) -> None:
    api = Api(node)
    document = {"source": "elsewhere", "sink": sink, "protocol": "HTTP", "config": {"verify": False}}
    status, found = api.call("POST", "/subscriptions", document)
    assert (status, found["member"]) == (400, "sink")
    assert "[webhook] allow" in found["detail"]
    identity = api.subscribe(receiver.url, "elsewhere", verify=False)
    assert api.call("PUT", f"/subscriptions/{identity}", document)[0] == 400
    assert api.call("GET", f"/subscriptions/{identity}")[1]["sink"] == receiver.url


def test_what_was_allowed_before_a_change_of_the_setting_is_suspended(tmp_path: Path, receiver: Receiver) -> None:
    node = hooked(tmp_path)
    with node:
        identity = Api(node).subscribe(receiver.url, "moved", verify=False)
    (tmp_path / "headgate.toml").write_text('[webhook]\nallow = ["10.0.0.0/8"]\n')
    with node:
        api = Api(node)
        api.send(b"x", "moved")
        ask(60, lambda: api.status(identity)[0] == "suspended")
        assert "[webhook] allow" in api.status(identity)[1]
        assert receiver.taken == []


def test_standard_webhooks_verify_over_a_rotation(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    old, new = SECRETS
    document: dict[str, Any] = {"source": "signed", "sink": receiver.url, "protocol": "HTTP", "config": {"verify": False}}
    document["sinkcredential"] = {"type": "standardwebhooks", "secret": old}
    status, found = api.call("POST", "/subscriptions", document)
    assert status == 201
    assert "whsec" not in json.dumps(found)
    api.send(b'{"n":1}', "signed")
    ask(30, lambda: len(receiver.taken) == 1)
    document["sinkcredential"] = {"type": "standardwebhooks", "secret": new, "previous": old}
    status, found = api.call("PUT", f"/subscriptions/{found['id']}", document)
    assert status == 200, found

    def signed_anew() -> bool:
        """The process that delivers hears of the change a moment later."""
        api.send(b'{"n":2}', "signed")
        ask(30, lambda: len(receiver.taken) > 1)
        return len(receiver.taken[-1].fields["webhook-signature"].split()) == 2

    ask(30, signed_anew)
    one, two = receiver.taken[0], receiver.taken[-1]
    Webhook(old).verify(one.body, one.fields)
    Webhook(old).verify(two.body, two.fields)
    Webhook(new).verify(two.body, two.fields)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(one.body, one.fields)
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(one.body + b"x", one.fields)
    assert "whsec" not in node.text()


def test_forms_of_delivery(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    for payload in ("structured", "batched", "raw"):
        api.subscribe(f"{receiver.url}/{payload}", "forms", verify=False, payload=payload)
    api.send(b'{"a":1}', "forms", content_type="application/json")
    ask(30, lambda: len(receiver.taken) == 3)
    found = {each.path: each for each in receiver.taken}
    assert from_http(found["/structured"].fields, found["/structured"].body).data == {"a": 1}
    (event,) = json.loads(found["/batched"].body)
    assert event["type"] == "io.headgate.message"
    assert event["data"] == {"a": 1}
    raw = found["/raw"]
    assert (raw.body, raw.fields["content-type"], raw.fields["mq-topic"]) == (b'{"a":1}', "application/json", "forms")


def test_events_are_delivered_in_each_format(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    kinds = {
        ("structured", "protobuf"): b"application/cloudevents+protobuf",
        ("structured", "avro"): b"application/cloudevents+avro",
        ("batched", "protobuf"): b"application/cloudevents-batch+protobuf",
    }
    for payload, form in kinds:
        api.subscribe(f"{receiver.url}/{payload}/{form}", "formats", verify=False, payload=payload, format=form)
    api.send(b"\x00\x01", "formats", content_type="application/x-own")
    ask(30, lambda: len(receiver.taken) == 3)
    found = {each.path: each for each in receiver.taken}
    for (payload, form), kind in kinds.items():
        taken = found[f"/{payload}/{form}"]
        assert taken.fields["content-type"].encode() == kind
        content = [taken.body]
        if payload == "batched":
            content = []
            list(formats.elements(http.BATCH_PROTOBUF, taken.body, 1, content))
        event = formats.decode(http.MODES[kind.replace(b"-batch", b"")], content[0])
        assert (event.attributes[b"type"], event.attributes[b"source"]) == (b"io.headgate.message", b"/topics/formats")
        assert (event.attributes[b"datacontenttype"], event.data) == (b"application/x-own", b"\x00\x01")


def test_filters_choose(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    document = {
        "source": "rooms/+/temp", "sink": receiver.url, "protocol": "HTTP", "config": {"verify": False},
        "filters": [{"any": [{"exact": {"subject": "rooms/1/temp"}}, {"sql": "subject LIKE 'rooms/2%'"}]}],
    }  # fmt: skip
    assert api.call("POST", "/subscriptions", document)[0] == 201
    for room in (1, 2, 3):
        api.send(b"%d" % room, f"rooms/{room}/temp")
        api.send(b"no", f"rooms/{room}/light")
    ask(30, lambda: len(receiver.taken) == 2)
    assert sorted(receiver.bodies()) == [b"1", b"2"]


def test_a_source_that_begins_with_a_wildcard_reads_every_topic(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path) as node:
        api = Api(node)
        api.send(b"before", "first/temp")
        api.subscribe(receiver.url, "+/temp", verify=False)
        for topic in ("first/temp", "later/temp", "later/light", "later/a/temp"):
            api.send(topic.encode(), topic)
        ask(60, lambda: len(receiver.taken) >= 2, receiver.bodies)
        assert sorted(receiver.bodies()) == [b"first/temp", b"later/temp"]
        assert sorted(each.fields["ce-subject"] for each in receiver.taken) == ["first/temp", "later/temp"]


def test_dead_letters_in_a_topic_of_ones_own_are_redriven_to_the_subscription_that_they_are_of(
    node: Node, receiver: Receiver
) -> None:  # fmt: skip
    api = Api(node)
    receiver.answer = lambda taken: (404, {}, b"")
    one = api.subscribe(f"{receiver.url}/one", "graved", verify=False, retry=0, deadLetterTopic="graves")
    other = api.subscribe(f"{receiver.url}/other", "graved", verify=False, retry=0, deadLetterTopic="graves")
    for number in range(10):
        api.send(b"%d" % number, "graved")
    ask(60, lambda: len(receiver.taken) == 20)
    receiver.answer = lambda taken: (204, {}, b"")
    given: list[int] = []

    def redriven() -> bool:
        given.append(int(api.call("POST", f"/subscriptions/{one}:redrive")[1]["redriven"]))
        return sum(given) == 10

    ask(60, redriven, lambda: given)
    ask(60, lambda: len(receiver.taken) == 30)
    assert {each.path for each in receiver.taken[20:]} == {"/one"}
    assert {each["outcome"] for each in api.attempts(other)} == {"dead-letter"}


def test_a_reply_that_is_an_event_is_published(node: Node, receiver: Receiver) -> None:
    api = Api(node)
    fields = {"ce-id": "r1", "ce-source": "/sink", "ce-type": "reply", "ce-specversion": "1.0", "content-type": "text/plain"}
    receiver.answer = lambda taken: (200, fields, b"done")
    api.subscribe(receiver.url, "asked", verify=False, replyTopic="answers")
    api.send(b"x", "asked")

    def replied() -> bool:
        found = api.call("POST", "/v1/groups/r/topics/answers:receive?max=1&wait_ms=500")[1]
        return isinstance(found, dict) and bool(found.get("messages")) and found["messages"][0]["attributes"]["id"] == "r1"

    ask(30, replied)


def test_subscriptions_survive_kill_9(tmp_path: Path, receiver: Receiver) -> None:
    node = hooked(tmp_path)
    node.start()
    try:
        api = Api(node)
        held = threading.Event()

        def slow(taken: Taken) -> tuple[int, dict[str, str], bytes]:
            held.wait(20)
            return 200, {}, b""

        receiver.answer = slow
        identity = api.subscribe(receiver.url, "killed", concurrency=2, timeout="PT5S")
        for number in range(20):
            api.send(b"%d" % number, "killed")
        ask(30, lambda: len(receiver.taken) == 2)
        node.kill()
        held.set()
        node.start()
        ask(90, lambda: len(set(receiver.bodies())) == 20, lambda: f"{sorted(receiver.bodies())}")
        assert api.status(identity)[0] == "active"
    finally:
        node.stop()
