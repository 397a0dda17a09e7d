"""Ranges are read from replicas that follow, as far as these have them, and the rest from the leader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.client.answer import QueueRoute
from gateway.client.client import Client
from gateway.client.request import PULL
from tests.gateway.client.fake_broker import FakeBroker
from tests.gateway.client.test_client import bodies

COUNT = 60
ALL = [b"%d" % at for at in range(COUNT)]


class Scene:
    """A leader with all messages, and a follower with the first `followed` of them."""

    def __init__(self, leader: FakeBroker, follower: FakeBroker) -> None:
        self.leader, self.follower = leader, follower
        leader.followers = {"2": follower.address}
        leader.pull_max = follower.pull_max = 7

    def put(self, followed: int) -> QueueRoute:
        [queue] = self.leader.create("orders")
        self.follower.create("orders")
        for at, body in enumerate(ALL):
            self.leader.put("orders", body)
            if at < followed:
                self.follower.put("orders", body)
        return queue

    def client(self, followers: bool = True) -> Client:
        return Client(self.leader.address, timeout_s=1, retry_s=2, followers=followers)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with FakeBroker() as leader, FakeBroker() as follower:
        yield Scene(leader, follower)


def pulls(broker: FakeBroker) -> int:
    return [code for code, _ in broker.seen].count(PULL)


def test_a_range_that_a_follower_has_is_read_there_alone(scene: Scene) -> None:
    queue = scene.put(COUNT)
    with scene.client() as client:
        assert bodies(client, queue, 0, COUNT) == ALL
        assert client.route("orders").followers == {queue.broker: [scene.follower.address]}
    assert (pulls(scene.leader), pulls(scene.follower)) == (0, 9)


def test_the_leader_is_asked_for_what_a_follower_lacks(scene: Scene) -> None:
    queue = scene.put(30)
    with scene.client() as client:
        assert bodies(client, queue, 10, COUNT) == ALL[10:]
    assert pulls(scene.follower) == 4, "three with messages, and one that says that there are no more"
    assert pulls(scene.leader) == 5


def test_nobody_else_is_asked_unless_it_is_wanted(scene: Scene) -> None:
    queue = scene.put(COUNT)
    with scene.client(followers=False) as client:
        assert bodies(client, queue, 0, COUNT) == ALL
    assert pulls(scene.follower) == 0


@pytest.mark.parametrize("fault", ["refuses", "is silent", "hangs up", "is not there", "speaks another protocol"])
def test_a_follower_that_fails_costs_no_message(scene: Scene, fault: str) -> None:
    queue = scene.put(COUNT)
    if fault == "refuses":
        scene.follower.answers[PULL] = [(14, "it leads by now")]
    elif fault == "is silent":
        scene.follower.silent = True
    elif fault == "hangs up":
        scene.follower.hang_up = 1_000
    elif fault == "is not there":
        scene.leader.followers = {"2": "127.0.0.1:1"}
    else:
        scene.follower.banner = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with scene.client() as client:
        assert bodies(client, queue, 0, COUNT) == ALL
    assert pulls(scene.leader) == 9


def test_a_follower_that_dies_within_a_range_costs_no_message(scene: Scene) -> None:
    queue = scene.put(COUNT)
    with scene.client() as client:
        found = 0
        for pull in client.scan(queue, 0, COUNT):
            found += pull.next_offset > found
            scene.follower.hang_up = 1_000 if found >= 3 else 0
        assert pull.next_offset == COUNT
    assert pulls(scene.leader) >= 5
