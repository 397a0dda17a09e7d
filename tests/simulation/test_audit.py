"""The audit log of a whole node: a line for what an administrator does, whichever door it comes through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.audit.audit_sink import SINK
from protocols.mqtt import property as packets
from protocols.remoting import codes
from tests.simulation.http_caller import HttpCaller
from tests.simulation.matrix import coap, grpc, http, mqtt, remoting
from tests.simulation.matrix.operation import OPERATIONS
from tests.simulation.matrix.place import ROOT, TOPIC_NAME, Person, Place

GUESS = Person("root", "guess")


class Audited:
    """A node and the lines of its audit log, from when it was furnished on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        monkeypatch.setattr(SINK, "write", self.texts.append)
        self.place = Place()
        self.texts.clear()

    def lines(self, **wanted: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [json.loads(text) for text in self.texts]
        return [line for line in found if all(line.get(name) == value for name, value in wanted.items())]


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Audited:
    return Audited(monkeypatch)


def test_users_rights_contexts_and_subscriptions_by_http(audited: Audited) -> None:
    caller = HttpCaller(audited.place.world)

    def ask(method: str, target: str, content: dict[str, object] | None = None) -> int:
        body = b"" if content is None else json.dumps(content).encode()
        return int(caller.ask(method, target, body, more={**ROOT.fields, "content-type": "application/json"})[0])

    policy: dict[str, object] = {"resource": "Topic:a", "actions": ["Pub"]}
    context: dict[str, object] = {"device_id": "01", "node_id": "", "secret": "0badc0de" * 4, "id_context": "00000001"}
    asked: tuple[tuple[str, str, dict[str, object] | None], ...] = (
        ("POST", "/v1/users/ann", {"password": "wonderland"}), ("PATCH", "/v1/users/ann", {"password": "another-one"}),
        ("PUT", "/v1/users/ann/policies", policy), ("PUT", "/v1/users/ann/oscore", context),
        ("PUT", "/v1/topics/made", {"retention_ms": 3_600_000}), ("PUT", "/v1/groups/made", {"retry_max": 5}),
        ("DELETE", "/v1/topics/made", None), ("DELETE", f"/subscriptions/{audited.place.subscription(ROOT)}", None),
        ("DELETE", "/v1/users/ann", None),
    )  # fmt: skip
    for method, target, content in asked:
        assert ask(method, target, content) in (200, 201, 204), (method, target)
    assert ask("POST", "/v1/users/root", {"password": "wonderland"}) in (400, 409, 422), "there is one"
    changes = audited.lines(event="change")
    assert " ".join(line["action"] for line in changes) == (
        "subscription.put user.create user.update policies.put context.put topic.change group.put topic.delete "
        "subscription.delete user.delete user.create"
    )
    assert {line["outcome"] for line in changes[:-1]} == {"ok"}
    assert changes[-1]["outcome"] == "argument-illegal"
    assert {(line["user"], line["protocol"], line["from"]) for line in changes} == {("root", "http", "10.0.0.7")}
    assert not any(secret in "".join(audited.texts) for secret in ("wonderland", "another-one", "0badc0de", ROOT.password))


def test_changes_by_remoting_which_mqadmin_and_the_command_line_speak(audited: Audited) -> None:
    place = audited.place
    assert remoting.Remoting(place).ask(next(iter(remoting.REQUESTS[codes.DELETE_USER].values())), ROOT) == "done"
    place.root.topic("made-by-mqadmin", 1)
    users = audited.lines(event="change", action="user.delete", protocol="remoting")
    assert [line["outcome"] for line in users] == ["ok"]
    topics = audited.lines(event="change", action="topic.change", protocol="remoting")
    assert topics[-1]["target"]["topic"] == "made-by-mqadmin"
    assert topics[-1]["user"] == "root"


@pytest.mark.parametrize("door", ["HTTP", "MQTT", "gRPC", "remoting"])
def test_wrong_passwords_and_refusals_have_a_line_by_every_door(audited: Audited, door: str) -> None:
    place = audited.place
    doors: dict[str, Callable[[], tuple[Any, Any]]] = {
        "HTTP": lambda: (http.Http(place, "1.1"), http.REQUESTS["POST /v1/topics/{path…}/messages"][0]),
        "MQTT": lambda: (mqtt.Mqtt(place, 5), mqtt.REQUESTS[packets.PUBLISH]["PUBLISH at QoS 1"]),
        "gRPC": lambda: (grpc.Grpc(place), next(iter(grpc.REQUESTS["SendMessage"].values()))),
        "remoting": lambda: (remoting.Remoting(place), next(iter(remoting.REQUESTS[codes.SEND_V2].values()))),
    }
    asks, request = doors[door]()
    bob = place.person([])
    audited.texts.clear()
    for _ in range(3):
        asks.ask(request, GUESS)
        asks.ask(request, bob)
    wrong = audited.lines(event="login", user="root", outcome="not-authenticated")
    assert [line["outcome"] for line in wrong] == ["not-authenticated"], "the first of its kind"
    assert audited.lines(event="login", user=bob.name)[0]["outcome"] == "ok"
    [denied] = audited.lines(event="refusal", user=bob.name)
    assert (denied["action"], denied["outcome"]) in {("Send", "not-allowed"), ("SendOnce", "not-allowed")}
    assert TOPIC_NAME in denied["detail"]
    place.world.clock.run_for(1_201_000)
    counts = [line for line in audited.lines(event="login", user="root", outcome="not-authenticated") if "count" in line]
    assert [line["count"] for line in counts] == [2]
    assert GUESS.password not in "".join(audited.texts)


def test_a_refusal_of_coap_has_a_line(audited: Audited) -> None:
    place = audited.place
    stranger = place.with_all_but(OPERATIONS["read the latest value"].needs[0])
    request = next(each for group in coap.ALL for each in group.values() if each.operation == "read the latest value")
    assert coap.Coap(place, "UDP").ask(request, stranger) == "4.03"
    assert audited.lines(event="refusal", user=stranger.name)[0]["protocol"].startswith("coap")
