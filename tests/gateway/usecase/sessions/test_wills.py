"""Wills: when they are published, and when not."""

from __future__ import annotations

import pytest

from protocols.mqtt import property as props
from protocols.mqtt.connect import Will
from protocols.mqtt.property import NONE
from tests.protocols.mqtt.stage import Broker, away, back, bodies, with_number

pytestmark = pytest.mark.usefixtures("near_and_late")


def test_will_on_a_lost_connection_but_not_after_goodbye() -> None:
    broker = Broker()
    listener = broker.client()
    listener.connect("listener")
    listener.subscribe("wills/#")
    for word, expected in (("drop", [b"gone"]), ("leave", [])):
        client = broker.client()
        client.connect("c", will=Will("wills/c", b"gone", 1, False, NONE))
        client.drop() if word == "drop" else client.leave()
        broker.run()
        assert bodies(listener.messages()) == expected


def test_disconnect_with_will_message() -> None:
    """3.14.2.1: reason code 0x04."""
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("wills/#")
    client = broker.client(5)
    client.connect("c", will=Will("wills/c", b"gone", 1, False, NONE))
    client.leave(4)
    assert bodies(listener.messages()) == [b"gone"]


@pytest.mark.parametrize("kill", [False, True])
def test_will_delay_waits_and_is_cancelled_by_a_return(kill: bool) -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", clean=False, expiry_s=10_000)
    listener.subscribe("wills/#")
    listener.leave()

    def lose() -> None:
        client = broker.client(5)
        will = Will("wills/c", b"gone", 1, False, with_number(props.WILL_DELAY, 3))
        client.connect("c", clean=False, will=will, expiry_s=100)
        if kill:
            broker.kill()
        else:
            client.drop()

    def heard() -> list[bytes]:
        client = broker.client(5)
        client.connect("listener", clean=False, expiry_s=10_000)
        got = bodies(client.messages())
        client.leave()
        return got

    lose()
    broker.run(2_000)
    lose()
    broker.run(2_000)
    assert heard() == []
    broker.run(2_000)
    assert heard() == [b"gone"]
    broker.run(10_000)
    assert heard() == []


def test_a_will_that_is_due_while_its_session_is_being_stored_is_published() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener", clean=False, expiry_s=10_000)
    listener.subscribe("wills/#")
    client = broker.client(5)
    client.connect("c", clean=False, will=Will("wills/c", b"gone", 1, False, with_number(props.WILL_DELAY, 2)), expiry_s=3)
    broker.run(100)
    broker.disk.hold_syncs = True
    client.drop()
    broker.run(4_000)
    assert bodies(listener.messages()) == []
    broker.disk.release()
    broker.run(2_000)
    assert bodies(listener.messages()) == [b"gone"]
    client = broker.client(5)
    assert not client.connect("c", clean=False, expiry_s=3).present


def test_will_of_a_durable_session_survives_the_server() -> None:
    broker = Broker()
    away(broker, pattern="wills/#")
    client = broker.client()
    client.connect("c", clean=False, will=Will("wills/c", b"gone", 1, True, NONE))
    broker.kill()
    broker.run(100)
    broker.kill()
    broker.run(100)
    assert bodies(back(broker).messages()) == [b"gone"]


@pytest.mark.parametrize("expiry_s", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_the_life_of_a_kept_will_is_any_that_can_be_said(expiry_s: int) -> None:
    broker = Broker()
    client = broker.client(5)
    will = Will("wills/c", b"gone", 1, True, with_number(props.MESSAGE_EXPIRY, expiry_s))
    client.connect("c", clean=False, will=will, expiry_s=100)
    broker.kill()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("wills/#")
    left = [message.properties.numbers[props.MESSAGE_EXPIRY] for message in listener.messages()]
    assert [expiry_s - seconds <= 1 for seconds in left] == ([True] if expiry_s else [])
