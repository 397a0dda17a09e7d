"""Rights on topics of the publish-subscribe draft are those on their paths: Pub changes, Pub or Sub reads, Sub subscribes."""

from __future__ import annotations

import pytest

from domain.access.access import AccessPolicy, Password, User
from domain.message.record import Record
from gateway.node.settings import Config
from protocols.coap.message import cbor, message, option
from tests.gateway.pubsub.book import book_of
from tests.protocols.coap.broker import Broker, Device
from tests.protocols.coap.pubsub.test_topics import KIND, OBSERVE, PUBSUB, code, create, links, made, publish, subscribe


class Guarded(Broker):
    """A node with access control and users: publisher, subscriber, stranger."""

    def __init__(self) -> None:
        super().__init__(Config(admin="root:secret", tables={"coap": {"amplification": 0}}))
        assert self.parts.access_records is not None
        records = self.records = self.parts.access_records
        for name, rights in (("publisher", ("Pub",)), ("subscriber", ("Sub",)), ("stranger", ())):
            records.put_user(User(name, f"{name} secret"), lambda _: None)
            if rights:
                records.put_policies(name, [AccessPolicy("Topic:field", rights)], lambda _: None)
        self.devices.run(50)

    def user(self, name: str) -> Device:
        """A device with the session of a user."""
        port = 50_000 + sum(name.encode())
        return self.devices.device(port, credentials=Password(name, f"{name} secret".encode()))


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


def test_who_may_publish_makes_and_changes_topics(guarded: Guarded) -> None:
    publisher, subscriber, stranger = guarded.user("publisher"), guarded.user("subscriber"), guarded.user("stranger")
    assert code(create(subscriber, "field/a")) == code(create(stranger, "field/a")) == "4.03"
    assert code(create(publisher, "other/a")) == "4.03"
    identity = made(publisher, "field/a", {3: 0, 8: b"0"})
    data = f"ps/data/{identity}"
    for device in (subscriber, stranger):
        assert code(device.ask(message.IPATCH, f"ps/{identity}", cbor.encode({6: 1}), pairs=[PUBSUB])) == "4.03"
        assert code(device.ask(message.POST, f"ps/{identity}", cbor.encode({2: KIND}), pairs=[PUBSUB])) == "4.03"
        assert code(device.ask(message.DELETE, f"ps/{identity}")) == code(device.ask(message.DELETE, data)) == "4.03"
        assert publish(device, identity, b"x") == "4.03"
    assert code(publisher.ask(message.GET, data)) == "4.03"
    assert code(stranger.ask(message.GET, data)) == code(subscribe(stranger, identity)) == "4.03"
    assert code(publisher.ask(message.GET, f"ps/{identity}")) == code(subscriber.ask(message.GET, f"ps/{identity}")) == "2.05"
    for method in (message.GET, message.FETCH):
        assert code(stranger.ask(method, f"ps/{identity}", b"\x80")) == "4.03"
    assert links(publisher) == links(subscriber) == [f"</ps/{identity}>"]
    assert links(stranger) == []
    assert subscribe(subscriber, identity).payload == b"0"
    assert publish(publisher, identity, b"1") == "2.04"
    assert [note.payload for note in subscriber.notes()] == [b"1"]


def test_who_may_only_publish_is_told_whether_a_put_has_made_the_value(guarded: Guarded) -> None:
    publisher, stranger = guarded.user("publisher"), guarded.user("stranger")
    assert guarded.parts.access is not None
    refused = dict(guarded.parts.access.refused)
    assert [code(publisher.ask(message.PUT, "mq/field/a", body)) for body in (b"1", b"2")] == ["2.01", "2.04"]
    assert guarded.parts.access.refused == refused, "a question that the client has not asked is nothing to refuse"
    assert code(stranger.ask(message.PUT, "mq/field/a", b"3")) == code(stranger.ask(message.PUT, "mq/field/b", b"3")) == "4.03"


def test_without_an_identity_there_is_nothing(guarded: Guarded) -> None:
    identity = made(guarded.user("publisher"), "field/a", {3: 0, 8: b"0"})
    nobody = guarded.devices.device()
    assert code(create(nobody, "field/b")) == code(nobody.ask(message.GET, "ps")) == "4.01"
    assert code(nobody.ask(message.GET, f"ps/{identity}")) == code(subscribe(nobody, identity)) == "4.01"
    assert publish(nobody, identity, b"1") == "4.01"


def test_data_names_its_publisher(guarded: Guarded) -> None:
    publisher = guarded.user("publisher")
    identity = made(publisher, "field/a", {3: 0, 8: b"0"})
    found: list[object] = []
    for body in (b"0", b"1"):
        guarded.parts.store.state.get("latest", b"field/a", found.append)
        guarded.devices.run(5)
        record = found.pop()
        assert isinstance(record, bytes)
        assert Record(record).body == body
        assert b"HG_PRINCIPAL\x01publisher\x02" in Record(record).properties
        publish(publisher, identity, b"1")


def test_a_subscription_ends_with_the_right_to_it(guarded: Guarded) -> None:
    publisher, subscriber = guarded.user("publisher"), guarded.user("subscriber")
    identity = made(publisher, "field/a", {3: 0, 8: b"0"})
    subscribe(subscriber, identity)
    guarded.records.put_policies("subscriber", [], lambda _: None)
    guarded.devices.run(50)
    assert [code(note) for note in subscriber.notes()] == ["4.03"]
    assert book_of(guarded.parts).subscribers.count == 0
    assert publish(publisher, identity, b"1") == "2.04"
    assert subscriber.notes() == []


def test_a_share_of_topics_is_that_of_a_user_whatever_its_address(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pubsub.quota.TOPICS_MAX", 4)
    publisher, root = guarded.user("publisher"), guarded.devices.device(49_000, credentials=Password("root", b"secret"))
    assert [code(create(publisher, f"field/{number}")) for number in range(3)] == ["2.01", "2.01", "4.29"]
    assert code(create(root, "field/root")) == "2.01"
    assert code(root.ask(message.GET, "ps", pairs=[OBSERVE, (option.ACCEPT, b"\x28")])) == "2.05"
