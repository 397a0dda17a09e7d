"""Sessions as clients see them, over the real use cases and store: what is stored, how long, and how often it is delivered."""

from __future__ import annotations

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connect, Disconnect
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from tests.connection_driver import StrictDriver
from tests.late_store import LATENESS
from tests.protocols.mqtt.stage import Broker, Client, away, back, bodies, with_number
from tests.stored_state import pairs

pytestmark = pytest.mark.usefixtures("near_and_late")


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_for_an_absent_session_wait_in_the_log(kill: bool, version: int, qos: int) -> None:
    broker = Broker()
    away(broker, version, qos)
    sender = broker.client(version)
    sender.connect("sender")
    for number in range(5):
        sender.publish("t/x", b"%d" % number, qos, packet_id=number + 1)
    sender.publish("other", b"no", qos, packet_id=9)
    if kill:
        broker.kill()
    client = back(broker, version)
    assert bodies(client.messages()) == [b"0", b"1", b"2", b"3", b"4"]
    client.leave()
    assert back(broker, version).messages() == []


def test_what_was_there_before_the_subscription_is_not_delivered() -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"before", packet_id=1)
    away(broker)
    sender.publish("t/x", b"after", packet_id=2)
    broker.kill()
    assert bodies(back(broker).messages()) == [b"after"]


def test_a_filter_that_begins_with_a_wildcard_waits_too() -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    sender.publish("a/x", b"before", packet_id=1)
    broker.run(1000)
    away(broker, pattern="+/x")
    sender.publish("a/x", b"1", packet_id=2)
    sender.publish("b/x", b"2", packet_id=3)
    sender.publish("$c/x", b"3", packet_id=4)
    broker.kill()
    client = back(broker)
    assert sorted(bodies(client.messages())) == [b"1", b"2"]
    client.leave()
    assert back(broker).messages() == []


def test_unacknowledged_messages_come_again_first_and_marked() -> None:
    """4.4: in their original order, with their packet identifiers, DUP set."""
    broker = Broker()
    away(broker)
    sender = broker.client()
    sender.connect("sender")
    for number in range(3):
        sender.publish("t/x", b"%d" % number, packet_id=number + 1)
    client = back(broker)
    first = client.messages(answer=False)
    assert bodies(first) == [b"0", b"1", b"2"]
    client.put(Ack(4, first[1].packet_id))
    client.drop()
    sender.publish("t/x", b"3", packet_id=4)
    again = back(broker).messages()
    assert [(got.body, got.dup) for got in again] == [(b"0", True), (b"2", True), (b"3", False)]
    assert [got.packet_id for got in again[:2]] == [first[0].packet_id, first[2].packet_id]


@pytest.mark.parametrize("kill", [False, True])
def test_exactly_once_out_survives_a_lost_connection_at_every_step(kill: bool) -> None:
    broker = Broker()
    away(broker, qos=2)
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"once", qos=2)

    def lose(client: Client) -> None:
        client.drop()
        if kill:
            broker.kill()

    client = back(broker)
    (first,) = client.messages(answer=False)
    assert not first.dup
    lose(client)
    client = back(broker)
    (second,) = client.messages(answer=False)
    assert (second.dup, second.packet_id) == (True, first.packet_id)
    client.put(Ack(5, second.packet_id))
    assert [(ack.kind, ack.packet_id) for ack in client.take() if isinstance(ack, Ack)] == [(6, first.packet_id)]
    lose(client)
    client = back(broker)
    (rel,) = client.take()
    assert isinstance(rel, Ack)
    assert (rel.kind, rel.packet_id) == (6, first.packet_id)
    client.put(Ack(7, first.packet_id))
    broker.run(1000)
    lose(client)
    assert back(broker).take() == []


def test_a_kill_between_pubcomp_and_checkpoint_does_not_deliver_twice() -> None:
    broker = Broker()
    away(broker, qos=2)
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"once", qos=2)
    client = back(broker)
    assert bodies(client.messages()) == [b"once"]
    broker.kill()
    assert not [packet for packet in back(broker).take() if isinstance(packet, Publish)]


@pytest.mark.parametrize("kill", [False, True])
def test_exactly_once_in_survives_a_lost_connection(kill: bool) -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener", clean=False)
    listener.subscribe("t/#", 2)
    listener.leave()
    sender = broker.client()
    sender.connect("sender", clean=False)
    sender.publish("t/x", b"once", qos=2, packet_id=5)
    sender.drop()
    if kill:
        broker.kill()
    sender = broker.client()
    assert sender.connect("sender", clean=False).present
    sender.publish("t/x", b"once", qos=2, packet_id=5, dup=True)
    sender.put(Ack(6, 5))
    assert [(ack.kind, ack.packet_id) for ack in sender.take() if isinstance(ack, Ack)] == [(5, 5), (7, 5)]
    sender.publish("t/x", b"another", qos=2, packet_id=5)
    listener = broker.client()
    listener.connect("listener", clean=False)
    assert bodies(listener.messages()) == [b"once", b"another"]


def test_a_repetition_shares_the_fate_of_a_copy_that_is_not_stored_yet() -> None:
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender", clean=False, expiry_s=100)
    broker.disk.hold_syncs = True
    sender.publish("t/x", b"once", qos=2, packet_id=5)
    assert sender.take() == []
    sender.publish("t/x", b"once", qos=2, packet_id=5, dup=True)
    assert sender.take() == []
    broker.disk.hold_syncs = False
    broker.disk.release()
    broker.run(100)
    assert [ack.code for ack in sender.take() if isinstance(ack, Ack)] == [0, 0]


def test_take_over_ends_the_older_connection() -> None:
    broker = Broker()
    old = broker.client(5)
    old.connect("same")
    new = broker.client(5)
    new.connect("same")
    (goodbye,) = old.take()
    assert isinstance(goodbye, Disconnect)
    assert goodbye.code == 0x8E
    assert (old.gone, old.reason, new.gone) == (True, "taken-over", False)
    new.subscribe("t")
    broker.publish("t", b"x")
    assert bodies(new.messages()) == [b"x"]


def test_a_client_that_left_while_its_session_was_loaded_takes_over_nothing() -> None:
    """Beside its store a session is loaded at once, so there the second client has taken over before it leaves."""
    broker = Broker()
    away(broker)
    first, second = broker.client(), broker.client()
    for client in (first, second):
        client.put(Connect(4, "away", False, 0, None, None, None, NONE), wait=False)
    second.drop()
    assert first.gone is not LATENESS.late
    assert broker.sessions.attached == LATENESS.late


@pytest.mark.parametrize("after_ms", [0.0, 0.3, 0.6, 1.5])
def test_a_connection_that_is_lost_before_it_is_accepted_costs_no_message(after_ms: float) -> None:
    """Which queues lag is not known then: none of them counts as delivered."""
    broker = Broker()
    broker.publish("t", b"before")
    away(broker)
    broker.publish("t", b"waits")
    client = broker.client()
    client.put(Connect(4, "away", False, 0, None, None, None, NONE), wait=False)
    broker.run(after_ms)
    client.drop()
    assert bodies(back(broker).messages()) == [b"waits"]


@pytest.mark.parametrize("count", [3, 5, 9])
@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("first", ["t", "t/no"])
def test_a_topic_that_is_made_anew_is_delivered_from_its_first_message(count: int, connected: bool, first: str) -> None:
    """The session's position is in a queue that is no more."""
    broker = Broker()
    admin = ClientConnection("remoting", StrictDriver())

    def made() -> None:
        broker.handler.handle(admin, PutTopic(1, Topic("t", 1, 1)))
        broker.run()

    made()
    client = broker.client()
    client.connect("sender")
    for number in range(5):
        client.publish("t/x", b"old", packet_id=1 + number)
    away(broker, pattern="t/x")
    listener = back(broker)
    client.publish("t/x", b"last", packet_id=7)
    assert bodies(listener.messages()) == [b"last"]
    if not connected:
        listener.leave()
    broker.handler.handle(admin, DeleteTopic(2, "t"))
    broker.run()
    made()
    client.publish(first, b"", packet_id=8)
    for number in range(count):
        client.publish("t/x", b"%d" % number, packet_id=9 + number)
    if not connected:
        listener = back(broker)
    assert bodies(listener.messages()) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("window", [2, 20])
def test_what_a_resumed_session_reads_before_it_is_told_of_it_comes_once(before: int, count: int, window: int) -> None:
    """CONNECT and the messages are in one commit: it is answered, and the session reads them, before they are told."""
    broker = Broker()
    broker.handler.handle(ClientConnection("remoting", StrictDriver()), PutTopic(1, Topic("t", 1, 1)))
    away(broker, version=5, qos=2)
    sender = broker.client()
    sender.connect("sender")
    for number in range(before):
        sender.publish("t/x", b"before", qos=2, packet_id=1 + number)
        sender.put(Ack(6, 1 + number))
    listener = back(broker, version=5)
    assert bodies(listener.messages()) == [b"before"] * before
    listener.leave()
    listener = broker.client(version=5)
    properties = with_number(props.RECEIVE_MAXIMUM, window)
    properties.numbers[props.SESSION_EXPIRY] = 1000
    listener.put(Connect(5, "away", False, 0, None, None, None, properties), wait=False)
    sender.put(*(Publish(b"t/x", b"%d" % each, 2, False, False, 11 + each, NONE) for each in range(count)), wait=False)
    broker.run()
    assert bodies(listener.messages()) == [b"%d" % each for each in range(count)]


def test_clean_start_forgets() -> None:
    broker = Broker()
    away(broker)
    client = broker.client()
    assert not client.connect("away", clean=True).present
    client.leave()
    client = broker.client()
    assert not client.connect("away", clean=False).present
    broker.publish("t", b"x")
    assert client.messages() == []


def test_session_expiry_ends_it() -> None:
    broker = Broker()
    for wait_ms, present in ((3_000, True), (6_000, False)):
        client = broker.client(5)
        client.connect("c", clean=True, expiry_s=5)
        client.leave()
        broker.run(wait_ms)
        client = broker.client(5)
        assert client.connect("c", clean=False, expiry_s=5).present is present


def test_disconnect_can_change_the_expiry() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", clean=True, expiry_s=1000)
    client.leave(properties=with_number(props.SESSION_EXPIRY, 0))
    client = broker.client(5)
    assert not client.connect("c", clean=False, expiry_s=0).present
    client.leave(properties=with_number(props.SESSION_EXPIRY, 5))
    assert client.reason == "protocol-error"


def test_a_session_that_ended_is_not_resumed_by_who_comes_at_once() -> None:
    """Its records are still in the store then."""
    broker = Broker()
    client = broker.client(5)
    client.connect("c", clean=True, expiry_s=1000)
    client.put(Disconnect(0, with_number(props.SESSION_EXPIRY, 0)), wait=False)
    assert not broker.client(5).connect("c", clean=False, expiry_s=1000).present


def test_an_expired_session_leaves_nothing_in_the_store() -> None:
    broker = Broker()
    client = broker.client(5)
    client.connect("c", clean=True, expiry_s=5)
    client.subscribe("t/#", 2)
    sender = broker.client()
    sender.connect("s")
    sender.publish("t/x")
    client.leave()
    assert list(pairs(broker.store.state, "session", b""))
    broker.kill()
    broker.run(10_000)
    assert list(pairs(broker.store.state, "session", b"")) == []


def test_receive_maximum_of_the_client_is_kept_and_the_rest_follows() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", properties=with_number(props.RECEIVE_MAXIMUM, 2))
    listener.subscribe("t/#")
    sender = broker.client(5)
    sender.connect("sender")
    for number in range(7):
        sender.publish("t/x", b"%d" % number, packet_id=number + 1)
    first = listener.messages(answer=False)
    assert bodies(first) == [b"0", b"1"]
    listener.put(Ack(4, first[0].packet_id))
    assert bodies(listener.messages(answer=False)) == [b"2"]
    listener.put(Ack(4, first[1].packet_id), Ack(4, 3))
    assert bodies(listener.messages()) == [b"3", b"4", b"5", b"6"]
    sender.publish("t/x", b"live", packet_id=8)
    assert bodies(listener.messages()) == [b"live"]


def test_expired_messages_are_not_delivered_late() -> None:
    broker = Broker()
    away(broker, 5)
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t/x", b"short", packet_id=1, properties=with_number(props.MESSAGE_EXPIRY, 1))
    sender.publish("t/x", b"long", packet_id=2, properties=with_number(props.MESSAGE_EXPIRY, 6))
    broker.run(3_000)
    (got,) = back(broker, 5).messages()
    assert broker.sessions.lost == {"expired": 1, "gone": 0, "too-large": 0, "not-allowed": 0}
    assert got.body == b"long"
    assert 0 < got.properties.numbers[props.MESSAGE_EXPIRY] < 6


def test_a_long_absence_is_caught_up_through_a_narrow_window() -> None:
    """Several reads, a window smaller than a read, messages of other topics, and new messages while the session catches up."""
    broker = Broker()
    away(broker, 5)
    sender = broker.client(5)
    sender.connect("sender")
    for batch in range(4):
        numbers = range(batch * 200, batch * 200 + 200)
        sender.put(*(Publish(b"t/x" if n % 2 else b"t2/x", b"%d" % n, 1, False, False, n % 500 + 1, NONE) for n in numbers))
    client = broker.client(5)
    wanted = with_number(props.RECEIVE_MAXIMUM, 7)
    wanted.numbers[props.SESSION_EXPIRY] = 1000
    client.connect("away", clean=False, properties=wanted)
    got: list[bytes] = []
    for step in range(100):
        batch_of = client.messages(answer=False)
        assert len(batch_of) <= 7
        got += bodies(batch_of)
        if step == 10:
            sender.publish("t/x", b"live", packet_id=501)
        client.put(*(Ack(4, message.packet_id) for message in batch_of))
    assert got == [b"%d" % n for n in range(1, 800, 2)] + [b"live"]
    sender.publish("t/x", b"later", packet_id=502)
    assert bodies(client.messages()) == [b"later"]


def test_a_topic_made_anew_is_delivered_from_its_beginning() -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("t/#")
    sender = broker.client()
    sender.connect("sender")
    for number in range(3):
        sender.publish("t/x", b"old", packet_id=number + 1)
    assert len(listener.messages()) == 3
    broker.store.metadata.delete_topic("t", lambda _: None)
    broker.run()
    for number in range(2):
        sender.publish("t/x", b"new", packet_id=number + 1)
    assert bodies(listener.messages()) == [b"new", b"new"]


def test_messages_from_before_a_filter_was_raised_above_qos_0_do_not_come_later() -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    sender.publish("t/x", b"before", packet_id=1)
    client = broker.client()
    client.connect("away", clean=False)
    client.subscribe("t/#", 0)
    sender.publish("t/x", b"low", packet_id=1)
    assert bodies(client.messages()) == [b"low"]
    client.subscribe("t/#", 1)
    sender.publish("t/x", b"high", packet_id=2)
    broker.kill()
    assert bodies(back(broker).messages()) == [b"high"]


def test_latest_values_are_bounded() -> None:
    broker = Broker()
    broker.policy.latest_max = 2
    client = broker.client(5)
    client.connect("c")

    def code(path: str, body: bytes) -> int:
        client.publish(path, body, retain=True)
        (answer,) = client.take()
        assert isinstance(answer, Ack)
        return answer.code

    assert [code("t/1", b"a"), code("t/2", b"b"), code("t/3", b"c"), code("t/2", b"d")] == [0, 0, 0x97, 0]
    assert [code("t/1", b""), code("t/3", b"e")] == [0, 0]
    broker.policy.latest_bytes_max = 2_000
    assert [code("t/3", b"x" * 3_000), code("t/3", b"x")] == [0x97, 0]
    listener = broker.client(5)
    listener.connect("l")
    listener.subscribe("#")
    assert sorted(bodies(listener.messages())) == [b"d", b"x"]


def test_a_session_that_is_resumed_is_told_of_and_a_new_one_is_not() -> None:
    broker = Broker()
    told: list[str] = []
    broker.attached.follow_resumed(lambda connection: told.append(connection.client_id))
    for clean in (True, False):
        client = broker.client(5)
        client.connect("sensor", clean=clean, expiry_s=100)
        client.drop()
    assert told == ["sensor"]
