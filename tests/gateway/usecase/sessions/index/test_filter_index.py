"""The filter index: a session that reconnects finds its messages without reading the whole log."""

from __future__ import annotations

import random

import pytest

from domain.client.mqtt_session import MqttSubscription
from domain.filter.path_matching import matches
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from gateway.usecase.sessions.index import filter_index as light
from tests.instructions import instructions
from tests.protocols.mqtt.stage import Broker, Client, bodies
from tests.simulation.kit.clock import VirtualClock


def leave(broker: Broker, client_id: str, *patterns: str) -> None:
    """Make a disconnected session."""
    client = broker.client()
    client.connect(client_id, clean=False)
    for pattern in patterns:
        assert client.subscribe(pattern, 1) == 1
    client.leave()


def returned(broker: Broker, client_id: str) -> Client:
    client = broker.client()
    assert client.connect(client_id, clean=False).present
    broker.run()
    return client


def fill(broker: Broker, count: int, every: int, first: int = 0) -> list[bytes]:
    """Publish messages of many devices; one in `every` is of device 0."""
    source = broker.client()
    source.connect("source")
    found: list[bytes] = []
    for number in range(first, first + count):
        mine = number % every == 0
        source.publish(f"t/{0 if mine else 1 + number % 7}/x", b"%d" % number, packet_id=1 + number % 60_000, wait=False)
        if mine:
            found.append(b"%d" % number)
        if number % 64 == 0:
            broker.run(1)
    broker.run()
    source.leave()
    return found


def sort(found: list[bytes]) -> list[bytes]:
    return sorted(found, key=int)


def test_a_sparse_filter_reads_little_more_than_what_matches() -> None:
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "away", "t/0/+")
    wanted = fill(broker, 2_000, 200)
    before = broker.log.records
    assert bodies(returned(broker, "away").messages()) == wanted
    assert broker.log.records - before <= 2 * len(wanted) + 8


def test_after_a_start_they_are_made_anew_from_the_log() -> None:
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "away", "t/0/+")
    leave(broker, "other", "t/0/x", "t/3/#")
    wanted = fill(broker, 1_000, 100)
    broker.kill()
    broker.run(2_000)
    wanted += fill(broker, 500, 100, 1_000)
    before = broker.log.records
    assert sort(bodies(returned(broker, "away").messages())) == wanted
    assert broker.log.records - before <= 2 * len(wanted) + 16


def test_who_returns_before_they_are_complete_reads_the_log() -> None:
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "away", "t/0/+")
    wanted = fill(broker, 700, 100)
    broker.kill()
    assert bodies(returned(broker, "away").messages()) == wanted


def test_a_filter_shared_by_sessions_is_one_queue_and_goes_with_the_last() -> None:
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "one", "t/0/+")
    leave(broker, "two", "t/0/+")
    assert len(broker.sessions.filter_index) == 1
    fill(broker, 40, 10)
    assert broker.sessions.filter_index.entries == 4
    returned(broker, "one")
    broker.run(light.GRACE_NS // 1_000_000 + 1_000)
    assert len(broker.sessions.filter_index) == 1
    two = returned(broker, "two")
    broker.run(light.GRACE_NS // 1_000_000 + 1_000)
    assert (len(broker.sessions.filter_index), broker.sessions.filter_index.entries) == (0, 0)
    assert len(two.messages()) == 4


def test_a_filter_that_matches_nearly_all_is_given_up() -> None:
    broker = Broker()
    broker.sessions.filter_index.dense_min = 64
    fill(broker, 1, 1)
    leave(broker, "away", "t/#")
    fill(broker, 300, 3)
    assert broker.sessions.filter_index.entries == 0
    assert len(returned(broker, "away").messages()) == 300


def test_there_is_a_bound_on_all_of_them() -> None:
    broker = Broker()
    broker.sessions.filter_index.entries_max = 100
    fill(broker, 1, 1)
    leave(broker, "few", "t/0/+")
    leave(broker, "many", "t/3/+")
    few = fill(broker, 1_000, 50)
    assert broker.sessions.filter_index.entries <= 100
    assert sort(bodies(returned(broker, "few").messages())) == few
    assert len(returned(broker, "many").messages()) > 100


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_missed_and_nothing_comes_twice_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    broker = Broker()
    fill(broker, 1, 1)
    patterns = {f"c{number}": chance.choice(["t/0/+", "t/1/x", "t/+/x", "+/2/x", "t/#"]) for number in range(4)}
    seen: dict[str, list[bytes]] = {}
    for name, pattern in patterns.items():
        leave(broker, name, pattern)
        seen[name] = []
    sent: list[tuple[str, bytes]] = []
    source = broker.client()
    source.connect("source")
    for number in range(200):
        device = chance.randrange(4)
        sent.append((f"t/{device}/x", b"%d" % number))
        source.publish(f"t/{device}/x", b"%d" % number, packet_id=number + 1)
        what = chance.random()
        if what < 0.1:
            name = chance.choice(sorted(patterns))
            client = returned(broker, name)
            seen[name] += bodies(client.messages())
            broker.run(500)
            seen[name] += bodies(client.messages())
            client.leave()
        elif what < 0.13:
            broker.run(300)
            broker.kill()
            source = broker.client()
            source.connect("source")
    for name, pattern in patterns.items():
        seen[name] += bodies(returned(broker, name).messages())
        wanted = [body for path, body in sent if matches(pattern, path)]
        assert sort(seen[name]) == wanted, (name, pattern)


def test_what_the_log_has_lost_is_dropped() -> None:
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "away", "t/0/+")
    fill(broker, 40, 4)
    filter_index = broker.sessions.filter_index
    before = filter_index.entries
    (place,) = [place for place, end in filter_index.ends.items() if filter_index.following([INTEREST], place, 1, 99)[0] < end]
    end = filter_index.ends[place]
    filter_index.trim([INTEREST], place, end - 2)
    assert 0 < filter_index.entries < before
    assert end - 2 <= filter_index.following([INTEREST], place, 1, 99)[0] < end


INTEREST = MqttSubscription("t/0/+", 1)


def test_a_queue_that_ends_before_what_was_indexed_is_read_from_the_log() -> None:
    """At a cluster a broker may lose its newest messages; others come in their place, which the index has not seen."""
    broker = Broker()
    fill(broker, 1, 1)
    leave(broker, "away", "t/0/+")
    fill(broker, 2_000, 200)
    index = broker.sessions.filter_index
    queue = next(iter(index.ends))
    assert index.following([INTEREST], queue, 1, 8)[1] > 0
    before = index.entries
    index.forget(queue)
    assert index.following([INTEREST], queue, 1, 8) == (1, 0)
    assert index.entries < before


def test_a_topic_costs_the_same_however_many_others_have_filters() -> None:
    """A session of a topic leaves, gets a message, its topic is deleted, it returns: beside few others, and beside many."""
    costs: list[list[int]] = []
    for others in (10, 2_000):
        clock = VirtualClock()
        index = light.FilterIndex(clock)

        def message(topic: str) -> None:
            index.arrived(topic, 0, [record.encode(Message(topic, b"x", queue_id=0), 0, 0, 0, LOCAL_HOST)])  # noqa: B023

        for number in range(others):
            index.acquire([MqttSubscription(f"other-{number}/#", 1)])
            message(f"other-{number}")
        mine = [MqttSubscription("mine/#", 1)]
        found = [instructions(lambda: index.acquire(mine)), instructions(lambda: message("mine"))]  # noqa: B023
        found.append(instructions(lambda: index.forget_topic("mine")))  # noqa: B023
        message("mine")
        index.release(mine)
        found.append(instructions(lambda: clock.run_for(light.GRACE_NS / 1_000_000)))  # noqa: B023
        costs.append(found)
        assert ("mine", 0) not in index.ends
        assert len(index) == len(index.ends) == others
    assert all(many <= few for few, many in zip(*costs, strict=True)), costs
