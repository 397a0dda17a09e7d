"""A refusal ends the connection: no later message of it is stored before the refused one, which its client sends again."""

from __future__ import annotations

import pytest

from domain.client.mqtt_session import UNSURE
from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import PERM_READ, Topic
from protocols.mqtt import status
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from tests.protocols.mqtt.stage import Broker


def broker_with_topics(**options: object) -> Broker:
    """`shut` takes no messages, `open` takes all."""
    broker = Broker(**options)
    made: list[object] = []
    broker.store.metadata.put_topic(Topic("shut", perm=PERM_READ), made.append)
    broker.store.metadata.put_topic(Topic("open"), made.append)
    broker.run()
    assert made == [None, None]
    return broker


def publish(topic: str, number: int, qos: int) -> Publish:
    return Publish(topic.encode(), b"%d" % number, qos, False, False, number if qos else 0, NONE)


def stored(broker: Broker) -> list[bytes]:
    """Bodies in topic `open`."""
    found: list[ReadResult | Failure] = []
    for queue_id in range(8):
        broker.store.log.read(ReadRequest("open", queue_id, 0, 100, 1 << 20), found.append)
    broker.run()
    return sorted(Record(data).body for each in found if isinstance(each, ReadResult) for data in each.records)


@pytest.mark.parametrize("qos", [1, 2])
def test_below_5_nothing_behind_a_refused_message_is_stored(qos: int) -> None:
    broker = broker_with_topics()
    client = broker.joined("c")
    client.put(publish("open", 1, qos), publish("shut", 2, qos), publish("open", 3, qos), publish("open", 4, 0))
    broker.run()
    assert (client.gone, client.reason) == (True, "refused-publish")
    assert stored(broker) == [b"1"]
    again = broker.joined("c", clean=False)
    again.put(publish("open", 3, qos))
    broker.run()
    assert stored(broker) == [b"1", b"3"], "the next connection goes on"


@pytest.mark.parametrize("qos", [1, 2])
def test_below_5_what_waits_for_the_end_of_the_turn_is_refused_before_what_is_behind_it(qos: int) -> None:
    """Each message alone in its command, as those of different topics are: both are appended at the end of the turn."""
    broker = broker_with_topics()
    broker.handler.sending.gathers = True
    refusing = True
    append = broker.store.log.append

    def refuse(messages, done, changes=()):  # type: ignore[no-untyped-def]
        nonlocal refusing
        if refusing and messages[0].topic == "other":
            refusing = False
            done(Failure(ErrorCode.STORE_UNAVAILABLE, "too few replicas are in sync"))
        else:
            append(messages, done, changes)

    broker.store.metadata.put_topic(Topic("other"), lambda _: None)
    broker.run()
    broker.handler.sending._log = broker.handler.sending.gathered._log = Refusing(broker, refuse)  # type: ignore[assignment]
    client = broker.joined("c")
    client.put(publish("other", 1, qos), publish("open", 2, qos))
    broker.run()
    assert not refusing
    assert client.gone
    assert stored(broker) == []


class Refusing:
    """The log, whose appends are refused when a test says so."""

    def __init__(self, broker: Broker, append: object) -> None:
        self._log = broker.store.log
        self.append = append

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


def test_where_each_message_has_an_answer_the_others_are_stored() -> None:
    for version, options in ((5, {}), (4, {"accept_refused_publish": True})):
        broker = broker_with_topics(**options)
        client = broker.joined("c", version)
        client.put(publish("shut", 1, 1), publish("open", 2, 1))
        broker.run()
        assert not client.gone
        assert [packet.packet_id for packet in client.take() if isinstance(packet, Ack)] == [1, 2]
        assert stored(broker) == [b"2"]


def test_what_ends_a_connection_of_5_is_known_to_the_store() -> None:
    assert {code for code in ErrorCode if status.disconnect_code(Failure(code), True)} == UNSURE
