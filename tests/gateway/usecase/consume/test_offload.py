"""The leader sends readers that are far behind to replicas that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from domain.admin.replica import ReplicaState
from domain.admin.topic import PutTopic
from domain.command import Pull
from domain.controller.serving import ServingWord
from domain.event import Pulled
from domain.nameserver.route import ClusterFound, QueryCluster, QueryRoute, RouteFound
from domain.replication.reads import PulledBy
from domain.topic.topic import Topic
from gateway.usecase.consume.offload import Offload
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.tools.own_routes import OwnRoutes
from nameserver.stored_settings import StoredSettings
from nameserver.table import RouteTable
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder


@dataclass
class Replica:
    """A leader whose followers have the log up to `end`."""

    end: int = 1 << 40
    asked: list[int] = field(default_factory=list)

    def state(self) -> ReplicaState:
        return ReplicaState(1, True, "", self.end, self.end)

    def readers(self) -> Mapping[int, str]:
        return {3: "10.0.0.3:10913"}

    def gates(self) -> Mapping[int, str]:
        return {}

    def doors(self) -> Mapping[int, str]:
        return {}

    def serves(self, word: ServingWord | None) -> None:
        """ReplicaView.serves."""

    def reader_for(self, position: int, behind_bytes: int) -> int:
        self.asked.append(position)
        return 3 if self.end - position > behind_bytes else 0


@pytest.fixture
def replica() -> Replica:
    return Replica()


@pytest.fixture
def place(bench: Bench, replica: Replica) -> Bench:
    bench.ask(PutTopic(1, Topic("T", 1, 1)))
    bench.handler.pulling.offload(Offload(replica, 1_000))
    bench.send("T", "a", "b")
    return bench


def pull(place: Bench, recorder: EventRecorder | None = None) -> Pulled:
    (event,) = place.ask(Pull(1, "readers", "T", 0, 0, 8, 1 << 20), recorder)
    assert isinstance(event, Pulled)
    return event


def test_a_reader_that_is_far_behind_is_told_who_has_the_rest(place: Bench) -> None:
    event = pull(place)
    assert isinstance(event, PulledBy)
    assert (event.reader, len(event.records)) == (3, 2)


def test_a_reader_near_the_end_stays(place: Bench, replica: Replica) -> None:
    replica.end = 0
    assert type(pull(place)) is Pulled
    assert replica.asked, "its place was looked at"


def test_a_client_of_a_gateway_stays(place: Bench) -> None:
    recorder = EventRecorder()
    recorder.connection.forwarded = True
    assert type(pull(place, recorder)) is Pulled


def test_the_end_of_a_queue_is_the_leaders(place: Bench) -> None:
    (event,) = place.ask(Pull(1, "readers", "T", 0, 2, 8, 1 << 20))
    assert type(event) is Pulled


def test_routes_list_followers_as_slaves_but_not_to_clients_of_gateways(place: Bench, replica: Replica) -> None:
    handler, store = place.handler, place.store
    own = OwnRoutes("c1", "b-a", store.metadata, handler.rights._policy, replica)
    names = NameServer(RouteTable(100), StoredSettings(store.state), place.clock, handler.questions, own)
    handler.add(names)
    near, far = EventRecorder(), EventRecorder()
    far.connection.forwarded = True
    (route,) = place.ask(QueryRoute(1, "T"), near)
    assert isinstance(route, RouteFound)
    assert route.brokers[0].addresses == {0: "", 3: "10.0.0.3:10913"}
    (route,) = place.ask(QueryRoute(1, "T"), far)
    assert isinstance(route, RouteFound)
    assert route.brokers[0].addresses == {0: ""}
    (cluster,) = place.ask(QueryCluster(1), near)
    assert isinstance(cluster, ClusterFound)
    assert cluster.brokers[0].addresses == {0: "", 3: "10.0.0.3:10913"}
