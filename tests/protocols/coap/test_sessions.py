"""Peers inside DTLS: a session is a peer of its own, whatever its address was before, and is forgotten when it ends."""

from __future__ import annotations

from domain.access.access import Password
from domain.address import host_bytes
from protocols.adapter import Peer
from protocols.coap.message import message, option
from tests.protocols.coap.stage import Stage, values


def session(number: int, host: str = "192.0.2.1") -> Peer:
    """The peer of a session of one address and port."""
    return Peer(
        host, number, host_bytes(host, 40_000), tls=True, credentials=Password("u", b"p"), source=host_bytes(host, number)
    )


def test_message_ids_of_two_sessions_are_apart() -> None:
    stage = Stage()
    assert stage.request(message.POST, "mq/s/a", b"1", mid=7, source=session(70_001))[0].code == message.CREATED
    assert stage.request(message.POST, "mq/s/a", b"2", mid=7, source=session(70_002))[0].code == message.CREATED
    again = stage.request(message.POST, "mq/s/a", b"2", mid=7, source=session(70_002))
    assert [len(stage.log), again[0].code] == [2, message.CREATED]
    assert stage.endpoint.counts["duplicate"] == 1


def test_answers_go_to_the_session_and_messages_keep_the_address() -> None:
    stage = Stage()
    stage.carry_out(stage.endpoint.receive(stage.build(message.POST, "mq/s/a", b"1"), session(70_001), stage.now))
    ((_, address),) = stage.endpoint.outgoing()
    assert address == ("192.0.2.1", 70_001)
    assert stage.log[0][0].born_host == host_bytes("192.0.2.1", 40_000)


def test_a_session_has_no_limit_of_amplification() -> None:
    stage = Stage()
    stage.publish("s/big", b"x" * 1_000, retain=True)
    (value,) = stage.request(message.GET, "mq/s/big", source=session(70_001))
    assert len(value.payload) == 1_000


def test_a_session_that_ends_is_forgotten() -> None:
    stage = Stage()
    one = session(70_001)
    stage.request(message.GET, "mq/s/live", pairs=[(option.OBSERVE, b"")], source=one)
    stage.publish("s/live", b"1")
    assert values(stage.out()[0], option.OBSERVE)
    assert stage.endpoint.observations.count == 1
    stage.carry_out(stage.endpoint.forget(one, stage.now))
    assert stage.endpoint.observations.count == 0
    assert not stage.watches
    stage.publish("s/live", b"2")
    assert stage.advance(300) == []
    assert stage.endpoint.forget(one, stage.now) == ()


def test_a_lease_in_an_answer_that_was_not_confirmed_ends_with_the_session() -> None:
    stage = Stage()
    one = session(70_001)
    stage.queue = [stage.publish("s", b"work")]
    stage.hold = True
    stage.request(message.GET, "mq/s", query=["group=g"], source=one)
    stage.advance(2)  # the empty ACK
    stage.hold = False
    stage.play()
    assert len(stage.leased) == 1
    stage.carry_out(stage.endpoint.forget(one, stage.now))
    stage.settle()
    assert not stage.leased
