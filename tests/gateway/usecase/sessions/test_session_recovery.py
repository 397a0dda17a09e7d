"""Recovery of many stored sessions while the node serves: a client that connects before its session's turn loses nothing."""

from __future__ import annotations

import pytest

from domain.limits import MILLISECOND_NS
from gateway.usecase.sessions import session_recovery
from protocols.mqtt import property as props
from protocols.mqtt.connect import Will
from tests.gateway.usecase.sessions.test_snapshot import outlined
from tests.protocols.mqtt.stage import Broker, Client, bodies, with_number

pytestmark = pytest.mark.usefixtures("near_and_late")

NAMES = [f"d{number}" for number in range(8)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Slices of one key with a long pause, so that the recovery is under way while clients connect."""
    monkeypatch.setattr(session_recovery, "KEYS_PER_SLICE", 1)
    monkeypatch.setattr(session_recovery, "PAUSE_NS", 120 * MILLISECOND_NS)
    return Broker()


def kill(broker: Broker) -> None:
    """A new process, whose recovery has just started."""
    broker.kill()
    assert broker.sessions.recovering


def join(broker: Broker, name: str, will_delay_s: int = -1, fresh: bool = False) -> Client:
    will = None
    if will_delay_s >= 0:
        will = Will(f"wills/{name}", name.encode(), 1, False, with_number(props.WILL_DELAY, will_delay_s))
    client = broker.client(5)
    client.connect(name, clean=fresh, will=will, expiry_s=1_000)
    return client


def present(broker: Broker, name: str) -> Client:
    """Connect before time advances."""
    client = broker.client(5)
    assert client.connect(name, clean=False, expiry_s=1_000).present
    broker.run()
    return client


def settle(broker: Broker) -> None:
    broker.run(3_000)
    assert not broker.sessions.recovering


def test_who_connects_before_its_turn_has_its_session(broker: Broker) -> None:
    for name in NAMES:
        client = join(broker, name)
        assert client.subscribe(f"t/{name}/#", 1) == 1
        client.leave()
    source = broker.client()
    source.connect("source")
    for name in NAMES:
        source.publish(f"t/{name}/x", name.encode())
    kill(broker)
    clients = {name: present(broker, name) for name in reversed(NAMES)}
    for name, client in clients.items():
        assert bodies(client.messages()) == [name.encode()]
    settle(broker)
    for name, client in clients.items():
        client.drop()
        broker.publish("t", b"later", f"originMqttTopic\x01t/{name}/x\x02qosLevel\x011\x02".encode())
        assert bodies(present(broker, name).messages()) == [b"later"]


def test_a_session_made_before_the_walk_reaches_it_is_met_once(broker: Broker) -> None:
    for name in NAMES:
        client = join(broker, name)
        client.subscribe("t/#", 1)
        client.leave()
    kill(broker)
    client = join(broker, "zz")
    client.subscribe("t/zz", 1)
    client.leave()
    settle(broker)
    light = broker.sessions.filter_index.of("t")
    assert {each.pattern: each.users for each in light} == {"t/#": len(NAMES), "t/zz": 1}


@pytest.mark.parametrize("early", [False, True])
def test_wills_of_those_who_were_there_when_the_node_was_killed(broker: Broker, early: bool) -> None:
    """3.1.2.5: published because the connection has ended, although the client reconnects before its session's turn."""
    listener = join(broker, "a-listener")
    listener.subscribe("wills/#", 1)
    for name in NAMES:
        join(broker, name, will_delay_s=0)
    join(broker, "patient", will_delay_s=500)
    kill(broker)
    if early:
        present(broker, NAMES[-1])
    settle(broker)
    assert sorted(bodies(present(broker, "a-listener").messages())) == [name.encode() for name in NAMES]


def test_a_fresh_start_before_its_turn_leaves_nothing(broker: Broker) -> None:
    for name in NAMES:
        client = join(broker, name)
        client.subscribe(f"t/{name}", 1)
        client.leave()
    kill(broker)
    client = broker.client(4)
    assert not client.connect(NAMES[-1], clean=True).present
    client.leave()
    settle(broker)
    assert outlined(broker.store.state, NAMES[-1]) is None
    assert outlined(broker.store.state, NAMES[0]) is not None
    broker.clock.run_for(700_000)
    assert len(broker.sessions.filter_index) == len(NAMES) - 1


def test_lite_queues_that_came_one_after_another_know_all_that_came(broker: Broker) -> None:
    """Messages arrive between two turns: the replay reads up to the end of the log after the last turn."""
    for name in NAMES:
        client = join(broker, name)
        client.subscribe(f"t/{name}", 1)
        client.leave()
    source = broker.client()
    source.connect("source")
    wanted: dict[str, list[bytes]] = {name: [] for name in NAMES}

    def send(body: bytes) -> None:
        for name in NAMES:
            origin = f"originMqttTopic\x01t/{name}\x02qosLevel\x011\x02".encode()
            broker.publish("t", body + name.encode(), origin)
            wanted[name].append(body + name.encode())

    send(b"before ")
    kill(broker)
    send(b"between ")
    assert broker.sessions.recovering
    assert 0 < len(broker.sessions.filter_index) < len(NAMES)
    settle(broker)
    send(b"after ")
    filter_index = broker.sessions.filter_index
    for name in NAMES:
        client = present(broker, name)
        assert sorted(bodies(client.messages())) == sorted(wanted[name])
    assert filter_index.entries == 3 * len(NAMES), "each match once"
