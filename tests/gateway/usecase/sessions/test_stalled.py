"""Members of a shared subscription that do not read get no messages; what no member can take stays in the log."""

from __future__ import annotations

import pytest

from gateway.usecase.topics_and_groups import policy
from tests.gateway.usecase.sessions.shared.test_shared_subscriptions import member, send, sender
from tests.gateway.usecase.sessions.shared.test_strategies import keyed, notify
from tests.protocols.mqtt.stage import Broker, Client, bodies


def stall(client: Client) -> None:
    """Tell the connection that the write buffer is full."""
    client.stalled = client.client_connection.stalled = True


def ease(broker: Broker, client: Client) -> None:
    client.stalled = False
    client.client_connection.became_writable()
    broker.run()


def wanted(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("name", [policy.LEAST, policy.ROUND_ROBIN, policy.STICKY])
def test_a_member_that_does_not_read_is_passed_over(name: str, qos: int) -> None:
    broker = Broker()
    notify(broker, name)
    quick, slow = member(broker, "quick", qos=qos), member(broker, "slow", qos=qos)
    stall(slow)
    send(sender(broker), 20)
    assert bodies(quick.messages()) == wanted(20)
    ease(broker, slow)
    assert slow.messages() == []


@pytest.mark.parametrize("qos", [0, 1])
def test_what_none_can_take_waits_until_one_reads_again(qos: int) -> None:
    broker = Broker()
    members = [member(broker, name, qos=qos) for name in "ab"]
    for each in members:
        stall(each)
    source = sender(broker)
    send(source, 50)
    ease(broker, members[1])
    assert sorted(bodies(members[1].messages()), key=int) == wanted(50)
    send(source, 1, first=50)
    assert bodies(members[1].messages()) == wanted(1, 50)


def test_a_message_at_qos_0_is_not_given_to_a_member_at_qos_1_that_does_not_read() -> None:
    broker = Broker()
    broker.publish("t", b"first")
    slow = member(broker, "slow", qos=1)
    stall(slow)
    source = sender(broker)
    source.publish("t/x", b"only once", qos=0)
    broker.run()
    quick = member(broker, "quick", qos=1)
    broker.run()
    assert bodies(quick.messages()) == [b"only once"]
    ease(broker, slow)
    assert slow.messages() == []


def test_sticky_what_belongs_to_one_that_does_not_read_waits_for_it() -> None:
    broker = Broker()
    broker.publish("t", b"first")
    notify(broker, policy.STICKY)
    first, second = member(broker, "first"), member(broker, "second")
    keyed(broker, "k", 0)
    (owner,) = [each for each in (first, second) if each.messages()]
    other = second if owner is first else first
    stall(owner)
    keyed(broker, "k", 1)
    keyed(broker, "new", 0)
    assert bodies(other.messages()) == [b"new-0"]
    ease(broker, owner)
    assert bodies(owner.messages()) == [b"k-1"]
