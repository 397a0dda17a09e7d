"""The first minutes of Apache's brokers in controller mode, as ReplicasManager goes through them, over frames."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed
from domain.command import Command
from domain.controller.change import ElectLeader
from domain.controller.request import ChangeGroup, GroupChanged, GroupsFound, HearReplica, QueryGroups
from domain.event import Done, Event
from protocols.remoting.wire.frame import Frame
from tests.protocols.remoting.controller.wire import command_of, decoded, java, reply_to

CLUSTER, GROUP = "main", "broker-a"
NAMES = {"brokerName": GROUP, "clusterName": CLUSTER}


class Desk:
    """A controller without raft: what it answers to frames."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.groups = StoreGroups()
        self.heartbeats = Heartbeats(self.now_ms)

    def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"", connection: object = None) -> Frame:
        command = command_of(java(code, fields, body))
        return decoded(reply_to(command, self.serve(command, connection)))

    def serve(self, command: Command, connection: object) -> Event:
        if isinstance(command, HearReplica):
            self.heartbeats.heard(command.group, command.word, command.timeout_ms, connection, self.now_ms)
            return Done(command.ticket)
        if isinstance(command, QueryGroups):
            known = [each for each in map(self.groups.group, command.groups) if each is not None]
            return GroupsFound(command.ticket, None, [(each, frozenset(each.in_sync)) for each in known])
        assert isinstance(command, ChangeGroup)
        group = self.groups.group(command.change.group)
        answer = self.groups.apply(informed(command.change, group, self.heartbeats, self.now_ms))
        alive = frozenset(each.id for each in self.heartbeats.live(answer.group, self.now_ms)) if answer.group else frozenset()
        return GroupChanged(command.ticket, answer, alive)


class Broker:
    """One broker of Apache's."""

    def __init__(self, desk: Desk, port: int) -> None:
        self.desk, self.address, self.connection = desk, f"10.0.0.1:{port}", object()
        self.id = self.master = self.epoch = self.set_epoch = 0

    def start(self) -> None:
        """Next id, apply for it, register, heartbeat; ask for an election when no leader was named."""
        if not self.id:
            found = fields_of(self.desk.ask(1012, NAMES))
            proof = {"appliedBrokerId": found["nextBrokerId"], "registerCheckCode": f"{self.address};1"}
            assert self.desk.ask(1013, {**NAMES, **proof}).code == 0
            self.id = int(found["nextBrokerId"])
        reply = self.desk.ask(1003, {**NAMES, "brokerId": str(self.id), "brokerAddress": self.address, "invokeTime": "1"})
        assert reply.code == 0
        self.beat()
        if "masterBrokerId" in fields_of(reply):
            self.learn(fields_of(reply))
            return
        reply = self.desk.ask(1002, {**NAMES, "brokerId": str(self.id), "designateElect": "false", "invokeTime": "1"})
        assert reply.code in (0, 2011)
        assert orjson.loads(reply.body)["syncStateSet"]
        self.learn(fields_of(reply))

    def beat(self, offset: int = 0) -> None:
        """Heartbeat."""
        said = {"brokerAddr": self.address, "brokerId": str(self.id), "maxOffset": str(offset), "epoch": str(self.epoch)}
        assert self.desk.ask(904, {**NAMES, **said}, connection=self.connection).code == 0

    def learn(self, fields: Mapping[str, str]) -> None:
        """Take over what the controller says, when it is newer: as changeBrokerRole does."""
        if int(fields["masterEpoch"]) > self.epoch:
            self.epoch, self.master = int(fields["masterEpoch"]), int(fields.get("masterBrokerId", 0))

    def poll(self) -> None:
        """GET_REPLICA_INFO."""
        reply = self.desk.ask(1004, {"brokerName": GROUP})
        self.learn(fields_of(reply))
        self.set_epoch = orjson.loads(reply.body)["syncStateSetEpoch"]

    def alter(self, *ids: int) -> int:
        """ALTER_SYNC_STATE_SET -> response code."""
        body = orjson.dumps({"syncStateSet": ids, "syncStateSetEpoch": self.set_epoch})
        fields = {"brokerName": GROUP, "masterBrokerId": str(self.id), "masterEpoch": str(self.epoch), "invokeTime": "1"}
        return self.desk.ask(1001, fields, body).code


def fields_of(frame: Frame) -> dict[str, str]:
    found = frame.fields()
    assert found is not None
    return found


def test_two_brokers_start_fail_over_and_come_back() -> None:
    desk = Desk()
    first, second = Broker(desk, 10911), Broker(desk, 10921)
    first.start()
    second.start()
    assert (first.id, second.id) == (1, 2)
    assert (first.master, first.epoch, second.master, second.epoch) == (1, 1, 1, 1)
    first.poll()
    assert first.alter(1, 2) == 0

    desk.heartbeats.closed(first.connection, desk.now_ms)
    desk.now_ms += 2_001  # the next heartbeat, a second later as a rule, has not come over another connection
    (due,) = desk.heartbeats.due(desk.groups, desk.now_ms)
    change = informed(ElectLeader(GROUP, leader_epoch=due.leader_epoch), due, desk.heartbeats, desk.now_ms)
    assert desk.groups.apply(change).refusal is None
    second.poll()
    assert (second.master, second.epoch) == (2, 2)
    assert first.alter(1) == 2002, "the old leader is fenced"

    first.start()
    assert (first.id, first.master, first.epoch) == (1, 2, 2), "it has kept its id, and follows"
    second.poll()
    assert second.alter(1, 2) == 0
    found = desk.groups.group(GROUP)
    assert found is not None
    assert found.in_sync == (1, 2)


def test_a_leader_that_starts_again_at_once_gets_another_epoch() -> None:
    desk = Desk()
    first, second = Broker(desk, 10911), Broker(desk, 10921)
    first.start()
    second.start()
    first.poll()
    assert first.alter(1, 2) == 0
    first.beat(100)
    second.beat(90)
    first.start()
    assert first.epoch > 1
    second.poll()
    assert (second.epoch, second.master) == (first.epoch, first.master)
