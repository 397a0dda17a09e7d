"""Three replicas that send heartbeats to one controller, under the clock of a simulation."""

from __future__ import annotations

from domain.controller.group import StoreGroup
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import HearReplica
from tests.controller.groups.sample import NAME, says
from tests.gateway.cluster.controller.test_controller_requests import Broker, World

BEAT_MS, ALIVE_MS = 250, 2_500


class Beating(World):
    """A controller, and the replicas that are connected to it: replica 1 was the first to be heard, so it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers: dict[int, Broker] = {}
        self.connect(1, 2, 3)
        self.pass_by(BEAT_MS)

    def group(self) -> StoreGroup:
        """The store group as the controller knows it."""
        assert self.requests.member is not None
        found = self.requests.member.groups.group(NAME)
        assert found is not None
        return found

    def connect(self, *replicas: int) -> None:
        """Replicas connect, and say so at once."""
        for each in replicas:
            self.brokers[each] = self.broker()
            self.heartbeat(each)

    def lose(self, *replicas: int) -> None:
        """Their connections end."""
        for each in replicas:
            self.brokers.pop(each).connection.end()

    def pass_by(self, milliseconds: int) -> None:
        """Who is connected sends heartbeats."""
        for _ in range(milliseconds // BEAT_MS):
            self.clock.run_for(BEAT_MS)
            for each in self.brokers:
                self.heartbeat(each)

    def die(self, leader: int, *replicas: int) -> None:
        """These processes die: followers lose their connections to the leader, too, and report it."""
        self.lose(leader, *replicas)
        for each in self.brokers:
            self.heartbeat(each, leader)

    def heartbeat(self, replica: int, parted: int = 0) -> None:
        """One heartbeat of a replica."""
        self.brokers[replica].ask(HearReplica(0, NAME, ReplicaWord(says(replica), parted=parted), ALIVE_MS))
